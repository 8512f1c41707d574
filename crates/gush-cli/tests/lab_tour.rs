//! `gush lab` without a suite: a little of everything, kept, and one report.

mod common;

use std::fs;

use common::gush;
use serde_json::Value;
use tempfile::TempDir;

#[test]
fn a_tour_measures_every_suite_keeps_the_run_and_writes_one_report() {
    let home = TempDir::new().unwrap();
    let files = TempDir::new().unwrap();
    let output = gush()
        .args(["lab", "--rounds", "1", "--dir"])
        .arg(files.path())
        .env("XDG_DATA_HOME", home.path())
        .output()
        .unwrap();
    let (shown, said) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // What the machine does not grant is left out, and that is told by the status.
    assert!(output.status.success() || said.contains("gush: lab: "), "{shown}\n{said}");
    let report = shown.lines().last().unwrap().strip_prefix("report: ").unwrap().to_owned();
    let page = fs::read_to_string(&report).unwrap();
    assert!(page.contains("write-read") && page.contains("copy-file-range"), "{report}");
    assert_eq!(fs::read_dir(files.path()).unwrap().count(), 0, "files are left behind");

    let listed = gush()
        .args(["lab", "history", "--json"])
        .env("XDG_DATA_HOME", home.path())
        .output()
        .unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let suites: Vec<&str> =
        listed[0]["suites"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for suite in ["copy", "matrix", "pipe"] {
        assert!(suites.contains(&suite), "{suites:?}");
        assert!(shown.lines().any(|line| line == suite), "{shown}");
    }
}

#[test]
fn a_report_that_cannot_be_written_is_told_after_the_figures() {
    let home = TempDir::new().unwrap();
    let output = gush()
        .args(["lab", "pipe", "--only", "write-read", "--bytes", "1M", "--rounds", "1"])
        .args(["--report", "/nowhere/report.html"])
        .env("XDG_DATA_HOME", home.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("write-read"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("/nowhere/report.html: No such file or directory"), "{said}");
}

#[test]
fn options_of_the_tour_do_not_go_with_a_suite() {
    let output = gush().args(["lab", "--rounds", "1", "pipe"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(!output.stderr.is_empty() && output.stdout.is_empty());
}
