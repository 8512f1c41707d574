//! The observer's view and answer, and how much may move before the observer is asked again.

use std::time::Duration;

use crate::method::MethodName;

/// A moment of a move, shown to the observer.
///
/// ```
/// let (source, target) = (std::fs::File::open("/proc/version")?, tempfile::tempfile()?);
/// gush::Mover::new(&source, &target)
///     .observe(&mut |seen| {
///         println!("{} of {:?} bytes by {}", seen.bytes, seen.expected_bytes, seen.method);
///         gush::Control::Continue
///     })
///     .run()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// Bytes delivered to the target so far, holes included.
    pub bytes: u64,
    /// Bytes to be expected in all, if the source says.
    pub expected_bytes: Option<u64>,
    /// Time since the move began.
    pub elapsed: Duration,
    /// The method at work.
    pub method: MethodName,
}

/// An observer's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Control {
    /// Go on.
    Continue,
    /// End the move; bytes in flight are delivered first.
    Stop,
}

/// How long a step may take before the observer wants to be asked again (invariant 7).
const ASKED_EVERY: Duration = Duration::from_millis(40);

/// Sizes steps so that an observer is asked often enough, and no oftener.
#[derive(Debug)]
pub(crate) struct Pace {
    budget_bytes: u64,
}

impl Pace {
    const LEAST_BYTES: u64 = 256 << 10;
    /// Half of the gibibyte entrusted to one call of the kernel's own copy loops.
    pub(crate) const MOST_BYTES: u64 = 512 << 20;

    /// For a move watched by somebody, or by nobody.
    pub(crate) fn new(watched: bool) -> Self {
        Self { budget_bytes: if watched { 4 << 20 } else { Self::MOST_BYTES } }
    }

    pub(crate) fn budget_bytes(&self) -> u64 {
        self.budget_bytes
    }

    /// Learns from a step of a watched move.
    pub(crate) fn learn(&mut self, bytes: u64, took: Duration) {
        if took > ASKED_EVERY {
            self.budget_bytes = (self.budget_bytes / 2).max(Self::LEAST_BYTES);
        } else if took < ASKED_EVERY / 4 && bytes >= self.budget_bytes {
            self.budget_bytes = (self.budget_bytes * 2).min(Self::MOST_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_step_shrinks_the_next_and_a_fast_one_grows_it() {
        let mut pace = Pace::new(true);
        let first = pace.budget_bytes();
        pace.learn(first, Duration::from_secs(1));
        assert_eq!(pace.budget_bytes(), first / 2);
        pace.learn(first / 2, Duration::from_millis(1));
        assert_eq!(pace.budget_bytes(), first);
        for _ in 0..64 {
            pace.learn(u64::MAX, Duration::ZERO);
        }
        assert_eq!(pace.budget_bytes(), Pace::MOST_BYTES);
    }
}
