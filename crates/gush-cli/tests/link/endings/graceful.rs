//! `--graceful`, which every translated command line of socat has: no time limit and no reset loses
//! data. Endings are seen with `gush socat`, and with socat, if it is installed, where it does not
//! lose data itself.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt;

use super::{Seen, accept, listener, reset, seen};
use crate::common::link::Running;
use crate::common::{gush, noise};

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
        drop(reader);
        let (status, _, said) = link.finish();
        assert_eq!(status.code(), Some(0), "{said}");
    });
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
