//! TLS through `gush link`: with ourselves, with socat's OpenSSL, and with peers that break the protocol.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::common::link::{PATIENCE, Running, ask, echo, eventually, server};
use crate::common::tls::Pki;
use crate::common::{gush, noise};
use gush_test::Port;
use rcgen::date_time_ymd;
use rustix::net::sockopt;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::version::{TLS12, TLS13};
use rustls::{ProtocolVersion, ServerConnection, StreamOwned};
use tempfile::TempDir;

const BODY_BYTES: usize = 8 << 20;

/// A link from a TCP port through TLS to a TCP server: the first of the two links speaks TLS, the second removes TLS.
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
fn everything_arrives_both_ways_behind_a_half_close() {
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
    let (tell, told) = mpsc::channel();
    let early = server(move |mut stream| {
        stream.write_all(b"enough").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut all = Vec::new();
        let read = stream.read_to_end(&mut all);
        tell.send((read.is_ok(), all)).unwrap();
    });
    let (outer, _inner) = tunnel(&pki, &early);
    let mut client = outer.client();
    let mut heard = String::new();
    client.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "enough");
    client.write_all(&body).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let (has_ended, all) = told.recv_timeout(PATIENCE).unwrap();
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
fn a_server_that_cannot_be_verified_is_told_apart() {
    let pki = Pki::new();
    pki.pair("elsewhere", &["example.org"], |_| {});
    pki.pair("old", &["localhost"], |params| params.not_after = date_time_ymd(2020, 1, 1));
    pki.pair("future", &["localhost"], |params| params.not_before = date_time_ymd(4000, 1, 1));
    let stranger = Pki::new();
    let cases = [
        (
            "elsewhere",
            pki.trust(),
            "the server's certificate is not for localhost: its names are example.org",
        ),
        ("old", pki.trust(), "the server's certificate has expired, "),
        ("future", pki.trust(), "the server's certificate is valid only in "),
        ("server", stranger.trust(), "is signed by no authority that is trusted"),
        ("server", format!("{},commonname=example.org", pki.trust()), "is not for example.org"),
        (
            "server",
            format!("cafile={}", pki.path("server.key").display()),
            "it holds a private key, and no certificate (cafile=FILE names certificates",
        ),
        (
            "server",
            format!("cafile={}", pki.path("none").display()),
            "No such file or directory (the file must be there and readable",
        ),
        ("server", "commonname=no_name..x".to_owned(), "no certificate can have the name"),
    ];
    for (file, options, why) in cases {
        let listening = Running::start(&[&pki.listen(file, ",fork"), "exec:cat"]);
        let port = listening.place().rsplit(':').next().unwrap().to_owned();
        let (done, out, said) = linked("-", &format!("tls:localhost:{port},{options}"));
        assert!(!done && out.is_empty() && said.contains(why), "{file} {options}: {said}");
    }
    let listening = Running::start(&[&pki.listen("elsewhere", ",fork"), "exec:cat"]);
    let named = pki.connect(&listening.place(), ",commonname=example.org");
    assert!(linked("null:", &named).0, "{}", listening.said());
    // A directory as `openssl rehash` leaves it: the names are eight hexadecimal digits and a number.
    let directory = pki.path("authorities");
    fs::create_dir(&directory).unwrap();
    fs::copy(pki.path("ca.crt"), directory.join("0a1b2c3d.0")).unwrap();
    let port = listening.place().rsplit(':').next().unwrap().to_owned();
    let capath = format!("capath={},commonname=example.org", directory.display());
    let (done, _, said) = linked("null:", &format!("tls:localhost:{port},{capath}"));
    assert!(done, "{said}");
    let unchecked = pki.connect(&listening.place(), ",verify=0");
    let (done, _, said) = linked("null:", &unchecked);
    assert!(done && said.contains("verify=0: anybody on the way can read and change"), "{said}");
}

/// The last words of a client are two records, of which both must leave before the connection does.
#[test]
fn a_server_is_told_why_its_certificate_is_refused() {
    let (pki, stranger) = (Pki::new(), Pki::new());
    let listening = Running::start(&[&pki.listen("server", ",fork"), "exec:cat"]);
    let (done, _, said) = linked("-", &stranger.connect(&listening.place(), ""));
    assert!(!done && said.contains("is signed by no authority that is trusted"), "{said}");
    let told = listening.says("TLS handshake: ");
    // The two authorities have one name, so that the client finds a signature that is none.
    assert!(
        told.contains("the peer cannot verify a signature of ours (decrypt_error) ("),
        "{told}"
    );
}

