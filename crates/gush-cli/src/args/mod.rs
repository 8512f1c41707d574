//! Parsing as GNU tools do it: long options may be shortened, the last of a repeated option counts, misuse is exit status 1.

use std::env;
use std::ffi::OsString;
use std::fmt::Display;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Command, FromArgMatches};

use crate::talk::Talker;

mod getopt;

use getopt::{Reading, spell_out};

/// Parses `words` (without the program's name) by `command`, which is shown to the user as `as_name`.
///
/// # Errors
/// The exit status to end with: help and version are printed to standard output (status 0), misuse is explained on standard
/// error (status 1).
pub fn parse<T: FromArgMatches>(
    command: Command,
    words: impl Iterator<Item = OsString>,
    as_name: &str,
) -> Result<T, ExitCode> {
    read(command, Reading::default(), words, as_name)
}

/// As [`parse`], for a command that also answers to the name of a GNU tool: a beginning of one of that tool's long
/// options (`gnu_options`) means the same here, and POSIXLY_CORRECT is heeded.
///
/// # Errors
/// As [`parse`].
pub fn parse_as_gnu<T: FromArgMatches>(
    command: Command,
    gnu_options: &[&str],
    words: impl Iterator<Item = OsString>,
    as_name: &str,
) -> Result<T, ExitCode> {
    let operands_end_options = env::var_os("POSIXLY_CORRECT").is_some();
    read(command, Reading { first: gnu_options, operands_end_options }, words, as_name)
}

fn read<T: FromArgMatches>(
    command: Command,
    reading: Reading<'_>,
    words: impl Iterator<Item = OsString>,
    as_name: &str,
) -> Result<T, ExitCode> {
    let talker = Talker::new(as_name);
    // As other implementations do it: `cat (GNU coreutils) 9.1`, `cat (gush) 0.1.0`.
    let display_name =
        if as_name.starts_with("gush") { as_name.to_owned() } else { format!("{as_name} (gush)") };
    let mut command = command
        .bin_name(as_name.to_owned())
        .display_name(display_name)
        .no_binary_name(true)
        .infer_long_args(true)
        .args_override_self(true);
    let words: Vec<OsString> = if command.has_subcommands() {
        words.collect()
    } else {
        command.build();
        spell_out(&command, reading, words).map_err(|wrong| misuse(&talker, wrong, as_name))?
    };
    command.try_get_matches_from(words).and_then(|matches| T::from_arg_matches(&matches)).map_err(
        |error| match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                talker.page(error.render().to_string().as_bytes())
            }
            _ => refuse(&error, &talker, as_name),
        },
    )
}

fn refuse(error: &clap::Error, talker: &Talker, as_name: &str) -> ExitCode {
    let explained = error.render().to_string();
    let reason: Vec<&str> = explained
        .lines()
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.trim().is_empty())
        .collect();
    let reason = reason.join("\n");
    misuse(talker, reason.strip_prefix("error: ").unwrap_or(&reason), as_name)
}

fn misuse(talker: &Talker, wrong: impl Display, as_name: &str) -> ExitCode {
    talker.say(wrong);
    talker.print(format_args!("Try '{as_name} --help' for more information.\n"));
    ExitCode::FAILURE
}

/// The nearest of `names` to a mistyped `word`, if one is near.
pub fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let plain = word.to_lowercase().replace('_', "-");
    let near = names.map(|name| (strsim::damerau_levenshtein(&plain, name), name)).min();
    // Of a word of a letter or two nothing is left that could be near.
    let is_near =
        |distance, name: &str| distance <= 1 + name.len() / 4 && distance + 1 < word.len();
    near.filter(|&(distance, name)| is_near(distance, name)).map(|(_, name)| name)
}
