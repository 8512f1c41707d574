//! `gush lab export`: runs for another machine, or for another program.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use gush_lab::model::Run;
use gush_lab::{csv, transfer};

use super::screen;
use super::session::stored_runs;
use crate::console::Console;

/// Print stored runs, with every raw sample, as JSON or comma-separated values
#[derive(Debug, Parser)]
#[command(
    max_term_width = 100,
    after_help = "A run is an id, the start of an id, last, or last~1 for the run before.\n\
                  Take the runs to another machine:\n  \
                  gush lab export >here.json\n  \
                  gush lab import here.json"
)]
pub struct ExportArgs {
    /// The runs; all runs if none are named
    #[arg(value_name = "RUN")]
    runs: Vec<String>,
    /// Print JSON, which gush lab import reads (the default)
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print a row for every sample
    #[arg(long)]
    csv: bool,
    /// The directory of runs [default: $XDG_DATA_HOME/gush/runs]
    #[arg(long, value_name = "PATH")]
    db: Option<PathBuf>,
}

pub fn run(options: &ExportArgs) -> ExitCode {
    let console = Console::new("gush lab export");
    let runs = stored_runs(&console, options.db.as_ref(), &options.runs);
    let text = if options.csv { rows } else { transfer::json };
    screen::print(&console, runs.map(|(runs, is_whole)| (text(&runs), is_whole)))
}

fn rows(runs: &[Run]) -> String {
    let rows = runs.iter().flat_map(|run| {
        let rows = csv::Rows::of(run);
        run.samples.iter().map(move |sample| rows.row(sample))
    });
    [csv::HEADER.to_owned()].into_iter().chain(rows).map(|row| row + "\n").collect()
}
