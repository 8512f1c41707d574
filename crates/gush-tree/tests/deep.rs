//! Trees thousands of levels deep, with few descriptors. The limit is the whole process's, so each
//! test has the process to itself.

use std::fs;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use gush_test as _;
use gush_tree::{Copier, CopyOptions, Dereference, ModeRule, Place};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::path::Arg;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn copy(source: &Path, target: &Path) -> bool {
    let mut options = CopyOptions::default();
    options.recursive = true;
    options.dereference = Dereference::Never;
    options.moving.threads = 2;
    options.preserve.mode = ModeRule::Keep;
    options.preserve.times = true;
    options.verify = true;
    let copied = Copier::new(&options).copy(Place::here(source), Place::here(target), &mut ());
    copied.unwrap().complete
}

fn open(dir: impl AsFd, name: impl Arg, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    openat(dir, name, flags, Mode::RUSR)
}

/// Makes a chain of directories, each in the one before, with a file at the end.
fn chain(root: &Path, name: &str, depth: usize) {
    fs::create_dir(root).unwrap();
    // By descriptors: the path would soon be longer than PATH_MAX.
    let mut at = open(CWD, root, OFlags::DIRECTORY).unwrap();
    for _ in 0..depth {
        mkdirat(&at, name, Mode::RWXU).unwrap();
        at = open(&at, name, OFlags::DIRECTORY).unwrap();
    }
    let end = open(&at, "end", OFlags::CREATE | OFlags::WRONLY).unwrap();
    rustix::io::write(&end, b"the end").unwrap();
}

/// The depth of a chain, and what its end holds. The chain is removed.
fn unchain(root: &Path, name: &str) -> (usize, String) {
    let mut at = open(CWD, root, OFlags::DIRECTORY).unwrap();
    let mut depth = 0;
    while let Ok(below) = open(&at, name, OFlags::DIRECTORY) {
        at = below;
        depth += 1;
    }
    let mut text = String::new();
    let end = open(&at, "end", OFlags::RDONLY).unwrap();
    fs::File::from(end).read_to_string(&mut text).unwrap();
    // Removed by hand: the temporary directory's own removal goes by paths, and would fail at this
    // depth.
    unlinkat(&at, "end", AtFlags::empty()).unwrap();
    for _ in 0..depth {
        at = open(&at, "..", OFlags::DIRECTORY).unwrap();
        unlinkat(&at, name, AtFlags::REMOVEDIR).unwrap();
    }
    fs::remove_dir(root).unwrap();
    (depth, text)
}

fn copy_a_deep_tree(name: &str, depth: usize, descriptors: u64) {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.map(|current| current.min(descriptors));
    setrlimit(Resource::Nofile, Rlimit { current, ..limit }).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let [source, target] = ["a", "b"].map(|name| dir.path().join(name));
    chain(&source, name, depth);
    assert!(copy(&source, &target));
    assert_eq!(unchain(&source, name), (depth, "the end".to_owned()));
    assert_eq!(unchain(&target, name), (depth, "the end".to_owned()));
}

#[test]
fn a_tree_a_thousand_deep_is_copied_with_few_descriptors_beyond_the_longest_path() {
    copy_a_deep_tree("a directory with a long name", 1_000, 128);
}

#[test]
#[ignore = "takes a minute or two on a slow disk"]
fn a_tree_twenty_thousand_deep_is_copied_with_a_thousand_descriptors() {
    copy_a_deep_tree("d", 20_000, 1024);
}
