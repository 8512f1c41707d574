//! One file on several threads: pieces are handed out in order, and what has arrived is the part
//! before the first piece that is not complete.
//!
//! The calling thread has the first piece. Nobody else begins before a step of it has moved bytes, so that
//! a method that is refused has touched nothing (invariant 3).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use super::drive::SLICE;
use super::job::Job;
use super::space::OpenEnd;
use crate::cancel::Cancel;
use crate::error::Error;
use crate::fault::Fault;
use crate::kernel::Kernel;
use crate::method::{Method, MethodName, Pair, Refusal, Step, Transfer};
use crate::port::Side;
use crate::progress::Control;
use crate::sys::{Call, Counts};
use crate::tuning::Tuning;

/// What a worker takes at a time. When the process is killed, a piece of this size at most can be
/// missing in front of one that arrived; so it is small.
const PIECE_BYTES: u64 = 2 << 20;
/// The buffer of a worker that reads and writes. 512 KiB is a little faster on a fresh machine; where
/// memory is fragmented the folios that such writes ask for make every second copy take twice as long.
const BUFFER_BYTES: usize = 256 << 10;
/// The window of a worker that maps: its whole piece.
const WINDOW_BYTES: usize = 2 << 20;
/// All workers' buffers together (invariant 8).
const BUFFERS_BYTES: usize = 12 << 20;

/// Where a worker left its piece unfinished, counted from the start of the whole range, and why.
struct Halt {
    offset: u64,
    cause: Cause,
}

/// That another worker halted is no cause: a worker that yields to a lower halt leaves none.
enum Cause {
    /// The source may have ended, or the method was refused: one transfer on its own finds out.
    Question,
    Failed(Fault),
    /// The observer said so, or another thread.
    Stopped,
}

/// What the workers share.
struct Range<'fd> {
    method: &'static dyn Method,
    pair: Pair<'fd>,
    tuning: Tuning,
    length: u64,
    next: AtomicU64,
    arrived: AtomicU64,
    /// The lowest halt so far. Nothing is moved behind it, and everything before it is, so that what
    /// has arrived and why it is not more are the same as with one thread.
    limit: AtomicU64,
    stopped: AtomicBool,
    /// Set once the first piece has shown that the method serves, or why it does not.
    shown: OnceLock<()>,
}

/// Lets the other workers go on when the first one ends, by a panic too.
struct ShownOnDrop<'a>(&'a OnceLock<()>);

impl Drop for ShownOnDrop<'_> {
    fn drop(&mut self) {
        let _ = self.0.set(());
    }
}

#[derive(Default)]
struct Work {
    steps: u64,
    calls: Counts,
    halt: Option<Halt>,
}

impl<'fd> Range<'fd> {
    /// Takes pieces until none is left before the limit; `between` is asked between steps.
    fn work(&self, mut between: impl FnMut(u64) -> Control) -> Work {
        let calls_before = Counts::of_this_thread();
        let mut work = Work::default();
        let mut transfer = None;
        while work.halt.is_none() {
            let begin = self.next.fetch_add(PIECE_BYTES, Ordering::Relaxed);
            if begin >= self.length.min(self.limit.load(Ordering::Relaxed)) {
                break;
            }
            work.halt = self.piece(&mut transfer, begin, &mut work.steps, &mut between);
        }
        if let Some(halt) = &work.halt {
            self.limit.fetch_min(halt.offset, Ordering::Relaxed);
        }
        work.calls = Counts::of_this_thread().since(calls_before);
        work
    }

