//! `--handover`: a new process takes over from a running link.

use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use gush_test::Port;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, bind, connect, recv, send, sendmsg, socket_with,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::link::{Running, ask, client_of, echo, eventually};

mod deaths;
mod moves;
mod refusals;
mod serves;
mod signals;

/// Of the protocol.
const VERSION: u32 = 5;
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
        let clients = TcpListener::bind("127.0.0.1:0").unwrap();
        // As that of a running link: an accept must not wait.
        clients.set_nonblocking(true).unwrap();
        Self { lines, door, clients }
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

fn answers(place: &str) {
    assert_eq!(ask(client_of(place), b"are you there"), b"are you there");
}
