//! The output while cases run: the present case, on a terminal; failures; rows of figures.

use std::fmt::Display;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

use gush_lab::csv;
use gush_lab::model::{Run, Sample};
use gush_lab::runner::Event;

use crate::console::{Console, columns, try_write_out};
use gush_text::shortened;

/// Says of a round, counted from 1, how far the run is.
pub type Outlook = Box<dyn Fn(u32) -> String>;

/// Standard output for figures, standard error for talk.
pub struct Screen {
    console: Console,
    outlook: Outlook,
    shows_progress: bool,
    is_stdout_taken: bool,
    write_error: Option<io::Error>,
    /// Samples are printed as rows.
    rows: Option<csv::Rows>,
}

/// Prints the text of a command, or reports why there is none. A text that is not whole is a
/// failure.
pub fn print(console: &Console, text: Result<(String, bool), impl Display>) -> ExitCode {
    let print = |(text, is_whole): (String, bool)| {
        let mut screen = Screen::new(console.clone(), 0);
        screen.print(text.trim_end());
        let status = if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        screen.ended().err().unwrap_or(status)
    };
    text.map_or_else(|error| console.fail(error), print)
}

impl Screen {
    /// A screen for a run of so many rounds.
    pub fn new(console: Console, rounds: u32) -> Self {
        let outlook: Outlook = Box::new(move |round| format!("round {round} of {rounds}"));
        let shows_progress = io::stderr().is_terminal();
        let (write_error, rows) = (None, None);
        Self { console, outlook, shows_progress, is_stdout_taken: false, write_error, rows }
    }

    /// Shows an event, and returns the event's sample, if any.
    pub fn show_event<'a>(&mut self, event: Event<'a>) -> Option<&'a Sample> {
        match event {
            Event::Begins { case, round } => self.begins(case, round),
            Event::Measured(sample) => {
                self.clear();
                if let Some(row) = self.rows.as_ref().map(|rows| rows.row(sample)) {
                    self.print(&row);
                }
                return Some(sample);
            }
            Event::Failed { case, error } => {
                self.clear();
                self.console.say(format_args!("{case}: {}", error));
            }
        }
        None
    }

    fn begins(&self, case: &str, round: u32) {
        if !self.shows_progress {
            return;
        }
        self.clear();
        let line = match round {
            0 => format!("warming up: {case}"),
            _ => format!("{}: {case}", (self.outlook)(round)),
        };
        // A line that wraps cannot be cleared.
        self.console.print(shortened(&line, columns().saturating_sub(1)));
    }

    /// Prints each sample of `run` as comma-separated values from now on.
    pub fn print_samples(&mut self, run: &Run) {
        self.print(csv::HEADER);
        self.rows = Some(csv::Rows::of(run));
    }

    /// Shows `outlook` from now on.
    pub fn set_outlook(&mut self, outlook: Outlook) {
        self.outlook = outlook;
    }

    /// Could a line not be printed?
    pub fn is_broken(&self) -> bool {
        self.write_error.is_some()
    }

    /// Removes the line of progress.
    pub fn clear(&self) {
        // Back to the start of the line, then clear the line.
        const ANEW: &str = "\r\x1b[K";
        if self.shows_progress {
            self.console.print(ANEW);
        }
    }

    /// Prints a line of figures, unless an earlier line failed.
    pub fn print(&mut self, line: &str) {
        if self.write_error.is_some() {
            return;
        }
        // A run that ignores SIGPIPE has files to remove.
        self.write_error = try_write_out(format!("{line}\n").as_bytes()).err();
    }

    /// From now on shows tables on standard error, because standard output is for another program.
    pub fn tables_to_stderr(&mut self) {
        self.is_stdout_taken = true;
    }

    /// Shows a line for people.
    pub fn show(&mut self, line: &str) {
        if self.is_stdout_taken {
            self.console.print(format_args!("{line}\n"));
        } else {
            self.print(line);
        }
    }

    /// Reports the error of the first line that could not be printed, if any: then the command has
    /// failed.
    pub fn ended(self) -> Result<(), ExitCode> {
        self.write_error.map_or(Ok(()), |error| Err(self.console.fail_output(&error)))
    }
}
