//! A move on one thread is ended from another: every wait ends (invariant 7), and the bytes taken
//! are delivered or counted (invariant 1).

mod common;

use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use common::{
    Drainer, Ending, STREAMS, SourceKind, TargetKind, WAITS, ends_within, noise, open_source,
    open_target, served_here,
};
use gush::{Cancel, Choice, Error, Holes, MethodName, Mover, Progress, Report, Tuning};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};

/// Not to be sure of anything, but to let the move reach its wait before the cancelling.
const A_WHILE: Duration = Duration::from_millis(60);

#[test]
fn a_move_and_its_error_go_to_another_thread() {
    fn sent<T: Send>() {}
    fn shared<T: Send + Sync + 'static>() {}
    sent::<Mover<'_>>();
    shared::<Error>();
    shared::<Report>();
    shared::<Progress>();
    shared::<Cancel>();
    shared::<Tuning>();
    shared::<gush::Refusals>();
    shared::<gush::pipe::Pool>();
    sent::<gush::pipe::Writer<OwnedFd>>();
    sent::<gush::pipe::Reservoir>();
    sent::<gush::flow::Flow>();
}

/// Runs a move, and cancels it from another thread once `is_time` says so; `None` if the move does
/// not end. A move that ends before, such as a refused one, is cancelled too late.
fn cancelled<T: Send + 'static>(
    is_time: impl Fn() -> bool + Send + 'static,
    run: impl FnOnce(&Cancel) -> T + Send + 'static,
) -> Option<T> {
    let cancel = Cancel::new();
    let canceller = cancel.clone();
    let has_ended = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&has_ended);
    let waiter = thread::spawn(move || {
        while !is_time() && !ended.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        canceller.cancel();
    });
    let outcome = ends_within(60, move || run(&cancel));
    has_ended.store(true, Ordering::Relaxed);
    waiter.join().expect("the canceller");
    outcome
}

/// Has a file so many bytes?
fn has_grown(file: &Arc<File>, bytes: u64) -> impl Fn() -> bool + Send + 'static {
    let file = Arc::clone(file);
    move || file.metadata().expect("fstat").len() >= bytes
}

/// Has a target no room for more?
fn is_full(target: OwnedFd) -> impl Fn() -> bool + Send + 'static {
    move || {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&target, PollFlags::OUT)], Some(&at_once)).expect("poll") == 0
    }
}

