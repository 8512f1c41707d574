//! Connections by a proxy: the words of both sides, and every byte after the proxy's answer.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

use crate::open_common::{one, run, talk};
use gush_link::open::OpenError;

/// A proxy for one client: hears `expected`, then says its line of `words`, and so on. Its place,
/// and its thread, which gives what the client said at the end.
fn proxy(words: Vec<(Vec<u8>, Vec<u8>)>) -> (String, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || {
        let mut client: TcpStream = listener.accept().unwrap().0;
        for (expected, answer) in words {
            let mut heard = vec![0; expected.len()];
            client.read_exact(&mut heard).unwrap();
            assert_eq!(String::from_utf8_lossy(&heard), String::from_utf8_lossy(&expected));
            client.write_all(&answer).unwrap();
        }
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest);
        rest
    });
    (place, thread)
}

fn refused(address: &str) -> OpenError {
    run(one(address)).unwrap_err()
}

const GRANTED: &[u8] = b"\x05\0\0\x01\x7f\0\0\x01\x12\x34";

#[test]
fn a_socks_proxy_connects_to_names_and_addresses() {
    let cases: [(&str, &[u8]); 3] = [
        ("example.org:443", b"\x05\x01\0\x03\x0bexample.org\x01\xbb"),
        ("192.0.2.7:80", b"\x05\x01\0\x01\xc0\0\x02\x07\0\x50"),
        ("[2001:db8::7]:80", b"\x05\x01\0\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x07\0\x50"),
    ];
    for (target, request) in cases {
        // The target may speak first, in the same packet.
        let answer = [GRANTED, b"hello"].concat();
        let (place, thread) =
            proxy(vec![(b"\x05\x01\0".to_vec(), b"\x05\0".to_vec()), (request.to_vec(), answer)]);
        run(async {
            let mut end = one(&format!("socks5:{place}:{target}")).await.unwrap();
            assert_eq!(end.peer.to_string(), target);
            // The proxy closes when our data has ended.
            assert_eq!(talk(&mut end.conduit, b"question").await, b"hello");
        });
        assert_eq!(thread.join().unwrap(), b"question");
    }
}

#[test]
fn a_socks4_proxy_gets_an_address_and_one_of_socks4a_the_name() {
    let cases: [(&str, &str, &[u8]); 3] = [
        ("socks4", "192.0.2.7:80", b"\x04\x01\0\x50\xc0\0\x02\x07me\0"),
        ("socks4", "localhost:80", b"\x04\x01\0\x50\x7f\0\0\x01me\0"),
        ("socks4a", "example.org:443", b"\x04\x01\x01\xbb\0\0\0\x01me\0example.org\0"),
    ];
    for (kind, target, request) in cases {
        for version in [0, 4] {
            let answer = [&[version, 0x5a, 0, 0, 0, 0, 0, 0][..], b"hello"].concat();
            let (place, thread) = proxy(vec![(request.to_vec(), answer)]);
            run(async {
                let address = format!("{kind}:{place}:{target},socksuser=me");
                let mut end = one(&address).await.unwrap();
                assert_eq!(talk(&mut end.conduit, b"question").await, b"hello");
            });
            assert_eq!(thread.join().unwrap(), b"question");
        }
    }
    let request = b"\x04\x01\0\x50\xc0\0\x02\x07me\0".to_vec();
    for (answer, why) in [
        (&b"\0\x5b\0\0\0\0\0\0"[..], "rejects the request"),
        (b"\0\x5d\0\0\0\0\0\0", "does not accept this user"),
        (b"\x04\x5b\0\0\0\0\0\0", "rejects the request"),
        (b"\x04\x5c\0\0\0\0\0\0", "does not accept this user"),
        (b"HTTP/1.1", "does not answer as a SOCKS4 proxy does"),
        (b"\0\0\0\0\0\0\0\0", "does not answer as a SOCKS4 proxy does"),
        (b"\0", "in the middle of its answer"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap();
        let (request, answer) = (request.clone(), answer.to_vec());
        let thread = std::thread::spawn(move || {
            let mut client = listener.accept().unwrap().0;
            let mut heard = vec![0; request.len()];
            client.read_exact(&mut heard).unwrap();
            client.write_all(&answer).unwrap();
        });
        let error = refused(&format!("socks4:{place}:192.0.2.7:80,socksuser=me"));
        assert!(error.to_string().contains(why), "{error}");
        thread.join().unwrap();
    }
}

#[test]
fn a_socks_proxy_gets_a_name_and_a_password() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("credentials");
    std::fs::write(&file, "anna:secret word\n").unwrap();
    let greeting = (b"\x05\x02\0\x02".to_vec(), b"\x05\x02".to_vec());
    let login = b"\x01\x04anna\x0bsecret word".to_vec();
    let request = b"\x05\x01\0\x01\xc0\0\x02\x07\0\x50".to_vec();
    // With a name in the place of the address that it connected from.
    let granted = b"\x05\0\0\x03\x03abc\x12\x34".to_vec();
    let (place, thread) =
        proxy(vec![greeting.clone(), (login.clone(), b"\x01\0".to_vec()), (request, granted)]);
    let option = format!("credentials={}", file.display());
    drop(run(one(&format!("socks5:{place}:192.0.2.7:80,{option}"))).unwrap());
    thread.join().unwrap();

    let (place, _thread) = proxy(vec![greeting, (login, b"\x01\x01".to_vec())]);
    let error = refused(&format!("socks5:{place}:192.0.2.7:80,{option}"));
    assert!(error.to_string().contains("refuses the name or the password"), "{error}");
}

