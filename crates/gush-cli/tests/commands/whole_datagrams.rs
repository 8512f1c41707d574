//! Commands that look at the bytes they move keep datagrams whole, and end at no empty one.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::process::Stdio;

use crate::common::gush;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use tempfile::TempDir;

/// More than one buffer of `cat -n`, within what a unix socket sends at once.
const LONG_BYTES: usize = 150_000;

/// Sends the messages into a command's standard input, and answers the command's output.
fn output_of(words: &[&str], kind: SocketType, messages: &[Vec<u8>]) -> Vec<u8> {
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("output");
    let (near, far) =
        socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).expect("a pair");
    let output = File::create(&path).expect("a file");
    let mut command = gush();
    command.args(words).stdin(far).stdout(output).stderr(Stdio::piped());
    let child = command.spawn().expect("gush");
    // The command keeps its own copy of this end.
    drop(command);
    send_all(&near, messages);
    drop(near);
    let ended = child.wait_with_output().expect("a status");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(
        ended.status.success() && said.is_empty(),
        "{words:?}, {kind:?}: {} {said}",
        ended.status
    );
    fs::read(path).expect("the output")
}

fn send_all(to: &OwnedFd, messages: &[Vec<u8>]) {
    for message in messages {
        assert_eq!(send(to, message, SendFlags::NOSIGNAL), Ok(message.len()));
    }
}

fn line(byte: u8, bytes: usize) -> Vec<u8> {
    let mut line = vec![byte; bytes];
    line.push(b'\n');
    line
}

#[test]
fn numbered_lines_are_those_of_every_datagram() {
    let messages = [line(b'a', 1), Vec::new(), line(b'x', LONG_BYTES), line(b'b', 1)];
    let got = output_of(&["cat", "-n"], SocketType::SEQPACKET, &messages);
    let lines: Vec<_> = got.split_inclusive(|byte| *byte == b'\n').collect();
    let want: Vec<_> = [&messages[0], &messages[2], &messages[3]]
        .into_iter()
        .enumerate()
        .map(|(index, line)| [format!("{:6}\t", index + 1).as_bytes(), line].concat())
        .collect();
    assert!(lines == want, "{} bytes in {} lines", got.len(), lines.len());
}

#[test]
fn a_counted_or_limited_stream_of_datagrams_loses_none() {
    let messages =
        [line(b'a', 1), Vec::new(), line(b'z', 3_000), line(b'x', LONG_BYTES), line(b'b', 1)];
    let all = messages.concat();
    for words in [
        &["pv", "-q", "-l", "-S", "-s", "4"][..],
        &["pv", "-q", "-O"],
        // A rate never cuts a datagram: the next one waits the longer.
        &["pv", "-q", "-L", "100k", "-l", "-S", "-s", "4"],
        &["pv", "-q", "-L", "100k", "-O"],
        &["pv", "-q", "-B", "1000", "-O"],
    ] {
        let got = output_of(words, SocketType::SEQPACKET, &messages);
        assert!(got == all, "{words:?}: {} bytes of {}", got.len(), all.len());
    }
    // Datagrams that have no end: the lines are the end.
    let got = output_of(&["pv", "-q", "-l", "-S", "-s", "4"], SocketType::DGRAM, &messages);
    assert!(got == all, "{} bytes of {}", got.len(), all.len());
}
