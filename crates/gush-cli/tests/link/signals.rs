//! The effects of signals on `gush link`.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use crate::common::link::{Running, ask, echo, eventually};
use crate::common::{gush, skipped, strace};
use gush_test::side_by_side;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

const LISTEN: &str = "tcp-listen:127.0.0.1:0,fork";

fn served(link: &Running) -> TcpStream {
    let mut client = link.client();
    client.write_all(b"?").unwrap();
    client.read_exact(&mut [0]).unwrap();
    client
}

#[test]
fn the_first_sigterm_lets_clients_finish_and_admits_no_more() {
    let link = Running::start(&["--json", LISTEN, &format!("tcp:{}", echo())]);
    let place = link.place();
    let mut client = served(&link);
    link.signal(Signal::TERM);
    link.says("draining");
    eventually("nobody listens", || TcpStream::connect(&place).is_err());
    client.write_all(b"still here").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "still here");
    let (status, _, said) = link.finish();
    assert!(status.success(), "{said}");
    assert!(said.contains("\"ended\":\"closed\""), "{said}");
}

/// As socat's, which does not wait for its clients.
#[test]
fn a_graceful_link_that_has_drained_has_the_status_of_a_death_by_sigterm() {
    let link = Running::start(&["--graceful", LISTEN, "null:"]);
    link.place();
    link.signal(Signal::TERM);
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(143));
    assert!(said.contains("warning: exiting on signal 15"), "{said}");
}

/// As socat's processes of clients go on.
#[test]
fn a_graceful_link_says_that_it_exits_once_it_has_drained() {
    let link = Running::start(&["--graceful", LISTEN, &format!("tcp:{}", echo())]);
    let client = served(&link);
    link.signal(Signal::TERM);
    link.says("draining");
    assert_eq!(ask(client, b"still here"), b"still here");
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(143));
    let [drains, exits] = ["draining", "exiting on signal 15"].map(|words| said.find(words));
    assert!(drains < exits, "{said}");
}

#[test]
fn the_second_sigterm_ends_it_and_reports_every_connection() {
    let link = Running::start(&["--json", LISTEN, &format!("tcp:{}", echo())]);
    let clients: Vec<_> = (0..5).map(|_| served(&link)).collect();
    link.signal(Signal::TERM);
    link.says("draining");
    link.signal(Signal::TERM);
    let (status, _, said) = link.finish();
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()));
    let records: Vec<Value> = said
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(records.len(), clients.len(), "{said}");
    assert!(records.iter().all(|record| record["ended"] == "interrupted"), "{said}");
    assert!(records.iter().all(|record| record["forward_bytes"] == 1), "{said}");
}

#[test]
fn sigint_ends_it_at_once_and_leaves_no_socket() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("socket");
    let listen = format!("unix-listen:{},fork", path.display());
    for signal in [Signal::INT, Signal::HUP, Signal::QUIT] {
        let link = Running::start(&[&listen, "null:"]);
        link.says("listening on ");
        assert!(path.exists());
        link.signal(signal);
        let (status, _, said) = link.finish();
        assert_eq!(status.signal(), Some(signal.as_raw()), "{said}");
        assert!(!path.exists(), "{said}");
    }
}

/// On whichever thread: its accept lasts until draining has begun.
#[test]
fn a_client_that_is_accepted_as_draining_begins_is_served() {
    let probe = strace(&[]);
    if let Err(why) = probe {
        return skipped(&why);
    }
    side_by_side(0..8, |round| {
        let mut command = strace(&["-D", "-e", "inject=accept4:delay_exit=1000000"]).unwrap();
        let target = format!("tcp:{}", echo());
        command.args(["link", "--log", "info", "--threads", "2", LISTEN, &target]);
        let link = Running::of(command);
        // One on each thread.
        let served: Vec<_> = (0..2).map(|_| link.client()).collect();
        for mut client in &served {
            client.write_all(b"hello").unwrap();
            client.read_exact(&mut [0; 5]).unwrap();
        }
        let before = link.descriptors();
        let client = link.client();
        eventually("it is accepted", || link.descriptors() > before);
        link.signal(Signal::TERM);
        assert_eq!(ask(client, b"hello"), b"hello", "round {round}");
        drop(served);
        assert!(link.finish().0.success());
    });
}

#[test]
fn a_drained_listener_removes_its_socket_before_its_clients_have_gone() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("socket");
    let listen = format!("unix-listen:{},fork", path.display());
    let link = Running::start(&[&listen, "pipe:"]);
    link.says("listening on ");
    let mut client = std::os::unix::net::UnixStream::connect(&path).unwrap();
    client.write_all(b"?").unwrap();
    client.read_exact(&mut [0]).unwrap();
    link.signal(Signal::TERM);
    eventually("the socket is gone", || !path.exists());
    client.write_all(b"!").unwrap();
    client.read_exact(&mut [0]).unwrap();
    drop(client);
    assert!(link.finish().0.success());
}

