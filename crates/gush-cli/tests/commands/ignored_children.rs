//! Commands that start programs under a parent that ignores SIGCHLD: the disposition is inherited
//! (execve(2)), and the kernel then keeps no exit status (wait(2)).

use std::process::{Command, Stdio};

use crate::common::{gush, within};

/// `gush WORDS` with SIGCHLD ignored.
fn with_children_ignored(words: &[&str]) -> Command {
    let mut command = gush();
    command.args(words);
    within(&["env", "--ignore-signal=CHLD"], &command)
}

fn status(words: &[&str]) -> Option<i32> {
    with_children_ignored(words).stdout(Stdio::null()).status().unwrap().code()
}

/// The same where nothing is ignored.
fn usual_status(words: &[&str]) -> Option<i32> {
    gush().args(words).stdout(Stdio::null()).status().unwrap().code()
}

#[test]
fn pv_returns_the_status_of_a_command_although_sigchld_is_ignored() {
    assert_eq!(status(&["pv", "-q", "--", "sh", "-c", "exit 3"]), Some(3));
    assert_eq!(status(&["pv", "-q", "--", "true"]), Some(0));
}

#[test]
fn link_learns_how_a_program_ended_although_sigchld_is_ignored() {
    assert_eq!(status(&["link", "-", "exec:cat"]), Some(0));
    assert_eq!(status(&["link", "-", "exec:false"]), usual_status(&["link", "-", "exec:false"]));
}

#[test]
fn tee_learns_how_an_address_ended_although_sigchld_is_ignored() {
    assert_eq!(status(&["tee", "--to", "exec:cat"]), Some(0));
    assert_eq!(
        status(&["tee", "--to", "exec:false"]),
        usual_status(&["tee", "--to", "exec:false"])
    );
}

#[test]
fn programs_started_have_the_default_disposition_of_sigchld() {
    let words = ["pv", "-q", "--", "grep", "^SigIgn", "/proc/self/status"];
    let output = with_children_ignored(&words).output().unwrap();
    let line = String::from_utf8(output.stdout).unwrap();
    let ignored =
        line.split_whitespace().nth(1).and_then(|mask| u64::from_str_radix(mask, 16).ok());
    let number = rustix::process::Signal::CHILD.as_raw();
    assert_eq!(ignored.map(|mask| mask >> (number - 1) & 1), Some(0), "{line}");
}
