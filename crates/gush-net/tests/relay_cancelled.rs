//! A relay's future is dropped at every poll: if the relay goes on, nothing is lost; given up, the
//! counts say where every byte is, and no pipe and no descriptor stays open.

mod common;
#[path = "common/halting.rs"]
mod halting;

use std::fs::File;
use std::future::{Future, poll_fn};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use common::{Wire, numbered, pair};
use gush::pipe::Pool;
use gush::{Choice, Errno, MethodName, Rate};
use gush_net::{ByteCounts, Conduit, Direction, Error, Relay, RelayOptions, Totals};
use halting::Halting;
use rustix::fs::{OFlags, SeekFrom};
use rustix::net::Shutdown;

/// Descriptors and pipes of the whole process are counted: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// The kinds of ends of the relay.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Tcp,
    Unix,
    Pipes,
    /// A stream without a descriptor, over a Unix socket.
    Stream,
    /// The same, which keeps bytes until flushed.
    Keeping,
}

/// The acts of a peer: it sends so many bytes, not before a given turn, ends, and reads all the
/// time except in some turns.
#[derive(Clone, Copy, Debug)]
struct Manners {
    sends: &'static [(usize, usize)],
    /// From one turn to another.
    mute: (usize, usize),
}

/// More than sockets and pipes hold, so that both directions stand still for a while with bytes in
/// flight.
const CLIENT: Manners = Manners { sends: &[(0, 1), (3, 900_000), (40, 10)], mute: (20, 45) };
const SERVER: Manners = Manners { sends: &[(1, 3), (5, 700_000), (50, 1)], mute: (2, 30) };

/// One peer, never held by a call.
struct Peer {
    read: OwnedFd,
    write: Option<OwnedFd>,
    manners: Manners,
    sent: Vec<u8>,
    unsent: Vec<u8>,
    arrived: Vec<u8>,
    end_arrived: bool,
}

fn unheld(fd: impl Into<OwnedFd>) -> OwnedFd {
    let fd = fd.into();
    let flags = rustix::fs::fcntl_getfl(&fd).expect("flags");
    rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK).expect("O_NONBLOCK");
    fd
}

/// A conduit, a duplicate of its reading descriptor, and the peer.
fn end(kind: Kind, manners: Manners) -> (Conduit, OwnedFd, Peer) {
    let dup = |fd: &OwnedFd| fd.try_clone().expect("dup");
    let (conduit, near, read, write) = match kind {
        Kind::Tcp | Kind::Unix | Kind::Stream | Kind::Keeping => {
            let wire = if matches!(kind, Kind::Tcp) { Wire::Tcp } else { Wire::Unix };
            let (near, far) = pair(wire);
            let (near, far) = (OwnedFd::from(near), unheld(far));
            // A second descriptor of the same socket: after the drop the test reads what the relay
            // left.
            let again = dup(&near);
            let conduit = Conduit::new(near).expect("an end");
            let conduit = match kind {
                Kind::Stream => Conduit::of_stream(Halting::new(conduit, 50_000)),
                Kind::Keeping => Conduit::of_stream(Halting::keeping(conduit, 50_000, 64 << 10)),
                _ => conduit,
            };
            (conduit, again, dup(&far), far)
        }
        Kind::Pipes => {
            let ((from, feeder), (taker, to)) =
                (std::io::pipe().expect("a pipe"), std::io::pipe().expect("a pipe"));
            let (from, to) = (OwnedFd::from(from), OwnedFd::from(to));
            let again = dup(&from);
            (Conduit::of_two(from, to).expect("an end"), again, unheld(taker), unheld(feeder))
        }
    };
    let (sent, unsent, arrived) = Default::default();
    let write = Some(write);
    (conduit, near, Peer { read, write, manners, sent, unsent, arrived, end_arrived: false })
}

