//! The handshake of TLS: what both sides agree on, and peers with which there is none.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use rustix::net::sockopt;
use rustls::ProtocolVersion;
use rustls::version::TLS12;

use super::{linked, says_x};
use crate::common::link::{Running, ask, eventually, server};
use crate::common::tls::Pki;

#[test]
fn a_peer_that_speaks_no_tls_is_reported() {
    let pki = Pki::new();
    // As a mail server does, which speaks first.
    let plain = server(|mut stream| {
        let _ = stream.write_all(b"220 mail.example.org\r\n");
        let _ = stream.read(&mut [0; 4096]);
    });
    let (done, _, said) = linked("-", &pki.connect(&plain, ""));
    assert!(!done && said.contains("the peer does not speak TLS"), "{said}");

    let closes = server(drop);
    let (done, _, said) = linked("-", &pki.connect(&closes, ""));
    assert!(!done && said.contains("TLS handshake: "), "{said}");

    let resets = server(|mut stream| {
        let _ = stream.read(&mut [0; 1]);
        sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    });
    let (done, _, said) = linked("-", &pki.connect(&resets, ""));
    let reset = "TLS handshake: Connection reset by peer (does it speak TLS?)";
    assert!(!done && said.contains(reset), "{said}");

    let listening = Running::start(&[&pki.listen("server", ",fork"), "exec:cat"]);
    // More than is read before the refusal: what is left unread must not reset the connection
    // before the alert.
    let mut client = listening.client();
    client.write_all(&b"GET / HTTP/1.0\r\n\r\n".repeat(4000)).unwrap();
    listening.says("the peer does not speak TLS");
    let mut alert = Vec::new();
    client.read_to_end(&mut alert).unwrap();
    // The type of a record that is an alert (RFC 8446, 5.1).
    assert_eq!((alert.first(), alert.len()), (Some(&21), 7), "{alert:?}");
    // The next one is served.
    assert!(linked("null:", &pki.connect(&listening.place(), "")).0);
}

#[test]
fn the_server_is_asked_for_the_name_and_protocols_that_are_wanted() {
    let pki = Pki::new();
    let cases = [
        ("", Some("localhost"), None),
        (",sni=other.example.org", Some("other.example.org"), None),
        (",no-sni", None, None),
        (",alpn=h2+http/1.1", Some("localhost"), Some("http/1.1")),
    ];
    for (options, name, protocol) in cases {
        let alpn: &[&str] = if protocol.is_some() { &["http/1.1"] } else { &[] };
        let (place, served) = pki.server(alpn, |mut stream| {
            let _ = stream.read(&mut [0; 1]);
            let protocol = stream.conn.alpn_protocol().map(<[u8]>::to_vec);
            // Without it the end would be a truncation, and the link would rightly fail.
            stream.conn.send_close_notify();
            let _ = stream.flush();
            (stream.conn.server_name().map(str::to_owned), protocol)
        });
        let (done, _, said) = linked("null:", &pki.connect(&place, options));
        assert!(done, "{options}: {said}");
        let (asked, agreed) = served.join().unwrap();
        assert_eq!(asked.as_deref(), name, "{options}");
        assert_eq!(agreed.as_deref(), protocol.map(str::as_bytes), "{options}");
    }
}

#[test]
fn a_listener_agrees_on_a_protocol_or_refuses() {
    let pki = Pki::new();
    let listening = Running::start(&[&pki.listen("server", ",fork,alpn=h2+mqtt"), "exec:cat"]);
    let mut client = pki.client(listening.client(), &["mqtt"]);
    client.write_all(b"x").unwrap();
    assert_eq!(client.read(&mut [0; 8]).unwrap(), 1);
    assert_eq!(client.conn.alpn_protocol(), Some(&b"mqtt"[..]));
    let mut client = pki.client(listening.client(), &["http/1.1"]);
    assert!(client.write_all(b"x").and_then(|()| client.read(&mut [0; 8])).is_err());
    listening.says("no protocol of alpn= is known to both sides");
}

