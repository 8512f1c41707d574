//! What is shown while cases run: which one, on a terminal; what failed; rows as they come.

use std::io::{self, IsTerminal};

use gush_lab::model::Sample;
use gush_lab::runner::Event;

use crate::talk::{Talker, columns, shortened, write_line};

/// Standard output for figures, standard error for talk.
pub struct Screen {
    talker: Talker,
    rounds: u32,
    shows_progress: bool,
    write_error: Option<io::Error>,
}

impl Screen {
    /// A screen for a run of so many rounds.
    pub fn new(talker: Talker, rounds: u32) -> Self {
        let shows_progress = io::stderr().is_terminal();
        Self { talker, rounds, shows_progress, write_error: None }
    }

    /// Tells of an event, and gives the sample that it brought.
    pub fn tell<'a>(&self, event: Event<'a>) -> Option<&'a Sample> {
        match event {
            Event::Begins { case, round } => self.begins(case, round),
            Event::Measured(sample) => {
                self.clear();
                return Some(sample);
            }
            Event::Failed { case, error } => {
                self.clear();
                self.talker.say(format_args!("{case}: {}", error.told()));
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
            _ => format!("round {round} of {}: {case}", self.rounds),
        };
        // A line that wraps cannot be cleared.
        self.talker.print(shortened(&line, columns().saturating_sub(1)));
    }

    /// Takes the line of progress away.
    pub fn clear(&self) {
        // Back to the line's start, and what stood there cleared.
        const ANEW: &str = "\r\x1b[K";
        if self.shows_progress {
            self.talker.print(ANEW);
        }
    }

    /// Prints a line of figures, unless an earlier one could not be printed.
    pub fn print(&mut self, line: &str) {
        if self.write_error.is_some() {
            return;
        }
        self.write_error = write_line(line).err();
    }

    /// Whether everything could be printed.
    pub fn ended(self) -> io::Result<()> {
        self.write_error.map_or(Ok(()), Err)
    }
}