impl Peer {
    /// One turn: sends and reads by the peer's manners, as far as that goes now.
    fn turn(&mut self, turn: usize, from: u64) {
        for &(_, bytes) in self.manners.sends.iter().filter(|(at, _)| *at == turn) {
            let begin = from + (self.sent.len() + self.unsent.len()) as u64;
            self.unsent.extend_from_slice(numbered(begin, bytes));
        }
        if let Some(write) = &self.write {
            match rustix::io::write(write, &self.unsent) {
                Ok(put) => self.sent.extend(self.unsent.drain(..put)),
                // Given up: nobody reads any more.
                Err(Errno::AGAIN | Errno::PIPE | Errno::CONNRESET) => {}
                Err(errno) => panic!("write: {errno}"),
            }
            let last = self.manners.sends.last().map_or(0, |(at, _)| *at);
            if self.unsent.is_empty() && turn >= last {
                // A pipe is closed, and a socket has a second descriptor.
                let _not_a_socket = rustix::net::shutdown(write, Shutdown::Write);
                self.write = None;
            }
        }
        let (from, to) = self.manners.mute;
        if !(from..to).contains(&turn) {
            self.read_some(60_000);
        }
    }

    fn read_some(&mut self, most: usize) {
        let mut buf = vec![0; most];
        match rustix::io::read(&self.read, &mut buf) {
            Ok(0) => self.end_arrived = true,
            Ok(got) => self.arrived.extend_from_slice(&buf[..got]),
            Err(Errno::AGAIN) => {}
            Err(errno) => panic!("read: {errno}"),
        }
    }
}

/// Where the bytes of each begin among the [`numbered`] ones.
const BEGINS: [u64; 2] = [0, 100_000];

/// Both peers, until each has seen the other's end, or somebody stops them.
async fn talk(mut peers: [Peer; 2], stop: Arc<AtomicBool>) -> [Peer; 2] {
    let mut turn = 0;
    while !stop.load(Ordering::Relaxed) && !peers.iter().all(|peer| peer.end_arrived) {
        for (peer, begin) in peers.iter_mut().zip(BEGINS) {
            peer.turn(turn, begin);
        }
        turn += 1;
        // The relay and the peers take turns on one thread: the number of polls hardly varies.
        tokio::task::yield_now().await;
    }
    peers
}

/// Polls a future so many times, at its own wake-ups; `None` if the future has not ended by then.
async fn polled<F: Future>(future: F, mut times: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        if times == 0 {
            return Poll::Ready(None);
        }
        times -= 1;
        future.as_mut().poll(cx).map(Some)
    })
    .await
}

fn on_a_thread_of_its_own<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let watched = async { tokio::time::timeout(Duration::from_secs(60), future).await };
    runtime.expect("a runtime").block_on(watched).expect("a relay that is not woken hangs")
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("procfs").count()
}

/// Is as much open, and on loan, as before?
struct Kept(usize);

impl Kept {
    fn now() -> Self {
        let usage = Pool::shared().usage();
        assert_eq!(usage.in_use, 0, "a pipe is on loan");
        // Idle pipes are kept on purpose: two descriptors each.
        Self(descriptors() - 2 * usage.idle)
    }
}

fn options(choice: Choice) -> RelayOptions {
    RelayOptions { method: choice, counts: Arc::default(), ..RelayOptions::new() }
}

fn delivered(counts: &ByteCounts, way: Direction) -> usize {
    usize::try_from(counts.delivered_bytes(way)).expect("few")
}

fn in_flight(counts: &ByteCounts, way: Direction) -> usize {
    usize::try_from(counts.in_flight_bytes(way)).expect("few")
}

/// Drops the future of a run at its poll number `at`, and goes on with the same relay, at each poll
/// or once. Answers whether the future was dropped at all.
fn goes_on(kinds: [Kind; 2], options: &RelayOptions, at: usize, again: bool) -> bool {
    let ((mut a, _, client), (mut b, _, server)) = (end(kinds[0], CLIENT), end(kinds[1], SERVER));
    let (cuts, totals, peers) = on_a_thread_of_its_own(async {
        let talking = tokio::spawn(talk([client, server], Arc::default()));
        let mut relay = Relay::new(options);
        let mut cuts = 0;
        let totals = loop {
            let most = if cuts == 0 || again { at } else { usize::MAX };
            match polled(relay.run(&mut a, &mut b), most).await {
                Some(ended) => break ended.expect("no failure"),
                None => cuts += 1,
            }
            // Dropped at once when it was polled once: others have their turn.
            tokio::task::yield_now().await;
        };
        (cuts, totals, talking.await.expect("no panic"))
    });
    let name = format!("{kinds:?}, dropped {cuts} times at poll {at}");
    let [client, server] = peers;
    assert!(server.arrived == client.sent, "{name}: forward {} bytes", server.arrived.len());
    assert!(client.arrived == server.sent, "{name}: back {} bytes", client.arrived.len());
    for (way, sent) in Direction::ALL.into_iter().zip([&client.sent, &server.sent]) {
        assert_eq!(delivered(&options.counts(), way), sent.len(), "{name}: {way}");
        assert_eq!(in_flight(&options.counts(), way), 0, "{name}: {way}");
    }
    assert_eq!(totals.forward.bytes, client.sent.len() as u64, "{name}");
    assert!(totals.back.bytes == 700_004 && totals.forward.bytes == 900_011, "{name}");
    cuts > 0
}

