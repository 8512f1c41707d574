//! One file on several threads: pieces are handed out in order, and the bytes before the first
//! incomplete piece count as arrived.
//!
//! The calling thread has the first piece, and must move bytes before the others begin, unless the
//! method has moved an earlier part: a refused method has touched nothing (invariant 3).
//!
//! Buffered writes of one file take its inode lock in turn. Two threads that read and write in
//! pieces of 256 KiB take turns at that lock and read in between: about two thirds of the time of
//! copy_file_range, which holds the lock throughout.
//!
//! A halted worker sets a limit: pieces before the limit are finished, nothing after it is begun.
//! The bytes before the lowest failure have arrived then, and this failure is reported, as on one
//! thread; the target is cut there. At a refusal, or at an apparent end of the source, one thread
//! goes on alone from there.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::account::Tally;
use super::drive::{Halt, Move};
use crate::cancel::Cancel;
use crate::fault::Fault;
use crate::flow::{Completion, Failure, Next};
use crate::kernel::Kernel;
use crate::method::{Method, MethodName, Pair, Range, Setup, Start, Step, Streamed};
use crate::port::Side;
use crate::progress::Control;
use crate::report::MethodUse;
use crate::sys::thread::{Usage, usage};
use crate::sys::{Call, CallCounts};

/// The largest piece of one worker. When the process is killed, one piece a worker at most can be
/// missing in front of arrived ones; so pieces are small.
pub(super) const PIECE_BYTES: u64 = 2 << 20;
/// The pieces where there are not enough of those for all workers: one buffer.
pub(super) const LEAST_PIECE_BYTES: u64 = BUFFER_BYTES as u64;
/// The buffer of a worker. 512 KiB is a little faster on a fresh machine, and takes twice as long
/// every second time where memory is fragmented.
const BUFFER_BYTES: usize = 256 << 10;
/// The window of a mapping worker: a whole piece.
const WINDOW_BYTES: usize = 2 << 20;
/// All workers' buffers together (invariant 8).
const BUFFERS_BYTES: usize = 12 << 20;

/// Where a worker left a piece unfinished, counted from the start of the whole range, and why.
struct Unfinished {
    offset: u64,
    cause: HaltCause,
}

/// Another worker's halt is no cause: a worker that yields to a lower halt leaves none.
enum HaltCause {
    /// The source may have ended, or the method was refused: one thread alone finds out.
    Question,
    Failed(Fault),
    /// The observer said so, or another thread.
    Stopped,
}

/// The state shared by the workers.
struct Shared<'fd> {
    method: &'static dyn Method,
    pair: Pair<'fd>,
    setup: Setup,
    length: u64,
    piece_bytes: u64,
    next: AtomicU64,
    arrived: AtomicU64,
    /// The lowest halt so far. Nothing after it is moved, and everything before it, so that counts
    /// and cause are those of one thread.
    limit: AtomicU64,
    stopped: AtomicBool,
    /// Set once the first piece, or an earlier part, has shown that the method serves.
    shown: OnceLock<()>,
}

/// Lets the other workers go on when the first one ends, and ends them where it panics.
struct ShownOnDrop<'a> {
    shared: &'a Shared<'a>,
    has_panicked: bool,
}

impl Drop for ShownOnDrop<'_> {
    fn drop(&mut self) {
        // Nobody hears of the others' progress, and the method may not have shown that it serves
        // (invariant 3).
        if self.has_panicked {
            self.shared.stopped.store(true, Ordering::Relaxed);
        }
        // An error says that another worker was first, and one is enough.
        let _ = self.shared.shown.set(());
    }
}

#[derive(Default)]
struct Work {
    steps: u64,
    calls: CallCounts,
    halt: Option<Unfinished>,
    /// The thread's own, but for the calling thread.
    used: Usage,
}

impl<'fd> Shared<'fd> {
    /// Takes pieces until none is left before the limit; `between` is asked between steps.
    fn work(&self, mut between: impl FnMut(u64) -> Control) -> Work {
        let tally = Tally::begin();
        let mut work = Work::default();
        let mut start = None;
        while work.halt.is_none() {
            // Relaxed: only the number counts, no memory is passed on with a piece.
            let begin = self.next.fetch_add(self.piece_bytes, Ordering::Relaxed);
            if begin >= self.length.min(self.limit.load(Ordering::Relaxed)) {
                break;
            }
            work.halt = self.piece(&mut start, begin, &mut work.steps, &mut between);
        }
        if let Some(halt) = &work.halt {
            self.limit.fetch_min(halt.offset, Ordering::Relaxed);
        }
        work.calls = tally.calls();
        work
    }

