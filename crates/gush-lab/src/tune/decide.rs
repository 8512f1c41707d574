//! From samples to an answer: which setting is faster than the table's choice, and surely so.

use std::time::{Duration, Instant};

use gush::{Profile, Report};
use serde::Serialize;

use super::bench::{Bench, Taken};
use super::question::{Circumstance, Question};
use super::setting::Setting;
use crate::Error;
use crate::sizes::exact as size;
use crate::stats::{self, Estimate, FEWEST_SAMPLES, MARGIN, Verdict};

/// More rounds than these make no interval worth the time.
const MOST_ROUNDS: usize = 40;
/// A question's time has to suffice for so many moves of the table's choice.
const FEWEST_MOVES: u32 = 16;

/// Two ways compared side by side: samples of both in every round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The first one's median, in GiB/s.
    pub before_gib_per_s: f64,
    /// The second one's median, in GiB/s.
    pub after_gib_per_s: f64,
    /// The second one's speed as a multiple of the first one's.
    pub ratio: Estimate,
    /// The first one's processor seconds as a multiple of the second one's; none where a move took too few to be told.
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
    /// Is the second one surely faster, and gains at least as much time as the choice costs processor time?
    #[must_use]
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
    /// Kinds as a profile names them.
    pub source: &'static str,
    /// As `source`.
    pub target: &'static str,
    /// Bytes moved in one measured move.
    pub bytes: u64,
    /// The class of sizes: from so many bytes …
    pub at_least_bytes: u64,
    /// … to below so many, if there is an end.
    pub below_bytes: Option<u64>,
    /// The choice of the engine's table.
    pub table: String,
    /// The best of the others, and the comparison with the table.
    #[serde(skip)]
    pub best: Option<(Setting, Comparison)>,
    /// Why there is no answer, as a sentence.
    pub skipped: Option<String>,
    /// Does the answer hold for a part of the class only, because elsewhere the gain is not sure?
    pub narrowed: bool,
    /// The lines of a rule that name its conditions.
    #[serde(skip)]
    pub(super) rule_for: String,
}

impl Answer {
    fn open(question: &Question) -> Self {
        Self {
            question: question.to_string(),
            source: question.source.name(),
            target: question.target.name(),
            bytes: question.bytes,
            at_least_bytes: question.at_least_bytes,
            below_bytes: question.below_bytes,
            table: "the table's choice".to_owned(),
            best: None,
            skipped: None,
            narrowed: false,
            rule_for: question.lines(),
        }
    }

    /// Holds for the sizes of `question`, which are fewer than those measured if `narrowed`.
    fn narrow(&mut self, question: &Question, narrowed: bool) {
        self.at_least_bytes = question.at_least_bytes;
        self.below_bytes = question.below_bytes;
        self.narrowed = narrowed;
        self.rule_for = question.lines();
    }

    /// The class of sizes, in words.
    #[must_use]
    pub fn class(&self) -> String {
        let from = size(self.at_least_bytes);
        match self.below_bytes {
            // A rule ends with the largest size that was measured.
            Some(below) if !below.is_multiple_of(1024) => format!("{from} to {}", size(below - 1)),
            Some(below) => format!("{from} to below {}", size(below)),
            None => format!("from {from}"),
        }
    }

    /// The setting to be used instead of the table's choice, if one is surely faster.
    #[must_use]
    pub fn change(&self) -> Option<(Setting, Comparison)> {
        let is_better = |(_, compared): &(Setting, Comparison)| compared.is_better();
        self.best.filter(is_better).filter(|_| self.skipped.is_none())
    }

    /// Was there too little time to compare anything with the table's choice?
    #[must_use]
    pub fn had_no_time(&self) -> bool {
        let rounds = self.best.map_or(0, |(_, compared)| compared.rounds);
        self.skipped.is_some() && rounds < FEWEST_SAMPLES
    }
}

/// A way under trial.
struct Trial {
    setting: Setting,
    profile: Profile,
    seconds: Vec<f64>,
}

