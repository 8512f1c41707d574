//! `gush tune`: the suite `tune`, by a shorter name.

use std::ffi::OsString;
use std::process::ExitCode;

use gush_lab::suite::tune::SUITE;

use super::suites;

pub fn command() -> clap::Command {
    suites::command(&SUITE)
}

pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    let gush = clap::Command::new("gush").subcommand(command());
    super::run_as(gush, std::iter::once(SUITE.name.into()).chain(words), "gush")
}
