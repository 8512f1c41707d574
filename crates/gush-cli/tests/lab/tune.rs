//! `gush tune` from a user's view. Times are never asserted: only the answers, the messages and
//! the files left.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use crate::common::{gush, skipped};
use tempfile::TempDir;

/// Tunes for a second in a directory.
fn tune(dir: &Path, args: &[&str]) -> Output {
    gush().current_dir(dir).args(["tune", "--seconds=1"]).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn every_question_has_a_line_and_nothing_is_written() {
    let dir = TempDir::new().unwrap();
    let output = tune(dir.path(), &[]);
    assert!(output.status.success(), "{output:?}");
    let reported = text(&output.stdout);
    for question in ["file on ", "pipe to pipe, 48 MiB", "socket to socket, 48 MiB"] {
        assert!(reported.lines().any(|line| line.starts_with(question)), "{question}: {reported}");
    }
    let moves = reported.lines().count() - 1;
    assert!(
        reported.lines().last().unwrap().starts_with(&format!("of {moves} moves ")),
        "{reported}"
    );
    assert!(names(dir.path()).is_empty());
}

#[test]
fn scripts_get_one_object() {
    let dir = TempDir::new().unwrap();
    let output = tune(dir.path(), &["--json"]);
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let answers = record["answers"].as_array().unwrap();
    for key in ["question", "source", "target", "bytes", "plan"] {
        assert!(answers.iter().all(|answer| !answer[key].is_null()), "{key}: {record}");
    }
    let skipped = answers.iter().filter(|answer| !answer["skipped"].is_null()).count();
    assert_eq!(record["skipped"], skipped);
    assert!(record["faster"].as_u64().unwrap() as usize + skipped <= answers.len(), "{record}");
}

#[test]
fn a_directory_that_takes_no_file_is_refused_before_anything_is_measured() {
    let dir = TempDir::new().unwrap();
    for (asked, why) in [("missing", "missing: No such file"), ("/proc", "/proc: ")] {
        let refused = tune(dir.path(), &["--dir", asked]);
        assert!(!refused.status.success() && refused.stdout.is_empty(), "{refused:?}");
        let said = text(&refused.stderr);
        assert!(said.contains(&format!("cannot make a file in {why}")), "{said}");
    }
}

#[test]
fn an_interrupt_leaves_nothing() {
    use rustix::fs::inotify;
    let dir = TempDir::new().unwrap();
    let flags = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::WRONLY;
    if let Err(errno) = rustix::fs::open(dir.path(), flags, rustix::fs::Mode::RUSR) {
        return skipped(&format!("no files without a name where temporary files are: {errno}"));
    }
    // A file with a name is left by a signal in some moment, even if this test's signal comes in another.
    let names_made = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&names_made, dir.path(), inotify::WatchFlags::CREATE).unwrap();
    let mut child = gush()
        .args(["tune", "--seconds=60"])
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // It measures by files without a name in the directory: there is something to be left.
    let descriptors = format!("/proc/{}/fd", child.id());
    let has_files = || {
        let links = fs::read_dir(&descriptors).into_iter().flatten().flatten();
        links
            .filter_map(|link| fs::read_link(link.path()).ok())
            .any(|to| to.starts_with(dir.path()))
    };
    while !has_files() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it made a file");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    // The signal itself ends it; a shell shows the same number for both.
    let status = child.wait().unwrap();
    assert!(status.signal() == Some(2) || status.code() == Some(130), "{status:?}");
    assert!(names(dir.path()).is_empty());
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut names_made = inotify::Reader::new(names_made, &mut buffer);
    assert!(names_made.next().is_err(), "a file had a name for a while");
}

#[test]
fn more_than_a_minute_is_refused() {
    for seconds in ["0", "61", "-1", "x"] {
        let output = gush().args(["tune", &format!("--seconds={seconds}")]).output().unwrap();
        assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
        let said = text(&output.stderr);
        assert!(said.contains(&format!("invalid --seconds '{seconds}'")), "{said}");
    }
}
