//! Files of a copy between machines that are kept in part, and go on where they were.

use std::ffi::OsStr;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gush_tree::remote::{EntryMetadata, Folder, Names, UnfinishedFile};
use gush_tree::{CopyOptions, Error, ModeRule};

const MIB: u64 = 1 << 20;
/// Five ranges, of which the last one is short.
const SIZE_BYTES: u64 = 17 * MIB + 3;
const NAME: &str = "file";
const HIDDEN: &str = ".file.gush-partial";

fn options() -> CopyOptions {
    let mut options = CopyOptions::default();
    options.resume = true;
    options.preserve.mode = ModeRule::Keep;
    options
}

/// A fork of this process would hold the locks of other tests.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn metadata() -> EntryMetadata {
    EntryMetadata { mode: 0o100_640, size_bytes: SIZE_BYTES, ..EntryMetadata::default() }
}

fn resume(dir: &Path, source: &[u8]) -> Result<UnfinishedFile, Error> {
    let folder = Folder::base(dir)?;
    UnfinishedFile::resume_or_begin(&folder, OsStr::new(NAME), metadata(), source, &options())
}

/// Begins a copy that resumes nothing.
fn begin(dir: &Path) {
    let folder = Folder::base(dir).unwrap();
    drop(
        UnfinishedFile::begin(&folder, OsStr::new(NAME), metadata(), &CopyOptions::default())
            .unwrap(),
    );
}

fn content() -> Vec<u8> {
    let mut content = vec![0; SIZE_BYTES as usize];
    let pages = content.chunks_mut(4096).enumerate();
    pages.for_each(|(number, page)| page.fill((number % 251) as u8 + 1));
    content
}

fn write(unfinished: &UnfinishedFile, part: Range<u64>) {
    let file = File::from(unfinished.fd().try_clone_to_owned().unwrap());
    let bytes = &content()[part.start as usize..part.end as usize];
    file.write_all_at(bytes, part.start).unwrap();
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn only(range: Range<u64>) -> Vec<Range<u64>> {
    std::iter::once(range).collect()
}

#[test]
fn a_killed_copy_is_resumed_with_the_ranges_that_had_arrived() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let (reads, writes) = rustix::pipe::pipe().unwrap();
    let child = gush_test::forked(|| {
        let unfinished = resume(dir.path(), b"source").unwrap();
        // Noted in parts, and not in their order.
        write(&unfinished, 4 * MIB..12 * MIB);
        for part in [6 * MIB..12 * MIB, 4 * MIB..5 * MIB, 5 * MIB..6 * MIB] {
            unfinished.has_arrived(part);
        }
        write(&unfinished, 16 * MIB..SIZE_BYTES);
        unfinished.has_arrived(16 * MIB..SIZE_BYTES);
        // Of these a part is written, and more is written than noted.
        write(&unfinished, 0..2 * MIB);
        unfinished.has_arrived(0..MIB - 1);
        rustix::io::write(&writes, b"x").unwrap();
        std::thread::sleep(std::time::Duration::from_secs(3600));
    });
    assert_eq!(rustix::io::read(&reads, &mut [0]).unwrap(), 1);
    let busy = resume(dir.path(), b"source").unwrap_err();
    assert!(busy.to_string().contains("another copy writes to"), "{busy}");
    child.kill();

    assert_eq!(names(dir.path()), [HIDDEN]);
    let mode = std::fs::metadata(dir.path().join(HIDDEN)).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    let unfinished = resume(dir.path(), b"source").unwrap();
    assert_eq!(unfinished.missing_ranges(), [MIB - (256 << 10)..4 * MIB, 12 * MIB..16 * MIB]);
    let mut left = [1];
    let file = File::from(unfinished.fd().try_clone_to_owned().unwrap());
    file.read_exact_at(&mut left, MIB).unwrap();
    assert_eq!(left, [0], "a hole would not be one");
    for part in unfinished.missing_ranges() {
        write(&unfinished, part.clone());
        unfinished.has_arrived(part);
    }
    assert!(unfinished.missing_ranges().is_empty());
    unfinished.set_size().unwrap();
    let digest = unfinished.digest().unwrap();
    assert!(unfinished.finish(&options(), &mut ()).unwrap());
    assert_eq!(names(dir.path()), [NAME]);
    let made = dir.path().join(NAME);
    assert!(std::fs::read(&made).unwrap() == content());
    assert_eq!(digest, gush::digest_of(&File::open(&made).unwrap()).unwrap());
    assert_eq!(std::fs::metadata(&made).unwrap().permissions().mode() & 0o7777, 0o640);
}

