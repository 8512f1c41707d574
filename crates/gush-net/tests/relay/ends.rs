//! How relays end: half-closes, resets, limits on silence, dropped futures; and the counts then.

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{
    Bridge, Peer, Wire, numbered, pair, read_numbered, run, spawn_relay, write_numbered,
};
use gush::{Choice, MethodName};
use gush_net::{ByteCounts, Conduit, Direction, End, EndReason, Relay, RelayOptions};
use rustix::net::sockopt::{
    Timeout, set_socket_recv_buffer_size, set_socket_send_buffer_size, set_socket_timeout,
};
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use tokio::io::AsyncWriteExt;

const METHODS: [Choice; 3] =
    [Choice::Auto, Choice::Only(MethodName::Splice), Choice::Only(MethodName::ReadWrite)];

/// Writes until nobody on the way has room for more, and answers how many bytes that took.
fn write_until_full(from: &mut Peer, counts: &ByteCounts, way: Direction) -> u64 {
    // A write that waits as long as this has met full buffers, unless the relay was late.
    let patience = Some(Duration::from_millis(100));
    set_socket_timeout(&*from, Timeout::Send, patience).expect("SO_SNDTIMEO");
    let mut written_bytes = 0;
    loop {
        match from.write(numbered(written_bytes, 256 << 10)) {
            Ok(bytes) => written_bytes += bytes as u64,
            // A relay that has nothing in flight was only late.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if counts.in_flight_bytes(way) > 0 {
                    return written_bytes;
                }
            }
            Err(error) => panic!("the relay takes all: {error}"),
        }
    }
}

/// Everything is written, and the writing side ended, before the reader takes the first byte.
fn half_close_with_bytes_in_flight(way: Direction, wire: Wire, choice: Choice) {
    let bridge = Bridge::new(wire, wire, RelayOptions { method: choice, ..RelayOptions::new() });
    let (mut from, mut to) = match way {
        Direction::Forward => (bridge.client, bridge.server),
        Direction::Back => (bridge.server, bridge.client),
    };
    let written_bytes = write_until_full(&mut from, &bridge.counts, way);
    from.finish();
    assert_eq!(read_numbered(&mut to).expect("no error before the end"), written_bytes);

    to.write_all(b"the reply after the end").expect("the other direction is open");
    drop(to);
    let mut arrived = String::new();
    from.read_to_string(&mut arrived).expect("not cut");
    assert_eq!(arrived, "the reply after the end");
    let totals = bridge.relay.join().unwrap().expect("no failure");
    assert_eq!(totals.ended, EndReason::Closed);
}

#[test]
fn a_half_close_is_passed_on_after_the_last_byte_in_both_directions() {
    for wire in [Wire::Tcp, Wire::Unix] {
        for choice in METHODS {
            for way in Direction::ALL {
                half_close_with_bytes_in_flight(way, wire, choice);
            }
        }
    }
}

