//! Samples as comma-separated values, one row a case and round.

use crate::runner::Sample;

/// The first row.
pub const HEADER: &str = "case,round,gib_per_s,bytes,buffer_bytes,pipe_bytes,sound";

/// A sample's row.
///
/// ```
/// use gush_lab::runner::Sample;
/// let sample = Sample {
///     case: "write-read",
///     round: 1,
///     gib_per_s: 4.5,
///     bytes: 1 << 30,
///     buffer_bytes: 262_144,
///     pipe_bytes: 65_536,
///     sound: true,
/// };
/// assert_eq!(gush_lab::csv::row(&sample), "write-read,1,4.500000,1073741824,262144,65536,true");
/// ```
#[must_use]
pub fn row(sample: &Sample) -> String {
    let Sample { case, round, gib_per_s, bytes, buffer_bytes, pipe_bytes, sound } = sample;
    format!("{case},{round},{gib_per_s:.6},{bytes},{buffer_bytes},{pipe_bytes},{sound}")
}
