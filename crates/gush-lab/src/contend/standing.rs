//! What the samples say: how fast each contender is, beside the first and beside the fastest.

use serde_json::Value;

use crate::model::{Described, Failure, Measured, Sample};
use crate::stats::{self, Estimate, FEWEST_SAMPLES, Summary, Verdict};

/// Differences up to this part count as none between contenders that took turns in the same rounds. Two runs at different
/// times may differ by more without a cause ([`stats::MARGIN`]).
pub const MARGIN: f64 = 0.01;

/// A contender's samples, summed up.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The contender.
    pub label: String,
    /// Seconds by round.
    pub rounds: Vec<(u32, f64)>,
    /// The median of the seconds.
    pub median_s: Estimate,
    /// The mean.
    pub mean_s: f64,
    /// The standard deviation; none of a single sample.
    pub deviation_s: Option<f64>,
    /// The least and the most seconds.
    pub range_s: [f64; 2],
    /// The median of the processor seconds, user space and kernel together: the kernel's split of them means little below
    /// some 20 ms.
    pub processor_s: f64,
    /// The median of the processor seconds in user space.
    pub user_s: f64,
    /// The median of the processor seconds in the kernel.
    pub system_s: f64,
    /// The largest memory in bytes, if it was more than that of the program that started the contender.
    pub peak_bytes: Option<u64>,
    /// A bound for the largest memory, if it was not.
    pub peak_at_most_bytes: Option<u64>,
    /// The median of the throughput, where the bytes are known.
    pub gib_per_s: Option<f64>,
    /// How many times as fast as the first contender, from samples of the same rounds; none of the first itself.
    pub times_first: Option<Estimate>,
    /// The number of system calls, if they were counted.
    pub calls: Option<u64>,
    /// Every exit status, in the order of the rounds; of a process that a signal ended, none.
    pub statuses: Vec<Option<i64>>,
    /// The parameters' values.
    pub parameters: Vec<(String, String)>,
    /// Why it is out, if it failed in some round.
    pub failure: Option<String>,
}

/// The standings of a suite's contenders that have samples, in the order of `cases`.
#[must_use]
pub fn of(
    suite: &str,
    cases: &[Described],
    samples: &[Sample],
    failures: &[Failure],
) -> Vec<Standing> {
    let known = cases.iter().filter(|case| case.suite == suite);
    let mut labels: Vec<&str> = known.map(|case| case.case.as_str()).collect();
    let own: Vec<&Sample> = samples.iter().filter(|sample| sample.suite == suite).collect();
    for sample in &own {
        if !labels.contains(&sample.case.as_str()) {
            labels.push(&sample.case);
        }
    }
    let mut standings: Vec<Standing> = labels
        .into_iter()
        .filter_map(|label| {
            let samples: Vec<&Sample> =
                own.iter().copied().filter(|sample| sample.case == label).collect();
            let failure = failures.iter().find(|found| found.suite == suite && found.case == label);
            standing(label, &samples, failure)
        })
        .collect();
    if let Some((first, others)) = standings.split_first_mut() {
        for other in others {
            other.times_first = times(other, first);
        }
    }
    standings
}

fn standing(label: &str, samples: &[&Sample], failure: Option<&Failure>) -> Option<Standing> {
    let rounds: Vec<(u32, f64)> =
        samples.iter().filter_map(|sample| Some((sample.round, sample.measured.wall_s?))).collect();
    let seconds: Vec<f64> = rounds.iter().map(|&(_, seconds)| seconds).collect();
    let Summary { least, most, .. } = Summary::of(&seconds)?;
    let mean_s = seconds.iter().sum::<f64>() / seconds.len() as f64;
    let squares: f64 = seconds.iter().map(|second| (second - mean_s).powi(2)).sum();
    let median = |of: fn(&Measured) -> Option<f64>| {
        let values: Vec<f64> = samples.iter().filter_map(|sample| of(&sample.measured)).collect();
        Summary::of(&values).map(|summary| summary.median)
    };
    let number =
        |sample: &&Sample, name: &str| sample.measured.facts.get(name).and_then(Value::as_u64);
    let largest = |name: &str| samples.iter().filter_map(|sample| number(sample, name)).max();
    let newest = samples.last()?;
    let status = |sample: &&Sample| {
        let facts = &sample.measured.facts;
        match facts.contains_key("signal") {
            true => None,
            false => Some(facts.get("status").and_then(Value::as_i64).unwrap_or(0)),
        }
    };
    let parameter = |(name, value): (&String, &Value)| {
        Some((name.strip_prefix("parameter ")?.to_owned(), value.as_str()?.to_owned()))
    };
    Some(Standing {
        label: label.to_owned(),
        median_s: stats::median(&seconds)?,
        mean_s,
        deviation_s: (seconds.len() > 1).then(|| (squares / (seconds.len() - 1) as f64).sqrt()),
        range_s: [least, most],
        user_s: median(|measured| measured.user_s).unwrap_or(0.0),
        system_s: median(|measured| measured.system_s).unwrap_or(0.0),
        processor_s: median(|measured| Some(measured.user_s? + measured.system_s?)).unwrap_or(0.0),
        peak_bytes: largest("peak_bytes"),
        peak_at_most_bytes: largest("peak_at_most_bytes"),
        gib_per_s: median(|measured| measured.gib_per_s),
        times_first: None,
        calls: newest
            .measured
            .facts
            .get("syscalls")
            .and_then(Value::as_object)
            .map(|calls| calls.values().filter_map(Value::as_u64).sum()),
        statuses: samples.iter().map(status).collect(),
        parameters: newest.measured.facts.iter().filter_map(parameter).collect(),
        failure: failure.map(|failure| failure.error.clone()),
        rounds,
    })
}

