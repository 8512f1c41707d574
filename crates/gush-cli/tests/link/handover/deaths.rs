//! Either process dies or hangs during a handover.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use gush_test::skipped;
use rustix::net::{SendFlags, send, sockopt};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::signals::{connection, pair};
use super::{Giver, Hand, Lines, VERSION, answers, echoed};
use crate::common::link::{Running, ask, client_of, echo, eventually, server};
use crate::common::{noise, strace};

#[test]
fn a_receiver_that_dies_loses_nothing_and_the_link_goes_on() {
    let bytes = noise(8_000_000, 6);
    let lines = Lines::to(format!("tcp:{}", echo()));
    let link = lines.start();
    let place = lines.port.place();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|_| {
                let (stream, bytes) = (client_of(&place), &bytes);
                scope.spawn(move || echoed(stream, bytes, Duration::from_millis(3)))
            })
            .collect();
        // Before it is ready; before it has heard anything; with all; and with nonsense as its
        // answer.
        let hand = Hand::at(&lines.door);
        hand.hello(VERSION, &lines);
        assert!(hand.hears().is_some_and(|listeners| listeners.get("Listeners").is_some()));
        drop(hand);
        drop(Hand::ready(&lines));
        link.says_times("a handover failed", 1);
        for nonsense in [None, Some("Ready"), Some("nonsense")] {
            let hand = Hand::ready(&lines);
            assert!(!hand.all().is_empty());
            nonsense.into_iter().for_each(|nonsense| hand.says(&json!(nonsense)));
        }
        link.says_times("a handover failed", 4);
        for client in clients {
            assert!(client.join().unwrap().unwrap(), "the echo differs");
        }
    });
    // A sound process takes over all the same.
    let next = lines.start();
    assert!(link.finish().0.success());
    answers(&place);
    next.signal(Signal::TERM);
    assert!(next.finish().0.success());
}

#[test]
fn a_receiver_that_dies_with_all_connections_loses_none() {
    let lines = Lines::to(format!("tcp:{}", echo()));
    let link = lines.start();
    let place = lines.port.place();
    let greets = |mut client: &TcpStream| {
        client.write_all(b"hello").unwrap();
        client.read_exact(&mut [0; 5]).unwrap();
    };
    // More than a message has.
    let mut clients: Vec<_> = (0..40).map(|_| client_of(&place)).collect();
    clients.iter().for_each(greets);
    let hand = Hand::ready(&lines);
    assert_eq!(hand.all().len(), clients.len());
    // It comes meanwhile, and is not lost either.
    clients.push(client_of(&place));
    drop(hand);
    link.says("a handover failed");
    clients.iter().for_each(greets);
    // A sound process takes over, and no number occurs twice.
    let next = lines.start_with(&["--json"]);
    assert!(link.finish().0.success());
    clients.iter().for_each(greets);
    answers(&place);
    drop(clients);
    next.signal(Signal::TERM);
    let (status, records, said) = next.finish();
    assert!(status.success(), "{said}");
    let records = String::from_utf8(records).unwrap() + &said;
    let records = records.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut numbers: Vec<_> = records.filter_map(|record| record["id"].as_u64()).collect();
    assert_eq!(numbers.len(), 42, "{numbers:?}");
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 42, "{numbers:?}");
}

/// Says and hears the same again and again.
fn echoes_until(over: &AtomicBool, mut stream: TcpStream, bytes: &[u8]) {
    let mut heard = vec![0; bytes.len()];
    while !over.load(Ordering::Relaxed) {
        stream.write_all(bytes).unwrap();
        stream.read_exact(&mut heard).unwrap();
        assert!(heard == bytes, "the echo differs");
    }
    assert_eq!(ask(stream, b"last"), b"last");
}

