//! `gush tune` from a user's view. Times are never asserted: only the answers, the messages and
//! the files left.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use crate::common::{gush, skipped};
use tempfile::TempDir;

/// Tunes the moves `only` in a directory.
fn tune(dir: &Path, only: &str, args: &[&str]) -> Output {
    let mut command = gush();
    command.args(["tune", "--no-store", "--rounds=1", "--only", only]).args(args);
    command.current_dir(dir).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn every_move_has_a_line_and_nothing_is_written() {
    let dir = TempDir::new().unwrap();
    let moves = ["tmpfs:tmpfs@16K", "pipe:tcp@48M"];
    // Shared memory need not be named, and is one kind with a directory on tmpfs.
    let output = tune(dir.path(), &moves.join(","), &[]);
    assert!(output.status.success(), "{output:?}");
    let reported = text(&output.stdout);
    assert_eq!(reported.lines().count(), moves.len(), "{reported}");
    for asked in moves {
        assert!(reported.contains(&format!("{asked}: fewer than five rounds ")), "{reported}");
    }
    assert!(names(dir.path()).is_empty());
}

#[test]
fn scripts_get_a_run_with_the_choice_of_the_plan() {
    let dir = TempDir::new().unwrap();
    let output = tune(dir.path(), "pipe:pipe@48M", &["--json"]);
    let exported: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let samples = exported["runs"][0]["samples"].as_array().unwrap();
    let auto = samples.iter().find(|sample| sample["case"] == "pipe:pipe@48M/auto").unwrap();
    assert_eq!((&auto["facts"]["method"], &auto["bytes"]), (&"splice".into(), &(48 << 20).into()));
    let cases = exported["runs"][0]["cases"].as_array().unwrap();
    let others = cases.iter().filter(|case| case["baseline"] == "pipe:pipe@48M/auto");
    assert_eq!(others.count(), cases.len() - 1);
}

#[test]
fn a_directory_that_takes_no_file_is_refused_before_anything_is_measured() {
    let dir = TempDir::new().unwrap();
    for (asked, why) in [("missing", "'missing': No such file"), ("/proc", "'/proc': ")] {
        let refused = tune(dir.path(), "pipe:pipe@48M", &["--dir", asked]);
        assert!(!refused.status.success() && refused.stdout.is_empty(), "{refused:?}");
        let said = text(&refused.stderr);
        assert!(said.contains(&format!("cannot make files in {why}")), "{said}");
        assert!(said.contains("(--dir names another place)"), "{said}");
    }
}

#[test]
fn a_directory_may_have_a_comma_in_its_name() {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("a,b")).unwrap();
    let output = tune(dir.path(), "pipe:pipe@48M/auto", &["--dir=a,b"]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn two_directories_on_one_kind_of_file_system_are_refused() {
    let dir = TempDir::new().unwrap();
    let refused = tune(dir.path(), "pipe:pipe@48M", &["--dir=.", "--dir=."]);
    assert!(!refused.status.success() && refused.stdout.is_empty(), "{refused:?}");
    let said = text(&refused.stderr);
    assert!(said.contains(". and . are on file systems of one kind ("), "{said}");
}

#[test]
fn an_interrupt_leaves_nothing() {
    use rustix::fs::inotify;
    let dir = TempDir::new().unwrap();
    let flags = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::WRONLY;
    if let Err(errno) = rustix::fs::open(dir.path(), flags, rustix::fs::Mode::RUSR) {
        return skipped(&format!("no files without a name where temporary files are: {errno}"));
    }
    // A file with a name is left by a signal in some moment, even if this test's signal comes in
    // another.
    let names_made = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&names_made, dir.path(), inotify::WatchFlags::CREATE).unwrap();
    let mut child = gush()
        .args(["tune", "--no-store", "--rounds=1000"])
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
    // By the signal before the measuring has begun; a shell shows the same number for both.
    let status = child.wait().unwrap();
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    assert!(signal == Some(2) || status.code() == Some(130), "{status:?}");
    assert!(names(dir.path()).is_empty());
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut names_made = inotify::Reader::new(names_made, &mut buffer);
    assert!(names_made.next().is_err(), "a file had a name for a while");
}
