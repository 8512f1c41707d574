//! A run from the first look at the machine to the last message, stored sample by sample.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use gush_lab::Error;
use gush_lab::case::Case;
use gush_lab::explain::Switch;
use gush_lab::model::{Described, Failure, Run, Warning};
use gush_lab::probe::{self, Counters, Probe};
use gush_lab::runner::{Event, RunEnd, Runner, Schedule, interrupt};
use gush_lab::store::{self, Recording, Store, StoreError};
use gush_lab::warnings;
use gush_text::{os_text, quote};
use jiff::Timestamp;

use super::report;
use super::screen::Screen;
use crate::console::Console;

/// The number of earlier runs in the report's history.
const EARLIER: usize = 30;

/// The place where a run is kept.
#[derive(Debug, Clone, Args)]
pub struct Keep {
    /// Keep the run in the directory PATH [default: $XDG_DATA_HOME/gush/runs]
    #[arg(long, value_name = "PATH", conflicts_with = "no_store")]
    pub db: Option<PathBuf>,
    /// Keep the run nowhere
    #[arg(long)]
    pub no_store: bool,
}

impl Keep {
    /// Refuses a store that the user names and that cannot be used: better now than after the
    /// measuring. Without the default one the figures are shown all the same.
    pub fn check(&self) -> Result<(), Error> {
        let store = self.db.as_ref().map(|path| Store::open(path));
        store.transpose().map(drop).map_err(|error| Error::refused(error.to_string()))
    }

    /// Opens the store named by the user, or the default one, for writing.
    pub fn open(&self) -> Result<Store, StoreError> {
        Store::open(&path_of(self.db.as_ref())?)
    }
}

/// The store named by the user, or the default one.
pub fn path_of(db: Option<&PathBuf>) -> Result<PathBuf, StoreError> {
    db.map_or_else(store::default_path, |path| Ok(path.clone()))
}

/// The stored runs that `words` mean; all that can be read for no words, after a message for each
/// of the others, and whether there were no others.
pub fn stored_runs(
    console: &Console,
    db: Option<&PathBuf>,
    words: &[String],
) -> Result<(Vec<Run>, bool), StoreError> {
    let store = Store::read(&path_of(db)?);
    if !words.is_empty() {
        let runs: Result<_, _> = words.iter().map(|word| store.find(word)).collect();
        return Ok((runs?, true));
    }
    let mut is_whole = true;
    let readable = |run: Result<Run, StoreError>| {
        run.inspect_err(|error| {
            console.say(error);
            is_whole = false;
        })
        .ok()
    };
    let runs = store.runs()?.filter_map(readable).collect();
    Ok((runs, is_whole))
}

/// Limits that end the measuring, whatever the schedule says.
#[derive(Clone, Copy, Default)]
pub struct Limits {
    pub rounds: Option<u32>,
    /// After so long every case is measured only once.
    pub time: Option<Duration>,
    /// No case begins after this moment.
    pub end: Option<Instant>,
}

/// A run under way.
pub struct Session {
    console: Console,
    probe: Probe,
    /// The kernel's counters at the beginning.
    counters: Counters,
    /// The run so far.
    pub run: Run,
    keep: Keep,
    recording: Option<Recording>,
    is_unstored: bool,
    /// The warnings about the machine, until something is measured.
    unsaid: Vec<Warning>,
    wanted: usize,
    /// The number of cases neither measured nor failed, because of the time limit or an interrupt.
    pub not_reached: usize,
    /// perf's switch, where this program was started to be recorded.
    pub switch: Option<Switch>,
}

impl Session {
    /// Begins on the machine that `probe` has looked at.
    pub fn begin(console: Console, keep: &Keep, probe: Probe) -> Result<Self, Error> {
        keep.check()?;
        // A reader that leaves is an error of writing: the files of the cases are removed.
        gush_process::ignore_sigpipe();
        if let Err(error) = interrupt::watch() {
            console.say(format_args!(
                "cannot watch for signals: {}; an interrupt will lose the samples",
                os_text(&error)
            ));
        }
        let counters = Counters::look_in(Path::new("/"));
        let warnings = warnings::before(&probe);
        let unsaid = warnings.clone();
        let started = Timestamp::now();
        let run = Run {
            id: store::new_id(started),
            started,
            gush: env!("CARGO_PKG_VERSION").to_owned(),
            build: probe::build().unwrap_or_default(),
            command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
            machine: probe.machine.clone(),
            warnings,
            ..Run::default()
        };
        Ok(Self {
            console,
            probe,
            counters,
            run,
            keep: keep.clone(),
            recording: None,
            is_unstored: false,
            unsaid,
            wanted: 0,
            not_reached: 0,
            switch: None,
        })
    }