/// Reads until `expected` has come, and finds nothing after that.
fn comes(fd: &OwnedFd, so_far: &mut Vec<u8>, expected: &[u8], name: &str) {
    let patience = Instant::now() + Duration::from_secs(20);
    let mut buf = vec![0; 256 << 10];
    while so_far.len() < expected.len() && Instant::now() < patience {
        match rustix::io::read(fd, &mut buf) {
            Ok(0) => break,
            Ok(got) => so_far.extend_from_slice(&buf[..got]),
            Err(Errno::AGAIN) => std::thread::yield_now(),
            Err(errno) => panic!("{name}: {errno}"),
        }
    }
    assert!(so_far == expected, "{name}: {} bytes, not {}", so_far.len(), expected.len());
    let more = rustix::io::read(fd, &mut buf);
    assert!(matches!(more, Ok(0) | Err(Errno::AGAIN)), "{name}: more came: {more:?}");
}

/// Drops a relay at its poll number `at` for good, and looks for every byte. Answers how many were
/// in flight, or none if the future had ended before.
fn gives_up(kinds: [Kind; 2], choice: Choice, at: usize) -> Option<usize> {
    let kept = Kept::now();
    let options = options(choice);
    let ((mut a, near_a, client), (mut b, near_b, server)) =
        (end(kinds[0], CLIENT), end(kinds[1], SERVER));
    let stop = Arc::new(AtomicBool::new(false));
    let (ended, peers) = on_a_thread_of_its_own(async {
        let talking = tokio::spawn(talk([client, server], Arc::clone(&stop)));
        let relay = async { Relay::new(&options).run(&mut a, &mut b).await };
        let ended = polled(relay, at).await;
        stop.store(ended.is_none(), Ordering::Relaxed);
        (ended, talking.await.expect("no panic"))
    });
    let [client, server] = peers;
    let counts = options.counts();
    let name = |way| format!("{kinds:?}, {choice}, given up at poll {at}, {way}");
    let both =
        [(Direction::Forward, &client.sent, &near_a), (Direction::Back, &server.sent, &near_b)];
    for (way, sent, near) in both {
        // Bytes in flight are lost with the future; the source must go on after them.
        let taken = delivered(&counts, way) + in_flight(&counts, way);
        assert!(taken <= sent.len(), "{}: {taken} of {} taken", name(way), sent.len());
        comes(near, &mut Vec::new(), &sent[taken..], &name(way));
    }
    for (way, sent, reader) in
        [(Direction::Forward, &client.sent, &server), (Direction::Back, &server.sent, &client)]
    {
        let expected = &sent[..delivered(&counts, way)];
        comes(&reader.read, &mut reader.arrived.clone(), expected, &name(way));
    }
    drop((a, b, near_a, near_b, client, server));
    assert_eq!(Kept::now().0, kept.0, "{}: descriptors", name(Direction::Forward));
    let lost = Direction::ALL.map(|way| in_flight(&counts, way)).iter().sum();
    ended.is_none().then_some(lost)
}

/// The faces of a relay that go one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OneWay {
    Copy,
    SendFile,
    ReceiveFile,
}

/// The peer only reads, and not all the time.
const QUIET: Manners = Manners { sends: &[], mute: (2, 30) };