/// How many times as fast `of` is as `to`, from the rounds that both have.
pub(super) fn times(of: &Standing, to: &Standing) -> Option<Estimate> {
    let pairs: Vec<(f64, f64)> = of
        .rounds
        .iter()
        .filter_map(|&(round, own)| {
            let (_, other) = to.rounds.iter().find(|(at, _)| *at == round)?;
            Some((*other, own))
        })
        .collect();
    stats::paired_ratio(&pairs)
}

/// The number of rounds that both have.
fn common(one: &Standing, other: &Standing) -> usize {
    one.rounds.iter().filter(|(round, _)| other.rounds.iter().any(|(at, _)| at == round)).count()
}

/// Who is in: measured to the end.
fn unfailed(standings: &[Standing]) -> impl Iterator<Item = &Standing> {
    standings.iter().filter(|standing| standing.failure.is_none())
}

/// The fastest beside each of the others, as sentences, the fastest of these first. A contender that failed, or whose
/// output is wrong, is never the fastest.
#[must_use]
pub fn sentences(standings: &[Standing]) -> Vec<String> {
    let mut ranked: Vec<&Standing> = unfailed(standings).collect();
    ranked.sort_by(|one, other| one.median_s.value.total_cmp(&other.median_s.value));
    let Some((fastest, others)) = ranked.split_first() else { return Vec::new() };
    others.iter().filter_map(|other| sentence(fastest, other)).collect()
}

fn sentence(fastest: &Standing, other: &Standing) -> Option<String> {
    let ratio = times(fastest, other)?;
    let Estimate { value, low, high } = ratio;
    let rounds = common(fastest, other);
    let (fast, slow) = (&fastest.label, &other.label);
    if rounds < FEWEST_SAMPLES {
        return Some(format!(
            "{fast} was {value:.2} times as fast as {slow} in {rounds} rounds, too few to be sure of anything"
        ));
    }
    Some(match Verdict::of(Some(&ratio), rounds, MARGIN) {
        Verdict::Faster => {
            format!("{fast} is {value:.2} times as fast as {slow} (95 %: {low:.2} … {high:.2})")
        }
        _ => format!(
            "{fast} and {slow}: no difference can be told ({value:.2} times as fast, 95 %: {low:.2} … {high:.2})"
        ),
    })
}

/// The contenders that are surely slower than the first by more than the part `margin`: with the whole interval.
#[must_use]
pub fn regressions(standings: &[Standing], margin: f64) -> Vec<&Standing> {
    let Some((first, others)) = standings.split_first() else { return Vec::new() };
    let is_slower = |other: &&Standing| {
        let rounds = common(first, other);
        Verdict::of(other.times_first.as_ref(), rounds, margin) == Verdict::Slower
    };
    others.iter().filter(is_slower).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn samples(case: &str, seconds: &[f64]) -> Vec<Sample> {
        let sample = |(round, &seconds): (u32, &f64)| Sample {
            suite: "run".into(),
            case: case.into(),
            round,
            measured: Measured { wall_s: Some(seconds), ..Measured::default() },
        };
        (1..).zip(seconds).map(sample).collect()
    }

    fn failure(case: &str) -> Failure {
        Failure { suite: "run".into(), case: case.into(), error: "wrong output".into() }
    }

    const SLOW: [f64; 6] = [2.0, 2.02, 1.98, 2.0, 2.01, 1.99];
    const FAST: [f64; 6] = [1.0, 1.01, 0.99, 1.0, 1.01, 0.99];

    #[test]
    fn the_fastest_is_named_with_its_interval() {
        let all = [samples("slow", &SLOW), samples("fast", &FAST)].concat();
        let standings = of("run", &[], &all, &[]);
        assert!((standings[1].times_first.unwrap().value - 2.0).abs() < 0.02);
        let said = sentences(&standings);
        assert_eq!(said.len(), 1);
        assert!(said[0].starts_with("fast is 2.00 times as fast as slow (95 %: "), "{said:?}");
    }

    #[test]
    fn a_wrong_answer_never_wins() {
        let all =
            [samples("slow", &SLOW), samples("fast", &FAST), samples("other", &SLOW)].concat();
        let said = sentences(&of("run", &[], &all, &[failure("fast")]));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("no difference can be told") && !said[0].contains("fast and"));
    }

    #[test]
    fn few_rounds_are_no_proof() {
        let all = [samples("slow", &SLOW[..3]), samples("fast", &FAST[..3])].concat();
        let standings = of("run", &[], &all, &[]);
        assert!(sentences(&standings)[0].contains("3 rounds, too few"));
        let turned = [samples("fast", &FAST[..3]), samples("slow", &SLOW[..3])].concat();
        assert!(regressions(&of("run", &[], &turned, &[]), 0.05).is_empty());
    }

    #[test]
    fn only_a_sure_regression_is_one() {
        let slower = |factor: f64| {
            let slow: Vec<f64> = FAST.iter().map(|seconds| seconds * factor).collect();
            let all = [samples("first", &FAST), samples("second", &slow)].concat();
            regressions(&of("run", &[], &all, &[]), 0.05).len()
        };
        assert_eq!(slower(1.1), 1);
        assert_eq!(slower(1.04), 0, "within the margin");
        assert_eq!(slower(0.5), 0, "faster is no regression");
        let wild = [0.6, 2.4, 1.1, 0.9, 1.8, 0.7];
        let all = [samples("first", &FAST), samples("second", &wild)].concat();
        assert!(regressions(&of("run", &[], &all, &[]), 0.05).is_empty(), "nobody can tell");
    }

    #[test]
    fn other_suites_of_the_run_are_left_alone() {
        let all = samples("a", &FAST);
        assert!(of("another", &[], &all, &[]).is_empty());
    }
}
