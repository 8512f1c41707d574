//! `gush lab report`: from stored or exported runs to a page.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::gush;
use tempfile::TempDir;

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../gush-lab/tests/data/report-runs.json")
}

/// `gush lab` with data in `home`.
fn lab(home: &Path, args: &[&str]) -> Command {
    let mut command = gush();
    command.arg("lab").args(args).env("XDG_DATA_HOME", home).env("HOME", home);
    command
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn imported() -> TempDir {
    let home = TempDir::new().unwrap();
    let output = lab(home.path(), &["import"]).arg(sample()).output().unwrap();
    succeeded(&output);
    home
}

#[test]
fn stored_runs_become_a_page_whose_path_is_printed() {
    let home = imported();
    let printed = succeeded(&lab(home.path(), &["report"]).output().unwrap());
    let path = home.path().join("gush/report.html");
    assert_eq!(printed, format!("{}\n", path.display()));
    let page = fs::read_to_string(path).unwrap();
    for text in [
        "<h1>Beside and above them, both spinning: <code>fresh-splice</code>",
        "id=\"history\"",
        "bench-2",
    ] {
        assert!(page.contains(text), "{text} is missing");
    }
}

#[test]
fn a_signal_while_the_page_is_written_leaves_the_old_page_alone() {
    let home = imported();
    let dir = TempDir::new().unwrap();
    let page = dir.path().join("page.html");
    fs::write(&page, "the old page").unwrap();
    // Past the limit on the size of files the kernel sends SIGXFSZ (setrlimit(2)).
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -c 0; ulimit -f 8; exec \"$@\"", "sh"]);
    limited.args([env!("CARGO_BIN_EXE_gush"), "lab", "report", "-o"]).arg(&page);
    let output = limited.env("XDG_DATA_HOME", home.path()).output().unwrap();
    assert_eq!(output.status.signal(), Some(25), "{output:?}");
    let names: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["page.html"]);
    assert_eq!(fs::read_to_string(page).unwrap(), "the old page");
}

#[test]
fn runs_can_be_chosen() {
    let home = imported();
    let page = succeeded(&lab(home.path(), &["report", "last", "--report", "-"]).output().unwrap());
    assert!(page.contains("20261121-143400-e5f6") && !page.contains("20261119-070100"));
    let page = home.path().join("two.html");
    let output =
        lab(home.path(), &["report", "last", "20261119", "-o"]).arg(&page).output().unwrap();
    assert_eq!(succeeded(&output), format!("{}\n", page.display()));
    assert!(fs::read_to_string(page).unwrap().contains("id=\"history\""));
}

#[test]
fn an_exported_file_needs_no_store() {
    let home = TempDir::new().unwrap();
    let page = home.path().join("page.html");
    let output = lab(home.path(), &["report"]).arg(sample()).arg("-o").arg(&page).output().unwrap();
    succeeded(&output);
    let from_file = fs::read(&page).unwrap();
    let input = Stdio::from(fs::File::open(sample()).unwrap());
    let output = lab(home.path(), &["report", "-", "-o", "-"]).stdin(input).output().unwrap();
    assert!(from_file.trim_ascii_end() == output.stdout.trim_ascii_end());
    assert!(!home.path().join("gush").exists(), "nothing is made that was not asked for");
}

#[test]
fn stored_and_exported_runs_make_the_same_page() {
    let home = imported();
    let stored = succeeded(&lab(home.path(), &["report", "-o", "-"]).output().unwrap());
    let exported =
        succeeded(&lab(home.path(), &["report", "-o", "-"]).arg(sample()).output().unwrap());
    assert!(stored == exported);
}

#[test]
fn what_cannot_be_shown_is_reported_in_a_sentence() {
    let home = imported();
    let said = |args: &[&str]| refused(&lab(home.path(), args).output().unwrap());
    assert_eq!(
        said(&["report", "nope"]),
        "gush: lab: report: unknown run 'nope'; gush lab history lists them\n"
    );
    assert_eq!(
        said(&["report", "/no/such.json"]),
        "gush: lab: report: /no/such.json: cannot read: No such file or directory\n"
    );
    assert_eq!(
        said(&["report", "-o", "/no/such/page.html"]),
        "gush: lab: report: /no/such/page.html cannot be written: /no/such is not a directory\n"
    );
    let garbled = home.path().join("garbled.json");
    fs::write(&garbled, "{}").unwrap();
    let output = lab(home.path(), &["report"]).arg(&garbled).output().unwrap();
    assert!(
        refused(&output).contains(
            "garbled.json: is not an export of gush lab, as gush lab export --json writes it: "
        ),
        "{output:?}"
    );
    let nobody = TempDir::new().unwrap();
    let output = lab(nobody.path(), &["report"]).output().unwrap();
    assert!(refused(&output).starts_with("gush: lab: report: "), "{output:?}");
    assert!(!nobody.path().join("gush").exists(), "a report makes no store");
}

#[test]
fn a_full_standard_output_is_an_error() {
    let home = imported();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = lab(home.path(), &["report", "-o", "-"]).stdout(full).output().unwrap();
    assert!(refused(&output).ends_with("write error: No space left on device\n"));
}
