//! `gush lab compare`: two runs side by side.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use gush_lab::compare::{self, Compared, Comparison, Difference, Failed, Unlike};
use gush_lab::model::Failure;
use gush_lab::stats::Verdict;
use gush_lab::store::StoreError;
use gush_text::table::{self, numbers, words};

use super::history::NO_INTERVAL;
use super::run::percent;
use super::screen::Screen;
use super::session::stored_runs;
use crate::console::Console;

/// Say case by case whether the second run is faster or slower than the first
#[derive(Debug, Parser)]
#[command(
    max_term_width = 100,
    after_help = "A run is an id, the start of an id, last, or last~1 for the run before.\n\
                  A verdict needs 5 samples a side, and an interval of the ratio wholly beyond the margin, and beyond \
                  what other programs on the machine can have made of the difference."
)]
pub struct CompareArgs {
    /// The run to compare with
    #[arg(value_name = "FIRST", default_value = "last~1")]
    first: String,
    /// The run to judge
    #[arg(value_name = "SECOND", default_value = "last")]
    second: String,
    /// Leave differences up to so many percent undecided [default: 5, and on a virtual machine 5
    /// more]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    margin: Option<f64>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// The directory of runs [default: $XDG_DATA_HOME/gush/runs]
    #[arg(long, value_name = "PATH")]
    db: Option<PathBuf>,
}

pub fn run(options: &CompareArgs) -> ExitCode {
    let console = Console::new("gush lab compare");
    let comparison = match compared(&console, options) {
        Ok(comparison) => comparison,
        Err(error) => return console.fail(error),
    };
    let mut screen = Screen::new(console.clone(), 0);
    if options.json {
        screen.print(&serde_json::to_string_pretty(&comparison).unwrap_or_default());
    } else {
        screen.print(table(&comparison).trim_end());
    }
    match screen.ended() {
        Err(status) => status,
        Ok(()) if comparison.cases.is_empty() => {
            let [first, second] = &comparison.runs;
            console.fail(format_args!(
                "{first} and {second} have no case in common that measured the same: name two runs \
                 of the same suite (gush lab history lists them)"
            ))
        }
        Ok(()) => ExitCode::SUCCESS,
    }
}

fn compared(console: &Console, options: &CompareArgs) -> Result<Comparison, StoreError> {
    let words = [options.first.clone(), options.second.clone()];
    let (runs, _) = stored_runs(console, options.db.as_ref(), &words)?;
    Ok(compare::runs(&runs[0], &runs[1], options.margin))
}

/// If other programs took more than this part, the default margin is wider, and a line says so.
const DISTURBING: f64 = 0.05;

/// So many comparisons have a wrong one among them by chance.
const MANY: usize = 10;

fn table(comparison: &Comparison) -> String {
    let mut text = circumstances(comparison);
    text += &rows(&comparison.cases);
    if comparison.cases.iter().any(|case| case.ratio.interval.is_none()) {
        text += NO_INTERVAL;
    }
    text + &verdicts(comparison) + &left_out(comparison)
}

/// What is compared, the differences between the machines, and whether others took their
/// processors.
fn circumstances(comparison: &Comparison) -> String {
    let Comparison { runs, others, differences, .. } = comparison;
    let mut text = format!("{} is the measure, {} is judged\n", runs[0], runs[1]);
    for difference in differences {
        let [before, after] = &difference.values;
        text += &format!("differs: {}: {before} → {after}\n", difference.fact);
    }
    for (run, others) in runs.iter().zip(others).filter(|(_, others)| **others > DISTURBING) {
        text += &format!(
            "disturbed: others took {:.0} % of the processors' time while {run} was made: measure again when \
             the machine is quiet\n",
            others * 100.0
        );
    }
    text
}

/// A row for each case in both runs.
fn rows(cases: &[Compared]) -> String {
    let columns = [
        words("case"),
        numbers("first"),
        numbers("second"),
        words(""),
        numbers("ratio"),
        numbers("95 % interval"),
        words("verdict"),
    ];
    let row = |Compared { suite, case, medians, unit, ratio, verdict, .. }: &Compared| {
        let [first, second, times] =
            [&medians[0], &medians[1], ratio].map(|one| format!("{:.3}", one.value));
        let (name, unit, verdict) = (format!("{suite} {case}"), unit.clone(), verdict.to_string());
        vec![name, first, second, unit, times, ratio.around(3), verdict]
    };
    table::text(&columns, &cases.iter().map(row).collect::<Vec<_>>())
}

/// How many cases are faster and slower, and how far chance may have a hand in that.
fn verdicts(comparison: &Comparison) -> String {
    let Comparison { cases, margin, drift, .. } = comparison;
    let count = |wanted| cases.iter().filter(|case| case.verdict == wanted).count();
    let drift = match drift * 100.0 {
        0.0 => String::new(),
        drift => {
            format!(", and {drift:.0} % more, which other programs or machines may have caused,")
        }
    };
    let mut text = format!(
        "{} faster, {} slower, {} cannot tell (differences up to {:.0} %{drift} are left undecided)\n",
        count(Verdict::Faster),
        count(Verdict::Slower),
        count(Verdict::CannotTell),
        margin * 100.0
    );
    if cases.len() >= MANY {
        text += &format!(
            "of {} comparisons at 95 % up to {} can be wrong by chance\n",
            cases.len(),
            // One in twenty lies outside an interval of 95 %.
            cases.len().div_ceil(20)
        );
    }
    text
}

/// The cases that are not compared, or not surely the same, and the reasons.
fn left_out(comparison: &Comparison) -> String {
    let Comparison { runs, unlike, failed, alone, .. } = comparison;
    let mut text = String::new();
    for Unlike { suite, case, differences } in unlike {
        let all = differences.iter().map(|Difference { fact, values: [before, after] }| {
            format!("{fact}: {before} → {after}")
        });
        text += &format!(
            "not compared: {suite} {case} is not the same in both: {}\n",
            all.collect::<Vec<_>>().join("; ")
        );
    }
    for Failed { run, failure: Failure { suite, case, error } } in failed {
        text += &format!("not compared: {suite} {case} is left out in {run}: {error}\n");
    }
    for (index, alone) in alone.iter().enumerate().filter(|(_, alone)| **alone > 0) {
        let have = if *alone == 1 { "case has" } else { "cases have" };
        text += &format!("{alone} {have} figures in {} only\n", runs[index]);
    }
    text
}
