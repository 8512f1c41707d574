//! What a run says, case by case: medians with their intervals, and how many times the first case's.

use serde::Serialize;

use crate::model::{Run, Sample};
use crate::stats::{self, Estimate};

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
    /// The median divided by that of the suite's first case, from samples of the same rounds.
    pub times_first: Option<Estimate>,
}

/// The figures of every case that has some, in the order in which the cases were first measured.
///
/// ```
/// use gush_lab::figures;
/// use gush_lab::model::{Measured, Run, Sample};
/// let sample = |case: &str, round, gib_per_s| Sample {
///     suite: "pipe".into(),
///     case: case.into(),
///     round,
///     measured: Measured { gib_per_s: Some(gib_per_s), ..Measured::default() },
/// };
/// let samples = vec![sample("a", 1, 2.0), sample("b", 1, 6.0), sample("a", 2, 1.0), sample("b", 2, 3.0)];
/// let found = figures::of(&Run { samples, ..Run::default() });
/// assert_eq!((found[1].case.as_str(), found[1].median.value), ("b", 4.5));
/// assert_eq!(found[1].times_first.unwrap().low, 3.0);
/// ```
#[must_use]
pub fn of(run: &Run) -> Vec<Figure> {
    let cases = cases(run);
    let figure = |case: &Speeds<'_>| {
        let first = cases.iter().find(|first| first.suite == case.suite)?;
        let rounds: Vec<(f64, f64)> = case
            .rounds
            .iter()
            .filter_map(|&(round, speed)| {
                let same = first.rounds.iter().find(|(other, _)| *other == round)?;
                Some((speed, same.1))
            })
            .collect();
        Some(Figure {
            suite: case.suite.to_owned(),
            case: case.case.to_owned(),
            unit: case.unit,
            samples: case.rounds.len(),
            median: stats::median(&case.speeds())?,
            times_first: stats::paired_ratio(&rounds),
        })
    };
    cases.iter().filter_map(figure).collect()
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

/// The cases that have figures, in the order in which they were first measured.
pub(crate) fn cases(run: &Run) -> Vec<Speeds<'_>> {
    let mut found: Vec<Speeds<'_>> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for Sample { suite, case, round, measured } in &run.samples {
        let Some(speed) = measured.speed() else { continue };
        let place = *places.entry((suite.as_str(), case.as_str())).or_insert(found.len());
        if place == found.len() {
            let unit = if measured.gib_per_s.is_some() { "GiB/s" } else { "1/s" };
            found.push(Speeds { suite, case, unit, rounds: Vec::new() });
        }
        found[place].rounds.push((*round, speed));
    }
    found
}
