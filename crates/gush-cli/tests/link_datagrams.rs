//! `gush link udp-listen:…,fork`: a flow for every sender.

mod common;

use std::net::UdpSocket;
use std::thread;

use common::link::{PATIENCE, Running};
use common::noise;

/// A UDP server that sends back what it gets, with its own mark for each sender behind it.
fn echo() -> String {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let place = server.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok((count, sender)) = server.recv_from(&mut buffer) {
            server.send_to(&buffer[..count], sender).unwrap();
        }
    });
    place
}

fn client(link: &Running) -> UdpSocket {
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.connect(link.place()).unwrap();
    client
}

fn ask(client: &UdpSocket, question: &[u8]) -> Vec<u8> {
    let mut answer = vec![0; 1 << 16];
    client.send(question).unwrap();
    let count = client.recv(&mut answer).unwrap();
    answer.truncate(count);
    answer
}

#[test]
fn every_sender_has_its_own_answers() {
    let link = Running::start(&["udp-listen:127.0.0.1:0,fork", &format!("udp:{}", echo())]);
    let clients: Vec<_> = (0..5).map(|_| client(&link)).collect();
    // Five at once have to find room in one socket of the usual size (rmem_default, udp(7)).
    for round in 0..4 {
        let questions: Vec<_> =
            (0..5).map(|at| noise(1 + round * 4_000 + at, (round * 5 + at) as u64)).collect();
        for (client, question) in clients.iter().zip(&questions) {
            client.send(question).unwrap();
        }
        for (client, question) in clients.iter().zip(&questions) {
            let mut answer = vec![0; 1 << 16];
            let count = client.recv(&mut answer).unwrap();
            assert!(answer[..count] == *question, "round {round}: {count} bytes");
        }
    }
    assert_eq!(link.said().matches(": connected").count(), 5, "{}", link.said());
}

#[test]
fn every_sender_has_a_program_that_is_told_who_it_is() {
    let program = "shell:'read question; echo $question $PEERPORT $SOCKPORT'";
    let link = Running::start(&["udp-listen:127.0.0.1:0,fork", program]);
    for _ in 0..3 {
        let client = client(&link);
        let (from, to) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        let answer = String::from_utf8(ask(&client, b"who\n")).unwrap();
        assert_eq!(answer, format!("who {} {}\n", from.port(), to.port()));
    }
}

#[test]
fn a_silent_flow_ends_and_its_sender_may_come_again() {
    let target = format!("udp:{}", echo());
    let link = Running::start(&["-T", "0.2", "udp-listen:127.0.0.1:0,fork", &target]);
    let client = client(&link);
    let descriptors = link.descriptors();
    for round in 1..4 {
        assert_eq!(ask(&client, b"again"), b"again");
        link.says_times("ending=\"idle\"", round);
    }
    common::link::eventually("its descriptors are given back", || {
        link.descriptors() <= descriptors + 8
    });
}

#[test]
fn strangers_have_no_flow() {
    let listen = "udp-listen:127.0.0.1:0,fork,range=127.0.0.9";
    let link = Running::start(&[listen, &format!("udp:{}", echo())]);
    client(&link).send(b"stranger").unwrap();
    link.says("outside range=");
    let friend = UdpSocket::bind("127.0.0.9:0").unwrap();
    friend.set_read_timeout(Some(PATIENCE)).unwrap();
    friend.connect(link.place()).unwrap();
    assert_eq!(ask(&friend, b"friend"), b"friend");
    assert_eq!(link.said().matches(": connected").count(), 1, "{}", link.said());
}
