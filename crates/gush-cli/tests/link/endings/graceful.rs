//! `--graceful`, which every translated command line of socat has: no time limit and no reset loses
//! data, and programs go on. Endings are seen with `gush socat`, and with socat, if it is
//! installed, where it does not lose data itself.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt;
use tempfile::TempDir;

use super::{Seen, accept, listener, reset, seen};
use crate::common::link::{Killed, Running, eventually};
use crate::common::{bounded, file_of, gush, noise};

/// Longer than the limits of these tests; nothing is read meanwhile.
const PAUSE: Duration = Duration::from_millis(1500);

type Start = fn(&[&str]) -> Running;

fn ours(arguments: &[&str]) -> Running {
    let mut command = gush();
    command.arg("socat").args(arguments).stdin(Stdio::null());
    Running::of(command)
}

fn socats(arguments: &[&str]) -> Running {
    let mut command = Command::new("socat");
    command.args(arguments).stdin(Stdio::null());
    Running::of(command)
}

/// Runs `test` with socat, if it is installed, and with `gush socat`.
fn with_both(test: impl Fn(Start)) {
    if Command::new("socat").arg("-V").stdout(Stdio::null()).status().is_ok() {
        test(socats);
    }
    test(ours);
}

/// A listener in socat's words.
fn peer() -> (TcpListener, String) {
    let (listener, address) = listener();
    (listener, address.replace("tcp:", "TCP:"))
}

/// The same, whose connections have a small receive buffer; those of the link have a large one.
fn slow_peer() -> (TcpListener, String) {
    let (listener, address) = peer();
    sockopt::set_socket_recv_buffer_size(&listener, 4096).unwrap();
    (listener, format!("{address},sndbuf=4194304"))
}

/// socat ends once there has been no room for so long, and loses the rest.
#[test]
fn a_reader_that_pauses_longer_than_the_limits_gets_all() {
    let sent = noise(1_000_000, 1);
    for limits in [&["-u", "-T", "0.3"][..], &["-T", "0.3"], &["-t", "0.3"]] {
        let (listener, target) = peer();
        let mut link = ours(&[limits, &[&target, "-"]].concat());
        let mut sender = accept(&listener);
        let mut output = link.stdout();
        thread::scope(|scope| {
            scope.spawn(|| {
                sender.write_all(&sent).unwrap();
                sender.shutdown(Shutdown::Write).unwrap();
            });
            thread::sleep(PAUSE);
            let mut got = Vec::new();
            output.read_to_end(&mut got).unwrap();
            let (status, _, said) = link.finish();
            assert!(got == sent, "{limits:?}: {} bytes: {said}", got.len());
            assert_eq!(status.code(), Some(0), "{limits:?}: {said}");
        });
    }
}

#[test]
fn a_silence_ends_the_data_of_both_sides() {
    with_both(|start| {
        let ((a, to_a), (b, to_b)) = (peer(), peer());
        let link = start(&["-T", "0.3", &to_a, &to_b]);
        let (mut a, mut b) = (accept(&a), accept(&b));
        assert_eq!([seen(&mut a), seen(&mut b)], [Seen::End(0); 2]);
        let (status, _, said) = link.finish();
        assert_eq!(status.code(), Some(0), "{said}");
    });
}

#[test]
fn a_reader_that_starts_late_gets_all_that_a_program_wrote_before_it_failed() {
    with_both(|start| {
        let (listener, target) = slow_peer();
        // socat may exit at the program's failure before it has read all.
        let program = "SYSTEM:head -c 100000 /dev/zero; sleep 0.5; exit 3";
        let link = start(&[program, &target]);
        let mut reader = accept(&listener);
        // Unread bytes of the reader's own must not turn the end into a reset.
        reader.write_all(b"unread").unwrap();
        thread::sleep(PAUSE);
        assert_eq!(seen(&mut reader), Seen::End(100_000), "{}", link.said());
        let (_, _, said) = link.finish();
        assert!(said.contains("status"), "{said}");
    });
}

#[test]
fn a_reader_that_starts_late_gets_all_that_came_before_a_reset_of_the_other_side() {
    with_both(|start| {
        let ((sender, to_sender), (reader, to_reader)) = (peer(), slow_peer());
        let link = start(&[&to_sender, &to_reader]);
        let (mut sender, mut reader) = (accept(&sender), accept(&reader));
        sender.write_all(&[7; 100_000]).unwrap();
        // A reset would overtake bytes that the link has not read.
        thread::sleep(PAUSE / 3);
        reset(sender);
        thread::sleep(PAUSE);
        assert_eq!(seen(&mut reader), Seen::End(100_000), "{}", link.said());
    });
}

/// socat 1.7 ends with 0, and socat 1.8 with 1.
#[test]
fn a_reset_is_a_failure_in_all_directions() {
    let dir = TempDir::new().unwrap();
    let file = format!("CREATE:{}", dir.path().join("file").display());
    for arguments in [&["-u", "FROM", &file][..], &["-U", &file, "FROM"], &["FROM", "PIPE"]] {
        let (listener, from) = peer();
        let link = ours(&arguments.iter().map(|&word| of(word, &from)).collect::<Vec<_>>());
        let mut sender = accept(&listener);
        sender.write_all(b"a part").unwrap();
        reset(sender);
        let (status, _, said) = link.finish();
        assert_eq!(status.code(), Some(1), "{arguments:?}: {said}");
    }
}

