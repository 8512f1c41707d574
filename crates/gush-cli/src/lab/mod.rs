//! `gush lab`: suites of measurements.

use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use gush_lab::runner::{Conditions, Event, Runner};
use gush_lab::{csv, suite, table};

use crate::args;
use crate::size::size_bytes;
use crate::talk::{Talker, os_text};

/// Measure every technique on this machine
#[derive(Debug, Parser)]
#[command(name = "lab", version, max_term_width = 100)]
struct Lab {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Debug, Subcommand)]
enum Suite {
    Pipe(Pipe),
}

/// The pipe speed test, rung by rung: gush pipe write and read, pinned, in rounds
#[derive(Debug, Parser)]
#[command(max_term_width = 100)]
struct Pipe {
    /// Move SIZE bytes in every case, instead of as many as take up to a second or so
    #[arg(long, value_name = "SIZE", value_parser = size_bytes)]
    bytes: Option<u64>,
    /// Measure every case N times, in turn with the others
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Only these cases
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    only: Vec<String>,
    /// Print every sample: case,round,gib_per_s,bytes,buffer_bytes,pipe_bytes,sound
    #[arg(long)]
    csv: bool,
}

/// The one definition behind `gush lab`, its help, its manual page and its completions.
pub fn command() -> clap::Command {
    Lab::command()
}

/// Runs `lab` with `words`, the arguments after its name.
pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    match args::parse::<Lab>(command(), words, "gush lab") {
        Ok(Lab { suite: Suite::Pipe(options) }) => pipe(&options),
        Err(status) => status,
    }
}

fn pipe(options: &Pipe) -> ExitCode {
    let talker = Talker::new("gush lab pipe");
    let cases = match suite::pipe::choose(&options.only) {
        Ok(cases) => cases,
        Err(error) => return talker.fail(error),
    };
    let program = match env::current_exe() {
        Ok(program) => program,
        Err(error) => {
            return talker.fail(format_args!("cannot find this program: {}", os_text(&error)));
        }
    };
    let conditions = Conditions::look();
    for note in &conditions.notes {
        talker.say(note);
    }
    let runner = Runner { program: &program, conditions: &conditions, bytes: options.bytes };
    let mut screen = Screen::new(options, talker);
    screen.print(if options.csv { csv::HEADER } else { "" });
    let samples =
        runner.run(&cases, options.rounds as usize, |event| screen.tell(event, options.rounds));
    if !options.csv {
        screen.print(table::of(&samples).trim_end());
    }
    screen.status()
}

/// What is shown while cases run and afterwards.
struct Screen {
    talker: Talker,
    csv: bool,
    shows_progress: bool,
    status: ExitCode,
    write_error: Option<io::Error>,
}

impl Screen {
    fn new(options: &Pipe, talker: Talker) -> Self {
        Self {
            talker,
            csv: options.csv,
            shows_progress: io::stderr().is_terminal(),
            status: ExitCode::SUCCESS,
            write_error: None,
        }
    }

    fn tell(&mut self, event: Event<'_>, rounds: u32) {
        // Back to the line's start, and what stood there cleared.
        const ANEW: &str = "\r\x1b[K";
        let anew = if self.shows_progress { ANEW } else { "" };
        match event {
            Event::Begins { case, round } if self.shows_progress => {
                self.talker.print(format_args!("{anew}round {round} of {rounds}: {case}"));
            }
            Event::Begins { .. } => {}
            Event::Measured(sample) => {
                self.talker.print(anew);
                if self.csv {
                    self.print(&csv::row(sample));
                }
            }
            Event::Failed { case, error } => {
                self.talker.print(anew);
                self.status = self.talker.fail(format_args!("{case}: {error}"));
            }
        }
    }

    /// Prints a line, unless it is empty or an earlier one could not be printed.
    fn print(&mut self, line: &str) {
        if line.is_empty() || self.write_error.is_some() {
            return;
        }
        let mut stdout = io::stdout().lock();
        self.write_error = writeln!(stdout, "{line}").and_then(|()| stdout.flush()).err();
    }

    fn status(self) -> ExitCode {
        match self.write_error {
            None => self.status,
            Some(error) => self.talker.fail(format_args!("write error: {}", os_text(&error))),
        }
    }
}
