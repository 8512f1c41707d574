//! Summaries as a table for people.

use clap::ValueEnum;

use super::summary::{Figure, Summary};
use crate::cases::distinct;
use crate::stats::{self, Estimate};
use gush_text::{rounded, table};

/// The unit in which times are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Unit {
    #[value(alias = "us")]
    Microsecond,
    #[value(alias = "ms")]
    Millisecond,
    #[value(alias = "s")]
    Second,
}

impl Unit {
    /// The largest that leaves a digit before the point.
    fn of(seconds: f64) -> Self {
        match seconds {
            0.0 => Self::Millisecond,
            ..0.001 => Self::Microsecond,
            ..1.0 => Self::Millisecond,
            _ => Self::Second,
        }
    }

    /// How many make a second, and the name.
    fn parts(self) -> (f64, &'static str) {
        match self {
            Self::Microsecond => (1e6, "µs"),
            Self::Millisecond => (1e3, "ms"),
            Self::Second => (1.0, "s"),
        }
    }
}

/// Seconds in `unit`, or in the one that leaves three or four digits.
pub fn time(seconds: f64, unit: Option<Unit>) -> String {
    if seconds == 0.0 && unit.is_none() {
        return "0 ms".to_owned();
    }
    let (factor, name) = unit.unwrap_or(Unit::of(seconds)).parts();
    let decimals = match seconds * factor {
        ..1.0 => 4,
        _ if name == "µs" => 1,
        _ => 2,
    };
    format!("{:.decimals$} {name}", seconds * factor)
}

/// The interval of the times in the unit of the median; of few samples the least and the most in
/// brackets.
fn interval(one: &Summary, unit: Option<Unit>) -> String {
    let Estimate { value, .. } = one.seconds.median;
    let (factor, name) = unit.unwrap_or(Unit::of(value)).parts();
    let decimals = if value * factor < 1.0 { 4 } else { 2 };
    let number = |seconds: f64| format!("{:.decimals$}", seconds * factor);
    format!("{} {name}", one.seconds.median.spread(&one.range_s, number))
}

fn ratio_interval(times: Option<Estimate>) -> String {
    times.map_or_else(String::new, |times| times.around(3))
}

/// How many times as good as the first contender, which is the measure.
fn times_first(times: Option<Estimate>) -> String {
    times.map_or("1".to_owned(), |times| format!("{:.3}", times.value))
}