fn of<'a>(word: &'a str, from: &'a str) -> &'a str {
    if word == "FROM" { from } else { word }
}

/// The data is in the socket's buffer, or has not been read yet.
#[test]
fn a_target_that_resets_before_it_has_read_all_is_a_failure() {
    for bytes in [100_000, 10_000_000] {
        let (listener, target) = slow_peer();
        let mut link = with_input(&["-u", "-", &target], noise(bytes, 2));
        let mut reader = accept(&listener);
        reader.read_exact(&mut [0; 1000]).unwrap();
        reset(reader);
        let status = link.0.wait().unwrap();
        assert_eq!(status.code(), Some(1), "{bytes}");
    }
}

/// As many servers do; the reset may come before or after the link has seen the end.
#[test]
fn a_peer_that_ends_its_data_and_closes_without_reading_is_no_failure() {
    for _ in 0..10 {
        let (listener, target) = peer();
        let mut link = with_input(&["-t", "60", "-", &target], noise(100, 4));
        let reader = accept(&listener);
        reader.peek(&mut [0]).unwrap();
        reader.shutdown(Shutdown::Write).unwrap();
        drop(reader);
        assert_eq!(link.0.wait().unwrap().code(), Some(0));
    }
}

fn with_input(arguments: &[&str], input: Vec<u8>) -> Killed {
    let mut command = gush();
    command.arg("socat").args(arguments).stdin(Stdio::piped());
    let mut link = command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let mut stdin = link.stdin.take().unwrap();
    // Fails once the link has ended.
    thread::spawn(move || stdin.write_all(&input));
    Killed(link)
}

#[test]
fn bytes_that_come_for_a_program_after_its_exit_are_a_failure() {
    for arguments in [&["-u", "-", "EXEC:head -c 5"][..], &["-", "SYSTEM:head -c 5"]] {
        let mut link = with_input(arguments, noise(1_000_000, 3));
        assert_eq!(link.0.wait().unwrap().code(), Some(1), "{arguments:?}");
    }
    // Nothing comes.
    let (done, said) = code_of_socat(&["-u", "-", "EXEC:true"]);
    assert_eq!(done, Some(0), "{said}");
}

fn code_of_socat(arguments: &[&str]) -> (Option<i32>, String) {
    let done = gush().arg("socat").args(arguments).stdin(Stdio::null()).output().unwrap();
    (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
}

/// As by socat: SYSTEM is left alone, and EXEC gets SIGTERM, which it may ignore.
#[test]
fn programs_go_on_without_the_link() {
    const WAITS: &str = "read word <fifo; echo $word >made";
    for (program, expected) in [
        (format!("SYSTEM:cat; {WAITS}"), "go\n"),
        (format!("SYSTEM:({WAITS}) >/dev/null 2>&1 & cat"), "go\n"),
        ("EXEC:sh ignores".to_owned(), "go\n"),
        ("EXEC:sh traps".to_owned(), "asked\n"),
    ] {
        let dir = TempDir::new().unwrap();
        let in_dir = |name: &str| dir.path().join(name);
        fs::write(in_dir("ignores"), format!("trap '' TERM\ncat\n{WAITS}\n")).unwrap();
        let traps = "trap 'echo asked >made; exit' TERM\ncat\ncat <fifo & wait";
        fs::write(in_dir("traps"), traps).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, in_dir("fifo"), rustix::fs::Mode::RWXU).unwrap();
        let mut fifo = File::options().read(true).write(true).open(in_dir("fifo")).unwrap();
        let mut command = gush();
        command.args(["socat", "-t", "0.1", "-", &program]).current_dir(dir.path());
        let status = command.stdin(file_of(b"sent")).stdout(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(0), "{program}");
        if expected == "go\n" {
            fifo.write_all(b"go\n").unwrap();
        }
        let made = || fs::read_to_string(in_dir("made")).is_ok_and(|made| made == expected);
        eventually(&program, made);
    }
}

/// socat does not wait until the program has read all.
#[test]
fn a_program_on_a_raw_terminal_is_ended_after_it_has_read_all() {
    let dir = TempDir::new().unwrap();
    let mut command = gush();
    command.args(["socat", "-u", "-", "SYSTEM:cat >got,pty,raw,echo=0"]).current_dir(dir.path());
    let output = bounded(60, &command).stdin(file_of(b"all")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(fs::read(dir.path().join("got")).unwrap(), b"all");
}

/// Unread bytes would make close(2) reset the connection, and discard what is still to be sent.
#[test]
fn what_a_reader_writes_after_a_reset_of_the_other_side_costs_it_no_byte() {
    let ((sender, to_sender), (reader, to_reader)) = (peer(), slow_peer());
    let link = ours(&[&to_sender, &to_reader]);
    let (mut sender, mut reader) = (accept(&sender), accept(&reader));
    sender.write_all(&[7; 100_000]).unwrap();
    thread::sleep(PAUSE / 3);
    reset(sender);
    thread::sleep(PAUSE / 3);
    reader.write_all(b"unread").unwrap();
    thread::sleep(PAUSE);
    assert_eq!(seen(&mut reader), Seen::End(100_000), "{}", link.said());
}
