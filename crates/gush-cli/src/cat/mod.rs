//! `gush cat`: GNU cat's command line; bytes by the engine, text flags by a formatter of our own.

mod options;
mod show;
mod source;
mod stream;
mod text;

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::CommandFactory;
use rustix::fs::{Stat, fstat};

use crate::args;
use crate::quote::quote;
use crate::talk::{Talker, os_text};
use options::Options;
use show::{Show, Trouble};
use source::Source;

/// The one definition behind `gush cat`, its help, its manual page and its completions.
pub fn command() -> clap::Command {
    Options::command()
}

/// Runs `cat` with `words`, the arguments after its name, and speaks to the user as `as_name`.
pub fn run(words: impl Iterator<Item = OsString>, as_name: &str) -> ExitCode {
    let options: Options = match args::parse(command(), words, as_name) {
        Ok(options) => options,
        Err(status) => return status,
    };
    let talker = Talker::new(as_name);
    let target = rustix::stdio::stdout();
    let target_stat = match fstat(target) {
        Ok(stat) => stat,
        Err(errno) => {
            return talker.fail(format_args!("standard output: {}", os_text(&errno.into())));
        }
    };
    let mut show = match Show::new(&options, target) {
        Ok(show) => show,
        Err(why) => return talker.fail(why),
    };
    let mut status = ExitCode::SUCCESS;
    for name in options.files() {
        match one(name, &target_stat, &mut show, &talker) {
            Ok(()) => {}
            Err(Failure::Operand) => status = ExitCode::FAILURE,
            Err(Failure::Output) => return ExitCode::FAILURE,
        }
    }
    match show.finish() {
        Ok(()) => status,
        Err(error) => talker.fail(format_args!("write error: {}", os_text(&error))),
    }
}

/// Why an operand was not shown in full. The user is told already.
enum Failure {
    /// This operand's own: the next one may do better.
    Operand,
    /// Standard output's: no operand can do better.
    Output,
}

fn one(name: &OsStr, target: &Stat, show: &mut Show<'_>, talker: &Talker) -> Result<(), Failure> {
    let source = Source::open(name).map_err(|error| {
        talker.say_failed_open(name, &error);
        Failure::Operand
    })?;
    if source.would_feed_itself(target) {
        talker.say(format_args!("{}: input file is output file", quote(name)));
        return Err(Failure::Operand);
    }
    match show.one(name, &source, talker) {
        Ok(()) => Ok(()),
        Err(Trouble::Source { what, error }) => {
            talker.say_failed(name, what, &error);
            Err(Failure::Operand)
        }
        Err(Trouble::Refused(why)) => {
            talker.say(format_args!("{}: {why}", quote(name)));
            Err(Failure::Operand)
        }
        Err(Trouble::Target {
            delivered_bytes: 0,
            error,
        }) => {
            talker.say(format_args!("write error: {}", os_text(&error)));
            Err(Failure::Output)
        }
        Err(Trouble::Target {
            delivered_bytes,
            error,
        }) => {
            talker.say(format_args!(
                "write error after {delivered_bytes} bytes of {}: {}",
                quote(name),
                os_text(&error)
            ));
            Err(Failure::Output)
        }
    }
}