    /// Notes the cases to be measured: before the first measurement, so that a killed run has the
    /// cases of all suites.
    pub fn expect(&mut self, cases: &[Box<dyn Case>]) {
        let described = cases.iter().map(|case| case.described().clone());
        // Thousands of cells of the matrix have a name and no description.
        let telling = described.filter(|one| *one != Described::new(&one.suite, &one.case));
        self.run.cases.extend(telling);
    }

    /// Begins the run in the store, at the first call.
    ///
    /// If the run cannot be stored, a message says so and the run continues.
    fn store(&mut self) {
        let is_begun = self.recording.is_some() || self.is_unstored;
        if is_begun || self.keep.no_store {
            return;
        }
        let begun = self.keep.open().and_then(|store| store.begin(&self.run));
        self.recording = self.stored(begun);
    }

    /// The result of the store, or `None` after a message.
    fn stored<T>(&mut self, result: Result<T, StoreError>) -> Option<T> {
        if let Err(error) = &result {
            self.console.say(format_args!("this run is not stored: {error}"));
            self.is_unstored = true;
        }
        result.ok()
    }

    /// Measures `cases` in rounds as `schedule` has them, within `limits`. Warns of doubtful
    /// figures before the first one.
    pub fn measure(
        &mut self,
        cases: &[Box<dyn Case>],
        schedule: &mut Schedule<'_>,
        limits: Limits,
        screen: &mut Screen,
    ) {
        // Begun before the first case: an interrupt keeps the samples taken so far.
        self.store();
        let Limits { rounds, time, end } = limits;
        self.wanted += rounds.map_or(0, |rounds| cases.len() * rounds as usize);
        let rounds = rounds.unwrap_or(u32::MAX);
        let probe = self.probe.clone();
        let runner = Runner { probe: &probe, rounds, time, end, switch: self.switch.as_ref() };
        let mut recording = self.recording.take();
        let mut stored = self.run.samples.len();
        let outcome = runner.run(schedule, cases, |event| {
            // After the warm-up: what cannot be measured has been said.
            if matches!(event, Event::Begins { round: 1.., .. }) && !self.unsaid.is_empty() {
                screen.clear();
                say_all(&self.console, &std::mem::take(&mut self.unsaid));
            }
            let Some(sample) = screen.show_event(event) else { return };
            // The reader has left, so the measuring ends, and the files of the cases are removed.
            if screen.is_broken() {
                interrupt::request();
            }
            let added = recording.as_mut().map(|recording| recording.add(sample));
            if let Some(Err(error)) = added {
                let known = match stored {
                    0 => "none of its samples is".to_owned(),
                    1 => "its first sample is".to_owned(),
                    stored => format!("its first {stored} samples are"),
                };
                self.console
                    .say(format_args!("from here on this run is not stored ({known}): {error}"));
                recording = None;
                self.is_unstored = true;
            }
            stored += 1;
        });
        screen.clear();
        self.recording = recording;
        self.run.samples.extend(outcome.samples);
        self.run.failures.extend(outcome.failures);
        self.run.interrupted |= outcome.end == RunEnd::Interrupted;
        let reached: HashSet<(&str, &str)> =
            (self.run.samples.iter().map(|s| (&*s.suite, &*s.case)))
                .chain(self.run.failures.iter().map(|f| (&*f.suite, &*f.case)))
                .collect();
        let is_reached = |one: &Described| reached.contains(&(&*one.suite, &*one.case));
        self.not_reached += cases.iter().filter(|case| !is_reached(case.described())).count();
    }

    /// Reports why nothing of `suite` can be measured, unless a signal came while its files were
    /// made.
    pub fn leave_out(&mut self, suite: &str, error: &Error) {
        if interrupt::requested() && !self.run.interrupted {
            self.run.interrupted = true;
            return;
        }
        if self.console.speaks_for(suite) {
            self.console.say(error);
        } else {
            self.console.say(format_args!("{suite}: {}", error));
        }
        self.run.failures.push(Failure {
            suite: suite.to_owned(),
            case: "all".to_owned(),
            error: error.to_string(),
        });
    }

