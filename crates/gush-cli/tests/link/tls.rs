//! TLS through `gush link`: with ourselves, with socat's OpenSSL, and with peers that break the
//! protocol.

mod certificates;
mod endings;
mod handshake;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::{fs, thread};

use gush_test::Port;
use rustls::{ServerConnection, StreamOwned};
use tempfile::TempDir;

use crate::common::link::{PATIENCE, Running, ask, echo, eventually, server};
use crate::common::tls::Pki;
use crate::common::{gush, noise};

const BODY_BYTES: usize = 8 << 20;

/// A link from a TCP port through TLS to a TCP server: the first of the two links speaks TLS, the
/// second removes TLS.
fn tunnel(pki: &Pki, server: &str) -> (Running, Running) {
    let inner = Running::start(&[&pki.listen("server", ",fork"), &format!("tcp:{server}")]);
    let outer = Running::start(&["tcp-listen:127.0.0.1:0,fork", &pki.connect(&inner.place(), "")]);
    (outer, inner)
}

/// `gush link` with these addresses, until its exit.
fn linked(first: &str, second: &str) -> (bool, String, String) {
    let mut command = gush();
    command.args(["link", first, second]).stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

/// Sends a byte and a proper end of TLS, and reads the rest: a close before would reset the
/// connection. Could the byte be sent?
fn says_x(mut stream: StreamOwned<ServerConnection, TcpStream>) -> bool {
    let is_sent = stream.write_all(b"x").and_then(|()| stream.flush()).is_ok();
    stream.conn.send_close_notify();
    let _ = stream.flush();
    let _ = stream.sock.shutdown(Shutdown::Write);
    let _ = stream.sock.read_to_end(&mut Vec::new());
    is_sent
}

/// Reads until the end, and gives the error that comes instead of one.
fn read_all(stream: &mut impl Read) -> (usize, Option<ErrorKind>) {
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Ok(_) => (all.len(), None),
        Err(error) => (all.len(), Some(error.kind())),
    }
}

#[test]
fn a_pair_made_for_a_first_try_serves_its_two_commands() {
    let dir = TempDir::new().unwrap();
    let prefix = dir.path().join("own");
    let make = || gush().args(["link", "--make-cert"]).arg(&prefix).output().unwrap();
    let made = make();
    assert!(made.status.success(), "{made:?}");
    let mode = |name: &str| dir.path().join(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("own.key"), 0o600);
    let key = fs::read(dir.path().join("own.key")).unwrap();

    let again = make();
    assert!(!again.status.success());
    assert!(
        String::from_utf8_lossy(&again.stderr)
            .contains("own.key: cannot be made: File exists (nothing is"),
        "{again:?}"
    );
    // Clients may trust the certificate of the first key already.
    assert_eq!(fs::read(dir.path().join("own.key")).unwrap(), key);

    let commands = String::from_utf8(made.stdout).unwrap();
    let words: Vec<Vec<&str>> = commands.lines().map(|line| line.split(' ').collect()).collect();
    assert_eq!((words[0][..2].join(" "), words[0][3]), ("gush link".into(), "-"), "{commands}");
    // A free port of this machine alone, since 4433 may be taken.
    let listen = words[0][2].replace(":4433", ":127.0.0.1:0");
    let listening = Running::start(&[&listen, "exec:cat"]);
    let port = listening.place().rsplit(':').next().unwrap().to_owned();
    let connect = words[1][3].replace("4433", &port);
    let mut command = gush();
    command.args(["link", "-", &connect]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut connecting = command.spawn().unwrap();
    connecting.stdin.take().unwrap().write_all(b"first try").unwrap();
    let output = connecting.wait_with_output().unwrap();
    assert_eq!((output.status.success(), output.stdout), (true, b"first try".to_vec()));
    assert!(listening.finish().0.success());

    let named = format!("{},example.org,192.0.2.1", dir.path().join("named").display());
    let made = gush().args(["link", "--make-cert", &named]).output().unwrap();
    let commands = String::from_utf8(made.stdout).unwrap();
    assert!(commands.contains("gush link - tls:example.org:4433,cafile="), "{commands}");
}

#[test]
fn a_pair_is_not_made_for_what_no_client_can_ask_for() {
    let dir = TempDir::new().unwrap();
    let said = |words: &str| {
        let mut command = gush();
        let made = command.args(["link", "--make-cert", words]).current_dir(&dir).output().unwrap();
        assert_eq!((made.status.code(), made.stdout.as_slice()), (Some(1), &b""[..]), "{words}");
        String::from_utf8(made.stderr).unwrap()
    };
    for (words, odd) in [("own,", "''"), ("own,a,,b", "''"), ("own,a b", "'a b'")] {
        let start = format!("gush: link: no certificate can be made for {odd}: ");
        assert!(said(words).starts_with(&start), "{words}: {}", said(words));
    }
    for words in ["", ",localhost"] {
        assert!(said(words).contains("a PREFIX is missing"), "{words}: {}", said(words));
    }
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    let made = gush().args(["link", "--make-cert", "own,*.example.org"]).current_dir(&dir).output();
    assert!(made.unwrap().status.success());
}

#[test]
fn everything_arrives_both_ways_after_a_half_close() {
    let pki = Pki::new();
    let body = noise(BODY_BYTES, 1);
    let (outer, _inner) = tunnel(&pki, &echo());
    assert!(ask(outer.client(), &body) == body);

    // An answer that begins only after the end of the question.
    let (question, answer) = (noise(BODY_BYTES, 2), noise(BODY_BYTES, 3));
    let (expected, sent) = (question.clone(), answer.clone());
    let late = server(move |mut stream| {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        assert!(all == expected);
        stream.write_all(&sent).unwrap();
    });
    let (outer, _inner) = tunnel(&pki, &late);
    assert!(ask(outer.client(), &question) == answer);

    // And one that ends before the question does.
    let (sender, receiver) = mpsc::channel();
    let early = server(move |mut stream| {
        stream.write_all(b"enough").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut all = Vec::new();
        let read = stream.read_to_end(&mut all);
        sender.send((read.is_ok(), all)).unwrap();
    });
    let (outer, _inner) = tunnel(&pki, &early);
    let mut client = outer.client();
    let mut heard = String::new();
    client.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "enough");
    client.write_all(&body).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let (has_ended, all) = receiver.recv_timeout(PATIENCE).unwrap();
    assert!(has_ended && all == body, "{} bytes arrived", all.len());
    outer.says("ending=\"closed\"");
}