#[test]
fn a_move_that_waits_for_an_idle_source_is_cancelled() {
    let mut wrong = Vec::new();
    for kind in SourceKind::CAN_IDLE {
        for choice in served_here(&STREAMS) {
            for wait in WAITS {
                let (source, far) = open_source(kind).expect("a source");
                let far = far.expect("its far end");
                rustix::io::write(&far, b"first\n").expect("room");
                let target = Arc::new(tempfile::tempfile().expect("a file"));
                let outcome = cancelled(has_grown(&target, 6), move |cancel| {
                    let mover = Mover::new(&source, &target).method(choice).wait(wait);
                    mover.cancelled_by(cancel).run()
                });
                match outcome {
                    Some(Err(error))
                        if error.is_cancelled()
                            && error.is_stopped()
                            && error.delivered_bytes() == 6
                            && error.in_flight_bytes() == 0 => {}
                    outcome => wrong.push(format!("{choice} from {kind:?}, {wait:?}: {outcome:?}")),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_move_that_waits_for_a_full_target_is_cancelled_and_counts_every_byte() {
    let targets = [
        TargetKind::Pipe,
        TargetKind::Fifo,
        TargetKind::UnixStream,
        TargetKind::Tcp,
        TargetKind::Terminal,
    ];
    let content = noise(1, 1 << 20);
    let mut wrong = Vec::new();
    for to in targets {
        for choice in served_here(&STREAMS) {
            let name = format!("{choice} into a full {to:?}");
            let (source, filler) = std::io::pipe().expect("a pipe");
            rustix::pipe::fcntl_setpipe_size(&filler, content.len()).expect("a large pipe");
            (&filler).write_all(&content).expect("room for all of it");
            let (target, far) = open_target(to).expect("a target");
            if to == TargetKind::Tcp {
                // So that not all of it is sent.
                set_socket_send_buffer_size(&target, 4096).expect("SO_SNDBUF");
                set_socket_recv_buffer_size(&far, 4096).expect("SO_RCVBUF");
            }
            if to == TargetKind::Pipe || to == TargetKind::Fifo {
                rustix::io::write(&target, &vec![0; 60_000]).expect("a pipe that is nearly full");
            }
            // Only then is a watched move by reference permitted to a socket.
            let is_socket = matches!(to, TargetKind::UnixStream | TargetKind::Tcp);
            rustix::io::ioctl_fionbio(&target, is_socket).expect("O_NONBLOCK");
            let before = if matches!(to, TargetKind::Pipe | TargetKind::Fifo) { 60_000 } else { 0 };
            let small = Tuning::default().pipe_bytes(4096);
            let witness = target.try_clone().expect("dup");
            let outcome = cancelled(is_full(witness), move |cancel| {
                let mover = Mover::new(&source, &target).method(choice).tuning(small);
                (mover.cancelled_by(cancel).run(), source)
            });
            let Some((Err(error), source)) = outcome else {
                wrong.push(format!("{name}: it does not end, or is not cancelled"));
                continue;
            };
            let ending = if to == TargetKind::Terminal { Ending::Idle(25) } else { Ending::Closed };
            let got = Drainer::start(far, ending, false, 1, false).finish();
            let got = &got[before..];
            let left = rustix::io::ioctl_fionread(&source).expect("FIONREAD");
            let reported = error.delivered_bytes() + error.in_flight_bytes() + left;
            if error.delivered_bytes() == 0 {
                wrong.push(format!("{name}: {error}: it was not under way"));
            } else if !error.is_cancelled() || got.len() as u64 != error.delivered_bytes() {
                wrong.push(format!("{name}: {error}, {} arrived", got.len()));
            } else if reported != content.len() as u64 {
                wrong.push(format!("{name}: {error}, {left} are left: {reported} in all"));
            } else if *got != content[..got.len()] {
                wrong.push(format!("{name}: other bytes arrived"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

/// Longer than any machine could copy while the test lasts.
const ENDLESS_BYTES: u64 = 1 << 40;

#[test]
fn a_copy_on_several_threads_is_cancelled_and_ends_after_what_arrived() {
    for threads in [1, 4] {
        let source = tempfile::tempfile().expect("a file");
        source.set_len(ENDLESS_BYTES).expect("a hole");
        let memory = rustix::fs::memfd_create("target", MemfdFlags::CLOEXEC).expect("memfd");
        let target = Arc::new(File::from(memory));
        let written = Arc::clone(&target);
        let outcome = cancelled(has_grown(&target, 8 << 20), move |cancel| {
            let by_name = Choice::Only(MethodName::ReadWrite);
            let mover = Mover::new(&source, &written).method(by_name).holes(Holes::Fill);
            (mover.threads(threads).cancelled_by(cancel).run(), source)
        });
        let (outcome, source) = outcome.expect("it ends");
        let error = outcome.expect_err("nobody copies a tebibyte so fast");
        assert!(error.is_cancelled(), "{threads} threads: {error}");
        assert_eq!(error.in_flight_bytes(), 0, "a file still has its bytes");
        let arrived = error.delivered_bytes();
        assert_eq!(target.metadata().expect("fstat").len(), arrived, "{threads} threads");
        assert_eq!((&source).stream_position().expect("a position"), arrived);
        assert_eq!((&*target).stream_position().expect("a position"), arrived);
    }
}

#[test]
fn a_hole_whose_zeros_are_shown_is_cancelled() {
    for digest in [false, true] {
        let source = common::file_of(b"data");
        File::from(source.try_clone().expect("dup")).set_len(ENDLESS_BYTES).expect("a hole");
        let shown = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&shown);
        let is_time = move || seen.load(Ordering::Relaxed);
        let outcome = cancelled(is_time, move |cancel| {
            let target = tempfile::tempfile().expect("a file");
            let inspect = move |bytes: &[u8]| shown.store(bytes[0] == 0, Ordering::Relaxed);
            let mover = Mover::new(&source, &target).holes(Holes::Keep).digest(digest);
            (mover.inspect(inspect).cancelled_by(cancel).run(), target)
        });
        let (outcome, target) = outcome.expect("it ends");
        let error = outcome.expect_err("nobody looks at a tebibyte so fast");
        assert!(error.is_cancelled(), "{error}");
        assert_eq!(target.metadata().expect("fstat").len(), error.delivered_bytes());
    }
}

#[test]
fn a_move_held_by_its_rate_limit_is_cancelled() {
    let outcome = cancelled(
        || {
            thread::sleep(A_WHILE);
            true
        },
        |cancel| {
            let (zeros, null) =
                (File::open("/dev/zero").unwrap(), File::create("/dev/null").unwrap());
            let rate = gush::Rate::bytes_per_second(1).expect("not 0");
            Mover::new(&zeros, &null).limit(rate).cancelled_by(cancel).run()
        },
    );
    assert!(outcome.expect("it ends").expect_err("no end but this").is_cancelled());
}

#[test]
fn what_was_cancelled_before_moves_nothing() {
    let cancel = Cancel::new();
    cancel.clone().cancel();
    let (source, target) = (common::file_of(b"abc"), common::file_of(b"old"));
    let error = Mover::new(&source, &target).replace(true).cancelled_by(&cancel).run();
    let error = error.expect_err("cancelled");
    assert!(error.is_cancelled() && error.delivered_bytes() == 0, "{error}");
    assert_eq!(error.to_string(), "cancelled from another thread");
    assert_eq!(common::read_all(&target), b"old");
}

/// A datagram is taken whole, and the bytes above the rate are made up for: a pause of fifty
/// minutes here.
#[test]
fn a_long_pause_of_a_rate_limit_is_cancelled() {
    let (source, far) = open_source(SourceKind::UnixDatagram).expect("a source");
    rustix::io::write(far.expect("its far end"), &noise(1, 60_000)).expect("room");
    let target = Arc::new(tempfile::tempfile().expect("a file"));
    let outcome = cancelled(has_grown(&target, 60_000), move |cancel| {
        let rate = gush::Rate::bytes_per_second(20).expect("not 0");
        Mover::new(&source, &target).limit(rate).cancelled_by(cancel).run()
    });
    let error = outcome.expect("it ends").expect_err("no end but this");
    assert!(error.is_cancelled(), "{error}");
    assert_eq!((error.delivered_bytes(), error.in_flight_bytes()), (60_000, 0));
}

/// Another program that shares the socket clears O_NONBLOCK.
#[test]
fn a_move_from_a_socket_that_loses_its_nonblock_is_cancelled() {
    for choice in served_here(&STREAMS) {
        let (source, far) = open_source(SourceKind::Tcp).expect("a socket");
        let far = far.expect("its far end");
        rustix::io::ioctl_fionbio(&source, true).expect("O_NONBLOCK");
        let shared = source.try_clone().expect("the same description");
        let _stays_open = far.try_clone().expect("the far end");
        rustix::io::write(&far, b"first\n").expect("room");
        let target = Arc::new(tempfile::tempfile().expect("a file"));
        let copy = Arc::clone(&target);
        let is_time = move || {
            let is_there = has_grown(&target, 6);
            while !is_there() {
                thread::yield_now();
            }
            rustix::io::ioctl_fionbio(&shared, false).expect("no O_NONBLOCK");
            rustix::io::write(&far, b"second\n").expect("room");
            let is_there = has_grown(&target, 13);
            while !is_there() {
                thread::yield_now();
            }
            thread::sleep(A_WHILE);
            true
        };
        let outcome = cancelled(is_time, move |cancel| {
            let mover = Mover::new(&source, &copy).method(choice);
            mover.cancelled_by(cancel).run()
        });
        let error = outcome.expect("it hangs").expect_err("the peer is there");
        assert!(error.is_cancelled(), "{choice}: {error}");
    }
}
