//! The flow on real descriptors, driven by hand: every pair of ends, every way, small buffers and
//! pipes, and bytes that differ at every place.

use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::thread;

use gush::flow::{Completion, Fds, Flow, Inspector, Next, Op, PortState, Shelf, Terms};
use gush::pipe::Pool;
use gush::{Choice, Errno, MethodName, Side};
use rustix::event::{PollFd, PollFlags, poll};

use crate::common::{methods_served_here, served_here};

/// Not a multiple of any buffer here.
pub const BYTES: usize = 300_007;

pub fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

/// Drives a flow until the end with poll(2), resting before every wait, and taking at most `step`
/// at once.
fn drive(flow: &mut Flow, fds: Fds<'_>, step: u64) -> Result<Completion, String> {
    let mut shelf = Shelf::new(Pool::shared().clone());
    loop {
        match flow.next(step, &mut shelf) {
            Next::Do(op) => {
                let answer = flow.perform(op, fds);
                flow.learn(op, answer, &mut ());
            }
            Next::Wait(side) => {
                flow.rest(&mut shelf);
                assert!(flow.is_at_rest());
                let (fd, events) = match side {
                    Side::Source => (fds.source, PollFlags::IN),
                    Side::Target => (fds.target, PollFlags::OUT),
                };
                poll(&mut [PollFd::from_borrowed_fd(fd, events)], None).expect("poll");
            }
            Next::Throttled => panic!("{step} bytes may be taken"),
            Next::Ended(end) => return Ok(end),
            Next::Failed(failure) => return Err(format!("{failure:?}")),
        }
    }
}

/// A source with bytes to read, fed by a thread unless a file.
pub fn source(kind: &str, data: &[u8]) -> (OwnedFd, Option<thread::JoinHandle<()>>) {
    let data = data.to_vec();
    match kind {
        "file" => {
            let mut file = tempfile::tempfile().expect("a file");
            file.write_all(&data).expect("room");
            file.rewind().expect("a position");
            (file.into(), None)
        }
        "pipe" => {
            let (reader, mut writer) = std::io::pipe().expect("a pipe");
            let feed = thread::spawn(move || writer.write_all(&data).expect("a reader"));
            (reader.into(), Some(feed))
        }
        _ => {
            let (near, mut far) = UnixStream::pair().expect("a pair");
            near.set_nonblocking(kind == "stream").expect("a flag");
            let feed = thread::spawn(move || {
                // Short messages and long ones in turn.
                let mut rest = &data[..];
                for len in [1, 700, 40_000].into_iter().cycle() {
                    let (piece, more) = rest.split_at(len.min(rest.len()));
                    far.write_all(piece).expect("a reader");
                    rest = more;
                    if rest.is_empty() {
                        break;
                    }
                }
            });
            (near.into(), Some(feed))
        }
    }
}

pub type Arrived = Box<dyn FnOnce(OwnedFd) -> Vec<u8>>;

/// A target, and a look at the arrived bytes once the flow has ended.
pub fn target(kind: &str) -> (OwnedFd, Arrived) {
    match kind {
        "file" | "append" => {
            let directory = tempfile::tempdir().expect("a directory");
            let path = directory.path().join("target");
            let mut options = std::fs::OpenOptions::new();
            let file = options.create(true).write(true).append(kind == "append").open(&path);
            let read = move |fd| {
                drop::<OwnedFd>(fd);
                let _kept = directory;
                std::fs::read(path).expect("the target")
            };
            (file.expect("a file").into(), Box::new(read))
        }
        "pipe" => {
            let (mut reader, writer) = std::io::pipe().expect("a pipe");
            let taker = thread::spawn(move || {
                let mut all = Vec::new();
                reader.read_to_end(&mut all).map(|_| all)
            });
            let joined = |fd| {
                drop::<OwnedFd>(fd);
                taker.join().expect("no panic").expect("bytes")
            };
            (writer.into(), Box::new(joined))
        }
        _ => {
            let (near, mut far) = UnixStream::pair().expect("a pair");
            near.set_nonblocking(kind == "stream").expect("a flag");
            let taker = thread::spawn(move || {
                let mut all = Vec::new();
                far.read_to_end(&mut all).map(|_| all)
            });
            let joined = |fd| {
                drop::<OwnedFd>(fd);
                taker.join().expect("no panic").expect("bytes")
            };
            (near.into(), Box::new(joined))
        }
    }
}

