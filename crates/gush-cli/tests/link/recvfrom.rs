//! `udp-recvfrom`: one datagram, and the answers.

use std::net::UdpSocket;
use std::process::{Command, Stdio};

use crate::common::link::{PATIENCE, Running, eventually};
use crate::common::{gush, skipped};

/// A socket that talks with `place`.
fn client(place: &str) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(place).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn heard(socket: &UdpSocket) -> Vec<u8> {
    let mut bytes = [0; 2048];
    let count = socket.recv(&mut bytes).unwrap();
    bytes[..count].to_vec()
}

#[test]
fn each_datagram_is_a_connection_of_its_own() {
    let link =
        Running::start(&["--json", "udp-recvfrom:127.0.0.1:0,fork", "shell:'read a; echo got $a'"]);
    let place = link.place();
    let clients = [client(&place), client(&place)];
    for round in 0..3 {
        for (at, client) in clients.iter().enumerate() {
            client.send(format!("{round} of {at}\n").as_bytes()).unwrap();
            assert_eq!(heard(client), format!("got {round} of {at}\n").as_bytes());
        }
    }
    // Two in a row of one sender do not become one stream: each ends after its last byte.
    let one = client(&place);
    for word in ["one\n", "two\n"] {
        one.send(word.as_bytes()).unwrap();
    }
    let mut answers = [heard(&one), heard(&one)];
    answers.sort();
    assert_eq!(answers, [b"got one\n", b"got two\n"]);
    link.says_times("\"ended\":\"closed\"", 8);
}

/// The socket of the listener holds them all: none is lost on the way to a place.
#[test]
fn a_burst_of_new_senders_is_served_whole() {
    for address in ["udp-listen:127.0.0.1:0,fork", "udp-recvfrom:127.0.0.1:0,fork"] {
        let echo = UdpSocket::bind("127.0.0.1:0").unwrap();
        let there = format!("udp:{}", echo.local_addr().unwrap());
        std::thread::spawn(move || {
            let mut bytes = [0; 64];
            while let Ok((count, from)) = echo.recv_from(&mut bytes) {
                let _ = echo.send_to(&bytes[..count], from);
            }
        });
        let link = Running::start(&[address, &there]);
        let place = link.place();
        let clients: Vec<UdpSocket> = (0..150).map(|_| client(&place)).collect();
        for (number, client) in clients.iter().enumerate() {
            client.send(&number.to_le_bytes()).unwrap();
        }
        for (number, client) in clients.iter().enumerate() {
            assert_eq!(heard(client), number.to_le_bytes(), "{address}");
        }
    }
}

/// What is read ends after one datagram, whatever the answers go to.
#[test]
fn the_one_datagram_ends_also_where_options_shape_it() {
    for options in ["crnl", "readbytes=99", "escape=29"] {
        let place = format!("udp-recvfrom:127.0.0.1:0,{options}");
        let link = Running::start(&["--json", &place, "exec:'wc -c'"]);
        let client = client(&link.place());
        client.send(b"four").unwrap();
        assert!(heard(&client).starts_with(b"4"), "{options}");
        link.says_just("\"ended\":\"closed\"", 1);
    }
}

/// Like an empty read of a stream, which has nothing to answer.
#[test]
fn an_empty_datagram_is_dropped() {
    for options in [",fork", ""] {
        let place = format!("udp-recvfrom:127.0.0.1:0{options}");
        let link = Running::start(&["--json", &place, "exec:'wc -c'"]);
        let client = client(&link.place());
        client.send(b"").unwrap();
        client.send(b"four").unwrap();
        assert_eq!(heard(&client), b"4\n", "{options}");
        link.says_just("\"ended\":\"closed\"", 1);
    }
}

/// The end comes after each datagram, and an empty one is the end alone.
#[test]
fn with_null_eof_an_empty_datagram_is_an_end_without_data() {
    let address = "udp-recvfrom:127.0.0.1:0,fork,null-eof";
    let link = Running::start(&["--json", address, "exec:'wc -c'"]);
    let client = client(&link.place());
    for (question, answer) in [(&b""[..], &b"0\n"[..]), (b"four", b"4\n"), (b"", b"0\n")] {
        client.send(question).unwrap();
        assert_eq!(heard(&client), answer);
    }
    link.says_times("\"ended\":\"closed\"", 3);
}

#[test]
fn without_fork_the_link_ends_with_the_answer_as_socat_does() {
    // A number that the client's own socket has not got.
    let ends_with_one = |command: &dyn Fn(u16) -> Command| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut child = command(free.port()).stdout(Stdio::null()).spawn().unwrap();
        socket.connect(free).unwrap();
        // Until the port is open, what is sent there is refused.
        let mut answer = [0; 64];
        socket.set_read_timeout(Some(std::time::Duration::from_millis(50))).unwrap();
        let mut count = None;
        eventually("there is an answer", || {
            let _ = socket.send(b"question");
            // A refusal is reported first, even where an answer has come before it.
            count = (0..2).find_map(|_| socket.recv(&mut answer).ok());
            count.is_some()
        });
        let status = child.wait().unwrap();
        (answer[..count.unwrap()].to_vec(), status.code())
    };
    let from_us = ends_with_one(&|port| {
        let mut link = gush();
        link.args(["link", &format!("udp-recvfrom:127.0.0.1:{port}"), "exec:'tr a-z A-Z'"]);
        link
    });
    assert_eq!(from_us, (b"QUESTION".to_vec(), Some(0)));
    if Command::new("socat").arg("-V").output().is_err() {
        return skipped("no socat to compare with");
    }
    let from_socat = ends_with_one(&|port| {
        let mut socat = Command::new("socat");
        socat.args([&format!("UDP4-RECVFROM:{port},bind=127.0.0.1"), "EXEC:tr a-z A-Z"]);
        socat
    });
    assert_eq!(from_socat, from_us);
}
