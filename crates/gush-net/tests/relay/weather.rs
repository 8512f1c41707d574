//! Bad weather: small segments in large slots, urgent data, readers that stop, datagrams, shrinking
//! files.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::thread;
use std::time::Duration;

use crate::common::{
    Bridge, Wire, numbered, pair, read_numbered, run, settled, spawn_relay, write_numbered,
};
use gush::{Choice, MethodName};
use gush_net::{Conduit, Direction, End, Relay, RelayOptions, RelayState};

const METHODS: [Choice; 3] =
    [Choice::Auto, Choice::Only(MethodName::Splice), Choice::Only(MethodName::ReadWrite)];

#[test]
fn segments_of_a_byte_that_fill_every_slot_arrive() {
    const SEGMENTS: usize = 3000;
    for choice in METHODS {
        let ((mut client, near), (far, mut server)) = (pair(Wire::Tcp), pair(Wire::Tcp));
        for at in 0..SEGMENTS {
            client.write_all(&numbered(at as u64, 1)[..1]).unwrap();
        }
        client.finish();
        let relay = spawn_relay(
            near.into(),
            far.into(),
            RelayOptions { method: choice, ..RelayOptions::new() },
        );
        assert_eq!(read_numbered(&mut server).unwrap(), SEGMENTS as u64);
        drop((client, server));
        assert_eq!(relay.join().unwrap().expect("no failure").forward.bytes, SEGMENTS as u64);
    }
}

#[test]
fn urgent_data_does_not_end_the_stream() {
    for choice in METHODS {
        let mut bridge = Bridge::new(
            Wire::Tcp,
            Wire::Tcp,
            RelayOptions { method: choice, ..RelayOptions::new() },
        );
        for round in 0..20 {
            // In-band data before and after each urgent byte, which itself is out of band: tcp(7).
            bridge.client.write_all(&vec![b'a'; 50_000]).unwrap();
            let flags = rustix::net::SendFlags::OOB;
            rustix::net::send(&bridge.client, b"!", flags).expect("urgent");
            bridge.client.write_all(&vec![b'b'; 50_000]).unwrap();
            let mut arrived = vec![0; 100_000];
            bridge.server.read_exact(&mut arrived).unwrap();
            assert_eq!(arrived.iter().filter(|byte| **byte == b'a').count(), 50_000, "{round}");
            assert_eq!(arrived.iter().filter(|byte| **byte == b'b').count(), 50_000, "{round}");
        }
        bridge.client.finish();
        drop(bridge.server);
        bridge.relay.join().unwrap().expect("no failure");
    }
}

#[test]
fn urgent_data_does_not_stop_a_stream_into_a_pipe() {
    let ((mut client, near), (mut output, input)) = (pair(Wire::Tcp), std::io::pipe().unwrap());
    let relay = thread::spawn(move || {
        run(async {
            let mut near = Conduit::new(near.into()).unwrap();
            let mut input = Conduit::new(input.into()).unwrap();
            Relay::new(&RelayOptions::new()).copy(&mut near, &mut input).await
        })
    });
    for _ in 0..20 {
        client.write_all(&[b'a'; 50_000]).unwrap();
        rustix::net::send(&client, b"!", rustix::net::SendFlags::OOB).expect("urgent");
        client.write_all(&[b'b'; 50_000]).unwrap();
        let mut arrived = vec![0; 100_000];
        output.read_exact(&mut arrived).unwrap();
        assert_eq!(arrived.iter().filter(|byte| **byte == b'b').count(), 50_000);
    }
    client.finish();
    relay.join().unwrap().expect("no failure");
}

#[test]
fn a_reader_that_stops_stops_the_writer_and_little_is_in_flight() {
    for choice in METHODS {
        let mut bridge = Bridge::new(
            Wire::Tcp,
            Wire::Tcp,
            RelayOptions { method: choice, ..RelayOptions::new() },
        );
        let writer = thread::spawn(move || {
            write_numbered(&mut bridge.client, 64 << 20).expect("the reader comes back");
            bridge.client.finish();
        });
        settled(&bridge.counts, Direction::Forward);
        assert!(!writer.is_finished(), "64 MiB fit into no socket buffers");
        assert!(bridge.counts.in_flight_bytes(Direction::Forward) <= 1 << 20);
        assert_eq!(read_numbered(&mut bridge.server).unwrap(), 64 << 20);
        writer.join().unwrap();
    }
}

fn udp_pair() -> (UdpSocket, UdpSocket) {
    let bind = || UdpSocket::bind("127.0.0.1:0").expect("a port");
    let (near, far) = (bind(), bind());
    near.connect(far.local_addr().unwrap()).unwrap();
    far.connect(near.local_addr().unwrap()).unwrap();
    (near, far)
}

