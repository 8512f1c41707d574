//! Samples as a table for people: intervals, the case each one is measured against, and bars.

use serde_json::Value;

use crate::cases::{self, CaseRun};
use crate::count::{self, Calls};
use crate::figures::Measure;
use crate::model::Run;
use crate::stats::{self, Estimate, Verdict};
use crate::suite::{Quantity, Suite};
use gush_text::table::{self, Column, numbers, words};
use gush_text::three_digits;

const BAR_CELLS: usize = 30;
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// The samples of one suite: a line for each case below the heading of the group, with the suite's
/// figures; the system calls where they were counted.
///
/// An interval is that of the median; of fewer than [`stats::FEWEST_SAMPLES`] samples none can be
/// trusted, and the least and the most are in brackets.
pub fn of(run: &Run, suite: &Suite) -> String {
    let all = cases::suites(run);
    let Some(taken) = all.iter().find(|taken| taken.name == suite.name) else {
        return String::new();
    };
    let rows = rows(taken, suite);
    if rows.is_empty() {
        return String::new();
    }
    let cells: Vec<Vec<String>> = rows.iter().map(|row| row.cells(suite, &rows)).collect();
    let mut lines = table::lines(&columns(suite), &cells).into_iter();
    let head = lines.next().unwrap_or_default() + "\n";
    let mut text = String::new();
    let mut heading = None;
    for (row, line) in rows.iter().zip(lines) {
        if heading != Some(&row.heading) {
            text += if heading.is_some() { "\n" } else { "" };
            if !row.heading.is_empty() {
                text += &format!("{}\n", row.heading);
            }
            text += &head;
            heading = Some(&row.heading);
        }
        text += &format!("{line}\n");
    }
    text + &notes(&rows) + &system_calls(taken, suite)
}

/// The names of the columns, in the order of [`Row::cells`].
fn columns(suite: &Suite) -> Vec<Column> {
    let mut columns = vec![words("case")];
    for (place, quantity) in suite.quantities.iter().enumerate() {
        columns.push(numbers(quantity.unit));
        if place == 0 {
            columns.push(numbers("95 % interval"));
        }
    }
    columns.extend(["times", "sound", ""].map(words));
    columns
}

struct Row<'s, 'a> {
    case: &'s CaseRun<'a>,
    heading: String,
    /// Of the suite's figures, in their order.
    figures: Vec<Option<Estimate>>,
    times: Option<(Estimate, Verdict)>,
}

impl<'a> Row<'_, 'a> {
    fn figure(&self) -> Option<f64> {
        self.figures.first()?.map(|figure| figure.value)
    }

    /// The finding of the hostile reader, if it ran.
    fn sound(&self) -> Option<&'a Value> {
        self.case.fact("sound")
    }

    /// A text for each of the [`columns`]; the bar is relative to the longest under the same
    /// heading.
    fn cells(&self, suite: &Suite, all: &[Self]) -> Vec<String> {
        let mut cells = vec![self.case.name.to_owned()];
        for (place, figure) in self.figures.iter().enumerate() {
            cells.push(figure.map_or_else(String::new, |figure| three_digits(figure.value)));
            if place == 0 {
                cells.push(interval(self, suite));
            }
        }
        let sound = match self.sound() {
            Some(Value::Bool(true)) => "yes",
            Some(Value::Bool(false)) => "NO",
            Some(_) => "?",
            None => "",
        };
        let group = all.iter().filter(|other| other.heading == self.heading);
        let most = group.filter_map(Row::figure).fold(0.0, f64::max);
        let bar = bar(self.figure().unwrap_or(0.0), most);
        cells.extend([baseline(self), sound.to_owned(), bar]);
        cells
    }
}

fn rows<'s, 'a>(taken: &'s cases::SuiteRun<'a>, suite: &Suite) -> Vec<Row<'s, 'a>> {
    let row = |case: &'s CaseRun<'a>| {
        let along = suite.axis.and_then(|axis| {
            Some(format!("{}: {}", axis.label, gush_text::typed_bytes(case.number(axis.fact)?)))
        });
        let group = Some(&case.described.group).filter(|group| !group.is_empty());
        let figure = |quantity: &Quantity| stats::median(&values(case, quantity));
        let first = suite.quantities.first().copied().map(Measure::Quantity);
        let times =
            |measure: Measure<'_>| measure.paired(&case.samples, &case.baseline(taken)?.samples);
        Row {
            heading: along.iter().chain(group).cloned().collect::<Vec<_>>().join(". "),
            figures: suite.quantities.iter().map(figure).collect(),
            times: first.and_then(times),
            case,
        }
    };
    let mut rows: Vec<Row<'_, '_>> = taken.cases.iter().map(row).collect();
    // Cases of a group are adjacent, whatever is between them in the suite.
    let headings: Vec<String> = rows.iter().map(|row| row.heading.clone()).collect();
    rows.sort_by_key(|row| headings.iter().position(|heading| *heading == row.heading));
    rows
}

fn values(case: &CaseRun<'_>, quantity: &Quantity) -> Vec<f64> {
    case.samples.iter().filter_map(|sample| (quantity.of)(&sample.measured)).collect()
}

