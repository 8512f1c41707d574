//! `gush link udp-listen:…,fork`: a flow for every sender.

use std::net::UdpSocket;
use std::process::Command;
use std::thread;

use crate::common::link::{PATIENCE, Running};
use crate::common::noise;

/// A UDP server that sends each datagram back with a mark for the sender after the text.
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
    link.says_just(": connected", 5);
}

#[test]
fn every_sender_has_a_program_that_learns_who_it_is() {
    let program = "shell:'read question; echo $question $PEERPORT $SOCKPORT'";
    let link = Running::start(&["udp-listen:127.0.0.1:0,fork", program]);
    for _ in 0..3 {
        let client = client(&link);
        let (from, to) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        let answer = String::from_utf8(ask(&client, b"who\n")).unwrap();
        assert_eq!(answer, format!("who {} {}\n", from.port(), to.port()));
    }
}

/// A connected sender takes no datagram from elsewhere.
#[test]
fn answers_come_from_the_address_that_the_sender_has_written_to() {
    let local = "shell:'read question; echo $question $SOCKADDR $SOCKPORT'";
    for kind in ["udp-listen", "udp-recvfrom"] {
        for host in ["", "0.0.0.0:", "[::]:"] {
            for option in [",fork", ""] {
                let link = Running::start(&["-t", "5", &format!("{kind}:{host}0{option}"), local]);
                let place = link.place();
                let port = place.rsplit(':').next().unwrap();
                // The kernel would answer to the second from 127.0.0.1 as well.
                let addresses = ["127.0.0.1", "127.0.0.2"];
                for address in &addresses[usize::from(option.is_empty())..] {
                    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
                    client.set_read_timeout(Some(PATIENCE)).unwrap();
                    client.connect(format!("{address}:{port}")).unwrap();
                    let answer = String::from_utf8(ask(&client, b"to\n")).unwrap();
                    match option {
                        ",fork" => assert_eq!(answer, format!("to {address} {port}\n")),
                        _ => assert!(answer.starts_with("to"), "{answer}"),
                    }
                }
            }
        }
    }
}

/// A server that answers nothing: an answer that comes later than the idle limit has no flow any
/// more.
fn silent() -> (UdpSocket, String) {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let target = format!("udp:{}", server.local_addr().unwrap());
    (server, target)
}

/// The next datagram that `server` receives.
fn heard(server: &UdpSocket) -> Vec<u8> {
    let mut bytes = [0; 64];
    let count = server.recv(&mut bytes).unwrap();
    bytes[..count].to_vec()
}

#[test]
fn a_silent_flow_ends_and_its_sender_may_come_again() {
    let (server, target) = silent();
    let link = Running::start(&["-T", "0.2", "udp-listen:127.0.0.1:0,fork", &target]);
    let client = client(&link);
    let descriptors = link.descriptors();
    for round in 1..4 {
        client.send(b"again").unwrap();
        assert_eq!(heard(&server), b"again");
        link.says_times("ending=\"idle\"", round);
    }
    crate::common::link::eventually("its descriptors are given back", || {
        link.descriptors() <= descriptors + 8
    });
}

#[test]
fn senders_that_are_gone_keep_no_descriptor_however_many_come_after_them() {
    let (server, target) = silent();
    let link = Running::start(&["-T", "0.05", "udp-listen:127.0.0.1:0,fork", &target]);
    client(&link).send(b"first").unwrap();
    assert_eq!(heard(&server), b"first");
    let before = link.descriptors();
    // A new sender at once for each that is gone: the port is never silent for long.
    for round in 1..100 {
        let client = client(&link);
        client.send(b"again").unwrap();
        assert_eq!(heard(&server), b"again");
        link.says_times("ending=\"idle\"", round);
        let now = link.descriptors();
        assert!(now < before + 20, "{now} descriptors after {round} senders, {before} at first");
    }
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
    link.says_just(": connected", 1);
}

