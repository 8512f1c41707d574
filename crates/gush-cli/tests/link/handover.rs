//! `--handover`: a new process takes over from a running link.

use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::link::{Running, ask, client_of, echo, eventually, server};
use crate::common::tls::Pki;
use crate::common::{gush, nobody, noise};
use gush_test::{Port, skipped};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, bind, connect, recv, send, sendmsg, socket_with,
};
use rustix::process::{Resource, Rlimit, Signal, prlimit};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Less than a link waits for the other side of a handover.
const PATIENCE_OF_A_LINK: Duration = Duration::from_secs(5);

/// The two addresses of a link that can be handed over, and its socket.
struct Lines {
    _dir: TempDir,
    port: Port,
    door: PathBuf,
    target: String,
}

impl Lines {
    fn to(target: String) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { door: dir.path().join("door"), _dir: dir, port: Port::reserve(), target }
    }

    fn listen(&self) -> String {
        format!("tcp-listen:{},fork", self.port.place())
    }

    fn start(&self) -> Running {
        self.start_with(&[])
    }

    /// A link that serves already.
    fn start_with(&self, options: &[&str]) -> Running {
        let listen = self.listen();
        let words = ["--handover", self.door.to_str().unwrap(), &listen, &self.target];
        let link = Running::start(&[options, &words].concat());
        link.says("listening on ");
        eventually("the door is open", || self.door.exists());
        link
    }
}

/// A side of the protocol, by hand.
struct Hand(OwnedFd);

impl Hand {
    fn at(door: &Path) -> Self {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        connect(&socket, &SocketAddrUnix::new(door).unwrap()).unwrap();
        Self(socket)
    }

    fn says(&self, message: &Value) {
        send(&self.0, message.to_string().as_bytes(), SendFlags::NOSIGNAL).unwrap();
    }

    fn hello(&self, version: u32, lines: &Lines) {
        let (first, second) = (lines.listen(), &lines.target);
        self.says(&json!({"Hello": {"version": version, "first": first, "second": second}}));
    }

    /// The new process's side as far as it is ready for connections.
    fn ready(lines: &Lines) -> Self {
        let hand = Self::at(&lines.door);
        hand.hello(3, lines);
        assert!(hand.hears().is_some_and(|listeners| listeners.get("Listeners").is_some()));
        hand.says(&json!("Ready"));
        assert!(hand.hears().is_some_and(|accept| accept.get("Accept").is_some()));
        hand
    }

    /// The numbers of the connections of the next group, whose bytes in memory are dropped.
    fn group(&self) -> Vec<u64> {
        let message = self.hears().expect("a group");
        let group = message["Group"].as_array().expect("a group");
        let numbers = group.iter().map(|moved| moved["id"].as_u64().unwrap()).collect();
        for moved in group {
            for bytes in moved["hand_bytes"].as_array().unwrap() {
                let mut left = bytes.as_u64().unwrap();
                let mut room = vec![0; 1 << 17];
                while left > 0 {
                    left -= recv(&self.0, &mut room[..], RecvFlags::empty()).unwrap().0 as u64;
                }
            }
        }
        numbers
    }

    /// The next message; the descriptors are dropped. `None` once the link is gone.
    fn hears(&self) -> Option<Value> {
        let mut room = vec![0; 1 << 17];
        let (bytes, _) = recv(&self.0, &mut room[..], RecvFlags::empty()).unwrap();
        (bytes > 0).then(|| serde_json::from_slice(&room[..bytes]).unwrap_or(Value::Null))
    }
}

fn answers(place: &str) {
    assert_eq!(ask(client_of(place), b"are you there"), b"are you there");
}

