//! Linking and using the engine changes nothing in a process. SIGBUS is borrowed for `mmap-copy`
//! and given back.

#[macro_use]
mod common;

use std::io::{BufRead, BufReader, Seek, Write};
use std::process::{Command, Stdio};

use gush::{Choice, MethodName, Mover};
use rustix::process::{Pid, Signal, kill_process};

fn mmap_copy() {
    let (source, target) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    (&source).write_all(&common::noise(1, 100_000)).unwrap();
    (&source).rewind().unwrap();
    let report =
        Mover::new(&source, &target).method(Choice::Only(MethodName::MmapCopy)).run().unwrap();
    assert_eq!(report.bytes, 100_000);
}

/// The line of proc_pid_status(5) about signals that are caught or ignored.
fn signals(which: &str) -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    status.lines().find(|line| line.starts_with(which)).unwrap().to_owned()
}

#[test]
fn a_copy_leaves_every_disposition_as_it_was() {
    // Rust's start-up code handles SIGBUS itself, but not where it is ignored.
    for trap in ["trap - BUS", "trap '' BUS"] {
        let line = format!("{trap}; exec \"$@\"");
        let wrapper = ["bash", "-c", &line, "bash"];
        let (passed, said) = common::child(&wrapper, "in_a_child_dispositions_stay", &[]);
        assert!(passed, "{trap}: {said}");
    }
}

#[test]
#[ignore = "run by a test, in a process of its own"]
fn in_a_child_dispositions_stay() {
    let now = || [signals("SigCgt"), signals("SigIgn")];
    let before = now();
    mmap_copy();
    assert_eq!(now(), before);
}

#[test]
#[ignore = "run by a test, in a process of its own"]
fn in_a_child_copies_for_ever() {
    loop {
        mmap_copy();
        if writeln!(std::io::stdout(), "\ncopied").is_err() {
            return;
        }
    }
}

#[test]
fn sigbus_that_somebody_sends_is_ignored_where_it_was_ignored() {
    let mut child = Command::new("bash")
        .args(["-c", "trap '' BUS; exec \"$@\"", "bash"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "in_a_child_copies_for_ever", "--ignored", "--nocapture"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    for _ in 0..20 {
        lines.find(|line| line == "copied").expect("it goes on");
        kill_process(Pid::from_child(&child), Signal::BUS).unwrap();
    }
    for _ in 0..20 {
        lines.find(|line| line == "copied").expect("it goes on");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_program_that_links_the_engine_runs_nothing_of_it_before_main() {
    let own = std::env::current_exe().unwrap();
    let Ok(output) = Command::new("readelf").arg("-SW").arg(own).output() else {
        skip!("no readelf");
    };
    let output = String::from_utf8(output.stdout).unwrap();
    let section = |name: &str| output.lines().find(|line| line.split(' ').any(|word| word == name));
    assert_eq!(section(".preinit_array"), None);
    let line = section(".init_array").expect("functions before main");
    let words: Vec<_> = line.split_whitespace().skip_while(|word| *word != ".init_array").collect();
    // The C compiler's frame_dummy, and the function by which these tests begin in a known state.
    // glibc hands such functions the arguments of the program, and the standard library has one
    // that keeps them; musl does not.
    let functions = if cfg!(target_env = "musl") { 2 } else { 3 };
    let bytes = usize::from_str_radix(words[4], 16).unwrap();
    assert_eq!(bytes, functions * size_of::<usize>(), "{line}");
}
