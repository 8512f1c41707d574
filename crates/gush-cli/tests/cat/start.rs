//! `cat` and `cp` heed the state they inherit: an ignored SIGPIPE, closed standard descriptors.

use std::fs;
use std::io;
use std::process::{Command, Output, Stdio};

use crate::common::gush_as;
use tempfile::TempDir;

/// The engine's way and the formatter's.
const WAYS: [&str; 2] = ["-u", "-s"];

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_reader_that_left_is_an_error_where_sigpipe_is_ignored() {
    let dir = TempDir::new().unwrap();
    drop(gush_as("cat", dir.path()));
    for flag in WAYS {
        let (ours, theirs) = io::pipe().unwrap();
        drop(ours);
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' PIPE; exec ./cat \"$0\" /dev/zero", flag]).current_dir(&dir);
        let output = shell.stdin(Stdio::null()).stdout(theirs).output().unwrap();
        let line = "cat: write error: Broken pipe (after 0 bytes of /dev/zero; ";
        assert!(said(&output).starts_with(line), "{flag}: {}", said(&output));
        assert_eq!(output.status.code(), Some(1), "{flag}");
    }
}

#[test]
fn closed_standard_descriptors_are_errors() {
    let dir = TempDir::new().unwrap();
    drop(gush_as("cat", dir.path()));
    fs::write(dir.path().join("file"), "content\n").unwrap();
    for (script, message) in [
        ("./cat file >&-", "cat: standard output: Bad file descriptor\n"),
        ("./cat -n file >&-", "cat: standard output: Bad file descriptor\n"),
        ("./cat - <&-", "cat: -: Bad file descriptor\n"),
        ("./cat -n <&-", "cat: -: Bad file descriptor\n"),
    ] {
        let output = Command::new("sh").args(["-c", script]).current_dir(&dir).output().unwrap();
        assert_eq!(said(&output), message, "{script}");
        assert_eq!(output.status.code(), Some(1), "{script}");
    }
}

#[test]
fn an_account_that_goes_nowhere_is_an_error_of_cp() {
    let dir = TempDir::new().unwrap();
    drop(gush_as("cp", dir.path()));
    fs::write(dir.path().join("file"), "content\n").unwrap();
    for (script, status) in
        [("./cp -v file copy >&-", 1), ("./cp --json file copy >&-", 1), ("./cp file copy >&-", 0)]
    {
        let output = Command::new("sh").args(["-c", script]).current_dir(&dir).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{script}");
        assert_eq!(said(&output).contains("write error: Bad file descriptor"), status == 1);
        assert_eq!(fs::read(dir.path().join("copy")).unwrap(), b"content\n", "{script}");
    }
}
