//! How many threads pay for one large file: its first parts are measured.
//!
//! The first part is moved by one thread, the next by several: as many as there are processors, or
//! more where the one slept (`pace.rs`). Several go on if they are faster and worth their processor
//! time; then no clock is read any more.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::Mover;
use super::drive::{Halt, Move};
use super::parallel::PIECE_BYTES;
use crate::kernel::Kernel;
use crate::method::MethodName;
use crate::pace::{Pace, Sample};
use crate::sys::thread::{Usage, usage};

/// One thread moves so much, and then twice as much each time, until it has taken [`LONG_ENOUGH`] or
/// [`MOST_ALONE_BYTES`] are moved: a slow source has shown itself soon.
const FIRST_BYTES: u64 = 512 << 10;
const MOST_ALONE_BYTES: u64 = 16 << 20;
const LONG_ENOUGH: Duration = Duration::from_millis(4);

/// The part of a thread that does not sleep, in the measurement of several.
const SHARE_BYTES: u64 = 16 << 20;

/// Threads that wait for the same memory, disk or lock: as many as gained anything.
const MOST_AWAKE: usize = 4;

/// The threads started by all moves of this process that measure. Moves of many large files at the
/// same time share them, and their memory.
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// Threads that may be started, given back when dropped.
struct Leave(usize);

impl Leave {
    /// At most `wanted`.
    fn take(wanted: usize) -> Self {
        let granted = |started: usize| wanted.min(Mover::MOST_THREADS.saturating_sub(started));
        // Relaxed: only the number counts.
        let before = STARTED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |started| {
            Some(started + granted(started))
        });
        Self(before.map_or(0, granted))
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        STARTED.fetch_sub(self.0, Ordering::Relaxed);
    }
}

impl Move<'_> {
    /// Moves as much as several threads that pay can: all up to the goal, or a first part only.
    /// `alone` is the method for one thread, `by` that for several.
    pub(super) fn move_on_paying_threads(
        &mut self,
        alone: MethodName,
        by: MethodName,
        goal: Option<u64>,
    ) -> Result<(), Halt> {
        let threads = match self.paying_threads {
            Some(threads) => threads,
            None => {
                let found = self.measure_threads(alone, by, goal)?;
                *self.paying_threads.insert(found)
            }
        };
        let leave = Leave::take(threads.saturating_sub(1));
        if leave.0 > 0 && !self.cursor.is_at(goal) {
            self.move_on_threads(by, 1 + leave.0, goal)?;
        }
        Ok(())
    }

    fn measure_threads(
        &mut self,
        alone: MethodName,
        by: MethodName,
        goal: Option<u64>,
    ) -> Result<usize, Halt> {
        let processors = Kernel::get().processors().min(MOST_AWAKE);
        let mut pace = Pace::rising(processors, Mover::MOST_THREADS);
        let alone = self.measured(1, |moving| moving.move_alone(alone, goal))?;
        let (mut found, mut wanted) = (1, pace.learn_all(&alone, 1));
        while wanted > found && !self.cursor.is_at(goal) {
            let share = if wanted > processors { PIECE_BYTES } else { SHARE_BYTES };
            let shares = self.cursor.known_left_bytes(&self.ends, goal) / share;
            let shares = usize::try_from(shares).unwrap_or(usize::MAX);
            let leave = Leave::take(wanted.min(shares).saturating_sub(1));
            let threads = 1 + leave.0;
            if threads <= found {
                break;
            }
            let part = Some(self.cursor.moved_bytes + threads as u64 * share);
            let part =
                self.measured(threads, |moving| moving.move_on_threads(by, threads, part))?;
            wanted = pace.learn_all(&part, threads);
            found = wanted.min(threads);
        }
        Ok(found)
    }

    /// Moves the first part on this thread.
    fn move_alone(&mut self, name: MethodName, goal: Option<u64>) -> Result<Usage, Halt> {
        let (before_bytes, began) = (self.cursor.moved_bytes, Instant::now());
        let mut bytes = FIRST_BYTES;
        loop {
            let end = self.cursor.moved_bytes + bytes;
            self.move_by(name, Some(goal.map_or(end, |goal| goal.min(end))))?;
            bytes *= 2;
            let next_bytes = self.cursor.moved_bytes - before_bytes + bytes;
            let is_enough = next_bytes > MOST_ALONE_BYTES || began.elapsed() >= LONG_ENOUGH;
            if is_enough || self.cursor.is_at(goal) {
                return Ok(Usage::default());
            }
        }
    }

    /// What `threads` have done in a part, this thread and others, whose usage `part` returns.
    fn measured(
        &mut self,
        threads: usize,
        part: impl FnOnce(&mut Self) -> Result<Usage, Halt>,
    ) -> Result<Sample, Halt> {
        let before_bytes = self.cursor.moved_bytes;
        let (began, before) = (Instant::now(), usage().unwrap_or_default());
        let others = part(self)?;
        let (elapsed, used) = (began.elapsed(), usage().unwrap_or_default());
        let pieces = (self.cursor.moved_bytes - before_bytes).div_ceil(PIECE_BYTES);
        Ok(Sample {
            done: u32::try_from(pieces).unwrap_or(u32::MAX),
            wall: elapsed * u32::try_from(threads).unwrap_or(u32::MAX),
            busy: used.busy.saturating_sub(before.busy) + others.busy,
            sleeps: used.sleeps.saturating_sub(before.sleeps) + others.sleeps,
            threads,
        })
    }
}
