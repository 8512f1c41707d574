//! The PROXY protocol: what is sent can be read, what is malformed is refused, and not a byte of
//! the data after a header is taken.

use gush_test as _;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use gush_link::address::UnixName;
use gush_link::open::Peer;
use gush_link::proxy::{Header, ProxyError, Version, accept, send};
use proptest::prelude::*;

const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn ip(text: &str) -> Option<Peer> {
    Some(Peer::Ip(text.parse().unwrap()))
}

/// A header of version 2 from its parts.
fn binary(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap().to_be_bytes();
    [V2, &[command, family], &length, body].concat()
}

#[test]
fn both_versions_name_the_client() {
    let header = Header::new(ip("192.0.2.1:4000"), ip("192.0.2.9:80"));
    assert_eq!(header.bytes(Version::V1), b"PROXY TCP4 192.0.2.1 192.0.2.9 4000 80\r\n");
    let body = [192, 0, 2, 1, 192, 0, 2, 9, 15, 160, 0, 80];
    assert_eq!(header.bytes(Version::V2), binary(0x21, 0x11, &body));

    let header = Header::new(ip("[2001:db8::1]:4000"), ip("[::1]:80"));
    assert_eq!(header.bytes(Version::V1), b"PROXY TCP6 2001:db8::1 ::1 4000 80\r\n");
    assert_eq!(header.bytes(Version::V2).len(), 52);
}

#[test]
fn what_cannot_be_found_out_is_unknown() {
    let header = Header::new(Some(Peer::Other("-".into())), ip("192.0.2.9:80"));
    assert_eq!(header.bytes(Version::V1), b"PROXY UNKNOWN\r\n");
    assert_eq!(header.bytes(Version::V2), binary(0x21, 0, &[]));
}

#[test]
fn every_sound_header_is_read_to_its_last_byte() {
    let with_tlvs =
        [[192, 0, 2, 1, 192, 0, 2, 9, 15, 160, 0, 80].as_slice(), &[4, 0, 2, 9, 9, 0xea, 0, 0]]
            .concat();
    let four = Header::new(ip("192.0.2.1:4000"), ip("192.0.2.9:80"));
    let nobody = Header { source: None, destination: None };
    let cases = [
        (b"PROXY TCP4 192.0.2.1 192.0.2.9 4000 80\r\n".to_vec(), four.clone()),
        (b"PROXY UNKNOWN\r\n".to_vec(), nobody.clone()),
        (b"PROXY UNKNOWN ffff:f::1 ffff:f::2 65535 65535\r\n".to_vec(), nobody.clone()),
        (binary(0x21, 0x11, &with_tlvs), four),
        // A health check of the proxy itself: its addresses are to be ignored.
        (binary(0x20, 0x11, &[1; 12]), nobody.clone()),
        (binary(0x20, 0, &[]), nobody.clone()),
        // And so is their family: none that is known, or one that would need more bytes.
        (binary(0x20, 0xff, b"some"), nobody.clone()),
        (binary(0x20, 0x21, &[]), nobody),
    ];
    for (bytes, header) in cases {
        for shorter in 0..bytes.len() {
            assert!(matches!(Header::read(&bytes[..shorter]), Ok(None)), "{shorter} of {bytes:?}");
        }
        let more = [bytes.as_slice(), b"GET /"].concat();
        assert_eq!(Header::read(&more).unwrap(), Some((header, bytes.len())));
    }
}

#[test]
fn malformed_headers_are_refused() {
    let cases: [&[u8]; 19] = [
        b"GET / HTTP/1.0\r\n",
        b"proxy TCP4 192.0.2.1 192.0.2.9 4000 80\r\n",
        b"PROXY\r\n",
        b"PROXY TCP5 192.0.2.1 192.0.2.9 4000 80\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.9 4000 80\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.9 4000\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.9 4000 80 90\r\n",
        b"PROXY TCP4  192.0.2.1 192.0.2.9 4000 80\r\n",
        b"PROXY TCP4 ::1 ::1 4000 80\r\n",
        b"PROXY TCP6 192.0.2.1 192.0.2.9 4000 80\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.9 65536 80\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.9 +4000 80\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.9 04000 80\r\n",
        &[b"PROXY UNKNOWN ".as_slice(), &[b'x'; 93]].concat(),
        &binary(0x11, 0x11, &[1; 12]),
        &binary(0x22, 0x11, &[1; 12]),
        &binary(0x21, 0x41, &[1; 12]),
        &binary(0x21, 0x11, &[1; 11]),
        // Longer than anything a proxy has to say: refused before it is waited for.
        &binary(0x21, 0x11, &[1; 5000])[..16],
    ];
    for bytes in cases {
        let refused = Header::read(bytes);
        assert!(
            matches!(refused, Err(ProxyError::Malformed(_))),
            "{refused:?}: {}",
            bytes.escape_ascii()
        );
    }
}

