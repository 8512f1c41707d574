//! The programs that a case starts: where they run, and what becomes of them.

use std::fs;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{gush, not_applicable};
use rustix::process::{Pid, Signal, kill_process};

/// `gush lab pipe`, and the process of the writer of its case.
fn running() -> (Child, i32) {
    let mut lab = gush()
        .args([
            "lab",
            "pipe",
            "--only",
            "write-read",
            "--rounds",
            "1",
            "--bytes",
            "640G",
            "--no-store",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let children = format!("/proc/{0}/task/{0}/children", lab.id());
    loop {
        let listed = fs::read_to_string(&children).unwrap();
        if let Some(writer) = listed.split_whitespace().find(|pid| is_writer(pid)) {
            return (lab, writer.parse().unwrap());
        }
        assert!(lab.try_wait().unwrap().is_none(), "the lab ended without a writer");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Is this the measured writer, and not the one before it that shows a counter to a hostile reader?
fn is_writer(pid: &str) -> bool {
    let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let is_measured = command.contains("pipe\0write") && !command.contains("--pattern");
    is_measured && computed_ticks(pid) > 5
}

#[test]
fn a_program_is_pinned_and_the_run_keeps_the_processors() {
    let allowed = gush_lab::affinity::allowed().unwrap();
    let [first, second, ..] = allowed[..] else {
        return not_applicable("processors cannot be distinguished");
    };
    let (mut lab, writer) = running();
    let status = fs::read_to_string(format!("/proc/{writer}/status")).unwrap();
    lab.kill().unwrap();
    lab.wait().unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    assert_eq!(list.map(str::trim), Some(first.to_string().as_str()));
    let words = ["lab", "memory", "--only", "read-1", "--rounds", "1", "--bytes", "4M", "--json"];
    let output = gush().args(words).arg("--no-store").output().unwrap();
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let pinned = run["runs"][0]["machine"]["facts"]["pinned"].as_str().expect("the processors");
    let others: Vec<usize> = allowed[1..].to_vec();
    let (one, other) = pinned.split_once(" and ").expect("two of them");
    assert_eq!(one, first.to_string());
    assert!(others.contains(&other.parse().unwrap()), "{pinned}, {second} is one");
}

#[test]
fn no_program_goes_on_after_its_lab_was_killed() {
    let (mut lab, writer) = running();
    lab.kill().unwrap();
    lab.wait().unwrap();
    let begun = Instant::now();
    while is_writer(&writer.to_string()) {
        assert!(begun.elapsed() < Duration::from_secs(60), "it writes on");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_program_that_is_killed_fails_its_case_and_not_the_lab() {
    let (lab, writer) = running();
    kill_process(Pid::from_raw(writer).unwrap(), Signal::KILL).unwrap();
    let output = lab.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("write-read: "), "{said}");
}

/// utime and stime, fields 14 and 15 of `/proc/PID/stat` (proc(5)); 0 for a process that is gone.
fn computed_ticks(pid: &str) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap().split_whitespace().skip(11).take(2);
    fields.map(|field| field.parse::<u64>().unwrap_or(0)).sum()
}
