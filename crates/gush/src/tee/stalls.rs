//! Targets that hold the others back, and for how long.

use std::time::{Duration, Instant};

use crate::flow::NUMBERS;

/// Since when each target has had no room, and held the others back.
pub(super) struct Stalls {
    most: Option<Duration>,
    since: Vec<Option<Instant>>,
}

impl Stalls {
    pub(super) fn new(most: Option<Duration>, targets: usize) -> Self {
        Self { most, since: vec![None; if most.is_some() { targets } else { 0 }] }
    }

    pub(super) fn waits(&mut self, target: u16) {
        if self.most.is_some() {
            // The first time counts: a wait that another side ends does not begin the stall anew.
            self.since[usize::from(target)].get_or_insert_with(Instant::now);
        }
    }

    pub(super) fn goes_on(&mut self, target: u16) {
        if self.most.is_some() {
            self.since[usize::from(target)] = None;
        }
    }

    /// The time until a target has stalled for too long.
    pub(super) fn left(&self) -> Option<Duration> {
        let most = self.most?;
        let stalls = self.since.iter().flatten();
        stalls.map(|since| most.saturating_sub(since.elapsed())).min()
    }

    /// How many targets have no room.
    pub(super) fn stalled(&self) -> usize {
        self.since.iter().flatten().count()
    }

    /// Names each target that has stalled for too long, and begins to count anew.
    pub(super) fn over(&mut self, each: &mut dyn FnMut(u16)) {
        let Some(most) = self.most else { return };
        for (target, since) in NUMBERS.zip(&mut self.since) {
            if since.is_some_and(|since| since.elapsed() >= most) {
                *since = None;
                each(target);
            }
        }
    }
}
