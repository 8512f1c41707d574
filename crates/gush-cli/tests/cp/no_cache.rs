//! `gush cp --no-cache` leaves the page cache as it was.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::cp::{stderr, succeeds};
use crate::common::{noise, not_applicable, skipped, strace};
use gush::page_cache::{cached_pages, drop_clean, write_and_drop};

const MIB: u64 = 1 << 20;

fn holds_none(file: &File, at_bytes: u64, len_bytes: u64) -> io::Result<bool> {
    Ok(cached_pages(file, at_bytes, len_bytes)? == 0)
}

/// A large file and small ones, of which nothing is in the cache; none where the file system is
/// memory, or the kernel does not report it.
fn uncached_tree() -> Option<tempfile::TempDir> {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("a")).unwrap();
    for (name, bytes) in [("large", 20 << 20), ("small", 5000), ("page", 4096), ("empty", 0)] {
        let path = dir.path().join("a").join(name);
        fs::write(&path, noise(bytes, 1)).unwrap();
        let file = File::open(path).unwrap();
        file.sync_all().unwrap();
        drop_clean(&file, 0, 0).unwrap();
        match holds_none(&file, 0, 0) {
            Ok(true) => {}
            Ok(false) => {
                not_applicable("what is written here stays in memory");
                return None;
            }
            Err(error) => {
                not_applicable(&format!("cachestat: {error}"));
                return None;
            }
        }
    }
    Some(dir)
}

fn is_cached(dir: &Path, name: &str) -> io::Result<bool> {
    holds_none(&File::open(dir.join(name))?, 0, 0).map(|none| !none)
}

#[test]
fn no_page_of_a_copy_stays_that_was_not_there() {
    let all: [&[&str]; 6] = [
        &["-rT"],
        &["-aT", "--threads=1"],
        &["-rT", "--verify"],
        &["-rT", "--method=read-write"],
        &["-rT", "--atomic"],
        &["-rT", "--limit=200M"],
    ];
    for words in all {
        let Some(dir) = uncached_tree() else { return };
        succeeds(dir.path(), &[words, &["--no-cache", "a", "d"]].concat());
        for name in ["a/large", "a/small", "a/page", "d/large", "d/small", "d/page"] {
            assert!(!is_cached(dir.path(), name).unwrap(), "{words:?} {name}");
        }
        for name in ["large", "small", "page", "empty"] {
            let [from, to] = ["a", "d"].map(|root| fs::read(dir.path().join(root).join(name)));
            assert_eq!(from.unwrap(), to.unwrap(), "{words:?} {name}");
        }
    }
    // The same question has the other answer without the option.
    let Some(dir) = uncached_tree() else { return };
    succeeds(dir.path(), &["-rT", "--reflink=never", "a", "d"]);
    assert!(is_cached(dir.path(), "a/large").unwrap() && is_cached(dir.path(), "d/large").unwrap());
}

/// Otherwise the copy pushes the pages of others out before it takes its own away.
#[test]
fn a_large_copy_holds_few_pages_at_any_time() {
    let Some(dir) = uncached_tree() else { return };
    let path = dir.path().join("a/larger");
    fs::write(&path, noise(192 << 20, 2)).unwrap();
    let source = File::open(path).unwrap();
    write_and_drop(&source, 0, 0).unwrap();
    let target = File::create_new(dir.path().join("copy")).unwrap();
    let copies = std::process::Command::new(env!("CARGO_BIN_EXE_gush"))
        .args(["cp", "--no-cache", "--reflink=never", "--threads=4", "a/larger", "copy"])
        .current_dir(dir.path())
        .spawn();
    let mut copies = copies.unwrap();
    let (mut most, mut looks) = (0, 0);
    let status = loop {
        let pages = [&source, &target].map(|file| cached_pages(file, 0, 0).unwrap());
        most = most.max(pages.iter().sum());
        looks += 1;
        if let Some(status) = copies.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    assert!(status.success() && looks > 10, "{status} after {looks} looks");
    // A window that is read, one that is written, and what is read ahead.
    let most_bytes = most * rustix::param::page_size() as u64;
    assert!((MIB..40 * MIB).contains(&most_bytes), "{most_bytes} bytes");
}

/// The kernel reports bytes that it could not write once, and here to the copy.
#[test]
fn bytes_that_do_not_reach_the_disk_are_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("a")).unwrap();
    for (name, bytes) in [("large", 20 << 20), ("small", 5000)] {
        fs::write(dir.path().join("a").join(name), noise(bytes, 1)).unwrap();
    }
    let reported = "to the disk: Input/output error";
    for (words, errno, name) in [
        (&["a/small", "f"][..], "EIO", "f"),
        (&["a/large", "f"], "EIO", "f"),
        (&["--threads=1", "--method=read-write", "a/large", "f"], "EIO", "f"),
        (&["-aT", "--threads=1", "a", "d"], "EIO:when=1", "d/"),
        // A target that has no pages.
        (&["a/small", "f"], "EINVAL", ""),
    ] {
        let inject = format!("inject=sync_file_range:error={errno}");
        let mut traced = match strace(&["-e", &inject]) {
            Ok(traced) => traced,
            Err(why) => return skipped(&why),
        };
        traced.args(["cp", "--no-cache"]).args(words).current_dir(dir.path());
        let output = traced.output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.success(), name.is_empty(), "{words:?}: {said}");
        let is_reported =
            said.contains(reported) && said.starts_with(&format!("gush: cp: cannot write '{name}"));
        assert!(name.is_empty() || is_reported && said.lines().count() == 1, "{words:?}: {said}");
    }
}

