//! Runs cases: one round of all of them after the other, every sample kept and reported at once.

pub mod children;
mod guard;
pub mod interrupt;
mod strays;
mod usage;

use std::time::{Duration, Instant};

use crate::Error;
use crate::case::Case;
use crate::model::{Failure, Sample};
use crate::probe::Probe;

pub use usage::{Usage, start_bytes};

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
pub struct Outcome {
    /// Every sample in the order in which they were taken.
    pub samples: Vec<Sample>,
    /// The cases left out, and why.
    pub failures: Vec<Failure>,
    /// Whether that is all that was asked for.
    pub end: RunEnd,
}

/// The schedule of a run: whether another round is wanted.
pub trait Schedule {
    /// Shall `round` begin, after `samples`?
    fn goes_on(&mut self, round: u32, samples: &[Sample]) -> bool;

    /// Is `case` measured in the round that was begun last?
    fn takes(&self, _case: &dyn Case) -> bool {
        true
    }
}

/// All rounds.
struct Whole;

impl Schedule for Whole {
    fn goes_on(&mut self, _round: u32, _samples: &[Sample]) -> bool {
        true
    }
}

/// How to run cases.
///
/// ```
/// use gush_lab::case::Case;
/// use gush_lab::model::Measured;
/// use gush_lab::probe::Probe;
/// use gush_lab::runner::{RunEnd, Runner};
///
/// struct Nap;
/// impl Case for Nap {
///     fn suite(&self) -> &'static str { "example" }
///     fn name(&self) -> &str { "nap" }
///     fn measure(&self, _: &Probe) -> Result<Measured, gush_lab::Error> {
///         let start = std::time::Instant::now();
///         std::thread::sleep(std::time::Duration::from_millis(1));
///         Ok(Measured { wall_s: Some(start.elapsed().as_secs_f64()), ..Measured::default() })
///     }
/// }
/// let probe = Probe::take();
/// let cases: [Box<dyn Case>; 1] = [Box::new(Nap)];
/// let outcome = Runner { probe: &probe, rounds: 3, time: None, end: None }.run(&cases, |_| ());
/// assert_eq!((outcome.samples.len(), outcome.end), (3, RunEnd::Whole));
/// ```
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
}

impl Runner<'_> {
    /// Prepares and warms up every case, then measures each once a round in random order; a single
    /// round keeps the order given.
    ///
    /// A case that fails is reported and left out from then on. An [`interrupt`] ends the run at
    /// the next opportunity, with the samples taken so far.
    pub fn run(&self, cases: &[Box<dyn Case>], report: impl FnMut(Event<'_>)) -> Outcome {
        self.run_on(&mut Whole, cases, report)
    }

    /// As [`run`](Self::run), with the number of rounds left to `schedule`; more rounds than
    /// [`rounds`](Self::rounds) are never taken.
    pub fn run_on(
        &self,
        schedule: &mut dyn Schedule,
        cases: &[Box<dyn Case>],
        report: impl FnMut(Event<'_>),
    ) -> Outcome {
        let outcome = Outcome { samples: Vec::new(), failures: Vec::new(), end: RunEnd::Whole };
        let mut pass = Pass { runner: self, begun: Instant::now(), outcome, report };
        let mut left: Vec<&dyn Case> = cases.iter().map(AsRef::as_ref).collect();
        // Round 0 prepares and warms up, and is in no sample.
        for round in 0..=self.rounds {
            if round > 0 && !schedule.goes_on(round, &pass.outcome.samples) {
                break;
            }
            if let Err(end) = pass.round(schedule, &mut left, round) {
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
    outcome: Outcome,
    report: T,
}

impl<T: FnMut(Event<'_>)> Pass<'_, T> {
    /// Measures every case of the schedule once, and removes those that fail from `left`.
    ///
    /// # Errors
    /// Why the rest of the round is not taken.
    fn round(
        &mut self,
        schedule: &dyn Schedule,
        left: &mut Vec<&dyn Case>,
        round: u32,
    ) -> Result<(), RunEnd> {
        let mut failed = Vec::new();
        let mut stopped = Ok(());
        let mut order: Vec<usize> =
            (0..left.len()).filter(|&index| schedule.takes(left[index])).collect();
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
            (self.report)(Event::Begins { case: case.name(), round });
            match self.once(case, round) {
                Ok(()) => {}
                // Its processes were ended; that is not its failure.
                Err(_) if interrupt::requested() => {
                    stopped = Err(RunEnd::Interrupted);
                    break;
                }
                Err(error) => {
                    (self.report)(Event::Failed { case: case.name(), error: &error });
                    self.outcome.failures.push(Failure {
                        suite: case.suite().to_owned(),
                        case: case.name().to_owned(),
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
        let measured = case.measure(probe);
        case.tidy();
        let sample = Sample {
            suite: case.suite().to_owned(),
            case: case.name().to_owned(),
            round,
            measured: measured?,
        };
        (self.report)(Event::Measured(&sample));
        self.outcome.samples.push(sample);
        Ok(())
    }
}
