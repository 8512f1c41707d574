//! `shared`, and the order in which `gush link` opens its addresses.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::link::{PATIENCE, Running, ask, client_of, eventually};
use crate::common::{gush, noise};
use gush_test::Port;
use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size};
use rustix::process::Signal;
use tempfile::TempDir;

const LISTEN: &str = "tcp-listen:127.0.0.1:0,fork";

/// Sends `bytes` to the link, and waits until it has closed the connection.
fn send(place: &str, bytes: &[u8]) {
    assert_eq!(ask(client_of(place), bytes), b"");
}

#[test]
fn a_shared_file_keeps_what_every_client_has_sent() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("all");
    fs::write(&file, "an earlier run").unwrap();
    let address = format!("file:{},create,trunc,shared", file.display());
    for args in [["-U", &address, LISTEN], ["-u", LISTEN, &address]] {
        let link = Running::start(&args);
        for line in ["one\n", "two\n", "three\n"] {
            send(&link.place(), line.as_bytes());
        }
        link.signal(Signal::TERM);
        let (status, _, said) = link.finish();
        assert!(status.success(), "{said}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "one\ntwo\nthree\n", "{args:?}");
    }
}

/// Copies of standard output have one offset, at which two splices may write the same place.
#[test]
fn clients_that_write_to_one_file_at_once_lose_no_byte() {
    const BYTES: usize = 3 << 20;
    let dir = TempDir::new().unwrap();
    let (file, out) = (dir.path().join("file"), dir.path().join("out"));
    let shared = format!("file:{},create,shared", file.display());
    for (address, written) in [(&*shared, &file), ("-", &out)] {
        let mut command = gush();
        command.args(["link", "--log", "info", "-u", LISTEN, address]);
        let script = format!("exec \"$0\" \"$@\" >{}", out.display());
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).arg(command.get_program()).args(command.get_args());
        let link = Running::of(shell);
        let place = link.place();
        thread::scope(|scope| {
            for client in b'a'..b'g' {
                let place = &place;
                scope.spawn(move || send(place, &vec![client; BYTES]));
            }
        });
        link.signal(Signal::TERM);
        link.finish();
        let all = fs::read(written).unwrap();
        assert_eq!(all.len(), 6 * BYTES, "{address}");
        for client in b'a'..b'g' {
            assert_eq!(all.iter().filter(|&&byte| byte == client).count(), BYTES, "{address}");
        }
    }
}

/// A message that is longer than the room in the target comes in pieces, without another's bytes in
/// between.
#[test]
fn a_message_of_one_client_has_no_bytes_of_another_in_it() {
    const MESSAGE_BYTES: usize = 6000;
    let dir = TempDir::new().unwrap();
    let fifo = dir.path().join("fifo");
    let address = format!("pipe:{},shared", fifo.display());
    let front = dir.path().join("front");
    let listen = format!("unix-listen:{},fork", front.display());
    let got = dir.path().join("got");
    let mut reader = Command::new("sh")
        .args(["-c", "until [ -p \"$0\" ]; do sleep 0.01; done; exec cat \"$0\""])
        .arg(&fifo)
        .stdout(fs::File::create(&got).unwrap())
        .spawn()
        .unwrap();
    let link = Running::start(&["-u", &listen, &address]);
    link.says("listening on ");
    thread::scope(|scope| {
        for client in b'a'..b'e' {
            let front = &front;
            scope.spawn(move || {
                // One message waits at a time, so that each read takes a whole one.
                for _ in 0..100 {
                    let mut stream = std::os::unix::net::UnixStream::connect(front).unwrap();
                    stream.write_all(&[client; MESSAGE_BYTES]).unwrap();
                    stream.shutdown(Shutdown::Write).unwrap();
                    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
                }
            });
        }
    });
    link.signal(Signal::TERM);
    let (status, _, said) = link.finish();
    assert!(status.success(), "{said}");
    reader.wait().unwrap();
    let all = fs::read(&got).unwrap();
    assert_eq!(all.len(), 4 * 100 * MESSAGE_BYTES);
    for message in all.chunks(MESSAGE_BYTES) {
        assert!(message.iter().all(|&byte| byte == message[0]));
    }
}

#[test]
fn a_shared_connection_outlives_its_clients_and_ends_with_the_link() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp:{},shared", server.local_addr().unwrap());
    let link = Running::start(&[&address, LISTEN]);
    // It is there before any client.
    let (mut upstream, _) = server.accept().unwrap();
    upstream.set_read_timeout(Some(PATIENCE)).unwrap();
    let heard = |upstream: &mut TcpStream, bytes: usize| {
        let mut heard = vec![0; bytes];
        upstream.read_exact(&mut heard).unwrap();
        heard
    };
    let mut stays = link.client();
    for client in 0..3 {
        // Its end is not the server's, and ends its connection after a silence.
        assert_eq!(ask(link.client(), b"short"), b"", "client {client}");
        assert_eq!(heard(&mut upstream, 5), b"short");
    }
    stays.write_all(b"stays").unwrap();
    assert_eq!(heard(&mut upstream, 5), b"stays");
    upstream.write_all(b"answer").unwrap();
    assert_eq!(heard(&mut stays, 6), b"answer");
    drop(stays);
    link.signal(Signal::TERM);
    assert_eq!(upstream.read(&mut [0]).unwrap(), 0);
    drop(upstream);
    let (status, _, said) = link.finish();
    assert!(status.success(), "{said}");
    server.set_nonblocking(true).unwrap();
    assert!(server.accept().is_err(), "a second connection");
}

