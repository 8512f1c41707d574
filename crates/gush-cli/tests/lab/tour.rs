//! `gush lab` without a suite: a little of everything, kept, and one report.

use std::fs;

use crate::common::{gush, not_applicable};
use serde_json::Value;
use tempfile::TempDir;

/// Takes the tour with these options, and checks the rules for every tour; returns the output, or
/// none where the minute was too short for it.
fn tour(options: &[&str], suites: &[&str]) -> Option<String> {
    let home = TempDir::new().unwrap();
    let files = TempDir::new().unwrap();
    let mut lab = gush();
    lab.args(["lab", "--dir"]).arg(files.path()).args(options);
    let output = lab.env("XDG_DATA_HOME", home.path()).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    if said.contains(" cases were not reached within a minute") {
        not_applicable("the machine is too busy for a tour in a minute");
        return None;
    }
    let report = shown.lines().last().unwrap().strip_prefix("report: ").expect(&shown);
    let sentences = shown.lines().rev().skip(1).take_while(|line| !line.is_empty()).count();
    assert!((2..=3).contains(&sentences), "{shown}");
    assert!(fs::read_to_string(report).unwrap().starts_with("<!DOCTYPE html>"), "{report}");
    assert_eq!(fs::read_dir(files.path()).unwrap().count(), 0, "files are left");

    let mut history = gush();
    history.args(["lab", "history", "--json"]).env("XDG_DATA_HOME", home.path());
    let listed: Value = serde_json::from_slice(&history.output().unwrap().stdout).unwrap();
    let kept: Vec<&str> =
        listed[0]["suites"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(kept, suites, "one run has them all");
    // What the machine does not grant is left out, kept with the reason, reported, and shown by the
    // status.
    let mut export = gush();
    export.args(["lab", "export", "last", "--json"]).env("XDG_DATA_HOME", home.path());
    let run: Value = serde_json::from_slice(&export.output().unwrap().stdout).unwrap();
    let failures = run["runs"][0]["failures"].as_array().unwrap();
    assert_eq!(output.status.success(), failures.is_empty(), "{shown}\n{said}");
    for failure in failures {
        assert!(said.contains(failure["error"].as_str().unwrap()), "{failure}: {said}");
    }
    assert!(suites.iter().all(|suite| shown.lines().any(|line| line == *suite)), "{shown}");
    Some(shown)
}

#[test]
fn a_tour_keeps_one_run_of_its_suites_and_writes_one_report() {
    let shown = tour(&["--rounds", "1", "--only", "pages,memory"], &["memory", "pages"]);
    let Some(shown) = shown else { return };
    assert!(!shown.contains("write-read"), "{shown}");
}

#[test]
#[ignore = "a minute; in a release build on a quiet machine, or not every suite is reached"]
fn a_whole_tour_takes_every_suite() {
    tour(&[], &["copy", "matrix", "memory", "pages", "pipe"]);
}

#[test]
fn a_tour_of_no_suite_is_refused_with_those_that_there_are() {
    let output = gush().args(["lab", "--only", "nope"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("nope") && said.contains("pipe, copy, matrix, memory, pages"), "{said}");
}

#[test]
fn a_report_that_cannot_be_written_is_reported_after_the_figures() {
    let home = TempDir::new().unwrap();
    let output = gush()
        .args(["lab", "pipe", "--only", "write-read", "--bytes", "1M", "--rounds", "1"])
        .args(["--report", "/proc/report.html"])
        .env("XDG_DATA_HOME", home.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("write-read"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("/proc/report.html: No such file or directory"), "{said}");
}

#[test]
fn a_place_that_is_missing_is_reported_before_anything_is_measured() {
    let home = TempDir::new().unwrap();
    for (options, why) in [
        (
            &["--dir", "/nowhere"][..],
            "/nowhere: cannot make files there: No such file or directory",
        ),
        (
            &["--report", "/nowhere/x.html"],
            "/nowhere/x.html cannot be written: /nowhere is not a directory",
        ),
        (
            &["pipe", "--report", "/nowhere/x.html"],
            "cannot be written: /nowhere is not a directory",
        ),
        (&["--report", "/"], "/ is a directory: name a file"),
    ] {
        let mut lab = gush();
        lab.arg("lab").args(options).env("XDG_DATA_HOME", home.path());
        let output = lab.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(output.stdout.is_empty() && said.contains(why), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0, "a run was begun");
}

#[test]
fn options_of_the_tour_do_not_go_with_a_suite() {
    let output = gush().args(["lab", "--rounds", "1", "pipe"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(!output.stderr.is_empty() && output.stdout.is_empty());
}

#[test]
fn a_report_does_not_grow_by_the_cells_of_earlier_matrices() {
    let home = TempDir::new().unwrap();
    let page = home.path().join("report.html");
    let [first, second] = [(); 2].map(|()| {
        let mut lab = gush();
        lab.args(["lab", "matrix", "--only", "read-write", "--pairs", "pipe:*", "--report"]);
        let output = lab.arg(&page).env("XDG_DATA_HOME", home.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let reported = fs::read_to_string(&page).unwrap();
        fs::remove_file(&page).unwrap();
        reported
    });
    assert!(first.contains("1 run with ") && second.contains("1 run with "), "{second}");
    // With them it would be 15 KB, and a whole matrix is 300 times as large.
    assert!(second.len() < first.len() + 4096, "{} {}", first.len(), second.len());
}