#[test]
fn no_client_is_refused_while_links_take_over_from_each_other() {
    let lines = Lines::to(format!("tcp:{}", echo()));
    let mut link = lines.start();
    let (place, over) = (lines.port.place(), Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..3)
        .map(|_| {
            let (place, over) = (place.clone(), Arc::clone(&over));
            thread::spawn(move || -> io::Result<u32> {
                let mut served = 0;
                while !over.load(Ordering::Relaxed) {
                    let mut stream = TcpStream::connect(&place)?;
                    stream.write_all(b"here")?;
                    let mut answer = [0; 4];
                    stream.read_exact(&mut answer)?;
                    served += 1;
                }
                Ok(served)
            })
        })
        .collect();
    for _ in 0..5 {
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

/// The new process would wait in vain for a message while relays stop that cannot move.
#[test]
fn a_new_process_hears_of_connections_that_stay() {
    let pki = Pki::new();
    let lines = Lines::to(format!("tcp:{}", echo()));
    let place = lines.port.place();
    let listen = format!("tls-listen:{place},fork,{}", pki.own("server"));
    let words = ["--handover", lines.door.to_str().unwrap(), &listen, &lines.target];
    let link = Running::start(&words);
    link.says("listening on ");
    eventually("the door is open", || lines.door.exists());
    let mut client = pki.client(client_of(&place), &[]);
    client.write_all(b"hello").unwrap();
    client.read_exact(&mut [0; 5]).unwrap();
    let hand = Hand::at(&lines.door);
    hand.says(&json!({"Hello": {"version": 3, "first": listen, "second": lines.target}}));
    assert!(hand.hears().is_some_and(|listeners| listeners.get("Listeners").is_some()));
    hand.says(&json!("Ready"));
    assert!(hand.hears().is_some_and(|accept| accept.get("Accept").is_some()));
    assert_eq!(hand.hears(), Some(json!("Staying")));
    assert!(hand.group().is_empty());
}

#[test]
fn a_socket_of_another_program_is_named_with_the_remedy() {
    let lines = Lines::to(format!("tcp:{}", echo()));
    let flags = SocketFlags::CLOEXEC;
    let other = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    bind(&other, &SocketAddrUnix::new(&lines.door).unwrap()).unwrap();
    rustix::net::listen(&other, 1).unwrap();
    let words = ["link", "--handover", lines.door.to_str().unwrap(), &lines.listen(), "null:"];
    let asks = gush().args(words).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let socket = rustix::net::accept(&other).unwrap();
    send(&socket, b"220 ready", SendFlags::NOSIGNAL).unwrap();
    let output = asks.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("another protocol (another program has this socket"), "{said}");
    assert_eq!(output.status.code(), Some(1));
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

/// Sends `bytes` in pieces, and reads the echo: is it the same?
fn echoed(mut stream: TcpStream, bytes: &[u8], pause: Duration) -> io::Result<bool> {
    let mut reader = stream.try_clone()?;
    thread::scope(|scope| {
        let heard = scope.spawn(move || {
            let mut heard = Vec::new();
            reader.read_to_end(&mut heard).map(|_| heard)
        });
        for piece in bytes.chunks(50_000) {
            stream.write_all(piece)?;
            thread::sleep(pause);
        }
        stream.shutdown(Shutdown::Write)?;
        Ok(heard.join().unwrap()? == bytes)
    })
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
        // Before it is ready; before the first group; after it; and with nonsense as its answer.
        let hand = Hand::at(&lines.door);
        hand.hello(3, &lines);
        assert!(hand.hears().is_some_and(|listeners| listeners.get("Listeners").is_some()));
        drop(hand);
        drop(Hand::ready(&lines));
        link.says_times("a handover failed", 1);
        for nonsense in [None, Some("Ready"), Some("nonsense")] {
            let hand = Hand::ready(&lines);
            assert!(!hand.group().is_empty());
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
fn a_receiver_that_dies_later_has_only_the_connections_that_it_got() {
    let lines = Lines::to(format!("tcp:{}", echo()));
    let link = lines.start();
    let place = lines.port.place();
    let greets = |mut client: &TcpStream| {
        client.write_all(b"hello")?;
        client.read_exact(&mut [0; 5])
    };
    // More than a group has.
    let clients: Vec<_> = (0..40).map(|_| client_of(&place)).collect();
    clients.iter().for_each(|client| greets(client).unwrap());
    let hand = Hand::ready(&lines);
    let got = hand.group();
    assert!(!got.is_empty() && got.len() < clients.len(), "{got:?}");
    hand.says(&json!("Taken"));
    assert_eq!(hand.hears(), Some(json!("Go")));
    drop(hand);
    link.says("a handover failed");
    let lost = clients.iter().filter(|client| greets(client).is_err()).count();
    assert_eq!(lost, got.len());
    // A sound process takes over the others, and no number occurs twice.
    let next = lines.start_with(&["--json"]);
    assert!(link.finish().0.success());
    clients.iter().for_each(|client| drop(greets(client)));
    answers(&place);
    drop(clients);
    next.signal(Signal::TERM);
    let (status, records, said) = next.finish();
    assert!(status.success(), "{said}");
    let records = String::from_utf8(records).unwrap() + &said;
    let records = records.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut numbers: Vec<_> =
        records.filter_map(|record| record["id"].as_u64()).chain(got.iter().copied()).collect();
    assert_eq!(numbers.len(), 41, "{numbers:?}");
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 41, "{numbers:?}");
}

#[test]
fn a_handover_takes_longer_than_a_link_waits_for_clients() {
    let lines = Lines::to(format!("tcp:{}", echo()));
    let listen = format!("{},accept-timeout=1", lines.listen());
    let link =
        Running::start(&["--handover", lines.door.to_str().unwrap(), &listen, &lines.target]);
    link.says("listening on ");
    eventually("the door is open", || lines.door.exists());
    let hand = Hand::at(&lines.door);
    hand.says(&json!({"Hello": {"version": 3, "first": listen, "second": lines.target}}));
    assert!(hand.hears().is_some_and(|listeners| listeners.get("Listeners").is_some()));
    hand.says(&json!("Ready"));
    assert!(hand.hears().is_some_and(|accept| accept.get("Accept").is_some()));
    assert!(hand.group().is_empty());
    thread::sleep(Duration::from_millis(2500));
    hand.says(&json!("Taken"));
    assert_eq!(hand.hears(), Some(json!("Go")));
    let (status, _, said) = link.finish();
    assert!(status.success() && said.contains("a new process serves"), "{said}");
}

#[test]
fn a_running_link_ends_by_a_signal_in_each_phase_of_a_handover() {
    for phase in 0..4 {
        let lines = Lines::to(format!("tcp:{}", echo()));
        let link = lines.start();
        let mut client = client_of(&lines.port.place());
        client.write_all(b"hello").unwrap();
        client.read_exact(&mut [0; 5]).unwrap();
        // It has connected; has a group, and has not answered; has been told `Go`; has the last group.
        let hand = if phase > 0 { Hand::ready(&lines) } else { Hand::at(&lines.door) };
        if phase > 0 {
            assert_eq!(hand.group(), [1]);
        }
        if phase > 1 {
            hand.says(&json!("Taken"));
            assert_eq!(hand.hears(), Some(json!("Go")));
        }
        if phase > 2 {
            assert!(hand.group().is_empty());
        }
        let signalled = Instant::now();
        link.signal(Signal::TERM);
        if phase < 2 {
            // It is this link's still, which lets it finish.
            assert_eq!(ask(client, b" and on"), b" and on");
        }
        assert!(link.finish().0.success(), "phase {phase}");
        assert!(signalled.elapsed() < PATIENCE_OF_A_LINK, "phase {phase}");
        assert!(!lines.door.exists(), "phase {phase}");
        drop(hand);
    }
}

#[test]
fn a_running_link_that_is_told_to_end_finishes_its_handover_first() {
    let lines = Lines::to(format!("tcp:{}", echo()));
    let link = lines.start();
    let mut client = client_of(&lines.port.place());
    client.write_all(b"hello").unwrap();
    client.read_exact(&mut [0; 5]).unwrap();
    let hand = Hand::ready(&lines);
    assert_eq!(hand.group(), [1]);
    link.signal(Signal::TERM);
    // Long enough for the signal to be met.
    thread::sleep(Duration::from_millis(100));
    hand.says(&json!("Taken"));
    assert_eq!(hand.hears(), Some(json!("Go")));
    assert!(hand.group().is_empty());
    hand.says(&json!("Taken"));
    assert_eq!(hand.hears(), Some(json!("Go")));
    assert!(link.finish().0.success());
    assert!(lines.door.exists(), "the name is the new process's");
}

/// The running link's side of the protocol, by hand, with a listener and a connection to give.
struct Giver {
    lines: Lines,
    door: OwnedFd,
    clients: TcpListener,
}

impl Giver {
    fn new() -> Self {
        let lines = Lines::to(format!("tcp:{}", echo()));
        let flags = SocketFlags::CLOEXEC;
        let door = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        bind(&door, &SocketAddrUnix::new(&lines.door).unwrap()).unwrap();
        rustix::net::listen(&door, 1).unwrap();
        Self { lines, door, clients: TcpListener::bind("127.0.0.1:0").unwrap() }
    }

    /// A new process, and the connection to it.
    fn asked(&self) -> (Running, Hand) {
        self.asked_with(&[])
    }

    fn asked_with(&self, options: &[&str]) -> (Running, Hand) {
        let listen = self.lines.listen();
        let door = self.lines.door.to_str().unwrap();
        let words = ["--handover", door, &listen, &self.lines.target];
        let next = Running::start(&[options, &words].concat());
        let hand = Hand(rustix::net::accept_with(&self.door, SocketFlags::CLOEXEC).unwrap());
        assert!(hand.hears().unwrap().get("Hello").is_some());
        (next, hand)
    }

    fn gives(&self, hand: &Hand, message: &Value, descriptors: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(descriptors)));
        let message = message.to_string();
        let message = [IoSlice::new(message.as_bytes())];
        sendmsg(&hand.0, &message, &mut ancillary, SendFlags::NOSIGNAL).unwrap();
    }
}

#[test]
fn a_new_process_ends_by_a_signal_in_each_phase_of_a_handover() {
    let giver = Giver::new();
    let group = group_of_one();
    // It has no answer; is ready; accepts; has a group, and no `Go`; has a group, and `Go` comes
    // before the signal is looked at.
    for phase in 0..5 {
        let (next, hand) = giver.asked();
        let (near, near_end) = pair();
        let (far, far_end) = pair();
        if phase > 0 {
            let listeners = json!({"Listeners": {"metrics": null, "descriptors": 20}});
            giver.gives(&hand, &listeners, &[giver.door.as_fd(), giver.clients.as_fd()]);
            assert_eq!(hand.hears(), Some(json!("Ready")));
        }
        if phase > 1 {
            hand.says(&json!({"Accept": {"last_id": 7}}));
        }
        if phase > 2 {
            giver.gives(&hand, &group, &[near_end.as_fd(), far_end.as_fd()]);
            assert_eq!(hand.hears(), Some(json!("Taken")));
        }
        if phase > 3 {
            next.signal(Signal::STOP);
            hand.says(&json!("Go"));
        }
        drop((near_end, far_end));
        let signalled = Instant::now();
        next.signal(Signal::TERM);
        next.signal(Signal::CONT);
        if phase > 3 {
            // It is the new process's, which lets it finish.
            drop(far);
            drop(near);
        }
        let (status, _, said) = next.finish();
        assert!(signalled.elapsed() < PATIENCE_OF_A_LINK, "phase {phase}: {said}");
        assert!(status.success(), "phase {phase}: {said}");
        assert_eq!(said.contains("taken over"), phase > 3, "phase {phase}: {said}");
        let late = send(&hand.0, b"\"Go\"", SendFlags::NOSIGNAL);
        assert!(late.is_err(), "phase {phase}");
    }
    assert!(giver.lines.door.exists(), "it is the running link's still");
}

/// A group with one connection, which has moved nothing yet.
fn group_of_one() -> Value {
    let part = json!({"reads": true, "writes": true, "is_tcp": true});
    let direction = json!({"delivered_bytes": 0, "by_method": [0, 0, 0], "piped_bytes": 0,
        "through_memory": false, "is_at_end": false, "has_seen_end": false, "is_done": false});
    json!({"Group": [{
        "id": 7, "client": "client", "other": "other", "age": {"secs": 0, "nanos": 0},
        "directions": {"forward": true, "back": true}, "parts": [[part], [part]],
        "relay": {"directions": [direction, direction], "quiet": {"secs": 0, "nanos": 0}},
        "hand_bytes": [0, 0],
    }]})
}

#[test]
fn metrics_are_left_to_the_running_link_by_a_process_that_fails_to_take_over() {
    let giver = Giver::new();
    let metrics = TcpListener::bind("127.0.0.1:0").unwrap();
    metrics.set_nonblocking(true).unwrap();
    let place = metrics.local_addr().unwrap().to_string();
    let (next, hand) = giver.asked_with(&["--metrics", &place]);
    let listeners = json!({"Listeners": {"metrics": place, "descriptors": 20}});
    let given = [giver.door.as_fd(), giver.clients.as_fd(), metrics.as_fd()];
    giver.gives(&hand, &listeners, &given);
    assert_eq!(hand.hears(), Some(json!("Ready")));
    hand.says(&json!({"Accept": {"last_id": 7}}));
    let (near, near_end) = pair();
    let (far, far_end) = pair();
    giver.gives(&hand, &group_of_one(), &[near_end.as_fd(), far_end.as_fd()]);
    assert_eq!(hand.hears(), Some(json!("Taken")));
    hand.says(&json!("Go"));
    drop((near_end, far_end));
    eventually("the connection is there", || next.said().contains("taken over"));
    drop(hand);
    next.says("connected ones finish");
    // Each request waits for the running link.
    for _ in 0..5 {
        let _request = TcpStream::connect(&place).unwrap();
        thread::sleep(Duration::from_millis(100));
        metrics.accept().expect("the new process has accepted it");
    }
    drop((near, far));
    assert_eq!(next.finish().0.code(), Some(1));
}

/// A connection over TCP.
fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
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
        hand.hello(3, &lines);
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
        assert!(hand.hears().is_some_and(|accept| accept.get("Accept").is_some()));
        let mut moved = 0;
        loop {
            let group = hand.group().len();
            if moved == clients.len() && !frees {
                limit(3);
            }
            moved += group;
            hand.says(&json!("Taken"));
            assert_eq!(hand.hears(), Some(json!("Go")));
            if group == 0 {
                break;
            }
        }
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

#[test]
fn a_process_that_fails_to_take_over_leaves_the_names_to_the_running_link() {
    let dir = tempfile::tempdir().unwrap();
    let (front, door) = (dir.path().join("front"), dir.path().join("door"));
    let listen = format!("unix-listen:{},fork", front.display());
    let target = format!("tcp:{}", echo());
    let words = ["--handover", door.to_str().unwrap(), &listen, &target];
    let link = Running::start(&words);
    link.says("listening on ");
    eventually("the door is open", || door.exists());
    let greets = || {
        let mut client = UnixStream::connect(&front).unwrap();
        client.write_all(b"hello").unwrap();
        client.read_exact(&mut [0; 5]).unwrap();
        client
    };
    // More than the new process may have descriptors for.
    let _clients: Vec<_> = (0..32).map(|_| greets()).collect();
    let mut next = Command::new("prlimit");
    next.arg("--nofile=32:32").arg(gush().get_program()).arg("link").args(words);
    let output = next.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("ulimit -n raises it"), "{said}");
    link.says("a handover is refused");
    assert!(front.exists() && door.exists(), "{said}");
    greets();
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

#[test]
fn a_process_of_another_version_gets_nothing() {
    let lines = Lines::to(format!("tcp:{}", echo()));
    let link = lines.start();
    let hand = Hand::at(&lines.door);
    hand.hello(999, &lines);
    let answer = hand.hears().expect("a reason");
    assert!(answer["Refused"].as_str().unwrap().contains("version 999"), "{answer}");
    assert_eq!(hand.hears(), None);
    link.says("a handover is refused");
    answers(&lines.port.place());
}

#[test]
fn a_process_with_other_addresses_gets_nothing() {
    let lines = Lines::to(format!("tcp:{}", echo()));
    let link = lines.start();
    let words = ["link", "--handover", lines.door.to_str().unwrap(), &lines.listen(), "null:"];
    let output = gush().args(words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&lines.target), "{said}");
    link.says("a handover is refused");
    answers(&lines.port.place());
}

