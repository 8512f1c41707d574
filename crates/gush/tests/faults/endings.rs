//! Refusals and failures at awkward moments, and moves that must be ended while calls make no
//! progress.

use std::time::Duration;

use gush::faults::{Injection, Plan};
use gush::{Call, Cancel, Choice, Control, Errno, MethodName, Mover, Tuning};

use crate::common::{TargetKind, file_methods, file_of, noise, open_target, read_all, within};

/// The source has the bytes still that the refused pipe held: they need not be written, and so the
/// old content is not touched.
#[test]
fn a_method_refused_with_bytes_in_its_pipe_leaves_the_old_content() {
    for method in [MethodName::Splice, MethodName::Vmsplice] {
        let source = file_of(&noise(1, 300_000));
        let target = file_of(&[b'X'; 500_000]);
        let mut splices = 0;
        let guard = Plan::new(move |call, _| {
            splices += usize::from(call == Call::Splice);
            // The first one into the target.
            let into_target = splices == if method == MethodName::Splice { 2 } else { 1 };
            match call == Call::Splice && into_target {
                true => Injection::Fail(Errno::INVAL),
                false => Injection::None,
            }
        })
        .install();
        let by_name = Choice::Only(method);
        let error = Mover::new(&source, &target).replace(true).method(by_name).run().unwrap_err();
        drop(guard);
        assert!(error.is_refused() && error.delivered_bytes() == 0, "{method}: {error}");
        assert!(read_all(&target) == [b'X'; 500_000], "{method}: the old content is not there");
    }
}

/// The read that looks for the end is the source's matter, and another method would make the same
/// read.
#[test]
fn a_read_that_fails_at_the_end_is_no_refusal_of_the_method() {
    for method in [MethodName::Splice, MethodName::Sendfile] {
        for errno in [Errno::PERM, Errno::INVAL, Errno::NOSYS] {
            let source = file_of(&noise(1, 30_000));
            let (target, _reader) = open_target(TargetKind::Pipe).expect("a pipe");
            let guard = Plan::new(move |call, _| match call {
                Call::Read | Call::Pread => Injection::Fail(errno),
                _ => Injection::None,
            })
            .install();
            let moved = Mover::new(&source, &target).method(Choice::Only(method)).run();
            drop(guard);
            let error = moved.expect_err("the end is not proven");
            assert!(!error.is_refused(), "{method}, {errno:?}: {error}");
            let reported = (error.side(), error.errno(), error.delivered_bytes());
            assert_eq!(reported, (Some(gush::Side::Source), Some(errno), 30_000), "{method}");
        }
    }
}

/// Files never answer EAGAIN; a move that meets such a one can be ended all the same.
#[test]
fn a_move_whose_calls_make_no_progress_can_be_cancelled() {
    const LARGE: usize = 20 << 20;
    let cases = [
        (MethodName::ReadWrite, 2, LARGE, Call::Pwrite),
        (MethodName::CopyFileRange, 1, 0, Call::Pread),
    ];
    for (method, threads, len, stuck) in cases {
        let outcome = within(30, &format!("{method} on {threads} threads"), move || {
            let source = file_of(&vec![1; len]);
            let target = file_of(b"");
            let cancel = Cancel::new();
            let canceller = cancel.clone();
            let timer = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(200));
                canceller.cancel();
            });
            let _guard = Plan::new(move |call, _| match call == stuck {
                true => Injection::Fail(Errno::AGAIN),
                false => Injection::None,
            })
            .install();
            let moved = Mover::new(&source, &target)
                .method(Choice::Only(method))
                .threads(threads)
                .cancelled_by(&cancel)
                .run();
            timer.join().expect("the timer");
            moved
        });
        let error = outcome.expect_err("nothing could be moved");
        assert!(error.is_cancelled(), "{method}: {error}");
    }
}

/// Bytes taken from a pipe are delivered before a stop is reported: a stream cannot give them
/// again.
#[test]
fn a_stop_delivers_what_was_taken() {
    for method in [MethodName::ReadWrite, MethodName::Splice, MethodName::Vmsplice] {
        let (source, feeder) = std::io::pipe().expect("a pipe");
        rustix::io::write(&feeder, &noise(1, 40_000)).expect("room");
        let target = file_of(b"");
        // A write that takes a little, once: the observer stops while the rest is in flight.
        let guard = Plan::new(move |call, nth| match (call, nth) {
            (Call::Write | Call::Splice, 0) => Injection::Short(10),
            _ => Injection::None,
        })
        .install();
        let mut observer = |_: &gush::Progress| Control::Stop;
        let tuning = Tuning::default().buffer_bytes(16_384);
        let error = Mover::new(&source, &target)
            .method(Choice::Only(method))
            .tuning(tuning)
            .observe(&mut observer)
            .run()
            .expect_err("it was stopped");
        drop(guard);
        assert!(error.is_stopped() && error.in_flight_bytes() == 0, "{method}: {error}");
        let arrived = read_all(&target);
        assert_eq!(error.delivered_bytes(), arrived.len() as u64, "{method}");
        let mut rest = vec![0; 65_536];
        let left = rustix::io::read(&source, &mut rest).expect("the rest");
        assert_eq!(arrived.len() + left, 40_000, "{method}: bytes are lost");
        assert!([&arrived, &rest[..left]].concat() == noise(1, 40_000), "{method}: other bytes");
    }
}

/// Every kind of method asks between its steps.
#[test]
fn every_method_of_files_calls_the_observer_and_stops() {
    for choice in file_methods().map(Choice::Only) {
        let (source, target) = (file_of(&noise(1, 9 << 20)), file_of(b""));
        let mut asked = 0;
        let mut observer = |_: &gush::Progress| {
            asked += 1;
            Control::Stop
        };
        let moved =
            Mover::new(&source, &target).method(choice).threads(1).observe(&mut observer).run();
        match moved {
            Ok(report) => panic!("{choice}: not stopped: {}", report.explain()),
            Err(error) if error.is_refused() => assert_eq!(error.delivered_bytes(), 0, "{choice}"),
            Err(error) => assert!(error.is_stopped() && asked == 1, "{choice}: {error}, {asked}"),
        }
    }
}

/// An interrupted call is a step of 0 bytes: the observer is asked before the call is made again,
/// so that a signal's handler that only sets a flag ends the move at once.
#[test]
fn an_interrupted_call_lets_the_observer_speak() {
    for method in [MethodName::ReadWrite, MethodName::Splice, MethodName::Sendfile] {
        let (source, target) = (file_of(&noise(1, 5000)), file_of(b""));
        let guard = Plan::new(move |call, nth| match call {
            Call::Read | Call::Splice | Call::Sendfile if nth < 7 => Injection::Fail(Errno::INTR),
            _ => Injection::None,
        })
        .install();
        let mut asked_before = 0;
        let mut observer = |seen: &gush::Progress| {
            asked_before += u64::from(seen.bytes == 0);
            Control::Continue
        };
        let by_name = Choice::Only(method);
        let moved = Mover::new(&source, &target).method(by_name).observe(&mut observer).run();
        drop(guard);
        assert_eq!(moved.expect("a move").bytes, 5000, "{method}");
        assert!(asked_before >= 7, "{method}: asked {asked_before} times before the first byte");
    }
}
