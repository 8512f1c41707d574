//! What `gush cp` says: messages, questions, JSON, progress, --debug.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::process::{Command, Output, Stdio};

use common::cp::cp;
use common::{gush, gush_as, skipped};

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(output: &Output) -> Vec<serde_json::Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn messages_name_the_path_what_failed_and_the_os_error() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "x").unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    symlink("nowhere", dir.path().join("dangling")).unwrap();
    for (arguments, message) in [
        (["no", "b"], "no: cannot stat: No such file or directory"),
        (["a", "a"], "'a' and 'a' are the same file"),
        (["a", "no/b"], "no/b: cannot create: No such file or directory"),
        (["a", "b/"], "b/: cannot create: Not a directory"),
        (["a", "a/b"], "a/b: cannot stat: Not a directory"),
        (["d", "b"], "d: omitting directory: directories are not copied yet"),
        (
            ["a", "dangling"],
            "dangling: not written through a dangling symbolic link \
             (--remove-destination replaces the link)",
        ),
        (["a", "/dev/full"], "/dev/full: write failed on the target: No space left on device"),
    ] {
        let output = cp(dir.path(), &arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let said = stderr(&output);
        assert!(said.starts_with(&format!("gush: cp: {message}")), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn called_as_cp_it_speaks_as_cp() {
    let dir = tempfile::tempdir().unwrap();
    let output =
        gush_as("cp", dir.path()).args(["no", "b"]).current_dir(dir.path()).output().unwrap();
    assert_eq!(stderr(&output), "cp: no: cannot stat: No such file or directory\n");
}

#[test]
fn one_failure_does_not_stop_the_others() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("b"), "b").unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    let output = cp(dir.path(), &["-a", "no", "sub", "b", "d"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output).lines().count(), 2);
    assert_eq!(fs::read(dir.path().join("d/b")).unwrap(), b"b");
}

#[test]
fn interactive_asks_and_only_yes_replaces() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "new").unwrap();
    for (answer, content, status) in [
        ("y\n", "new", 0),
        ("Yes\n", "new", 0),
        ("n\n", "old", 1),
        ("", "old", 1),
        ("\n", "old", 1),
    ] {
        fs::write(dir.path().join("b"), "old").unwrap();
        let mut child = gush()
            .args(["cp", "-n", "-i", "a", "b"])
            .current_dir(dir.path())
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(stderr(&output), "gush: cp: overwrite 'b'? ");
        assert_eq!(output.status.code(), Some(status), "{answer:?}");
        assert_eq!(fs::read_to_string(dir.path().join("b")).unwrap(), content, "{answer:?}");
    }
}

#[test]
fn update_none_fail_fails_and_update_none_does_not() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "new").unwrap();
    fs::write(dir.path().join("b"), "old").unwrap();
    let output = cp(dir.path(), &["--update=none", "--debug", "a", "b"]);
    assert!(output.status.success());
    assert_eq!(output.stdout, b"skipped 'b'\n");
    let output = cp(dir.path(), &["--update=none-fail", "a", "b"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "gush: cp: b: not replaced\n");
    assert_eq!(fs::read(dir.path().join("b")).unwrap(), b"old");
    assert!(cp(dir.path(), &["--update=all", "a", "b"]).status.success());
    assert_eq!(fs::read(dir.path().join("b")).unwrap(), b"new");
}

#[test]
fn json_is_one_object_a_file_with_its_error() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "12345").unwrap();
    fs::write(dir.path().join("c"), "c").unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    let output = cp(dir.path(), &["--json", "-v", "a", "no", "c", "d"]);
    assert_eq!(output.status.code(), Some(1));
    let records = json(&output);
    assert_eq!(records.len(), 3);
    assert_eq!(records[0]["source"], "a");
    assert_eq!(records[0]["target"], "d/a");
    assert_eq!(records[0]["action"], "copied");
    assert_eq!(records[0]["bytes"], 5);
    assert!(records[0]["seconds"].is_f64());
    assert!(records[0]["method"].is_string());
    assert!(records[0]["error"].is_null());
    assert_eq!(records[1]["action"], "failed");
    assert_eq!(records[1]["error"]["errno"], 2);
    assert_eq!(records[1]["error"]["what"], "cannot stat");
    assert_eq!(records[1]["error"]["path"], "no");
    assert_eq!(records[2]["action"], "copied");
    let fields: Vec<_> = records[0].as_object().unwrap().keys().cloned().collect();
    let mut wanted = [
        "source",
        "target",
        "action",
        "bytes",
        "hole_bytes",
        "seconds",
        "method",
        "methods",
        "fallbacks",
        "blake3",
        "backup",
        "warnings",
        "error",
    ];
    wanted.sort_unstable();
    assert_eq!(fields, wanted);
}

