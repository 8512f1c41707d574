//! Samples as a table for people, with bars.

use std::fmt::Write;

use crate::runner::Sample;
use crate::stats::Summary;

const BAR_CELLS: usize = 30;
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// A line for each case in the order of the samples: median, range, times the first case, sound or not.
///
/// ```
/// use gush_lab::runner::Sample;
/// let sample = |case, gib_per_s| Sample {
///     case, round: 1, gib_per_s, bytes: 1, buffer_bytes: 1, pipe_bytes: 1, sound: true,
/// };
/// let text = gush_lab::table::of(&[sample("slow", 1.5), sample("fast", 3.0)]);
/// assert!(text.lines().nth(2).unwrap().contains("2.0x"));
/// ```
#[must_use]
pub fn of(samples: &[Sample]) -> String {
    let rows = rows(samples);
    let first = rows.first().map_or(0.0, |row| row.speed.median);
    let most = rows.iter().map(|row| row.speed.median).fold(0.0, f64::max);
    let width = rows.iter().map(|row| row.case.len()).max().unwrap_or(0).max(4);
    let mut text = format!(
        "{:width$}  {:>8}  {:>17}  {:>8}  {:5}\n",
        "case", "GiB/s", "least … most", "x first", "sound"
    );
    for Row { case, sound, speed } in &rows {
        let range = format!("{:.2} … {:.2}", speed.least, speed.most);
        let times = format!("{:.1}x", if first > 0.0 { speed.median / first } else { 0.0 });
        let sound = if *sound { "yes" } else { "NO" };
        let bar = bar(speed.median, most);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{case:width$}  {:8.2}  {range:>17}  {times:>8}  {sound:5}  {bar}",
            speed.median
        );
    }
    text
}

struct Row {
    case: &'static str,
    sound: bool,
    speed: Summary,
}

fn rows(samples: &[Sample]) -> Vec<Row> {
    let mut names: Vec<&'static str> = Vec::new();
    for sample in samples {
        if !names.contains(&sample.case) {
            names.push(sample.case);
        }
    }
    let row = |case| {
        let own: Vec<&Sample> = samples.iter().filter(|sample| sample.case == case).collect();
        let speeds: Vec<f64> = own.iter().map(|sample| sample.gib_per_s).collect();
        let speed = Summary::of(&speeds)?;
        Some(Row { case, sound: own.iter().all(|sample| sample.sound), speed })
    };
    names.into_iter().filter_map(row).collect()
}

/// As long as `value` is large; something even for the smallest.
fn bar(value: f64, most: f64) -> String {
    if most <= 0.0 {
        return String::new();
    }
    let eighths = ((value / most * (BAR_CELLS * 8) as f64).round() as usize).max(1);
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(EIGHTHS[eighths % 8 - 1]);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_figures_are_large() {
        assert_eq!(bar(1.0, 1.0).chars().count(), BAR_CELLS);
        assert_eq!(bar(0.5, 1.0).chars().count(), BAR_CELLS / 2);
        assert_eq!(bar(0.0001, 1.0), "▏");
        assert_eq!(bar(0.0, 0.0), "");
    }
}