#[test]
fn a_comparison_leaves_no_pages_either() {
    let Some(dir) = uncached_tree() else { return };
    succeeds(dir.path(), &["-rT", "--no-cache", "a", "d"]);
    succeeds(dir.path(), &["-rT", "--no-cache", "--checksum", "a", "d"]);
    for name in ["a/large", "a/small", "d/large", "d/small"] {
        assert!(!is_cached(dir.path(), name).unwrap(), "{name}");
    }
}

#[test]
fn pages_that_others_use_stay() {
    let Some(dir) = uncached_tree() else { return };
    let source = File::open(dir.path().join("a/large")).unwrap();
    source.read_exact_at(&mut vec![0; 100_000], 10 * MIB).unwrap();
    let before = cached_pages(&source, 0, 0).unwrap();
    assert!(before > 0);
    succeeds(dir.path(), &["-rT", "--no-cache", "a", "d"]);
    let after = cached_pages(&source, 0, 0).unwrap();
    // A part of 64 KiB that was there in part stays, at each end.
    assert!((before..=before + 32).contains(&after), "{before} and {after}");
    assert!(!holds_none(&source, 10 * MIB, 100_000).unwrap(), "the pages that were there");
}

#[test]
fn a_range_can_be_written_and_taken_away() {
    let Some(dir) = uncached_tree() else { return };
    let file = File::create_new(dir.path().join("new")).unwrap();
    // Dirty pages stay. The kernel may write them at any time, and so makes them clean ones.
    let stays = |_| {
        file.write_all_at(&noise(1 << 20, 2), 0).unwrap();
        drop_clean(&file, 0, 0).unwrap();
        !holds_none(&file, 0, 0).unwrap()
    };
    assert!((0..100).any(stays));
    write_and_drop(&file, 0, 0).unwrap();
    assert!(holds_none(&file, 0, 0).unwrap());
}

/// Nobody may ask what is in the cache of a file that is another user's, so its pages stay.
#[test]
fn pages_of_a_file_of_another_user_stay() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hot");
    fs::write(&path, noise(1 << 20, 1)).unwrap();
    let file = File::open(&path).unwrap();
    file.sync_all().unwrap();
    if let Err(error) = cached_pages(&file, 0, 0) {
        return not_applicable(&format!("cachestat: {error}"));
    }
    let before = cached_pages(&file, 0, 0).unwrap();
    let text = "chmod 755 .; mkdir -m 777 nob; cp \"$G\" gush; \
                setpriv --reuid 65534 --clear-groups ./gush cp --no-cache hot nob/x && cmp hot nob/x";
    let output = crate::common::cp::script(dir.path(), text);
    if String::from_utf8_lossy(&output.stderr).contains("setpriv") {
        return crate::common::skipped("setpriv as root");
    }
    assert!(output.status.success(), "{output:?}");
    assert_eq!(cached_pages(&file, 0, 0).unwrap(), before);
}