#[test]
fn a_datagram_of_any_size_stays_one_datagram() {
    let ((client, near), (far, server)) = (udp_pair(), udp_pair());
    let options = RelayOptions { idle: Some(Duration::from_secs(5)), ..RelayOptions::new() };
    let relay = spawn_relay(near.into(), far.into(), options);
    let mut buf = vec![0; 70_000];
    for size in [1, 0, 100, 1472, 4097, 40_000, 65_507] {
        for (from, to) in [(&client, &server), (&server, &client)] {
            from.send(&numbered(0, size)[..size]).unwrap();
            assert_eq!(to.recv(&mut buf).unwrap(), size);
            assert!(buf[..size] == numbered(0, size)[..size]);
        }
    }
    drop((client, server));
    let _ended = relay.join().unwrap();
}

#[test]
fn a_unix_datagram_larger_than_any_buffer_is_not_cut() {
    let ((client, near), (far, server)) =
        (UnixDatagram::pair().unwrap(), UnixDatagram::pair().unwrap());
    let options = RelayOptions { idle: Some(Duration::from_secs(5)), ..RelayOptions::new() };
    let relay = spawn_relay(near.into(), far.into(), options);
    let mut buf = vec![0; 300_000];
    for size in [10, 64 << 10, (64 << 10) + 1, 150_000] {
        client.send(&numbered(3, size)[..size]).expect("the default SO_SNDBUF has room");
        assert_eq!(server.recv(&mut buf).unwrap(), size);
        assert!(buf[..size] == numbered(3, size)[..size]);
    }
    drop((client, server));
    let _ended = relay.join().unwrap();
}

/// A record without bytes would be the end to the reader of a SOCK_SEQPACKET socket.
#[test]
fn an_empty_datagram_does_not_end_a_seqpacket_stream() {
    let (sender, near) = udp_pair();
    let (far, reader) = rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::SEQPACKET,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )
    .expect("a pair");
    let relay = spawn_relay(
        near.into(),
        far,
        RelayOptions { idle: Some(Duration::from_secs(5)), ..RelayOptions::new() },
    );
    for piece in ["one", "", "two"] {
        sender.send(piece.as_bytes()).unwrap();
    }
    let mut buf = [0; 100];
    for piece in ["one", "two"] {
        let got = rustix::io::read(&reader, &mut buf).expect("a record");
        assert_eq!(&buf[..got], piece.as_bytes());
    }
    drop((sender, reader));
    let _ended = relay.join().unwrap();
}

#[test]
fn datagrams_become_a_stream_and_a_stream_becomes_datagrams() {
    let ((sender, near), (far, mut stream)) = (udp_pair(), pair(Wire::Tcp));
    let relay = spawn_relay(
        near.into(),
        far.into(),
        RelayOptions { idle: Some(Duration::from_secs(5)), ..RelayOptions::new() },
    );
    for piece in ["one ", "two ", "", "three"] {
        sender.send(piece.as_bytes()).unwrap();
        thread::sleep(Duration::from_millis(5));
    }
    let mut text = [0; 13];
    stream.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"one two three");

    stream.write_all(numbered(0, 20_000)).unwrap();
    let (mut arrived, mut buf) = (0, [0; 65536]);
    while arrived < 20_000 {
        let got = sender.recv(&mut buf).unwrap();
        assert!(buf[..got] == *numbered(arrived as u64, got));
        arrived += got;
    }
    drop(stream);
    drop(sender);
    let _ended = relay.join().unwrap();
}

#[test]
fn nobody_at_a_udp_port_is_an_error_of_that_end() {
    let (near, far) = udp_pair();
    drop(far);
    let (mut client, a) = pair(Wire::Unix);
    let relay = spawn_relay(
        a.into(),
        near.into(),
        RelayOptions { idle: Some(Duration::from_secs(5)), ..RelayOptions::new() },
    );
    // The answer to the first comes by ICMP, and is reported to the second.
    while !relay.is_finished() {
        // Two that are taken at once are one datagram, and the relay closes once it knows.
        let _ = client.write_all(b"anybody?");
        thread::sleep(Duration::from_millis(20));
    }
    let error = relay.join().unwrap().expect_err("refused by ICMP");
    assert_eq!(error.end(), Some(End::B));
    assert!(error.hint().is_some(), "{error}");
}

/// A file of so many numbered bytes.
fn file_of(bytes: u64) -> File {
    let mut file = tempfile::tempfile().expect("a file");
    write_numbered(&mut file, bytes).unwrap();
    file.rewind().unwrap();
    file
}

#[test]
fn a_file_that_is_cut_while_it_is_sent_is_an_error() {
    for method in [Choice::Auto, Choice::Only(MethodName::ReadWrite)] {
        let file = file_of(32 << 20);
        let (near, mut far) = pair(Wire::Tcp);
        let cutter = file.try_clone().unwrap();
        let reader = thread::spawn(move || {
            let mut begun = vec![0; 1 << 20];
            far.read_exact(&mut begun).unwrap();
            cutter.set_len(2 << 20).unwrap();
            let mut arrived = begun.len() as u64;
            while let Ok(got @ 1..) = far.read(&mut begun) {
                arrived += got as u64;
            }
            arrived
        });
        let error = run(async {
            let mut near = Conduit::new(near.into()).unwrap();
            let options = RelayOptions { method, ..RelayOptions::new() };
            Relay::new(&options).send_file(&file, .., &mut near).await.expect_err("cut")
        });
        assert!(error.is_truncated(), "{error}");
        assert_eq!(reader.join().unwrap(), error.passed(Direction::Forward).bytes);
    }
}

