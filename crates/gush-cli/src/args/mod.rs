//! Parsing as in GNU tools: long options may be shortened, the last of a repeated option counts,
//! misuse is exit status 1.

use std::env;
use std::ffi::OsString;
use std::fmt::Display;
use std::mem;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Arg, Command, FromArgMatches};

use crate::console::Console;

pub mod getopt;
mod wrong;

use getopt::{Reading, spell_out};

/// Parses `words` (without the program's name) by the definition `command`; messages and help call
/// the command `as_name`.
///
/// # Errors
/// The exit status to end with. Help and version are printed to standard output (status 0), misuse
/// is explained on standard error (status 1).
pub fn parse<T: FromArgMatches>(
    command: Command,
    words: impl Iterator<Item = OsString>,
    as_name: &str,
) -> Result<T, ExitCode> {
    read(command, Reading::default(), words, as_name)
}

/// As [`parse`], for a command with the name of a GNU tool: an abbreviation of one of the tool's
/// long options (`gnu_options`) means the same here, and POSIXLY_CORRECT counts.
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
    let console = Console::new(as_name);
    let mut command = prepared(command, as_name);
    let words: Vec<OsString> = if command.has_subcommands() {
        words.collect()
    } else {
        command.build();
        spell_out(&command, reading, words).map_err(|wrong| misuse(&console, wrong, as_name))?
    };
    // A part may have parts itself: `gush generate man`.
    let (mut part, mut as_name) = (&command, as_name.to_owned());
    for word in &words {
        let Some(named) = part.find_subcommand(word) else { break };
        (part, as_name) = (named, format!("{as_name} {}", named.get_name()));
    }
    let parts: Vec<String> = part
        .get_subcommands()
        .filter(|part| !part.is_hide_set())
        .map(|part| part.get_name().to_owned())
        .collect();
    let shown = part.get_arguments().filter(|arg| !arg.is_hide_set());
    let options: Vec<String> = shown.filter_map(Arg::get_long).map(str::to_owned).collect();
    let console = Console::new(&as_name);
    let matches = command.try_get_matches_from_mut(words);
    // Freed with the process: dropping its thousand pieces takes a thirtieth of the start.
    mem::forget(command);
    matches.and_then(|matches| T::from_arg_matches(&matches)).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            console.page(error.render().to_string().as_bytes())
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            let wrong = format!("a command is missing: {}", parts.join(", "));
            misuse(&console, wrong, &as_name)
        }
        _ => misuse(&console, wrong::sentence(&error, &parts, &options), &as_name),
    })
}

fn prepared(command: Command, as_name: &str) -> Command {
    // The form of other implementations: `cat (GNU coreutils) 9.1`, `cat (gush) 0.1.0`.
    let display_name =
        if as_name.starts_with("gush") { as_name.to_owned() } else { format!("{as_name} (gush)") };
    command
        .bin_name(as_name.to_owned())
        .display_name(display_name)
        .no_binary_name(true)
        .infer_long_args(true)
        .args_override_self(true)
}

/// Prints the page of the option `name` of `command`, `help` or `version`.
pub fn page(command: Command, name: &str, as_name: &str) -> ExitCode {
    let words = [OsString::from(format!("--{name}"))];
    parse::<()>(command, words.into_iter(), as_name).err().unwrap_or_default()
}

/// Writes the message `wrong` and a hint at `--help`; returns the exit status for failure.
pub fn misuse(console: &Console, wrong: impl Display, as_name: &str) -> ExitCode {
    console.say(wrong);
    console.print(format_args!("Try '{as_name} --help' for more information.\n"));
    ExitCode::FAILURE
}

/// GNU's words about an unknown option, with the nearest of `names` to `given` if one is near.
fn unrecognized<'a>(word: &str, given: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    match gush_text::nearest(given, names) {
        Some(near) => format!("unrecognized option '{word}'; did you mean '--{near}'?"),
        None => format!("unrecognized option '{word}'"),
    }
}

/// Reads a number of threads; 0 leaves the number to the program.
///
/// # Errors
/// A hint about the right form.
pub fn threads(text: &str) -> Result<usize, &'static str> {
    // More threads would only cost memory.
    const MOST: usize = 1024;
    match text.parse() {
        Ok(number) if number <= MOST => Ok(number),
        _ => Err("not a number of threads: write a whole number from 0 to 1024"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_a_whole_number() {
        assert_eq!((threads("0"), threads("1024")), (Ok(0), Ok(1024)));
        for text in ["", "-1", "x", "1.5", "1025", "99999999999999999999"] {
            assert!(threads(text).unwrap_err().contains("whole number from 0 to 1024"), "{text}");
        }
    }
}
