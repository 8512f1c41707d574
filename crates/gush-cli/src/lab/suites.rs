//! A command for each suite, made of the suite's row in the lab's table: options, cases, figures.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use gush_lab::explain::Switch;
use gush_lab::probe::Probe;
use gush_lab::suite::{Asked, SUITES, Suite};
use gush_lab::{Error, table, transfer};
use gush_text::quote;

use super::screen::Screen;
use super::session::{Keep, Limits, Session};
use crate::console::Console;
use crate::files::takes_text_in_its_directory;

/// The options common to all suites.
#[derive(Debug, Args)]
pub struct Common {
    /// Measure every case N times, in turn with the others
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Only these cases
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Print every sample as comma-separated values, as gush lab export does
    #[arg(long)]
    csv: bool,
    /// Print the whole run as JSON, as gush lab export does
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Write a report of this run and earlier ones to the file PATH
    #[arg(long, value_name = "PATH")]
    report: Option<PathBuf>,
    #[command(flatten)]
    keep: Keep,
}

/// The path of this program, which cases start again.
pub fn this_program() -> Result<PathBuf, Error> {
    env::current_exe().map_err(|error| Error::failed("cannot find this program", error))
}

/// The commands of all suites.
pub fn commands() -> impl Iterator<Item = Command> {
    SUITES.iter().map(|suite| command(suite))
}

/// The command of a suite.
pub fn command(suite: &Suite) -> Command {
    let (value_name, help) = suite.only;
    Common::augment_args(Command::new(suite.name).args((suite.options)()))
        .mut_arg("rounds", |rounds| rounds.default_value(suite.rounds))
        .mut_arg("only", |only| only.value_name(value_name).help(help))
        .about(suite.about)
        .after_help(suite.more)
        .max_term_width(100)
}

/// Measures the cases of `suite`, a part of `as_name`, that are asked for; shows and stores the
/// samples.
///
/// Success if every case was measured. After an interrupt the samples so far are shown, and the
/// status is that of an interrupted program.
pub fn run(suite: &'static Suite, matches: &ArgMatches, as_name: &str) -> ExitCode {
    let console = Console::new(&format!("{as_name} {}", suite.name));
    measured(suite, matches, &console).unwrap_or_else(|error| console.fail(error))
}

fn measured(
    suite: &'static Suite,
    matches: &ArgMatches,
    console: &Console,
) -> Result<ExitCode, Error> {
    let common =
        Common::from_arg_matches(matches).map_err(|error| Error::refused(error.to_string()))?;
    let Common { rounds, only, csv, json, report, keep } = common;
    let mut asked = Asked::new(this_program()?, matches.clone());
    asked.only = only;
    let made = (suite.make)(&asked)?;
    let switch = Switch::for_the_only(&made.cases)?;
    made.notes.iter().for_each(|note| console.say(note));
    if let Some(Err(why)) = report.as_deref().map(takes_text_in_its_directory) {
        return Err(Error::refused(why));
    }
    let mut session = Session::begin(console.clone(), &keep, Probe::take())?;
    session.switch = switch;
    let mut screen = Screen::new(console.clone(), rounds);
    if csv {
        screen.print_samples(&session.run);
    }
    session.expect(&made.cases);
    let limits = Limits { rounds: Some(rounds), ..Limits::default() };
    session.measure(&made.cases, &mut |_, _| true, limits, &mut screen);
    // The cases' files are removed before the last message.
    drop(made.cases);
    let ended = session.end();
    if json {
        screen.print(transfer::json(std::slice::from_ref(&ended.run)).trim_end());
    } else if !csv && !ended.run.samples.is_empty() {
        let shown = match made.show {
            Some(show) => show(&ended.run),
            None => table::of(&ended.run, suite),
        };
        screen.print(shown.trim_end());
    }
    let written = report.as_deref().map(|path| ended.report(Some(path)));
    let status = ended.last_words(screen);
    Ok(match written {
        Some(Err(why)) => console.fail(why),
        Some(Ok(path)) => {
            console.say(format_args!("report: {}", quote::if_needed(&path)));
            status
        }
        None => status,
    })
}
