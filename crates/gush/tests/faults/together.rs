//! The news from one of several threads to the others: a piece failed, the observer stopped the
//! move, or somebody cancelled. Each test keeps the others from getting on by themselves.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;

use gush::faults::{Injection, Plan};
use gush::{Call, Cancel, Choice, Control, Errno, Error, MethodName, Mover, Progress};

use crate::common::{file_of, noise, read_all, within};

/// Ten pieces of 2 MiB, nearly.
const LEN: usize = (20 << 20) - 13;
const PIECE: u64 = 2 << 20;
/// A worker writes a piece in so many calls, of 256 KiB each.
const WRITES_A_PIECE: u64 = 8;
/// Calls in vain of one worker after which the other one has surely finished its next act.
const PATIENCE: u64 = 50_000;

static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| noise(1, LEN));

/// Source and target.
fn files() -> [OwnedFd; 2] {
    [file_of(&CONTENT), file_of(b"")]
}

/// A move on two threads by reading and writing.
fn by_two<'a>([source, target]: &'a [OwnedFd; 2]) -> Mover<'a> {
    Mover::new(source, target).method(Choice::Only(MethodName::ReadWrite)).threads(2)
}

fn assert_arrived(error: &Error, target: &OwnedFd, bytes: u64) {
    assert_eq!((error.delivered_bytes(), error.in_flight_bytes()), (bytes, 0), "{error}");
    assert!(read_all(target) == CONTENT[..bytes as usize], "other bytes arrived");
}

/// The second worker is in a later piece when the first one fails: nothing is written after the
/// failure.
#[test]
fn nothing_is_moved_after_the_piece_in_which_another_thread_failed() {
    let wrote_after = Arc::new(AtomicBool::new(false));
    let wrote = wrote_after.clone();
    let (result, [_, target]) = within(60, "a failure on two threads", move || {
        let first = thread::current().id();
        let (mut writes, mut other_began, mut failed, mut patience) = (0, false, false, PATIENCE);
        let _guard = Plan::new(move |call, _| match call {
            Call::Pwrite if thread::current().id() == first => {
                writes += 1;
                if writes == 1 {
                    return Injection::None;
                }
                failed |= other_began;
                Injection::Fail(if other_began { Errno::NOSPC } else { Errno::INTR })
            }
            Call::Pread | Call::Pwrite if thread::current().id() != first => {
                other_began = true;
                patience -= u64::from(failed && patience > 0);
                if patience > 0 {
                    return Injection::Fail(Errno::INTR);
                }
                wrote.fetch_or(call == Call::Pwrite, Ordering::Relaxed);
                Injection::None
            }
            _ => Injection::None,
        })
        .install();
        let files = files();
        (by_two(&files).run(), files)
    });
    let error = result.expect_err("no space");
    assert_eq!(error.errno(), Some(Errno::NOSPC), "{error}");
    assert!(!wrote_after.load(Ordering::Relaxed), "the other thread went on");
    assert_arrived(&error, &target, PIECE / WRITES_A_PIECE);
}

/// The second worker holds piece 1 and gets nowhere, the first one is further on: only the stop
/// itself can end the second.
#[test]
fn a_stop_by_the_observer_ends_a_thread_that_lags() {
    let (result, [_, target]) = within(60, "a stop on two threads", move || {
        let first = thread::current().id();
        let is_ahead = Arc::new(AtomicBool::new(false));
        let ahead = is_ahead.clone();
        let (mut writes, mut other_began) = (0, false);
        let _guard = Plan::new(move |call, _| {
            if !matches!(call, Call::Pread | Call::Pwrite) {
                return Injection::None;
            }
            if thread::current().id() != first {
                other_began = true;
                return Injection::Fail(Errno::INTR);
            }
            let is_held = writes > 0 && !other_began || writes == WRITES_A_PIECE;
            ahead.store(writes == WRITES_A_PIECE, Ordering::Relaxed);
            writes += u64::from(call == Call::Pwrite && !is_held);
            if is_held { Injection::Fail(Errno::INTR) } else { Injection::None }
        })
        .install();
        let mut observer = |_: &Progress| match is_ahead.load(Ordering::Relaxed) {
            true => Control::Stop,
            false => Control::Continue,
        };
        let files = files();
        (by_two(&files).observe(&mut observer).run(), files)
    });
    let error = result.expect_err("stopped");
    assert!(error.is_stopped() && !error.is_cancelled(), "{error}");
    assert_arrived(&error, &target, PIECE);
}

/// The first worker, who asks the observer, has nothing left to do: the second one sees by itself
/// that the move was cancelled.
#[test]
fn a_thread_that_is_left_alone_is_cancelled() {
    let (result, [_, target]) = within(60, "cancelling one of two threads", move || {
        let first = thread::current().id();
        let cancel = Cancel::new();
        let canceller = cancel.clone();
        let (mut writes, mut alone) = (0, 0);
        let _guard = Plan::new(move |call, _| {
            if !matches!(call, Call::Pread | Call::Pwrite) {
                return Injection::None;
            }
            if thread::current().id() == first {
                writes += u64::from(call == Call::Pwrite);
                alone = 0;
                return Injection::None;
            }
            alone += 1;
            if writes > 4 * WRITES_A_PIECE && alone > PATIENCE {
                canceller.cancel();
            }
            Injection::Fail(Errno::INTR)
        })
        .install();
        let files = files();
        (by_two(&files).cancelled_by(&cancel).run(), files)
    });
    let error = result.expect_err("cancelled");
    assert!(error.is_cancelled(), "{error}");
    let arrived = error.delivered_bytes();
    assert!(arrived >= PIECE && arrived.is_multiple_of(PIECE), "{arrived} bytes");
    assert_arrived(&error, &target, arrived);
}