/// As [`gives_up`], one way.
fn gives_up_one_way(face: OneWay, kind: Kind, at: usize) -> bool {
    let kept = Kept::now();
    let (options, name) = (options(Choice::Auto), format!("{face:?}, {kind:?}, poll {at}"));
    let ((a, near_a, client), (b, _, server)) = (end(kind, CLIENT), end(kind, QUIET));
    let (mut a, mut b) = (a.read_only(), b.write_only());
    let mut file = tempfile::tempfile().expect("a file");
    let content = numbered(BEGINS[0], 900_011);
    if face == OneWay::SendFile {
        file.write_all(content).expect("room");
    }
    let stop = Arc::new(AtomicBool::new(false));
    let (ended, peers) = on_a_thread_of_its_own(async {
        let talking = tokio::spawn(talk([client, server], Arc::clone(&stop)));
        let run = async {
            match face {
                OneWay::Copy => Relay::new(&options).copy(&mut a, &mut b).await,
                OneWay::SendFile => Relay::new(&options).send_file(&file, .., &mut b).await,
                OneWay::ReceiveFile => Relay::new(&options).recv_file(&mut a, &file, 0).await,
            }
        };
        let ended: Option<Result<Totals, Error>> = polled(run, at).await;
        stop.store(true, Ordering::Relaxed);
        (ended, talking.await.expect("no panic"))
    });
    let [client, mut server] = peers;
    let counts = options.counts();
    let (done, taken) = (
        delivered(&counts, Direction::Forward),
        in_flight(&counts, Direction::Forward) + delivered(&counts, Direction::Forward),
    );
    let sent = if face == OneWay::SendFile { content } else { &client.sent };
    assert!(taken <= sent.len(), "{name}: {taken} of {} taken", sent.len());
    if face != OneWay::SendFile {
        comes(&near_a, &mut Vec::new(), &sent[taken..], &name);
    }
    match face {
        OneWay::ReceiveFile => assert!(whole(&mut file) == sent[..done], "{name}: other bytes"),
        _ => comes(&server.read, &mut server.arrived, &sent[..done], &name),
    }
    if let Some(ended) = &ended {
        let bytes = ended.as_ref().expect("no failure").forward.bytes;
        assert_eq!((bytes, done, taken), (900_011, 900_011, 900_011), "{name}");
    }
    drop((a, b, near_a, file, client, server));
    assert_eq!(Kept::now().0, kept.0, "{name}: descriptors");
    ended.is_none()
}

fn whole(file: &mut File) -> Vec<u8> {
    rustix::fs::seek(file.as_fd(), SeekFrom::Start(0)).expect("a position");
    let mut all = Vec::new();
    file.read_to_end(&mut all).expect("what was received");
    all
}

const KINDS: [[Kind; 2]; 4] = [
    [Kind::Unix, Kind::Unix],
    [Kind::Unix, Kind::Pipes],
    [Kind::Pipes, Kind::Pipes],
    [Kind::Tcp, Kind::Unix],
];

/// Ends without a descriptor, which no method by reference serves.
const STREAMS: [[Kind; 2]; 3] =
    [[Kind::Stream, Kind::Unix], [Kind::Pipes, Kind::Stream], [Kind::Stream, Kind::Stream]];

const CHOICES: [Choice; 3] =
    [Choice::Auto, Choice::Only(MethodName::Splice), Choice::Only(MethodName::ReadWrite)];

/// Tries every poll until a run has fewer; answers how many there were.
fn every_poll(mut drops: impl FnMut(usize) -> bool) -> usize {
    (0..).find(|&at| !drops(at)).expect("a run ends")
}

#[test]
fn a_relay_that_is_dropped_at_any_poll_goes_on_there() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for kinds in KINDS {
        for choice in CHOICES {
            let polls = every_poll(|at| goes_on(kinds, &options(choice), at, false));
            assert!(polls > 10, "{kinds:?}, {choice}: only {polls} polls");
            // Never polled, it could not begin.
            for at in [1, 2, 3] {
                assert!(goes_on(kinds, &options(choice), at, true), "{kinds:?}: never dropped");
            }
        }
    }
}

#[test]
fn a_relay_of_streams_that_is_dropped_at_any_poll_goes_on_there() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let keeping = [[Kind::Keeping, Kind::Unix], [Kind::Keeping, Kind::Keeping]];
    for kinds in STREAMS.into_iter().chain(keeping) {
        let polls = every_poll(|at| goes_on(kinds, &options(Choice::Auto), at, false));
        assert!(polls > 10, "{kinds:?}: only {polls} polls");
        for at in [1, 2, 3] {
            assert!(goes_on(kinds, &options(Choice::Auto), at, true), "{kinds:?}: never dropped");
        }
    }
}

