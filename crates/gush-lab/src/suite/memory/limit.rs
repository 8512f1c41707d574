//! The physical limit as a line, for the figures of other suites to stand beside.

use super::SUITE;
use crate::model::Sample;
use crate::stats;

/// The bandwidth of memory for one processor, if `samples` have all three: the medians.
///
/// ```
/// use gush_lab::model::{Measured, Sample};
/// use gush_lab::suite::memory::limit;
/// let sample = |operation: &str, speed| Sample {
///     suite: "memory".into(),
///     case: format!("{operation}-1"),
///     round: 1,
///     measured: Measured { gib_per_s: Some(speed), ..Measured::default() }
///         .with("operation", operation)
///         .with("processors", 1),
/// };
/// let samples = [sample("read", 12.0), sample("write", 9.0), sample("copy", 6.25)];
/// assert_eq!(
///     limit(&samples).as_deref(),
///     Some("one processor reads 12.00, writes 9.00 and copies 6.25 GiB/s of memory")
/// );
/// assert_eq!(limit(&samples[1..]), None);
/// ```
#[must_use]
pub fn limit(samples: &[Sample]) -> Option<String> {
    let median = |operation: &str| {
        let speeds = samples.iter().filter_map(|Sample { suite, measured, .. }| {
            let is =
                |name: &str, value: serde_json::Value| measured.facts.get(name) == Some(&value);
            let own = *suite == SUITE.name
                && is("operation", operation.into())
                && is("processors", 1.into());
            measured.gib_per_s.filter(|_| own)
        });
        stats::middle(&speeds.collect::<Vec<f64>>())
    };
    let (read, write, copy) = (median("read")?, median("write")?, median("copy")?);
    Some(format!(
        "one processor reads {read:.2}, writes {write:.2} and copies {copy:.2} GiB/s of memory"
    ))
}