#[test]
fn a_process_of_another_user_gets_nothing() {
    let nobody = match nobody() {
        Ok(nobody) => nobody,
        Err(why) => return skipped(&why),
    };
    let lines = Lines::to(format!("tcp:{}", echo()));
    let link = lines.start();
    let (dir, door) = (lines.door.parent().unwrap(), lines.door.to_str().unwrap());
    std::fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let program = crate::common::copied_gush(dir);
    let run = || {
        let mut command = Command::new(&program);
        command.args(["link", "--handover", door, &lines.listen(), &lines.target]);
        let output = command.uid(nobody).gid(nobody).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    // By the mode of the socket, and where that was changed by the user.
    let said = run();
    assert!(said.contains("Permission denied"), "{said}");
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(&lines.door, everybody).unwrap();
    let said = run();
    assert!(said.contains("another user's"), "{said}");
    answers(&lines.port.place());
    drop(link);
}

#[test]
fn a_link_with_nothing_to_hand_over_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let door = dir.path().join("door");
    let (door, copy) = (door.to_str().unwrap(), dir.path().join("copy"));
    let copy = copy.to_str().unwrap();
    for (options, first, second, why) in [
        (&[][..], "tcp-listen:1", "null:", "needs fork"),
        (&[], "-", "null:", "needs fork"),
        (&[], "udp-listen:1,fork", "null:", "datagrams"),
        (&[], "listen-fd:3,fork", "null:", "no handover is needed"),
        (&[], "tcp-listen:1,fork", "tcp-listen:2", "both addresses listen"),
        (&[], "tcp-listen:1,fork", "-", "all clients share it"),
        (&[], "tcp-listen:1,fork", "tcp:127.0.0.1:1,shared", "all clients share it"),
        (&[], "tcp-listen:1,fork,run-as=nobody", "null:", "by another user than"),
        (&[], "tcp-listen:1,fork,chroot=/", "null:", "by another user than"),
        (&[], "tcp-listen:1,fork,lockfile=l", "null:", "keep the next process out"),
        (&[], "tcp-listen:1,fork,waitlock=l", "null:", "keep the next process out"),
        (&["--tee", copy], "tcp-listen:1,fork", "null:", "--tee"),
    ] {
        let words = [&["link", "--handover", door], options, &[first, second]].concat();
        let output = gush().args(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{first} {second}: {said}");
        assert!(said.contains(why), "{first} {second}: {said}");
    }
}

#[test]
fn a_socket_that_cannot_be_made_is_named_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("missing/over");
    let output = gush()
        .args([
            "link",
            "--handover",
            path.to_str().unwrap(),
            "tcp-listen:127.0.0.1:0,fork",
            "pipe:",
        ])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let start = format!("gush: link: handover at {}: bind: No such file", path.display());
    assert!(said.starts_with(&start) && said.contains("(make the directory"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}
