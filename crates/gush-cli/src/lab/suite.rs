//! The common part of all suites: choose cases, run them, show the figures.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use gush_lab::Error;
use gush_lab::case::{self, Case, View};
use gush_lab::transfer;
use gush_tree::quote;

use super::limit;
use super::reporting;
use super::screen::Screen;
use super::session::{Keep, Limits, Session};
use crate::files::takes_text_in_its_directory;
use crate::talk::Talker;

/// The options common to all suites.
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
    /// Print the whole run as JSON, as gush lab export does
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Write a report of this run and earlier ones to the file PATH
    #[arg(long, value_name = "PATH")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub keep: Keep,
}

/// One suite about to run.
pub struct Suite<'a> {
    view: &'a dyn View,
    common: &'a Common,
    talker: Talker,
}

/// The path of this program, which cases start again.
pub fn this_program() -> Result<PathBuf, Error> {
    env::current_exe().map_err(|error| Error::failed("cannot find this program", error))
}

impl<'a> Suite<'a> {
    /// The suite `name`, shown by `view`.
    pub fn new(name: &str, view: &'a dyn View, common: &'a Common) -> Self {
        Self { view, common, talker: Talker::new(&format!("gush lab {name}")) }
    }

    /// Tells why nothing at all is measured.
    pub fn refuse(&self, error: &Error) -> ExitCode {
        self.talker.fail(error.told())
    }

    /// Runs the requested ones of `cases`, shows and stores the samples.
    ///
    /// Success if every case was measured. After an interrupt the samples so far are shown, and the status is
    /// that of an interrupted program.
    pub fn run(&self, cases: Vec<Box<dyn Case>>) -> ExitCode {
        match case::choose(cases, &self.common.only) {
            Ok(cases) => self.run_all(cases),
            Err(error) => self.refuse(&error),
        }
    }

    /// As [`run`](Self::run), for cases already chosen.
    pub fn run_all(&self, cases: Vec<Box<dyn Case>>) -> ExitCode {
        let Common { rounds, csv, json, ref report, ref keep, .. } = *self.common;
        if let Some(Err(why)) = report.as_deref().map(takes_text_in_its_directory) {
            return self.talker.fail(why);
        }
        let mut session = Session::begin(self.talker.clone(), keep);
        let mut screen = Screen::new(self.talker.clone(), rounds);
        if csv {
            screen.print(self.view.csv_header());
        }
        session.measure(&cases, rounds, Limits::default(), &mut screen, |screen, sample| {
            if csv {
                screen.print(&self.view.csv_row(sample));
            }
        });
        let ended = session.end();
        if json {
            screen.print(transfer::json(std::slice::from_ref(&ended.run)).trim_end());
        } else if !csv && !ended.run.samples.is_empty() {
            screen.print(self.view.table(&ended.run.samples).trim_end());
            if let Some(limit) = limit::line(&ended) {
                screen.print(&limit);
            }
        }
        let written = report.as_deref().map(|path| reporting::after(&ended, Some(path)));
        let status = ended.last_words(screen);
        match written {
            Some(Err(why)) => self.talker.fail(why),
            Some(Ok(path)) => {
                self.talker.say(format_args!("report: {}", quote::if_needed(&path)));
                status
            }
            None => status,
        }
    }
}
