//! `gush socat`, and gush by the name `socat`.

use std::fs;
use std::process::{Command, Output};

use crate::common::{bounded, file_of, gush, gush_as};
use tempfile::TempDir;

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_command_line_of_socat_runs_by_its_name_and_as_a_command() {
    let dir = TempDir::new().unwrap();
    let mut command = gush();
    command.arg("socat");
    for (number, mut command) in [command, gush_as("socat", dir.path())].into_iter().enumerate() {
        let file = format!("made{number}");
        command.args(["-u", "-", &format!("CREATE:{file},mode=600")]).current_dir(dir.path());
        let output = command.stdin(file_of(b"bytes")).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        assert_eq!(fs::read_to_string(dir.path().join(&file)).unwrap(), "bytes");
    }
}

/// As socat does, where `gush link` waits for the other side.
#[test]
fn it_ends_soon_after_one_side_has_ended() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gush"));
    command.args(["socat", "-", "SYSTEM:cat; sleep 1000"]);
    let output = bounded(60, &command).stdin(file_of(b"asked")).output().unwrap();
    assert_eq!(output.stdout, b"asked", "{output:?}");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn what_has_no_equivalent_is_reported_and_nothing_is_run() {
    let dir = TempDir::new().unwrap();
    let output =
        gush().args(["socat", "-u", "TUN", "CREATE:made"]).current_dir(dir.path()).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let why = "unknown kind of address 'TUN'; gush link opens no network interface";
    assert_eq!(said(&output), format!("gush: socat: no equivalent: {why}\n"));
    assert!(!dir.path().join("made").exists());
    let output = gush().arg("socat").output().unwrap();
    assert!(said(&output).contains("two addresses"), "{output:?}");
}

#[test]
fn messages_go_to_the_file_and_differences_are_reported_on_request() {
    let dir = TempDir::new().unwrap();
    let run =
        |words: &[&str]| gush().arg("socat").args(words).current_dir(dir.path()).output().unwrap();
    let output = run(&["-lf", "log", "-u", "OPEN:missing", "-"]);
    assert!(!output.status.success() && output.stderr.is_empty(), "{output:?}");
    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(log.contains("gush: socat: ") && log.contains("missing"), "{log}");
    let output = run(&["-u", "-R", "copy", "/dev/null", "-"]);
    assert_eq!(said(&output), "");
    let output = run(&["-d", "-d", "-u", "-R", "copy", "/dev/null", "-"]);
    assert!(said(&output).contains("note: -R: "), "{output:?}");
}
