//! How many rounds are taken.

use std::time::{Duration, Instant};

use crate::model::{Measured, Printed, Sample};
use crate::{figures, stats};

/// How many rounds are taken.
///
/// Measuring ends early when the intervals are narrow, whether they differ or not: who stops at the
/// first difference that looks certain finds differences where there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    pub least: u32,
    pub most: u32,
    /// No round begins after so long, once there are [`least`](Self::least).
    pub time: Duration,
}

/// Rounds that hyperfine takes at least, too.
const LEAST_ROUNDS: u32 = 10;
/// Drawing ten thousand times from more samples takes seconds.
const MOST_ROUNDS: u32 = 500;
const TIME_EACH: Duration = Duration::from_secs(3);
/// An interval whose ends differ by this part is narrow.
const NARROW: f64 = 0.02;

impl Pace {
    pub fn fixed(rounds: u32) -> Self {
        Self { least: rounds, most: rounds, time: Duration::MAX }
    }

    /// As many rounds as the samples of `contenders` need: 10 to 500, and 3 s for each contender.
    pub fn usual(contenders: usize) -> Self {
        let contenders = u32::try_from(contenders).unwrap_or(u32::MAX);
        let time = TIME_EACH.saturating_mul(contenders);
        Self { least: LEAST_ROUNDS, most: MOST_ROUNDS, time }
    }

    /// About how long the rounds from `round` on take, if those before took `elapsed`; `None`
    /// before the second round.
    pub fn left(&self, round: u32, elapsed: Duration) -> Option<Duration> {
        let done = round.checked_sub(1).filter(|&done| done > 0)?;
        let of_rounds = |rounds: u32| (elapsed / done).saturating_mul(rounds.saturating_sub(done));
        let in_time = self.time.saturating_sub(elapsed).max(of_rounds(self.least));
        Some(of_rounds(self.most).min(in_time))
    }
}

/// A schedule of rounds at a pace.
#[derive(Debug)]
pub struct Paced {
    pace: Pace,
    baseline: String,
    /// The figure that is compared instead of the time.
    figure: Option<Printed>,
    begun: Option<Instant>,
    next_look: u32,
}

impl Paced {
    /// Rounds at `pace`, of contenders that are measured against `baseline` by `figure`, or else by
    /// their times.
    pub fn new(pace: Pace, baseline: &str, figure: Option<&Printed>) -> Self {
        let (baseline, figure) = (baseline.to_owned(), figure.cloned());
        Self { pace, baseline, figure, begun: None, next_look: 0 }
    }

    /// Shall `round` begin, after `samples`?
    pub fn goes_on(&mut self, round: u32, samples: &[Sample]) -> bool {
        let begun = *self.begun.get_or_insert_with(Instant::now);
        let Pace { least, most, time } = self.pace;
        // The least number is taken in any case, however long it lasts.
        if round <= least || round > most {
            return round <= least;
        }
        if begun.elapsed() >= time {
            return false;
        }
        let done = round - 1;
        if done < self.next_look {
            return true;
        }
        // Looking takes time itself: ever more rarely.
        self.next_look = done + done / 2 + 1;
        !is_precise(samples, &self.baseline, self.figure.as_ref())
    }
}

