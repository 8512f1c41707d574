//! How streams of TLS end: a proper end, a cut, a failure, a reset.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use rustix::net::sockopt;
use rustix::process::Signal;

use super::read_all;
use crate::common::link::{PATIENCE, Running, echo, eventually, server};
use crate::common::tls::Pki;

#[test]
fn a_client_of_tls_that_resets_while_the_other_end_opens_leaves_its_place() {
    let pki = Pki::new();
    let back = pki.path("back");
    let other = format!("unix:{},retry=forever,interval=0.05", back.display());
    let link = Running::start(&["--json", &pki.listen("server", ",fork,max-children=1"), &other]);
    let mut client = pki.client(link.client(), &[]);
    client.flush().unwrap();
    link.says("trying again");
    sockopt::set_socket_linger(&client.sock, Some(Duration::ZERO)).unwrap();
    drop(client);
    let line = link.says("\"ended\":\"open-failed\"");
    assert!(line.contains("hung up"), "{line}");
}

#[test]
fn a_stream_that_is_cut_is_no_end() {
    let pki = Pki::new();
    // The server sends its part and a FIN, but no close_notify.
    let (place, served) = pki.server(&[], |mut stream| {
        stream.write_all(b"the first half").unwrap();
        stream.flush().unwrap();
        // A FIN alone: anybody on the way can send one, and close_notify alone is protected.
        stream.sock.shutdown(Shutdown::Write).unwrap();
        read_all(&mut stream)
    });
    let link = Running::start(&["tcp-listen:127.0.0.1:0", &pki.connect(&place, "")]);
    let mut client = link.client();
    assert_eq!(read_all(&mut client), (14, Some(ErrorKind::ConnectionReset)));
    let (status, _, said) = link.finish();
    assert!(!status.success() && said.contains("without close_notify"), "{said}");
    // And it does not learn that all is well.
    assert!(served.join().unwrap().1.is_some());
}

/// Many clients leave so: each is counted, and none is a warning.
#[test]
fn clients_that_leave_without_close_notify_are_for_a_debug_log() {
    let pki = Pki::new();
    for (level, lines) in [("info", 0), ("debug", 3)] {
        let listen = pki.listen("server", ",fork");
        let link = Running::start(&["--json", "--log", level, &listen, &format!("tcp:{}", echo())]);
        for _ in 0..3 {
            let mut client = pki.client(link.client(), &[]);
            client.write_all(b"x").unwrap();
            client.read_exact(&mut [0]).unwrap();
            client.sock.shutdown(Shutdown::Write).unwrap();
            read_all(&mut client);
        }
        let said = link.says_times("\"ended\":\"relay-failed\"", 3);
        link.signal(Signal::TERM);
        let said = said + &link.finish().2;
        let logged = said.lines().filter(|line| line.contains("without close_notify"));
        let logged = logged.filter(|line| !line.starts_with('{')).count();
        assert_eq!(logged, lines, "{level}: {said}");
    }
}

#[test]
fn a_failure_of_the_other_end_is_no_proper_end_of_tls() {
    let pki = Pki::new();
    let resets = server(|mut stream| {
        stream.write_all(b"half").unwrap();
        // Waits until the client has seen the first half: a reset may overtake it.
        let _ = stream.read(&mut [0; 1]);
        sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    });
    let link = Running::start(&[&pki.listen("server", ",fork"), &format!("tcp:{resets}")]);
    let mut client = pki.client(link.client(), &[]);
    let mut heard = [0; 4];
    client.read_exact(&mut heard).unwrap();
    client.write_all(b"x").unwrap();
    client.flush().unwrap();
    let (_, error) = read_all(&mut client);
    assert!(
        matches!(error, Some(ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof)),
        "{error:?}"
    );
    link.says("Connection reset by peer");

    // An end that is proper says so.
    let link = Running::start(&[&pki.listen("server", ",fork"), "exec:echo all"]);
    let mut client = pki.client(link.client(), &[]);
    assert_eq!(read_all(&mut client), (4, None));
}

/// As most servers and clients do: they wait for no answer to their end, and ours finds nobody.
#[test]
fn a_peer_that_says_its_end_and_closes_has_ended_well() {
    let pki = Pki::new();
    for _ in 0..3 {
        let (place, served) = pki.server(&[], |mut stream| {
            stream.read_exact(&mut [0; 8]).unwrap();
            stream.write_all(b"answer").unwrap();
            stream.conn.send_close_notify();
            stream.flush().unwrap();
        });
        let link = Running::start(&["tcp-listen:127.0.0.1:0", &pki.connect(&place, "")]);
        let mut client = link.client();
        client.write_all(b"question").unwrap();
        assert_eq!(read_all(&mut client), (6, None));
        served.join().unwrap();
        drop(client);
        let (status, _, said) = link.finish();
        assert!(status.success() && said.contains("ending=\"closed\""), "{said}");

        let (sender, receiver) = std::sync::mpsc::channel();
        let receiver = std::sync::Mutex::new(receiver);
        let waits = server(move |mut stream| {
            stream.read_to_end(&mut Vec::new()).unwrap();
            receiver.lock().unwrap().recv().unwrap();
        });
        let link = Running::start(&[&pki.listen("server", ""), &format!("tcp:{waits}")]);
        let mut client = pki.client(link.client(), &[]);
        client.write_all(b"all there is").unwrap();
        client.conn.send_close_notify();
        client.flush().unwrap();
        // What a server of TLS 1.3 says after the handshake is taken: a close would reset the
        // connection otherwise.
        while client.conn.tls13_tickets_received() < 2 {
            client.conn.read_tls(&mut client.sock).unwrap();
            client.conn.process_new_packets().unwrap();
        }
        drop(client);
        sender.send(()).unwrap();
        let (status, _, said) = link.finish();
        assert!(status.success() && said.contains("ending=\"closed\""), "{said}");
    }
}

