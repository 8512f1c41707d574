//! Directories that several ranks make and fill.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{both, end, start, state, tree, wait_for};
use crate::common::cp::{names, script, stderr, succeeds};
use crate::common::{skipped, strace};

#[test]
fn a_rank_that_starts_late_goes_to_the_directory_that_another_made() {
    let dir = tree();
    let first = start(dir.path(), "0/2", &["-a", "a", "d"]);
    wait_for(&dir.path().join(".d.gush-shards/rank-0.done"));
    assert_eq!(end(start(dir.path(), "1/2", &["-a", "a", "d"])).0, Some(0));
    assert_eq!(end(first).0, Some(0));
    assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")));
    // A directory that was there before is one to copy into.
    fs::create_dir(dir.path().join("there")).unwrap();
    let ranks = ["1/2", "0/2"].map(|shard| start(dir.path(), shard, &["-a", "a", "there"]));
    for rank in ranks {
        assert_eq!(end(rank).0, Some(0));
    }
    assert_eq!(names(&dir.path().join("there")), ["a"]);
    assert_eq!(state(&dir.path().join("there/a")), state(&dir.path().join("a")));
}

/// After the shares rank 0 looks for directories.
#[test]
fn rank_0_lists_a_directory_without_subdirectories_once() {
    let dir = tree();
    let kind = String::from_utf8(script(dir.path(), "stat -f -c %t .").stdout).unwrap();
    // ext4, tmpfs, xfs and f2fs show by a directory's link count whether others are below.
    if !["ef53", "1021994", "58465342", "f2f52010"].contains(&kind.trim()) {
        return skipped(&format!("a file system of type {kind} counts no subdirectories"));
    }
    let log = dir.path().join("calls");
    let mut traced = match strace(&["-y", "-o", log.to_str().unwrap(), "-e", "trace=getdents64"]) {
        Ok(traced) => traced,
        Err(why) => return skipped(&why),
    };
    let other = start(dir.path(), "1/2", &["-a", "a", "d"]);
    traced.args(["cp", "-a", "--shard=0/2", "a", "d"]).current_dir(dir.path());
    let output = traced.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(end(other).0, Some(0));
    let calls = fs::read_to_string(&log).unwrap();
    let listed = |name: &str| calls.matches(&format!("{name}>")).count();
    // One call for the names, and one for the end.
    assert_eq!([listed("/a/b/c/d"), listed("/a/b/c"), listed("/a/empty")], [2, 4, 2], "{calls}");
    assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("a")));
}

/// A link to a directory counts for no name of the directory that has the link.
#[test]
fn a_directory_at_the_end_of_a_link_gets_its_mode_and_time_from_ranks() {
    let dir = tempfile::tempdir().unwrap();
    let text =
        "mkdir -p a/leaf t/in && echo x >t/in/f && ln -s ../../t a/leaf/l && chmod 750 t t/in &&
        find t a -depth -exec touch -h -d 2001-02-03 {} +";
    let output = script(dir.path(), text);
    assert!(output.status.success(), "{}", stderr(&output));
    for (status, said) in both(dir.path(), &["-aL", "a", "d"]) {
        assert_eq!(status, Some(0), "{said}");
    }
    succeeds(dir.path(), &["-aL", "a", "one"]);
    assert_eq!(state(&dir.path().join("d")), state(&dir.path().join("one")));
    assert!(state(&dir.path().join("d")).0.contains("leaf/l/in d 750 "));
}

/// Rank 0 looked at the root when there was no subdirectory.
#[test]
fn a_subdirectory_that_only_a_later_rank_has_seen_gets_its_mode_and_time() {
    let dir = tempfile::tempdir().unwrap();
    let (a, d) = (dir.path().join("a"), dir.path().join("d"));
    fs::create_dir(&a).unwrap();
    fs::write(a.join("f"), "x").unwrap();
    let first = start(dir.path(), "0/2", &["-a", "a", "d"]);
    wait_for(&dir.path().join(".d.gush-shards/rank-0.done"));
    fs::create_dir(a.join("sub")).unwrap();
    assert_eq!(end(start(dir.path(), "1/2", &["-a", "a", "d"])).0, Some(0));
    assert_eq!(end(first).0, Some(0));
    let of = |root: &Path| {
        let meta = fs::metadata(root.join("sub")).unwrap();
        (meta.permissions().mode(), meta.modified().unwrap())
    };
    assert_eq!(of(&d), of(&a));
}
