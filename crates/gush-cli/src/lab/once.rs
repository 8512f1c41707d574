//! `gush lab once`: one measurement in this process, as a line of JSON. Suites start this command,
//! and tracing and profiling see this command too.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use gush_lab::model::Measured;
use gush_lab::suite::{self, Asked, SUITES};
use gush_lab::{Error, count, once};

use super::suites::this_program;
use crate::console::Console;

/// The command, with a subcommand for each suite that measures in a separate process.
pub fn command() -> Command {
    let part = |suite: &&suite::Suite| {
        let once = suite.once.as_ref()?;
        let command = Command::new(suite.name).about(once.about).max_term_width(100);
        Some(command.args((once.options)()))
    };
    Command::new("once")
        .about("Measure once, in this process, and print the figures as JSON")
        .hide(true)
        .max_term_width(100)
        .arg(
            Arg::new("cpu")
                .long("cpu")
                .value_name("NUMBER")
                .value_parser(clap::value_parser!(usize))
                .help("Stay on this processor"),
        )
        .arg(
            Arg::new("traced")
                .long("traced")
                .action(ArgAction::SetTrue)
                .hide(true)
                .help("Be traced by the parent process first"),
        )
        .subcommand_required(true)
        .subcommands(SUITES.iter().filter_map(part))
}

/// Makes the measurement that `matches` name.
pub fn run(matches: &ArgMatches) -> ExitCode {
    let console = Console::new("gush lab once");
    let print = |measured: Measured| {
        let line = serde_json::to_string(&measured).expect("its keys are strings");
        console.page(format!("{line}\n").as_bytes())
    };
    measure(matches).map_or_else(|error| console.fail(error), print)
}

fn measure(matches: &ArgMatches) -> Result<Measured, Error> {
    if matches.get_flag("traced") {
        let words: Vec<OsString> =
            std::env::args_os().skip(1).filter(|word| word != "--traced").collect();
        match count::gate::enter(&this_program()?, &words)? {}
    }
    if let Some(processor) = matches.get_one("cpu") {
        once::pin(*processor)?;
    }
    let found = matches.subcommand().and_then(|(name, given)| {
        let once = suite::named(name)?.once.as_ref()?;
        Some((once.run, given.clone()))
    });
    let Some((run, given)) = found else {
        return Err(Error::refused("name what is to be measured"));
    };
    run(&Asked::new(this_program()?, given))
}
