//! The verdicts on a ratio.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Estimate, Interval};

/// Of fewer samples a side there is no interval: the widest would be 88 % sure.
pub const FEWEST_SAMPLES: usize = 5;
/// Differences up to this part of the whole count as none: in tables, on the page, between commands
/// and between runs. The same program again on the same machine differs by so much without a cause
/// in the program.
pub const MARGIN: f64 = 0.05;

/// Is one faster than another?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole interval lies above 1, by more than the margin.
    Faster,
    /// The whole interval lies below 1, by more than the margin.
    Slower,
    /// The case may be faster, slower, or neither.
    CannotTell,
}

impl Verdict {
    /// Judges a ratio of speeds; without an interval the answer is [`Self::CannotTell`].
    pub fn of(ratio: Option<&Estimate>, margin: f64) -> Self {
        match ratio.and_then(|ratio| ratio.interval) {
            Some(Interval { low, .. }) if low > 1.0 + margin => Self::Faster,
            Some(Interval { high, .. }) if high < 1.0 / (1.0 + margin) => Self::Slower,
            _ => Self::CannotTell,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::CannotTell => "cannot tell",
        })
    }
}