#[test]
fn every_pair_delivers_every_byte_in_order() {
    let data = pattern(BYTES);
    let mut by_method = std::collections::BTreeMap::new();
    let choices = [MethodName::Splice, MethodName::ReadWrite].map(Choice::Only);
    let choices = served_here(&[&[Choice::Auto][..], &choices].concat());
    for from in ["file", "pipe", "stream", "blocking stream"] {
        for to in ["file", "append", "pipe", "stream", "blocking stream"] {
            for choice in &choices {
                let (name, choice) = (choice.to_string(), *choice);
                for step in [u64::MAX, 1 << 20, 4099] {
                    let ((near, feed), (out, arrived)) = (source(from, &data), target(to));
                    // As a relay does, which asks no kernel that answers only once bytes are in a
                    // pipe.
                    let never_held = to == "append" && name == "splice";
                    let terms = Terms { choice, never_held, ..Terms::default() };
                    let (a, b) = (PortState::of(&near).unwrap(), PortState::of(&out).unwrap());
                    let flow = Flow::between(a, b, &terms);
                    let context = format!("{from} to {to} by {name} in steps of {step}");
                    if to == "append" && name == "splice" {
                        assert!(flow.is_err(), "{context}: splice(2) refuses O_APPEND");
                        // The feeder must not wait for a reader that never comes.
                        drop(near);
                        feed.map(thread::JoinHandle::join);
                        continue;
                    }
                    let mut flow = flow.expect("a route");
                    let fds = Fds { source: near.as_fd(), target: out.as_fd() };
                    assert_eq!(drive(&mut flow, fds, step), Ok(Completion::Eof), "{context}");
                    assert_eq!(flow.delivered_bytes(), BYTES as u64, "{context}");
                    assert_eq!(flow.in_flight_bytes(), 0, "{context}");
                    if let Some(feed) = feed {
                        feed.join().expect("all was sent");
                    }
                    assert!(arrived(out) == data, "{context}: other bytes arrived");
                    *by_method.entry(name.clone()).or_insert(0) += 1;
                }
            }
        }
    }
    let expected = |choice: &Choice| if choice.to_string() == "splice" { 48 } else { 60 };
    let expected = choices.iter().map(|choice| (choice.to_string(), expected(choice)));
    assert_eq!(by_method, expected.collect());
}

#[test]
fn datagrams_stay_whole_and_empty_ones_are_datagrams() {
    let (near, far) = UnixDatagram::pair().expect("a pair");
    let (out, end) = UnixDatagram::pair().expect("a pair");
    near.set_nonblocking(true).expect("a flag");
    let large = pattern(100_000);
    let sent: [&[u8]; 4] = [b"first", b"", &large, b"last"];
    let mut flow = Flow::between(
        PortState::of(&near).unwrap(),
        PortState::of(&out).unwrap(),
        // What is left after the large one is less than the last one has.
        &Terms { length_bytes: Some(100_007), buffer_bytes: 100, ..Terms::default() },
    )
    .expect("a route");
    for message in sent {
        far.send(message).expect("room");
    }
    let fds = Fds { source: near.as_fd(), target: out.as_fd() };
    let failed = drive(&mut flow, fds, 10).expect_err("the last one does not fit");
    assert!(failed.contains(&format!("{:?}", Errno::MSGSIZE)), "{failed}");
    assert_eq!((flow.delivered_bytes(), flow.in_flight_bytes()), (5 + large.len() as u64, 0));
    let mut buf = vec![0; 200_000];
    for message in &sent[..3] {
        let got = end.recv(&mut buf).expect("a datagram");
        assert!(&buf[..got] == *message, "{got} bytes");
    }
    end.set_nonblocking(true).expect("a flag");
    assert!(end.recv(&mut buf).is_err(), "the last one was not taken");
    assert_eq!(near.recv(&mut buf).expect("it is still there"), 4);
}

/// 300,007 bytes in one datagram would be too long for any socket.
#[test]
fn a_stream_becomes_datagrams_of_a_size_that_every_socket_takes() {
    let data = pattern(BYTES);
    let (near, feed) = source("stream", &data);
    let (out, end) = UnixDatagram::pair().expect("a pair");
    let taker = thread::spawn(move || {
        let (mut all, mut buf) = (Vec::new(), vec![0; 1 << 20]);
        while all.len() < BYTES {
            let got = end.recv(&mut buf).expect("a datagram");
            assert!((1..=8192).contains(&got), "{got} bytes");
            all.extend_from_slice(&buf[..got]);
        }
        all
    });
    let (a, b) = (PortState::of(&near).unwrap(), PortState::of(&out).unwrap());
    let mut flow = Flow::between(a, b, &Terms::default()).expect("a route");
    let fds = Fds { source: near.as_fd(), target: out.as_fd() };
    assert_eq!(drive(&mut flow, fds, u64::MAX), Ok(Completion::Eof));
    feed.expect("a feeder").join().expect("all was sent");
    assert!(taker.join().expect("no panic") == data, "other bytes arrived");
}

