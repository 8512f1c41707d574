//! Short rests in a dense stream between two pipes, so that one call moves what took many.
//!
//! A writer of small pieces wakes this process for each, and each wakes the reader: two wake-ups on
//! other processors for 8 KiB. During a rest the writer fills its pipe, and the reader empties the
//! other. Figures: `bench/RESULTS.md`.

use std::time::{Duration, Instant};

use crate::flow::PortState;

/// One rest; the kernel adds up to the timer slack, 50 µs (PR_SET_TIMERSLACK of prctl(2)).
pub(super) const REST: Duration = Duration::from_micros(50);

/// The least that both pipes hold: a writer of 6 GB/s fills most of it during a rest.
const LEAST_CAPACITY_BYTES: usize = 1 << 20;

/// A step that moved less is short.
const SHORT_BYTES: u64 = 128 << 10;

/// Steps within so much time are a dense stream. A longer rest starves the reader.
const DENSE: Duration = Duration::from_micros(300);

/// So many short steps precede a rest; twice as many after each that gathered nothing.
const FEWEST_STEPS: u32 = 8;
const MOST_STEPS: u32 = 1 << 16;

/// After so many rests in turn come steps without, with which a rest is compared.
const MOST_RESTS: u32 = 64;

/// Decides when to rest.
#[derive(Debug)]
pub(super) struct Gather {
    last: Instant,
    /// Short steps in turn, of a dense stream, since the last rest that gathered nothing.
    steps: u32,
    needed_steps: u32,
    /// What the last step moved that no rest preceded.
    unrested_bytes: u64,
    /// Did a rest precede the step that is under way?
    has_rested: bool,
}

impl Gather {
    /// `None` unless both sides are pipes that hold enough for a rest.
    pub(super) fn between(
        (source, target): (&PortState, &PortState),
        now: Instant,
    ) -> Option<Self> {
        let is_large =
            |side: &PortState| side.pipe_bytes().is_some_and(|bytes| bytes >= LEAST_CAPACITY_BYTES);
        (is_large(source) && is_large(target)).then_some(Self {
            last: now,
            steps: 0,
            needed_steps: FEWEST_STEPS,
            unrested_bytes: 0,
            has_rested: false,
        })
    }

    /// Is a rest due after a step that moved so many bytes?
    pub(super) fn is_due(&mut self, moved_bytes: u64, now: Instant) -> bool {
        let is_dense = now.saturating_duration_since(self.last) < DENSE;
        self.last = now;
        if !std::mem::take(&mut self.has_rested) {
            self.unrested_bytes = moved_bytes;
        } else if is_dense && moved_bytes >= self.unrested_bytes.saturating_mul(2) {
            self.needed_steps = FEWEST_STEPS;
        } else {
            self.steps = 0;
            self.needed_steps = (self.needed_steps * 2).min(MOST_STEPS);
        }
        if !is_dense || moved_bytes >= SHORT_BYTES || self.steps >= self.needed_steps + MOST_RESTS {
            self.steps = 0;
            return false;
        }
        self.steps += 1;
        self.has_rested = self.steps >= self.needed_steps;
        self.has_rested
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::sys;

    const QUICK: Duration = Duration::from_micros(10);

    fn fresh() -> Gather {
        Gather {
            last: Instant::now(),
            steps: 0,
            needed_steps: FEWEST_STEPS,
            unrested_bytes: 0,
            has_rested: false,
        }
    }

    /// How many steps of so many bytes there are up to the first rest, of `most`.
    fn steps_to_a_rest(gather: &mut Gather, bytes: u64, apart: Duration, most: u32) -> Option<u32> {
        (1..=most).find(|_| {
            let now = gather.last + apart;
            gather.is_due(bytes, now)
        })
    }

    #[test]
    fn a_dense_stream_of_short_steps_has_rests_and_no_other_has() {
        let few = Some(FEWEST_STEPS);
        assert_eq!(steps_to_a_rest(&mut fresh(), 8192, QUICK, 100), few);
        assert_eq!(steps_to_a_rest(&mut fresh(), 8192, DENSE, 100), None, "slow");
        assert_eq!(steps_to_a_rest(&mut fresh(), SHORT_BYTES, QUICK, 100), None, "long steps");
    }

    /// Programs that answer each other through the pipes gain nothing, and soon have no rests.
    #[test]
    fn rests_that_gather_nothing_become_rare() {
        let mut gather = fresh();
        for needed in [8, 16, 32, 64] {
            assert_eq!(steps_to_a_rest(&mut gather, 8192, QUICK, 100), Some(needed));
        }
    }

    #[test]
    fn rests_go_on_as_long_as_they_gather() {
        let mut gather = fresh();
        assert_eq!(steps_to_a_rest(&mut gather, 8192, QUICK, 100), Some(8));
        for _ in 0..MOST_RESTS {
            assert_eq!(steps_to_a_rest(&mut gather, SHORT_BYTES - 1, QUICK, 1), Some(1));
        }
        assert_eq!(steps_to_a_rest(&mut gather, SHORT_BYTES - 1, QUICK, 1), None, "a step without");
    }

    /// The timer slack of a thread may be 40 ms: its reader would have nothing meanwhile.
    #[test]
    fn rests_that_last_too_long_become_rare() {
        let mut gather = fresh();
        for needed in [8, 16, 32, 64] {
            assert_eq!(steps_to_a_rest(&mut gather, 8192, QUICK, 100), Some(needed));
            let now = gather.last + DENSE;
            assert!(!gather.is_due(SHORT_BYTES - 1, now), "it gathered, and took too long");
        }
    }

    #[test]
    fn both_pipes_are_large_where_rests_are_made() {
        let (reader, into) = std::io::pipe().expect("a pipe");
        let (_out, writer) = std::io::pipe().expect("a pipe");
        let rests = || {
            let source = PortState::of(&reader).expect("a pipe");
            let target = PortState::of(&writer).expect("a pipe");
            Gather::between((&source, &target), Instant::now()).is_some()
        };
        // Past the user's limit the pipes stay small.
        let mut are_large = [false, false];
        assert!(!rests());
        for (pipe, is_large) in [&into, &writer].into_iter().zip(0..) {
            are_large[is_large] =
                sys::pipe::set_pipe_size(pipe.as_fd(), LEAST_CAPACITY_BYTES).is_ok();
            assert_eq!(rests(), are_large == [true, true]);
        }
    }
}
