//! A command for each suite, made of the suite's row in the lab's table: options, cases, figures.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint};
use gush_lab::probe::Probe;
use gush_lab::suite::{Asked, Given, SUITES, Suite, Taken, Takes};
use gush_lab::{Error, csv, explain, table, transfer};
use gush_text::{memory_bytes, quote, some_bytes};

use super::reporting;
use super::screen::Screen;
use super::session::{Keep, Limits, Session};
use crate::files::takes_text_in_its_directory;
use crate::talk::Talker;

/// The options common to all suites.
#[derive(Debug, Args)]
pub struct Common {
    /// Measure every case N times, in turn with the others
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Only these cases
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Print every sample as comma-separated values
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
    SUITES.iter().map(|suite| {
        let columns = format!("The columns of --csv: {}", suite.columns.join(","));
        let more =
            if suite.more.is_empty() { columns } else { format!("{columns}\n\n{}", suite.more) };
        let (value_name, help) = suite.only;
        Common::augment_args(Command::new(suite.name).args(suite.options.iter().map(arg)))
            .mut_arg("rounds", |rounds| rounds.default_value(suite.rounds))
            .mut_arg("only", |only| only.value_name(value_name).help(help))
            .about(suite.about)
            .after_help(more)
            .max_term_width(100)
    })
}

/// The argument of an option that a suite takes.
pub fn arg(taken: &Taken) -> Arg {
    let operand = Arg::new(taken.name).help(taken.help);
    let option = operand.clone().long(taken.name);
    let some_of = |names: fn() -> Vec<&'static str>| PossibleValuesParser::new(names());
    let bytes = || ValueParser::new(|text: &str| memory_bytes(text).map(|bytes| bytes as u64));
    match taken.takes {
        Takes::Nothing => option.action(ArgAction::SetTrue),
        Takes::Size => option.value_name("SIZE").value_parser(some_bytes),
        Takes::Memory => option.value_name("SIZE").value_parser(bytes()),
        Takes::Sizes(alias) => option
            .visible_alias(alias)
            .value_name("SIZE,…")
            .value_delimiter(',')
            .action(ArgAction::Append)
            .value_parser(bytes()),
        Takes::Dir => option
            .value_name("DIR")
            .default_value(".")
            .value_parser(ValueParser::path_buf())
            .value_hint(ValueHint::DirPath),
        Takes::Word(name, names) => option.value_name(name).value_parser(some_of(names)),
        Takes::Words(name, names) => option
            .value_name(name)
            .value_delimiter(',')
            .action(ArgAction::Append)
            .value_parser(some_of(names)),
        Takes::Text(name) => option.value_name(name),
        Takes::Texts(name) => {
            option.value_name(name).value_delimiter(',').action(ArgAction::Append)
        }
        Takes::Operand => operand.required(true).value_parser(ValueParser::path_buf()),
    }
}

/// The values that `matches` have for the options `taken`.
pub fn asked(taken: &'static [Taken], matches: &ArgMatches) -> Result<Asked, Error> {
    let mut asked = Asked::of(this_program()?);
    for &Taken { name, takes, .. } in taken {
        let given = match takes {
            Takes::Nothing => matches.get_flag(name).then_some(Given::Yes),
            Takes::Size | Takes::Memory | Takes::Sizes(_) => {
                matches.get_many::<u64>(name).map(|sizes| Given::Sizes(sizes.copied().collect()))
            }
            Takes::Dir | Takes::Operand => {
                matches.get_one::<PathBuf>(name).map(|path| Given::Path(path.clone()))
            }
            Takes::Word(..) | Takes::Words(..) | Takes::Text(_) | Takes::Texts(_) => {
                matches.get_many::<String>(name).map(|words| Given::Words(words.cloned().collect()))
            }
        };
        if let Some(given) = given {
            asked.give(name, given);
        }
    }
    Ok(asked)
}

/// Measures the cases of `suite` asked for; shows and stores the samples.
///
/// Success if every case was measured. After an interrupt the samples so far are shown, and the
/// status is that of an interrupted program.
pub fn run(suite: &'static Suite, matches: &ArgMatches) -> ExitCode {
    let talker = Talker::new(&format!("gush lab {}", suite.name));
    match measured(suite, matches, &talker) {
        Ok(status) => status,
        Err(error) => talker.fail(error),
    }
}

fn measured(
    suite: &'static Suite,
    matches: &ArgMatches,
    talker: &Talker,
) -> Result<ExitCode, Error> {
    let common =
        Common::from_arg_matches(matches).map_err(|error| Error::refused(error.to_string()))?;
    let Common { rounds, only, csv, json, report, keep } = common;
    let mut asked = asked(suite.options, matches)?;
    asked.only = only;
    let mut made = suite.cases(&asked)?;
    made.cases = explain::recorded(made.cases)?;
    made.notes.iter().for_each(|note| talker.say(note));
    if let Some(Err(why)) = report.as_deref().map(takes_text_in_its_directory) {
        return Err(Error::refused(why));
    }
    let mut session = Session::begin(talker.clone(), &keep, Probe::take())?;
    let mut screen = Screen::new(talker.clone(), rounds);
    if csv {
        screen.print(&suite.columns.join(","));
    }
    session.expect(&made.cases);
    session.measure(&made.cases, rounds, Limits::default(), &mut screen, |screen, sample| {
        if csv {
            screen.print(&csv::row(suite.columns, sample));
        }
    });
    // The cases' files are removed before the last message.
    drop(made.cases);
    let ended = session.end();
    if json {
        screen.print(transfer::json(std::slice::from_ref(&ended.run)).trim_end());
    } else if !csv && !ended.run.samples.is_empty() {
        let shown = match made.show {
            Some(show) => show(&ended.run.samples),
            None => table::of(&ended.run, suite),
        };
        screen.print(shown.trim_end());
    }
    let written = report.as_deref().map(|path| reporting::after(&ended, Some(path)));
    let status = ended.last_words(screen);
    Ok(match written {
        Some(Err(why)) => talker.fail(why),
        Some(Ok(path)) => {
            talker.say(format_args!("report: {}", quote::if_needed(&path)));
            status
        }
        None => status,
    })
}
