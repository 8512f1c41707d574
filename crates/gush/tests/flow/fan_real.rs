//! The fan on real descriptors, driven by hand: only sides that poll(2) names are woken, and every
//! target's bytes are compared.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::thread::{self, JoinHandle};

use gush::flow::{
    Buf, Completion, Failure, Fan, FanFds, FanNext, FanOp, Interest, Lender, Op, PortState, Shelf,
    Spread, Terms, Who,
};
use gush::pipe::{PipeLoan, Pool};
use gush::{Choice, Errno, MethodName};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::common::{not_applicable, refused, served_here};
use crate::real::{BYTES, pattern, source, target};

/// The result of a drive.
#[derive(Debug, Default)]
struct Driven {
    lost: Vec<u16>,
    ops: BTreeMap<&'static str, u64>,
    /// The most that one target was ahead of another.
    most_ahead_bytes: u64,
    most_held_bytes: u64,
}

fn name_of(op: FanOp) -> &'static str {
    match op {
        FanOp::Intake(Op::Read(_)) => "read",
        FanOp::Intake(Op::Fill(_)) => "fill",
        FanOp::Intake(Op::Spill) | FanOp::Lane(_, Op::Spill) => "spill",
        FanOp::Lane(_, Op::Write) => "write",
        FanOp::Lane(_, Op::Empty) => "empty",
        FanOp::Tee(_) => "tee",
        FanOp::Move(..) => "move",
        FanOp::Look(_) => "look",
        _ => "other",
    }
}

/// How long a fan is driven, if the fan does not end before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    End,
    /// No side becomes ready for so many milliseconds.
    Idle(i64),
    FirstLost,
}

/// Drives a fan with poll(2), rests before every wait, and takes at most `step` at once.
fn drive(
    fan: &mut Fan,
    fds: FanFds<'_>,
    step: u64,
    until: Until,
) -> (Result<Completion, String>, Driven) {
    // Of its own, because tests that run at the same time take pipes of the shared one.
    let pool = Pool::new(64 << 20, 64);
    drive_with(&pool, &mut Shelf::new(pool.clone()), fan, fds, step, until)
}

/// Drives it with a lender whose pipes are the pool's.
fn drive_with(
    pool: &Pool,
    lender: &mut dyn Lender,
    fan: &mut Fan,
    fds: FanFds<'_>,
    step: u64,
    until: Until,
) -> (Result<Completion, String>, Driven) {
    let mut driven = Driven::default();
    let end = loop {
        match fan.next(step, lender) {
            FanNext::Do(op) => {
                let answer = fan.perform(op, fds);
                fan.learn(op, answer);
                *driven.ops.entry(name_of(op)).or_insert(0) += 1;
                // A lost target stands still, and would look like one that holds the others back.
                let live = || (0..fan.targets() as u16).filter(|&target| fan.is_live(target));
                let got = live().map(|target| fan.delivered_bytes(target));
                let (least, most) = (got.clone().min().unwrap_or(0), got.max().unwrap_or(0));
                driven.most_ahead_bytes = driven.most_ahead_bytes.max(most - least);
                let held = live().map(|target| fan.in_flight_bytes(target)).max().unwrap_or(0);
                driven.most_held_bytes = driven.most_held_bytes.max(held);
            }
            FanNext::Wait => {
                // Before every wait: what a fan keeps while nothing comes is a cost of each idle
                // connection.
                fan.rest(lender);
                // One for bytes at the source's side, and one for those at each target's.
                let live = || (0..fan.targets() as u16).filter(|&target| fan.is_live(target));
                let owed = live().filter(|&target| fan.in_flight_bytes(target) > 0).count();
                let needed = if owed == 0 { 0 } else { owed + 1 };
                let held = pool.usage().in_use;
                assert!(held <= needed, "parked with {held} pipes, {owed} targets are owed bytes");
                let (mut sides, mut polled) = (Vec::new(), Vec::new());
                fan.waits(&mut |who, interest| {
                    let events = match interest {
                        Interest::Readable => PollFlags::IN,
                        Interest::Writable => PollFlags::OUT,
                        // poll(2) always reports POLLERR and POLLHUP.
                        Interest::HangUp => PollFlags::empty(),
                    };
                    let fd = match who {
                        Who::Source => fds.source,
                        Who::Target(target) => fds.targets[usize::from(target)],
                    };
                    sides.push(who);
                    polled.push(PollFd::from_borrowed_fd(fd, events));
                });
                let patience = match until {
                    Until::Idle(ms) => {
                        Some(Timespec { tv_sec: ms / 1000, tv_nsec: ms % 1000 * 1_000_000 })
                    }
                    _ => None,
                };
                if poll(&mut polled, patience.as_ref()).expect("poll") == 0 {
                    break Err("idle".to_owned());
                }
                for (who, fd) in sides.into_iter().zip(&polled) {
                    if !fd.revents().is_empty() {
                        fan.wake(who);
                    }
                }
            }
            // Every call of `next` permits some bytes, so nothing can be throttled.
            FanNext::Throttled => panic!("{step} bytes may be taken"),
            FanNext::Lost(target) => {
                driven.lost.push(target);
                if until == Until::FirstLost {
                    break Err("lost".to_owned());
                }
            }
            FanNext::Ended(end) => break Ok(end),
            FanNext::Deserted => break Err("deserted".to_owned()),
            FanNext::Failed(failure) => break Err(format!("{failure:?}")),
        }
    };
    (end, driven)
}

