//! A terminal without `O_NONBLOCK` that nobody reads holds nobody: no call of a port waits, and
//! every face can be ended.

mod common;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::Duration;

use common::{ends_within, terminal};
use gush::flow::Terms;
use gush::{Cancel, Choice, Errno, MethodName, Mover, Port, Repeat, Tee};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, OutputModes, Termios, tcgetattr, tcsetattr};

/// More than both directions of a pseudo-terminal hold.
const TEXT_BYTES: usize = 60_000;

/// The changes that the terminal makes to output.
struct Modes {
    name: &'static str,
    set: fn(&mut Termios),
    shown: fn(&[u8]) -> Vec<u8>,
}

const MODES: [Modes; 4] = [
    Modes { name: "raw", set: Termios::make_raw, shown: <[u8]>::to_vec },
    Modes {
        name: "onlcr",
        set: |modes| modes.output_modes = OutputModes::OPOST | OutputModes::ONLCR,
        shown: |text| {
            replaced(text, |byte, _| if byte == b'\n' { b"\r\n".to_vec() } else { vec![byte] })
        },
    },
    Modes {
        name: "tabs",
        set: |modes| modes.output_modes = OutputModes::OPOST | OutputModes::XTABS,
        // Without ONLCR a line feed goes down and not back: the column stays.
        shown: |text| {
            replaced(text, |byte, column| match byte {
                b'\t' => vec![b' '; 8 - column % 8],
                _ => vec![byte],
            })
        },
    },
    Modes {
        name: "olcuc",
        set: |modes| modes.output_modes = OutputModes::OPOST | OutputModes::OLCUC,
        shown: <[u8]>::to_ascii_uppercase,
    },
];

/// Each byte as the terminal shows the byte, which depends on the byte's column.
fn replaced(text: &[u8], shown: impl Fn(u8, usize) -> Vec<u8>) -> Vec<u8> {
    let mut column = 0;
    let mut all = Vec::new();
    for &byte in text {
        let shown = shown(byte, column);
        column += shown.iter().filter(|byte| !byte.is_ascii_control()).count();
        all.extend(shown);
    }
    all
}

/// Lines of all lengths, and every byte that a terminal replaces, at every place in 256 bytes.
fn text() -> Vec<u8> {
    let mut text = Vec::new();
    for line in 0.. {
        text.extend(std::iter::repeat_n(b'a' + (line % 26) as u8, line % 300));
        text.extend([&b"\n"[..], b"\t", b"\n\n", b"\t\t\n"][line % 4]);
        if text.len() > TEXT_BYTES {
            break;
        }
    }
    text.truncate(TEXT_BYTES);
    text
}

/// Only to end a test that hangs: on an emulated processor that is busy otherwise, 240,000 calls
/// take a minute.
const HANGS_AFTER_SECONDS: u64 = 600;

/// Writes the text as fast as the reader makes room, and checks that every byte arrives.
fn writes_all(target: &OwnedFd, reader: &OwnedFd, text: &[u8], shown: &[u8]) {
    let mut port = Port::of(target).expect("a port");
    let (mut left, mut got, mut buf) = (text, Vec::<u8>::new(), [0; 4096]);
    while got.len() < shown.len() {
        while !left.is_empty() {
            match port.write(left) {
                Ok(put) => left = &left[put..],
                Err(errno) => {
                    assert_eq!(errno, Errno::AGAIN);
                    break;
                }
            }
        }
        // A thread of the kernel's carries the bytes to the reader.
        let mut fds = [PollFd::new(reader, PollFlags::IN)];
        let ready = poll(&mut fds, Some(&Timespec { tv_sec: 60, tv_nsec: 0 })).expect("poll");
        assert_eq!(ready, 1, "{} of {} bytes arrived", got.len(), shown.len());
        // Seldom as much as there is, so that the room is of every size.
        let taken = rustix::io::read(reader, &mut buf[..1 + got.len() * 7 % 700]).expect("bytes");
        got.extend(&buf[..taken]);
    }
    assert!(left.is_empty() && got == shown, "{} of {} bytes", got.len(), shown.len());
}

#[test]
fn a_port_never_waits_for_a_terminal() {
    for Modes { name, set, shown } in MODES {
        let (master, slave) = terminal().expect("a terminal");
        let mut modes = tcgetattr(&slave).expect("tcgetattr");
        set(&mut modes);
        tcsetattr(&slave, OptionalActions::Now, &modes).expect("tcsetattr");
        let ended = ends_within(HANGS_AFTER_SECONDS, move || {
            let text = text();
            writes_all(&slave, &master, &text, &shown(&text));
        });
        assert!(ended.is_some(), "a write to a slave waits: {name}");
    }
}

#[test]
fn a_port_never_waits_for_the_master_of_a_terminal() {
    let (master, slave) = terminal().expect("a terminal");
    // The output of the slave is changed, and the input is not.
    let mut modes = tcgetattr(&slave).expect("tcgetattr");
    modes.output_modes = OutputModes::OPOST | OutputModes::ONLCR | OutputModes::OLCUC;
    tcsetattr(&slave, OptionalActions::Now, &modes).expect("tcsetattr");
    let ended = ends_within(HANGS_AFTER_SECONDS, move || {
        let text = text();
        writes_all(&master, &slave, &text, &text);
    });
    assert!(ended.is_some(), "a write to a master waits");
}

