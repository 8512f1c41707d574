//! Rules for every suite of `gush lab`: the samples that an interrupt leaves.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use crate::common::gush;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

#[test]
fn an_interrupt_keeps_what_was_measured() {
    // Far more rounds than anybody waits for.
    let mut lab = gush()
        .args(["lab", "pipe", "--only", "write-read", "--rounds", "1000000", "--bytes", "64M"])
        .arg("--csv")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(lab.stdout.take().unwrap()).lines();
    let first: Vec<String> = lines.by_ref().take(3).map(Result::unwrap).collect();
    assert!(first[0].starts_with("run,started,") && first[2].contains(",pipe,write-read,2,"));
    kill_process(Pid::from_child(&lab), Signal::INT).unwrap();
    // None may come any more: the rows before are looked at, too.
    for line in first.into_iter().skip(1).chain(lines.map(Result::unwrap)) {
        assert!(line.ends_with("}\""), "a row is whole or absent: {line}");
    }
    // Ends only once no child holds the other end.
    let mut said = String::new();
    lab.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(lab.wait().unwrap().code(), Some(130), "{said}");
    assert!(said.contains("interrupted: ") && said.contains(" samples of 1000000 were taken"));
    assert!(!said.contains("write-read: "), "ended children are no failure: {said}");
}

#[test]
fn an_interrupt_ends_the_processes_of_a_case_at_once() {
    // One measurement that would take hours.
    let home = TempDir::new().unwrap();
    let mut lab = gush()
        .env("XDG_DATA_HOME", home.path())
        .args(["lab", "pipe", "--only", "write-read", "--rounds", "1", "--bytes", "1P"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let children = format!("/proc/{0}/task/{0}/children", lab.id());
    while std::fs::read_to_string(&children).unwrap().split_whitespace().count() < 2 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&lab), Signal::TERM).unwrap();
    let mut said = String::new();
    lab.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(lab.wait().unwrap().code(), Some(128 + 15), "{said}");
    assert!(said.contains("interrupted: 0 samples of 1 were taken"), "{said}");
    // A run without a sample would be one line of the history more, and nothing else.
    assert!(!said.contains("stored as"), "{said}");
    let mut history = gush();
    history.args(["lab", "history", "--json"]).env("XDG_DATA_HOME", home.path());
    assert_eq!(history.output().unwrap().stdout, b"[]\n");
}

#[test]
fn an_interrupt_keeps_what_was_measured_in_every_suite() {
    let files = TempDir::new().unwrap();
    let dir = files.path().to_str().unwrap();
    for words in [
        &["memory", "--bytes", "4M", "--only", "read-1"][..],
        &["pages", "--bytes", "4M", "--only", "touched-4K"],
        &["pipe", "--bytes", "1M", "--only", "write-read"],
        &["matrix", "--only", "sendfile", "--pairs", "pipe:*"],
        &["copy", "--dir", dir, "--size", "64K", "--only", "read-write-4096"],
    ] {
        let home = TempDir::new().unwrap();
        let mut lab = gush()
            .arg("lab")
            .args(words)
            .args(["--rounds", "1000000", "--csv"])
            .env("XDG_DATA_HOME", home.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(lab.stdout.take().unwrap()).lines();
        assert_eq!(lines.by_ref().take(3).count(), 3, "{words:?}");
        kill_process(Pid::from_child(&lab), Signal::INT).unwrap();
        let rows = 2 + lines.count();
        let mut said = String::new();
        lab.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(lab.wait().unwrap().code(), Some(130), "{words:?}: {said}");
        assert!(said.contains(&format!("interrupted: {rows} samples of ")), "{words:?}: {said}");
        let history = gush()
            .args(["lab", "history", "--json"])
            .env("XDG_DATA_HOME", home.path())
            .output()
            .unwrap();
        let listed: Value = serde_json::from_slice(&history.stdout).unwrap();
        assert_eq!(
            (&listed[0]["state"], &listed[0]["samples"]),
            (&"interrupted".into(), &rows.into())
        );
    }
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0, "files are left");
}
