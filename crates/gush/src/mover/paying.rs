//! How many threads pay for one large file: it is moved in parts, each of which is measured.
//!
//! The first part is moved by one thread, the next by several: as many as there are processors, or
//! more where the one slept (`pace.rs`). Several go on if they are faster and worth their processor
//! time. As long as their number stays, parts of several grow: threads are started and waited for
//! between two. One thread moves at most 16 MiB before it is measured again.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::Mover;
use super::drive::{Halt, Move};
use super::parallel::{LEAST_PIECE_BYTES, PIECE_BYTES};
use crate::kernel::Kernel;
use crate::method::MethodName;
use crate::pace::{Pace, Sample};
use crate::sys::thread::{Usage, usage};

/// One thread moves so much, and then twice as much each time, until it has taken [`LONG_ENOUGH`],
/// or has slept for most of [`LONG_ENOUGH_ASLEEP`], or [`MOST_ALONE_BYTES`] are moved.
const FIRST_BYTES: u64 = 128 << 10;
const MOST_ALONE_BYTES: u64 = 16 << 20;
const LONG_ENOUGH: Duration = Duration::from_millis(4);
const LONG_ENOUGH_ASLEEP: Duration = Duration::from_millis(1);

/// The part of a thread that does not sleep, in the measurement of several.
const SHARE_BYTES: u64 = 16 << 20;
/// The part of one that sleeps.
const SLEEPING_SHARE_BYTES: u64 = 1 << 20;

/// Where the number of threads stays, the next part is so many times as large, ...
const GROWTH: u64 = 16;
/// ... up to this: what the file system does may change.
const MOST_PART_BYTES: u64 = 1 << 30;

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

/// What the parts moved so far have shown.
pub(super) struct Paying {
    pace: Pace,
    /// How many threads moved the last part, and how much as many move next.
    threads: usize,
    part_bytes: u64,
}

impl Paying {
    fn begin() -> Self {
        let pace = Pace::rising(Self::processors(), Mover::MOST_THREADS);
        Self { pace, threads: 1, part_bytes: 0 }
    }

    /// Threads that do not sleep: as many as there are processors, up to a number.
    fn processors() -> usize {
        Kernel::get().processors().min(MOST_AWAKE)
    }

    /// The threads for the next part and, where there are several, its size.
    fn next_part(&mut self, left_bytes: u64) -> (usize, u64) {
        let wanted = self.pace.threads();
        let is_awake = wanted <= Self::processors();
        let is_new = wanted != self.threads;
        if is_new {
            self.part_bytes =
                wanted as u64 * if is_awake { SHARE_BYTES } else { SLEEPING_SHARE_BYTES };
        }
        // A thread that is awake has to be worth its start.
        let shares = match is_new && is_awake {
            true => left_bytes / SHARE_BYTES,
            false => left_bytes.div_ceil(LEAST_PIECE_BYTES),
        };
        let shares = usize::try_from(shares).unwrap_or(usize::MAX);
        // A small rest is part of this one.
        let part_bytes =
            if left_bytes < 2 * self.part_bytes { left_bytes } else { self.part_bytes };
        (wanted.min(shares).max(1), part_bytes)
    }

    fn learn(&mut self, part: &Sample) {
        let wanted = self.pace.learn_all(part, part.threads);
        self.threads = part.threads;
        if wanted == part.threads {
            self.part_bytes = (GROWTH * self.part_bytes).min(MOST_PART_BYTES);
        }
    }
}

