//! Two runs side by side: which cases became faster, which slower, and which are undecided.
//!
//! A ratio has its baseline's name and is made round by round. A case whose identity differs
//! between the runs is left out. One rule decides whether there is a difference: `Verdict::of`,
//! which wants five samples a side and an interval beyond `MARGIN`. A winner is chosen by the first
//! third of the rounds and judged by the others (`stats::choosing_rounds`).

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use crate::cases::{self, CaseRun};
use crate::model::{Described, Failure, Run};
use crate::stats::{self, Estimate, Verdict};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    pub runs: [String; 2],
    /// Differences up to this part count as none, as everywhere ([`stats::MARGIN`]), unless another
    /// part was asked for.
    pub margin: f64,
    /// By which part a whole run may differ from the next without a cause in any case: the time
    /// that `others` took, and the work of a virtual machine's neighbours. Beyond the margin,
    /// differences up to this part are left undecided.
    pub drift: f64,
    /// The part of the processors' time that other programs took during each; 0 if unknown.
    pub others: [f64; 2],
    /// The facts that differ between the two machines; a fact that only one machine has is left
    /// out.
    pub differences: Vec<Difference>,
    /// The cases that both have figures of, and that are the same, in the first run's order.
    pub cases: Vec<Compared>,
    /// The cases of one name whose parameters differ: their figures are not compared.
    pub unlike: Vec<Unlike>,
    /// The cases that failed in one run or both: their figures are not compared.
    pub failed: Vec<Failed>,
    /// How many cases only the first run, and only the second run, has figures of.
    pub alone: [usize; 2],
}

/// A fact of the machines that is not the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub fact: String,
    /// In the first run, and in the second.
    pub values: [String; 2],
}

/// A case with other parameters in the other run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unlike {
    pub suite: String,
    pub case: String,
    /// The parameters of the case that differ.
    pub differences: Vec<Difference>,
}

/// A case that failed in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failed {
    pub run: String,
    #[serde(flatten)]
    pub failure: Failure,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    pub suite: String,
    pub case: String,
    /// `GiB/s`, the unit of the figure that the command prints, or `1/s` where the bytes are not
    /// known.
    pub unit: String,
    pub samples: [usize; 2],
    pub medians: [Estimate; 2],
    /// How many times as good the second run is: the second median divided by the first, or the
    /// first by the second where less is better.
    pub ratio: Estimate,
    /// Whether the second run is faster or slower than the first.
    pub verdict: Verdict,
}

/// Compares `after` with `before`: a verdict needs an interval beyond `margin`, or else
/// [`stats::MARGIN`], and beyond the drift of whole runs.
pub fn runs(before: &Run, after: &Run, margin: Option<f64>) -> Comparison {
    let [first, second] = [before, after].map(|run| -> Vec<CaseRun<'_>> {
        let all = cases::suites(run).into_iter().flat_map(|suite| suite.cases);
        all.filter(|case| !case.values().is_empty()).collect()
    });
    let others = [before, after].map(|run| run.others.unwrap_or(0.0));
    let drift = drift(before, after, margin.is_none());
    let margin = margin.unwrap_or(stats::MARGIN);
    let undecided = beyond(margin, drift);
    let (mut cases, mut unlike) = (Vec::new(), Vec::new());
    for one in &first {
        let Some(other) = second.iter().find(|other| is_same(one, other)) else { continue };
        let differences = parameters_that_differ(one, other);
        if !differences.is_empty() {
            let Described { suite, case, .. } = one.described.clone();
            unlike.push(Unlike { suite, case, differences });
            continue;
        }
        cases.extend(compared(one, other, undecided));
    }
    let alone = |own: &[CaseRun<'_>], others: &[CaseRun<'_>]| {
        own.iter().filter(|one| !others.iter().any(|other| is_same(one, other))).count()
    };
    let out = |run: &Run| -> Vec<Failed> {
        let failed = |failure: &Failure| Failed { run: run.id.clone(), failure: failure.clone() };
        run.failures.iter().map(failed).collect()
    };
    Comparison {
        runs: [before.id.clone(), after.id.clone()],
        margin,
        drift,
        others,
        differences: differences(before, after),
        alone: [alone(&first, &second), alone(&second, &first)],
        cases,
        unlike,
        failed: [before, after].into_iter().flat_map(out).collect(),
    }
}

