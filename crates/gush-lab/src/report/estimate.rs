//! An estimate from some samples.

use crate::stats;

/// The median of some samples, and the interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    pub low: f64,
    pub median: f64,
    pub high: f64,
    /// In the order in which they were taken.
    pub samples: Vec<f64>,
}

impl Estimate {
    /// Of the samples that are finite and above 0; none when there are none.
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Option<Self> {
        let samples: Vec<f64> =
            // Ratios and logarithms need positive numbers.
            samples.into_iter().filter(|sample| sample.is_finite() && *sample > 0.0).collect();
        let stats::Estimate { value, low, high } = stats::median(&samples)?;
        Some(Self { low, median: value, high, samples })
    }
}
