//! An estimate from some samples.

use crate::stats::{self, Interval};

/// The median of some samples, and the interval.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Estimate {
    pub median: f64,
    pub interval: Option<Interval>,
    /// In the order in which they were taken.
    pub samples: Vec<f64>,
}

impl Estimate {
    /// Of the samples that are finite and above 0; none when there are none.
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Option<Self> {
        let samples: Vec<f64> =
            // Ratios and logarithms need positive numbers.
            samples.into_iter().filter(|sample| sample.is_finite() && *sample > 0.0).collect();
        let stats::Estimate { value: median, interval } = stats::median(&samples)?;
        Some(Self { median, interval, samples })
    }

    /// All that a scale has to show.
    pub fn values(&self) -> impl Iterator<Item = f64> + Clone + '_ {
        let ends = self.interval.into_iter().flat_map(|Interval { low, high }| [low, high]);
        ends.chain([self.median])
    }
}