    /// Moves one piece, with the means of the worker's piece before if they can be used again.
    fn piece(
        &self,
        start: &mut Option<Start<'fd>>,
        begin: u64,
        steps: &mut u64,
        between: &mut impl FnMut(u64) -> Control,
    ) -> Option<Unfinished> {
        let end = (begin + self.piece_bytes).min(self.length);
        let pair = Pair {
            source_at: self.pair.source_at.map(|at| at + begin),
            target_at: self.pair.target_at.map(|at| at + begin),
            length_bytes: Some(end - begin),
            expected_bytes: Some(end - begin),
            ..self.pair
        };
        let is_ready = match start {
            None => false,
            Some(Start::Flow(streamed)) => streamed.reposition(&pair),
            Some(Start::Range(range)) => range.reposition(&pair),
        };
        if !is_ready {
            match self.method.start(&pair, &self.setup) {
                Ok(started) => *start = Some(started),
                Err(_) => return Some(Unfinished { offset: begin, cause: HaltCause::Question }),
            }
        }
        let mut offset = begin;
        while offset < end {
            // Asked before the first step too: a piece that was taken is finished or reported.
            if self.stopped.load(Ordering::Relaxed) {
                return Some(Unfinished { offset, cause: HaltCause::Stopped });
            }
            if offset >= self.limit.load(Ordering::Relaxed) {
                return None;
            }
            *steps += 1;
            let moved = match start.as_mut()? {
                Start::Flow(streamed) => advance(streamed),
                Start::Range(range) => step(range.as_mut(), end - offset),
            };
            let moved = match moved {
                Ok(moved) => moved,
                Err(cause) => return Some(Unfinished { offset, cause }),
            };
            if moved > 0 && begin == 0 {
                // An error says that another worker was first, and one is enough.
                let _ = self.shown.set(());
            }
            offset += moved;
            let arrived = self.arrived.fetch_add(moved, Ordering::Relaxed) + moved;
            if between(arrived) == Control::Stop {
                self.stopped.store(true, Ordering::Relaxed);
            }
        }
        None
    }
}

/// Makes one call of the flow, and answers how many bytes arrived.
fn advance(streamed: &mut Streamed<'_>) -> Result<u64, HaltCause> {
    match streamed.flow.next(u64::MAX, &mut streamed.buffers) {
        Next::Do(op) => {
            let answer = streamed.flow.perform(op, streamed.fds);
            Ok(streamed.flow.learn(op, answer, &mut ()).delivered_bytes)
        }
        // Files do not make anybody wait: one that says so is asked again.
        Next::Wait(_) | Next::Throttled => {
            thread::yield_now();
            Ok(0)
        }
        // Early for this piece: whether the file ends here is decided on one thread, in order.
        Next::Ended(Completion::Eof | Completion::Limit) => Err(HaltCause::Question),
        Next::Failed(failure) => Err(match *failure {
            Failure::Fault(fault) => HaltCause::Failed(fault),
            // Bytes of other pieces may have arrived, so this is no refusal: one thread asks again.
            Failure::Refused(_) | Failure::FalseEnd(_) => HaltCause::Question,
        }),
    }
}

/// One step of a range, and how many bytes arrived.
fn step(range: &mut dyn Range, most_bytes: u64) -> Result<u64, HaltCause> {
    match range.step(most_bytes) {
        Step::Moved(bytes) => Ok(bytes),
        Step::WouldBlock(_) => {
            thread::yield_now();
            Ok(0)
        }
        Step::Dry | Step::End | Step::Refused(_) => Err(HaltCause::Question),
        Step::Failed(fault) => Err(HaltCause::Failed(fault)),
    }
}

/// The size of pieces, in whole buffers: as many pieces for each thread, so that none waits for
/// another's last one.
fn piece_bytes(length: u64, threads: usize) -> u64 {
    let share = length.div_ceil(threads as u64);
    let even = share.div_ceil(share.div_ceil(PIECE_BYTES).max(1));
    even.next_multiple_of(LEAST_PIECE_BYTES).clamp(LEAST_PIECE_BYTES, PIECE_BYTES)
}

/// The setup of one worker of several: a share of the memory for all.
fn share(setup: &Setup, name: MethodName, threads: usize) -> Setup {
    let (usual_bytes, buffers) = match name {
        // Two windows, one onto each file.
        MethodName::MmapCopy => (WINDOW_BYTES, 2),
        MethodName::MmapWrite | MethodName::ReadMmap => (WINDOW_BYTES, 1),
        _ => (BUFFER_BYTES, 1),
    };
    // A power of two: a server is asked for one, and a buffer of 192 KiB would take two requests.
    let most_bytes = 1 << (BUFFERS_BYTES / threads / buffers).ilog2();
    setup.sharing(usual_bytes, most_bytes)
}

