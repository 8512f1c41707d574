//! What many samples say.

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
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Some(Self { least, median, most })
    }
}