#[test]
fn another_source_or_a_file_given_up_is_begun_anew() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let all = only(0..SIZE_BYTES);
    let begun = || {
        let unfinished = resume(dir.path(), b"one").unwrap();
        write(&unfinished, 0..8 * MIB);
        unfinished.has_arrived(0..8 * MIB);
        unfinished
    };
    drop(begun());
    assert_eq!(resume(dir.path(), b"one").unwrap().missing_ranges(), only(8 * MIB..SIZE_BYTES));
    let other = resume(dir.path(), b"other").unwrap();
    assert_eq!(other.missing_ranges(), all);
    let mut byte = [1];
    File::from(other.fd().try_clone_to_owned().unwrap()).read_exact_at(&mut byte, 7).unwrap();
    assert_eq!(byte, [0]);
    drop(other);
    begun().discard();
    assert_eq!(names(dir.path()), [""; 0]);
    assert_eq!(resume(dir.path(), b"one").unwrap().missing_ranges(), all);
}

#[test]
fn what_is_no_partial_file_of_this_user_is_neither_written_nor_removed() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let hidden = dir.path().join(HIDDEN);
    let other = dir.path().join("other");
    let refuses = || {
        let error = resume(dir.path(), b"one").unwrap_err();
        begin(dir.path());
        std::fs::symlink_metadata(&hidden).unwrap();
        std::fs::remove_file(&hidden).unwrap();
        error.to_string()
    };
    std::fs::write(&hidden, [b'x'; 100]).unwrap();
    assert!(refuses().contains("no partial file of gush"));
    std::fs::write(&other, "").unwrap();
    std::os::unix::fs::symlink("other", &hidden).unwrap();
    assert!(refuses().contains("cannot open"));
    std::fs::hard_link(&other, &hidden).unwrap();
    assert!(refuses().contains("no partial file of gush"));
    assert_eq!(std::fs::read(&other).unwrap(), b"");
    std::fs::write(&hidden, "").unwrap();
    match std::os::unix::fs::chown(&hidden, Some(1), None) {
        Ok(()) => assert!(refuses().contains("not a file of this user")),
        Err(_) => gush_test::skipped("only root can give files away"),
    }
}

#[test]
fn a_name_of_the_source_is_that_of_no_partial_file() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let unfinished = resume(dir.path(), b"source").unwrap();
    std::fs::write(dir.path().join("new"), "note").unwrap();
    std::fs::rename(dir.path().join("new"), dir.path().join(HIDDEN)).unwrap();
    let refused = unfinished.finish(&options(), &mut ()).unwrap_err().to_string();
    assert!(refused.contains("partial file was renamed, replaced or removed"), "{refused}");
    // Empty, it could be a partial file.
    std::fs::write(dir.path().join(HIDDEN), "").unwrap();
    let folder = Folder::base(dir.path()).unwrap();
    folder.takes(OsStr::new(HIDDEN));
    let begin = || {
        UnfinishedFile::resume_or_begin(
            &folder,
            OsStr::new(NAME),
            metadata(),
            b"source",
            &options(),
        )
    };
    begin().unwrap().finish(&options(), &mut ()).unwrap();
    assert_eq!(std::fs::metadata(dir.path().join(HIDDEN)).unwrap().len(), 0);
}

#[test]
fn a_copy_that_resumes_nothing_removes_what_was_left() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let resumed = resume(dir.path(), b"one").unwrap();
    begin(dir.path());
    assert_eq!(names(dir.path()), [HIDDEN], "another copy writes to it");
    drop(resumed);
    begin(dir.path());
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn a_mirror_that_resumes_keeps_the_partial_files_of_its_names() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("t");
    std::fs::create_dir(&tree).unwrap();
    drop(resume(&tree, b"one").unwrap());
    let mut options = options();
    options.mirror = true;
    for (resumes, left) in [(true, 1), (false, 0)] {
        options.resume = resumes;
        let directory = EntryMetadata { mode: 0o040_755, ..EntryMetadata::default() };
        let base = Folder::base(dir.path()).unwrap();
        let root = base.enter(OsStr::new("t"), (directory, Default::default()), &options).unwrap();
        let mut of_source = Names::default();
        of_source.push(OsStr::new(NAME));
        assert!(root.remove_others(of_source, &options, &|| false, &mut ()).unwrap());
        assert_eq!(names(&tree).len(), left);
    }
}
