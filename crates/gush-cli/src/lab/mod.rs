//! `gush lab`: suites of measurements, one file each; [`suite`] runs them all in the same way.

mod compare;
mod copy;
mod explain;
mod export;
mod history;
mod import;
mod limit;
mod matrix;
mod memory;
mod once;
mod pages;
mod pipe;
mod relay;
mod report;
mod reporting;
mod screen;
mod session;
mod suite;
mod tour;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::args;

/// Measure every technique on this machine
#[derive(Debug, Parser)]
#[command(
    name = "lab",
    version,
    max_term_width = 100,
    args_conflicts_with_subcommands = true,
    after_help = "Without a command: a tour of all suites in about a minute, and a report."
)]
struct Lab {
    #[command(flatten)]
    tour: tour::Options,
    #[command(subcommand)]
    part: Option<Part>,
}

#[derive(Debug, Subcommand)]
enum Part {
    Explain(explain::Options),
    Matrix(matrix::Options),
    Pipe(pipe::Options),
    Copy(copy::Options),
    Pages(pages::Options),
    Memory(memory::Options),
    #[command(hide = true)]
    Once(once::Options),
    Relay(relay::Options),
    History(history::Options),
    Compare(compare::Options),
    Export(export::Options),
    Import(import::Options),
    Report(report::Options),
}

/// The one definition behind `gush lab`: help, manual page and completions come from it.
pub fn command() -> clap::Command {
    Lab::command()
}

/// Runs `lab` with `words`, the arguments after the command's name.
pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    let Lab { tour, part } = match args::parse::<Lab>(command(), words, "gush lab") {
        Ok(lab) => lab,
        Err(status) => return status,
    };
    let Some(part) = part else { return tour::run(&tour) };
    match part {
        Part::Explain(options) => explain::run(&options),
        Part::Matrix(options) => matrix::run(&options),
        Part::Pipe(options) => pipe::run(&options),
        Part::Copy(options) => copy::run(&options),
        Part::Pages(options) => pages::run(&options),
        Part::Memory(options) => memory::run(&options),
        Part::Once(options) => once::run(options),
        Part::Relay(options) => relay::run(&options),
        Part::History(options) => history::run(&options),
        Part::Compare(options) => compare::run(&options),
        Part::Export(options) => export::run(&options),
        Part::Import(options) => import::run(&options),
        Part::Report(options) => report::run(&options),
    }
}