/// The parameters that are not the same in both; one that only one of them has differs, too. Device
/// numbers count only within a machine: each numbers its devices by itself.
pub(crate) fn parameters_that_differ(one: &CaseRun<'_>, other: &CaseRun<'_>) -> Vec<Difference> {
    let [first, second] = [one, other].map(|case| &case.described.identity);
    let is_own = |name: &String| name == "device" && one.machine != other.machine;
    let text = |value: Option<&Value>| match value {
        None => "none".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    let names: BTreeSet<&String> = first.keys().chain(second.keys()).collect();
    let differs = names.into_iter().filter(|name| first.get(*name) != second.get(*name));
    differs
        .filter(|name| !is_own(name))
        .map(|name| Difference {
            fact: name.clone(),
            values: [text(first.get(name)), text(second.get(name))],
        })
        .collect()
}

/// The part up to which a difference between cases of these two runs counts as none, in `gush lab
/// compare` and on the page.
pub(crate) fn undecided(before: &Run, after: &Run) -> f64 {
    beyond(stats::MARGIN, drift(before, after, true))
}

fn beyond(margin: f64, drift: f64) -> f64 {
    // Both may slow a run down at once, so the factors multiply.
    (1.0 + margin) * (1.0 + drift) - 1.0
}

/// By which part these whole runs may differ; neighbours count unless the user gave a margin.
fn drift(before: &Run, after: &Run, with_neighbours: bool) -> f64 {
    let others = [before, after].map(|run| run.others.unwrap_or(0.0));
    let neighbours = if with_neighbours && is_virtual(before, after) { NEIGHBOURS } else { 0.0 };
    // The larger of the two: a neighbour's work shows in the counters of others in part already.
    neighbours.max(slowing(others[0].max(others[1])))
}

/// By which part the neighbours of a virtual machine move a whole run: they share the caches, the
/// memory and the clock, and no counter of the guest shows it. In our measurements 0.6 to 2.4 % of
/// the verdicts on unchanged cases were wrong with this part added to the margin, and 6 % without
/// (`bench/RESULTS.md`).
const NEIGHBOURS: f64 = 0.05;

fn is_virtual(before: &Run, after: &Run) -> bool {
    [before, after]
        .iter()
        .any(|run| run.machine.facts.get("virtualisation").is_some_and(|kind| kind != "none"))
}

/// By how much a case may be slowed down if others take this part of the processors' time, and took
/// all of that time from the case.
fn slowing(others: f64) -> f64 {
    // Below 1, where the quotient has no value: a case may then have taken 100 times its own time.
    const MOST: f64 = 0.99;
    1.0 / (1.0 - others.clamp(0.0, MOST)) - 1.0
}

fn is_same(one: &CaseRun<'_>, other: &CaseRun<'_>) -> bool {
    let [own, others] = [one, other].map(CaseRun::measure);
    (&one.described.suite, one.name, own.unit(), own.less_is_better())
        == (&other.described.suite, other.name, others.unit(), others.less_is_better())
}

fn compared(before: &CaseRun<'_>, after: &CaseRun<'_>, margin: f64) -> Option<Compared> {
    let (first, second) = (before.values(), after.values());
    let ratio = after.times(before)?;
    let Described { suite, case, .. } = before.described.clone();
    Some(Compared {
        suite,
        case,
        unit: before.measure().unit().to_owned(),
        samples: [first.len(), second.len()],
        medians: [stats::median(&first)?, stats::median(&second)?],
        ratio,
        verdict: Verdict::of(Some(&ratio), margin),
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
    for (fact, values) in
        [("gush", [&before.gush, &after.gush]), ("build", [&before.build, &after.build])]
    {
        if values[0] != values[1] && !values.iter().any(|value| value.is_empty()) {
            found.push(Difference { fact: fact.to_owned(), values: values.map(Clone::clone) });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Measured, Printed, Sample};

    fn run(speed: f64, others: Option<f64>) -> Run {
        let measured = Measured { gib_per_s: Some(speed), ..Measured::default() };
        let sample = |round| Sample::new("memory", "copy-1", round, measured.clone());
        Run { others, samples: (1..=5).map(sample).collect(), ..Run::default() }
    }

    #[test]
    fn a_virtual_machine_may_differ_from_itself_by_more() {
        let here = run(4.0, None);
        let mut guest = here.clone();
        guest.machine.facts.insert("virtualisation".into(), "KVM".into());
        let both = |other: &Run, margin| {
            let Comparison { margin, drift, .. } = runs(&here, other, margin);
            (margin, drift)
        };
        assert_eq!(both(&here, None), (stats::MARGIN, 0.0));
        assert_eq!(both(&guest, None), (stats::MARGIN, NEIGHBOURS));
        assert_eq!(both(&guest, Some(0.01)), (0.01, 0.0), "who names a margin has it");
    }

    #[test]
    fn less_of_a_printed_figure_is_faster_where_less_is_better() {
        let printed = |value: f64, less_is_better| {
            let printed = Printed { name: "us".into(), unit: "µs".into(), less_is_better };
            let mut run = run(1.0, None);
            for sample in &mut run.samples {
                sample.measured.facts.insert(printed.fact(), value.into());
            }
            let described = Described::new("memory", "copy-1");
            run.cases = vec![Described { printed: vec![printed], ..described }];
            run
        };
        let compared =
            |less| runs(&printed(40.0, less), &printed(20.0, less), None).cases.remove(0);
        let (less, more) = (compared(true), compared(false));
        assert_eq!((less.verdict, less.ratio.value), (Verdict::Faster, 2.0));
        assert_eq!((more.verdict, more.ratio.value), (Verdict::Slower, 0.5));
        assert_eq!((less.unit.as_str(), less.medians[1].value), ("µs", 20.0));
        let other_way = runs(&printed(40.0, true), &printed(20.0, false), None);
        assert!(other_way.cases.is_empty(), "it is not known which is better");
    }

    #[test]
    fn what_others_can_have_done_is_left_undecided() {
        let verdict =
            |speed, others| runs(&run(4.0, Some(0.01)), &run(speed, others), None).cases[0].verdict;
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

    #[test]
    fn a_case_is_compared_with_itself_alone() {
        let with_bytes = |bytes: Option<u64>| {
            let described =
                bytes.map(|bytes| Described::new("memory", "copy-1").with("bytes", bytes));
            Run { cases: described.into_iter().collect(), ..run(4.0, None) }
        };
        let same = runs(&with_bytes(Some(1)), &with_bytes(Some(1)), None);
        assert_eq!((same.cases.len(), same.unlike.len()), (1, 0));
        let other = runs(&with_bytes(Some(1)), &with_bytes(Some(2)), None);
        assert_eq!((other.cases.len(), other.alone), (0, [0, 0]));
        let values = ["1", "2"].map(str::to_owned);
        assert_eq!(other.unlike[0].differences, [Difference { fact: "bytes".into(), values }]);
        let unknown = runs(&with_bytes(None), &with_bytes(Some(2)), None);
        assert_eq!((unknown.cases.len(), unknown.unlike.len()), (0, 1));
        let only_named = runs(&with_bytes(None), &with_bytes(None), None);
        assert_eq!(only_named.cases.len(), 1);
    }

    #[test]
    fn another_build_is_reported() {
        let built = |build: &str| Run { build: build.into(), ..run(4.0, None) };
        assert_eq!(runs(&built("a1"), &built("b2"), None).differences[0].fact, "build");
        assert!(runs(&built(""), &built("b2"), None).differences.is_empty());
    }
}
