//! From samples to an answer: which setting is surely faster than the plan's choice.

use std::time::{Duration, Instant};

use gush::Report;
use serde::Serialize;

use super::bench::{Bench, Taken};
use super::question::Question;
use super::setting::Setting;
use crate::Error;
use crate::stats::{self, Estimate, FEWEST_SAMPLES, MARGIN, Verdict};

/// More rounds than these make no interval worth the time.
const MOST_ROUNDS: usize = 40;
/// A question's time must suffice for so many moves of the plan's choice.
const FEWEST_MOVES: u32 = 16;

/// Two settings, sampled in turn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The first one's median, in GiB/s.
    pub before_gib_per_s: f64,
    /// The second one's median, in GiB/s.
    pub after_gib_per_s: f64,
    /// The second one's speed as a multiple of the first one's.
    pub ratio: Estimate,
    /// The first one's processor seconds as a multiple of the second one's, if measurable.
    pub processor: Option<Estimate>,
    /// Rounds taken.
    pub rounds: usize,
    /// Is the second one faster?
    pub verdict: Verdict,
}

impl Comparison {
    /// Compares both, round by round; none without rounds.
    fn of(rounds: &[[Spent; 2]], bytes: u64) -> Option<Self> {
        let pairs = |of: fn(&Spent) -> f64| -> Vec<(f64, f64)> {
            rounds.iter().map(|[before, after]| (of(before), of(after))).collect()
        };
        let seconds = pairs(|spent| spent.seconds);
        let ratio = stats::paired_ratio(&seconds)?;
        let (before, after): (Vec<_>, Vec<_>) = seconds.into_iter().unzip();
        let speed = |seconds: &[f64]| Some(gib_per_s(bytes, stats::middle(seconds)?));
        Some(Self {
            before_gib_per_s: speed(&before)?,
            after_gib_per_s: speed(&after)?,
            ratio,
            processor: stats::paired_ratio(&pairs(|spent| spent.processor_s)),
            rounds: rounds.len(),
            verdict: Verdict::of(Some(&ratio), MARGIN),
        })
    }
}

impl Comparison {
    /// Is the second one surely faster, without costing more processor time than it saves in time?
    pub fn is_better(&self) -> bool {
        // Time bought with more processor time than it saves is paid for by other programs.
        let pays = |processor: Estimate| processor.value * self.ratio.value >= 1.0;
        self.verdict == Verdict::Faster && self.processor.is_none_or(pays)
    }
}

/// The cost of one move.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spent {
    seconds: f64,
    processor_s: f64,
}

impl From<&Taken> for Spent {
    fn from(taken: &Taken) -> Self {
        Self { seconds: taken.seconds, processor_s: taken.processor_s }
    }
}

pub(super) fn gib_per_s(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 / f64::from(1 << 30) / seconds
}

/// The answer to one question.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// The question in words.
    pub question: String,
    /// The kind of the source: `file`, `pipe` or `socket`.
    pub source: &'static str,
    /// As `source`.
    pub target: &'static str,
    /// Bytes moved in one measured move.
    pub bytes: u64,
    /// The plan's choice.
    pub plan: String,
    /// The fastest of the others.
    pub best: Option<Setting>,
    /// The comparison of the plan's choice with `best`.
    pub comparison: Option<Comparison>,
    /// Is `best` faster, but for more processor time than it saves in time?
    pub costs_more_processor_time: bool,
    /// Why there is no answer, as a sentence.
    pub skipped: Option<String>,
}

impl Answer {
    fn open(question: &Question) -> Self {
        Self {
            question: question.to_string(),
            source: question.source.name(),
            target: question.target.name(),
            bytes: question.bytes,
            plan: "the plan's choice".to_owned(),
            best: None,
            comparison: None,
            costs_more_processor_time: false,
            skipped: None,
        }
    }

    fn skipped(self, why: impl Into<String>) -> Self {
        Self { skipped: Some(why.into()), ..self }
    }

    /// The setting that is surely faster than the plan's choice, if there is one.
    pub fn faster(&self) -> Option<(Setting, Comparison)> {
        let both = self.best.zip(self.comparison).filter(|_| self.skipped.is_none());
        both.filter(|(_, compared)| compared.is_better())
    }
}