/// A reset peer is the source's fault also where its bytes go straight into a pipe.
#[test]
fn a_reset_is_blamed_on_the_peer_that_sent_it() {
    needs!(splice);
    for to in ["file", "pipe", "stream"] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).expect("a peer");
        let (near, _) = listener.accept().expect("a client");
        near.set_nonblocking(true).expect("a flag");
        // With linger 0 a close sends RST (socket(7)).
        rustix::net::sockopt::set_socket_linger(&peer, Some(std::time::Duration::ZERO)).unwrap();
        drop(peer);
        poll(&mut [PollFd::new(&near, PollFlags::IN)], None).expect("poll");
        let (out, arrived) = target(to);
        let (a, b) = (PortState::of(&near).unwrap(), PortState::of(&out).unwrap());
        let terms = Terms { choice: Choice::Only(MethodName::Splice), ..Terms::default() };
        let mut flow = Flow::between(a, b, &terms).expect("a route");
        let fds = Fds { source: near.as_fd(), target: out.as_fd() };
        let failed = drive(&mut flow, fds, u64::MAX).expect_err("the peer reset the connection");
        assert!(failed.contains("side: Source"), "to {to}: {failed}");
        drop(arrived(out));
    }
}

#[test]
fn a_flow_that_waits_for_its_target_holds_what_is_in_flight_and_no_more() {
    let pool = Pool::new(4 << 20, 4);
    let mut shelf = Shelf::new(pool.clone());
    let ((near, feed), (out, far)) =
        (source("stream", &pattern(BYTES)), UnixStream::pair().expect("a pair"));
    out.set_nonblocking(true).expect("a flag");
    let (a, b) = (PortState::of(&near).unwrap(), PortState::of(&out).unwrap());
    let mut flow = Flow::between(a, b, &Terms::default()).expect("a route");
    let fds = Fds { source: near.as_fd(), target: out.as_fd() };
    loop {
        match flow.next(u64::MAX, &mut shelf) {
            Next::Do(op) => {
                let answer = flow.perform(op, fds);
                flow.learn(op, answer, &mut ());
            }
            Next::Wait(Side::Target) => break,
            Next::Wait(Side::Source) => {
                poll(&mut [PollFd::new(&near, PollFlags::IN)], None).expect("poll");
            }
            other => panic!("nobody reads: {other:?}"),
        }
    }
    flow.rest(&mut shelf);
    assert!(flow.is_at_rest());
    let in_pipes = pool.usage();
    assert_eq!(in_pipes.in_use + in_pipes.idle, 1, "{in_pipes:?}");
    let most_bytes = in_pipes.bytes as u64;
    assert!((1..=most_bytes).contains(&flow.in_flight_bytes()), "{flow:?}");
    let mut seen = vec![0; BYTES];
    let mut reader = far;
    let in_socket = usize::try_from(flow.delivered_bytes()).unwrap();
    reader.read_exact(&mut seen[..in_socket]).expect("delivered");
    let rest = thread::spawn(move || {
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).map(|_| rest)
    });
    assert_eq!(drive(&mut flow, fds, u64::MAX), Ok(Completion::Eof));
    drop(out);
    feed.expect("a feeder").join().expect("all was sent");
    seen.truncate(in_socket);
    seen.extend(rest.join().expect("no panic").expect("bytes"));
    assert!(seen == pattern(BYTES), "other bytes arrived");
    drop(flow);
    assert_eq!(pool.usage().in_use, 0);
}

/// `/dev/full` answers EINVAL to a splice; the true error comes from `write` (`full_ops` of
/// `drivers/char/mem.c`).
#[test]
fn bytes_in_a_refused_pipe_meet_the_true_error_of_a_write() {
    needs!(splice);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let (near, feed) = source("stream", b"taken");
    let terms = Terms { choice: Choice::Only(MethodName::Splice), ..Terms::default() };
    let (a, b) = (PortState::of(&near).unwrap(), PortState::of(&full).unwrap());
    let mut flow = Flow::between(a, b, &terms).expect("a route");
    let fds = Fds { source: near.as_fd(), target: full.as_fd() };
    let failed = drive(&mut flow, fds, u64::MAX).expect_err("nothing fits");
    assert!(failed.contains(&format!("{:?}", Errno::NOSPC)), "{failed}");
    assert_eq!(flow.delivered_bytes(), 0);
    assert!(flow.in_flight_bytes() > 0 && flow.in_flight_bytes() == flow.taken_bytes());
    feed.expect("a feeder").join().expect("all was sent");
}

