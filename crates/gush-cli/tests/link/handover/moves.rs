//! Connections move with their bytes, their state and their record, or stay.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Hand, Lines, VERSION, echoed};
use crate::common::link::{Running, ask, client_of, echo, eventually, server};
use crate::common::noise;
use crate::common::tls::Pki;

#[test]
fn connections_that_cannot_move_go_on_in_the_process_that_has_handed_over() {
    let pki = Pki::new();
    let lines = Lines::to(format!("tcp:{}", echo()));
    let place = lines.port.place();
    let listen = format!("tls-listen:{place},fork,{}", pki.own("server"));
    let words = ["--handover", lines.door.to_str().unwrap(), &listen, &lines.target];
    let link = Running::start(&words);
    link.says("listening on ");
    eventually("the door is open", || lines.door.exists());
    let mut client = pki.client(client_of(&place), &[]);
    let mut greets = || {
        client.write_all(b"hello").unwrap();
        client.read_exact(&mut [0; 5]).unwrap();
    };
    greets();
    let hand = Hand::at(&lines.door);
    hand.says(&json!({"Hello": {"version": VERSION, "first": listen, "second": lines.target}}));
    hand.is_ready();
    assert!(hand.all().is_empty());
    hand.says(&json!("Taken"));
    link.says("a new process serves the clients from here on; 1 stay here");
    greets();
    drop(client);
    assert!(link.finish().0.success());
}

/// A message has room for names of 1 KiB.
#[test]
fn connections_with_longer_names_than_a_message_has_room_for_stay() {
    for (steps, moved) in [(1, 1), (600, 0)] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "").unwrap();
        let far = format!("{}/{}file", dir.path().display(), "./".repeat(steps));
        let lines = Lines::to(format!("file:{far},append"));
        let link = lines.start_with(&["-u"]);
        let mut client = client_of(&lines.port.place());
        client.write_all(b"hello").unwrap();
        eventually("the bytes are there", || std::fs::read(&path).is_ok_and(|got| got == b"hello"));
        let hand = Hand::ready(&lines);
        assert_eq!(hand.all().len(), moved);
        hand.says(&json!("Taken"));
        link.says(&format!("; {} stay here", 1 - moved));
        if moved == 0 {
            client.write_all(b" and on").unwrap();
        }
        drop(client);
        assert!(link.finish().0.success());
        let kept: &[u8] = if moved == 0 { b"hello and on" } else { b"hello" };
        assert_eq!(std::fs::read(&path).unwrap(), kept);
    }
}

#[test]
fn connections_that_have_moved_are_not_counted_as_those_that_stay() {
    let lines = Lines::to(format!("tcp:{}", echo()));
    let link = lines.start_with(&["--threads", "2"]);
    let clients: Vec<_> = (0..20).map(|_| client_of(&lines.port.place())).collect();
    for mut client in &clients {
        client.write_all(b"hello").unwrap();
        client.read_exact(&mut [0; 5]).unwrap();
    }
    let hand = Hand::ready(&lines);
    assert_eq!(hand.all().len(), clients.len());
    hand.says(&json!("Taken"));
    let (status, _, said) = link.finish();
    assert!(status.success() && said.contains("; 0 stay here"), "{said}");
}

#[test]
fn connections_move_with_their_bytes_whatever_they_are_doing() {
    let bytes = noise(4_000_000, 5);
    let lines = Lines::to(format!("tcp:{}", echo()));
    let mut link = lines.start_with(&["--threads", "2"]);
    let place = lines.port.place();
    // One reads nothing until the last, so that bytes are in flight everywhere.
    let mut full = client_of(&place);
    let (mut filling, filler) = (full.try_clone().unwrap(), bytes.repeat(4));
    let filled = thread::spawn(move || {
        filling.write_all(&filler).unwrap();
        filling.shutdown(Shutdown::Write).unwrap();
        filler
    });
    // One says nothing until the last.
    let mut silent = client_of(&place);
    silent.write_all(b"first").unwrap();
    silent.read_exact(&mut [0; 5]).unwrap();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..8)
            .map(|nth| {
                let (stream, bytes) = (client_of(&place), &bytes);
                scope.spawn(move || echoed(stream, bytes, Duration::from_millis(20 * (nth % 2))))
            })
            .collect();
        for _ in 0..5 {
            thread::sleep(Duration::from_millis(100));
            let next = lines.start_with(&["--threads", "2"]);
            let (status, _, said) = std::mem::replace(&mut link, next).finish();
            assert!(status.success(), "{status}: {said}");
        }
        for client in clients {
            assert!(client.join().unwrap().unwrap(), "the echo differs");
        }
    });
    let mut heard = Vec::new();
    full.read_to_end(&mut heard).unwrap();
    assert!(heard == filled.join().unwrap(), "{} bytes", heard.len());
    assert_eq!(ask(silent, b"last"), b"last");
    link.signal(Signal::TERM);
    assert!(link.finish().0.success());
}

#[test]
fn a_client_that_has_ended_its_data_gets_the_answer_from_the_new_process() {
    let (answer, waits) = mpsc::channel();
    let waits = Mutex::new(waits);
    let lines = Lines::to(format!(
        "tcp:{}",
        server(move |mut stream| {
            let mut question = Vec::new();
            stream.read_to_end(&mut question).unwrap();
            waits.lock().unwrap().recv().unwrap();
            stream.write_all(&question.repeat(2)).unwrap();
        })
    ));
    let link = lines.start();
    let mut client = client_of(&lines.port.place());
    client.write_all(b"twice ").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let next = lines.start_with(&["--json"]);
    assert!(link.finish().0.success());
    answer.send(()).unwrap();
    let mut heard = String::new();
    client.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "twice twice ");
    next.says("\"ended\":\"closed\"");
    next.signal(Signal::TERM);
    assert!(next.finish().0.success());
}

#[test]
fn the_record_of_a_moved_connection_counts_all_its_bytes_and_time() {
    let lines = Lines::to(format!("tcp:{}", echo()));
    let link = lines.start_with(&["--json"]);
    let mut stream = client_of(&lines.port.place());
    stream.write_all(b"before").unwrap();
    stream.read_exact(&mut [0; 6]).unwrap();
    thread::sleep(Duration::from_millis(300));
    let next = lines.start_with(&["--json"]);
    next.says("taken over");
    let (status, _, said) = link.finish();
    assert!(status.success() && !said.contains("forward_bytes\":"), "{said}");
    assert_eq!(ask(stream, b" and after"), b" and after");
    next.signal(Signal::TERM);
    let (status, _, said) = next.finish();
    assert!(status.success(), "{said}");
    let record = said.lines().find(|line| line.starts_with('{')).expect("a record");
    let record: Value = serde_json::from_str(record).unwrap();
    assert_eq!(
        (&record["id"], &record["forward_bytes"], &record["ended"]),
        (&json!(1), &json!(16), &json!("closed"))
    );
    assert!(record["seconds"].as_f64().unwrap() >= 0.3, "{record}");
}
