//! `--handover`: a new process takes over from a running link.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::common::link::{Running, ask, client_of, echo, eventually};
use crate::common::{gush, nobody};
use gush_test::{Port, skipped};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

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

/// The new process's side of the protocol, by hand.
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

    /// The next message; the descriptors are dropped. `None` once the link is gone.
    fn hears(&self) -> Option<Value> {
        let mut room = vec![0; 1 << 16];
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
    let mut client = std::os::unix::net::UnixStream::connect(&front).unwrap();
    client.write_all(b"hello").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
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
        let mut command = std::process::Command::new(&program);
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
        (&["--tee", copy], "tcp-listen:1,fork", "null:", "--tee"),
    ] {
        let words = [&["link", "--handover", door], options, &[first, second]].concat();
        let output = gush().args(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{first} {second}: {said}");
        assert!(said.contains(why), "{first} {second}: {said}");
    }
}
