//! `--handover`: a new process takes over from a running link.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use crate::common::link::{Running, ask, client_of, echo, eventually, server};
use crate::common::{gush, nobody, noise};
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
        let begin = || {
            let hand = Hand::at(&lines.door);
            hand.hello(1, &lines);
            assert!(hand.hears().is_some_and(|listeners| listeners.get("Listeners").is_some()));
            hand
        };
        // Before it is ready; after the first message; after the last; and with nonsense as its answer.
        drop(begin());
        let hand = begin();
        hand.says(&json!("Ready"));
        assert!(hand.hears().is_some());
        drop(hand);
        link.says_times("a handover failed", 1);
        for nonsense in [None, Some("Ready"), Some("nonsense")] {
            let hand = begin();
            hand.says(&json!("Ready"));
            while hand.hears().expect("a message").get("Sent").is_none() {}
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
    link.says("a handover failed");
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
