//! How a link to datagrams ends, which say no end themselves.

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::process::Stdio;

use super::code;
use crate::common::gush;
use crate::common::link::{Running, server};

#[test]
fn a_refused_datagram_ends_the_link() {
    // Connected to itself, it hears nobody else: the kernel refuses as if nobody were there, and
    // the port is taken.
    let deaf = UdpSocket::bind("127.0.0.1:0").unwrap();
    let place = deaf.local_addr().unwrap();
    deaf.connect(place).unwrap();
    // Streams around the socket, where a read reports no error, and sockets that are only written.
    let shaped = |option: &str| format!("udp:{place},{option}");
    let mut targets = vec![format!("udp:{place}")];
    let options = ["crlf", "cr", "ignoreeof", "shut-none", "escape=29", "null-eof", "shut-null"];
    targets.extend(options.map(shaped));
    targets.extend(["crlf,escape=29", "ignoreeof,escape=29"].map(shaped));
    let silent = server(|mut stream| drop(stream.read(&mut [0])));
    targets.push(format!("tcp:{silent}!!udp:{place}"));
    targets.push(format!("tcp:{silent}!!{}", shaped("crlf")));
    for args in targets.iter().flat_map(|to| [vec!["-", to], vec!["-u", "-", to]]) {
        let mut command = gush();
        command.arg("link").args(&args).stdin(Stdio::piped());
        let mut link = Running::of(command);
        let mut stdin = link.stdin();
        stdin.write_all(b"anybody?").unwrap();
        // Standard input stays open: nothing else ends the link.
        let (status, _, said) = link.finish();
        assert_eq!(status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains("Connection refused"), "{args:?}: {said}");
        assert!(!said.contains("epoll_wait"), "no such call has failed: {args:?}: {said}");
        drop(stdin);
    }
}

#[test]
fn the_end_of_standard_input_ends_a_link_to_datagrams() {
    let target = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = format!("udp:{}", target.local_addr().unwrap());
    for args in [&["-", to.as_str()][..], &["-u", "-", &to]] {
        let (status, said) = code(args, b"query");
        assert_eq!(status, Some(0), "{said}");
        let mut query = [0; 10];
        assert_eq!(target.recv(&mut query).unwrap(), 5);
    }
}

#[test]
fn a_silence_is_the_proper_end_of_datagrams() {
    let link = Running::start(&["-u", "-T", "0.3", "udp-listen:127.0.0.1:0", "-"]);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.send_to(b"one", link.place()).unwrap();
    let (status, output, said) = link.finish();
    assert_eq!((status.code(), output.as_slice()), (Some(0), &b"one"[..]), "{said}");
}