#[test]
fn a_relay_of_streams_that_is_given_up_at_any_poll_has_counted_every_byte() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for kinds in STREAMS {
        let mut most_lost = 0;
        let polls = every_poll(|at| {
            let lost = gives_up(kinds, Choice::Auto, at);
            most_lost = most_lost.max(lost.unwrap_or(0));
            lost.is_some()
        });
        assert!(polls > 10, "{kinds:?}: only {polls} polls");
        assert!(most_lost > 0, "{kinds:?}: nothing was in flight");
    }
}

/// Timers are polled, too: the limits on silence and on speed outlive the future.
#[test]
fn a_relay_with_limits_that_is_dropped_at_any_poll_goes_on_there() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let limited = || {
        let rate = Rate::bytes_per_second(200_000_000).expect("a rate");
        RelayOptions {
            limit: Some(rate),
            idle: Some(Duration::from_secs(30)),
            ..options(Choice::Auto)
        }
    };
    let polls = every_poll(|at| goes_on([Kind::Unix; 2], &limited(), at, false));
    assert!(polls > 5, "only {polls} polls");
    assert!(goes_on([Kind::Unix; 2], &limited(), 1, true), "never dropped");
}

#[test]
fn a_relay_that_is_given_up_at_any_poll_has_counted_every_byte() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for kinds in KINDS {
        for choice in CHOICES {
            let mut most_lost = 0;
            let polls = every_poll(|at| {
                let lost = gives_up(kinds, choice, at);
                most_lost = most_lost.max(lost.unwrap_or(0));
                lost.is_some()
            });
            assert!(polls > 10, "{kinds:?}, {choice}: only {polls} polls");
            // Two pipes hold everything between them, and a splice leaves it in one.
            let splices = choice != Choice::Only(MethodName::ReadWrite);
            let by_reference = splices && matches!(kinds[1], Kind::Pipes);
            assert!(most_lost > 0 || by_reference, "{kinds:?}, {choice}: nothing was in flight");
        }
    }
}

#[test]
fn what_goes_one_way_and_is_given_up_at_any_poll_has_counted_every_byte() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for face in [OneWay::Copy, OneWay::SendFile, OneWay::ReceiveFile] {
        for kind in [Kind::Unix, Kind::Tcp, Kind::Pipes] {
            let polls = every_poll(|at| gives_up_one_way(face, kind, at));
            // Into a file or large buffers nearly everything goes at once.
            assert!(polls > 1, "{face:?}, {kind:?}: only {polls} polls");
        }
    }
}

#[test]
fn a_relay_with_limits_goes_on_in_another_runtime() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let rate = gush_net::gush::Rate::bytes_per_second(100_000).unwrap();
    let idle = RelayOptions { idle: Some(Duration::from_secs(60)), ..RelayOptions::new() };
    for (name, options) in
        [("idle", idle), ("rate", RelayOptions { limit: Some(rate), ..RelayOptions::new() })]
    {
        let (mut client, near) = UnixStream::pair().unwrap();
        let (far, mut server) = UnixStream::pair().unwrap();
        let mut a = Conduit::new(near.into()).unwrap();
        let mut b = Conduit::new(far.into()).unwrap();
        let mut relay = Relay::new(&options);
        let mut run_for = |limit| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let limited = async { tokio::time::timeout(limit, relay.run(&mut a, &mut b)).await };
            runtime.unwrap().block_on(limited)
        };
        client.write_all(&[7; 20_000]).unwrap();
        assert!(run_for(Duration::from_millis(20)).is_err(), "{name}");
        client.write_all(&[8; 5]).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        server.shutdown(std::net::Shutdown::Write).unwrap();
        let totals = run_for(Duration::from_secs(60)).unwrap().unwrap();
        assert_eq!(totals.forward.bytes, 20_005, "{name}");
        let mut heard = Vec::new();
        server.read_to_end(&mut heard).unwrap();
        assert_eq!(heard, [&[7; 20_000][..], &[8; 5]].concat(), "{name}");
    }
}