fn fan_of(source: &impl AsFd, targets: &[BorrowedFd<'_>], terms: &Terms) -> Fan {
    let states: Vec<_> =
        targets.iter().map(|fd| PortState::of(fd).expect("a port state")).collect();
    Fan::between(PortState::of(source).expect("a port state"), &states, terms).expect("a route")
}

/// A pipe of one page, whose reader takes odd pieces.
fn narrow_pipe() -> (OwnedFd, Box<dyn FnOnce(OwnedFd) -> Vec<u8>>) {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    rustix::pipe::fcntl_setpipe_size(&writer, 4096).expect("a size");
    let taker = thread::spawn(move || {
        // A prime, so that no piece ends where a page or a buffer does.
        let (mut all, mut buf) = (Vec::new(), [0; 997]);
        loop {
            match reader.read(&mut buf).expect("bytes") {
                0 => break all,
                got => all.extend_from_slice(&buf[..got]),
            }
        }
    });
    let joined = |fd| {
        drop::<OwnedFd>(fd);
        taker.join().expect("no panic")
    };
    (writer.into(), Box::new(joined))
}

#[test]
fn every_set_of_targets_gets_every_byte_in_order() {
    let data = pattern(BYTES);
    let sets: [&[&str]; 11] = [
        &["pipe"],
        &["file"],
        &["append"],
        &["pipe", "narrow", "pipe"],
        &["narrow", "narrow"],
        &["file", "narrow"],
        &["append", "append", "file"],
        &["stream", "narrow", "file"],
        &["stream", "stream"],
        &["blocking stream", "pipe", "append"],
        &["file", "file", "file", "file"],
    ];
    let splice = Choice::Only(MethodName::Splice);
    let mut choices = served_here(&[Choice::Auto, Choice::Only(MethodName::ReadWrite), splice]);
    // To several targets by reference needs tee(2), too.
    let without_tee = refused::tee().inspect(|why| not_applicable(why)).is_some();
    choices.retain(|choice| *choice != splice || !without_tee);
    let mut ended = 0;
    for from in ["file", "pipe", "stream", "blocking stream"] {
        for set in sets {
            for &choice in &choices {
                // Three bytes more than a page: pieces begin and end within pages.
                for step in [u64::MAX, 4099] {
                    // splice(2) refuses O_APPEND, which a name does not change.
                    if choice == splice && set.contains(&"append") {
                        continue;
                    }
                    let context = format!("{from} to {set:?} by {choice} in steps of {step}");
                    let (near, feed) = source(from, &data);
                    let (outs, arrived): (Vec<_>, Vec<_>) = set
                        .iter()
                        .map(|&to| if to == "narrow" { narrow_pipe() } else { target(to) })
                        .unzip();
                    let targets: Vec<_> = outs.iter().map(AsFd::as_fd).collect();
                    let mut fan = fan_of(&near, &targets, &Terms { choice, ..Terms::default() });
                    let fds = FanFds { source: near.as_fd(), targets: &targets };
                    let (end, driven) = drive(&mut fan, fds, step, Until::End);
                    assert_eq!((end, driven.lost), (Ok(Completion::Eof), vec![]), "{context}");
                    assert_eq!(fan.taken_bytes(), BYTES as u64, "{context}");
                    if let Some(feed) = feed {
                        feed.join().expect("all was sent");
                    }
                    for (out, arrived) in outs.into_iter().zip(arrived) {
                        assert!(arrived(out) == data, "{context}: other bytes arrived");
                        ended += 1;
                    }
                }
            }
        }
    }
    // The number is held, so that no set is left out in silence: 25 targets, of which 7 are in sets
    // with O_APPEND.
    let by_splice = if choices.contains(&splice) { 18 } else { 0 };
    assert_eq!(ended, 4 * 2 * (25 * 2 + by_splice));
}

/// Between pipes no byte is copied: tee(2) for all but one, splice(2) for the last, which leaves
/// the pipe empty.
#[test]
fn pipes_are_teed_and_the_last_one_is_spliced() {
    needs!(splice);
    needs!(tee);
    // Below 64 KiB: the source's pipe takes all of it before the fan begins.
    let data = pattern(60_000);
    let (near, feed) = source("pipe", &data);
    feed.expect("a feeder").join().expect("there is room for all");
    let (outs, arrived): (Vec<_>, Vec<_>) = (0..3).map(|_| target("pipe")).unzip();
    let targets: Vec<_> = outs.iter().map(AsFd::as_fd).collect();
    let mut fan = fan_of(&near, &targets, &Terms::default());
    let fds = FanFds { source: near.as_fd(), targets: &targets };
    let (end, driven) = drive(&mut fan, fds, u64::MAX, Until::End);
    assert_eq!(end, Ok(Completion::Eof));
    // The second fill answers 0, and a read proves the end.
    let expected = [("fill", 2), ("move", 1), ("read", 1), ("tee", 2)];
    assert_eq!(driven.ops, expected.into_iter().collect());
    for (out, arrived) in outs.into_iter().zip(arrived) {
        assert!(arrived(out) == data, "other bytes arrived");
    }
}

/// The file gets the intake's own pipe: one splice more for the file, and no copy in between.
#[test]
fn the_one_target_that_is_no_pipe_costs_one_splice() {
    needs!(splice);
    needs!(tee);
    for order in [["pipe", "file"], ["file", "pipe"]] {
        let data = pattern(60_000);
        let (near, feed) = source("pipe", &data);
        feed.expect("a feeder").join().expect("there is room for all");
        let (outs, arrived): (Vec<_>, Vec<_>) = order.iter().map(|to| target(to)).unzip();
        let targets: Vec<_> = outs.iter().map(AsFd::as_fd).collect();
        let mut fan = fan_of(&near, &targets, &Terms::default());
        let fds = FanFds { source: near.as_fd(), targets: &targets };
        let (end, driven) = drive(&mut fan, fds, u64::MAX, Until::End);
        assert_eq!(end, Ok(Completion::Eof));
        let expected = [("empty", 1), ("fill", 2), ("read", 1), ("tee", 1)];
        assert_eq!(driven.ops, expected.into_iter().collect(), "{order:?}");
        for (out, arrived) in outs.into_iter().zip(arrived) {
            assert!(arrived(out) == data, "other bytes arrived");
        }
    }
}

/// A page that is in two pipes is not appended to by a writer into one of them.
#[test]
fn what_is_appended_to_one_target_reaches_no_other() {
    let (near, mut feeder) = std::io::pipe().expect("a pipe");
    feeder.write_all(b"shared").expect("room");
    let (mut a, mut into_a) = std::io::pipe().expect("a pipe");
    let (mut b, mut into_b) = std::io::pipe().expect("a pipe");
    {
        let targets = [into_a.as_fd(), into_b.as_fd()];
        let mut fan = fan_of(&near, &targets, &Terms::default());
        let fds = FanFds { source: near.as_fd(), targets: &targets };
        assert_eq!(drive(&mut fan, fds, u64::MAX, Until::Idle(0)).0, Err("idle".to_owned()));
    }
    // The page of the source's writer is not full: a plain write would go on in it.
    feeder.write_all(b" FIRST").expect("room");
    into_a.write_all(b" by a").expect("room");
    into_b.write_all(b" and b").expect("room");
    drop((into_a, into_b));
    let (mut seen_a, mut seen_b) = (String::new(), String::new());
    a.read_to_string(&mut seen_a).expect("text");
    b.read_to_string(&mut seen_b).expect("text");
    assert_eq!((&seen_a[..], &seen_b[..]), ("shared by a", "shared and b"));
}

#[test]
fn a_target_that_nobody_reads_holds_the_others_back_at_one_intake() {
    // The bounds are the intake's: a pipe of 1 MiB, or a buffer of 64 KiB.
    for (terms, bound) in [
        (Terms::default(), 1 << 20),
        (Terms { choice: Choice::Only(MethodName::ReadWrite), ..Terms::default() }, 64 << 10),
    ] {
        let data = pattern(16 << 20);
        let (near, feed) = source("pipe", &data);
        let (fast, fast_arrived) = target("pipe");
        let (mut idle_reader, idle) = std::io::pipe().expect("a pipe");
        let targets = [fast.as_fd(), idle.as_fd()];
        let mut fan = fan_of(&near, &targets, &terms);
        let fds = FanFds { source: near.as_fd(), targets: &targets };
        // Nobody reads, so that the fan has nothing to do once the fast reader has got all it may
        // have.
        let (end, driven) = drive(&mut fan, fds, u64::MAX, Until::Idle(300));
        assert_eq!(end, Err("idle".to_owned()));
        assert!(driven.most_ahead_bytes <= bound, "{driven:?}");
        assert!(driven.most_held_bytes <= bound, "{driven:?}");
        assert!(fan.delivered_bytes(0) <= fan.delivered_bytes(1) + bound);
        let taker = thread::spawn(move || {
            let mut all = Vec::new();
            idle_reader.read_to_end(&mut all).map(|_| all)
        });
        let (end, driven) = drive(&mut fan, fds, u64::MAX, Until::End);
        assert_eq!((end, driven.lost), (Ok(Completion::Eof), vec![]));
        assert!(driven.most_ahead_bytes <= bound && driven.most_held_bytes <= bound);
        drop(idle);
        feed.expect("a feeder").join().expect("all was sent");
        assert!(taker.join().expect("no panic").expect("bytes") == data, "other bytes arrived");
        assert!(fast_arrived(fast) == data, "other bytes arrived");
    }
}

/// A reader that takes so many bytes and leaves.
fn leaving_reader(kind: &str, bytes: usize) -> (OwnedFd, JoinHandle<Vec<u8>>) {
    fn take(mut reader: impl Read, bytes: usize) -> Vec<u8> {
        let mut some = vec![0; bytes];
        reader.read_exact(&mut some).expect("bytes");
        some
    }
    if kind == "pipe" {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        (writer.into(), thread::spawn(move || take(reader, bytes)))
    } else {
        let (near, far) = UnixStream::pair().expect("a pair");
        near.set_nonblocking(true).expect("a flag");
        (near.into(), thread::spawn(move || take(far, bytes)))
    }
}

#[test]
fn a_target_that_fails_is_lost_alone() {
    // Every write to /dev/full fails with ENOSPC, without a file system to fill.
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let data = pattern(BYTES);
    for from in ["file", "pipe", "stream"] {
        for choice in [Choice::Auto, Choice::Only(MethodName::ReadWrite)] {
            for (others, leaving) in [
                (["pipe", "file"], "pipe"),
                (["stream", "append"], "pipe"),
                (["narrow", "pipe"], "stream"),
            ] {
                let context = format!("{from} to {others:?} and a {leaving} by {choice}");
                let (near, feed) = source(from, &data);
                let (outs, arrived): (Vec<_>, Vec<_>) = others
                    .iter()
                    .map(|&to| if to == "narrow" { narrow_pipe() } else { target(to) })
                    .unzip();
                let full = full();
                let (vanishes, reader) = leaving_reader(leaving, 1000);
                // In between, so that lanes before and after them go on.
                let targets = [outs[0].as_fd(), full.as_fd(), vanishes.as_fd(), outs[1].as_fd()];
                let mut fan = fan_of(&near, &targets, &Terms { choice, ..Terms::default() });
                let fds = FanFds { source: near.as_fd(), targets: &targets };
                // In small pieces: all would fit into the pipe of the reader that leaves.
                let (end, mut driven) = drive(&mut fan, fds, 4099, Until::End);
                driven.lost.sort_unstable();
                assert_eq!(
                    (end, &driven.lost[..]),
                    (Ok(Completion::Eof), &[1, 2][..]),
                    "{context}"
                );
                let errno = |target| match fan.failure(target) {
                    Some(Failure::Fault(fault)) => Some(fault.errno),
                    _ => None,
                };
                assert_eq!([1, 2].map(errno), [Some(Errno::NOSPC), Some(Errno::PIPE)], "{context}");
                assert_eq!(fan.delivered_bytes(1), 0, "{context}: /dev/full takes nothing");
                let got = fan.delivered_bytes(2);
                // More than was read: the rest lay in the pipe when the reader left.
                assert!((1000..BYTES as u64).contains(&got), "{context}: {got} bytes");
                assert_eq!(
                    [0, 3].map(|at| fan.delivered_bytes(at)),
                    [BYTES as u64; 2],
                    "{context}"
                );
                if let Some(feed) = feed {
                    feed.join().expect("all was sent");
                }
                assert!(reader.join().expect("no panic") == data[..1000], "{context}");
                drop(fan);
                for (out, arrived) in outs.into_iter().zip(arrived) {
                    assert!(arrived(out) == data, "{context}: other bytes arrived");
                }
            }
        }
    }
}

#[test]
fn a_reader_that_leaves_is_seen_while_the_source_idles() {
    for kind in ["pipe", "stream"] {
        let (near, mut feeder) = std::io::pipe().expect("a pipe");
        feeder.write_all(b"one").expect("room");
        let (out, reader) = leaving_reader(kind, 3);
        let (other, arrived) = target("pipe");
        let targets = [out.as_fd(), other.as_fd()];
        let mut fan = fan_of(&near, &targets, &Terms::default());
        let fds = FanFds { source: near.as_fd(), targets: &targets };
        let (end, driven) = drive(&mut fan, fds, u64::MAX, Until::FirstLost);
        assert_eq!((end, driven.lost), (Err("lost".to_owned()), vec![0]), "{kind}");
        assert!(driven.ops["look"] == 1, "{kind}: {:?}", driven.ops);
        assert_eq!([0, 1].map(|at| fan.delivered_bytes(at)), [3, 3], "{kind}");
        assert!(reader.join().expect("no panic") == b"one", "{kind}");
        feeder.write_all(b" and two").expect("room");
        drop(feeder);
        assert_eq!(drive(&mut fan, fds, u64::MAX, Until::End).0, Ok(Completion::Eof), "{kind}");
        assert!(arrived(other) == b"one and two", "{kind}");
    }
}

#[test]
fn without_a_target_left_nothing_more_is_taken() {
    needs!(splice);
    let (near, mut feeder) = std::io::pipe().expect("a pipe");
    let (reader, out) = std::io::pipe().expect("a pipe");
    drop(reader);
    feeder.write_all(&[7; 5000]).expect("room");
    let targets = [out.as_fd()];
    let mut fan = fan_of(&near, &targets, &Terms { call_bytes: 4096, ..Terms::default() });
    let fds = FanFds { source: near.as_fd(), targets: &targets };
    let (end, driven) = drive(&mut fan, fds, u64::MAX, Until::End);
    assert_eq!((end, driven.lost), (Err("deserted".to_owned()), vec![0]));
    assert_eq!(
        (fan.taken_bytes(), fan.delivered_bytes(0), fan.in_flight_bytes(0)),
        (4096, 0, 4096)
    );
}

/// O_APPEND comes while bytes are under way (fcntl(2)), and splice(2) refuses such a target from
/// then on. Of two such targets one read for both is cheaper than a pipe for each.
#[test]
fn targets_that_begin_to_refuse_splices_get_the_rest_out_of_one_buffer() {
    needs!(splice);
    needs!(tee);
    let (near, mut feeder) = std::io::pipe().expect("a pipe");
    let (outs, arrived): (Vec<_>, Vec<_>) = ["file", "file"].iter().map(|to| target(to)).unzip();
    let targets: Vec<_> = outs.iter().map(AsFd::as_fd).collect();
    let mut fan = fan_of(&near, &targets, &Terms::default());
    let fds = FanFds { source: near.as_fd(), targets: &targets };
    let data = pattern(60_000);
    feeder.write_all(&data[..20_000]).expect("room");
    let (_, driven) = drive(&mut fan, fds, u64::MAX, Until::Idle(0));
    assert_eq!((driven.ops.get("empty"), driven.ops.get("write")), (Some(&2), None));
    for out in &outs {
        rustix::fs::fcntl_setfl(out, rustix::fs::OFlags::APPEND).expect("a flag");
    }
    feeder.write_all(&data[20_000..40_000]).expect("room");
    let (_, driven) = drive(&mut fan, fds, u64::MAX, Until::Idle(0));
    assert_eq!(driven.ops["spill"], 2, "what is in the pipes of both: {:?}", driven.ops);
    feeder.write_all(&data[40_000..]).expect("room");
    drop(feeder);
    let (end, driven) = drive(&mut fan, fds, u64::MAX, Until::End);
    assert_eq!((end, driven.lost), (Ok(Completion::Eof), vec![]));
    assert_eq!(driven.ops, [("read", 2), ("write", 2)].into_iter().collect());
    for (out, arrived) in outs.into_iter().zip(arrived) {
        assert!(arrived(out) == data, "other bytes arrived");
    }
}

/// Lends a number of pipes, and then none.
struct Scant(Shelf, usize);

impl Lender for Scant {
    fn pipe(&mut self) -> Option<PipeLoan> {
        self.1 = self.1.checked_sub(1)?;
        self.0.pipe()
    }

    fn buf(&mut self, bytes: usize) -> Result<Buf, Errno> {
        self.0.buf(bytes)
    }

    fn take_back(&mut self, buf: Buf) {
        self.0.take_back(buf);
    }
}

#[test]
fn where_no_pipe_can_be_had_memory_serves_until_one_can() {
    needs!(splice);
    needs!(tee);
    let (near, mut feeder) = std::io::pipe().expect("a pipe");
    let (outs, arrived): (Vec<_>, Vec<_>) = ["file", "file"].iter().map(|to| target(to)).unzip();
    let targets: Vec<_> = outs.iter().map(AsFd::as_fd).collect();
    let mut fan = fan_of(&near, &targets, &Terms::default());
    let fds = FanFds { source: near.as_fd(), targets: &targets };
    let pool = Pool::new(4 << 20, 8);
    let mut lender = Scant(Shelf::new(pool.clone()), 0);
    let data = pattern(30_000);
    for (piece, (pipes, expected)) in data.chunks(10_000).zip([
        (0, [("read", 2), ("write", 2)].as_slice()),
        // The intake's, and none for the first lane.
        (1, [("fill", 2), ("spill", 1), ("write", 2)].as_slice()),
        (3, [("empty", 2), ("fill", 2), ("tee", 1)].as_slice()),
    ]) {
        feeder.write_all(piece).expect("room");
        lender.1 = pipes;
        let (_, driven) = drive_with(&pool, &mut lender, &mut fan, fds, u64::MAX, Until::Idle(0));
        assert_eq!(driven.ops, expected.iter().copied().collect(), "{pipes} pipes");
    }
    drop(feeder);
    assert_eq!(drive(&mut fan, fds, u64::MAX, Until::End).0, Ok(Completion::Eof));
    for (out, arrived) in outs.into_iter().zip(arrived) {
        assert!(arrived(out) == data, "other bytes arrived");
    }
}

/// A target that fails in the middle is at no other target's cost.
#[test]
fn a_target_that_fails_gets_nothing_more() {
    let (near, mut feeder) = std::io::pipe().expect("a pipe");
    let (mut slow, into_slow) = std::io::pipe().expect("a pipe");
    let (fast, arrived) = target("pipe");
    rustix::pipe::fcntl_setpipe_size(&into_slow, 4096).expect("a size");
    let data = pattern(40_000);
    feeder.write_all(&data).expect("room");
    let targets = [into_slow.as_fd(), fast.as_fd()];
    let mut fan = fan_of(&near, &targets, &Terms::default());
    let fds = FanFds { source: near.as_fd(), targets: &targets };
    assert_eq!(drive(&mut fan, fds, u64::MAX, Until::Idle(100)).0, Err("idle".to_owned()));
    assert_eq!(fan.delivered_bytes(0), 4096);
    fan.learn(FanOp::Look(0), Err(Errno::PIPE));
    feeder.write_all(b"more").expect("room");
    drop(feeder);
    let (end, driven) = drive(&mut fan, fds, u64::MAX, Until::End);
    assert_eq!((end, driven.lost), (Ok(Completion::Eof), vec![0]));
    assert_eq!((fan.delivered_bytes(0), fan.in_flight_bytes(0)), (4096, 40_000 - 4096));
    assert!(arrived(fast) == [&data[..], b"more"].concat(), "other bytes arrived");
    drop(into_slow);
    let mut got = Vec::new();
    slow.read_to_end(&mut got).expect("bytes");
    assert!(got == data[..4096]);
}

#[test]
fn datagrams_stay_whole_at_every_target_and_empty_ones_at_those_that_have_them() {
    let (near, far) = UnixDatagram::pair().expect("a pair");
    let (out, end) = UnixDatagram::pair().expect("a pair");
    let (file, arrived) = target("file");
    near.set_nonblocking(true).expect("a flag");
    let large = pattern(100_000);
    let sent: [&[u8]; 4] = [b"first", b"", &large, b"last"];
    let targets = [out.as_fd(), file.as_fd()];
    let mut fan = fan_of(&near, &targets, &Terms { buffer_bytes: 100, ..Terms::default() });
    let fds = FanFds { source: near.as_fd(), targets: &targets };
    for message in sent {
        far.send(message).expect("room");
    }
    let (ended, driven) = drive(&mut fan, fds, 10, Until::Idle(0));
    assert_eq!((ended, driven.lost), (Err("idle".to_owned()), vec![]));
    let mut buf = vec![0; 200_000];
    for message in sent {
        let got = end.recv(&mut buf).expect("a datagram");
        assert!(&buf[..got] == message, "{got} bytes");
    }
    end.set_nonblocking(true).expect("a flag");
    assert!(end.recv(&mut buf).is_err(), "one more datagram");
    assert!(arrived(file) == sent.concat(), "other bytes arrived");
}

/// The pieces of a stream must fit a datagram, also where only one of the targets is a datagram
/// socket.
#[test]
fn a_stream_becomes_datagrams_at_one_target_and_a_stream_at_the_other() {
    let data = pattern(BYTES);
    let (near, feed) = source("pipe", &data);
    let (out, end) = UnixDatagram::pair().expect("a pair");
    let (pipe, arrived) = target("pipe");
    let taker = thread::spawn(move || {
        let (mut all, mut buf) = (Vec::new(), vec![0; 1 << 20]);
        while all.len() < BYTES {
            let got = end.recv(&mut buf).expect("a datagram");
            assert!((1..=8192).contains(&got), "{got} bytes");
            all.extend_from_slice(&buf[..got]);
        }
        all
    });
    let targets = [pipe.as_fd(), out.as_fd()];
    let mut fan = fan_of(&near, &targets, &Terms::default());
    let fds = FanFds { source: near.as_fd(), targets: &targets };
    assert_eq!(drive(&mut fan, fds, u64::MAX, Until::End).0, Ok(Completion::Eof));
    feed.expect("a feeder").join().expect("all was sent");
    assert!(taker.join().expect("no panic") == data, "other bytes arrived");
    assert!(arrived(pipe) == data, "other bytes arrived");
}