/// A read of an empty datagram answers 0, as at the end of data.
#[test]
fn an_empty_datagram_passes_both_ways_and_ends_no_flow() {
    for (options, listen) in [
        (&[][..], "udp-listen:127.0.0.1:0,fork"),
        (&[], "udp-listen:127.0.0.1:0"),
        (&[], "udp-listen:127.0.0.1:0,crnl"),
        (&["--graceful", "-b", "100"], "udp-listen:127.0.0.1:0"),
    ] {
        let link = Running::start(&[options, &[listen, &format!("udp:{}", echo())]].concat());
        let client = client(&link);
        for question in [&b""[..], b"one", b"", b"", b"two"] {
            assert_eq!(ask(&client, question), question, "{listen}");
        }
        link.says_just(": connected", 1);
        assert!(!link.said().contains(": ended"), "{}", link.said());
    }
}

#[test]
fn the_largest_datagram_passes_whole_both_ways() {
    // udp(7): 65,535 bytes with the headers of UDP and IPv4.
    let largest = noise(65_507, 1);
    for listen in ["udp-listen:127.0.0.1:0,fork", "udp-listen:127.0.0.1:0"] {
        let link = Running::start(&[listen, &format!("udp:{}", echo())]);
        let client = client(&link);
        for question in [&b"before"[..], &largest, b"after"] {
            assert!(ask(&client, question) == question, "{listen}: {} bytes", question.len());
        }
    }
}

/// More senders than may wait, most of them gone before they could be answered.
#[test]
fn a_flood_of_senders_disturbs_no_flow_and_is_served_as_far_as_there_are_places() {
    let listen = "udp-listen:127.0.0.1:0,fork,max-children=3";
    let link = Running::start(&[listen, &format!("udp:{}", echo())]);
    let first = client(&link);
    assert_eq!(ask(&first, b"first"), b"first");
    let descriptors = link.descriptors();
    for round in 0..20_u8 {
        for _ in 0..20 {
            client(&link).send(b"and gone").unwrap();
        }
        assert_eq!(ask(&first, &[round]), [round]);
    }
    link.says("all 3 places of max-children= are taken");
    link.says_just(": connected", 3);
    // Those that wait have no descriptors; two more are served than at first.
    assert!(link.descriptors() < descriptors + 20, "{} descriptors", link.descriptors());
}

/// Silent senders with an answer make room for waiting ones.
#[test]
fn more_senders_than_descriptors_are_all_answered() {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 64; exec \"$0\" link --log info \"$@\""]);
    command.arg(env!("CARGO_BIN_EXE_gush"));
    command.args(["udp-listen:127.0.0.1:0,fork", &format!("udp:{}", echo())]);
    let link = Running::of(command);
    let clients: Vec<_> = (0..60).map(|_| client(&link)).collect();
    for (at, client) in (0..60_u8).zip(&clients) {
        client.send(&[at]).unwrap();
        client.send(&[at, at]).unwrap();
    }
    for (at, client) in (0..60_u8).zip(&clients) {
        let mut answer = [0; 99];
        for expected in [&[at][..], &[at, at]] {
            let count = client.recv(&mut answer).unwrap();
            assert_eq!(&answer[..count], expected);
        }
    }
    link.says("the limit of open files is reached");
    // Who looks for the reason of an early end finds it in the account.
    link.says("ending=\"made-room\"");
}

/// One sender's datagrams are nobody else's, though both know the other's address.
#[test]
fn a_sender_cannot_speak_in_the_flow_of_another() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let to = format!("udp:{}", server.local_addr().unwrap());
    let link = Running::start(&["udp-listen:127.0.0.1:0,fork", &to]);
    let clients = [client(&link), client(&link)];
    let mut flows = Vec::new();
    let mut buffer = [0; 64];
    for (at, client) in clients.iter().enumerate() {
        client.send(&[at as u8]).unwrap();
        let (count, flow) = server.recv_from(&mut buffer).unwrap();
        assert_eq!(buffer[..count], [at as u8]);
        flows.push(flow);
    }
    assert_ne!(flows[0], flows[1]);
    // The socket towards the server hears the server alone.
    clients[1].send_to(b"evil", flows[0]).unwrap();
    for (at, client) in clients.iter().enumerate() {
        server.send_to(&[10 + at as u8], flows[at]).unwrap();
        let count = client.recv(&mut buffer).unwrap();
        assert_eq!(buffer[..count], [10 + at as u8]);
    }
}