#[test]
fn a_link_without_listener_ends_at_the_first_sigterm() {
    let link = Running::start(&["--json", &format!("tcp:{}", echo()), "fd:1"]);
    link.says("connected");
    link.signal(Signal::TERM);
    let (status, _, said) = link.finish();
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()));
    assert!(said.contains("\"ended\":\"interrupted\""), "{said}");
}

#[test]
fn sigusr1_prints_the_totals_and_the_link_goes_on() {
    let link = Running::start(&[LISTEN, &format!("tcp:{}", echo())]);
    let mut client = served(&link);
    for count in 1..=2 {
        link.signal(Signal::USR1);
        link.says_times(" 1 open, 1 in all", count);
    }
    client.write_all(b"!").unwrap();
    client.read_exact(&mut [0]).unwrap();
    link.signal(Signal::USR1);
    link.says("info: 2 B forward");
}

/// A program may have a use of its own for it, and starts with the usual disposition and mask.
#[test]
fn a_program_dies_of_sigquit_and_sigusr1() {
    for signal in ["QUIT", "USR1"] {
        let mut command = gush();
        let program = format!("shell:'echo begun; kill -{signal} $$; echo survived'");
        let output = command.args(["link", "-u", &program, "-"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "begun\n", "{signal}: {output:?}");
    }
}

#[test]
fn no_program_that_it_started_is_left() {
    let dir = TempDir::new().unwrap();
    let pid_file = dir.path().join("pid");
    let program = format!("shell:'echo $$ > {}; exec sleep 600'", pid_file.display());
    for signal in [Signal::INT, Signal::TERM] {
        let link = Running::start(&["zero:", &program]);
        let pid = || std::fs::read_to_string(&pid_file).ok()?.trim().parse::<u32>().ok();
        eventually("the program runs", || pid().is_some());
        link.signal(signal);
        let (status, ..) = link.finish();
        assert_eq!(status.signal(), Some(signal.as_raw()));
        let stat = format!("/proc/{}/stat", pid().unwrap());
        eventually("the program has gone", || {
            !std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains("(sleep)"))
        });
        std::fs::remove_file(&pid_file).unwrap();
    }
}

/// Programs have 2 s after SIGTERM where there is time; here they are asked to end when the time is
/// over.
#[test]
fn a_program_that_takes_its_time_at_sigterm_makes_no_drain_longer() {
    let dir = TempDir::new().unwrap();
    let slow = dir.path().join("slow");
    let script = "trap 'sleep 1.9; exit 0' TERM; echo ready; while :; do sleep 600; done";
    std::fs::write(&slow, script).unwrap();
    let program = format!("exec:'sh {}'", slow.display());
    let link = Running::start(&["--drain", "0.1", LISTEN, &program]);
    let mut client = link.client();
    client.read_exact(&mut [0; 6]).unwrap();
    link.signal(Signal::TERM);
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("1 connection was cut"), "{said}");
    assert!(said.contains("does not end after SIGTERM and is killed"), "{said}");
}

/// As `nohup` ignores SIGHUP, and a script's `&` SIGINT: GNU's programs keep them ignored, too.
#[test]
fn a_hang_up_or_interrupt_that_was_ignored_stays_ignored() {
    let mut command = Command::new("sh");
    let line = "trap '' HUP INT QUIT USR1; exec \"$0\" link --log info \"$@\"";
    command.args(["-c", line, env!("CARGO_BIN_EXE_gush"), LISTEN, &format!("tcp:{}", echo())]);
    let mut link = Running::of(command);
    let mut client = served(&link);
    for signal in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::USR1] {
        link.signal(signal);
        client.write_all(b"!").unwrap();
        client.read_exact(&mut [0]).unwrap();
        assert!(link.is_running());
    }
    link.signal(Signal::TERM);
    drop(client);
    let (status, _, said) = link.finish();
    assert!(status.success(), "{said}");
    assert!(!said.contains(" in all"), "totals: {said}");
}

#[test]
fn as_the_first_process_of_a_container_it_ends_when_it_is_asked_to() {
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", env!("CARGO_BIN_EXE_gush")]);
    if !Command::new("unshare")
        .args(["--pid", "--fork", "true"])
        .status()
        .is_ok_and(|s| s.success())
    {
        return skipped("no process number namespaces");
    }
    command.args(["link", "--log", "info", "tcp-listen:127.0.0.1:0", "pipe:"]);
    let link = Running::of(command);
    link.place();
    let outer = link.pid().as_raw_nonzero();
    let children = fs::read_to_string(format!("/proc/{outer}/task/{outer}/children")).unwrap();
    let first = Pid::from_raw(children.trim().parse().unwrap()).unwrap();
    kill_process(first, Signal::HUP).unwrap();
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(128 + Signal::HUP.as_raw()), "{said}");
}