#[test]
fn a_peer_that_speaks_no_tls_is_told() {
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
    // More than is read before the refusal: what is left unread must not reset the connection before the alert.
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
fn a_listener_without_a_sound_pair_says_so() {
    const LOCKED: &str =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let pki = Pki::new();
    let other = Pki::new();
    let [crt, key, text, der, locked] =
        ["server.crt", "server.key", "text", "der", "locked"].map(|name| pki.path(name));
    fs::write(&text, "no certificate\n").unwrap();
    fs::write(&der, b"\x30\x82\x01\x00").unwrap();
    fs::write(&locked, LOCKED).unwrap();
    let pair = |cert: &Path, key: &Path| format!("cert={},key={}", cert.display(), key.display());
    let cases = [
        (String::new(), "a server needs a certificate"),
        (
            format!("cert={}", crt.display()),
            "it holds a certificate, and no private key (key=FILE names the file of the key)",
        ),
        (pair(&crt, &other.path("server.key")), "not the certificate's"),
        (
            pair(&key, &crt),
            "server.key: it holds a private key, and no certificate (cert= and key= may be swapped)",
        ),
        (
            pair(&crt, &crt),
            "server.crt: it holds a certificate, and no private key (cert= and key= may be swapped)",
        ),
        (
            pair(&text, &key),
            "no certificate in PEM form is in it (one begins with the line -----BEGIN CERTIFICATE-----)",
        ),
        (
            pair(&crt, &text),
            "no private key in PEM form is in it (one begins with the line -----BEGIN PRIVATE KEY-----)",
        ),
        (pair(&der, &key), "is in it (one in DER form is converted by openssl x509 -inform der"),
        (pair(&crt, &der), "is in it (one in DER form is converted by openssl pkey -inform der"),
        (pair(&crt, &locked), "(a key with a password must be decrypted first: openssl pkey)"),
    ];
    for (options, why) in cases {
        let address = format!("tls-listen:127.0.0.1:0,{options}");
        let (done, _, said) = linked(address.trim_end_matches(','), "null:");
        assert!(!done && said.contains(why), "{options}: {said}");
    }
}

#[test]
fn clients_show_a_certificate_where_an_authority_is_named() {
    let pki = Pki::new();
    pki.pair("client", &["client"], |_| {});
    let stranger = Pki::new();
    let listening =
        Running::start(&[&pki.listen("server", &format!(",fork,{}", pki.trust())), "exec:cat"]);
    let (done, _, said) = linked("-", &pki.connect(&listening.place(), ""));
    assert!(!done && said.contains("the peer wants a certificate of ours"), "{said}");
    listening.says("the client shows no certificate");
    let foreign = format!(",{}", stranger.own("server"));
    let (done, _, said) = linked("-", &pki.connect(&listening.place(), &foreign));
    assert!(!done, "{said}");
    listening.says("the client's certificate is signed by no authority that is trusted");
    let own = format!(",{}", pki.own("client"));
    let (done, _, said) = linked("null:", &pki.connect(&listening.place(), &own));
    assert!(done, "{said}");

    let lenient = pki.listen("server", &format!(",fork,verify=0,{}", pki.trust()));
    let lenient = Running::start(&[&lenient, "exec:cat"]);
    assert!(linked("null:", &pki.connect(&lenient.place(), "")).0);
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

/// Sends a byte and a proper end of TLS, and reads the rest: a close before would reset the connection. Could the byte be sent?
fn says_x(mut stream: StreamOwned<ServerConnection, TcpStream>) -> bool {
    let is_sent = stream.write_all(b"x").and_then(|()| stream.flush()).is_ok();
    stream.conn.send_close_notify();
    let _ = stream.flush();
    let _ = stream.sock.shutdown(Shutdown::Write);
    let _ = stream.sock.read_to_end(&mut Vec::new());
    is_sent
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
fn a_server_without_the_key_of_its_certificate_is_refused_also_where_nothing_is_verified() {
    let pki = Pki::new();
    pki.pair("other", &["localhost"], |_| {});
    // Each version signs another message of the handshake (RFC 5246, 7.4.3; RFC 8446, 4.4.3).
    for version in [&TLS12, &TLS13] {
        for options in ["", ",verify=0"] {
            for (key, has_key) in [("server.key", true), ("other.key", false)] {
                let (place, served) = pki.server_of(&[version], key, &[], says_x);
                let (done, out, said) = linked("-", &pki.connect(&place, options));
                let context = format!("{version:?} {key}{options}: {said}");
                let heard = if has_key { "x" } else { "" };
                assert_eq!((done, out.as_str()), (has_key, heard), "{context}");
                assert!(has_key || said.contains("by somebody who has not its key"), "{context}");
                served.join().unwrap();
            }
        }
    }
}

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

/// Reads until the end, and gives the error that comes instead of one.
fn read_all(stream: &mut impl Read) -> (usize, Option<ErrorKind>) {
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Ok(_) => (all.len(), None),
        Err(error) => (all.len(), Some(error.kind())),
    }
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
    // And it is not told that all is well.
    assert!(served.join().unwrap().1.is_some());
}

#[test]
fn a_failure_behind_us_is_no_proper_end_of_tls() {
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

        let (tell, told) = std::sync::mpsc::channel();
        let told = std::sync::Mutex::new(told);
        let waits = server(move |mut stream| {
            stream.read_to_end(&mut Vec::new()).unwrap();
            told.lock().unwrap().recv().unwrap();
        });
        let link = Running::start(&[&pki.listen("server", ""), &format!("tcp:{waits}")]);
        let mut client = pki.client(link.client(), &[]);
        client.write_all(b"all there is").unwrap();
        client.conn.send_close_notify();
        client.flush().unwrap();
        // What a server of TLS 1.3 says behind the handshake is taken: a close would reset the connection otherwise.
        while client.conn.tls13_tickets_received() < 2 {
            client.conn.read_tls(&mut client.sock).unwrap();
            client.conn.process_new_packets().unwrap();
        }
        drop(client);
        tell.send(()).unwrap();
        let (status, _, said) = link.finish();
        assert!(status.success() && said.contains("ending=\"closed\""), "{said}");
    }
}

/// The program's socket tells the end by a reset, as there was more to be read; the stream of TLS still keeps some bytes.
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
fn every_proper_end_is_said_in_tls() {
    let pki = Pki::new();
    let held = std::sync::Mutex::new(Vec::new());
    let silent = server(move |stream| held.lock().unwrap().push(stream));
    let (silent, file) =
        (format!("tcp:{silent}"), format!("file:{},create", pki.path("file").display()));
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    // Two proper ends by a limit, one that is not passed on, and one of data that goes the other way only.
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
    let (tell, heard) = std::sync::mpsc::channel();
    let tell = std::sync::Mutex::new(tell);
    let silent = server(move |mut stream| {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        tell.lock().unwrap().send(all).unwrap();
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

/// As a renewal does: another file takes the name.
fn renew(pki: &Pki, from: &str, to: &str) {
    fs::copy(pki.path(from), pki.path("new")).unwrap();
    fs::rename(pki.path("new"), pki.path(to)).unwrap();
}

#[test]
fn renewed_certificates_are_shown_and_trusted_by_a_link_that_goes_on() {
    let pki = Pki::new();
    pki.pair("renewed", &["localhost"], |_| {});
    let certificate = |file: &str| CertificateDer::from_pem_file(pki.path(file)).unwrap();
    let link = Running::start(&[&pki.listen("server", ",fork"), "exec:cat"]);
    let shown = || {
        let mut client = pki.client(link.client(), &[]);
        client.write_all(b"x").unwrap();
        assert_eq!(client.read(&mut [0; 8]).unwrap(), 1);
        client.conn.peer_certificates().unwrap()[0].clone()
    };
    let before = certificate("server.crt");
    assert_eq!(shown(), before);
    // Its key is not there yet.
    renew(&pki, "renewed.crt", "server.crt");
    assert_eq!(shown(), before);
    link.says("the key is not the certificate's; what was read of ");
    renew(&pki, "renewed.key", "server.key");
    assert_eq!(shown(), certificate("renewed.crt"));

    // A client's link, whose server moves to another authority.
    let other = Pki::new();
    let there = Running::start(&[&other.listen("server", ",fork"), "exec:cat"]);
    let trusts = pki.connect(&there.place(), "");
    let link = Running::start(&["tcp-listen:127.0.0.1:0,fork", &trusts]);
    assert!(read_all(&mut link.client()).1.is_some());
    link.says("is signed by no authority that is trusted");
    fs::copy(other.path("ca.crt"), pki.path("other")).unwrap();
    renew(&pki, "other", "ca.crt");
    assert_eq!(ask(link.client(), b"trusted"), b"trusted");
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