#[test]
fn a_shared_program_gets_all_and_its_exit_status_counts() {
    let dir = TempDir::new().unwrap();
    let got = dir.path().join("got");
    let bytes = noise(50_000, 3);
    for (option, status) in [("", 0), (",pipes", 7), (",pty,raw,echo=0,shut-none", 0)] {
        let program = format!("shell:'cat >{}; exit {status}',shared{option}", got.display());
        let link = Running::start(&["-u", LISTEN, &program]);
        for piece in bytes.chunks(10_000) {
            send(&link.place(), piece);
        }
        link.signal(Signal::TERM);
        let (ended, _, said) = link.finish();
        assert_eq!(ended.code(), Some(i32::from(status != 0)), "{option}: {said}");
        assert!(fs::read(&got).unwrap() == bytes, "{option}: {said}");
    }
}

/// The server reads too little, so that bytes are unacknowledged when it resets, and stay so.
#[test]
fn a_shared_server_that_has_reset_is_not_waited_for_at_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    set_socket_recv_buffer_size(&listener, 4096).unwrap();
    let server = format!("tcp:{},sndbuf=4M,shared", listener.local_addr().unwrap());
    let link = Running::start(&[&server, LISTEN]);
    let (mut served, _) = listener.accept().unwrap();
    let mut client = link.client();
    client.write_all(&noise(200_000, 5)).unwrap();
    served.read_exact(&mut [0; 10]).unwrap();
    set_socket_linger(&served, Some(Duration::ZERO)).unwrap();
    drop(served);
    link.says("reset by peer");
    link.signal(Signal::TERM);
    let begun = Instant::now();
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(1), "{said}");
    // A hang would last for 30 s.
    assert!(begun.elapsed() < Duration::from_secs(25), "{said}");
}

#[test]
fn shared_needs_clients_and_a_kind_that_can_be_shared() {
    for (args, why) in [
        (&["null:", "file:f,shared"][..], "which needs fork"),
        (&["tcp-listen:1", "file:f,shared"], "which needs fork"),
        (&["file:f,shared!!tcp:h:1", "tcp-listen:1,fork"], "of all parts of an address or of none"),
        (&["tls:h:1,shared", "tcp-listen:1,fork"], "tls takes no option 'shared'"),
        (
            &["--proxy-protocol", "send", "tcp-listen:1,fork", "tcp:h:1,shared"],
            "no PROXY header can name one of them",
        ),
    ] {
        let output = gush().arg("link").args(args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(why), "{args:?}: {said}");
    }
}

#[test]
fn an_address_before_a_listener_is_opened_before_it_listens() {
    let dir = TempDir::new().unwrap();
    let line = dir.path().join("line");
    let pty = format!("pty,raw,link={}", line.display());
    let link = Running::start(&[&pty, "tcp-listen:127.0.0.1:0"]);
    let place = link.place();
    assert!(line.exists());
    // What is written meanwhile waits for the client.
    let mut written = fs::File::options().write(true).open(&line).unwrap();
    written.write_all(b"early").unwrap();
    let mut early = [0; 5];
    client_of(&place).read_exact(&mut early).unwrap();
    assert_eq!(&early, b"early");
    link.signal(Signal::TERM);
    link.finish();
}

#[test]
fn an_address_before_a_listener_that_fails_ends_the_link_and_one_after_it_is_not_opened_yet() {
    let dir = TempDir::new().unwrap();
    let (dead, made) = (Port::reserve(), dir.path().join("made"));
    let tcp = format!("tcp:127.0.0.1:{}", dead.number());
    for args in [&[&*tcp, "tcp-listen:127.0.0.1:0"][..], &["-U", &tcp, "tcp-listen:127.0.0.1:0"]] {
        let (status, _, said) = Running::start(args).finish();
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(!said.contains("listening on"), "{said}");
    }
    let program = format!("shell:'echo >{}'", made.display());
    for way in ["-u", "-U"] {
        let link = Running::start(&[way, "tcp-listen:127.0.0.1:0", &program]);
        let place = link.place();
        assert!(!made.exists(), "{way}");
        drop(client_of(&place));
        eventually("the program is started", || made.exists());
        link.finish();
        fs::remove_file(&made).unwrap();
    }
}