/// `GUSH_RUNS` says how many; each is half of them one way, half the other.
#[test]
#[ignore = "takes about a second a run"]
fn a_half_close_with_a_gibibyte_in_flight_cuts_nothing() {
    let runs = std::env::var("GUSH_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(1000);
    const MEMORY_BYTES: u64 = 16 << 20;
    let mut memory = tempfile::tempfile().expect("a file");
    write_numbered(&mut memory, MEMORY_BYTES).unwrap();
    let memory = Arc::new(memory);
    for run in 0..runs {
        let way = Direction::ALL[run % 2];
        let bridge = Bridge::new(Wire::Tcp, Wire::Tcp, RelayOptions::new());
        let (from, to) = match way {
            Direction::Forward => (bridge.client, bridge.server),
            Direction::Back => (bridge.server, bridge.client),
        };
        let memory = Arc::clone(&memory);
        let writer = thread::spawn(move || {
            let mut sent = 0;
            while sent < 1_u64 << 30 {
                let mut at = sent % MEMORY_BYTES;
                let most = (MEMORY_BYTES - at) as usize;
                let put = rustix::fs::sendfile(&from, &*memory, Some(&mut at), most);
                sent += put.expect("the relay takes all") as u64;
            }
            from.finish();
            (sent, from)
        });
        // MSG_TRUNC on TCP: received and dropped without being copied (tcp(7)).
        let mut nothing = vec![std::mem::MaybeUninit::<u8>::uninit(); 1 << 20];
        let mut arrived = 0_u64;
        loop {
            let got = rustix::net::recv(&to, &mut nothing[..], rustix::net::RecvFlags::TRUNC);
            match got.expect("no error before the end").1 {
                0 => break,
                got => arrived += got as u64,
            }
        }
        let (sent, from) = writer.join().unwrap();
        assert_eq!((sent, arrived), (1 << 30, 1 << 30), "run {run}, {way}");
        drop((from, to));
        assert_eq!(bridge.relay.join().unwrap().expect("no failure").ended, EndReason::Closed);
    }
    println!("{runs} runs, nothing cut");
}

#[test]
fn a_reset_of_the_reader_is_an_error_with_the_counts_until_then() {
    for choice in METHODS {
        let mut bridge = Bridge::new(
            Wire::Tcp,
            Wire::Tcp,
            RelayOptions { method: choice, ..RelayOptions::new() },
        );
        bridge.server.write_all(b"greeting").unwrap();
        let mut greeting = [0; 8];
        bridge.client.read_exact(&mut greeting).unwrap();
        bridge.server.reset();

        let piece = vec![7; 64 << 10];
        while bridge.client.write(&piece).is_ok() {}
        let error = bridge.relay.join().unwrap().expect_err("the reader has gone");
        assert_eq!(error.end(), Some(End::B), "{error}");
        assert!(error.call().is_some());
        let kind = error.io_error().expect("the system said so").kind();
        assert!([ErrorKind::ConnectionReset, ErrorKind::BrokenPipe].contains(&kind), "{error}");
        assert_eq!(error.passed(Direction::Back).bytes, 8);
        for way in Direction::ALL {
            assert_eq!(error.passed(way).bytes, bridge.counts.delivered_bytes(way));
            assert_eq!(error.passed(way).in_flight_bytes, bridge.counts.in_flight_bytes(way));
        }
    }
}

#[test]
fn a_reset_of_the_writer_is_an_error_of_its_end() {
    let mut bridge = Bridge::new(Wire::Tcp, Wire::Tcp, RelayOptions::new());
    bridge.client.write_all(b"begin").unwrap();
    let mut begin = [0; 5];
    bridge.server.read_exact(&mut begin).unwrap();
    bridge.client.reset();
    let error = bridge.relay.join().unwrap().expect_err("a reset is no end");
    assert_eq!((error.end(), error.passed(Direction::Forward).bytes), (Some(End::A), 5), "{error}");
    let said = bridge.server.read(&mut begin);
    assert!(matches!(said, Ok(0) | Err(_)), "the other peer is let go");
}

#[test]
fn what_a_dead_peer_sent_before_is_still_delivered() {
    let mut bridge = Bridge::new(Wire::Tcp, Wire::Tcp, RelayOptions::new());
    // The client reads nothing, until the relay holds bytes that it cannot deliver.
    set_socket_timeout(&bridge.server, Timeout::Send, Some(Duration::from_millis(200))).unwrap();
    let counts = std::sync::Arc::clone(&bridge.counts);
    let in_flight = || counts.in_flight_bytes(Direction::Back);
    // A write may also fail because the relay has not had a processor for so long.
    while bridge.server.write(&[7; 64 << 10]).is_ok() || in_flight() == 0 {}
    let taken = bridge.counts.delivered_bytes(Direction::Back) + in_flight();
    bridge.server.reset();

    bridge.client.write_all(b"anybody there?").unwrap();
    let (mut arrived, mut buf) = (0, vec![0; 64 << 10]);
    while let Ok(got @ 1..) = bridge.client.read(&mut buf) {
        arrived += got as u64;
    }
    assert!(arrived >= taken, "{arrived} of {taken}");
    assert_eq!(arrived, bridge.counts.delivered_bytes(Direction::Back));
    let error = bridge.relay.join().unwrap().expect_err("a reset is no end");
    assert_eq!(error.end(), Some(End::B));
}

#[test]
fn a_client_that_says_nothing_is_ended_by_the_idle_limit() {
    let idle = Duration::from_millis(150);
    let begun = Instant::now();
    let bridge =
        Bridge::new(Wire::Tcp, Wire::Tcp, RelayOptions { idle: Some(idle), ..RelayOptions::new() });
    let totals = bridge.relay.join().unwrap().expect("silence is no failure");
    assert_eq!(totals.ended, EndReason::Idle);
    assert!(begun.elapsed() >= idle);
}

/// As tokio's timeout takes it.
#[test]
fn a_limit_beyond_the_clock_is_none() {
    for options in [
        RelayOptions { idle: Some(Duration::MAX), ..RelayOptions::new() },
        RelayOptions { linger: Some(Duration::MAX), ..RelayOptions::new() },
    ] {
        let mut bridge = Bridge::new(Wire::Tcp, Wire::Tcp, options);
        bridge.client.write_all(b"all").unwrap();
        bridge.client.finish();
        let mut heard = Vec::new();
        bridge.server.read_to_end(&mut heard).expect("the relay is alive");
        assert_eq!(heard, b"all");
        drop(bridge.server);
        let totals = bridge.relay.join().expect("no panic").expect("no failure");
        assert_eq!(totals.ended, EndReason::Closed);
    }
}

#[test]
fn an_idle_limit_does_not_end_who_speaks_now_and_then() {
    let idle = Duration::from_secs(4);
    let mut bridge =
        Bridge::new(Wire::Tcp, Wire::Tcp, RelayOptions { idle: Some(idle), ..RelayOptions::new() });
    // All of it takes longer than the limit, and no pause does.
    for _ in 0..6 {
        thread::sleep(idle / 5);
        bridge.client.write_all(b"still here").unwrap();
        let mut heard = [0; 10];
        bridge.server.read_exact(&mut heard).expect("the relay is alive");
        assert_eq!(&heard, b"still here");
    }
    drop(bridge.client);
    drop(bridge.server);
    let totals = bridge.relay.join().unwrap().expect("both peers closed");
    assert_eq!((totals.ended, totals.forward.bytes), (EndReason::Closed, 60));
}

#[test]
fn lingering_begins_only_when_one_end_has_ended() {
    let options = RelayOptions { linger: Some(Duration::from_millis(100)), ..RelayOptions::new() };
    let mut bridge = Bridge::new(Wire::Tcp, Wire::Unix, options);
    thread::sleep(Duration::from_millis(300));
    assert!(!bridge.relay.is_finished(), "both ends are open");
    bridge.client.write_all(b"last").unwrap();
    bridge.client.finish();
    let totals = bridge.relay.join().unwrap().expect("no failure");
    assert_eq!((totals.ended, totals.forward.bytes), (EndReason::Lingered, 4));
}

/// Such as the output of a program that has exited, and left it to a child that says nothing.
#[test]
fn a_source_that_the_relay_waits_for_can_be_taken_for_ended() {
    run(async {
        let (_silent, mut a) = tokio::net::UnixStream::pair().expect("a pair");
        let (mut b, mut server) = tokio::net::UnixStream::pair().expect("a pair");
        let mut relay = Relay::new(&RelayOptions::new());
        let waits = tokio::time::timeout(Duration::from_millis(50), relay.run(&mut a, &mut b));
        waits.await.expect_err("both are silent");
        relay.end(Direction::Forward);
        let heard = async {
            let ended = tokio::io::AsyncReadExt::read(&mut server, &mut [0]).await;
            drop(server);
            ended.expect("no reset")
        };
        let both = async { tokio::join!(relay.run(&mut a, &mut b), heard) };
        let guarded = tokio::time::timeout(Duration::from_secs(60), both).await;
        let (relayed, heard) = guarded.expect("the end is passed on at once");
        assert_eq!((relayed.expect("no failure").ended, heard), (EndReason::Closed, 0));
    });
}

/// The reader leaves no room for more for longer than any limit, and acknowledges bytes all the
/// time.
#[test]
fn a_slow_reader_that_acknowledges_bytes_outlives_the_limits() {
    let limit = Duration::from_millis(800);
    let chunk = 4 << 10;
    let limits = [
        RelayOptions { idle: Some(limit), ..RelayOptions::new() },
        RelayOptions { linger: Some(limit), ..RelayOptions::new() },
    ];
    // With a linger limit the reader's end comes first, so that the limit counts.
    for (options, ends_first) in limits.into_iter().zip([false, true]) {
        let ((mut client, near), (far, mut server)) = (pair(Wire::Tcp), pair(Wire::Tcp));
        // Small segments, so that small reads are acknowledged.
        set_socket_send_buffer_size(&far, 256 << 10).unwrap();
        set_socket_recv_buffer_size(&server, 16 << 10).unwrap();
        let counts = options.counts();
        let relay = spawn_relay(near.into(), far.into(), options);
        if ends_first {
            server.finish();
        }
        let feeder = thread::spawn(move || while client.write(&[7; 64 << 10]).is_ok() {});
        let (mut room, mut pauses, mut last) = (vec![0; chunk], 0, (0, Instant::now()));
        // Until the relay has been without room for longer than the limit, and has gone on.
        while pauses < 1 {
            server.read_exact(&mut room).expect("the relay is alive");
            thread::sleep(Duration::from_millis(40));
            let delivered_bytes = counts.delivered_bytes(Direction::Forward);
            if delivered_bytes != last.0 {
                pauses += u32::from(last.0 > 0 && last.1.elapsed() > limit * 5 / 4);
                last = (delivered_bytes, Instant::now());
            }
        }
        assert!(!relay.is_finished());
        drop(server);
        drop((relay.join().unwrap(), feeder.join().unwrap()));
    }
}

/// The reader takes nothing for many times the limits, and all of it in the end.
#[test]
fn a_patient_relay_waits_for_a_reader_as_long_as_that_takes() {
    let limit = Duration::from_millis(50);
    let limits = [
        RelayOptions { idle: Some(limit), ..RelayOptions::new() },
        RelayOptions { linger: Some(limit), ..RelayOptions::new() },
    ];
    for (options, ends_first) in limits.into_iter().zip([false, true]) {
        let ((mut client, near), (far, mut server)) = (pair(Wire::Tcp), pair(Wire::Unix));
        let relay = spawn_relay(near.into(), far.into(), RelayOptions { patient: true, ..options });
        if ends_first {
            server.finish();
        }
        let feeder = thread::spawn(move || {
            client.write_all(&[7; 8 << 20]).expect("the relay is alive");
            client
        });
        thread::sleep(20 * limit);
        let mut all = vec![0; 8 << 20];
        server.read_exact(&mut all).expect("the relay is alive");
        // Now both are silent, and nothing waits.
        let totals = relay.join().unwrap().expect("no failure");
        assert_eq!(totals.ended == EndReason::Lingered, ends_first);
        assert_eq!((totals.stuck, totals.forward.bytes), (false, 8 << 20));
        drop(feeder.join().unwrap());
    }
}

/// A pause of the rate limit is none of the ends, but their silence afterwards is.
#[test]
fn a_silence_after_pauses_of_the_rate_limit_ends_the_relay() {
    let (rate, soon) = (gush::Rate::bytes_per_second(20_000), Duration::from_millis(100));
    let limited = || RelayOptions { limit: rate.clone(), ..RelayOptions::new() };
    for (options, ended) in [
        (RelayOptions { idle: Some(soon), ..limited() }, EndReason::Idle),
        (RelayOptions { linger: Some(soon), ..limited() }, EndReason::Lingered),
    ] {
        let mut bridge = Bridge::new(Wire::Tcp, Wire::Unix, options);
        bridge.client.write_all(&[7; 4000]).unwrap();
        if ended == EndReason::Lingered {
            bridge.client.finish();
        }
        let totals = bridge.relay.join().unwrap().expect("no failure");
        assert_eq!((totals.ended, totals.forward.bytes), (ended, 4000));
    }
    let ((mut client, near), (far, _server)) = (pair(Wire::Tcp), pair(Wire::Unix));
    client.write_all(&[7; 4000]).unwrap();
    let totals = run(async {
        let (mut near, mut far) =
            (Conduit::new(near.into()).unwrap(), Conduit::new(far.into()).unwrap());
        Relay::new(&RelayOptions { idle: Some(soon), ..limited() }).copy(&mut near, &mut far).await
    });
    let totals = totals.expect("no failure");
    assert_eq!((totals.ended, totals.forward.bytes), (EndReason::Idle, 4000));
}

/// A relay of one direction, which has more to move than either of both, is the clock.
#[test]
fn each_direction_has_the_rate_limit_for_itself() {
    const BYTES: usize = 1000;
    let filled = |bytes: usize| {
        let (mut peer, near) = pair(Wire::Unix);
        peer.write_all(&vec![7; bytes]).unwrap();
        peer.finish();
        (peer, Conduit::new(near.into()).unwrap())
    };
    let [(_a, mut a), (_b, mut b)] = [filled(BYTES), filled(BYTES)];
    let [(_source, mut source), (_target, mut target)] = [filled(BYTES * 3 / 2), filled(0)];
    run(async {
        let limit = || gush::Rate::bytes_per_second(BYTES as u64).unwrap();
        let relay = || Relay::new(&RelayOptions { limit: Some(limit()), ..RelayOptions::new() });
        let (mut both, mut clock) = (relay(), relay());
        tokio::select! {
            totals = both.run(&mut a, &mut b) => {
                let totals = totals.expect("no failure");
                assert_eq!([totals.forward.bytes, totals.back.bytes], [BYTES as u64; 2]);
            }
            _ = clock.copy(&mut source, &mut target) => panic!("the directions share one limit"),
        }
    });
}

/// The clock stands still, and goes to the next timer when there is nothing else to do.
#[tokio::test(start_paused = true)]
async fn the_shorter_limit_ends_the_silence_after_an_end() {
    let [short, long] = [5, 60].map(Duration::from_secs);
    for (idle, linger, ended) in
        [(short, long, EndReason::Idle), (long, short, EndReason::Lingered)]
    {
        let ((mut client, mut a), (mut b, _server)) =
            (tokio::io::duplex(64), tokio::io::duplex(64));
        client.shutdown().await.expect("open");
        let options =
            RelayOptions { idle: Some(idle), linger: Some(linger), ..RelayOptions::new() };
        let began = tokio::time::Instant::now();
        let totals = Relay::new(&options).run(&mut a, &mut b).await.expect("no failure");
        // Events may still come for a moment once the limit is over.
        assert_eq!((totals.ended, began.elapsed().as_secs()), (ended, short.as_secs()));
    }
}

#[test]
fn without_a_linger_limit_a_late_reply_is_not_cut() {
    let options = RelayOptions::new();
    // However long the reply takes: no wait of a test could show that.
    assert!(format!("{options:?}").contains("linger: None"), "{options:?}");
    let mut bridge = Bridge::new(Wire::Tcp, Wire::Tcp, options);
    bridge.client.finish();
    assert_eq!(bridge.server.read(&mut [0]).expect("an end"), 0);
    thread::sleep(Duration::from_millis(100));
    bridge.server.write_all(b"late").unwrap();
    drop(bridge.server);
    let mut reply = String::new();
    bridge.client.read_to_string(&mut reply).unwrap();
    assert_eq!(reply, "late");
}

#[test]
fn a_direction_that_is_held_takes_nothing_and_is_not_silent() {
    let held = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&held);
    let holds = move |way| way == Direction::Forward && asked.load(Ordering::Relaxed);
    let options = RelayOptions {
        idle: Some(Duration::from_secs(1)),
        hold: Some(Arc::new(holds)),
        ..RelayOptions::new()
    };
    let counts = options.counts();
    let mut bridge = Bridge::new(Wire::Tcp, Wire::Tcp, options);
    bridge.client.write_all(b"question").unwrap();
    bridge.server.write_all(b"greeting").unwrap();
    bridge.client.read_exact(&mut [0; 8]).unwrap();
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(counts.passed(Direction::Forward).bytes, 0);
    held.store(false, Ordering::Relaxed);
    let mut question = [0; 8];
    bridge.server.read_exact(&mut question).unwrap();
    assert_eq!(&question, b"question");
}