/// Answers a question within `time`, as far as that suffices.
///
/// First all ways are tried in turn; then the fastest is compared with the table's choice by fresh
/// samples of those two alone, because the best of many owes a part of the lead to luck. A way that is surely
/// faster must also do no harm at the ends of the class; the class is cut at an end where the way might do harm.
pub(super) fn answer(question: &Question, time: Duration) -> Result<Answer, Error> {
    let start = Instant::now();
    let mut answer = Answer::open(question);
    if question.least_time() > time {
        answer.skipped = Some("there was no time for it".to_owned());
        return Ok(answer);
    }
    let bench = Bench::new(question)?;
    let warm_up = bench.sample(None)?;
    answer.table = told(&warm_up.report);
    // One move took so long that too few would fit: better no answer than a weak one.
    if start.elapsed() * FEWEST_MOVES > time * 2 {
        answer.skipped = Some("too slow to be measured in the time that there is".to_owned());
        return Ok(answer);
    }
    let mut trials = Vec::new();
    for setting in question.settings() {
        if start.elapsed() > time / 2 {
            break;
        }
        let profile = setting.alone(question)?;
        // A setting that is refused here is none of this machine's.
        let Ok(taken) = bench.sample(Some(&profile)) else { continue };
        // What the kernel refused here was measured by whatever came next: not what was meant.
        let served = taken.report.main_method() == Some(setting.method);
        let is_tables =
            told(&taken.report) == answer.table && setting == Setting::of(setting.method);
        if served && !is_tables {
            trials.push(Trial { setting, profile, seconds: vec![taken.seconds] });
        }
    }
    while start.elapsed() < time / 2
        && trials.iter().all(|trial| trial.seconds.len() < MOST_ROUNDS / 4)
    {
        for trial in &mut trials {
            trial.seconds.push(bench.sample(Some(&trial.profile))?.seconds);
        }
    }
    let median = |trial: &Trial| stats::middle(&trial.seconds);
    let best = trials
        .iter()
        .filter_map(|trial| Some((trial, median(trial)?)))
        .min_by(|(_, a), (_, b)| a.total_cmp(b));
    let Some((trial, _)) = best else {
        answer.skipped = Some("there was no time to try anything else".to_owned());
        return Ok(answer);
    };
    // A quarter is kept for the proof that the winner does no harm elsewhere.
    let until = start + time / 4 * 3;
    // By fresh samples: the fastest of many is partly luck, and would be judged by the same luck.
    let compared = compare(&bench, None, Some(&trial.profile), question.bytes, until)?;
    answer.best = compared.map(|comparison| (trial.setting, comparison));
    if answer.best.is_none_or(|(_, comparison)| comparison.rounds < FEWEST_SAMPLES) {
        answer.skipped = Some("there was no time for enough rounds".to_owned());
    }
    if let Some((_, compared)) = answer.best.filter(|_| answer.skipped.is_none())
        && compared.verdict == Verdict::Faster
        && !compared.is_better()
    {
        answer.skipped = Some(format!(
            "{} is faster, but for more processor time than it saves in time",
            trial.setting
        ));
    }
    if answer.change().is_some() {
        match confirm(question, &trial.profile, start + time)? {
            Err(why) => answer.skipped = Some(format!("{} is {why}", trial.setting)),
            Ok(narrowed) if narrowed.is_one_size() => {
                let why = "is surely faster at this size alone, not at either end of its class";
                answer.skipped = Some(format!("{} {why}", trial.setting));
            }
            Ok(narrowed) => answer.narrow(&narrowed, narrowed != question.measured()),
        }
    }
    Ok(answer)
}

/// The class that was measured, without those ends where the profile is not surely as fast as the table; or the circumstances
/// in which the profile is not.
fn confirm(
    question: &Question,
    profile: &Profile,
    until: Instant,
) -> Result<Result<Question, String>, Error> {
    let mut narrowed = question.measured();
    let ends = question.ends();
    for (index, end) in ends.iter().enumerate() {
        let left = until.saturating_duration_since(Instant::now());
        let share = left / (ends.len() - index) as u32;
        let bench = Bench::new(end)?;
        let until = Instant::now() + share;
        let compared = compare(&bench, None, Some(profile), end.bytes, until)?;
        if compared.is_some_and(|compared| is_harmless(&compared, end.circumstance)) {
            continue;
        }
        match narrowed.without(end) {
            Some(narrower) => narrowed = narrower,
            None => {
                return Ok(Err(format!(
                    "surely faster, but it was not shown to do no harm: {end}"
                )));
            }
        }
    }
    Ok(Ok(narrowed))
}

/// Surely not slower, but for the margin below which nobody cares; and in a trickle, whose time is the feeder's, surely not at the
/// cost of more processor time.
fn is_harmless(compared: &Comparison, circumstance: Circumstance) -> bool {
    let costs_nothing = || compared.processor.is_none_or(|ratio| ratio.is_no_slower(MARGIN));
    compared.ratio.is_no_slower(MARGIN)
        && (circumstance != Circumstance::Trickle || costs_nothing())
}

/// Takes both ways in turn, each first in every other round.
pub(super) fn compare(
    bench: &Bench<'_>,
    before: Option<&Profile>,
    after: Option<&Profile>,
    bytes: u64,
    until: Instant,
) -> Result<Option<Comparison>, Error> {
    let mut rounds = Vec::new();
    while rounds.len() < MOST_ROUNDS && Instant::now() < until {
        let spent = |profile| bench.sample(profile).map(|taken| Spent::from(&taken));
        // In turns first and second, because the first of a pair finds other caches.
        let pair = if rounds.len() % 2 == 0 {
            let first = spent(before)?;
            [first, spent(after)?]
        } else {
            let first = spent(after)?;
            [spent(before)?, first]
        };
        rounds.push(pair);
    }
    Ok(Comparison::of(&rounds, bytes))
}

/// The method that moved most, with the number of threads.
pub(super) fn told(report: &Report) -> String {
    let used = report.methods.iter().max_by_key(|used| used.bytes);
    match used {
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
    fn harmless_is_what_is_surely_not_slower() {
        let harmless =
            |seconds, rounds| is_harmless(&compared(seconds, 1.0, rounds), Circumstance::Usual);
        assert!(harmless(0.9, 10) && harmless(1.02, 10));
        assert!(!harmless(1.2, 10), "slower");
        assert!(!harmless(0.9, FEWEST_SAMPLES - 1), "too few rounds to be sure");
    }

    #[test]
    fn time_that_costs_more_processor_time_than_it_saves_is_no_gain() {
        assert!(compared(0.5, 1.0, 10).is_better());
        assert!(compared(0.5, 1.9, 10).is_better(), "half the time for less than twice the work");
        assert!(!compared(0.5, 2.2, 10).is_better());
        assert!(!compared(1.0, 0.5, 10).is_better(), "not faster");
    }

    #[test]
    fn in_a_trickle_processor_time_is_what_counts() {
        let spins = compared(1.0, 3.0, 10);
        assert!(!is_harmless(&spins, Circumstance::Trickle));
        assert!(is_harmless(&spins, Circumstance::Usual));
        assert!(is_harmless(&compared(1.0, 1.0, 10), Circumstance::Trickle));
    }
}