    /// Ends the run in the store, with the warnings that came up meanwhile.
    pub fn end(mut self) -> Ended {
        // A signal that comes after the last sample, such as during a cleanup, ends the program all
        // the same.
        self.run.interrupted |= interrupt::requested();
        let (warnings, others) = warnings::since(&self.counters, &self.run.samples);
        self.run.warnings.extend(warnings.iter().cloned());
        self.run.others = others;
        self.run.finished = Some(Timestamp::now());
        // A run without a sample is no line of the history, and nothing to compare with.
        let is_kept = !self.run.samples.is_empty();
        let ended = self.recording.take().map(|recording| match is_kept {
            true => recording.end(&self.run),
            false => recording.forget(),
        });
        let store = ended.and_then(|ended| self.stored(ended));
        let Self { console, run, wanted, is_unstored, keep, .. } = self;
        Ended { console, run, warnings, store, keep, is_unstored, wanted }
    }
}

/// A run that has ended.
pub struct Ended {
    console: Console,
    pub run: Run,
    /// Warnings that came up during the run.
    warnings: Vec<Warning>,
    /// The store, unless the store failed or was not wanted.
    store: Option<Store>,
    keep: Keep,
    /// The run could not be stored, as a message said.
    is_unstored: bool,
    wanted: usize,
}

impl Ended {
    /// Writes the report of this run and earlier ones to `path`, or to `report.html` in the
    /// directory of the store, and returns the path.
    pub fn report(&self, path: Option<&Path>) -> Result<PathBuf, String> {
        let path = path.map_or_else(report::default_path, |path| Ok(path.to_owned()))?;
        // An unreadable store was reported already; then the report is of this run alone.
        let stored = self.store.as_ref().and_then(|store| earlier(store, &self.run).ok());
        let mut runs = stored.unwrap_or_default();
        runs.push(self.run.clone());
        gush_lab::report::write(&runs, &path).map_err(|error| error.to_string())?;
        Ok(fs::canonicalize(&path).unwrap_or(path))
    }

    /// Writes the last messages, after the figures: warnings, an interrupt, where the run is
    /// stored. Returns the exit status.
    ///
    /// Success if every case was measured, and is in the store that the user named; after an
    /// interrupt, the status of an interrupted program.
    pub fn last_words(&self, screen: Screen) -> ExitCode {
        // A run without a sample is in no store.
        let is_kept = !self.run.samples.is_empty();
        if is_kept {
            say_all(&self.console, &self.warnings);
        }
        if self.run.interrupted && !screen.is_broken() {
            let taken = self.run.samples.len();
            // How many rounds a schedule has is known in the end.
            let of = if self.wanted > 0 { format!(" of {}", self.wanted) } else { String::new() };
            self.console.say(format_args!("interrupted: {taken} samples{of} were taken"));
        }
        if let Some(store) = self.store.as_ref().filter(|_| is_kept) {
            self.console.say(format_args!(
                "stored as {} in {}",
                self.run.id,
                quote::if_needed(store.path())
            ));
        }
        match screen.ended() {
            Err(status) => status,
            Ok(()) if self.run.interrupted => interrupted_status(),
            Ok(()) if !self.run.failures.is_empty() => ExitCode::FAILURE,
            Ok(()) if self.is_unstored && self.keep.db.is_some() => ExitCode::FAILURE,
            Ok(()) => ExitCode::SUCCESS,
        }
    }
}

/// The status of a program that a signal has interrupted.
pub fn interrupted_status() -> ExitCode {
    /// Shells report a program ended by a signal with the signal's number above this one.
    const BY_SIGNAL: u8 = 128;
    const SIGINT: u8 = 2;
    ExitCode::from(BY_SIGNAL + interrupt::signal().unwrap_or(SIGINT))
}

/// The runs before `this` that have figures.
fn earlier(store: &Store, this: &Run) -> Result<Vec<Run>, StoreError> {
    let with_figures = |mut run: Run| {
        // Thousands of cells with yes or no are no history, and would make the page huge.
        run.samples.retain(|sample| sample.measured.speed().is_some());
        (run.id != this.id && !run.samples.is_empty()).then_some(run)
    };
    let mut runs: Vec<Run> =
        store.runs()?.rev().flatten().filter_map(with_figures).take(EARLIER).collect();
    runs.reverse();
    Ok(runs)
}

fn say_all(console: &Console, warnings: &[Warning]) {
    for warning in warnings {
        console.say(format_args!("warning: {warning}"));
    }
}
