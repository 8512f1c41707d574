//! `gush yes`: GNU yes' command line, by the engine's [`Repeat`].

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use clap::{ArgAction, CommandFactory, Parser};
use gush::{Errno, Repeat};
use gush_text::{errno_text, noted, os_text};

use crate::args;
use crate::console::{Console, die_if_nobody_reads};

/// Repeatedly output a line with all specified STRING(s), or 'y'
#[derive(Debug, Parser)]
#[command(
    name = "yes",
    version,
    max_term_width = 100,
    disable_help_flag = true,
    disable_version_flag = true
)]
struct YesArgs {
    /// Joined by spaces
    #[arg(value_name = "STRING", default_value = "y", hide_default_value = true)]
    strings: Vec<OsString>,

    /// Print to standard error how the line is written, and which calls were refused
    #[arg(long, help_heading = BEYOND)]
    explain: bool,

    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
    /// Print version
    #[arg(long, action = ArgAction::Version)]
    version: Option<bool>,
}

const BEYOND: &str = "Beyond GNU yes";

/// The definition of `gush yes`, from which help, manual page and completions are made.
pub fn command() -> clap::Command {
    YesArgs::command()
}

/// Runs `yes` with `words`, the arguments after the command's name. Messages start with `as_name`.
pub fn run(words: impl Iterator<Item = OsString>, as_name: &str) -> ExitCode {
    let options: YesArgs = match args::parse_as_gnu(command(), &["help", "version"], words, as_name)
    {
        Ok(options) => options,
        Err(status) => return status,
    };
    let console = Console::new(as_name);
    if let Err(status) = console.outlives_file_size_limit() {
        return status;
    }
    if gush_process::was_closed(1) {
        return console.fail(format_args!("standard output: {}", errno_text(Errno::BADF)));
    }
    let line = line(&options.strings);
    let mut repeat = Repeat::new(&line);
    let say = |line: &str| console.say(line);
    if options.explain {
        repeat = repeat.explained_to(&say);
    }
    match repeat.run(&rustix::stdio::stdout()) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            // The write to a socket raises no SIGPIPE.
            error.io_error().into_iter().for_each(die_if_nobody_reads);
            let cause = error.io_error().map(os_text).unwrap_or_else(|| error.to_string());
            let note = noted(&format!("after {} bytes", error.delivered_bytes()), error.hint());
            console.fail(format_args!("standard output: {cause}{note}"))
        }
    }
}

fn line(strings: &[OsString]) -> Vec<u8> {
    let words: Vec<&[u8]> = strings.iter().map(|string| string.as_bytes()).collect();
    let mut line = words.join(&b' ');
    line.push(b'\n');
    line
}
