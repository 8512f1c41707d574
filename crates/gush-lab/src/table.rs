//! Samples as a table for people: intervals, the case each one is measured against, and bars.

use std::fmt::Write;

use serde_json::Value;

use crate::count::{self, Calls};
use crate::figures::Measure;
use crate::model::{Described, Run, Sample};
use crate::stats::{self, Estimate, Interval, Summary, Verdict};
use crate::suite::{Quantity, Suite};

const BAR_CELLS: usize = 30;
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// The samples of one suite: a line for each case below the heading of the group, with the suite's figures; the system
/// calls where they were counted.
///
/// An interval is that of the median; of fewer than [`stats::FEWEST_SAMPLES`] samples none can be trusted, and the
/// least and the most stand in brackets.
///
/// ```
/// use gush_lab::model::{Described, Measured, Run, Sample};
/// use gush_lab::{suite, table};
/// let sample = |case: &str, round, gib_per_s| Sample {
///     suite: "pipe".into(),
///     case: case.into(),
///     round,
///     measured: Measured { gib_per_s: Some(gib_per_s), ..Measured::default() },
/// };
/// let samples = (1..6).flat_map(|round| [sample("slow", round, 1.5), sample("fast", round, 3.0)]);
/// let run = Run {
///     cases: vec![Described::new("pipe", "slow"), Described::new("pipe", "fast").against("slow")],
///     samples: samples.collect(),
///     ..Run::default()
/// };
/// let text = table::of(&run, suite::named("pipe").unwrap());
/// assert!(text.lines().nth(2).unwrap().contains("2.00x slow"), "{text}");
/// ```
#[must_use]
pub fn of(run: &Run, suite: &Suite) -> String {
    let rows = rows(run, suite);
    let mut text = String::new();
    let Some(width) = rows.iter().map(|row| row.name().len()).max() else { return text };
    let layout = Layout::of(&rows, suite, width.max("case".len()));
    let mut heading = None;
    for row in &rows {
        if heading != Some(&row.heading) {
            if heading.is_some() {
                text.push('\n');
            }
            if !row.heading.is_empty() {
                // Writing into a `String` cannot fail, here and in the functions below.
                let _ = writeln!(text, "{}", row.heading);
            }
            layout.head(&mut text);
            heading = Some(&row.heading);
        }
        let most = rows.iter().filter(|other| other.heading == row.heading);
        let most = most.filter_map(Row::figure).fold(0.0, f64::max);
        layout.row(&mut text, row, most);
    }
    layout.notes(&mut text, &rows);
    system_calls(&mut text, run, suite);
    text
}

/// A case with samples.
struct Row<'a> {
    described: Described,
    samples: Vec<&'a Sample>,
    heading: String,
    /// Of the suite's figures, in their order.
    figures: Vec<Option<Estimate>>,
    times: Option<(Estimate, Verdict)>,
}

impl Row<'_> {
    fn name(&self) -> &str {
        &self.described.case
    }

    fn figure(&self) -> Option<f64> {
        self.figures.first()?.map(|figure| figure.value)
    }

    fn is_few(&self) -> bool {
        self.figures.iter().flatten().any(|figure| figure.interval.is_none())
    }

    /// The finding of the hostile reader; none where nobody looked.
    fn sound(&self) -> Option<&Value> {
        self.samples.iter().find_map(|sample| sample.measured.facts.get("sound"))
    }
}

fn rows<'a>(run: &'a Run, suite: &Suite) -> Vec<Row<'a>> {
    let own = || run.samples.iter().filter(|sample| sample.suite == suite.name);
    let mut rows: Vec<Row<'_>> = Vec::new();
    for described in run.described(suite.name) {
        let samples: Vec<&Sample> = own().filter(|sample| sample.case == described.case).collect();
        let Some(first) = samples.first() else { continue };
        let along = suite.axis.and_then(|axis| {
            let bytes = first.measured.facts.get(axis.fact)?.as_u64()?;
            Some(format!("{}: {}", axis.label, size_text(bytes)))
        });
        let parts = [along, Some(described.group.clone()).filter(|group| !group.is_empty())];
        let figures = suite.quantities.iter().map(|quantity| estimate(&samples, quantity));
        rows.push(Row {
            heading: parts.into_iter().flatten().collect::<Vec<_>>().join(". "),
            figures: figures.collect(),
            times: None,
            samples,
            described,
        });
    }
    // Cases of a group stand together, whatever stands between them in the suite.
    let headings: Vec<String> = rows.iter().map(|row| row.heading.clone()).collect();
    rows.sort_by_key(|row| headings.iter().position(|heading| *heading == row.heading));
    let times: Vec<_> = rows.iter().map(|row| times(row, &rows, suite)).collect();
    for (row, times) in rows.iter_mut().zip(times) {
        row.times = times;
    }
    rows
}

