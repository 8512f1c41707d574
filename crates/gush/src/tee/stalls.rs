//! Targets that hold the others back, and for how long.

use std::time::{Duration, Instant};

use crate::flow::NUMBERS;

/// The first look at what a reader has not taken comes after this part of the longest stall.
const FIRST_LOOK: u32 = 4;

/// Since when each target has had no room, and held the others back.
pub(super) struct Stalls {
    most: Option<Duration>,
    each: Vec<Option<Stall>>,
}

/// A target without room, whose reader has taken nothing.
struct Stall {
    since: Instant,
    /// The bytes that the reader had not taken at the last look, as far as the kernel counts them.
    untaken: Option<u64>,
    has_looked: bool,
}

impl Stall {
    fn begin(untaken: Option<u64>, has_looked: bool) -> Self {
        Self { since: Instant::now(), untaken, has_looked }
    }

    /// The time until the next look at the reader.
    fn left(&self, most: Duration) -> Duration {
        let due = if self.has_looked { most } else { most / FIRST_LOOK };
        due.saturating_sub(self.since.elapsed())
    }
}

impl Stalls {
    pub(super) fn new(most: Option<Duration>, targets: usize) -> Self {
        let targets = if most.is_some() { targets } else { 0 };
        Self { most, each: (0..targets).map(|_| None).collect() }
    }

    pub(super) fn waits(&mut self, target: u16) {
        if self.most.is_some() {
            // The first time counts: a wait that another side ends does not begin the stall anew.
            self.each[usize::from(target)].get_or_insert_with(|| Stall::begin(None, false));
        }
    }

    pub(super) fn goes_on(&mut self, target: u16) {
        if self.most.is_some() {
            self.each[usize::from(target)] = None;
        }
    }

    /// The time until a target may have stalled for too long, or is looked at.
    pub(super) fn left(&self) -> Option<Duration> {
        let most = self.most?;
        self.each.iter().flatten().map(|stall| stall.left(most)).min()
    }

    /// Leaves time out of account in which this process was stopped.
    pub(super) fn leave_out(&mut self, time: Duration) {
        self.each.iter_mut().flatten().for_each(|stall| stall.since += time);
    }

    /// How many targets have no room.
    pub(super) fn stalled(&self) -> usize {
        self.each.iter().flatten().count()
    }

    /// Names each target that has stalled for too long, and begins to count anew. A target whose
    /// `untaken` bytes change has a reader, although there is no room for more yet.
    pub(super) fn over(&mut self, untaken: impl Fn(u16) -> Option<u64>, over: &mut dyn FnMut(u16)) {
        let Some(most) = self.most else { return };
        for (target, slot) in NUMBERS.zip(&mut self.each) {
            let Some(stall) = slot.as_mut().filter(|stall| stall.left(most).is_zero()) else {
                continue;
            };
            let left = untaken(target);
            if stall.untaken != left {
                // Before the first look nobody knows when the last of them was taken.
                *stall = Stall::begin(left, true);
            } else if !std::mem::replace(&mut stall.has_looked, true) {
                // The kernel keeps no count, or has none left.
            } else {
                *slot = None;
                over(target);
            }
        }
    }
}