/// Counts the bytes shown, and keeps them.
#[derive(Default)]
struct Seen(Vec<u8>);

impl Inspector for Seen {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn gap(&mut self, zeros_bytes: u64) {
        self.0.resize(self.0.len() + zeros_bytes as usize, 0);
    }
}

/// Data and zeros in turn, each of a random length around the unit of 4096 bytes in which zeros are
/// looked for.
fn patches(random: &mut fastrand::Rng) -> Vec<u8> {
    let mut all = Vec::new();
    for _ in 0..random.usize(1..12) {
        let len = random.usize(1..20_000);
        let fill = if random.bool() { 0 } else { random.u8(1..) };
        all.resize(all.len() + len, fill);
    }
    all
}

/// Whole units of zeros, counted at the target's offset, are holes and nothing else is; each run of
/// them is one call, for every size of the buffer, and however few bytes may be taken at once.
#[test]
fn runs_of_zeros_become_holes_whatever_the_buffer() {
    const UNIT: u64 = 4096;
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..300 {
        let data = patches(&mut random);
        // Where buffers end at units, a run of zeros is one hole over any number of buffers.
        let is_aligned = random.bool();
        let (at, buffer_bytes) = match is_aligned {
            true => (random.u64(0..3) * UNIT, random.usize(1..4) * UNIT as usize),
            false => (random.u64(0..3) * 1000, random.usize(1..10_000)),
        };
        let mut from = tempfile::tempfile().expect("a file");
        let mut to = tempfile::tempfile().expect("a file");
        from.write_all(&data).expect("room");
        // Old content: a hole must be made, not only skipped.
        to.write_all(&vec![7; at as usize + data.len()]).expect("room");
        let terms = Terms {
            choice: Choice::Only(MethodName::ReadWrite),
            make_holes: true,
            buffer_bytes,
            ..Terms::default()
        };
        let (source, target) =
            (PortState::of(&from).unwrap().at(0), PortState::of(&to).unwrap().at(at));
        let mut flow = Flow::between(source, target, &terms).expect("a route");
        let mut shelf = Shelf::new(Pool::shared().clone());
        let (mut seen, mut punches) = (Seen::default(), 0);
        let fds = Fds { source: from.as_fd(), target: to.as_fd() };
        loop {
            match flow.next(u64::MAX, &mut shelf) {
                Next::Do(op) => {
                    punches += u64::from(matches!(op, Op::Punch(_)));
                    let answer = flow.perform(op, fds);
                    flow.learn(op, answer, &mut seen);
                    assert_eq!(flow.delivered_bytes(), seen.0.len() as u64);
                    assert!(flow.hole_bytes() <= flow.delivered_bytes());
                }
                Next::Ended(end) => break assert_eq!(end, Completion::Eof),
                other => panic!("files do not wait: {other:?}"),
            }
        }
        let (mut arrived, mut holes_bytes, mut runs, mut was_zero) = (Vec::new(), 0, 0, false);
        to.rewind().unwrap();
        to.read_to_end(&mut arrived).unwrap();
        assert!(arrived[at as usize..] == data[..] && seen.0 == data, "other bytes arrived");
        assert!(arrived[..at as usize].iter().all(|&byte| byte == 7), "wrote before its place");
        let mut place = 0;
        while place < data.len() {
            let to_boundary = UNIT - (at + place as u64) % UNIT;
            let unit = &data[place..(place + to_boundary as usize).min(data.len())];
            let is_zero = unit.iter().all(|&byte| byte == 0);
            holes_bytes += if is_zero { unit.len() as u64 } else { 0 };
            runs += u64::from(is_zero && !was_zero);
            (was_zero, place) = (is_zero, place + unit.len());
        }
        // A part of a unit that ends a buffer is judged by itself: with small buffers more is a
        // hole, never less.
        assert!(flow.hole_bytes() >= holes_bytes, "{} < {holes_bytes}", flow.hole_bytes());
        if is_aligned || buffer_bytes as u64 >= UNIT + data.len() as u64 {
            assert_eq!((flow.hole_bytes(), punches), (holes_bytes, runs));
        }
        assert!(punches <= runs + data.len() as u64 / buffer_bytes as u64 + 1);
    }
}