fn estimate(samples: &[&Sample], quantity: &Quantity) -> Option<Estimate> {
    let values: Vec<f64> =
        samples.iter().filter_map(|sample| (quantity.of)(&sample.measured)).collect();
    stats::median(&values)
}

/// The ratio to the baseline, round by round.
fn times(row: &Row<'_>, rows: &[Row<'_>], suite: &Suite) -> Option<(Estimate, Verdict)> {
    let baseline = row.described.baseline.as_deref()?;
    let other = rows.iter().find(|other| other.name() == baseline)?;
    Measure::Quantity(*suite.quantities.first()?).paired(&row.samples, &other.samples)
}

/// Which columns there are, and how wide the cases' is.
struct Layout<'a> {
    suite: &'a Suite,
    width: usize,
    /// Which of the suite's figures any case has.
    has: Vec<bool>,
    /// How wide the column of baselines is; 0 without.
    baselines: usize,
    tells_sound: bool,
}

impl<'a> Layout<'a> {
    fn of(rows: &[Row<'_>], suite: &'a Suite, width: usize) -> Self {
        let has = |place: usize| rows.iter().any(|row| row.figures[place].is_some());
        let baselines = rows.iter().map(|row| baseline(row).len()).max().unwrap_or(0);
        Self {
            suite,
            width,
            has: (0..suite.quantities.len()).map(has).collect(),
            baselines,
            tells_sound: rows.iter().any(|row| row.sound().is_some()),
        }
    }

    fn head(&self, text: &mut String) {
        let _ = write!(text, "{:1$}", "case", self.width);
        for (place, quantity) in self.suite.quantities.iter().enumerate() {
            match place {
                0 => {
                    let _ = write!(text, "  {:>9}  {:>19}", quantity.unit, "95 % interval");
                }
                _ if self.has[place] => {
                    let _ = write!(text, "  {:>9}", quantity.unit);
                }
                _ => {}
            }
        }
        if self.baselines > 0 {
            let _ = write!(text, "  {:1$}", "times", self.baselines);
        }
        if self.tells_sound {
            let _ = write!(text, "  sound");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }

    fn row(&self, text: &mut String, row: &Row<'_>, most: f64) {
        let _ = write!(text, "{:1$}", row.name(), self.width);
        for (place, figure) in row.figures.iter().enumerate() {
            if place > 0 && !self.has[place] {
                continue;
            }
            let value = figure.map_or_else(String::new, |figure| number(figure.value));
            let _ = write!(text, "  {value:>9}");
            if place == 0 {
                let _ = write!(text, "  {:>19}", interval(row, self.suite));
            }
        }
        if self.baselines > 0 {
            let _ = write!(text, "  {:1$}", baseline(row), self.baselines);
        }
        if self.tells_sound {
            let sound = match row.sound() {
                Some(Value::Bool(true)) => "yes",
                Some(Value::Bool(false)) => "NO",
                Some(_) => "?",
                None => "",
            };
            let _ = write!(text, "  {sound:5}");
        }
        let _ = write!(text, "  {}", bar(row.figure().unwrap_or(0.0), most));
        text.truncate(text.trim_end().len());
        text.push('\n');
    }

    fn notes(&self, text: &mut String, rows: &[Row<'_>]) {
        if rows.iter().any(Row::is_few) {
            let _ = writeln!(
                text,
                "In brackets: least and most of fewer than {} samples, too few for an interval.",
                stats::FEWEST_SAMPLES
            );
        }
        let told = |row: &&Row<'_>| matches!(row.times, Some((_, Verdict::CannotTell)));
        if rows.iter().any(|row| told(&row)) {
            let _ = writeln!(
                text,
                "A question mark: cannot be told from the case that it is measured against."
            );
        }
        let unknown = |row: &Row<'_>| row.sound().is_some_and(Value::is_null);
        if rows.iter().any(unknown) {
            text.push_str("Sound '?': the hostile reader saw no byte change, and nobody promises that none does.\n");
        }
    }
}

fn interval(row: &Row<'_>, suite: &Suite) -> String {
    match row.figures.first().copied().flatten() {
        Some(Estimate { interval: Some(Interval { low, high }), .. }) => {
            format!("{} … {}", number(low), number(high))
        }
        Some(_) => {
            let first = suite.quantities.first();
            let of = |sample: &&Sample| first.and_then(|first| (first.of)(&sample.measured));
            let values: Vec<f64> = row.samples.iter().filter_map(of).collect();
            Summary::of(&values).map_or_else(String::new, |Summary { least, most, .. }| {
                format!("({} … {})", number(least), number(most))
            })
        }
        None => String::new(),
    }
}

/// `2.31x write-read`, or `1.02x? write-read` where nobody can tell.
fn baseline(row: &Row<'_>) -> String {
    let Some((ratio, verdict)) = &row.times else { return String::new() };
    let doubt = if *verdict == Verdict::CannotTell { "?" } else { "" };
    let name = row.described.baseline.as_deref().unwrap_or_default();
    format!("{}x{doubt} {name}", number(ratio.value))
}

/// With as many decimals as make three digits.
fn number(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 0.1 => 2,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

/// `4096` as `4K`: the largest unit that leaves no rest.
#[must_use]
pub(crate) fn size_text(bytes: u64) -> String {
    const UNITS: [(u32, &str); 3] = [(30, "G"), (20, "M"), (10, "K")];
    UNITS
        .iter()
        .find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift)
        .map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
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

/// The calls of the cases that were counted, along the axis for the largest value alone.
fn system_calls(text: &mut String, run: &Run, suite: &Suite) {
    let fact = |sample: &Sample, name: &str| count::of_fact(sample.measured.facts.get(name)?);
    let along = |sample: &Sample| {
        sample.measured.facts.get(suite.axis.map_or("", |axis| axis.fact)).and_then(Value::as_u64)
    };
    let mut counted: Vec<(&Sample, Calls)> = Vec::new();
    for sample in run.samples.iter().filter(|sample| sample.suite == suite.name) {
        if let Some(own) = fact(sample, "syscalls")
            && !counted.iter().any(|(known, _)| known.case == sample.case)
        {
            counted.push((sample, own));
        }
    }
    let largest = counted.iter().filter_map(|(sample, _)| along(sample)).max();
    counted.retain(|(sample, _)| along(sample) == largest);
    let place = |sample: &Sample| run.cases.iter().position(|known| known.case == sample.case);
    counted.sort_by_key(|(sample, _)| place(sample));
    if counted.is_empty() {
        return;
    }
    let lines: Vec<String> = counted.iter().map(|(_, calls)| count::line(calls)).collect();
    let title = largest.map_or("system calls".to_owned(), |bytes| {
        format!("system calls for {}", size_text(bytes))
    });
    let width = counted.iter().map(|(sample, _)| sample.case.len()).max().unwrap_or(0).max(4);
    let calls_width = lines.iter().map(String::len).max().unwrap_or(0).max(title.len());
    let _ = writeln!(text, "\n{:width$}  {title:calls_width$}  {:>7}  published", "case", "in all");
    for ((sample, own), line) in counted.iter().zip(&lines) {
        let in_all = fact(sample, "syscalls_in_all").map_or(0, |calls| calls.values().sum());
        let told = match fact(sample, "syscalls_published") {
            None => String::new(),
            Some(published) if count::agrees(own, &published) => "the same".to_owned(),
            Some(published) => format!("DIFFERS: {}", count::line(&published)),
        };
        let printed = sample.measured.facts.get("syscalls_printed").and_then(Value::as_str);
        let told = printed.map_or(told.clone(), |printed| format!("{told} ({printed})"));
        let line = format!("{:width$}  {line:calls_width$}  {in_all:>7}  {told}", sample.case);
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text.push_str(
        "The calls that move the data, counted by ptrace in a run of their own, and one read of the loader's:\n\
         so they stand in the published table, whose programs are C. In all: every call of our process.\n",
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Measured;
    use crate::suite;

    fn run(cases: &[(&str, Option<&str>, &[f64])]) -> Run {
        let mut run = Run::default();
        for (case, baseline, speeds) in cases {
            let described = Described::new("pipe", case).group("Spinning");
            run.cases.push(match baseline {
                Some(baseline) => described.against(*baseline),
                None => described,
            });
            run.samples.extend((1..).zip(*speeds).map(|(round, speed)| Sample {
                suite: "pipe".into(),
                case: (*case).into(),
                round,
                measured: Measured { gib_per_s: Some(*speed), ..Measured::default() },
            }));
        }
        run
    }

    fn shown(run: &Run) -> String {
        of(run, suite::named("pipe").expect("a suite"))
    }

    #[test]
    fn cases_stand_in_the_order_of_the_suite_and_not_of_the_samples() {
        let mut run = run(&[("a", None, &[1.0; 5]), ("b", None, &[2.0; 5])]);
        run.samples.reverse();
        let text = shown(&run);
        let [heading, head, a, b] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
        assert_eq!(heading, "Spinning");
        assert!(
            head.starts_with("case") && head.contains("GiB/s") && head.contains("95 % interval")
        );
        assert!(a.starts_with("a ") && b.starts_with("b "), "{text}");
    }

    #[test]
    fn each_heading_stands_once() {
        let mut run =
            run(&[("a", None, &[1.0; 5]), ("b", None, &[2.0; 5]), ("c", None, &[3.0; 5])]);
        run.cases[1].group = "Waiting".into();
        let text = shown(&run);
        let starts: Vec<&str> =
            text.lines().map(|line| line.split(' ').next().unwrap_or_default()).collect();
        assert_eq!(starts, ["Spinning", "case", "a", "c", "", "Waiting", "case", "b"], "{text}");
    }

    #[test]
    fn a_case_stands_beside_its_own_baseline() {
        let odd = [1.0, 9.0, 0.9, 1.0, 8.0];
        let text = shown(&run(&[
            ("first", None, &[100.0; 5]),
            ("measure", None, &[2.0; 5]),
            ("twice", Some("measure"), &[4.0; 5]),
            ("doubtful", Some("measure"), &odd),
            ("alone", Some("absent"), &[4.0; 5]),
        ]));
        assert!(text.contains("2.00x measure"), "{text}");
        assert!(text.contains("0.50x? measure") && text.contains("cannot be told from"), "{text}");
        assert!(!text.contains("absent"), "{text}");
    }

    #[test]
    fn where_less_is_better_half_as_much_is_twice_as_good() {
        let seconds = Quantity {
            unit: "s",
            of: |measured| measured.wall_s,
            less_is_better: true,
            ..suite::THROUGHPUT
        };
        let quantities: &'static [Quantity] = Box::leak(Box::new([seconds]));
        let timed = Suite { quantities, once: None, ..suite::pages::SUITE };
        let mut run = run(&[("slow", None, &[4.0; 5]), ("quick", Some("slow"), &[4.0; 5])]);
        for sample in &mut run.samples {
            sample.suite = "pages".into();
            sample.measured.wall_s = Some(if sample.case == "quick" { 0.5 } else { 1.0 });
        }
        run.cases.iter_mut().for_each(|case| case.suite = "pages".into());
        let text = of(&run, &timed);
        assert!(text.contains("2.00x slow"), "{text}");
        run.samples.retain(|sample| sample.round < 3);
        let text = of(&run, &timed);
        assert!(text.contains("(0.50 … 0.50)"), "{text}");
    }

    #[test]
    fn too_few_samples_have_no_interval() {
        let text = shown(&run(&[("few", None, &[1.0, 2.0]), ("more", None, &[1.0; 5])]));
        assert!(text.contains("(1.00 … 2.00)") && text.contains(" 1.00 … 1.00"), "{text}");
        assert!(text.ends_with("too few for an interval.\n"), "{text}");
    }

    #[test]
    fn bars_are_as_long_as_figures_are_large() {
        assert_eq!(bar(1.0, 1.0).chars().count(), BAR_CELLS);
        assert_eq!(bar(0.5, 1.0).chars().count(), BAR_CELLS / 2);
        assert_eq!(bar(0.0001, 1.0), "▏");
        assert_eq!(bar(0.0, 0.0), "");
    }

    #[test]
    fn sizes_are_named_by_the_largest_unit_without_a_rest() {
        for (bytes, text) in
            [(4096, "4K"), (512 << 20, "512M"), (1 << 30, "1G"), (4097, "4097"), (0, "0")]
        {
            assert_eq!(size_text(bytes), text);
        }
    }
}