/// What the marks in the rows mean.
fn notes(rows: &[Row<'_, '_>]) -> String {
    let any = |is_so: &dyn Fn(&Row<'_, '_>) -> bool| rows.iter().any(is_so);
    let brackets = stats::brackets(rows.iter().flat_map(|row| &row.figures).flatten().copied());
    let notes = [
        (
            any(&|row| matches!(row.times, Some((_, Verdict::CannotTell)))),
            "A question mark: not measurably different from the case that it is compared with.\n",
        ),
        (
            any(&|row| row.sound().is_some_and(Value::is_null)),
            "Sound '?': the hostile reader saw no byte change, but there is no guarantee.\n",
        ),
    ];
    let notes = notes.into_iter().filter(|(is_so, _)| *is_so).map(|(_, note)| note);
    notes.fold(brackets, |text, note| text + note)
}

fn interval(row: &Row<'_, '_>, suite: &Suite) -> String {
    let (Some(first), Some(Some(figure))) = (suite.quantities.first(), row.figures.first()) else {
        return String::new();
    };
    figure.spread(&values(row.case, first), three_digits)
}

/// `2.31x write-read`, or `1.02x? write-read` without a measurable difference.
fn baseline(row: &Row<'_, '_>) -> String {
    let Some((ratio, verdict)) = &row.times else { return String::new() };
    let doubt = if *verdict == Verdict::CannotTell { "?" } else { "" };
    let name = row.case.described.baseline.as_deref().unwrap_or_default();
    format!("{}x{doubt} {name}", three_digits(ratio.value))
}

/// A bar proportional to `value` of `most`, and never empty.
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
fn system_calls<'s, 'a>(taken: &'s cases::SuiteRun<'a>, suite: &Suite) -> String {
    let along = |case: &CaseRun<'_>| suite.axis.and_then(|axis| case.number(axis.fact));
    let counted = |case: &'s CaseRun<'a>| Some((case, case.calls("syscalls")?));
    let mut counted: Vec<_> = taken.cases.iter().filter_map(counted).collect();
    let largest = counted.iter().filter_map(|(case, _)| along(case)).max();
    counted.retain(|(case, _)| along(case) == largest);
    if counted.is_empty() {
        return String::new();
    }
    let size =
        largest.map_or_else(String::new, |bytes| format!(" for {}", gush_text::typed_bytes(bytes)));
    let columns = [
        words("case"),
        words(format!("system calls{size}")),
        numbers("in all"),
        words("published"),
    ];
    let row = |(case, own): &(&CaseRun<'_>, Calls)| {
        let in_all = case.calls("syscalls_in_all").map_or(0, |calls| calls.values().sum());
        let published = match case.calls("syscalls_published") {
            None => String::new(),
            Some(published) if count::agrees(own, &published) => "the same".to_owned(),
            Some(published) => format!("DIFFERS: {}", count::line(&published)),
        };
        let printed = case.text("syscalls_printed").map(|printed| format!(" ({printed})"));
        let as_published = published + &printed.unwrap_or_default();
        vec![case.name.to_owned(), count::line(own), u64::to_string(&in_all), as_published]
    };
    let rows: Vec<Vec<String>> = counted.iter().map(row).collect();
    format!(
        "\n{}The calls that move the data, counted by ptrace in a separate run, and one read of the loader's:\n\
         so they are in the published table, whose programs are C. In all: every call of our process.\n",
        table::text(&columns, &rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Described, Measured, Sample};
    use crate::suite;

    fn run(cases: &[(&str, Option<&str>, &[f64])]) -> Run {
        let mut run = Run::default();
        for (case, baseline, speeds) in cases {
            let described = Described::new("pipe", case).group("Spinning");
            run.cases.push(match baseline {
                Some(baseline) => described.against(*baseline),
                None => described,
            });
            run.samples.extend((1..).zip(*speeds).map(|(round, speed)| {
                let measured = Measured { gib_per_s: Some(*speed), ..Measured::default() };
                Sample::new("pipe", case, round, measured)
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
    fn a_case_is_compared_with_its_own_baseline() {
        let odd = [1.0, 9.0, 0.9, 1.0, 8.0];
        let text = shown(&run(&[
            ("first", None, &[100.0; 5]),
            ("measure", None, &[2.0; 5]),
            ("twice", Some("measure"), &[4.0; 5]),
            ("doubtful", Some("measure"), &odd),
            ("alone", Some("absent"), &[4.0; 5]),
        ]));
        assert!(text.contains("2.00x measure"), "{text}");
        assert!(
            text.contains("0.50x? measure") && text.contains("not measurably different"),
            "{text}"
        );
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
    fn a_slip_of_the_published_table_is_corrected() {
        let calls = serde_json::json!({ "read": 2, "write": 1 });
        let measured = Measured { gib_per_s: Some(1.0), ..Measured::default() }
            .with("syscalls", calls.clone())
            .with("syscalls_published", calls)
            .with("syscalls_printed", "printed: read=3");
        let samples = vec![Sample::new("copy", "read-write-64K@512M", 1, measured)];
        let text = of(&Run { samples, ..Run::default() }, &suite::copy::SUITE);
        assert!(text.contains("the same (printed: read=3)"), "{text}");
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
}