#[test]
fn a_line_that_ends_by_lf_alone_is_reported_as_that() {
    for line in [&b"PROXY UNKNOWN\n"[..], b"PROXY TCP4 192.0.2.1 192.0.2.9 4000 80\n"] {
        let error = Header::read(line).unwrap_err().to_string();
        assert!(error.ends_with("its line does not end in CR LF"), "{error}");
    }
}

fn pair() -> (UnixStream, UnixStream) {
    let (proxy, server) = UnixStream::pair().unwrap();
    server.set_nonblocking(true).unwrap();
    (proxy, server)
}

#[test]
fn a_header_that_trickles_in_is_taken_and_the_data_after_it_is_not() {
    for version in [Version::V1, Version::V2] {
        let header = Header::new(ip("[2001:db8::1]:4000"), ip("[::1]:80"));
        let (mut proxy, server) = pair();
        let bytes = [header.bytes(version).as_slice(), b"data\nmore"].concat();
        let sender = std::thread::spawn(move || {
            for (at, byte) in bytes.iter().enumerate() {
                proxy.write_all(&[*byte]).unwrap();
                if at % 16 == 0 {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        });
        assert_eq!(run(accept(server.as_fd(), Duration::from_secs(20))).unwrap(), header);
        sender.join().unwrap();
        server.set_nonblocking(false).unwrap();
        let mut after = String::new();
        (&server).read_to_string(&mut after).unwrap();
        assert_eq!(after, "data\nmore");
    }
}

#[test]
fn silence_and_a_broken_header_end_the_wait() {
    let (_proxy, server) = pair();
    let late = run(accept(server.as_fd(), Duration::from_millis(50)));
    assert_eq!(late.unwrap_err().to_string(), "no PROXY header came within 50 ms");

    let (mut proxy, server) = pair();
    proxy.write_all(b"PROXY TCP4 192.0").unwrap();
    drop(proxy);
    let ended = run(accept(server.as_fd(), Duration::from_secs(20)));
    assert_eq!(
        ended.unwrap_err().to_string(),
        "the connection ended within the PROXY header, after 16 bytes"
    );
}

fn any_socket() -> impl Strategy<Value = SocketAddr> {
    (any::<IpAddr>(), any::<u16>()).prop_map(|(ip, port)| SocketAddr::new(ip, port))
}

fn any_name() -> impl Strategy<Value = Option<UnixName>> {
    let bytes = || proptest::collection::vec(1..=255_u8, 1..=107);
    prop_oneof![
        Just(None),
        bytes().prop_map(|name| Some(UnixName::Abstract(name))),
        bytes().prop_map(|name| {
            use std::os::unix::ffi::OsStringExt;
            Some(UnixName::Path(std::ffi::OsString::from_vec(name).into()))
        }),
    ]
}

fn any_header() -> impl Strategy<Value = Header> {
    let ips = (any_socket(), any_socket());
    let unix = |name| Peer::Unix { name, process: None };
    prop_oneof![
        ips.prop_map(|(one, other)| Header::new(Some(one.into()), Some(other.into()))),
        (any_name(), any_name())
            .prop_map(move |(one, other)| Header::new(Some(unix(one)), Some(unix(other)))),
        Just(Header::new(None, None)),
    ]
}

proptest! {
    #[test]
    fn a_header_that_is_sent_is_received(header in any_header(), v2 in any::<bool>(), data in any::<Vec<u8>>()) {
        let version = if v2 { Version::V2 } else { Version::V1 };
        let unix = matches!(header.source, Some(Peer::Unix { .. }));
        let (proxy, server) = pair();
        let received = run(async {
            send(proxy.as_fd(), &header, version).await.unwrap();
            (&proxy).write_all(&data).unwrap();
            accept(server.as_fd(), Duration::from_secs(20)).await.unwrap()
        });
        let reported = if unix && !v2 { Header { source: None, destination: None } } else { header };
        prop_assert_eq!(received, reported);
        drop(proxy);
        server.set_nonblocking(false).unwrap();
        let mut after =  Vec::new();
        (&server).read_to_end(&mut after).unwrap();
        prop_assert_eq!(after, data);
    }

    #[test]
    fn no_bytes_make_it_panic_and_more_bytes_never_change_an_answer(
        start in prop::sample::select(vec![&b""[..], b"PROXY ", b"PROXY TCP4 1.2.3.4 ", b"PROXY UNKNOWN ", V2, b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c", b"\r\n\r\n\0\r\nQUIT\n\x21\x31"]),
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        cut in any::<prop::sample::Index>(),
    ) {
        let whole = [start, &bytes].concat();
        let part = Header::read(&whole[..cut.index(whole.len() + 1)]);
        match (part, Header::read(&whole)) {
            (Ok(Some(part)), whole) => prop_assert_eq!(Some(part), whole.unwrap()),
            (Err(_), whole) => prop_assert!(whole.is_err()),
            (Ok(None), Ok(Some((_, length)))) => prop_assert!(length <= whole.len()),
            (Ok(None), _) => {}
        }
    }
}
