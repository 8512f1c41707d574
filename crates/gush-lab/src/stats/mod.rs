//! Statistics of many samples: median, range, intervals, outliers, and whether one is faster than another.
//!
//! Medians, because one interrupted sample moves a mean and not a median; intervals that know nothing of the distribution,
//! because that of timings is not known.

mod bootstrap;
mod outliers;
mod two_speeds;
mod verdict;

pub use bootstrap::{CONFIDENCE, Estimate, Interval, RESAMPLES, median, paired_ratio, ratio};
pub use outliers::{OUTLIER_SCORE, modified_z_scores, outliers};
pub use two_speeds::two_speeds;
pub use verdict::{FEWEST_SAMPLES, MARGIN, Verdict};

/// How many of so many rounds choose a winner, so that the others judge the winner by samples that had no part in the choice:
/// the best of many owes a part of the lead to luck. None where too few rounds would be left to judge.
///
/// ```
/// use gush_lab::stats::choosing_rounds;
/// assert_eq!([5, 6, 9, 30].map(choosing_rounds), [None, Some(1), Some(3), Some(10)]);
/// ```
#[must_use]
pub fn choosing_rounds(rounds: usize) -> Option<usize> {
    let most = rounds.checked_sub(FEWEST_SAMPLES).filter(|&most| most > 0)?;
    Some((rounds / 3).min(most))
}

/// Median and range of some samples.
///
/// ```
/// use gush_lab::stats::Summary;
/// let summary = Summary::of(&[3.0, 1.0, 2.0, 10.0]).unwrap();
/// assert_eq!((summary.least, summary.median, summary.most), (1.0, 2.5, 10.0));
/// assert!(Summary::of(&[]).is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The smallest.
    pub least: f64,
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// The largest.
    pub most: f64,
}

impl Summary {
    /// Sums up samples in any order; none when there are none.
    #[must_use]
    pub fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        Some(Self { least, median: middle(sorted.len(), |place| sorted[place]), most })
    }
}

/// The median of `count` values in order, of which `at` gives one: the middle one, or the mean of the two in the middle.
fn middle(count: usize, at: impl Fn(usize) -> f64) -> f64 {
    f64::midpoint(at((count - 1) / 2), at(count / 2))
}