/// Killed at each of its messages in turn, until it has survived all.
#[test]
fn a_receiver_that_is_killed_at_any_message_loses_nothing() {
    let bytes = noise(8_000_000, 7);
    let lines = Lines::to(format!("tcp:{}", echo()));
    let place = lines.port.place();
    let (listen, door) = (lines.listen(), lines.door.to_str().unwrap());
    for call in ["sendmsg", "recvmsg"] {
        let mut link = lines.start();
        // Its bytes are in flight everywhere, as it reads nothing.
        let mut full = client_of(&place);
        let mut filling = full.try_clone().unwrap();
        let over = AtomicBool::new(false);
        let last = thread::scope(|scope| {
            let bytes = &bytes;
            scope.spawn(move || {
                filling.write_all(bytes).unwrap();
                filling.shutdown(Shutdown::Write).unwrap();
            });
            for _ in 0..30 {
                let (stream, over) = (client_of(&place), &over);
                scope.spawn(move || echoes_until(over, stream, &bytes[..30_000]));
            }
            let mut nth = 0;
            let next = loop {
                nth += 1;
                let inject = format!("inject={call}:signal=KILL:when={nth}");
                let Ok(mut command) = strace(&["-D", "-e", &inject]) else { break None };
                command.args(["link", "--log", "info", "--handover", door, &listen, &lines.target]);
                let mut next = Running::of(command);
                eventually("one of the two has ended", || !next.is_running() || !link.is_running());
                if next.is_running() {
                    break Some(next);
                }
                assert!(link.is_running() && !next.finish().0.success(), "{call} {nth}");
            };
            // Hello, Ready and Taken; as many come, or more.
            assert!(next.is_none() || nth > 3, "{call} {nth}");
            over.store(true, Ordering::Relaxed);
            let mut heard = Vec::new();
            full.read_to_end(&mut heard).unwrap();
            assert!(heard == *bytes, "{} bytes", heard.len());
            next
        });
        let Some(last) = last else { return skipped("strace cannot trace here") };
        assert!(link.finish().0.success());
        last.signal(Signal::TERM);
        assert!(last.finish().0.success());
    }
}

/// Its copies of the descriptors would keep connections open that end here.
#[test]
fn connections_end_as_ever_after_a_handover_to_a_receiver_that_hangs() {
    let target = server(|mut stream| {
        let mut said = Vec::new();
        let mut byte = [0];
        while stream.read(&mut byte).is_ok_and(|bytes| bytes == 1) && byte != *b"!" {
            said.push(byte[0]);
        }
        match byte == *b"!" {
            true => sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap(),
            false => stream.write_all(&said).unwrap(),
        }
    });
    let lines = Lines::to(format!("tcp:{target}"));
    let link = lines.start();
    let place = lines.port.place();
    let clients = [(); 2].map(|()| client_of(&place));
    for mut client in &clients {
        client.write_all(b"hello").unwrap();
    }
    // Its queue holds the messages with the descriptors.
    let hand = Hand::ready(&lines);
    link.says("a handover failed");
    let [ends, mut is_reset] = clients;
    assert_eq!(ask(ends, b" and end"), b"hello and end");
    is_reset.write_all(b"!").unwrap();
    let reset = is_reset.read(&mut [0]).unwrap_err();
    assert_eq!(reset.kind(), io::ErrorKind::ConnectionReset);
    // What is given up stays given up.
    assert!(send(&hand.0, b"\"Taken\"", SendFlags::NOSIGNAL).is_err());
    assert_eq!(ask(client_of(&place), b"hello"), b"hello");
}

#[test]
fn a_new_process_that_wakes_after_another_has_taken_over_leaves_it_everything() {
    let lines = Lines::to(format!("tcp:{}", echo()));
    let link = lines.start();
    let mut client = client_of(&lines.port.place());
    client.write_all(b"hello").unwrap();
    client.read_exact(&mut [0; 5]).unwrap();
    // Hello and Ready.
    let inject = "inject=sendmsg:signal=STOP:when=2";
    let Ok(mut command) = strace(&["-D", "-e", inject]) else {
        return skipped("strace cannot trace here");
    };
    let door = lines.door.to_str().unwrap();
    command.args(["link", "--log", "info", "--handover", door, &lines.listen(), &lines.target]);
    let sleeps = Running::of(command);
    link.says("a handover failed");
    let next = lines.start();
    assert!(link.finish().0.success());
    sleeps.signal(Signal::CONT);
    let (status, _, said) = sleeps.finish();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("has given the handover up (start this one again)"), "{said}");
    // Its copy resets nothing.
    assert_eq!(ask(client, b" and on"), b" and on");
    next.signal(Signal::TERM);
    assert!(next.finish().0.success());
}

/// Nothing ends a pipe while another process has a copy of its end.
#[test]
fn a_connection_with_a_pipe_ends_as_ever_after_a_handover_to_a_receiver_that_hangs() {
    let lines = Lines::to("pipe:".into());
    let link = lines.start();
    let mut client = client_of(&lines.port.place());
    client.write_all(b"hello").unwrap();
    client.read_exact(&mut [0; 5]).unwrap();
    let hand = Hand::ready(&lines);
    link.says("a handover failed");
    assert_eq!(ask(client, b" and end"), b" and end");
    drop(hand);
}

