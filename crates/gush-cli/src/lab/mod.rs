//! `gush lab`: a command for each suite, all made in the same way ([`suites`]), and those that work
//! on runs. `pipe`, `tune` and `doctor` come with the same feature.

mod compare;
pub mod doctor;
mod explain;
mod export;
mod history;
mod import;
mod once;
pub mod pipe;
mod report;
mod run;
mod screen;
mod session;
mod suites;
mod tour;
pub mod tune;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{ArgMatches, Args, FromArgMatches, Parser, Subcommand};
use gush_lab::suite::{self, Suite};

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
    tour: tour::TourArgs,
    #[command(subcommand)]
    command: Option<LabCommand>,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    Explain(explain::ExplainArgs),
    History(history::HistoryArgs),
    Compare(compare::CompareArgs),
    Export(export::ExportArgs),
    Import(import::ImportArgs),
    Report(report::ReportArgs),
    Run(Box<run::RunArgs>),
}

/// The arguments: a suite with the suite's own arguments, or one of the commands that are written
/// by hand.
enum Chosen {
    Suite(&'static Suite, ArgMatches),
    Once(ArgMatches),
    Other(Lab),
}

impl FromArgMatches for Chosen {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let chosen = matches.subcommand().and_then(|(name, own)| match suite::named(name) {
            Some(suite) => Some(Self::Suite(suite, own.clone())),
            None => (name == "once").then(|| Self::Once(own.clone())),
        });
        chosen.map_or_else(|| Lab::from_arg_matches(matches).map(Self::Other), Ok)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The one definition of `gush lab`: the source of help, manual page and completions.
pub fn command() -> clap::Command {
    let suites = clap::Command::new("lab").subcommands(suites::commands());
    Lab::augment_args(suites.subcommand(once::command()))
}

/// Runs `lab` with `words`, the arguments after the command's name.
pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    run_as(command(), words, "gush lab")
}

/// As [`run`], by a command that has some of the commands.
fn run_as(
    command: clap::Command,
    words: impl Iterator<Item = OsString>,
    as_name: &str,
) -> ExitCode {
    gush_process::restore_sigchld();
    let Lab { tour, command } = match args::parse::<Chosen>(command, words, as_name) {
        Ok(Chosen::Suite(suite, matches)) => return suites::run(suite, &matches, as_name),
        Ok(Chosen::Once(matches)) => return once::run(&matches),
        Ok(Chosen::Other(lab)) => lab,
        Err(status) => return status,
    };
    let Some(command) = command else { return tour::run(&tour) };
    match command {
        LabCommand::Explain(options) => explain::run(&options),
        LabCommand::History(options) => history::run(&options),
        LabCommand::Compare(options) => compare::run(&options),
        LabCommand::Export(options) => export::run(&options),
        LabCommand::Import(options) => import::run(&options),
        LabCommand::Report(options) => report::run(&options),
        LabCommand::Run(options) => run::run(&options),
    }
}
