//! Statistics of many samples: median, range, intervals, outliers, and whether one is faster than
//! another.
//!
//! Medians, because one interrupted sample moves a mean and not a median; intervals that know
//! nothing of the distribution, because that of timings is not known.

mod bootstrap;
mod outliers;
mod verdict;

pub use bootstrap::{Estimate, Interval, brackets, median, paired_ratio, ratio};
pub use outliers::{modified_z_scores, outliers};
pub use verdict::{FEWEST_SAMPLES, MARGIN, Verdict};

/// How many of so many rounds choose a winner, so that the others judge the winner by samples that
/// had no part in the choice: the best of many owes a part of the lead to luck. None where too few
/// rounds would be left to judge.
pub fn choosing_rounds(rounds: usize) -> Option<usize> {
    let most = rounds.checked_sub(FEWEST_SAMPLES).filter(|&most| most > 0)?;
    Some((rounds / 3).min(most))
}

/// The least and the largest of some samples; none without samples.
pub fn range(samples: &[f64]) -> Option<[f64; 2]> {
    let widened = |[low, high]: [f64; 2], &sample: &f64| [low.min(sample), high.max(sample)];
    let first = *samples.first()?;
    Some(samples.iter().fold([first; 2], widened))
}

/// The middle sample, or the mean of the two in the middle; none without samples.
pub fn middle(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    (!sorted.is_empty()).then(|| middle_of(sorted.len(), |place| sorted[place]))
}

/// The median of `count` values in order, of which `at` gives one: the middle one, or the mean of
/// the two in the middle.
fn middle_of(count: usize, at: impl Fn(usize) -> f64) -> f64 {
    f64::midpoint(at((count - 1) / 2), at(count / 2))
}