#[test]
fn a_file_arrives_whole_one_way_only() {
    let pki = Pki::new();
    let (source, target) = (pki.path("source"), pki.path("target"));
    fs::write(&source, noise(BODY_BYTES, 4)).unwrap();
    let file = |path: &Path| format!("file:{}", path.display());
    let takes = format!("{},create", file(&target));
    let listening = Running::start(&["-u", &pki.listen("server", ""), &takes]);
    let connect = pki.connect(&listening.place(), "");
    let sending = Running::start(&["-u", &file(&source), &connect]);
    let (status, _, said) = sending.finish();
    assert!(status.success(), "{said}");
    assert!(listening.finish().0.success());
    assert!(fs::read(target).unwrap() == fs::read(source).unwrap());
}

#[test]
fn many_clients_are_served_at_once() {
    let pki = Pki::new();
    let (outer, inner) = tunnel(&pki, &echo());
    thread::scope(|scope| {
        for seed in 0..40 {
            let outer = &outer;
            scope.spawn(move || {
                let question = noise(100_000 + seed, seed as u64);
                assert!(ask(outer.client(), &question) == question, "client {seed}");
            });
        }
    });
    inner.says_times("ending=\"closed\"", 40);
    assert!(!inner.said().contains("warning"), "{}", inner.said());
}

#[test]
fn a_proxy_header_comes_before_the_handshake() {
    let pki = Pki::new();
    let inner = Running::start(&[
        "--proxy-protocol",
        "accept",
        &pki.listen("server", ",fork"),
        "shell:cat >/dev/null; echo $PEERADDR",
    ]);
    let outer = Running::start(&[
        "--proxy-protocol",
        "accept,send",
        "tcp-listen:127.0.0.1:0,fork",
        &pki.connect(&inner.place(), ""),
    ]);
    let question = b"PROXY TCP4 192.0.2.7 192.0.2.8 1000 2000\r\nhello";
    assert_eq!(ask(outer.client(), question), b"192.0.2.7\n");
}

#[test]
fn socats_openssl_is_a_peer_on_either_side() {
    if Command::new("socat").arg("-V").output().is_err() {
        return crate::common::skipped("socat is not installed");
    }
    let pki = Pki::new();
    pki.pair("client", &["client"], |_| {});
    let source = pki.path("source");
    fs::write(&source, noise(BODY_BYTES, 5)).unwrap();
    let socat = |words: &[&str]| {
        let mut command = Command::new("socat");
        command.args(words).stdin(Stdio::null());
        command
    };
    let file = |path: &Path| format!("OPEN:{}", path.display());

    // socat sends, and shows its certificate.
    let target = pki.path("from_socat");
    let takes = format!("file:{},create", target.display());
    let listen = pki.listen("server", &format!(",{}", pki.trust()));
    let link = Running::start(&["-u", &listen, &takes]);
    let port = link.place().rsplit(':').next().unwrap().to_owned();
    let to = format!("OPENSSL:localhost:{port},{},{}", pki.trust(), pki.own("client"));
    assert!(socat(&["-u", &file(&source), &to]).status().unwrap().success());
    let (status, _, said) = link.finish();
    assert!(status.success(), "{said}");
    assert!(fs::read(target).unwrap() == fs::read(&source).unwrap());

    // socat listens, wants our certificate, and sends back.
    let reserved = Port::reserve();
    let port = reserved.number();
    let listen = format!(
        "OPENSSL-LISTEN:{port},bind=127.0.0.1,reuseaddr,{},{}",
        pki.own("server"),
        pki.trust()
    );
    let mut sends = socat(&["-t", "30", &listen, "EXEC:cat"]).spawn().unwrap();
    let own = format!(",retry=forever,interval=50ms,{}", pki.own("client"));
    let link = Running::start(&[
        "tcp-listen:127.0.0.1:0",
        &pki.connect(&format!("127.0.0.1:{port}"), &own),
    ]);
    let body = fs::read(&source).unwrap();
    let back = ask(link.client(), &body);
    assert_eq!(back.len(), body.len());
    assert!(back == body);
    let (status, _, said) = link.finish();
    assert!(status.success(), "{said}");
    eventually("socat ends", || sends.try_wait().unwrap().is_some());
}
