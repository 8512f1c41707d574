//! Runs cases: one round of all of them after the other, every sample kept and reported at once.

pub mod children;
mod guard;
pub mod interrupt;
mod strays;
mod usage;

use std::time::{Duration, Instant};

use crate::Error;
use crate::case::Case;
use crate::explain::Switch;
use crate::model::{Described, Failure, Sample};
use crate::probe::Probe;

pub use usage::{Usage, lower_start, start_bytes};

/// The events while cases run.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A case begins.
    Begins {
        /// The case's name.
        case: &'a str,
        /// Counted from 1; 0 is the warm-up, which leaves no sample.
        round: u32,
    },
    /// The case was measured.
    Measured(&'a Sample),
    /// The case could not be measured, and is left out from now on.
    Failed {
        /// The case's name.
        case: &'a str,
        /// Why.
        error: &'a Error,
    },
}

/// The reason why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// Every round was taken.
    Whole,
    /// The time for the run was up.
    OutOfTime,
    /// Somebody interrupted the run.
    Interrupted,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunOutcome {
    /// Every sample in the order in which they were taken.
    pub samples: Vec<Sample>,
    /// The cases left out, and why.
    pub failures: Vec<Failure>,
    /// Whether that is all that was asked for.
    pub end: RunEnd,
}

/// Whether a round, counted from 1, shall begin after these samples.
pub type Schedule<'s> = dyn FnMut(u32, &[Sample]) -> bool + 's;

/// How to run cases.
#[derive(Clone, Copy, Debug)]
pub struct Runner<'a> {
    /// The facts about the machine.
    pub probe: &'a Probe,
    /// How often every case is measured.
    pub rounds: u32,
    /// No measurement begins after so long; every case is measured once nevertheless.
    pub time: Option<Duration>,
    /// Nothing begins after this moment, measured before or not.
    pub end: Option<Instant>,
    /// Switches perf on around each measurement.
    pub switch: Option<&'a Switch>,
}

impl Runner<'_> {
    /// Prepares and warms up every case, then measures each once a round in random order; a single
    /// round keeps the order given.
    ///
    /// `schedule` says whether a round begins; more than [`rounds`](Self::rounds) are never taken.
    ///
    /// A case that fails is reported and left out from then on. An [`interrupt`] ends the run at
    /// the next opportunity, with the samples taken so far.
    pub fn run(
        &self,
        schedule: &mut Schedule<'_>,
        cases: &[Box<dyn Case>],
        report: impl FnMut(Event<'_>),
    ) -> RunOutcome {
        let outcome = RunOutcome { samples: Vec::new(), failures: Vec::new(), end: RunEnd::Whole };
        let mut pass = Pass { runner: self, begun: Instant::now(), outcome, report };
        let mut left: Vec<&dyn Case> = cases.iter().map(AsRef::as_ref).collect();
        // Round 0 prepares and warms up, and is in no sample.
        for round in 0..=self.rounds {
            if round > 0 && !schedule(round, &pass.outcome.samples) {
                break;
            }
            if let Err(end) = pass.round(&mut left, round) {
                pass.outcome.end = end;
                break;
            }
        }
        pass.outcome
    }
}

struct Pass<'a, T> {
    runner: &'a Runner<'a>,
    begun: Instant,
    outcome: RunOutcome,
    report: T,
}

impl<T: FnMut(Event<'_>)> Pass<'_, T> {
    /// Measures every case of the schedule once, and removes those that fail from `left`.
    fn round(&mut self, left: &mut Vec<&dyn Case>, round: u32) -> Result<(), RunEnd> {
        let mut failed = Vec::new();
        let mut stopped = Ok(());
        let mut order: Vec<usize> = (0..left.len()).collect();
        // In a fixed order a case would have the heat and caches of the same other one in every
        // sample. A single round may be cut short, and the cases named first are wanted most.
        if round > 0 && self.runner.rounds > 1 {
            fastrand::shuffle(&mut order);
        }
        for index in order {
            let case = left[index];
            stopped = self.may_go_on(round);
            if stopped.is_err() {
                break;
            }
            let Described { suite, case: name, .. } = case.described();
            (self.report)(Event::Begins { case: name, round });
            match self.once(case, round) {
                Ok(()) => {}
                // Its processes were ended; that is not its failure.
                Err(_) if interrupt::requested() => {
                    stopped = Err(RunEnd::Interrupted);
                    break;
                }
                Err(error) => {
                    (self.report)(Event::Failed { case: name, error: &error });
                    self.outcome.failures.push(Failure {
                        suite: suite.clone(),
                        case: name.clone(),
                        error: error.to_string(),
                    });
                    failed.push(index);
                }
            }
        }
        failed.sort_unstable();
        // From the back, so that the numbers in front stay right.
        for index in failed.into_iter().rev() {
            left.remove(index);
        }
        stopped
    }

    /// May another measurement begin? If not, the error is the reason.
    fn may_go_on(&self, round: u32) -> Result<(), RunEnd> {
        if interrupt::requested() {
            return Err(RunEnd::Interrupted);
        }
        let Runner { time, end, .. } = *self.runner;
        // One whole round at least: a case without a sample could not be compared at all.
        let is_enough = round > 1 && time.is_some_and(|time| self.begun.elapsed() >= time);
        let is_late = end.is_some_and(|end| Instant::now() >= end);
        if is_enough || is_late { Err(RunEnd::OutOfTime) } else { Ok(()) }
    }

    fn once(&mut self, case: &dyn Case, round: u32) -> Result<(), Error> {
        let probe = self.runner.probe;
        if round == 0 {
            case.prepare(probe)?;
            // The first run fills caches and faults pages in.
            let warmed_up = case.warm_up(probe);
            case.tidy();
            return warmed_up;
        }
        let measure = || case.measure(probe);
        let measured = self.runner.switch.map_or_else(measure, |switch| switch.around(measure));
        case.tidy();
        let Described { suite, case, .. } = case.described().clone();
        let sample = Sample { suite, case, round, measured: measured? };
        (self.report)(Event::Measured(&sample));
        self.outcome.samples.push(sample);
        Ok(())
    }
}
