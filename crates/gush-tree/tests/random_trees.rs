//! Random trees, copied with everything kept: stat, attributes, holes and bytes are the same on
//! both sides.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use gush_test as _;
use gush_tree::{Copier, CopyOptions, Dereference, ModeRule, Place, Specials, Xattrs};
use proptest::prelude::*;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, SeekFrom, Timespec, Timestamps, XattrFlags, mknodat, seek,
    setxattr, utimensat,
};

/// One more entry. Numbers choose among what is there already.
#[derive(Clone, Debug)]
enum Entry {
    Directory { parent: usize, bits: u32 },
    File { parent: usize, bits: u32, blocks: Vec<bool>, tail_bytes: usize },
    Link { parent: usize, text: String },
    HardLink { parent: usize, of: usize },
    Fifo { parent: usize, bits: u32 },
}

fn entry() -> impl Strategy<Value = Entry> {
    let parent = 0..1000_usize;
    // The owner can always read and enter: an ordinary user shall be able to copy all of it.
    let bits = (0..0o10000_u32).prop_map(|bits| bits | 0o500);
    prop_oneof![
        3 => (parent.clone(), bits.clone()).prop_map(|(parent, bits)| Entry::Directory { parent, bits }),
        5 => (parent.clone(), bits.clone(), proptest::collection::vec(any::<bool>(), 0..6), 0..70_000_usize)
            .prop_map(|(parent, bits, blocks, tail_bytes)| Entry::File { parent, bits, blocks, tail_bytes }),
        1 => (parent.clone(), "[a-z/.]{1,40}").prop_map(|(parent, text)| Entry::Link { parent, text }),
        2 => (parent.clone(), 0..1000_usize).prop_map(|(parent, of)| Entry::HardLink { parent, of }),
        1 => (parent, bits).prop_map(|(parent, bits)| Entry::Fifo { parent, bits }),
    ]
}

// Larger than a block of any file system, so that a hole is a hole everywhere.
const BLOCK_BYTES: usize = 128 << 10;

/// Makes the tree; times, modes and attributes last.
fn make(root: &Path, entries: &[Entry]) {
    fs::create_dir(root).unwrap();
    let mut directories = vec![root.to_path_buf()];
    let mut files: Vec<PathBuf> = Vec::new();
    let mut all = vec![(root.to_path_buf(), Some(0o755))];
    for (number, entry) in entries.iter().enumerate() {
        let at =
            |parent: usize| directories[parent % directories.len()].join(format!("entry {number}"));
        match entry {
            Entry::Directory { parent, bits } => {
                let path = at(*parent);
                fs::create_dir(&path).unwrap();
                directories.push(path.clone());
                all.push((path, Some(*bits)));
            }
            Entry::File { parent, bits, blocks, tail_bytes } => {
                let path = at(*parent);
                let file = File::create(&path).unwrap();
                for (block, _) in blocks.iter().enumerate().filter(|(_, is_data)| **is_data) {
                    // Never zero: blocks of zeros could become holes in the copy.
                    let bytes = vec![number as u8 | 1; BLOCK_BYTES];
                    file.write_all_at(&bytes, (block * BLOCK_BYTES) as u64).unwrap();
                }
                let holes_end = blocks.len() * BLOCK_BYTES;
                file.set_len(holes_end as u64).unwrap();
                file.write_all_at(&vec![7; *tail_bytes], holes_end as u64).unwrap();
                // Not every file system keeps attributes.
                let _ = setxattr(&path, "user.number", &number.to_ne_bytes(), XattrFlags::empty());
                files.push(path.clone());
                all.push((path, Some(*bits)));
            }
            Entry::Link { parent, text } => {
                let path = at(*parent);
                symlink(text, &path).unwrap();
                all.push((path, None));
            }
            Entry::HardLink { parent, of } if !files.is_empty() => {
                let path = at(*parent);
                fs::hard_link(&files[of % files.len()], &path).unwrap();
            }
            Entry::HardLink { .. } => {}
            Entry::Fifo { parent, bits } => {
                let path = at(*parent);
                mknodat(CWD, &path, FileType::Fifo, Mode::from_bits_retain(0o600), 0).unwrap();
                all.push((path, Some(*bits)));
            }
        }
    }
    // What was made last is deepest.
    for (number, (path, bits)) in all.iter().enumerate().rev() {
        if let Some(bits) = bits {
            let _ = setxattr(path, "user.made", b"by this test", XattrFlags::empty());
            fs::set_permissions(path, fs::Permissions::from_mode(*bits)).unwrap();
        }
        let time =
            |nanoseconds| Timespec { tv_sec: 1_000_000_000 + number as i64, tv_nsec: nanoseconds };
        let times = Timestamps { last_access: time(1), last_modification: time(123_456_789) };
        utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }
}