#[test]
fn what_a_socks_proxy_cannot_do_is_reported() {
    let request = b"\x05\x01\0\x03\x01a\0\x01".to_vec();
    for (reply, why, passes) in [
        (2, "rules", false),
        (4, "reach the host", true),
        (5, "was refused", true),
        (99, "known", false),
    ] {
        let (place, _thread) = proxy(vec![
            (b"\x05\x01\0".to_vec(), b"\x05\0".to_vec()),
            (request.clone(), vec![5, reply, 0, 1, 0, 0, 0, 0, 0, 0]),
        ]);
        let error = refused(&format!("socks5:{place}:a:1"));
        assert!(error.to_string().contains(why), "{error}");
        assert!(error.to_string().contains(&format!("connect to a:1 by {place}")), "{error}");
        assert_eq!(error.passes(), passes, "{error}");
    }
    let greeting = b"\x05\x01\0".to_vec();
    // No way that was offered, and one that was not.
    for way in [b"\x05\xff", b"\x05\x02"] {
        let (place, _thread) = proxy(vec![(greeting.clone(), way.to_vec())]);
        assert!(refused(&format!("socks5:{place}:a:1")).hint().unwrap().contains("credentials="));
    }
    // The reason is known before an address that never comes.
    let (place, _thread) =
        proxy(vec![(greeting.clone(), b"\x05\0".to_vec()), (request, b"\x05\x05".to_vec())]);
    let error = refused(&format!("socks5:{place}:a:1,connect-timeout=20"));
    assert!(error.to_string().contains("connection was refused"), "{error}");
    let (place, _thread) = proxy(vec![(greeting.clone(), b"HTTP/1.1 400".to_vec())]);
    let error = refused(&format!("socks5:{place}:a:1"));
    assert!(error.to_string().contains("not answer as a SOCKS5 proxy"), "{error}");
    let (place, _thread) = proxy(vec![(greeting, Vec::new())]);
    let error = refused(&format!("socks5:{place}:a:1,connect-timeout=100ms"));
    assert!(error.hint().unwrap().contains("does not answer"), "{error}");
}

#[test]
fn an_http_proxy_connects_and_what_follows_its_answer_is_the_targets() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("credentials");
    std::fs::write(&file, "anna:secret").unwrap();
    let plain = "CONNECT [::1]:80 HTTP/1.1\r\nHost: [::1]:80\r\n\r\n";
    let known = "CONNECT [::1]:80 HTTP/1.1\r\nHost: [::1]:80\r\n\
                 Proxy-Authorization: Basic YW5uYTpzZWNyZXQ=\r\n\r\n";
    for (options, request) in
        [(String::new(), plain), (format!(",credentials={}", file.display()), known)]
    {
        let answer = b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n\r\nhello";
        let (place, thread) = proxy(vec![(request.into(), answer.to_vec())]);
        run(async {
            let mut end = one(&format!("http-connect:{place}:[::1]:80{options}")).await.unwrap();
            assert_eq!(talk(&mut end.conduit, b"question").await, b"\r\nhello");
        });
        assert_eq!(thread.join().unwrap(), b"question");
    }
}

