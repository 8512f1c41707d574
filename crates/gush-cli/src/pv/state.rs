//! The state that the moving thread shares with the display: counts, the rate, the end.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use gush::{Cancel, Rate, Unpoisoned};

use super::inspect::{Inspect, Inspector};

/// Why a transfer ends before its input does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StopReason {
    Signal = 1,
    Stall = 2,
    /// The command that was to get the bytes has ended.
    Reader = 3,
}

/// The times in which SIGTSTP had stopped the process.
#[derive(Debug, Default)]
struct Stops {
    /// The length of all stops that have ended.
    before: Duration,
    /// The beginning of the current stop.
    since: Option<Instant>,
}

/// Shared by the moving thread, the display and the signal handlers. No lock here is held for long.
#[derive(Debug)]
pub struct TransferState {
    pub rate: Rate,
    pub cancel: Cancel,
    pub inspector: Inspector,
    bytes: AtomicU64,
    /// Bytes of `--skip` that were read.
    skip_bytes: AtomicU64,
    /// An input was opened.
    has_input: AtomicBool,
    /// 0 is unknown.
    expected: AtomicU64,
    /// The bytes of the inputs, while the number of their lines is estimated; else 0.
    estimated_bytes: AtomicU64,
    started: Instant,
    stops: Mutex<Stops>,
    first: OnceLock<Duration>,
    /// A duplicate of the output, to ask for its unread bytes.
    output: Mutex<Option<OwnedFd>>,
    early: AtomicU8,
    /// The moving thread is in a call that only the end of the process interrupts, such as opening
    /// a FIFO.
    is_blocking: AtomicBool,
}

impl TransferState {
    pub fn new(wanted: Inspect, rate: Rate) -> Self {
        Self {
            rate,
            cancel: Cancel::new(),
            inspector: Inspector::new(wanted),
            bytes: AtomicU64::new(0),
            skip_bytes: AtomicU64::new(0),
            has_input: AtomicBool::new(false),
            expected: AtomicU64::new(0),
            estimated_bytes: AtomicU64::new(0),
            started: Instant::now(),
            stops: Mutex::default(),
            first: OnceLock::new(),
            output: Mutex::default(),
            early: AtomicU8::new(0),
            is_blocking: AtomicBool::new(false),
        }
    }

    /// The state of a process that moves nothing itself.
    pub fn idle() -> Self {
        Self::new(Inspect::default(), Rate::default())
    }

    /// Bytes that have arrived.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn set_bytes(&self, bytes: u64) {
        if bytes > 0 && self.first.get().is_none() {
            let _ = self.first.set(self.elapsed());
        }
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    pub fn set_input(&self) {
        self.has_input.store(true, Ordering::Relaxed);
    }

    pub fn has_input(&self) -> bool {
        self.has_input.load(Ordering::Relaxed)
    }

    pub fn set_skipped(&self, bytes: u64) {
        self.skip_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Grows with every byte that moves, delivered or skipped.
    pub fn moved_bytes(&self) -> u64 {
        self.bytes().wrapping_add(self.skip_bytes.load(Ordering::Relaxed))
    }

    /// Makes [`Self::unread_output_bytes`] ask the output, until [`Self::unwatch_output`].
    pub fn watch_output(&self, output: &impl AsFd) {
        let second = output.as_fd().try_clone_to_owned().ok();
        // Inputs need the last free descriptor more.
        *self.output.lock().unpoisoned() = second.filter(|_| gush_process::has_room());
    }

    /// Closes the duplicate, so that the reader sees the end once the output is closed.
    pub fn unwatch_output(&self) {
        *self.output.lock().unpoisoned() = None;
    }

    /// The bytes in the output's buffer, as far as the kernel counts them.
    pub fn unread_output_bytes(&self) -> u64 {
        self.output.lock().unpoisoned().as_ref().and_then(gush::untaken_bytes).unwrap_or(0)
    }

    /// Bytes or lines, whichever are counted.
    pub fn count(&self) -> u64 {
        if self.inspector.wanted.lines { self.inspector.lines() } else { self.bytes() }
    }

    /// The amount known or estimated beforehand.
    pub fn expected(&self) -> Option<u64> {
        self.known().or_else(|| self.estimate())
    }

    /// The amount known beforehand. An estimate is no limit.
    pub fn known(&self) -> Option<u64> {
        Some(self.expected.load(Ordering::Relaxed)).filter(|&expected| expected > 0)
    }

    pub fn expect(&self, expected: Option<u64>) {
        self.expected.store(expected.unwrap_or(0), Ordering::Relaxed);
    }

    /// Estimates the number of lines from the bytes of the inputs until all have passed.
    pub fn estimate_lines_in(&self, bytes: Option<u64>) {
        self.estimated_bytes.store(bytes.unwrap_or(0), Ordering::Relaxed);
    }

    /// The number of lines, if the rest are as long as those so far.
    fn estimate(&self) -> Option<u64> {
        let all = self.estimated_bytes.load(Ordering::Relaxed);
        let (passed, lines) = (self.bytes(), self.inspector.lines());
        let estimate = u128::from(lines) * u128::from(all) / u128::from(passed.max(1));
        // At least one line, so that the display starts at 0 %.
        (all > 0).then(|| u64::try_from(estimate).unwrap_or(u64::MAX).max(1))
    }

    /// Replaces the estimate by the lines that have passed, unless `-R` has set a size.
    pub fn end_estimate(&self) {
        if self.estimated_bytes.swap(0, Ordering::Relaxed) > 0 {
            let lines = self.inspector.lines();
            let _ = self.expected.compare_exchange(0, lines, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// The time since the start, without that in which the process was stopped.
    pub fn elapsed(&self) -> Duration {
        let stops = self.stops.lock().unpoisoned();
        // A thread that continues before SIGCONT is handled sees the paused clock.
        let now = stops.since.unwrap_or_else(Instant::now);
        now.duration_since(self.started).saturating_sub(stops.before)
    }

    /// Pauses or resumes [`Self::elapsed`].
    pub fn pause_clock(&self, stands: bool) {
        let mut stops = self.stops.lock().unpoisoned();
        let since = std::mem::replace(&mut stops.since, stands.then(Instant::now));
        stops.before += since.map_or(Duration::ZERO, |since| since.elapsed());
    }

    /// When the first byte arrived, after the start.
    pub fn first(&self) -> Option<Duration> {
        self.first.get().copied()
    }

    /// Makes a call that may block without being cancelled; none once the transfer is to end.
    pub fn blocking<T>(&self, call: impl FnOnce() -> T) -> Option<T> {
        // Sequentially consistent with `stop`: this thread sees the stop, or the stopping one sees
        // the call.
        self.is_blocking.store(true, Ordering::SeqCst);
        let answer = self.stop_reason().is_none().then(call);
        self.is_blocking.store(false, Ordering::SeqCst);
        answer
    }

    pub fn is_blocking(&self) -> bool {
        self.is_blocking.load(Ordering::SeqCst)
    }

    /// Ends the transfer. The first reason is kept.
    pub fn stop(&self, why: StopReason) {
        let _ = self.early.compare_exchange(0, why as u8, Ordering::SeqCst, Ordering::SeqCst);
        self.cancel.cancel();
    }

    pub fn stop_reason(&self) -> Option<StopReason> {
        match self.early.load(Ordering::SeqCst) {
            1 => Some(StopReason::Signal),
            2 => Some(StopReason::Stall),
            3 => Some(StopReason::Reader),
            _ => None,
        }
    }
}
