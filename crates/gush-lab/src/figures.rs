//! The figures of a run, case by case: medians with intervals, and ratios to the baselines.

use std::collections::HashMap;

use serde::Serialize;

use crate::model::{Described, Measured, Run, Sample};
use crate::stats::{self, Estimate, Verdict};

/// A case's figures in one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The suite's name.
    pub suite: String,
    /// The case's name.
    pub case: String,
    /// `GiB/s`, or `1/s` where the suite counts no bytes.
    pub unit: &'static str,
    /// How many samples there are.
    pub samples: usize,
    /// The median.
    pub median: Estimate,
    /// The baseline of the case, as the run says.
    pub baseline: Option<String>,
    /// The median divided by that of the baseline, from samples of the same rounds.
    pub times: Option<Estimate>,
}

/// The figures of every case that has some, suite by suite.
///
/// ```
/// use gush_lab::figures;
/// use gush_lab::model::{Described, Measured, Run, Sample};
/// let sample = |case: &str, round, gib_per_s| Sample {
///     suite: "pipe".into(),
///     case: case.into(),
///     round,
///     measured: Measured { gib_per_s: Some(gib_per_s), ..Measured::default() },
/// };
/// let samples = vec![sample("a", 1, 2.0), sample("b", 1, 6.0), sample("a", 2, 1.0), sample("b", 2, 3.0)];
/// let cases = vec![Described::new("pipe", "a"), Described::new("pipe", "b").against("a")];
/// let found = figures::of(&Run { cases, samples, ..Run::default() });
/// assert_eq!((found[1].case.as_str(), found[1].median.value), ("b", 4.5));
/// assert_eq!(found[1].times.unwrap().low, 3.0);
/// ```
#[must_use]
pub fn of(run: &Run) -> Vec<Figure> {
    let cases = cases(run);
    let figure = |case: &Speeds<'_>| {
        let described = described(run, case);
        let baseline = described.and_then(|described| described.baseline.clone());
        let against = baseline.as_deref().and_then(|name| {
            cases.iter().find(|other| (other.suite, other.case) == (case.suite, name))
        });
        Some(Figure {
            suite: case.suite.to_owned(),
            case: case.case.to_owned(),
            unit: case.unit,
            samples: case.rounds.len(),
            median: stats::median(&case.speeds())?,
            times: against
                .and_then(|other| stats::paired_ratio(&pairs(&case.rounds, &other.rounds))),
            baseline,
        })
    };
    cases.iter().filter_map(figure).collect()
}

/// The run's description of a case.
pub(crate) fn described<'r>(run: &'r Run, case: &Speeds<'_>) -> Option<&'r Described> {
    run.cases
        .iter()
        .find(|known| (known.suite.as_str(), known.case.as_str()) == (case.suite, case.case))
}

/// The figures of both in each round that has both.
pub(crate) fn pairs(of: &[(u32, f64)], to: &[(u32, f64)]) -> Vec<(f64, f64)> {
    of.iter()
        .filter_map(|&(round, figure)| {
            let same = to.iter().find(|(other, _)| *other == round)?;
            Some((figure, same.1))
        })
        .collect()
}

/// How many times as much as `to` the samples `of` have, round by round, and whether that can be told from no difference:
/// one rule for tables and pages.
pub(crate) fn paired(
    of: &[&Sample],
    to: &[&Sample],
    figure: impl Fn(&Measured) -> Option<f64>,
) -> Option<(Estimate, Verdict)> {
    let figures = |samples: &[&Sample]| -> Vec<(u32, f64)> {
        let one = |sample: &&Sample| Some((sample.round, figure(&sample.measured)?));
        samples.iter().filter_map(one).collect()
    };
    let rounds = pairs(&figures(of), &figures(to));
    let ratio = stats::paired_ratio(&rounds)?;
    let verdict = Verdict::of(Some(&ratio), rounds.len(), stats::MARGIN);
    Some((ratio, verdict))
}

/// All speeds of a case.
pub(crate) struct Speeds<'a> {
    pub suite: &'a str,
    pub case: &'a str,
    pub unit: &'static str,
    pub rounds: Vec<(u32, f64)>,
}

impl Speeds<'_> {
    pub fn speeds(&self) -> Vec<f64> {
        self.rounds.iter().map(|&(_, speed)| speed).collect()
    }
}

/// The cases that have figures, in the order in which the run describes them, or they were first measured. A case that is
/// out has none.
pub(crate) fn cases(run: &Run) -> Vec<Speeds<'_>> {
    let mut found: Vec<Speeds<'_>> = Vec::new();
    let mut places = HashMap::new();
    for Sample { suite, case, round, measured } in &run.samples {
        let Some(speed) = measured.speed().filter(|_| run.failure_of(suite, case).is_none()) else {
            continue;
        };
        let place = *places.entry((suite.as_str(), case.as_str())).or_insert(found.len());
        if place == found.len() {
            let unit = if measured.gib_per_s.is_some() { "GiB/s" } else { "1/s" };
            found.push(Speeds { suite, case, unit, rounds: Vec::new() });
        }
        found[place].rounds.push((*round, speed));
    }
    run.sort_as_described(&mut found, |case| (case.suite, case.case));
    found
}