/// A proxy is judged by its status: of its headers none has a meaning here.
#[test]
fn an_http_proxy_may_have_any_headers() {
    let request = "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n";
    for headers in ["Proxy-Agent : x\r\n".into(), "no header\r\n".into(), "A: b\r\n".repeat(100)] {
        let answer = format!("HTTP/1.1 200 OK\r\n{headers}\r\nhello");
        let (place, thread) = proxy(vec![(request.into(), answer.into())]);
        run(async {
            let mut end = one(&format!("http-connect:{place}:a:1")).await.unwrap();
            assert_eq!(talk(&mut end.conduit, b"question").await, b"hello");
        });
        assert_eq!(thread.join().unwrap(), b"question");
    }
}

#[test]
fn an_http_proxy_may_answer_in_part_with_any_blanks_and_end_its_lines_by_lf() {
    let request = "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n";
    for answer in [
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\n\r\nhello",
        "HTTP/1.0 200 OK\nVia: x\n\nhello",
        "HTTP/1.0 200 OK\n\r\nhello",
        "HTTP/1.0  200 OK\r\n\r\nhello",
        "HTTP/1.1\t200\tOK\r\n\r\nhello",
        "HTTP/1.1 200\r\n\r\nhello",
        "HTTP/1.1 200 \n\nhello",
    ] {
        let (place, thread) = proxy(vec![(request.into(), answer.into())]);
        run(async {
            let address = format!("http-connect:{place}:a:1,connect-timeout=20");
            let mut end = one(&address).await.unwrap();
            assert_eq!(talk(&mut end.conduit, b"question").await, b"hello", "{answer}");
        });
        assert_eq!(thread.join().unwrap(), b"question");
    }
}

/// The other proxies of these tests go on to read: here the end of the answer is the proxy's last
/// word.
#[test]
fn a_proxy_that_leaves_within_its_answer_is_reported() {
    for (kind, answer) in [("http-connect", &b"HTTP/1.1 200 OK\r\n"[..]), ("socks5", b"\x05")] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let mut client = listener.accept().unwrap().0;
            // The request is taken, so that the close is no reset.
            let mut heard = [0; 99];
            assert!(client.read(&mut heard).unwrap() > 0);
            client.write_all(answer).unwrap();
        });
        let error = refused(&format!("{kind}:{place}:a:1"));
        assert!(error.to_string().contains("in the middle of its answer"), "{error}");
        thread.join().unwrap();
    }
}

#[test]
fn what_an_http_proxy_answers_is_reported() {
    let request = "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n";
    for (answer, why, passes) in [
        ("HTTP/1.1 403 Not for\tyou\r\n\r\n", "403 Not for\\tyou", false),
        ("HTTP/1.0 502 Bad gateway\r\n\r\n", "502 Bad gateway", true),
        ("SSH-2.0-x\r\n\r\n", "not answer as an HTTP proxy", false),
        ("\r\n\r\n", "not answer as an HTTP proxy", false),
        ("HTTP/1.1 2000 OK\r\n\r\n", "not answer as an HTTP proxy", false),
        ("HTTP/1.1 +20 OK\r\n\r\n", "not answer as an HTTP proxy", false),
        ("HTTP/2 200 OK\r\n\r\n", "not answer as an HTTP proxy", false),
        // Interim by its number, and the last answer in HTTP on its connection (RFC 9110, 15.2.2).
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n", "101 Switching Protocols", false),
    ] {
        let (place, _thread) = proxy(vec![(request.into(), answer.into())]);
        let error = refused(&format!("http-connect:{place}:a:1,connect-timeout=20"));
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(error.passes(), passes, "{error}");
    }
    let (place, _thread) = proxy(vec![(request.into(), b"HTTP/1.1 407 Who?\r\n\r\n".to_vec())]);
    let error = refused(&format!("http-connect:{place}:a:1"));
    assert!(error.hint().unwrap().contains("credentials="), "{error}");
}

#[test]
fn a_proxy_is_asked_in_the_version_and_over_the_family_that_the_options_say() {
    let request = b"CONNECT example.org:80 HTTP/1.0\r\n\r\n";
    let (place, thread) = proxy(vec![(request.to_vec(), b"HTTP/1.0 200 OK\r\n\r\n".to_vec())]);
    let port = place.rsplit(':').next().unwrap();
    let at = format!("http-connect:localhost:{port}:example.org:80");
    // The proxy listens on IPv4 alone.
    refused(&format!("{at},family=6"));
    run(async {
        let mut end = one(&format!("{at},family=4,http-version=1.0")).await.unwrap();
        assert_eq!(talk(&mut end.conduit, b"question").await, b"");
    });
    assert_eq!(thread.join().unwrap(), b"question");
}