/// A setting under trial.
struct Trial {
    setting: Setting,
    seconds: Vec<f64>,
}

/// Answers a question within `time`, as far as that suffices.
///
/// First all settings are tried in turn; then the fastest is compared with the plan's choice by
/// fresh samples of those two alone, because the best of many owes a part of its lead to luck.
pub(super) fn answer(question: &Question, time: Duration) -> Result<Answer, Error> {
    let start = Instant::now();
    let mut answer = Answer::open(question);
    if question.least_time() > time {
        return Ok(answer.skipped("there was no time for it"));
    }
    let bench = Bench::new(question)?;
    let warm_up = bench.sample(None)?;
    answer.plan = main_method(&warm_up.report);
    // One move took so long that too few would fit: better no answer than a weak one.
    if start.elapsed() * FEWEST_MOVES > time * 2 {
        return Ok(answer.skipped("too slow to be measured in the time left for it"));
    }
    let mut trials = Vec::new();
    for setting in question.settings() {
        if start.elapsed() > time / 2 {
            break;
        }
        // A setting that is refused here is none of this machine's.
        let Ok(taken) = bench.sample(Some(&setting)) else { continue };
        let is_plans =
            main_method(&taken.report) == answer.plan && setting == Setting::of(setting.method);
        if !is_plans {
            trials.push(Trial { setting, seconds: vec![taken.seconds] });
        }
    }
    while start.elapsed() < time / 2
        && trials.iter().all(|trial| trial.seconds.len() < MOST_ROUNDS / 4)
    {
        for trial in &mut trials {
            trial.seconds.push(bench.sample(Some(&trial.setting))?.seconds);
        }
    }
    let median = |trial: &Trial| stats::middle(&trial.seconds);
    let best = trials
        .iter()
        .filter_map(|trial| Some((trial.setting, median(trial)?)))
        .min_by(|(_, a), (_, b)| a.total_cmp(b));
    let Some((setting, _)) = best else {
        return Ok(answer.skipped("there was no time to try anything else"));
    };
    answer.best = Some(setting);
    answer.comparison = compare(&bench, &setting, question.bytes, start + time)?;
    let Some(compared) = answer.comparison.filter(|all| all.rounds >= FEWEST_SAMPLES) else {
        return Ok(answer.skipped("there was no time for enough rounds"));
    };
    answer.costs_more_processor_time = compared.verdict == Verdict::Faster && !compared.is_better();
    Ok(answer)
}

/// Takes samples of the plan's choice and of `setting` in turn, each first in every other round.
fn compare(
    bench: &Bench<'_>,
    setting: &Setting,
    bytes: u64,
    until: Instant,
) -> Result<Option<Comparison>, Error> {
    let mut rounds = Vec::new();
    while rounds.len() < MOST_ROUNDS && Instant::now() < until {
        let spent = |setting| bench.sample(setting).map(|taken| Spent::from(&taken));
        // The first of a pair finds other caches.
        let pair = if rounds.len() % 2 == 0 {
            let before = spent(None)?;
            [before, spent(Some(setting))?]
        } else {
            let after = spent(Some(setting))?;
            [spent(None)?, after]
        };
        rounds.push(pair);
    }
    Ok(Comparison::of(&rounds, bytes))
}

/// The method that moved most, with the number of threads.
fn main_method(report: &Report) -> String {
    match report.methods.iter().max_by_key(|used| used.bytes) {
        Some(used) if used.threads > 1 => format!("{} threads {}", used.name, used.threads),
        Some(used) => used.name.to_string(),
        None => "nothing".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(seconds: f64, processor_s: f64, rounds: usize) -> Comparison {
        let before = Spent { seconds: 1.0, processor_s: 1.0 };
        let rounds: Vec<_> =
            (0..rounds).map(|_| [before, Spent { seconds, processor_s }]).collect();
        Comparison::of(&rounds, 1 << 20).expect("rounds")
    }

    #[test]
    fn time_that_costs_more_processor_time_than_it_saves_is_no_gain() {
        assert!(compared(0.5, 1.0, 10).is_better());
        assert!(compared(0.5, 1.9, 10).is_better(), "half the time for less than twice the work");
        assert!(!compared(0.5, 2.2, 10).is_better());
        assert!(!compared(1.0, 0.5, 10).is_better(), "not faster");
    }
}