/// Killed at each of its messages in turn, until it has survived all.
#[test]
fn a_new_process_serves_also_when_the_running_link_is_killed_at_any_message() {
    for nth in 1.. {
        let lines = Lines::to(format!("tcp:{}", echo()));
        let (place, listen) = (lines.port.place(), lines.listen());
        let inject = format!("inject=sendmsg:signal=KILL:when={nth}");
        let Ok(mut command) = strace(&["-D", "-e", &inject]) else {
            return skipped("strace cannot trace here");
        };
        let door = lines.door.to_str().unwrap();
        command.args(["link", "--log", "info", "--handover", door, &listen, &lines.target]);
        let link = Running::of(command);
        link.says("listening on ");
        eventually("the door is open", || lines.door.exists());
        let mut client = client_of(&place);
        client.write_all(b"hello").unwrap();
        client.read_exact(&mut [0; 5]).unwrap();
        let next = lines.start();
        let (status, _, said) = link.finish();
        if status.success() {
            // Listeners, Known, States and All.
            assert_eq!(nth, 5, "{said}");
            assert_eq!(ask(client, b"on"), b"on");
            return;
        }
        answers(&place);
        // The client is not left waiting, and does not take the end for one of the data. Only
        // before Known the kernel ends the connection, which nobody else has.
        let heard = client.read(&mut [0]).map_err(|error| error.kind());
        let expected = if nth < 3 { Ok(0) } else { Err(io::ErrorKind::ConnectionReset) };
        assert_eq!(heard, expected, "{nth}");
        // The next process takes over as ever.
        let third = lines.start();
        let (status, _, said) = next.finish();
        assert!(status.success(), "{nth}: {said}");
        assert_eq!(said.contains("the running link was killed"), nth > 1, "{nth}: {said}");
        answers(&place);
        third.signal(Signal::TERM);
        assert!(third.finish().0.success());
        assert!(!lines.door.exists());
    }
}

#[test]
fn a_new_process_serves_without_an_answer_only_if_nobody_else_does() {
    // Has the running link ended, if that is known? Has it left the name of its socket? Has it
    // given up before?
    for (has_ended, leaves_name, gives_up) in [
        (Some(true), true, false),
        (Some(true), false, false),
        (Some(true), true, true),
        (Some(false), true, false),
        (None, true, false),
    ] {
        let giver = Giver::new();
        let (next, hand) = giver.asked();
        let (given_up, process) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        let mut process = Some(process);
        let mut given = vec![giver.door.as_fd(), giver.clients.as_fd()];
        given.extend(has_ended.map(|_| given_up.as_fd()));
        giver.gives(&hand, &json!({"Listeners": {"metrics": null, "descriptors": 20}}), &given);
        assert_eq!(hand.hears(), Some(json!("Ready")));
        let ([mut near, far], ends): ([_; 2], [_; 2]) = {
            let (near, far) = (pair(), pair());
            ([near.0, far.0], [near.1, far.1])
        };
        let [known, _] = connection();
        giver.gives(&hand, &known, &ends.each_ref().map(AsFd::as_fd));
        drop(ends);
        if gives_up {
            rustix::io::write(process.as_ref().unwrap(), b"!").unwrap();
        }
        if has_ended == Some(true) {
            process = None;
        }
        if !leaves_name {
            std::fs::remove_file(&giver.lines.door).unwrap();
        }
        drop(hand);
        // The data of a link that was killed has no end; that of one that ends by itself has.
        let is_killed = has_ended == Some(true) && leaves_name && !gives_up;
        let heard = near.read(&mut [0]).map_err(|error| error.kind());
        let expected = if is_killed { Err(io::ErrorKind::ConnectionReset) } else { Ok(0) };
        assert_eq!(heard, expected, "{has_ended:?} {leaves_name} {gives_up}");
        drop(far);
        if is_killed {
            next.says("the running link was killed");
            answers(&giver.clients.local_addr().unwrap().to_string());
            next.signal(Signal::TERM);
            assert!(next.finish().0.success());
        } else {
            let (status, _, said) = next.finish();
            assert_eq!(status.code(), Some(1), "{has_ended:?} {leaves_name} {gives_up}: {said}");
            let why = "the running link has ended, or has given the handover up (start this one";
            assert!(said.contains(why), "{said}");
        }
        drop(process);
    }
}