/// Is every interval narrow: of the ratios to the baseline, or of the only contender's median?
fn is_precise(samples: &[Sample], baseline: &str, figure: Option<&Printed>) -> bool {
    // The baseline may have failed in its first round.
    let is_there = samples.iter().any(|sample| sample.case == baseline);
    let Some(first) = samples.first() else { return false };
    let baseline = if is_there { baseline } else { first.case.as_str() };
    let value = |measured: &Measured| match figure {
        Some(figure) => figure.of(measured),
        None => measured.wall_s,
    };
    let times = |case: &str| -> Vec<(u32, f64)> {
        let own = samples.iter().filter(|sample| sample.case == case);
        own.filter_map(|sample| Some((sample.round, value(&sample.measured)?))).collect()
    };
    let base = times(baseline);
    let mut others: Vec<&str> = samples.iter().map(|sample| sample.case.as_str()).collect();
    others.sort_unstable();
    others.dedup();
    others.retain(|case| *case != baseline);
    if others.is_empty() {
        let all: Vec<f64> = base.iter().map(|&(_, seconds)| seconds).collect();
        return stats::median(&all).is_some_and(|median| is_narrow(&median));
    }
    others.into_iter().all(|case| {
        let pairs = figures::pairs(&times(case), &base);
        // A contender that failed in an early round gets no more samples, however long the others
        // go on.
        pairs.len() < base.len()
            || stats::paired_ratio(&pairs).is_some_and(|ratio| is_narrow(&ratio))
    })
}

fn is_narrow(estimate: &stats::Estimate) -> bool {
    estimate.interval.is_some_and(|around| around.high - around.low <= NARROW * estimate.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Measured;

    /// Rounds of `a` and `b`, with `b` so many times as slow in each round.
    fn rounds(slower: &[f64]) -> Vec<Sample> {
        let sample = |case, round, seconds| {
            let measured = Measured { wall_s: Some(seconds), ..Measured::default() };
            Sample::new("run", case, round, measured)
        };
        let both = |(round, factor): (u32, &f64)| {
            [sample("a", round, 2.0), sample("b", round, 2.0 * factor)]
        };
        (1..).zip(slower).flat_map(both).collect()
    }

    #[test]
    fn a_fixed_number_of_rounds_is_taken() {
        let mut schedule = Paced::new(Pace::fixed(3), "a", None);
        let same = rounds(&[1.0, 1.0, 1.0]);
        let goes_on: Vec<bool> = (1..=4).map(|round| schedule.goes_on(round, &same)).collect();
        assert_eq!(goes_on, [true, true, true, false]);
    }

    #[test]
    fn narrow_intervals_end_the_rounds_and_wide_ones_do_not() {
        let pace = Pace { least: 4, most: 100, time: Duration::MAX };
        let narrow = rounds(&[1.5, 1.501, 1.5, 1.499, 1.5]);
        assert!(Paced::new(pace, "a", None).goes_on(5, &narrow[..8]), "four have no interval");
        assert!(!Paced::new(pace, "a", None).goes_on(6, &narrow));
        let wide = rounds(&[1.5, 3.0, 1.0, 9.0, 2.0]);
        assert!(Paced::new(pace, "a", None).goes_on(6, &wide));
        assert!(!Paced::new(Pace { time: Duration::ZERO, ..pace }, "a", None).goes_on(6, &wide));
        assert!(Paced::new(Pace { time: Duration::ZERO, ..pace }, "a", None).goes_on(4, &wide));
        assert!(!Paced::new(pace, "a", None).goes_on(101, &wide));
    }

    #[test]
    fn a_contender_that_failed_keeps_nobody_waiting() {
        let mut samples = rounds(&[1.0, 1.0, 1.0, 1.0, 1.0]);
        samples.retain(|sample| sample.case == "a" || sample.round == 1);
        assert!(is_precise(&samples, "a", None));
    }

    #[test]
    fn the_time_left_is_that_of_the_rounds_or_of_the_limit() {
        let seconds = Duration::from_secs;
        let pace = Pace { least: 4, most: 10, time: seconds(20) };
        assert_eq!(pace.left(1, seconds(0)), None);
        assert_eq!(pace.left(3, seconds(4)), Some(seconds(16)), "as long as eight rounds");
        assert_eq!(pace.left(3, seconds(12)), Some(seconds(12)), "up to the fourth round");
        assert_eq!(pace.left(6, seconds(15)), Some(seconds(5)), "until the time is up");
        assert_eq!(Pace::fixed(5).left(4, seconds(3)), Some(seconds(2)));
    }
}
