//! Clients are served without a gap, and listeners are handed over with their names.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use gush_test::{Port, few_or_all};
use rustix::process::{Resource, Rlimit, Signal, prlimit};
use serde_json::json;

use super::{Hand, Lines, VERSION, answers};
use crate::common::gush;
use crate::common::link::{Running, ask, client_of, echo, eventually};

#[test]
fn no_client_is_refused_while_links_take_over_from_each_other() {
    let lines = Lines::to(format!("tcp:{}", echo()));
    let mut link = lines.start();
    let (place, over) = (lines.port.place(), Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..8)
        .map(|nth| {
            let (place, over) = (place.clone(), Arc::clone(&over));
            thread::spawn(move || -> io::Result<u32> {
                let mut served = 0;
                while !over.load(Ordering::Relaxed) {
                    let mut stream = TcpStream::connect(&place)?;
                    stream.write_all(b"here")?;
                    let mut answer = [0; 4];
                    stream.read_exact(&mut answer)?;
                    // Either side may end first.
                    if nth % 2 == 0 {
                        stream.shutdown(Shutdown::Write)?;
                        assert_eq!(stream.read(&mut answer)?, 0);
                    }
                    served += 1;
                }
                Ok(served)
            })
        })
        .collect();
    for _ in 0..few_or_all(5, 50, "handovers") {
        let next = lines.start();
        let (status, _, said) = link.finish();
        assert!(status.success() && said.contains("a new process serves"), "{status}: {said}");
        answers(&place);
        link = next;
    }
    over.store(true, Ordering::Relaxed);
    for client in clients {
        assert!(client.join().unwrap().unwrap() > 0);
    }
    link.signal(Signal::TERM);
    assert!(link.finish().0.success());
    assert!(!lines.door.exists(), "the last one removes the name");
}

/// A process that asks during a handover waits, and takes over from the one that has.
#[test]
fn processes_that_ask_at_once_take_over_one_after_the_other() {
    let lines = Lines::to(format!("tcp:{}", echo()));
    let mut link = lines.start();
    let mut client = client_of(&lines.port.place());
    let words = ["--handover", lines.door.to_str().unwrap(), &lines.listen(), &lines.target];
    for _ in 0..5 {
        let mut running: Vec<_> =
            [link].into_iter().chain((0..3).map(|_| Running::start(&words))).collect();
        eventually("one is left", || {
            running.iter_mut().map(Running::is_running).filter(|&is| is).count() == 1
        });
        let at = running.iter_mut().position(Running::is_running).unwrap();
        link = running.remove(at);
        for over in running {
            let (status, _, said) = over.finish();
            assert!(status.success(), "{said}");
        }
        answers(&lines.port.place());
        client.write_all(b"here").unwrap();
        client.read_exact(&mut [0; 4]).unwrap();
    }
}

#[test]
fn the_metrics_and_a_unix_socket_are_handed_over_with_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let (front, door) = (dir.path().join("front"), dir.path().join("door"));
    let (listen, metrics) = (format!("unix-listen:{},fork", front.display()), Port::reserve());
    let start = || {
        let place = metrics.place();
        let door = door.to_str().unwrap();
        let words = ["--handover", door, "--metrics", &place, &listen, "exec:cat"];
        let link = Running::start(&words);
        link.says("listening on ");
        link
    };
    let old = start();
    eventually("the door is open", || door.exists());
    let new = start();
    assert!(old.finish().0.success());
    let mut client = UnixStream::connect(&front).unwrap();
    client.write_all(b"hello").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "hello");
    let page = ask(client_of(&metrics.place()), b"GET /metrics HTTP/1.1\r\n\r\n");
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("gush_link_connections_accepted_total 1"), "{page}");
    new.signal(Signal::TERM);
    assert!(new.finish().0.success());
    assert!(!front.exists() && !door.exists());
}

#[test]
fn a_process_that_has_taken_over_refuses_clients_while_it_drains() {
    let lines = Lines::to(format!("tcp:{}", echo()));
    let link = lines.start();
    let place = lines.port.place();
    let mut client = client_of(&place);
    client.write_all(b"hello").unwrap();
    client.read_exact(&mut [0; 5]).unwrap();
    let next = lines.start();
    assert!(link.finish().0.success());
    next.signal(Signal::TERM);
    eventually("new clients are refused", || TcpStream::connect(&place).is_err());
    assert_eq!(ask(client, b"last"), b"last");
    assert!(next.finish().0.success());
}

#[test]
fn a_handover_takes_longer_than_a_link_waits_for_clients() {
    let lines = Lines::to(format!("tcp:{}", echo()));
    let listen = format!("{},accept-timeout=0.2", lines.listen());
    let link =
        Running::start(&["--handover", lines.door.to_str().unwrap(), &listen, &lines.target]);
    link.says("listening on ");
    eventually("the door is open", || lines.door.exists());
    let hand = Hand::at(&lines.door);
    hand.says(&json!({"Hello": {"version": VERSION, "first": listen, "second": lines.target}}));
    hand.is_ready();
    assert!(hand.all().is_empty());
    thread::sleep(Duration::from_secs(1));
    hand.says(&json!("Taken"));
    let (status, _, said) = link.finish();
    assert!(status.success() && said.contains("a new process serves"), "{said}");
}

#[test]
fn a_client_that_waits_for_descriptors_is_served_once_a_handover_frees_some() {
    for (threads, frees) in [("1", true), ("2", true), ("1", false)] {
        let lines = Lines::to(format!("tcp:{}", echo()));
        let listen = lines.listen();
        let door = lines.door.to_str().unwrap();
        let mut command = Command::new("prlimit");
        command.arg("--nofile=64:64").arg(gush().get_program());
        command.args(["link", "--log", "info", "--threads", threads, "--handover", door]);
        command.args([&listen, &lines.target]);
        let link = Running::of(command);
        link.says("listening on ");
        eventually("the door is open", || lines.door.exists());
        let place = lines.port.place();
        let clients: Vec<_> = (0..12).map(|_| client_of(&place)).collect();
        for mut client in &clients {
            client.write_all(b"hello").unwrap();
            client.read_exact(&mut [0; 5]).unwrap();
        }
        let hand = Hand::at(&lines.door);
        hand.hello(VERSION, &lines);
        assert!(hand.hears().is_some());
        let limit = |most| {
            let most = Rlimit { current: Some(most), maximum: Some(64) };
            prlimit(Some(link.pid()), Resource::Nofile, most).unwrap();
        };
        // One more than are open, not counting the directory of `descriptors`.
        limit(link.descriptors() as u64 + 1);
        let waits = client_of(&place);
        link.says("the limit of open files is reached: new peers wait");
        hand.says(&json!("Ready"));
        let moved = hand.all().len();
        if !frees {
            limit(3);
        }
        hand.says(&json!("Taken"));
        match frees {
            // Served on another thread, it has moved as well.
            true if moved > clients.len() => assert_eq!(threads, "2"),
            true => assert_eq!(ask(waits, b"at last"), b"at last"),
            false => link.signal(Signal::TERM),
        }
        let (status, _, said) = link.finish();
        assert!(status.success(), "{said}");
    }
}
