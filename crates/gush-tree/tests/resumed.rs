//! A copy to another machine that is killed and resumed. The killed process is a fork of this one, and
//! would hold the locks of other tests: this one has the program to itself.

use std::ffi::OsStr;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use gush_tree::remote::{Draft, Folder, Portrait};
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

fn resume(dir: &Path) -> Result<Draft, Error> {
    let portrait = Portrait { mode: 0o100_640, size_bytes: SIZE_BYTES, ..Portrait::default() };
    let folder = Folder::base(dir)?;
    Draft::resume_or_begin(&folder, OsStr::new(NAME), portrait, b"source", &options())
}

fn content() -> Vec<u8> {
    let mut content = vec![0; SIZE_BYTES as usize];
    let pages = content.chunks_mut(4096).enumerate();
    pages.for_each(|(number, page)| page.fill((number % 251) as u8 + 1));
    content
}

fn write(draft: &Draft, part: Range<u64>) {
    let file = File::from(draft.fd().try_clone_to_owned().unwrap());
    let bytes = &content()[part.start as usize..part.end as usize];
    file.write_all_at(bytes, part.start).unwrap();
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_killed_copy_is_resumed_with_the_ranges_that_had_arrived() {
    let dir = tempfile::tempdir().unwrap();
    let (reads, writes) = rustix::pipe::pipe().unwrap();
    let child = gush_test::forked(|| {
        let draft = resume(dir.path()).unwrap();
        // Noted in parts, and not in their order.
        write(&draft, 4 * MIB..12 * MIB);
        for part in [6 * MIB..12 * MIB, 4 * MIB..5 * MIB, 5 * MIB..6 * MIB] {
            draft.has_arrived(part);
        }
        write(&draft, 16 * MIB..SIZE_BYTES);
        draft.has_arrived(16 * MIB..SIZE_BYTES);
        // Of these a part is written, and more is written than noted.
        write(&draft, 0..2 * MIB);
        draft.has_arrived(0..MIB);
        rustix::io::write(&writes, b"x").unwrap();
        std::thread::sleep(std::time::Duration::from_secs(3600));
    });
    assert_eq!(rustix::io::read(&reads, &mut [0]).unwrap(), 1);
    let busy = resume(dir.path()).unwrap_err();
    assert!(busy.to_string().contains("another copy writes to"), "{busy}");
    child.kill();

    assert_eq!(names(dir.path()), [HIDDEN]);
    let mode = std::fs::metadata(dir.path().join(HIDDEN)).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    let draft = resume(dir.path()).unwrap();
    assert_eq!(draft.missing_ranges(), [0..4 * MIB, 12 * MIB..16 * MIB]);
    let mut left = [1];
    let file = File::from(draft.fd().try_clone_to_owned().unwrap());
    file.read_exact_at(&mut left, MIB).unwrap();
    assert_eq!(left, [0], "a hole would not be one");
    for part in draft.missing_ranges() {
        write(&draft, part.clone());
        draft.has_arrived(part);
    }
    assert!(draft.missing_ranges().is_empty());
    draft.set_size().unwrap();
    let digest = draft.digest().unwrap();
    assert!(draft.finish(&options(), &mut ()).unwrap());
    assert_eq!(names(dir.path()), [NAME]);
    let made = dir.path().join(NAME);
    assert!(std::fs::read(&made).unwrap() == content());
    assert_eq!(digest, gush::digest_of(&File::open(&made).unwrap()).unwrap());
    assert_eq!(std::fs::metadata(&made).unwrap().permissions().mode() & 0o7777, 0o640);
}