/// A log that grows at the end while being spliced: each read that looks for the end finds some
/// more.
#[test]
fn a_file_that_grows_at_its_end_a_few_times_is_no_false_end() {
    for method in methods_served_here(&[MethodName::Splice, MethodName::Sendfile]) {
        let source = tempfile::tempfile().expect("a file");
        (&source).write_all(&[1; 1000]).expect("room");
        let (_reader, writer) = std::io::pipe().expect("a pipe");
        let terms =
            Terms { choice: Choice::Only(method), expected_bytes: Some(1000), ..Terms::default() };
        let (from, to) = (PortState::of(&source).unwrap().at(0), PortState::of(&writer).unwrap());
        let mut flow = Flow::between(from, to, &terms).expect("a route");
        let mut shelf = Shelf::new(Pool::shared().clone());
        let fds = Fds { source: source.as_fd(), target: writer.as_fd() };
        let mut growths = 0;
        let end = loop {
            match flow.next(u64::MAX, &mut shelf) {
                Next::Do(op) => {
                    // Behind the last byte, and before a read looks for more.
                    if matches!(op, Op::Read(_)) && growths < 5 {
                        (&source).write_all(&[2; 10]).expect("room");
                        growths += 1;
                    }
                    let answer = flow.perform(op, fds);
                    flow.learn(op, answer, &mut ());
                }
                Next::Ended(end) => break end,
                other => panic!("{method}: {other:?}"),
            }
        };
        assert_eq!((end, flow.delivered_bytes()), (Completion::Eof, 1050), "{method}");
    }
}

/// The means of a flow are idle between two messages, and held for the next one, until the flow
/// rests.
#[test]
fn idle_means_are_held_until_the_flow_rests() {
    let choices = [MethodName::ReadWrite, MethodName::Splice].map(Choice::Only);
    for choice in served_here(&choices) {
        let (mut feeder, near) = UnixStream::pair().expect("a pair");
        let target = tempfile::tempfile().expect("a file");
        near.set_nonblocking(true).expect("a flag");
        feeder.write_all(b"a message").expect("room");
        let (from, to) = (PortState::of(&near).unwrap(), PortState::of(&target).unwrap());
        let mut flow =
            Flow::between(from, to, &Terms { choice, ..Terms::default() }).expect("a route");
        let mut shelf = Shelf::new(Pool::shared().clone());
        let fds = Fds { source: near.as_fd(), target: target.as_fd() };
        while let Next::Do(op) = flow.next(u64::MAX, &mut shelf) {
            let answer = flow.perform(op, fds);
            flow.learn(op, answer, &mut ());
        }
        assert_eq!((flow.delivered_bytes(), flow.in_flight_bytes()), (9, 0), "{choice}");
        assert!(!flow.is_at_rest(), "{choice}: nothing is held");
        flow.rest(&mut shelf);
        assert!(flow.is_at_rest(), "{choice}");
    }
}

/// splice(2) from pipe to pipe answers `EAGAIN` for either: which one is asked of poll(2), and not
/// by a read, whose bytes would go on through memory.
#[test]
fn a_full_pipe_is_distinguished_from_an_empty_one_without_a_read() {
    needs!(splice);
    let ((source, mut feeder), (_reader, mut target)) =
        (std::io::pipe().expect("a pipe"), std::io::pipe().expect("a pipe"));
    feeder.write_all(b"waits").expect("room");
    target.write_all(&vec![7; 65536]).expect("room for all of a pipe");
    let (from, to) = (PortState::of(&source).unwrap(), PortState::of(&target).unwrap());
    let mut flow = Flow::between(from, to, &Terms::default()).expect("a route");
    let mut shelf = Shelf::new(Pool::shared().clone());
    let fds = Fds { source: source.as_fd(), target: target.as_fd() };
    let mut asked = Vec::new();
    let side = loop {
        match flow.next(u64::MAX, &mut shelf) {
            Next::Do(op) => {
                asked.extend(matches!(op, Op::Ready(_)).then_some(op));
                assert!(!matches!(op, Op::Read(_)), "after {asked:?}");
                let answer = flow.perform(op, fds);
                flow.learn(op, answer, &mut ());
            }
            Next::Wait(side) => break side,
            other => panic!("nobody reads: {other:?}"),
        }
    };
    assert_eq!((side, flow.taken_bytes()), (Side::Target, 0));
    assert_eq!(asked, [Op::Ready(Side::Source), Op::Ready(Side::Target)]);
}
