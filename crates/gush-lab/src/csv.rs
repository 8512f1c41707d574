//! Samples as comma-separated values, one row a case and round.

use std::fmt::Write;

use crate::runner::Sample;

/// The first row.
pub const HEADER: &str = "case,round,gib_per_s,bytes,buffer_bytes,pipe_bytes,sound";

/// The header and a row for each sample.
///
/// ```
/// let text = gush_lab::csv::of(&[]);
/// assert_eq!(text, "case,round,gib_per_s,bytes,buffer_bytes,pipe_bytes,sound\n");
/// ```
#[must_use]
pub fn of(samples: &[Sample]) -> String {
    let mut text = format!("{HEADER}\n");
    for sample in samples {
        let Sample { case, round, gib_per_s, bytes, buffer_bytes, pipe_bytes, sound } = sample;
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{case},{round},{gib_per_s:.6},{bytes},{buffer_bytes},{pipe_bytes},{sound}"
        );
    }
    text
}
