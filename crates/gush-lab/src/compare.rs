//! Two runs side by side: which cases became faster, which slower, and where nobody can tell.

use serde::Serialize;

use crate::figures::{self, Speeds};
use crate::model::Run;
use crate::stats::{self, Estimate, Verdict};

/// Two runs side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The ids of both.
    pub runs: [String; 2],
    /// Differences up to this part are left undecided: what was asked for, or as much as what `others` took
    /// can have slowed one run down and not the other.
    pub margin: f64,
    /// The part of the processors' time that others took while each was made; 0 where nobody looked.
    pub others: [f64; 2],
    /// What differs between the two machines; what only one of them has is left out.
    pub differences: Vec<Difference>,
    /// The cases that both have figures of, in the first run's order.
    pub cases: Vec<Compared>,
    /// How many cases only the first run, and only the second run, has figures of.
    pub alone: [usize; 2],
}

/// A fact of the machines that is not the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Its name.
    pub fact: String,
    /// In the first run, and in the second.
    pub values: [String; 2],
}

/// A case in both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The suite's name.
    pub suite: String,
    /// The case's name.
    pub case: String,
    /// `GiB/s`, or `1/s` where the suite counts no bytes.
    pub unit: &'static str,
    /// How many samples each run has.
    pub samples: [usize; 2],
    /// The median of each.
    pub medians: [Estimate; 2],
    /// The second run's median divided by the first's.
    pub ratio: Estimate,
    /// Whether the second run is faster or slower than the first.
    pub verdict: Verdict,
}

/// Compares `after` with `before`; differences up to the part `margin` are left undecided, and larger ones
/// where others were at work while a run was made.
///
/// ```
/// use gush_lab::{compare, model::{Measured, Run, Sample}, stats::Verdict};
/// let run = |speed: f64| Run {
///     samples: (1..=5)
///         .map(|round| Sample {
///             suite: "pipe".into(),
///             case: "write-read".into(),
///             round,
///             measured: Measured { gib_per_s: Some(speed + f64::from(round) / 100.0), ..Measured::default() },
///         })
///         .collect(),
///     ..Run::default()
/// };
/// let found = compare::runs(&run(2.0), &run(4.0), 0.05);
/// assert_eq!(found.cases[0].verdict, Verdict::Faster);
/// assert!((found.cases[0].ratio.value - 2.0).abs() < 0.1);
/// ```
#[must_use]
pub fn runs(before: &Run, after: &Run, margin: f64) -> Comparison {
    let (first, second) = (figures::cases(before), figures::cases(after));
    let others = [before, after].map(|run| run.others.unwrap_or(0.0));
    let margin = margin.max(slowing(others[0].max(others[1])));
    let cases: Vec<Compared> = first
        .iter()
        .filter_map(|one| {
            let other = second.iter().find(|other| is_same(one, other))?;
            compared(one, other, margin)
        })
        .collect();
    let alone = |own: &[Speeds<'_>], others: &[Speeds<'_>]| {
        own.iter().filter(|one| !others.iter().any(|other| is_same(one, other))).count()
    };
    Comparison {
        runs: [before.id.clone(), after.id.clone()],
        margin,
        others,
        differences: differences(before, after),
        alone: [alone(&first, &second), alone(&second, &first)],
        cases,
    }
}

/// The margin of two runs that nobody has set one for: 5 %, and 10 % on a virtual machine.
///
/// A machine's neighbours take turns at its caches, its memory and its clock, and no counter of the guest
/// tells of them. Of the verdicts on unchanged cases 0.6 to 2.4 % were wrong with 10 % where it was measured,
/// and 6 % with 5 % (`bench/agree.py`).
#[must_use]
pub fn usual_margin(before: &Run, after: &Run) -> f64 {
    let is_virtual =
        |run: &Run| run.machine.facts.get("virtualisation").is_some_and(|kind| kind != "none");
    if is_virtual(before) || is_virtual(after) { 0.10 } else { 0.05 }
}

/// By how much a case may be slowed down if others take this part of the processors' time, all of it from it.
fn slowing(others: f64) -> f64 {
    const MOST: f64 = 0.99;
    1.0 / (1.0 - others.clamp(0.0, MOST)) - 1.0
}

fn is_same(one: &Speeds<'_>, other: &Speeds<'_>) -> bool {
    (one.suite, one.case, one.unit) == (other.suite, other.case, other.unit)
}

fn compared(before: &Speeds<'_>, after: &Speeds<'_>, margin: f64) -> Option<Compared> {
    let (first, second) = (before.speeds(), after.speeds());
    let ratio = stats::ratio(&second, &first)?;
    Some(Compared {
        suite: before.suite.to_owned(),
        case: before.case.to_owned(),
        unit: before.unit,
        samples: [first.len(), second.len()],
        medians: [stats::median(&first)?, stats::median(&second)?],
        ratio,
        verdict: Verdict::of(Some(&ratio), first.len().min(second.len()), margin),
    })
}

fn differences(before: &Run, after: &Run) -> Vec<Difference> {
    let machines = [&before.machine.facts, &after.machine.facts];
    let mut found: Vec<Difference> = machines[0]
        .iter()
        .filter_map(|(fact, value)| {
            let other = machines[1].get(fact).filter(|&other| other != value)?;
            Some(Difference { fact: fact.clone(), values: [value.clone(), other.clone()] })
        })
        .collect();
    if before.gush != after.gush {
        let values = [before.gush.clone(), after.gush.clone()];
        found.push(Difference { fact: "gush".to_owned(), values });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Measured, Sample};

    fn run(speed: f64, others: Option<f64>) -> Run {
        let sample = |round: u32| Sample {
            suite: "memory".into(),
            case: "copy-1".into(),
            round,
            measured: Measured { gib_per_s: Some(speed), ..Measured::default() },
        };
        Run { others, samples: (1..=5).map(sample).collect(), ..Run::default() }
    }

    #[test]
    fn a_virtual_machine_may_differ_from_itself_by_more() {
        let here = run(4.0, None);
        let mut guest = here.clone();
        guest.machine.facts.insert("virtualisation".into(), "KVM".into());
        assert_eq!(usual_margin(&here, &here), 0.05);
        assert_eq!(usual_margin(&here, &guest), 0.10);
    }

    #[test]
    fn what_others_can_have_done_is_left_undecided() {
        let verdict =
            |speed, others| runs(&run(4.0, Some(0.01)), &run(speed, others), 0.05).cases[0].verdict;
        assert_eq!(verdict(3.0, Some(0.02)), Verdict::Slower);
        assert_eq!(verdict(3.0, None), Verdict::Slower);
        assert_eq!(
            verdict(3.0, Some(0.3)),
            Verdict::CannotTell,
            "a third less could be the others'"
        );
        assert_eq!(verdict(2.0, Some(0.3)), Verdict::Slower, "half of it could not");
        assert_eq!(verdict(4.3, Some(f64::NAN)), Verdict::Faster, "no figure, no excuse");
    }
}
