//! Keeps a flood of strangers from becoming a flood of warnings.

use std::time::{Duration, Instant};

/// The shortest time between two warnings of one kind.
const APART: Duration = Duration::from_secs(1);

/// Lets one warning a second pass, and counts the others.
#[derive(Debug, Clone, Default)]
pub(crate) struct Throttle {
    told: Option<Instant>,
    untold: u64,
}

impl Throttle {
    /// The number of warnings kept back since the last one, if the next may pass at `now`.
    pub fn passes(&mut self, now: Instant) -> Option<u64> {
        if self.told.is_some_and(|told| now.duration_since(told) < APART) {
            self.untold += 1;
            return None;
        }
        self.told = Some(now);
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
}
