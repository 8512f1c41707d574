//! `fork` of a connection that is made: one after the other, a client each.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use crate::common::link::Running;
use crate::common::{bounded, gush, skipped};
use gush_test::Port;
use tempfile::TempDir;

/// Serves three connections with a number each, and then stops listening. The output of `program`,
/// which connects to a port and appends what it reads to the file `got`.
fn of_three_connections(program: &[&str], dir: &Path) -> Output {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        for number in 0..3 {
            let (mut stream, _) = listener.accept().unwrap();
            writeln!(stream, "{number}").unwrap();
        }
    });
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).arg("-u");
    command.args([&format!("TCP:{place},fork,interval=0.2"), "SYSTEM:cat >>got"]);
    let output = bounded(30, command.current_dir(dir)).output().unwrap();
    server.join().unwrap();
    output
}

#[test]
fn connections_are_made_one_after_the_other_until_one_fails() {
    let mut programs =
        vec![vec![env!("CARGO_BIN_EXE_gush"), "link"], vec![env!("CARGO_BIN_EXE_gush"), "socat"]];
    match Command::new("socat").arg("-V").output() {
        Ok(_) => programs.push(vec!["socat"]),
        Err(_) => skipped("no socat to compare with"),
    }
    for program in programs {
        let dir = TempDir::new().unwrap();
        let output = of_three_connections(&program, dir.path());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{program:?}: {said}");
        assert!(said.contains("Connection refused"), "{program:?}: {said}");
        let got = fs::read_to_string(dir.path().join("got")).unwrap();
        let mut lines: Vec<_> = got.lines().collect();
        // The programs run side by side.
        lines.sort();
        assert_eq!(lines, ["0", "1", "2"], "{program:?}");
    }
}

#[test]
fn no_more_connections_are_made_at_once_than_max_children_says() {
    let dir = TempDir::new().unwrap();
    let front = UnixListener::bind(dir.path().join("front")).unwrap();
    let from =
        format!("unix:{},fork,interval=0.001,max-children=2", dir.path().join("front").display());
    let link = Running::start(&[&from, "exec:cat"]);
    let mut streams: Vec<_> = (0..2).map(|_| front.accept().unwrap().0).collect();
    link.says("max-children=");
    front.set_nonblocking(true).unwrap();
    // Enough for hundreds of connections.
    thread::sleep(Duration::from_millis(300));
    assert!(front.accept().is_err(), "a third connection");
    drop(streams.remove(0));
    front.set_nonblocking(false).unwrap();
    let (mut third, _) = front.accept().unwrap();
    third.write_all(b"asked").unwrap();
    third.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    third.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "asked");
}

#[test]
fn the_attempts_of_retry_are_those_of_all_connections() {
    let port = Port::reserve();
    let from = format!("tcp:{},fork,retry=2,interval=0.01", port.place());
    let link = Running::start(&["-u", &from, "-"]);
    link.says_times("trying again", 2);
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(1), "{said}");
    assert_eq!(said.matches("trying again").count(), 2, "{said}");
}

#[test]
fn fork_contradicts_what_has_one_client() {
    for (addresses, why) in [
        (["tcp:127.0.0.1:9,fork", "tcp-listen:127.0.0.1:0,fork"], "both addresses say fork"),
        (["tcp:127.0.0.1:9,fork!!-", "null:"], "fork is for a whole address"),
        (["tcp:127.0.0.1:9,fork|null:", "null:"], "fork is for a whole address"),
        (["file:f,fork", "null:"], "takes no option 'fork'"),
        (["tcp:127.0.0.1:9,interval=1", "null:"], "interval needs retry or fork too"),
    ] {
        let output = gush().arg("link").args(addresses).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{addresses:?}: {said}");
    }
    let options = ["--handover", "nowhere/over", "tcp:127.0.0.1:9,fork", "null:"];
    let output = gush().arg("link").args(options).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("a handover takes a listener"), "{said}");
}