#[test]
fn json_tells_fallbacks_with_their_errno_and_bytes_before_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "12345").unwrap();
    let record = &json(&cp(dir.path(), &["--json", "a", "/dev/full"]))[0];
    assert_eq!(record["error"]["errno"], 28);
    assert_eq!(record["error"]["delivered_bytes"], 0);
    let record = &json(&cp(dir.path(), &["--json", "a", "b"]))[0];
    let tmp = rustix::fs::statfs(dir.path()).unwrap();
    const EXT: i64 = 0xEF53;
    if tmp.f_type != EXT {
        return skipped("only ext file systems are known to refuse reflinks");
    }
    assert_eq!(record["fallbacks"][0]["method"], "reflink");
    assert_eq!(record["fallbacks"][0]["errno"], 95);
    assert_eq!(record["fallbacks"][0]["errno_name"], "EOPNOTSUPP");
}

#[test]
fn names_that_are_no_text_survive_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let odd = OsStr::from_bytes(b"\xff\xfe.txt");
    fs::write(dir.path().join(odd), "odd").unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    let run = |options: &[&str]| {
        gush().arg("cp").args(options).arg(odd).arg("d").current_dir(dir.path()).output().unwrap()
    };
    let output = run(&["--json", "--atomic"]);
    assert!(output.status.success());
    assert_eq!(fs::read(dir.path().join("d").join(odd)).unwrap(), b"odd");
    let record = &json(&output)[0];
    assert_eq!(record["source_bytes"], "fffe2e747874");
    assert_eq!(record["target_bytes"], "642ffffe2e747874");
    assert_eq!(run(&["-v"]).stdout, b"''$'\\377\\376''.txt' -> 'd/'$'\\377\\376''.txt'\n");
    let output = gush().arg("cp").arg(odd).arg(odd).current_dir(dir.path()).output().unwrap();
    assert!(stderr(&output).contains(r"''$'\377\376''.txt'"), "{}", stderr(&output));
}

#[test]
fn debug_and_explain_tell_what_really_happened() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "12345").unwrap();
    let output = cp(dir.path(), &["--debug", "--explain", "a", "b"]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let (first, second) = text.split_once('\n').unwrap();
    assert_eq!(first, "'a' -> 'b'");
    assert!(second.starts_with("copy offload: ") && second.contains(", reflink: "), "{text}");
    assert!(second.ends_with(", sparse detection: no\n"), "{text}");
    assert!(stderr(&output).contains("picked "), "{}", stderr(&output));
    let output = cp(dir.path(), &["--debug", "--sparse=always", "a", "c"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("sparse detection: zeros"), "{text}");
}

#[test]
fn progress_shows_only_where_it_is_wanted() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), vec![b'x'; 3000]).unwrap();
    for quiet in ["--progress", "--progress=never"] {
        assert_eq!(stderr(&cp(dir.path(), &[quiet, "--limit=6000", "a", "b"])), "", "{quiet}");
    }
    let said = stderr(&cp(dir.path(), &["--progress=always", "--limit=1000", "a", "b"]));
    assert!(said.starts_with("gush: cp: a: ") && said.contains('%'), "{said}");
}

#[test]
fn progress_draws_on_a_terminal() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), vec![b'x'; 2000]).unwrap();
    let command = format!("'{}' cp --progress --limit=1000 a b", env!("CARGO_BIN_EXE_gush"));
    let output = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .current_dir(dir.path())
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success() && text.contains('%'), "{text}");
        }
        Err(why) => skipped(&format!("script: {why}")),
    }
}

#[test]
fn a_full_standard_output_is_a_failure_but_the_copy_is_made() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "x").unwrap();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output =
        gush().args(["cp", "-v", "a", "b"]).current_dir(dir.path()).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "gush: cp: write error: No space left on device\n");
    assert_eq!(fs::read(dir.path().join("b")).unwrap(), b"x");
}

#[test]
fn help_and_version_go_to_standard_output() {
    let dir = tempfile::tempdir().unwrap();
    let output = cp(dir.path(), &["--help"]);
    assert!(output.status.success() && output.stderr.is_empty());
    let text = String::from_utf8(output.stdout).unwrap();
    for option in ["--atomic", "--reflink", "--backup", "--preserve", "--method"] {
        assert!(text.contains(option), "{option}");
    }
    let output = cp(dir.path(), &["--version"]);
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout).unwrap().contains(env!("CARGO_PKG_VERSION")));
}