#[test]
fn counts_are_live_while_bytes_move() {
    let mut bridge = Bridge::new(Wire::Tcp, Wire::Tcp, RelayOptions::new());
    let (mut buf, mut sum) = ([0; 1000], 0);
    for round in 1..=50 {
        bridge.client.write_all(&[9; 1000]).unwrap();
        bridge.server.read_exact(&mut buf).unwrap();
        sum += 1000;
        // The relay counts what the kernel took before it goes on; give its thread that moment.
        let patience = Instant::now() + Duration::from_secs(10);
        while bridge.counts.delivered_bytes(Direction::Forward) < sum && Instant::now() < patience {
            thread::yield_now();
        }
        assert_eq!(bridge.counts.delivered_bytes(Direction::Forward), sum, "round {round}");
    }
    assert_eq!(bridge.counts.delivered_bytes(Direction::Back), 0);
    assert!(!bridge.relay.is_finished());
}

/// Both conduits and their peers, with the first full of data that the second peer does not read.
fn stuck() -> (Conduit, Conduit, crate::common::Peer, thread::JoinHandle<()>) {
    let ((mut client, near), (far, server)) = (pair(Wire::Tcp), pair(Wire::Tcp));
    let writer = thread::spawn(move || {
        write_numbered(&mut client, 32 << 20).expect("somebody takes all");
        client.finish();
    });
    (Conduit::new(near.into()).unwrap(), Conduit::new(far.into()).unwrap(), server, writer)
}

