//! `gush cp` by a method of one's choice, and with every option that tunes the method.

use std::fs;

use crate::common::cp::{cp, fails, names, shares_blocks, stderr, succeeds, with_files};
use crate::common::{noise, skipped};

#[test]
fn a_named_method_is_used_or_refused() {
    let dir = with_files(&[("a", &noise(300_000, 5))]);
    fs::create_dir(dir.path().join("t")).unwrap();
    fs::copy(dir.path().join("a"), dir.path().join("t/a")).unwrap();
    for method in [
        "copy-file-range",
        "sendfile",
        "splice",
        "vmsplice",
        "mmap-write",
        "mmap-copy",
        "read-mmap",
        "read-write",
    ] {
        let named = format!("--method={method}");
        let output = succeeds(dir.path(), &[&named, "--json", "a", "b"]);
        let record: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(record["method"], method);
        assert!(fs::read(dir.path().join("b")).unwrap() == noise(300_000, 5), "{method}");
        // Of a tree's file more is known, and less asked.
        succeeds(dir.path(), &["-rT", &named, "t", "u"]);
        assert!(fs::read(dir.path().join("u/a")).unwrap() == noise(300_000, 5), "{method}");
        fs::remove_dir_all(dir.path().join("u")).unwrap();
    }
    let said = fails(dir.path(), &["--method=mmap-copy", "/proc/self/maps", "b"]);
    assert!(said.contains("mmap-copy"), "{said}");
    let said = fails(dir.path(), &["--method=teleport", "a", "b"]);
    assert!(said.contains("'teleport'") && said.contains("copy-file-range"), "{said}");
}

/// A target's offset named by the walk, and not by the user, must not rule the plan's method out.
#[test]
fn files_of_a_tree_move_between_file_systems_as_a_single_one_does() {
    let Ok(far) = tempfile::tempdir_in("/dev/shm") else {
        return skipped("there is no /dev/shm to copy from");
    };
    let (dir, content) = (with_files(&[]), noise(5000, 5));
    fs::write(far.path().join("a"), &content).unwrap();
    let (tree, file) = (far.path().to_str().unwrap(), far.path().join("a"));
    let said = stderr(&succeeds(dir.path(), &["--explain", file.to_str().unwrap(), "b"]));
    if !said.contains("picked sendfile") {
        return skipped("these two file systems are not moved between by sendfile");
    }
    let said = stderr(&succeeds(dir.path(), &["-rT", "--explain", tree, "t"]));
    assert!(said.contains("picked sendfile") && !said.contains("refused"), "{said}");
    assert!(fs::read(dir.path().join("t/a")).unwrap() == content);
}

#[test]
fn every_tuning_option_leaves_an_equal_copy() {
    let content = noise(2 << 20, 6);
    let dir = with_files(&[("a", &content)]);
    for options in [
        &["--isolated"][..],
        &["--threads=1"],
        &["--threads=3", "--method=read-mmap"],
        &["--buffer-size=64K", "--method=read-write"],
        &["--pipe-size=64K", "--method=splice"],
        &["--method=vmsplice"],
        &["--preallocate"],
        &["--limit=1G"],
        &["--reflink=never"],
        &["--fsync"],
    ] {
        let arguments: Vec<_> = options.iter().copied().chain(["a", "b"]).collect();
        succeeds(dir.path(), &arguments);
        assert!(fs::read(dir.path().join("b")).unwrap() == content, "{options:?}");
        fs::remove_file(dir.path().join("b")).unwrap();
    }
}

#[test]
fn reflink_never_means_no_shared_blocks_by_any_call() {
    let dir = with_files(&[("a", &noise(100_000, 7))]);
    let output = succeeds(dir.path(), &["--reflink=never", "--debug", "--explain", "a", "b"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("copy offload: avoided, reflink: no, sparse detection: no\n"), "{text}");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!text.contains("picked copy-file-range"), "{text}");
}

#[test]
fn reflink_always_clones_or_leaves_nothing() {
    for content in [&b"x"[..], b""] {
        let dir = with_files(&[("a", content), ("old", b"old")]);
        for (target, old) in [("b", None), ("old", Some("old"))] {
            let output = cp(dir.path(), &["--reflink=always", "a", target]);
            let now = fs::read(dir.path().join(target)).ok();
            if output.status.success() {
                assert_eq!(now.as_deref(), Some(content));
                continue;
            }
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(said.contains("reflink") && said.contains("--reflink=auto"), "{said}");
            assert_eq!(now, old.map(Into::into), "{content:?}");
        }
        assert_eq!(shares_blocks(), dir.path().join("b").exists(), "{content:?}");
    }
}

#[test]
fn impossible_combinations_and_values_are_refused() {
    let dir = with_files(&[("a", b"x")]);
    for (arguments, text) in [
        (&["--verify", "-l"][..], "--verify cannot be used with"),
        (
            &["--reflink=always", "--method=splice"],
            "--reflink=always cannot be used with --method=splice",
        ),
        (
            &["--reflink=never", "--method=reflink"],
            "--reflink=never cannot be used with --method=reflink",
        ),
        (&["--sparse=never", "--method=reflink"], "--method=reflink can be used only with"),
        (&["--sparse=always", "--method=reflink"], "--method=reflink can be used only with"),
        (&["-n", "--backup=none"], "--backup is mutually exclusive with -n"),
        (&["--update=none-fail", "-S", ".old"], "--backup is mutually exclusive with -n"),
        (&["--pipe-size=1"], "invalid --pipe-size '1': a pipe has 65536 to "),
        (&["--pipe-size=1T"], "invalid --pipe-size '1T': a pipe has 65536 to "),
        (&["--buffer-size=5M"], "invalid --buffer-size '5M': a buffer has 1 to 4194304 bytes"),
        (&["--threads=64", "--method=splice"], "--threads=64 cannot be used with --method=splice"),
        (&["--limit=0"], "invalid --limit '0'"),
        (&["--limit=99999999999999999999"], "too large"),
        (&["--buffer-size=1X"], "invalid --buffer-size '1X'"),
        (&["--threads=many"], "threads"),
        (&["--update=often"], "valid arguments are all, none, none-fail, older"),
        (&["--progress=often"], "valid arguments are auto, always, never"),
    ] {
        let all: Vec<_> = arguments.iter().copied().chain(["a", "b"]).collect();
        let said = fails(dir.path(), &all);
        assert!(said.starts_with("gush: cp: ") && said.contains(text), "{arguments:?}: {said}");
        assert!(said.ends_with("Try 'gush cp --help' for more information.\n"), "{said}");
    }
    assert_eq!(names(dir.path()), ["a"]);
}
