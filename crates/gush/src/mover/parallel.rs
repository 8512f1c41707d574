//! One file on several threads: pieces are handed out in order, and what has arrived is the part
//! before the first piece that is not complete.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use rustix::io;

use super::drive::SLICE;
use super::job::Job;
use super::space::OpenEnd;
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

/// Why a worker stopped short of its piece's end, and how far into the whole range it got.
struct Halt {
    offset: u64,
    step: Step,
}

/// What the workers share.
struct Range<'fd> {
    method: &'static dyn Method,
    pair: Pair<'fd>,
    tuning: Tuning,
    length: u64,
    next: AtomicU64,
    arrived: AtomicU64,
    halted: AtomicBool,
}

#[derive(Default)]
struct Work {
    steps: u64,
    calls: Counts,
    halt: Option<Halt>,
}

impl<'fd> Range<'fd> {
    /// Takes pieces until there are none or somebody halted; `between` is asked between steps.
    fn work(&self, mut between: impl FnMut(u64) -> Control) -> Work {
        let calls_before = Counts::of_this_thread();
        let mut work = Work::default();
        let mut transfer = None;
        while work.halt.is_none() && !self.halted.load(Ordering::Relaxed) {
            let begin = self.next.fetch_add(PIECE_BYTES, Ordering::Relaxed);
            if begin >= self.length {
                break;
            }
            work.halt = self.piece(&mut transfer, begin, &mut work.steps, &mut between);
        }
        if work.halt.is_some() {
            self.halted.store(true, Ordering::Relaxed);
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
                Err(refusal) => {
                    let errno = refusal.errno.unwrap_or(io::Errno::NOMEM);
                    let fault = Fault { call: Call::Mmap, side: Side::Target, errno };
                    return Some(Halt { offset: begin, step: Step::Refused(fault) });
                }
            }
        }
        let transfer = transfer.as_mut()?;
        let mut offset = begin;
        while offset < end {
            *steps += 1;
            match transfer.step(end - offset) {
                Step::Moved(bytes) => {
                    offset += bytes;
                    let arrived = self.arrived.fetch_add(bytes, Ordering::Relaxed) + bytes;
                    if between(arrived) == Control::Stop {
                        return Some(Halt { offset, step: Step::Moved(0) });
                    }
                }
                // Files do not make anybody wait: a method that says so is asked again.
                Step::WouldBlock(_) => thread::yield_now(),
                step => return Some(Halt { offset, step }),
            }
            if self.halted.load(Ordering::Relaxed) && offset < end {
                return Some(Halt { offset, step: Step::Moved(0) });
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
            halted: AtomicBool::new(false),
        };
        let works = self.work_together(name, &range, threads);
        let halts = works.iter().filter_map(|work| work.halt.as_ref());
        let first = halts.min_by_key(|halt| (halt.offset, matches!(halt.step, Step::Moved(_))));
        let arrived = first.map_or(length, |halt| halt.offset);
        self.skip(arrived);
        let mut calls = Counts::of_this_thread().since(calls_before);
        works.iter().skip(1).for_each(|work| calls.add(work.calls));
        self.record(name, arrived, works.iter().map(|work| work.steps).sum(), threads, calls);
        self.all_seen = false;
        if arrived < length {
            end.trim(self.target_at().filter(|_| arrived > 0))
                .map_err(|errno| self.failed(Call::Ftruncate, Side::Target, errno))?;
        }
        match first.map(|halt| halt.step) {
            None | Some(Step::Dry | Step::End) => self.move_by(name, goal),
            Some(Step::Refused(fault)) => {
                Ok(Some(Refusal::by_kernel(name, fault.call, fault.errno)))
            }
            Some(Step::Failed(fault)) => Err(Error::failed(fault).after(self.moved_bytes, 0)),
            Some(Step::Moved(_) | Step::WouldBlock(_)) => {
                Err(Error::stopped().after(self.moved_bytes, 0))
            }
        }
    }

    /// Runs the workers; this thread is the first of them, and the one that asks the observer.
    fn work_together(&mut self, name: MethodName, range: &Range<'_>, threads: usize) -> Vec<Work> {
        let before = self.moved_bytes;
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
                        range.work(|_| Control::Continue)
                    };
                    // A thread that cannot be had leaves its share to the others.
                    thread::Builder::new().spawn_scoped(scope, body).ok()
                })
                .collect();
            let mut works = vec![range.work(|arrived| {
                if asked.elapsed() < SLICE {
                    return Control::Continue;
                }
                asked = Instant::now();
                self.moved_bytes = before + arrived;
                self.observe(name)
            })];
            self.moved_bytes = before;
            works.extend(workers.into_iter().map(|worker| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }));
            works
        })
    }
}
