//! Trees and large files on slow file systems: as many threads as pay, and no more.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::{self, ThreadId};
use std::time::Duration;
use std::{env, fs};

use gush_test::{FuseFile, RequestsAtOnce, mount_slow_fuse, not_applicable, one_test_ran, skipped};
use gush_tree::{Copier, CopyOptions, Done, Error, Events, Place, Shard};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Runs an ignored test of this file as root of a new mount namespace.
fn in_own_namespace(test: &str) {
    let probe = Command::new("unshare").args(["--mount", "true"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        return skipped("a mount namespace needs root, or unshare(1) is missing");
    }
    let mut child = Command::new("unshare");
    child.arg("--mount").arg(env::current_exe().unwrap());
    let output = child.args(["--exact", test, "--ignored", "--nocapture"]).output().unwrap();
    assert!(one_test_ran(&output), "{}", String::from_utf8_lossy(&output.stdout));
}

/// This thread, and those that it starts, have two processors at most.
fn leave_two_processors() {
    let usable = sched_getaffinity(None).unwrap();
    let mut two = CpuSet::new();
    (0..CpuSet::MAX_CPU)
        .filter(|&number| usable.is_set(number))
        .take(2)
        .for_each(|number| two.set(number));
    sched_setaffinity(None, &two).unwrap();
}

/// The threads that have copied something.
#[derive(Default)]
struct Threads(HashSet<ThreadId>);

impl Events for Threads {
    fn entry_ended(&mut self, source: &Path, _target: &Path, result: &Result<Done, Error>) {
        assert!(result.is_ok(), "{}: {result:?}", source.display());
        self.0.insert(thread::current().id());
    }
}

/// Copies a tree, and returns how many threads took part.
fn copy(threads: usize, source: &Path, target: &Path, configure: fn(&mut CopyOptions)) -> usize {
    let mut options = CopyOptions::default();
    options.recursive = true;
    options.moving.threads = threads;
    configure(&mut options);
    let mut events = Threads::default();
    let done = Copier::new(&options).copy(Place::here(source), Place::here(target), &mut events);
    assert!(done.unwrap().complete);
    let [arrived, there] = [target, source].map(|dir| fs::read_dir(dir).unwrap().count());
    assert_eq!(arrived, there);
    events.0.len()
}

/// Mounts so many files of this size.
fn mounted(
    point: &Path,
    (files, bytes): (usize, usize),
    delay: Duration,
) -> Option<RequestsAtOnce> {
    let file = |number| FuseFile {
        name: format!("f{number}"),
        content: vec![b'x'; bytes],
        stat_bytes: bytes as u64,
        most_read_bytes: usize::MAX,
    };
    let files = (0..files).map(file).collect();
    mount_slow_fuse(point, files, delay)
        .map_err(|error| not_applicable(&format!("no FUSE: {error}")))
        .ok()
}

#[test]
#[ignore = "run in a namespace of its own by the test below"]
fn child_copies_a_slow_tree() {
    leave_two_processors();
    let dir = tempfile::tempdir().unwrap();
    let Some(requests) = mounted(dir.path(), (100, 4096), Duration::from_millis(20)) else {
        return;
    };
    let at_once = |threads, configure: fn(&mut CopyOptions)| {
        let target = tempfile::tempdir().unwrap();
        copy(threads, dir.path(), &target.path().join("copy"), configure);
        requests.most()
    };
    for (about, configure) in
        [("plain", (|_| {}) as fn(&mut CopyOptions)), ("--verify", |options| options.verify = true)]
    {
        let found = at_once(0, configure);
        assert!((9..=64).contains(&found), "{about}: {found} at once");
    }
    assert_eq!(at_once(2, |_| {}), 2);
}

#[test]
fn slow_trees_are_copied_by_more_threads_than_processors() {
    in_own_namespace("child_copies_a_slow_tree");
}

#[test]
#[ignore = "run in a namespace of its own by the test below"]
fn child_copies_a_tree_in_memory() {
    leave_two_processors();
    let dir = tempfile::tempdir().unwrap();
    let mount = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(dir.path()).status();
    assert!(mount.unwrap().success());
    let [source, target] = ["source", "target"].map(|name| dir.path().join(name));
    fs::create_dir(&source).unwrap();
    for number in 0..5_000 {
        fs::write(source.join(number.to_string()), b"in memory").unwrap();
    }
    let threads = copy(0, &source, &target, |_| {});
    assert!(threads <= 2, "{threads} threads");
}

#[test]
fn trees_in_memory_are_copied_by_as_many_threads_as_processors() {
    in_own_namespace("child_copies_a_tree_in_memory");
}

/// A cgroup whose processes may use one processor, removed when dropped; `None` without a
/// controller.
struct OneProcessor(PathBuf);

impl OneProcessor {
    fn make() -> Option<Self> {
        let name = format!("gush-test-{}", std::process::id());
        let (v1, v2) = (Path::new("/sys/fs/cgroup/cpu"), Path::new("/sys/fs/cgroup"));
        let (group, file, quota) = match v1.join("cpu.cfs_quota_us").exists() {
            true => (v1.join(name), "cpu.cfs_quota_us", "100000"),
            false => (v2.join(name), "cpu.max", "100000 100000"),
        };
        fs::create_dir(&group).ok()?;
        let group = Self(group);
        fs::write(group.0.join(file), quota).ok()?;
        Some(group)
    }
}

impl Drop for OneProcessor {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
#[ignore = "run in a cgroup of its own by the test below"]
fn child_copies_a_tree_within_a_quota() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let [source, target] = ["source", "target"].map(|name| dir.path().join(name));
    fs::create_dir(&source).unwrap();
    for number in 0..5_000 {
        fs::write(source.join(number.to_string()), b"in memory").unwrap();
    }
    assert_eq!(copy(0, &source, &target, |_| {}), 1);
}

#[test]
fn a_quota_of_one_processor_leaves_a_tree_one_thread() {
    let Some(group) = OneProcessor::make() else {
        return skipped("a cgroup with a quota needs root and the controller of processors");
    };
    let mut child = Command::new("sh");
    child.args(["-c", "echo $$ >\"$1\"/cgroup.procs && shift && exec \"$@\"", "sh"]);
    child.arg(&group.0).arg(env::current_exe().unwrap());
    let test = "child_copies_a_tree_within_a_quota";
    let output = child.args(["--exact", test, "--ignored", "--nocapture"]).output().unwrap();
    assert!(one_test_ran(&output), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Copies one file, and returns how many threads took part.
fn copy_file(threads: usize, source: &Path, target: &Path) -> usize {
    let mut options = CopyOptions::default();
    options.moving.threads = threads;
    let done = Copier::new(&options).copy(Place::here(source), Place::here(target), &mut ());
    let report = done.unwrap().report.unwrap();
    assert_eq!(report.bytes, fs::metadata(source).unwrap().len());
    report.methods.iter().map(|used| used.threads).max().unwrap()
}

#[test]
#[ignore = "run in a namespace of its own by the test below"]
fn child_copies_a_large_slow_file() {
    leave_two_processors();
    let dir = tempfile::tempdir().unwrap();
    let size = 64 << 20;
    let Some(requests) = mounted(dir.path(), (1, size), Duration::from_millis(10)) else { return };
    let target = tempfile::tempdir().unwrap();
    let [source, target] = [dir.path().join("f0"), target.path().join("copy")];
    let threads = copy_file(0, &source, &target);
    let found = requests.most();
    assert!((9..=64).contains(&threads) && (9..=64).contains(&found), "{threads}: {found} at once");
    assert!(fs::read(&target).unwrap() == vec![b'x'; size]);
    fs::remove_file(&target).unwrap();
    assert_eq!((copy_file(2, &source, &target), requests.most()), (2, 2));
}

#[test]
fn a_large_slow_file_is_copied_by_more_threads_than_processors() {
    in_own_namespace("child_copies_a_large_slow_file");
}

#[test]
#[ignore = "run in a namespace of its own by the test below"]
fn child_copies_a_slow_file_of_few_pieces() {
    leave_two_processors();
    let dir = tempfile::tempdir().unwrap();
    let size = 16 << 20;
    let Some(requests) = mounted(dir.path(), (1, size), Duration::from_millis(20)) else { return };
    let target = tempfile::tempdir().unwrap();
    let target = target.path().join("copy");
    copy_file(0, &dir.path().join("f0"), &target);
    // In pieces of 2 MiB there would be work for seven.
    let found = requests.most();
    assert!((16..=64).contains(&found), "{found} at once");
    assert!(fs::read(&target).unwrap() == vec![b'x'; size]);
}

#[test]
fn a_slow_file_of_16_mib_has_work_for_more_threads_than_whole_pieces() {
    in_own_namespace("child_copies_a_slow_file_of_few_pieces");
}

#[test]
#[ignore = "run in a namespace of its own by the test below"]
fn child_copies_a_large_slow_file_by_two_ranks() {
    leave_two_processors();
    let dir = tempfile::tempdir().unwrap();
    let size = 96 << 20;
    let Some(requests) = mounted(dir.path(), (1, size), Duration::from_millis(10)) else { return };
    let target = tempfile::tempdir().unwrap();
    let target = target.path().join("copy");
    let rank = |number| {
        let mut options = CopyOptions::default();
        options.recursive = true;
        options.shard = Some(Shard::new(number, 2).unwrap());
        let done =
            Copier::new(&options).copy(Place::here(dir.path()), Place::here(&target), &mut ());
        assert!(done.unwrap().complete);
    };
    thread::scope(|scope| {
        scope.spawn(|| rank(1));
        rank(0);
    });
    // By a thread for each processor of each rank there would be four.
    let found = requests.most();
    assert!((9..=128).contains(&found), "{found} at once");
    assert!(fs::read(target.join("f0")).unwrap() == vec![b'x'; size]);
}

#[test]
fn the_pieces_of_ranks_are_copied_by_more_threads_than_processors() {
    in_own_namespace("child_copies_a_large_slow_file_by_two_ranks");
}

#[test]
#[ignore = "run in a namespace of its own by the test below"]
fn child_copies_a_large_file_in_memory() {
    leave_two_processors();
    let dir = tempfile::tempdir().unwrap();
    let mount = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(dir.path()).status();
    assert!(mount.unwrap().success());
    let [source, target] = ["source", "target"].map(|name| dir.path().join(name));
    fs::write(&source, vec![b'x'; 96 << 20]).unwrap();
    let threads = copy_file(0, &source, &target);
    assert!(threads <= 2, "{threads} threads");
    assert!(fs::read(&target).unwrap() == fs::read(&source).unwrap());
}

#[test]
fn a_large_file_in_memory_is_copied_by_no_more_threads_than_processors() {
    in_own_namespace("child_copies_a_large_file_in_memory");
}
