//! Keeps a flood of strangers from becoming a flood of warnings.

use std::time::{Duration, Instant};

/// The time in which so many warnings of one kind may pass.
const APART: Duration = Duration::from_secs(1);

/// Lets some warnings a second pass, and counts the others.
#[derive(Debug, Clone)]
pub(crate) struct Throttle {
    most: u32,
    /// When the first of the present second passed, and how many have since.
    since: Option<Instant>,
    passed: u32,
    untold: u64,
}

impl Default for Throttle {
    /// One a second.
    fn default() -> Self {
        Self::allowing(1)
    }
}

impl Throttle {
    /// `most` warnings a second.
    pub fn allowing(most: u32) -> Self {
        Self { most, since: None, passed: 0, untold: 0 }
    }

    /// The number of warnings kept back since the last one, if the next may pass at `now`.
    pub fn passes(&mut self, now: Instant) -> Option<u64> {
        if self.since.is_none_or(|since| now.duration_since(since) >= APART) {
            (self.since, self.passed) = (Some(now), 0);
        }
        if self.passed == self.most {
            self.untold += 1;
            return None;
        }
        self.passed += 1;
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_a_second_passes_and_the_others_are_counted() {
        let (mut throttle, start) = (Throttle::default(), Instant::now());
        assert_eq!(throttle.passes(start), Some(0));
        assert!((0..5).all(|_| throttle.passes(start).is_none()));
        assert_eq!(throttle.passes(start + APART), Some(5));
        assert_eq!(throttle.passes(start + 2 * APART), Some(0));
    }

    #[test]
    fn as_many_as_are_allowed_pass_in_each_second() {
        let (mut throttle, start) = (Throttle::allowing(3), Instant::now());
        let passed =
            |throttle: &mut Throttle, at| (0..5).filter_map(|_| throttle.passes(at)).collect();
        let first: Vec<_> = passed(&mut throttle, start);
        assert_eq!(first, [0, 0, 0]);
        let next: Vec<_> = passed(&mut throttle, start + APART);
        assert_eq!(next, [2, 0, 0]);
    }
}
