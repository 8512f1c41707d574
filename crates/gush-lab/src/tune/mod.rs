//! `gush tune`: measures other ways of moving than the engine's plan has, and reports those that
//! are surely faster on this machine.
//!
//! A question (`question.rs`) is a pair of ends and a size, an answer (`setting.rs`) a method with
//! sizes. The best answer is compared with the plan's choice by fresh samples (`decide.rs`) of
//! moves between real files, pipes and sockets (`bench.rs`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Error;

mod bench;
mod decide;
mod question;
mod setting;
mod trial_dir;

pub use decide::{Answer, Comparison};
pub use setting::Setting;
pub use trial_dir::TrialDir;

/// Answers every question, in about `time`; calls `report` with each answer at once.
pub fn measure(
    dirs: &[TrialDir],
    time: Duration,
    mut report: impl FnMut(&Answer),
) -> Result<Vec<Answer>, Error> {
    let start = Instant::now();
    // The feeding end of a move that failed gets EPIPE, not the signal's default, which ends it.
    signal_hook::flag::register(signal_hook::consts::SIGPIPE, Arc::default())
        .map_err(|error| Error::failed("cannot handle SIGPIPE", error))?;
    let questions = question::all(dirs);
    let mut answers = Vec::new();
    for (index, question) in questions.iter().enumerate() {
        // What one question does not use is left to the others.
        let weight = questions[index..].iter().map(question::Question::weight).sum::<u32>();
        let left = time.saturating_sub(start.elapsed()) / weight * question.weight();
        let answer = decide::answer(question, left)?;
        report(&answer);
        answers.push(answer);
    }
    Ok(answers)
}