#[test]
fn max_version_leaves_out_newer_versions() {
    let pki = Pki::new();
    let link = Running::start(&[&pki.listen("server", ",fork,max-version=1.2"), "exec:cat"]);
    let mut client = pki.client(link.client(), &[]);
    client.write_all(b"x").unwrap();
    assert_eq!(client.read(&mut [0; 8]).unwrap(), 1);
    assert_eq!(client.conn.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_2));
}

#[test]
fn min_version_leaves_out_older_versions_of_a_client_and_of_a_server() {
    let pki = Pki::new();
    let old = |link: &Running| pki.client_of(&[&TLS12], link.client(), &[]);
    let any = Running::start(&[&pki.listen("server", ",fork"), "exec:cat"]);
    let mut client = old(&any);
    client.write_all(b"x").unwrap();
    assert_eq!(client.read(&mut [0; 8]).unwrap(), 1);
    assert_eq!(client.conn.protocol_version(), Some(ProtocolVersion::TLSv1_2));

    let recent = Running::start(&[&pki.listen("server", ",fork,min-version=1.3"), "exec:cat"]);
    let mut client = old(&recent);
    assert!(client.write_all(b"x").and_then(|()| client.read(&mut [0; 8])).is_err());
    recent.says("nothing is spoken by both sides");
    let mut client = pki.client(recent.client(), &[]);
    client.write_all(b"x").unwrap();
    assert_eq!(client.read(&mut [0; 8]).unwrap(), 1);
    assert_eq!(client.conn.protocol_version(), Some(ProtocolVersion::TLSv1_3));

    for (options, is_served) in [("", true), (",min-version=1.3", false)] {
        let (place, served) = pki.server_of(&[&TLS12], "server.key", &[], says_x);
        let (done, out, said) = linked("-", &pki.connect(&place, options));
        assert_eq!((done, out.as_str()), (is_served, if is_served { "x" } else { "" }), "{said}");
        assert_eq!(served.join().unwrap(), is_served, "{said}");
    }
}

#[test]
fn a_handshake_that_never_comes_holds_up_nobody() {
    let pki = Pki::new();
    let listening = Running::start(&[&pki.listen("server", ",fork"), "exec:cat"]);
    let silent: Vec<_> = (0..40).map(|_| listening.client()).collect();
    listening.says_times("connected", silent.len());
    assert!(linked("null:", &pki.connect(&listening.place(), "")).0);
    drop(silent);

    let strict = pki.listen("server", ",fork,handshake-timeout=200ms");
    let strict = Running::start(&["--stats=json", &strict, "exec:cat"]);
    let mut silent = strict.client();
    strict.says("the peer did not finish it within 200 ms");
    strict.says("\"ended\":\"handshake-failed\"");
    let _ = silent.read_to_end(&mut Vec::new());
    assert!(linked("null:", &pki.connect(&strict.place(), "")).0);

    let holds = server(|mut stream| drop(stream.read_to_end(&mut Vec::new())));
    let (done, _, said) = linked("-", &pki.connect(&holds, ",handshake-timeout=200ms"));
    assert!(!done && said.contains("did not finish it within 200 ms"), "{said}");
}

#[test]
fn a_handshake_belongs_to_the_addresses_that_are_joined_or_tried_in_turn() {
    let pki = Pki::new();
    let listening = Running::start(&[&pki.listen("server", ",fork"), "exec:cat"]);
    let good = pki.connect(&listening.place(), "");
    let plain = server(drop);
    let either = format!("{}|{good}", pki.connect(&plain, ""));
    let link = Running::start(&["tcp-listen:127.0.0.1:0", &either]);
    assert_eq!(ask(link.client(), b"the second"), b"the second");

    // The same place, with other options.
    let stranger = Pki::new();
    let either = format!("{}|{good}", stranger.connect(&listening.place(), ""));
    let link = Running::start(&["tcp-listen:127.0.0.1:0", &either]);
    assert_eq!(ask(link.client(), b"the trusted"), b"the trusted");

    let kept = pki.path("kept");
    let apart = format!("{good}!!file:{},create", kept.display());
    let link = Running::start(&["tcp-listen:127.0.0.1:0", &apart]);
    let mut client = link.client();
    client.write_all(b"to the file").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    eventually("the file has all", || fs::read(&kept).is_ok_and(|all| all == b"to the file"));
}