    /// Moves one piece, by the worker's transfer of the piece before if that can be moved on.
    fn piece(
        &self,
        transfer: &mut Option<Box<dyn Transfer + Send + 'fd>>,
        begin: u64,
        steps: &mut u64,
        between: &mut impl FnMut(u64) -> Control,
    ) -> Option<Halt> {
        let end = (begin + PIECE_BYTES).min(self.length);
        let pair = Pair {
            source_at: self.pair.source_at.map(|at| at + begin),
            target_at: self.pair.target_at.map(|at| at + begin),
            length_bytes: Some(end - begin),
            ..self.pair
        };
        if !transfer.as_mut().is_some_and(|transfer| transfer.reposition(&pair)) {
            match self.method.start(&pair, &self.tuning) {
                Ok(started) => *transfer = Some(started),
                Err(_) => return Some(Halt { offset: begin, cause: Cause::Question }),
            }
        }
        let transfer = transfer.as_mut()?;
        let mut offset = begin;
        while offset < end {
            // Asked before the first step too: a piece that was taken is finished or told of.
            if self.stopped.load(Ordering::Relaxed) {
                return Some(Halt { offset, cause: Cause::Stopped });
            }
            if offset >= self.limit.load(Ordering::Relaxed) {
                return None;
            }
            *steps += 1;
            let moved = match transfer.step(end - offset) {
                Step::Moved(bytes) => bytes,
                // Files do not make anybody wait: a method that says so is asked again.
                Step::WouldBlock(_) => {
                    thread::yield_now();
                    0
                }
                Step::Dry | Step::End | Step::Refused(_) => {
                    return Some(Halt { offset, cause: Cause::Question });
                }
                Step::Failed(fault) => {
                    return Some(Halt { offset, cause: Cause::Failed(fault) });
                }
            };
            if moved > 0 && begin == 0 {
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

/// The tuning of one worker of several: its share of the memory that all may take.
fn share(tuning: &Tuning, name: MethodName, threads: usize) -> Tuning {
    let (wanted_bytes, buffers) = match name {
        MethodName::MmapCopy => (WINDOW_BYTES, 2),
        MethodName::MmapWrite | MethodName::ReadMmap => (WINDOW_BYTES, 1),
        _ => (BUFFER_BYTES, 1),
    };
    let bytes = tuning.buffer_or(wanted_bytes).min(BUFFERS_BYTES / threads / buffers);
    tuning.clone().buffer_bytes(bytes)
}

impl Job<'_> {
    /// Moves up to the goal, or to the source's known end, by several transfers of one method.
    pub(super) fn move_in_parallel(
        &mut self,
        name: MethodName,
        goal: Option<u64>,
    ) -> Result<Option<Refusal>, Error> {
        let method = name.method();
        let length = self.known_left_bytes(goal);
        let threads = self.threads_for(name, goal);
        let pair = self.pair_with_offsets(Some(length))?;
        if let Err(refusal) = method.serves(&pair, Kernel::get()) {
            return Ok(Some(refusal));
        }
        let calls_before = Counts::of_this_thread();
        let end = OpenEnd::of(self.target.fd())
            .map_err(|errno| self.failed(Call::Fstat, Side::Target, errno))?;
        if method.traits().needs_target_size
            && let Err(errno) = end.reserve(self.target_at().unwrap_or(0), length)
        {
            return Ok(Some(Refusal::by_kernel(name, Call::Fallocate, errno)));
        }
        let range = Range {
            method,
            pair,
            tuning: share(&self.options.tuning, name, threads),
            length,
            next: AtomicU64::new(0),
            arrived: AtomicU64::new(0),
            limit: AtomicU64::new(u64::MAX),
            stopped: AtomicBool::new(false),
            shown: OnceLock::new(),
        };
        let works = self.work_together(name, &range, threads);
        let first =
            works.iter().filter_map(|work| work.halt.as_ref()).min_by_key(|halt| halt.offset);
        let stopped = range.stopped.load(Ordering::Relaxed);
        let arrived = first.map_or(length, |halt| halt.offset);
        self.skip(arrived);
        let mut calls = Counts::of_this_thread().since(calls_before);
        works.iter().skip(1).for_each(|work| calls.add(work.calls));
        self.record(name, arrived, works.iter().map(|work| work.steps).sum(), threads, calls);
        self.all_seen = false;
        let trimmed = match first {
            Some(_) => end.trim(self.target_at().filter(|_| arrived > 0)),
            None => Ok(()),
        };
        match first.map(|halt| &halt.cause) {
            Some(Cause::Failed(fault)) if self.was_cut(*fault) => {}
            Some(Cause::Failed(fault)) => {
                return Err(Error::failed(*fault).after(self.moved_bytes, 0));
            }
            _ if stopped => return Err(self.stopped(0)),
            _ => {}
        }
        trimmed.map_err(|errno| self.failed(Call::Ftruncate, Side::Target, errno))?;
        self.move_by(name, goal)
    }

    /// Runs the workers; this thread is the first of them, and the one that asks the observer.
    fn work_together(&mut self, name: MethodName, range: &Range<'_>, threads: usize) -> Vec<Work> {
        let before = self.moved_bytes;
        let cancel = self.options.cancel;
        let mut asked = Instant::now();
        thread::scope(|scope| {
            #[cfg(feature = "faults")]
            let plan = crate::sys::faults::active();
            let workers: Vec<_> = (1..threads)
                .filter_map(|_| {
                    #[cfg(feature = "faults")]
                    let plan = plan.clone();
                    let body = move || {
                        #[cfg(feature = "faults")]
                        let _guard = plan.map(crate::sys::faults::Plan::install);
                        range.shown.wait();
                        range.work(|_| {
                            if cancel.is_some_and(Cancel::is_cancelled) {
                                Control::Stop
                            } else {
                                Control::Continue
                            }
                        })
                    };
                    // A thread that cannot be had leaves its share to the others.
                    thread::Builder::new().spawn_scoped(scope, body).ok()
                })
                .collect();
            let shown = ShownOnDrop(&range.shown);
            let mut works = vec![range.work(|arrived| {
                if asked.elapsed() < SLICE {
                    return Control::Continue;
                }
                asked = Instant::now();
                self.moved_bytes = before + arrived;
                self.observe(name)
            })];
            drop(shown);
            self.moved_bytes = before;
            works.extend(workers.into_iter().map(|worker| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }));
            works
        })
    }
}