type Ranges = Vec<(u64, u64)>;

/// Where a file has data.
fn data(path: &Path) -> Ranges {
    let file = File::open(path).unwrap();
    let mut found = Vec::new();
    let mut at = 0;
    while let Ok(start) = seek(&file, SeekFrom::Data(at)) {
        at = seek(&file, SeekFrom::Hole(start)).unwrap();
        found.push((start, at));
    }
    found
}

fn attributes(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut names = vec![0; 4096];
    let Ok(length) = rustix::fs::llistxattr(path, &mut names) else { return BTreeMap::new() };
    let names = names[..length].split(|&byte| byte == 0).filter(|name| !name.is_empty());
    names
        .map(|name| {
            let name = String::from_utf8(name.to_vec()).unwrap();
            let mut value = vec![0; 4096];
            let length = rustix::fs::lgetxattr(path, name.as_str(), &mut value).unwrap();
            (name, value[..length].to_vec())
        })
        .collect()
}

/// Everything below a root that a copy shall keep, and where each file has data.
fn facts(root: &Path) -> (BTreeMap<PathBuf, String>, BTreeMap<PathBuf, Ranges>) {
    let (mut facts, mut layouts) = (BTreeMap::new(), BTreeMap::new());
    let mut first_names = BTreeMap::new();
    let mut waiting = vec![root.to_path_buf()];
    let mut found = Vec::new();
    while let Some(path) = waiting.pop() {
        if fs::symlink_metadata(&path).unwrap().is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        found.push(path);
    }
    found.sort();
    for path in found {
        let about = fs::symlink_metadata(&path).unwrap();
        let name = path.strip_prefix(root).unwrap().to_path_buf();
        let kind = about.file_type();
        let content = if kind.is_file() {
            layouts.insert(name.clone(), data(&path));
            format!("{:?}", gush::digest_of(&File::open(&path).unwrap()).unwrap())
        } else if kind.is_symlink() {
            format!("{:?}", fs::read_link(&path).unwrap())
        } else {
            format!("{} {}", kind.is_dir(), kind.is_fifo())
        };
        let first = first_names.entry(about.ino()).or_insert_with(|| name.clone()).clone();
        // File systems count links and sizes of directories each in its own way.
        let links = if kind.is_dir() { 0 } else { about.nlink() };
        let size = if kind.is_dir() { 0 } else { about.len() };
        let text = format!(
            "{:o} {}:{} {size} {}.{} {links} {first:?} {content} {:?}",
            about.mode(),
            about.uid(),
            about.gid(),
            about.mtime(),
            about.mtime_nsec(),
            attributes(&path),
        );
        facts.insert(name, text);
    }
    (facts, layouts)
}

/// Is a hole of `source` one of `copy` as well? xfs calls blocks data that it has reserved ahead of
/// a write, so the copy may have more holes.
fn keeps_holes(copy: &[(u64, u64)], source: &[(u64, u64)]) -> bool {
    let is_within = |&(from, to): &(u64, u64)| source.iter().any(|&(a, b)| a <= from && to <= b);
    copy.iter().all(is_within)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_random_tree_arrives_with_everything(
        entries in proptest::collection::vec(entry(), 0..60),
        threads in 1..5_usize,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let [source, target] = ["a", "b"].map(|name| dir.path().join(name));
        make(&source, &entries);
        let mut options = CopyOptions::default();
        options.recursive = true;
        options.dereference = Dereference::Never;
        options.specials = Specials::Recreate;
        options.moving.threads = threads;
        options.preserve.mode = ModeRule::Keep;
        options.preserve.owner = true;
        options.preserve.times = true;
        options.preserve.links = true;
        options.preserve.xattrs = Xattrs::Warn;
        options.preserve.required = true;
        let (before, source_data) = facts(&source);
        let done =
            Copier::new(&options).copy(Place::here(&source), Place::here(&target), &mut ()).unwrap();
        prop_assert!(done.complete);
        let (arrived, data) = facts(&target);
        prop_assert_eq!(&arrived, &before);
        for (name, data) in data {
            prop_assert!(keeps_holes(&data, &source_data[&name]), "{:?}: {:?}", name, data);
        }
        prop_assert_eq!(&facts(&source).0, &before);
    }
}
