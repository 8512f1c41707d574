//! The memory of `gush cp -a` does not grow with the number of entries, but for files that may come
//! again, whose first copies are remembered in few bytes.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::common::gush;
use nix::sys::resource::{UsageWho, getrusage};

/// Variables that configure the test that another test starts.
const ENTRIES: &str = "GUSH_TEST_ENTRIES";
const SHAPE: &str = "GUSH_TEST_SHAPE";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    /// All files in one directory.
    Flat,
    /// A hundred files in each directory, a hundred directories in each of those above.
    Deep,
    /// Subdirectories of one directory.
    Directories,
    /// Symbolic links in one directory.
    Links,
    /// Files with two names, the first one in one directory and the second one in another.
    TwoNames,
    /// Files with two names, the first one in a directory of its own and the second one in a
    /// directory of all.
    Apart,
    /// All files in one directory, copied with `-L`, by which each may come again.
    Followed,
    /// All files in one directory, copied once more as a mirror.
    Mirrored,
}

const SHAPES: [Shape; 8] = [
    Shape::Flat,
    Shape::Deep,
    Shape::Directories,
    Shape::Links,
    Shape::TwoNames,
    Shape::Apart,
    Shape::Followed,
    Shape::Mirrored,
];

impl Shape {
    /// The most that a copy may grow by for each further entry: 64 MiB for a million.
    fn most_entry_bytes(self) -> u64 {
        match self {
            // Also just after the table of first copies has doubled.
            Self::TwoNames | Self::Apart | Self::Followed => 64,
            // A path alone takes more, so none is kept.
            _ => 40,
        }
    }
}

fn make(shape: Shape, root: &Path, entries: usize) {
    fs::create_dir_all(root.join("second")).unwrap();
    for number in 0..entries {
        let name = format!("entry{number:07}");
        match shape {
            Shape::Flat | Shape::Followed | Shape::Mirrored => {
                drop(File::create(root.join(name)).unwrap())
            }
            Shape::Directories => fs::create_dir(root.join(name)).unwrap(),
            Shape::Links => symlink("nowhere", root.join(name)).unwrap(),
            Shape::Deep => {
                let above = root.join(format!("{}/{}", number / 10_000, number / 100));
                if number % 100 == 0 {
                    fs::create_dir_all(&above).unwrap();
                }
                drop(File::create(above.join(name)).unwrap());
            }
            Shape::TwoNames if number % 2 == 0 => drop(File::create(root.join(name)).unwrap()),
            Shape::TwoNames => {
                let first = format!("entry{:07}", number - 1);
                fs::hard_link(root.join(&first), root.join("second").join(&first)).unwrap();
            }
            // Of three entries one is the directory.
            Shape::Apart if number % 3 == 0 => {
                let above = root.join(&name);
                fs::create_dir(&above).unwrap();
                File::create(above.join("first")).unwrap();
                fs::hard_link(above.join("first"), root.join("second").join(&name)).unwrap();
            }
            Shape::Apart => {}
        }
    }
}

/// Where a million entries need no disk, if there is such a place.
fn place() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// The most memory of a copy of so many entries, in bytes. The kernel keeps one peak for all
/// children of a process, so each copy is the child of a process of its own.
fn peak_bytes(shape: Shape, entries: usize) -> u64 {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "memory::one_copy", "--ignored", "--nocapture"])
        .env(ENTRIES, entries.to_string())
        .env(SHAPE, format!("{shape:?}"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(gush_test::one_test_ran(&output), "{output:?}");
    let peak = said.lines().find_map(|line| line.split_once("peak of ")?.1.strip_suffix(" KiB"));
    peak.expect(&said).parse::<u64>().unwrap() * 1024
}

#[test]
#[ignore = "the other tests start it"]
fn one_copy() {
    let Ok(entries) = std::env::var(ENTRIES) else { return };
    let shape = std::env::var(SHAPE).unwrap();
    let shape = SHAPES.into_iter().find(|known| format!("{known:?}") == shape).unwrap();
    let entries = entries.parse().unwrap();
    let dir = place();
    make(shape, &dir.path().join("a"), entries);
    let how = if shape == Shape::Followed { "-aL" } else { "-a" };
    let status = gush().args(["cp", how, "a", "d"]).current_dir(&dir).status().unwrap();
    assert!(status.success());
    if shape == Shape::Mirrored {
        let mirror = ["cp", "-aT", "--delete", "-u", "a", "d"];
        assert!(gush().args(mirror).current_dir(&dir).status().unwrap().success());
    }
    let peak = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss();
    println!("{shape:?}, {entries} entries: a peak of {peak} KiB");
}

#[test]
fn memory_does_not_grow_with_the_entries() {
    const FEW: usize = 10_000;
    const MANY: usize = 60_000;
    for shape in SHAPES {
        let [few, many] = [FEW, MANY].map(|entries| peak_bytes(shape, entries));
        let growth_bytes = many.saturating_sub(few);
        assert!(
            growth_bytes < shape.most_entry_bytes() * (MANY - FEW) as u64,
            "{shape:?}: {few} bytes for {FEW} entries, {many} for {MANY}"
        );
    }
}

/// A gigabyte of memory for the kernel's inodes, on each side: `cargo test -p gush-cli --test cp --
/// --ignored --nocapture a_million`.
#[test]
#[ignore = "a million entries take minutes and gigabytes"]
fn a_million_entries_take_64_mib_at_most() {
    const MOST_BYTES: u64 = 64 << 20;
    for shape in SHAPES {
        let peak = peak_bytes(shape, 1_000_000);
        println!("{shape:?}: a peak of {:.1} MiB", peak as f64 / f64::from(1 << 20));
        assert!(peak <= MOST_BYTES, "{shape:?}: {peak}");
    }
}
