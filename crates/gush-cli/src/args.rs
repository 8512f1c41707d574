//! Parsing as GNU tools do it: long options may be shortened, the last of a repeated option counts, misuse is exit status 1.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Command, FromArgMatches};

use crate::talk::{self, Talker};

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
    let talker = Talker::new(as_name);
    // As other implementations do it: `cat (GNU coreutils) 9.1`, `cat (gush) 0.1.0`.
    let display_name =
        if as_name.starts_with("gush") { as_name.to_owned() } else { format!("{as_name} (gush)") };
    command
        .bin_name(as_name.to_owned())
        .display_name(display_name)
        .no_binary_name(true)
        .infer_long_args(true)
        .args_override_self(true)
        .try_get_matches_from(words)
        .and_then(|matches| T::from_arg_matches(&matches))
        .map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => print(&error, &talker),
            _ => refuse(&error, &talker, as_name),
        })
}

fn print(page: &clap::Error, talker: &Talker) -> ExitCode {
    let mut stdout = io::stdout().lock();
    match write!(stdout, "{}", page.render()).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => talker.fail(format_args!("write error: {}", talk::os_text(&error))),
    }
}

fn refuse(error: &clap::Error, talker: &Talker, as_name: &str) -> ExitCode {
    let explained = error.render().to_string();
    let reason: Vec<&str> = explained
        .lines()
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.trim().is_empty())
        .collect();
    let reason = reason.join("\n");
    talker.fail(reason.strip_prefix("error: ").unwrap_or(&reason));
    talker.print(format_args!("Try '{as_name} --help' for more information.\n"));
    ExitCode::FAILURE
}
