//! Limits the rate of warnings that peers can cause.

use std::fmt;
use std::time::{Duration, Instant};

/// The period for which the limit holds.
const PERIOD: Duration = Duration::from_secs(1);

/// Lets some warnings a second pass, and counts the others.
#[derive(Debug, Clone)]
pub(crate) struct Throttle {
    limit: u32,
    /// When the current period began, and how many have passed since.
    since: Option<Instant>,
    passed: u32,
    suppressed: u64,
}

/// The number of warnings suppressed before one that passes. Displays as the end of its sentence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Suppressed(u64);

impl fmt::Display for Suppressed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            count => write!(f, ", and {count} others before"),
        }
    }
}

impl Default for Throttle {
    /// One a second.
    fn default() -> Self {
        Self::allowing(1)
    }
}

impl Throttle {
    /// At most `limit` warnings a second.
    pub fn allowing(limit: u32) -> Self {
        Self { limit, since: None, passed: 0, suppressed: 0 }
    }

    /// May a warning pass at `now`?
    pub fn passes(&mut self, now: Instant) -> Option<Suppressed> {
        if self.since.is_none_or(|since| now.duration_since(since) >= PERIOD) {
            (self.since, self.passed) = (Some(now), 0);
        }
        if self.passed == self.limit {
            self.suppressed += 1;
            return None;
        }
        self.passed += 1;
        Some(Suppressed(std::mem::take(&mut self.suppressed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_a_second_passes_and_the_others_are_counted() {
        let (mut throttle, start) = (Throttle::default(), Instant::now());
        assert_eq!(throttle.passes(start), Some(Suppressed(0)));
        assert!((0..5).all(|_| throttle.passes(start).is_none()));
        assert_eq!(throttle.passes(start + PERIOD), Some(Suppressed(5)));
        assert_eq!(throttle.passes(start + 2 * PERIOD), Some(Suppressed(0)));
    }

    #[test]
    fn as_many_as_are_allowed_pass_in_each_second() {
        let (mut throttle, start) = (Throttle::allowing(3), Instant::now());
        let passed =
            |throttle: &mut Throttle, at| (0..5).filter_map(|_| throttle.passes(at)).collect();
        let first: Vec<_> = passed(&mut throttle, start);
        assert_eq!(first, [0, 0, 0].map(Suppressed));
        let next: Vec<_> = passed(&mut throttle, start + PERIOD);
        assert_eq!(next, [2, 0, 0].map(Suppressed));
    }
}