impl Move<'_> {
    /// Moves up to the goal, or to the source's known end, on several threads, and returns what
    /// the others have used. One thread then moves the rest and proves the end.
    pub(super) fn move_on_threads(
        &mut self,
        name: MethodName,
        threads: usize,
        goal: Option<u64>,
    ) -> Result<Usage, Halt> {
        let method = name.method();
        let length = self.cursor.known_left_bytes(&self.ends, goal);
        let pair =
            self.cursor.pair_at_offsets(&self.ends, Some(self.cursor.moved_bytes + length))?;
        method.serves(&pair, Kernel::get())?;
        let tally = Tally::begin();
        let end = self.reserved_end(name, length)?;
        let shared = Shared {
            method,
            pair,
            setup: share(&self.setup, name, threads),
            length,
            piece_bytes: piece_bytes(length, threads),
            next: AtomicU64::new(0),
            arrived: AtomicU64::new(0),
            limit: AtomicU64::new(u64::MAX),
            stopped: AtomicBool::new(false),
            shown: OnceLock::new(),
        };
        if self.account.has_used(name) {
            shared.shown.get_or_init(|| ());
        }
        let works = self.work_together(name, &shared, threads);
        let first =
            // The lowest: all before it has arrived, as on one thread.
            works.iter().filter_map(|work| work.halt.as_ref()).min_by_key(|halt| halt.offset);
        let stopped = shared.stopped.load(Ordering::Relaxed);
        let bytes = first.map_or(length, |halt| halt.offset);
        self.cursor.skip(bytes);
        let mut calls = tally.calls();
        // The first work is this thread's own, whose calls the tally has.
        works.iter().skip(1).for_each(|work| calls.add(&work.calls));
        let steps = works.iter().map(|work| work.steps).sum();
        let used = works.iter().map(|work| work.used).fold(Usage::default(), Usage::plus);
        self.account.record(MethodUse { name, bytes, steps, threads, calls });
        let trimmed = match first {
            Some(_) => end.trim(self.cursor.target_at().filter(|_| bytes > 0)),
            None => Ok(()),
        };
        match first.map(|halt| &halt.cause) {
            Some(HaltCause::Failed(fault)) if self.was_cut(*fault) => {}
            Some(HaltCause::Failed(fault)) => return Err(self.cursor.after(*fault, 0).into()),
            _ if stopped => return Err(self.stopped(0).into()),
            _ => {}
        }
        trimmed.map_err(|errno| self.cursor.failed(Call::Ftruncate, Side::Target, errno))?;
        Ok(used)
    }

    /// Runs the workers; this thread is the first of them, and asks the observer.
    fn work_together(
        &mut self,
        name: MethodName,
        shared: &Shared<'_>,
        threads: usize,
    ) -> Vec<Work> {
        let before_bytes = self.cursor.moved_bytes;
        let cancel = self.watch.canceller();
        thread::scope(|scope| {
            // A plan of faults follows the calls of the move.
            #[cfg(feature = "faults")]
            let plan = crate::sys::faults::active();
            let workers: Vec<_> = (1..threads)
                .filter_map(|_| {
                    #[cfg(feature = "faults")]
                    let plan = plan.clone();
                    let body = move || {
                        #[cfg(feature = "faults")]
                        let _guard = plan.map(crate::sys::faults::Plan::install);
                        // Nobody writes before the method has served (invariant 3).
                        shared.shown.wait();
                        let work = shared.work(|_| {
                            if cancel.is_some_and(Cancel::is_cancelled) {
                                Control::Stop
                            } else {
                                Control::Continue
                            }
                        });
                        Work { used: usage().unwrap_or_default(), ..work }
                    };
                    // A thread that cannot be had leaves its share to the others.
                    thread::Builder::new().spawn_scoped(scope, body).ok()
                })
                .collect();
            // Also where the first piece panics or fails: the other threads must not wait for ever.
            let mut shown = ShownOnDrop { shared, has_panicked: true };
            let mut works = vec![shared.work(|arrived| {
                if !self.watch.is_due() {
                    return Control::Continue;
                }
                self.cursor.moved_bytes = before_bytes + arrived;
                self.ask(name).map_or(Control::Stop, |()| Control::Continue)
            })];
            shown.has_panicked = false;
            drop(shown);
            self.cursor.moved_bytes = before_bytes;
            works.extend(workers.into_iter().map(|worker| {
                // A panic in an observer is the caller's own, whichever thread it happened on.
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }));
            works
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_have_as_many_pieces_of_whole_buffers() {
        const MIB: u64 = 1 << 20;
        for (length, threads, expected) in [
            (1 << 30, 2, PIECE_BYTES),
            (64 * MIB, 64, MIB),
            // Of 2 MiB some threads would have a fourth and the others none.
            (448 * MIB, 64, 7 * MIB / 4),
            (448 * MIB + 1, 64, PIECE_BYTES),
            (16 * MIB - LEAST_PIECE_BYTES / 2, 64, LEAST_PIECE_BYTES),
            (1, 64, LEAST_PIECE_BYTES),
        ] {
            assert_eq!(piece_bytes(length, threads), expected, "{length} on {threads}");
        }
    }
}