/// A column: a heading, and the text for a contender.
type Column = (&'static str, fn(&Summary, Option<Unit>) -> String);
type PrintedColumn = (&'static str, fn(&Figure) -> String);
/// The text of a column for a contender.
type ColumnText<'s> = Box<dyn Fn(&Summary) -> String + 's>;

const TIMES: &[Column] =
    &[("median", |one, unit| time(one.seconds.median.value, unit)), ("95 % interval", interval)];

const RATIO: &[Column] = &[
    ("x first", |one, _| times_first(one.seconds.times_first)),
    ("95 % interval", |one, _| ratio_interval(one.seconds.times_first)),
];

const USE: &[Column] = &[
    ("processor", |one, unit| time(one.processor_s, unit)),
    ("user", |one, unit| time(one.user_s, unit)),
    ("system", |one, unit| time(one.system_s, unit)),
    ("memory", |one, _| memory(one)),
    ("GiB/s", |one, _| one.gib_per_s.map_or_else(String::new, |speed| format!("{speed:.2}"))),
    ("rounds", |one, _| one.seconds.rounds.len().to_string()),
];

/// The peak of memory, or a bound of the peak.
fn memory(one: &Summary) -> String {
    let bound =
        || one.peak_at_most_bytes.map(|most| format!("≤ {}", gush_text::rounded_bytes(most)));
    one.peak_bytes.map(gush_text::rounded_bytes).or_else(bound).unwrap_or_default()
}

/// The columns of a figure that the commands printed, below its name.
const PRINTED: &[PrintedColumn] = &[
    ("", |figure| format!("{:.3}", figure.median.value)),
    ("95 % interval", |figure| {
        let values: Vec<f64> = figure.rounds.iter().map(|&(_, value)| value).collect();
        figure.median.spread(&values, |value| format!("{value:.3}"))
    }),
    ("x first", |figure| times_first(figure.times_first)),
    ("95 % interval", |figure| ratio_interval(figure.times_first)),
];

/// The headings of the columns that say something of any contender, and each contender's cells;
/// times in `unit`, if there is one.
pub(super) fn cells(summaries: &[Summary], unit: Option<Unit>) -> (Vec<String>, Vec<Vec<String>>) {
    let figures = summaries.iter().map(|one| &one.figures[..]).max_by_key(|figures| figures.len());
    let figures = figures.unwrap_or_default();
    let mut columns: Vec<(&str, ColumnText<'_>)> = Vec::new();
    for (place, figure) in figures.iter().enumerate() {
        let name = figure.printed.name.as_str();
        // Only the figure that is compared has room for its interval.
        for (at, (head, say)) in PRINTED.iter().enumerate().filter(|(at, _)| place == 0 || *at != 1)
        {
            let own = move |one: &Summary| {
                one.figures
                    .iter()
                    .find(|own| own.printed.name == name)
                    .map_or_else(String::new, say)
            };
            columns.push((if at == 0 { name } else { head }, Box::new(own)));
        }
    }
    // Two ratios to the first, by unlike figures, would be taken for each other.
    let ratio = if figures.is_empty() { RATIO } else { &[] };
    for &(head, say) in TIMES.iter().chain(ratio).chain(USE) {
        columns.push((head, Box::new(move |one| say(one, unit))));
    }
    let counts = summaries.iter().flat_map(|one| &one.counts);
    for (name, heading) in distinct(counts.map(|&(name, heading, _)| (name, heading))) {
        let own = move |one: &Summary| {
            let own = one.counts.iter().find(|(own, ..)| *own == name);
            own.and_then(|(.., counts)| stats::middle(counts)).map_or_else(String::new, rounded)
        };
        columns.push((heading, Box::new(own)));
    }
    columns.retain(|(_, say)| summaries.iter().any(|one| !say(one).is_empty()));
    let row = |one: &Summary| columns.iter().map(|(_, say)| say(one)).collect();
    let heads = columns.iter().map(|(head, _)| (*head).to_owned());
    (heads.collect(), summaries.iter().map(row).collect())
}

pub(super) fn brackets(summaries: &[Summary]) -> String {
    stats::brackets(summaries.iter().map(|one| one.seconds.median))
}

/// A line for each contender, without the columns that say nothing of any; times in `unit`, if
/// there is one.
pub fn table(summaries: &[Summary], unit: Option<Unit>) -> String {
    let (heads, rows) = cells(summaries, unit);
    let figures = heads.into_iter().map(table::numbers);
    let columns: Vec<_> =
        [table::words("contender")].into_iter().chain(figures).chain([table::words("")]).collect();
    let row = |(one, cells): (&Summary, Vec<String>)| {
        let out = if one.failure.is_some() { "OUT" } else { "" };
        [one.label.clone()].into_iter().chain(cells).chain([out.to_owned()]).collect()
    };
    let rows: Vec<Vec<String>> = summaries.iter().zip(rows).map(row).collect();
    table::text(&columns, &rows) + &brackets(summaries)
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::{judged, samples};
    use super::*;

    #[test]
    fn a_row_has_what_is_known_and_no_empty_column() {
        let all = [samples("cp", &[0.2; 6]), samples("gush cp", &[0.1; 6])].concat();
        let summaries = judged(&all);
        let text = table(&summaries, None);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("contender ") && !lines[0].contains("GiB/s"), "{text}");
        assert!(lines[1].contains("200.00 ms") && lines[1].contains("  1  "), "{text}");
        assert!(lines[2].starts_with("gush cp") && lines[2].contains("2.000 … 2.000"), "{text}");
        let text = table(&summaries, Some(Unit::Second));
        assert!(text.contains("  0.2000 s  0.2000 … 0.2000 s  "), "{text}");
        let few = [samples("cp", &[0.2, 0.3]), samples("gush cp", &[0.1, 0.1])].concat();
        let text = table(&judged(&few), None);
        assert!(text.contains("250.00 ms  (200.00 … 300.00) ms  "), "{text}");
        assert!(
            text.ends_with("too few for an interval.\n") && !text.contains("2.500 …"),
            "{text}"
        );
    }
}