impl Move<'_> {
    /// Moves up to the goal, or to the source's known end, in parts on as many threads as pay.
    /// `alone` is the method for one thread, `by` that for several.
    pub(super) fn move_on_paying_threads(
        &mut self,
        alone: MethodName,
        by: MethodName,
        goal: Option<u64>,
    ) -> Result<(), Halt> {
        let mut paying = self.paying.take().unwrap_or_else(Paying::begin);
        loop {
            let left_bytes = self.cursor.known_left_bytes(&self.ends, goal);
            if left_bytes == 0 || self.cursor.is_at(goal) {
                break;
            }
            let (threads, part_bytes) = paying.next_part(left_bytes);
            let leave = Leave::take(threads - 1);
            let threads = 1 + leave.0;
            let before_bytes = self.cursor.moved_bytes;
            let part = if threads == 1 {
                self.move_alone(alone, before_bytes + left_bytes)?
            } else {
                let end = Some(before_bytes + part_bytes);
                let watch = SpentBefore::begin(before_bytes);
                let others = self.move_on_threads(by, threads, end)?;
                let part = watch.sample(self.cursor.moved_bytes, others, threads);
                // The source has perhaps ended: one thread finds out.
                if !self.cursor.is_at(end) {
                    break;
                }
                part
            };
            paying.learn(&part);
        }
        self.paying = Some(paying);
        Ok(())
    }

    /// Moves a part on this thread.
    fn move_alone(&mut self, name: MethodName, end: u64) -> Result<Sample, Halt> {
        let watch = SpentBefore::begin(self.cursor.moved_bytes);
        let mut bytes = FIRST_BYTES;
        loop {
            self.move_by(name, Some(end.min(self.cursor.moved_bytes + bytes)))?;
            bytes *= 2;
            let part = watch.sample(self.cursor.moved_bytes, Usage::default(), 1);
            let is_enough = self.cursor.moved_bytes - watch.before_bytes + bytes > MOST_ALONE_BYTES
                || watch.began.elapsed() >= LONG_ENOUGH
                || watch.began.elapsed() >= LONG_ENOUGH_ASLEEP && Pace::mostly_sleeps(&part);
            if is_enough || self.cursor.is_at(Some(end)) {
                return Ok(part);
            }
        }
    }
}

/// What this thread had used before a part.
struct SpentBefore {
    before_bytes: u64,
    began: Instant,
    before: Usage,
}

impl SpentBefore {
    fn begin(before_bytes: u64) -> Self {
        Self { before_bytes, began: Instant::now(), before: usage().unwrap_or_default() }
    }

    /// What this thread and `others`, together `threads`, have done in the part up to now.
    fn sample(&self, moved_bytes: u64, others: Usage, threads: usize) -> Sample {
        let (elapsed, used) = (self.began.elapsed(), usage().unwrap_or_default());
        let used = Usage {
            busy: used.busy.saturating_sub(self.before.busy),
            sleeps: used.sleeps.saturating_sub(self.before.sleeps),
        };
        let wall = elapsed * u32::try_from(threads).unwrap_or(u32::MAX);
        sample(moved_bytes - self.before_bytes, wall, used.plus(others), threads)
    }
}

/// What moved so many bytes, as if they were whole pieces: a first part may be a small part of one.
fn sample(bytes: u64, wall: Duration, used: Usage, threads: usize) -> Sample {
    let pieces = bytes.div_ceil(PIECE_BYTES).max(1);
    let whole = (pieces * PIECE_BYTES) as f64 / bytes.max(1) as f64;
    Sample {
        done: u32::try_from(pieces).unwrap_or(u32::MAX),
        wall: wall.mul_f64(whole),
        busy: used.busy.mul_f64(whole),
        sleeps: (used.sleeps as f64 * whole) as u64,
        threads,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_first_part_is_no_cheap_piece() {
        let ms = Duration::from_millis;
        let used = Usage { busy: ms(1), sleeps: 2 };
        let eighth = sample(PIECE_BYTES / 8, ms(20), used, 1);
        let used = Usage { busy: ms(8), sleeps: 16 };
        assert_eq!(eighth, sample(PIECE_BYTES, ms(160), used, 1));
        assert_eq!((eighth.done, sample(PIECE_BYTES + 1, ms(1), used, 1).done), (1, 2));
    }
}
