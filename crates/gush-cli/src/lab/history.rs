//! `gush lab history`: the list of stored runs, or the figures of one.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use gush_lab::figures::{self, Figure};
use gush_lab::model::Run;
use gush_lab::store::StoreError;
use gush_text::table::{self, numbers, words};
use serde::Serialize;

use super::screen;
use super::session::stored_runs;
use crate::console::Console;

/// List the stored runs, or the figures of one, with their intervals
#[derive(Debug, Parser)]
#[command(max_term_width = 100)]
pub struct HistoryArgs {
    /// A run: an id, the start of an id, last, or last~1 for the run before
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// The directory of runs [default: $XDG_DATA_HOME/gush/runs]
    #[arg(long, value_name = "PATH")]
    db: Option<PathBuf>,
}

pub fn run(options: &HistoryArgs) -> ExitCode {
    let console = Console::new("gush lab history");
    screen::print(&console, text(&console, options))
}

/// The text, and whether all runs that it is about could be read.
fn text(console: &Console, options: &HistoryArgs) -> Result<(String, bool), StoreError> {
    let (runs, is_whole) = stored_runs(console, options.db.as_ref(), options.run.as_slice())?;
    let text = match &runs[..] {
        [run] if options.run.is_some() => shown(run, options.json),
        runs if options.json => json(&runs.iter().map(listed).collect::<Vec<_>>()),
        runs => table(runs),
    };
    Ok((text, is_whole))
}

/// The figures of one run.
fn shown(run: &Run, as_json: bool) -> String {
    let figures = figures::of(run);
    if as_json {
        #[derive(Serialize)]
        struct Shown<'a> {
            #[serde(flatten)]
            run: Listed<'a>,
            machine: &'a gush_lab::model::Machine,
            warnings: &'a [gush_lab::model::Warning],
            failures: &'a [gush_lab::model::Failure],
            figures: &'a [Figure],
        }
        let Run { machine, warnings, failures, .. } = run;
        let shown = Shown { run: listed(run), machine, warnings, failures, figures: &figures };
        return json(&shown);
    }
    detail(run, &figures)
}

/// The JSON fields of a run.
#[derive(Serialize)]
struct Listed<'a> {
    id: &'a str,
    started: String,
    state: &'static str,
    suites: Vec<&'a str>,
    samples: u64,
    machine_id: &'a str,
    host: &'a str,
    processor: &'a str,
    kernel: &'a str,
    gush: &'a str,
    command: &'a [String],
}

fn listed(run: &Run) -> Listed<'_> {
    let mut suites: Vec<&str> = run.samples.iter().map(|sample| sample.suite.as_str()).collect();
    suites.sort_unstable();
    suites.dedup();
    Listed {
        id: &run.id,
        started: run.started.to_string(),
        state: state(run),
        suites,
        samples: run.samples.len() as u64,
        machine_id: &run.machine.id,
        host: fact(run, "host"),
        processor: fact(run, "processor"),
        kernel: fact(run, "kernel"),
        gush: &run.gush,
        command: &run.command,
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn fact<'a>(run: &'a Run, name: &str) -> &'a str {
    run.machine.facts.get(name).map_or("", String::as_str)
}

/// A killed run looks the same as an unfinished one.
fn state(run: &Run) -> &'static str {
    match (run.finished, run.interrupted) {
        (None, _) => "unfinished",
        (Some(_), true) => "interrupted",
        (Some(_), false) => "whole",
    }
}

fn table(runs: &[Run]) -> String {
    if runs.is_empty() {
        return "no runs yet: gush lab, or gush lab import, makes the first".to_owned();
    }
    let row = |run: &Run| {
        let [id, state, machine, kernel] =
            [&run.id, state(run), &run.machine.id, fact(run, "kernel")].map(str::to_owned);
        vec![id, state, run.samples.len().to_string(), machine, kernel, run.command_line()]
    };
    let columns = [
        words("run"),
        words("state"),
        numbers("samples"),
        words("machine"),
        words("kernel"),
        words("command"),
    ];
    table::text(&columns, &runs.iter().map(row).collect::<Vec<_>>())
}

fn detail(run: &Run, figures: &[Figure]) -> String {
    let mut text = format!("run {} ({}), {}\n", run.id, state(run), run.command_line());
    for (name, value) in &run.machine.facts {
        text += &format!("{name}: {value}\n");
    }
    for warning in &run.warnings {
        text += &format!("warning: {warning}\n");
    }
    for failure in &run.failures {
        text += &format!("not measured: {} {}: {}\n", failure.suite, failure.case, failure.error);
    }
    for own in figures.chunk_by(|one, other| one.suite == other.suite) {
        let columns = [
            words("case"),
            numbers(&own[0].unit),
            numbers("95 % interval"),
            numbers("samples"),
            numbers("times"),
            numbers("95 % interval"),
            words("what"),
        ];
        let row = |Figure { case, median, times, baseline, samples, .. }: &Figure| {
            let baseline = baseline.clone().filter(|_| times.is_some()).unwrap_or_default();
            let (times, interval) = times.as_ref().map_or_else(Default::default, |times| {
                (format!("{:.2}x", times.value), times.around(3))
            });
            let value = format!("{:.3}", median.value);
            vec![
                case.clone(),
                value,
                median.around(3),
                samples.to_string(),
                times,
                interval,
                baseline,
            ]
        };
        let rows: Vec<_> = own.iter().map(row).collect();
        text += &format!("\n{}\n{}", own[0].suite, table::text(&columns, &rows));
    }
    if figures.iter().any(|figure| figure.median.interval.is_none()) {
        text += NO_INTERVAL;
    }
    text
}

/// Why a figure is not compared.
pub const NO_INTERVAL: &str = "Without an interval: of fewer than 5 samples, too few for one.\n";
