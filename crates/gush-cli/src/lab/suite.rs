//! What every suite does alike: look at the machine, choose, run, show.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use gush_lab::Error;
use gush_lab::case::{self, Case, View};
use gush_lab::runner::{Conditions, End, Runner, interrupt};

use super::screen::Screen;
use crate::talk::{Talker, os_text};

/// The options of every suite.
#[derive(Debug, Args)]
pub struct Common {
    /// Measure every case N times, in turn with the others
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Only these cases
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Print every sample as comma-separated values
    #[arg(long)]
    pub csv: bool,
}

/// One suite about to run.
pub struct Suite<'a> {
    view: &'a dyn View,
    common: &'a Common,
    talker: Talker,
}

/// The path of this very program, which cases start again.
pub fn this_program() -> Result<PathBuf, Error> {
    env::current_exe().map_err(|error| Error::failed("cannot find this program", error))
}

impl<'a> Suite<'a> {
    /// The suite `name`, shown by `view`.
    pub fn new(name: &str, view: &'a dyn View, common: &'a Common) -> Self {
        Self { view, common, talker: Talker::new(&format!("gush lab {name}")) }
    }

    /// Says why nothing is measured at all.
    pub fn refuse(&self, error: &Error) -> ExitCode {
        self.talker.fail(error.told())
    }

    /// Runs those of `cases` that were asked for, and shows what they give.
    ///
    /// Ends with success if every one was measured, and as an interrupted program does after an
    /// interrupt, when what was measured until then has been shown.
    pub fn run(&self, cases: Vec<Box<dyn Case>>) -> ExitCode {
        match case::choose(cases, &self.common.only) {
            Ok(cases) => self.run_all(cases),
            Err(error) => self.refuse(&error),
        }
    }

    /// As [`Suite::run`], of cases that were chosen by other means than their names.
    pub fn run_all(&self, cases: Vec<Box<dyn Case>>) -> ExitCode {
        /// As shells report a program that SIGINT ended.
        const INTERRUPTED: u8 = 128 + 2;

        if let Err(error) = interrupt::watch() {
            self.talker.say(format_args!(
                "an interrupt will lose what was measured: cannot watch for signals: {}",
                os_text(&error)
            ));
        }
        let conditions = Conditions::look();
        for note in &conditions.notes {
            self.talker.say(note);
        }
        let Common { rounds, csv, .. } = *self.common;
        let mut screen = Screen::new(self.talker.clone(), rounds);
        if csv {
            screen.print(self.view.csv_header());
        }
        let runner = Runner { conditions: &conditions, rounds, time: None };
        let outcome = runner.run(&cases, |event| {
            if let Some(sample) = screen.tell(event).filter(|_| csv) {
                screen.print(&self.view.csv_row(sample));
            }
        });
        screen.clear();
        if !csv && !outcome.samples.is_empty() {
            screen.print(self.view.table(&outcome.samples).trim_end());
        }
        let interrupted = outcome.end == End::Interrupted;
        if interrupted {
            self.talker.say(format_args!(
                "interrupted: {} samples of {} were taken",
                outcome.samples.len(),
                cases.len() * rounds as usize
            ));
        }
        match screen.ended() {
            Err(error) => self.talker.fail(format_args!("write error: {}", os_text(&error))),
            Ok(()) if interrupted => ExitCode::from(INTERRUPTED),
            Ok(()) if !outcome.failures.is_empty() => ExitCode::FAILURE,
            Ok(()) => ExitCode::SUCCESS,
        }
    }
}
