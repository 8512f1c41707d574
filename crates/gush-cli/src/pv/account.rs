//! The state that the moving thread shares with the display: counts, the rate, the end.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use gush::{Cancel, Rate};

use super::seen::{Observed, Wanted};

/// The reason why a transfer is to end before the input does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Early {
    Signal = 1,
    Stall = 2,
    /// The command that was to get the bytes has ended.
    Reader = 3,
}

/// When SIGTSTP had stopped the process.
#[derive(Debug, Default)]
struct Stops {
    /// Stops that have ended, together.
    before: Duration,
    /// The beginning of the stop that has not ended.
    since: Option<Instant>,
}

/// Shared by the moving thread, the display and the signals. Nobody waits for anybody here.
#[derive(Debug)]
pub struct Account {
    pub rate: Rate,
    pub cancel: Cancel,
    pub observed: Observed,
    bytes: AtomicU64,
    /// Bytes read and left out.
    left_out_bytes: AtomicU64,
    /// An input was opened.
    has_input: AtomicBool,
    /// 0 stands for unknown.
    expected: AtomicU64,
    /// The bytes of the inputs, while the number of their lines is estimated; else 0.
    estimated_bytes: AtomicU64,
    started: Instant,
    stops: Mutex<Stops>,
    first: OnceLock<Duration>,
    /// A second descriptor of the output, where it is asked whether the reader lives.
    output: Mutex<Option<OwnedFd>>,
    early: AtomicU8,
    /// The moving thread waits in a call that only a death ends, such as the opening of a FIFO.
    is_held: AtomicBool,
    counts_lines: bool,
}

impl Account {
    pub fn new(observed: Observed, counts_lines: bool, rate: Rate) -> Self {
        Self {
            rate,
            cancel: Cancel::new(),
            observed,
            bytes: AtomicU64::new(0),
            left_out_bytes: AtomicU64::new(0),
            has_input: AtomicBool::new(false),
            expected: AtomicU64::new(0),
            estimated_bytes: AtomicU64::new(0),
            started: Instant::now(),
            stops: Mutex::default(),
            first: OnceLock::new(),
            output: Mutex::default(),
            early: AtomicU8::new(0),
            is_held: AtomicBool::new(false),
            counts_lines,
        }
    }

    /// The account of a program that moves nothing itself.
    pub fn of_nothing() -> Self {
        Self::new(Observed::new(Wanted::default()), false, Rate::default())
    }

    /// Bytes that have arrived.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// From now on so many bytes have arrived.
    pub fn set_bytes(&self, bytes: u64) {
        if bytes > 0 && self.first.get().is_none() {
            let _ = self.first.set(self.elapsed());
        }
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// An input was opened, so that there is a transfer to show.
    pub fn set_input(&self) {
        self.has_input.store(true, Ordering::Relaxed);
    }

    pub fn has_input(&self) -> bool {
        self.has_input.load(Ordering::Relaxed)
    }

    /// From now on so many bytes were read and left out.
    pub fn set_left_out(&self, bytes: u64) {
        self.left_out_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Grows with every byte that moves, delivered or left out.
    pub fn stirred_bytes(&self) -> u64 {
        self.bytes().wrapping_add(self.left_out_bytes.load(Ordering::Relaxed))
    }

    /// The output is asked for its [`untaken_bytes`](Self::untaken_bytes) until
    /// [`Self::leave_output`].
    pub fn watch_output(&self, output: &impl AsFd) {
        let second = output.as_fd().try_clone_to_owned().ok();
        // An input needs a descriptor more than the look does.
        *self.output() = second.filter(|_| gush_process::has_room());
    }

    /// The output may be closed, and its reader see the end.
    pub fn leave_output(&self) {
        *self.output() = None;
    }

    /// The bytes in the output's buffer, as far as the kernel counts them.
    pub fn untaken_bytes(&self) -> u64 {
        self.output().as_ref().and_then(gush::untaken_bytes).unwrap_or(0)
    }

    fn output(&self) -> MutexGuard<'_, Option<OwnedFd>> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does nothing move because of the rate?
    pub fn is_limited(&self) -> bool {
        self.rate.holds()
    }

    /// Bytes or lines, whichever are counted.
    pub fn count(&self) -> u64 {
        if self.counts_lines { self.observed.lines() } else { self.bytes() }
    }

    /// The amount known or estimated beforehand.
    pub fn expected(&self) -> Option<u64> {
        let known = Some(self.expected.load(Ordering::Relaxed)).filter(|&expected| expected > 0);
        known.or_else(|| self.estimate())
    }

    pub fn expect(&self, expected: Option<u64>) {
        self.expected.store(expected.unwrap_or(0), Ordering::Relaxed);
    }

    /// Until all lines have passed, their number is estimated from the bytes of the inputs.
    pub fn estimate_lines_in(&self, bytes: Option<u64>) {
        self.estimated_bytes.store(bytes.unwrap_or(0), Ordering::Relaxed);
    }

    /// All the lines, if those to come are as long as those that have passed.
    fn estimate(&self) -> Option<u64> {
        let all = self.estimated_bytes.load(Ordering::Relaxed);
        let (passed, lines) = (self.bytes(), self.observed.lines());
        let estimate = u128::from(lines) * u128::from(all) / u128::from(passed.max(1));
        // One line at least: nothing has passed of an unknown number, and that is 0 %.
        (all > 0).then(|| u64::try_from(estimate).unwrap_or(u64::MAX).max(1))
    }

    /// Everything has passed: the lines are those that have, unless `-R` has set a size.
    pub fn end_estimate(&self) {
        if self.estimated_bytes.swap(0, Ordering::Relaxed) > 0 {
            let lines = self.observed.lines();
            let _ = self.expected.compare_exchange(0, lines, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// The time since the start, but for that in which the process was stopped.
    pub fn elapsed(&self) -> Duration {
        let stops = self.stops();
        // A thread that goes on before the end of the stop is told sees the clock as it stood.
        let now = stops.since.unwrap_or_else(Instant::now);
        now.duration_since(self.started).saturating_sub(stops.before)
    }

    /// The clock stands from now on, or goes on.
    pub fn stop_clock(&self, stands: bool) {
        let mut stops = self.stops();
        let since = std::mem::replace(&mut stops.since, stands.then(Instant::now));
        stops.before += since.map_or(Duration::ZERO, |since| since.elapsed());
    }

    fn stops(&self) -> MutexGuard<'_, Stops> {
        self.stops.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the first byte arrived, after the start.
    pub fn first(&self) -> Option<Duration> {
        self.first.get().copied()
    }

    /// Makes a call that may wait without looking whether the transfer is to end; nothing once the transfer is to end.
    pub fn held_by<T>(&self, call: impl FnOnce() -> T) -> Option<T> {
        // In one order with `end_early`: either this thread sees the end, or the other sees that this one is held.
        self.is_held.store(true, Ordering::SeqCst);
        let answer = self.ended_early().is_none().then(call);
        self.is_held.store(false, Ordering::SeqCst);
        answer
    }

    pub fn is_held(&self) -> bool {
        self.is_held.load(Ordering::SeqCst)
    }

    /// Ends the transfer. The first reason counts.
    pub fn end_early(&self, why: Early) {
        let _ = self.early.compare_exchange(0, why as u8, Ordering::SeqCst, Ordering::SeqCst);
        self.cancel.cancel();
    }

    pub fn ended_early(&self) -> Option<Early> {
        match self.early.load(Ordering::SeqCst) {
            1 => Some(Early::Signal),
            2 => Some(Early::Stall),
            3 => Some(Early::Reader),
            _ => None,
        }
    }
}