#[test]
fn a_file_that_is_cut_is_an_error_in_the_process_that_goes_on_with_it_too() {
    const SIZE_BYTES: u64 = 100_000;
    let mut file = file_of(SIZE_BYTES);
    file.seek(std::io::SeekFrom::Start(90_000)).unwrap();
    let (near, _far) = pair(Wire::Tcp);
    let error = run(async {
        let mut source = Conduit::new(file.try_clone().unwrap().into()).unwrap();
        let mut target = Conduit::new(near.into()).unwrap();
        let mut state = RelayState::default();
        state.directions[0].delivered_bytes = 90_000;
        let options = RelayOptions::new();
        let ends = [&source, &target];
        let mut relay = Relay::carry_on(&options, state, [None, None], ends).unwrap();
        file.set_len(95_000).unwrap();
        relay.copy(&mut source, &mut target).await.expect_err("cut")
    });
    assert!(error.is_truncated(), "{error}");
    assert_eq!(error.passed(Direction::Forward).bytes, 95_000);
}

/// Its state does not say where the range ends.
#[test]
fn a_relay_that_sends_a_range_of_a_file_does_not_move() {
    let file = file_of(32 << 20);
    let (near, _far) = pair(Wire::Tcp);
    run(async {
        let mut near = Conduit::new(near.into()).unwrap();
        let options = RelayOptions::new();
        let mut relay = Relay::new(&options);
        let sent = relay.send_file(&file, 0..31 << 20, &mut near);
        let sent = gush_net::within(Duration::from_millis(20), sent).await;
        assert!(sent.is_err(), "nobody reads");
        assert!(relay.state().is_none());
    });
}

#[test]
fn a_range_of_a_file_is_sent_and_its_position_stays() {
    let mut file = file_of(1 << 20);
    file.seek(std::io::SeekFrom::Start(99)).unwrap();
    for (isolated, method) in [(false, MethodName::Sendfile), (true, MethodName::ReadWrite)] {
        let (near, mut far) = pair(Wire::Tcp);
        let sent = run(async {
            let mut near = Conduit::new(near.into()).unwrap();
            let mut options = RelayOptions::new();
            if isolated {
                options.isolated = true;
            }
            Relay::new(&options).send_file(&file, 1000..=50_999, &mut near).await.unwrap()
        });
        assert_eq!((sent.forward.bytes, sent.forward.method), (50_000, Some(method)));
        let mut arrived = Vec::new();
        far.read_to_end(&mut arrived).unwrap();
        assert!(arrived == numbered(1000, 50_000));
        assert_eq!(file.stream_position().unwrap(), 99);
    }
}

#[test]
fn a_file_whose_size_lies_is_sent_to_its_end() {
    let file = File::open("/proc/self/limits").unwrap();
    let (near, mut far) = pair(Wire::Unix);
    run(async {
        let mut near = Conduit::new(near.into()).unwrap();
        Relay::new(&RelayOptions::new()).send_file(&file, .., &mut near).await.unwrap()
    });
    let mut arrived = String::new();
    far.read_to_string(&mut arrived).unwrap();
    assert!(arrived.contains("Max open files"), "{arrived}");
}

#[test]
fn a_stream_is_received_at_an_offset_or_at_the_end_of_an_append_only_file() {
    let dir = tempfile::tempdir().unwrap();
    for (append, method) in [(false, MethodName::Splice), (true, MethodName::ReadWrite)] {
        let path = dir.path().join(format!("append-{append}"));
        std::fs::write(&path, b"01234567").unwrap();
        let file = File::options().write(!append).append(append).open(&path).unwrap();
        let (mut near, far) = pair(Wire::Tcp);
        let writer = thread::spawn(move || write_numbered(&mut near, 3 << 20).unwrap());
        let got = run(async {
            let mut far = Conduit::new(far.into()).unwrap();
            Relay::new(&RelayOptions::new()).recv_file(&mut far, &file, 4).await.unwrap()
        });
        writer.join().unwrap();
        assert_eq!((got.forward.bytes, got.forward.method), (3 << 20, Some(method)));
        let stored = std::fs::read(&path).unwrap();
        let kept = if append { 8 } else { 4 };
        assert_eq!(&stored[..kept], &b"01234567"[..kept]);
        assert!(stored.len() == kept + (3 << 20));
        assert!((0..3).all(|mib| {
            let at = mib << 20;
            stored[kept + at..][..1 << 20] == *numbered(at as u64, 1 << 20)
        }));
    }
}
