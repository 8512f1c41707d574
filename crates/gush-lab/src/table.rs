//! Samples as a table for people, with bars.

use std::fmt::Write;

use serde_json::Value;

use crate::model::Sample;
use crate::stats::Summary;

const BAR_CELLS: usize = 30;
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// A line for each case in the order of the samples: median, range, times the first case; sound or not,
/// where the samples tell that.
///
/// ```
/// use gush_lab::model::{Measured, Sample};
/// let sample = |case: &str, gib_per_s| Sample {
///     suite: "memory".into(),
///     case: case.into(),
///     round: 1,
///     measured: Measured { gib_per_s: Some(gib_per_s), ..Measured::default() },
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
    let tells_sound = rows.iter().any(|row| row.sound.is_some());
    let sound_column = |text: &str| if tells_sound { format!("  {text:5}") } else { String::new() };
    let mut text = format!(
        "{:width$}  {:>8}  {:>17}  {:>8}{}\n",
        "case",
        "GiB/s",
        "least … most",
        "x first",
        sound_column("sound")
    );
    for Row { case, sound, speed } in &rows {
        let range = format!("{:.2} … {:.2}", speed.least, speed.most);
        let times = format!("{:.1}x", if first > 0.0 { speed.median / first } else { 0.0 });
        let sound = sound_column(sound.map_or("", |sound| if sound { "yes" } else { "NO" }));
        let bar = bar(speed.median, most);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{case:width$}  {:8.2}  {range:>17}  {times:>8}{sound}  {bar}",
            speed.median
        );
    }
    text
}

struct Row<'a> {
    case: &'a str,
    sound: Option<bool>,
    speed: Summary,
}

fn rows(samples: &[Sample]) -> Vec<Row<'_>> {
    let mut names: Vec<&str> = Vec::new();
    for sample in samples {
        if !names.contains(&sample.case.as_str()) {
            names.push(&sample.case);
        }
    }
    let row = |case| {
        let own =
            || samples.iter().map(|s| (&s.case, &s.measured)).filter(|(name, _)| *name == case);
        let speeds: Vec<f64> = own().filter_map(|(_, measured)| measured.gib_per_s).collect();
        let told = |measured: &crate::model::Measured| {
            measured.facts.get("sound").and_then(Value::as_bool)
        };
        let sound = own().filter_map(|(_, measured)| told(measured)).reduce(|all, one| all && one);
        Some(Row { case, sound, speed: Summary::of(&speeds)? })
    };
    names.into_iter().filter_map(row).collect()
}

/// As long as `value` is large beside `most`; something even for the smallest.
///
/// ```
/// assert_eq!(gush_lab::table::bar(1.0, 2.0).chars().count(), 15);
/// ```
#[must_use]
pub fn bar(value: f64, most: f64) -> String {
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