#[test]
fn a_relay_goes_on_after_its_future_was_dropped() {
    for choice in METHODS {
        let (mut near, mut far, mut server, writer) = stuck();
        let options = RelayOptions { method: choice, ..RelayOptions::new() };
        let (begin, begins) = std::sync::mpsc::channel();
        let reader = thread::spawn(move || {
            begins.recv().expect("the relay was interrupted often enough");
            let arrived = read_numbered(&mut server).expect("no error before the end");
            server.write_all(b"ok").unwrap();
            arrived
        });
        run(async {
            let mut relay = Relay::new(&options);
            for interrupted in 0.. {
                let some_time = Duration::from_millis(7);
                match tokio::time::timeout(some_time, relay.run(&mut near, &mut far)).await {
                    Err(_elapsed) if interrupted == 6 => begin.send(()).expect("a reader"),
                    Err(_elapsed) => {}
                    Ok(ended) => {
                        let totals = ended.expect("no failure");
                        assert_eq!((totals.forward.bytes, totals.back.bytes), (32 << 20, 2));
                        return;
                    }
                }
            }
            unreachable!("it ends")
        });
        assert_eq!(reader.join().unwrap(), 32 << 20);
        writer.join().unwrap();
    }
}

#[test]
fn a_dropped_copy_says_how_much_was_in_flight() {
    for choice in METHODS {
        let (mut near, mut far, mut server, writer) = stuck();
        let options = RelayOptions { method: choice, ..RelayOptions::new() };
        let counts = options.counts();
        run(async {
            let relay = async { Relay::new(&options).run(&mut near, &mut far).await };
            let something_is_in_flight = async {
                while counts.in_flight_bytes(Direction::Forward) == 0 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::select! {
                ended = relay => panic!("{ended:?}"),
                () = something_is_in_flight => {}
            }
        });
        let lost = counts.in_flight_bytes(Direction::Forward);
        let delivered = counts.delivered_bytes(Direction::Forward);
        drop(far);
        let mut arrived = Vec::new();
        server.read_to_end(&mut arrived).expect("an end");
        assert_eq!(arrived.len() as u64, delivered);
        // The rest is still in the first connection: together they are everything.
        let rest = run(async {
            let sink = tempfile::tempfile().unwrap();
            Relay::new(&RelayOptions::new())
                .recv_file(&mut near, &sink, 0)
                .await
                .unwrap()
                .forward
                .bytes
        });
        assert_eq!(delivered + lost + rest, 32 << 20);
        writer.join().unwrap();
    }
}

#[test]
fn a_connection_in_full_flow_does_not_starve_its_neighbour() {
    // Both on one thread: the flood never ends, and the neighbour speaks with its peer meanwhile.
    let ((mut client, a), (b, mut server)) = (pair(Wire::Tcp), pair(Wire::Tcp));
    let ((flood, c), (d, mut drain)) = (pair(Wire::Tcp), pair(Wire::Tcp));
    let relays = thread::spawn(move || {
        run(async {
            let [mut a, mut b, mut c, mut d] =
                [a, b, c, d].map(|peer| Conduit::new(peer.into()).unwrap());
            let (quiet, loud) = (RelayOptions::new(), RelayOptions::new());
            tokio::select! {
                ended = async { Relay::new(&quiet).run(&mut a, &mut b).await } => ended,
                ended = async { Relay::new(&loud).run(&mut c, &mut d).await } => ended,
            }
        })
    });
    let flooding = thread::spawn(move || {
        let (mut flood, piece) = (flood, vec![7; 1 << 20]);
        while flood.write_all(&piece).is_ok() {}
    });
    let draining = thread::spawn(move || {
        let mut buf = vec![0; 1 << 20];
        while matches!(drain.read(&mut buf), Ok(1..)) {}
    });
    for _ in 0..200 {
        client.write_all(b"ping").unwrap();
        let mut message = [0; 4];
        server.read_exact(&mut message).unwrap();
        server.write_all(b"pong").unwrap();
        client.read_exact(&mut message).unwrap();
        assert_eq!(&message, b"pong");
    }
    drop((client, server));
    relays.join().unwrap().expect("the quiet one ended first");
    flooding.join().unwrap();
    draining.join().unwrap();
}

/// A server that has answered and closed, with bytes unread, resets the connection: writing there
/// fails, but the answer has arrived.
#[test]
fn an_answer_that_has_arrived_is_delivered_after_the_other_direction_fails() {
    const ANSWER_BYTES: u64 = 60_000;
    let rate = gush::Rate::bytes_per_second(40_000).expect("not 0");
    for (choice, rate) in
        [(Choice::Auto, Some(&rate)), (Choice::Auto, None), (METHODS[2], Some(&rate))]
    {
        let mut options = RelayOptions { method: choice, ..RelayOptions::new() };
        if let Some(rate) = rate {
            options.limit = Some(rate.clone());
        }
        let mut bridge = Bridge::new(Wire::Tcp, Wire::Tcp, options);
        bridge.client.write_all(b"question").unwrap();
        bridge.server.read_exact(&mut [0; 7]).unwrap();
        // One byte of the question is unread, so closing resets.
        write_numbered(&mut bridge.server, ANSWER_BYTES).unwrap();
        drop(bridge.server);
        let mut sender = bridge.client.try_clone();
        let sending = thread::spawn(move || while sender.write_all(b"more").is_ok() {});
        // Behind the last byte the client may see the reset, too.
        let (mut arrived_bytes, mut buf) = (0, vec![0; 1 << 16]);
        while let Ok(got_bytes @ 1..) = bridge.client.read(&mut buf) {
            arrived_bytes += got_bytes as u64;
        }
        assert_eq!(arrived_bytes, ANSWER_BYTES, "{choice}, limited: {}", rate.is_some());
        drop(bridge.client);
        sending.join().unwrap();
        bridge.relay.join().unwrap().expect_err("the server has gone");
    }
}

/// The clock stands still: no limit on silence ends the relay.
#[tokio::test(start_paused = true)]
async fn a_failed_relay_ends_as_soon_as_what_had_come_is_delivered() {
    const TURNS: usize = 50;
    for is_full in [false, true] {
        let ((mut client, a), (b, mut server)) = (pair(Wire::Unix), pair(Wire::Unix));
        server.write_all(b"answer").unwrap();
        // Writing there fails, and its own data does not end.
        shutdown(&server, Shutdown::Read).unwrap();
        let mut expected_bytes = "answer".len();
        while is_full && let Ok(sent_bytes) = send(&a, &[0; 4096], SendFlags::DONTWAIT) {
            expected_bytes += sent_bytes;
        }
        client.write_all(b"question").unwrap();
        let [mut a, mut b] = [a, b].map(|socket| Conduit::new(socket.into()).unwrap());
        let options = RelayOptions::new();
        let mut relay = Relay::new(&options);
        let mut run = Box::pin(relay.run(&mut a, &mut b));
        let (mut arrived_bytes, mut ended) = (0, None);
        for turn in 0..2 * TURNS {
            if is_full && turn == TURNS {
                arrived_bytes += client.read(&mut vec![0; expected_bytes]).unwrap();
            }
            tokio::select! {
                biased;
                end = &mut run => ended = Some((turn, end)),
                () = tokio::task::yield_now() => continue,
            }
            break;
        }
        let (turn, end) = ended.expect("nothing more is to come");
        end.expect_err("the server does not read");
        assert_eq!(turn >= TURNS, is_full, "in flight without room");
        drop(run);
        drop(a);
        arrived_bytes += client.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(arrived_bytes, expected_bytes);
    }
}

#[tokio::test]
async fn short_pieces_of_one_write_leave_together() {
    let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut conduit = Conduit::new(ours.into()).unwrap();
    let pieces = [&b"change cipher spec"[..], b"", b"alert"].map(std::io::IoSlice::new);
    assert_eq!(conduit.write_vectored(&pieces).await.unwrap(), 23);
    let mut arrived = [0; 23];
    theirs.read_exact(&mut arrived).unwrap();
    assert_eq!(&arrived, b"change cipher specalert");

    // A long piece goes alone, from where it is; what does not fit into the room for short ones
    // waits.
    let (short, long) = (numbered(0, 700), numbered(700, 4096));
    for (first, second, taken) in [(long, short, 4096), (short, long, 1024)] {
        let pieces = [first, second].map(std::io::IoSlice::new);
        assert_eq!(conduit.write_vectored(&pieces).await.unwrap(), taken);
        let mut arrived = vec![0; taken];
        theirs.read_exact(&mut arrived).unwrap();
        assert!(arrived == [first, second].concat()[..taken]);
    }
    assert_eq!(conduit.write_vectored(&[]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_reset_is_reported_to_tokios_callers_by_its_number() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (mut served, _) = listener.accept().await.unwrap();
    // Closing with a linger of zero sends a reset (socket(7)).
    rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    drop(client);
    let (mut other, _kept) = tokio::net::UnixStream::pair().unwrap();
    let error = gush_net::copy_bidirectional(&mut served, &mut other).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(error.raw_os_error(), Some(gush::Errno::CONNRESET.raw_os_error()));
}

#[test]
fn a_file_that_is_sent_goes_on_after_its_future_was_dropped() {
    run(async {
        let (near, mut far) = pair(Wire::Unix);
        let mut near = Conduit::new(near.into()).expect("an end");
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(numbered(0, 1_000_000)).expect("room");
        let mut relay = Relay::new(&RelayOptions::new());
        let sent = relay.send_file(&file, 5..900_000, &mut near);
        let filled = tokio::time::timeout(Duration::from_millis(50), sent).await;
        assert!(filled.is_err(), "nobody reads");
        let reader = std::thread::spawn(move || {
            let mut arrived = Vec::new();
            far.read_to_end(&mut arrived).map(|_| arrived)
        });
        let totals = relay.send_file(&file, 5..900_000, &mut near).await.expect("no failure");
        drop(near);
        assert_eq!(totals.forward.bytes, 899_995);
        let arrived = reader.join().expect("no panic").expect("no reset");
        assert!(arrived == numbered(5, 899_995));
    });
}

#[test]
fn a_one_way_copy_that_ends_by_its_idle_limit_reports_bytes_left_at_the_source() {
    run(async {
        let ((mut client, near), (far, _server)) = (pair(Wire::Unix), pair(Wire::Unix));
        let mut source = Conduit::new(near.into()).expect("an end");
        let mut target = Conduit::new(far.into()).expect("an end");
        let writer = std::thread::spawn(move || client.write_all(&vec![7; 8 << 20]));
        let options =
            RelayOptions { idle: Some(Duration::from_millis(100)), ..RelayOptions::new() };
        let totals = Relay::new(&options).copy(&mut source, &mut target).await;
        let totals = totals.expect("no failure");
        assert!(totals.stuck && totals.ended == EndReason::Idle, "{totals:?}");
        drop(source);
        assert!(writer.join().expect("no panic").is_err());
    });
}

/// The other direction has its last words, but not for as long as somebody likes who does not read
/// them.
#[test]
fn a_failure_waits_for_no_reader_that_takes_nothing() {
    run(async {
        let ((mut client, near), (far, mut server)) = (pair(Wire::Unix), pair(Wire::Unix));
        let mut a = Conduit::new(near.into()).expect("an end");
        let mut b = Conduit::new(far.into()).expect("an end");
        // More than the sockets on the way hold, for a client that reads nothing.
        let answer = std::thread::spawn(move || {
            let all_sent = server.write_all(&vec![7; 8 << 20]);
            (all_sent.is_err(), server)
        });
        let options = RelayOptions::new();
        let mut relay = Relay::new(&options);
        let filled = tokio::time::timeout(Duration::from_millis(200), relay.run(&mut a, &mut b));
        assert!(filled.await.is_err(), "nobody has ended");
        // Writing to the server fails from here on.
        let writes = b.write_fd().expect("a socket");
        rustix::net::shutdown(writes, rustix::net::Shutdown::Write).expect("open");
        client.write_all(b"question").expect("room");
        let error = relay.run(&mut a, &mut b).await.expect_err("nobody takes the question");
        assert_eq!(
            (error.end(), error.errno()),
            (Some(End::B), Some(gush::Errno::PIPE)),
            "{error}"
        );
        drop((a, b));
        let (is_cut, server) = answer.join().expect("no panic");
        assert!(is_cut, "all was taken");
        drop((client, server));
    });
}
