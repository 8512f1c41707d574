//! A question answered one way, as a case.

use std::cell::RefCell;
use std::rc::Rc;

use gush::{Mover, Report, Space, Tuning};

use super::super::matrix::{
    Aim, Attempt, Kind, Load, Outcome, Source, Target, attempt, outcome_of,
};
use super::{Question, SUITE, Setting};
use crate::Error;
use crate::case::Case;
use crate::model::{Described, Measured};
use crate::probe::Probe;

/// A sample of short moves has many of them: one is too short for the clock.
const SAMPLE_BYTES: u64 = 4 << 20;
const MOST_MOVES: u64 = 64;
/// From this size on gush cp reserves the space of a new file on ext4.
const RESERVED_BYTES: u64 = 16 << 20;

pub(super) struct Trial {
    described: Described,
    way: String,
    question: Rc<Question>,
    /// None: the plan's choice.
    setting: Option<Setting>,
    /// The methods of the last move.
    used: RefCell<String>,
}

/// The plan's choice, which the settings are measured against.
const AUTO: &str = "auto";

fn name(question: &Question, way: &str) -> String {
    format!("{}/{way}", question.name())
}

impl Trial {
    pub(super) fn new(question: &Rc<Question>, setting: Option<Setting>) -> Self {
        let way = setting.as_ref().map_or_else(|| AUTO.to_owned(), Setting::to_string);
        let described = Described::new(SUITE.name, &name(question, &way))
            .group(question.name())
            .against(name(question, AUTO))
            .with("way", way.as_str())
            .with("bytes", question.bytes);
        let question = Rc::clone(question);
        Self { described, way, question, setting, used: RefCell::default() }
    }

    /// Why the setting does not move these bytes right here; tried with a few.
    pub(super) fn refusal(&self) -> Option<Outcome> {
        let outcome = self.tried(Aim::Verify).outcome;
        (!matches!(outcome, Outcome::Works { .. })).then_some(outcome)
    }

    fn tried(&self, aim: Aim) -> Attempt {
        let Question { source, target, workshop, .. } = &*self.question;
        let mover = |from: &_, to: &_, load: &_| self.moved(from, to, load);
        attempt(&mut workshop.borrow_mut(), mover, *source, *target, aim)
    }

    fn moved(&self, source: &Source, target: &Target, load: &Load) -> Result<u64, Outcome> {
        // As `gush cp` reserves, so that the comparison is about moves of its own.
        let reserves = self.question.target == Kind::Ext4 && load.bytes >= RESERVED_BYTES;
        let space = if reserves { Space::TryReserve } else { Space::AsWritten };
        let mover = Mover::new(source, target);
        let mover = match &self.setting {
            Some(setting) => setting.apply(mover, space),
            None => mover.tuning(Tuning::default().space(space)),
        };
        let report = mover.run().map_err(|error| outcome_of(&error, &self.way))?;
        self.used.replace(main_method(&report));
        Ok(report.bytes)
    }
}

/// The method that moved most, with the number of threads.
fn main_method(report: &Report) -> String {
    match report.methods.iter().max_by_key(|used| used.bytes) {
        Some(used) if used.threads > 1 => format!("{}, {} threads", used.name, used.threads),
        Some(used) => used.name.to_string(),
        None => "nothing".to_owned(),
    }
}

impl Case for Trial {
    fn described(&self) -> &Described {
        &self.described
    }

    fn measure(&self, _probe: &Probe) -> Result<Measured, Error> {
        let bytes = self.question.bytes;
        let moves = match self.question.is_between_files() {
            true => (SAMPLE_BYTES / bytes).clamp(1, MOST_MOVES),
            false => 1,
        };
        let [mut wall_s, mut user_s, mut system_s] = [0.0; 3];
        for _ in 0..moves {
            let Attempt { outcome, cost } = self.tried(Aim::Speed(bytes));
            let cost = cost.ok_or_else(|| Error::refused(outcome.to_string()))?;
            let each = |seconds: Option<f64>| seconds.unwrap_or(0.0) / moves as f64;
            wall_s += each(cost.wall_s);
            user_s += each(cost.user_s);
            system_s += each(cost.system_s);
        }
        let (user_s, system_s) = (Some(user_s), Some(system_s));
        let measured = Measured { user_s, system_s, ..Measured::timed(bytes, wall_s) };
        Ok(measured.with("method", self.used.borrow().as_str()))
    }
}
