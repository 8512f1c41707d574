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
use crate::common::{gush, nobody, noise, strace};
use gush_test::{Port, skipped};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, bind, connect, recv, send, sendmsg, socket_with, sockopt,
};
use rustix::process::{Resource, Rlimit, Signal, prlimit};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Of the protocol.
const VERSION: u32 = 4;
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
        hand.hello(VERSION, lines);
        hand.is_ready();
        hand
    }

    /// Says so once it has the listeners.
    fn is_ready(&self) {
        assert!(self.hears().is_some_and(|listeners| listeners.get("Listeners").is_some()));
        self.says(&json!("Ready"));
    }

    /// The numbers of all connections that are offered, whose bytes in memory are dropped.
    fn all(&self) -> Vec<u64> {
        let mut numbers = Vec::new();
        loop {
            let message = self.hears().expect("a message");
            if message.get("All").is_some() {
                return numbers;
            }
            // Of others the descriptors matter.
            let Some(states) = message.get("States").and_then(Value::as_array) else { continue };
            numbers.extend(states.iter().map(|state| state["id"].as_u64().unwrap()));
            for bytes in states.iter().flat_map(|state| state["hand_bytes"].as_array().unwrap()) {
                let mut left = bytes.as_u64().unwrap();
                let mut room = vec![0; 1 << 17];
                while left > 0 {
                    left -= recv(&self.0, &mut room[..], RecvFlags::empty()).unwrap().0 as u64;
                }
            }
        }
    }

    /// The next message; the descriptors are dropped. `None` once the link is gone.
    fn hears(&self) -> Option<Value> {
        let mut room = vec![0; 1 << 17];
        // A process that leaves messages unread resets the connection.
        let (bytes, _) = recv(&self.0, &mut room[..], RecvFlags::empty()).unwrap_or_default();
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
fn a_running_link_ends_by_a_signal_in_each_phase_of_a_handover() {
    for phase in 0..3 {
        let lines = Lines::to(format!("tcp:{}", echo()));
        let link = lines.start();
        let mut client = client_of(&lines.port.place());
        client.write_all(b"hello").unwrap();
        client.read_exact(&mut [0; 5]).unwrap();
        // The new process has connected; hears nothing; has all, and has not answered.
        let hand = if phase > 0 { Hand::ready(&lines) } else { Hand::at(&lines.door) };
        if phase > 1 {
            assert_eq!(hand.all(), [1]);
        }
        let signalled = Instant::now();
        link.signal(Signal::TERM);
        // It is this link's still, which lets it finish.
        assert_eq!(ask(client, b" and on"), b" and on");
        assert!(link.finish().0.success(), "phase {phase}");
        assert!(signalled.elapsed() < PATIENCE_OF_A_LINK, "phase {phase}");
        assert!(!lines.door.exists(), "phase {phase}");
        drop(hand);
    }
}

#[test]
fn a_running_link_that_is_told_to_end_finishes_its_handover_first() {
    // The new process has asked, and was not heard; was heard; has the listeners; has all.
    for phase in 0..4 {
        let lines = Lines::to(format!("tcp:{}", echo()));
        let link = lines.start();
        let mut client = client_of(&lines.port.place());
        client.write_all(b"hello").unwrap();
        client.read_exact(&mut [0; 5]).unwrap();
        if phase == 0 {
            link.signal(Signal::STOP);
        }
        let hand = Hand::at(&lines.door);
        if phase > 1 {
            hand.hello(VERSION, &lines);
            assert!(hand.hears().is_some_and(|listeners| listeners.get("Listeners").is_some()));
        }
        if phase > 2 {
            hand.says(&json!("Ready"));
            assert_eq!(hand.all(), [1]);
        }
        link.signal(Signal::TERM);
        link.signal(Signal::CONT);
        // Long enough for the signal to be met.
        thread::sleep(Duration::from_millis(100));
        if phase < 2 {
            hand.hello(VERSION, &lines);
            assert!(hand.hears().is_some(), "phase {phase}");
        }
        if phase < 3 {
            hand.says(&json!("Ready"));
            assert_eq!(hand.all(), [1], "phase {phase}");
        }
        hand.says(&json!("Taken"));
        assert!(link.finish().0.success(), "phase {phase}");
        assert!(lines.door.exists(), "the name is the new process's: phase {phase}");
    }
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
        let listen = self.lines.listen();
        let door = self.lines.door.to_str().unwrap();
        let next = Running::start(&["--handover", door, &listen, &self.lines.target]);
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
    let [known, state] = connection();
    let all = json!({"All": {"last_id": 7}});
    // It has no answer; is ready; has a group; has all, which it meets with the signal; has taken
    // all.
    for phase in 0..5 {
        let giver = Giver::new();
        let (next, hand) = giver.asked();
        let (near, near_end) = pair();
        let (far, far_end) = pair();
        if phase > 0 {
            let listeners = json!({"Listeners": {"metrics": null, "descriptors": 20}});
            giver.gives(&hand, &listeners, &[giver.door.as_fd(), giver.clients.as_fd()]);
            assert_eq!(hand.hears(), Some(json!("Ready")));
        }
        if phase > 1 {
            giver.gives(&hand, &known, &[near_end.as_fd(), far_end.as_fd()]);
        }
        if phase > 2 {
            hand.says(&state);
        }
        match phase {
            3 => {
                next.signal(Signal::STOP);
                hand.says(&all);
            }
            4 => {
                hand.says(&all);
                assert_eq!(hand.hears(), Some(json!("Taken")));
            }
            _ => {}
        }
        drop((near_end, far_end));
        let signalled = Instant::now();
        next.signal(Signal::TERM);
        next.signal(Signal::CONT);
        if phase > 2 {
            // If it is the new process's, this lets it finish.
            drop(far);
            drop(near);
        }
        let (status, _, said) = next.finish();
        assert!(signalled.elapsed() < PATIENCE_OF_A_LINK, "phase {phase}: {said}");
        assert!(status.success(), "phase {phase}: {said}");
        let takes = phase == 4 || hand.hears() == Some(json!("Taken"));
        assert_eq!(said.contains("taken over"), takes, "phase {phase}: {said}");
        assert!(!takes || phase > 2, "phase {phase}: {said}");
        // Else it is the running link's still.
        assert_eq!(giver.lines.door.exists(), !takes, "phase {phase}: {said}");
    }
}

/// A connection, which has moved nothing yet: what is known of it, and its state.
fn connection() -> [Value; 2] {
    let part = json!({"reads": true, "writes": true, "is_tcp": true});
    let direction = json!({"delivered_bytes": 0, "by_method": [0, 0, 0], "piped_bytes": 0,
        "through_memory": false, "is_at_end": false, "has_seen_end": false, "is_done": false});
    let known = json!({"Known": [{
        "id": 7, "client": "client", "other": "other", "age": {"secs": 0, "nanos": 0},
        "directions": {"forward": true, "back": true}, "parts": [[part], [part]],
    }]});
    let state = json!({"States": [{
        "id": 7, "relay": {"directions": [direction, direction], "quiet": {"secs": 0, "nanos": 0}},
        "hand_bytes": [0, 0],
    }]});
    [known, state]
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
    assert!(said.starts_with(&start) && said.contains("(mkdir -p"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}