/// The program's socket reports the end by a reset, as there was more to be read; the stream of TLS
/// still keeps some bytes.
#[test]
fn a_program_that_reads_nothing_is_heard_whole_through_tls() {
    let pki = Pki::new();
    for kib in [50, 70, 90] {
        let written = pki.path(&format!("written{kib}"));
        let program = format!("shell:'head -c {kib}k /dev/zero; touch {}'", written.display());
        let link = Running::start(&[&pki.listen("server", ",sndbuf=8k"), &program]);
        let client = link.client();
        sockopt::set_socket_recv_buffer_size(&client, 4096).unwrap();
        let mut client = pki.client(client, &[]);
        client.write_all(&[7; 3000]).unwrap();
        client.flush().unwrap();
        eventually("the program has written all", || written.exists());
        assert_eq!(read_all(&mut client), (kib << 10, None), "{}", link.said());
        client.conn.send_close_notify();
        let _ = client.flush();
        drop(client);
        let (status, _, said) = link.finish();
        assert!(status.success(), "{kib} KiB: {said}");
    }
}

#[test]
fn with_graceful_a_failure_is_said_as_an_end_in_tls() {
    let pki = Pki::new();
    let program = "shell:'echo half; exit 3'";
    let link = Running::start(&["--graceful", &pki.listen("server", ""), program]);
    let mut client = pki.client(link.client(), &[]);
    assert_eq!(read_all(&mut client), (5, None), "{}", link.said());
    let (status, _, said) = link.finish();
    assert_eq!(status.code(), Some(1), "{said}");
}

#[test]
fn every_proper_end_is_said_in_tls() {
    let pki = Pki::new();
    let held = std::sync::Mutex::new(Vec::new());
    let silent = server(move |stream| held.lock().unwrap().push(stream));
    let (silent, file) =
        (format!("tcp:{silent}"), format!("file:{},create", pki.path("file").display()));
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    // Two proper ends by a limit, one that is not passed on, and one of data that goes the other
    // way only.
    let udp = format!("udp:{}", nobody.local_addr().unwrap());
    let cases: [(&[&str], &str, &str, bool); 4] = [
        (&["-t", "100ms"], "", &silent, true),
        (&["-T", "1"], "", &udp, false),
        (&[], ",shut-none", "exec:true", true),
        (&["-u"], "", &file, true),
    ];
    for (words, options, other, ends) in cases {
        let listen = pki.listen("server", options);
        let link = Running::start(&[words, &[&listen, other]].concat());
        let mut client = pki.client(link.client(), &[]);
        client.write_all(b"said").unwrap();
        if ends {
            client.conn.send_close_notify();
        }
        client.flush().unwrap();
        assert_eq!(
            read_all(&mut client),
            (0, None),
            "{words:?} {options} {other}: {}",
            link.said()
        );
        let (status, _, said) = link.finish();
        assert!(status.success(), "{words:?} {options} {other}: {said}");
    }
}

/// Datagrams have no end: draining is what ends their flows, and no data is cut then.
#[test]
fn the_end_of_drained_datagrams_is_said_in_tls() {
    let pki = Pki::new();
    let (place, served) = pki.server(&[], |mut stream| read_all(&mut stream));
    let link = Running::start(&["udp-listen:127.0.0.1:0,fork", &pki.connect(&place, "")]);
    let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    client.send_to(b"datagram", link.place()).unwrap();
    link.says("connected");
    link.signal(rustix::process::Signal::TERM);
    let (status, _, said) = link.finish();
    assert!(status.success(), "{said}");
    assert_eq!(served.join().unwrap(), (8, None), "{said}");
}

#[test]
fn a_client_of_tls_that_resets_after_its_end_is_seen_while_the_server_is_silent() {
    let pki = Pki::new();
    let (sender, heard) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let silent = server(move |mut stream| {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        sender.lock().unwrap().send(all).unwrap();
        eventually("the link resets", || stream.take_error().unwrap().is_some());
    });
    let link = Running::start(&[&pki.listen("server", ""), &format!("tcp:{silent}")]);
    let mut client = pki.client(link.client(), &[]);
    client.write_all(b"question").unwrap();
    client.conn.send_close_notify();
    client.flush().unwrap();
    assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), b"question");
    sockopt::set_socket_linger(&client.sock, Some(Duration::ZERO)).unwrap();
    drop(client);
    let (status, _, said) = link.finish();
    assert!(!status.success() && said.contains("Connection reset by peer"), "{said}");
}