/// Runs with a canceller that is used once the target has no room.
fn is_cancelled<T: Send + 'static>(
    full: &OwnedFd,
    run: impl FnOnce(&Cancel) -> T + Send + 'static,
) -> Option<T> {
    let cancel = Cancel::new();
    let (canceller, full) = (cancel.clone(), full.try_clone().expect("dup"));
    let waiter = std::thread::spawn(move || {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        while poll(&mut [PollFd::new(&full, PollFlags::OUT)], Some(&at_once)).expect("poll") > 0 {
            std::thread::yield_now();
        }
        canceller.cancel();
    });
    let outcome = ends_within(10, move || run(&cancel));
    waiter.join().expect("the canceller");
    outcome
}

/// The slave and the master of a pair, each as a target that nobody reads, and the other end.
fn unread() -> [(&'static str, OwnedFd, OwnedFd); 2] {
    let ((master, slave), (other_master, other_slave)) =
        (terminal().expect("a terminal"), terminal().expect("a terminal"));
    [("slave", slave, master), ("master", other_master, other_slave)]
}

#[test]
fn a_tee_into_a_terminal_that_nobody_reads_is_cancelled() {
    for (name, target, _unread) in unread() {
        for backlog_bytes in [0, 1 << 20] {
            let full = target.try_clone().expect("dup");
            let target = target.try_clone().expect("dup");
            let outcome = is_cancelled(&full, move |cancel| {
                let zeros = File::open("/dev/zero").expect("zeros");
                let null = File::create("/dev/null").expect("null");
                let tee = Tee::new(&zeros).to(&target).to(&null).backlog_bytes(backlog_bytes);
                tee.cancelled_by(cancel).run()
            });
            let error = outcome.expect(name).expect_err("zeros have no end");
            assert!(error.is_cancelled(), "{name}: {error}");
        }
    }
}

#[test]
fn a_tee_leaves_a_terminal_that_stalls() {
    for (name, target, _unread) in unread() {
        let report = ends_within(10, move || {
            let zeros = File::open("/dev/zero").expect("zeros");
            let null = File::create("/dev/null").expect("null");
            let terms = Terms { length_bytes: Some(1 << 20), never_held: true, ..Terms::default() };
            let tee = Tee::new(&zeros).to(&target).to(&null).terms(terms);
            tee.most_stall(Duration::from_millis(20)).run()
        });
        let report = report.expect(name).expect("zeros can be read");
        let errno = report.targets[0].failure.as_ref().and_then(gush::Failure::errno);
        assert_eq!(errno, Some(Errno::TIMEDOUT), "{name}");
        assert_eq!(report.targets[1].delivered_bytes, 1 << 20, "{name}");
    }
}

#[test]
fn a_repetition_into_a_terminal_that_nobody_reads_is_cancelled() {
    for (name, target, _unread) in unread() {
        let full = target.try_clone().expect("dup");
        let outcome = is_cancelled(&full, move |cancel| {
            Repeat::new(b"y\n").cancelled_by(cancel).run(&target)
        });
        let error = outcome.expect(name).expect_err("it has no end");
        assert!(error.is_cancelled() && error.delivered_bytes() > 0, "{name}: {error}");
    }
}

#[test]
fn a_move_into_a_terminal_that_nobody_reads_is_cancelled() {
    let methods = [MethodName::ReadWrite, MethodName::Splice, MethodName::MmapWrite];
    let choices = [&methods.map(Choice::Only)[..], &[Choice::Auto]].concat();
    for choice in common::served_here(&choices) {
        for (name, target, _unread) in unread() {
            let full = target.try_clone().expect("dup");
            let outcome = is_cancelled(&full, move |cancel| {
                let zeros = tempfile::tempfile().expect("a file");
                zeros.set_len(1 << 20).expect("a hole");
                Mover::new(&zeros, &target).method(choice).cancelled_by(cancel).run()
            });
            let error = outcome.expect(name).expect_err("there is no room for all of it");
            assert!(
                error.is_cancelled() && error.delivered_bytes() > 0,
                "{choice}, {name}: {error}"
            );
        }
    }
}

/// Once the slave is closed, a splice from the master fails with EIO, which a `read` reports as the
/// end (pty(7)).
#[test]
fn a_master_whose_slave_is_closed_has_ended_by_every_method() {
    let methods = [MethodName::ReadWrite, MethodName::Splice].map(Choice::Only);
    for choice in common::served_here(&[&methods[..], &[Choice::Auto]].concat()) {
        let (master, slave) = terminal().expect("a pseudo-terminal");
        assert_eq!(rustix::io::write(&slave, b"hello"), Ok(5));
        drop(slave);
        let file = tempfile::tempfile().expect("a file");
        let report = Mover::new(&master, &file).method(choice).run();
        let report = report.unwrap_or_else(|error| panic!("{choice}: {error}"));
        assert_eq!((report.bytes, file.metadata().expect("fstat").len()), (5, 5), "{choice}");
    }
}
