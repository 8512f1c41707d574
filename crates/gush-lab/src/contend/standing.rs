//! The result of the samples: how fast each contender is, beside the first and beside the fastest.

use serde_json::Value;

use crate::cases::distinct;
use crate::figures;
use crate::model::{Described, Failure, Measured, Printed, Run, Sample};
use crate::stats::{self, Estimate, Interval, MARGIN, Summary, Verdict};

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
    /// The largest memory in bytes, if more than that of the program that started the contender.
    pub peak_bytes: Option<u64>,
    /// A bound for the largest memory, if it was no more than that program's.
    pub peak_at_most_bytes: Option<u64>,
    /// The median of the throughput, where the bytes are known.
    pub gib_per_s: Option<f64>,
    /// How many times as fast as the first contender, or as good by the first figure that the commands print, from samples of the
    /// same rounds; none of the first itself.
    pub times_first: Option<Estimate>,
    /// The figures that the command printed.
    pub figures: Vec<Figure>,
    /// The number of system calls, if they were counted.
    pub calls: Option<u64>,
    /// Every exit status, in the order of the rounds; of a process that a signal ended, none.
    pub statuses: Vec<Option<i64>>,
    /// The parameters' values.
    pub parameters: Vec<(String, String)>,
    /// The reason why the contender is out, if some round failed.
    pub failure: Option<String>,
}

/// A figure that a contender printed.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The name, the unit, and which way is better.
    pub printed: Printed,
    /// The values by round.
    pub rounds: Vec<(u32, f64)>,
    /// The median of the values.
    pub median: Estimate,
    /// How many times as good as the first contender; none of the first itself.
    pub times_first: Option<Estimate>,
}

/// What a contender costs, round by round: seconds, or a printed figure turned so that less is better.
pub(super) struct Course<'s> {
    rounds: Vec<(u32, f64)>,
    figure: Option<&'s str>,
}

impl Course<'_> {
    pub(super) fn median(&self) -> Option<f64> {
        let costs: Vec<f64> = self.rounds.iter().map(|&(_, cost)| cost).collect();
        Summary::of(&costs).map(|summary| summary.median)
    }

    /// How many times as good as `other`, from the rounds that both have.
    pub(super) fn times(&self, other: &Self) -> Option<Estimate> {
        stats::paired_ratio(&self.pairs(other))
    }

    /// How many rounds both have.
    pub(super) fn shared_rounds(&self, other: &Self) -> usize {
        self.pairs(other).len()
    }

    /// The costs of both in each round that both have: the other's first.
    fn pairs(&self, other: &Self) -> Vec<(f64, f64)> {
        figures::pairs(&other.rounds, &self.rounds)
    }

    /// The rounds after the round `after`.
    fn after(mut self, after: u32) -> Self {
        self.rounds.retain(|(round, _)| *round > after);
        self
    }

    /// The words for a comparison: `fast` and nothing, or `good` and by which figure.
    pub(super) fn words(&self) -> (&'static str, String) {
        match self.figure {
            Some(name) => ("good", format!(" by {name}")),
            None => ("fast", String::new()),
        }
    }
}

impl Standing {
    /// The costs by the figure of this name, or else by the one that is compared; none where there is no such figure.
    pub(super) fn course(&self, figure: Option<&str>) -> Option<Course<'_>> {
        let found = match figure {
            Some(name) => Some(self.figures.iter().find(|one| one.printed.name == name)?),
            None => self.figures.first(),
        };
        let Some(Figure { printed, rounds, .. }) = found else {
            return Some(Course { rounds: self.rounds.clone(), figure: None });
        };
        let cost = |value: f64| if printed.less_is_better { value } else { value.recip() };
        let rounds = rounds.iter().map(|&(round, value)| (round, cost(value))).collect();
        Some(Course { rounds, figure: Some(&printed.name) })
    }

    /// The costs by which contenders are compared.
    fn compared(&self) -> Course<'_> {
        let seconds = || Course { rounds: self.rounds.clone(), figure: None };
        self.course(None).unwrap_or_else(seconds)
    }
}

/// The standings of a suite's contenders that have samples, in the order in which the run describes them.
#[must_use]
pub fn of(run: &Run, suite: &str) -> Vec<Standing> {
    let known = run.described(suite);
    let mut standings: Vec<Standing> = known
        .iter()
        .filter_map(|described| {
            let own = |sample: &&Sample| sample.suite == suite && sample.case == described.case;
            let samples: Vec<&Sample> = run.samples.iter().filter(own).collect();
            standing(described, &samples, run.failure_of(suite, &described.case))
        })
        .collect();
    if let Some((first, others)) = standings.split_first_mut() {
        for other in others {
            other.times_first = other.compared().times(&first.compared());
            let each = |figure: &Figure| {
                let name = Some(figure.printed.name.as_str());
                other.course(name)?.times(&first.course(name)?)
            };
            let all: Vec<_> = other.figures.iter().map(each).collect();
            for (figure, times) in other.figures.iter_mut().zip(all) {
                figure.times_first = times;
            }
        }
    }
    standings
}

fn standing(
    described: &Described,
    samples: &[&Sample],
    failure: Option<&Failure>,
) -> Option<Standing> {
    let figure = |printed: &Printed| {
        let round = |sample: &&Sample| Some((sample.round, printed.of(&sample.measured)?));
        let rounds: Vec<(u32, f64)> = samples.iter().filter_map(round).collect();
        let values: Vec<f64> = rounds.iter().map(|&(_, value)| value).collect();
        let median = stats::median(&values)?;
        Some(Figure { printed: printed.clone(), rounds, median, times_first: None })
    };
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
        label: described.case.clone(),
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
        figures: described.printed.iter().filter_map(figure).collect(),
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

/// The fastest beside each of the others, as sentences, the fastest of these first. A contender that failed, or whose
/// output is wrong, is never the fastest. The fastest of three or more is chosen by the first rounds, and judged by the others.
#[must_use]
pub fn sentences(standings: &[Standing]) -> Vec<String> {
    let unfailed: Vec<&Standing> = standings.iter().filter(|one| one.failure.is_none()).collect();
    let rounds = unfailed.iter().map(|one| one.rounds.len()).min().unwrap_or(0);
    // Of two contenders nobody has to be chosen.
    let choosing = stats::choosing_rounds(rounds).filter(|_| unfailed.len() > 2);
    let last = choosing.and_then(|choosing| unfailed[0].rounds.get(choosing - 1));
    let last_choosing = last.map_or(0, |&(round, _)| round);
    let cost = |one: &Standing| -> f64 {
        let mut course = one.compared();
        course.rounds.retain(|(round, _)| last.is_none() || *round <= last_choosing);
        course.median().unwrap_or(f64::INFINITY)
    };
    let by_cost = |one: &&&Standing, other: &&&Standing| cost(one).total_cmp(&cost(other));
    let Some(&fastest) = unfailed.iter().min_by(by_cost) else { return Vec::new() };
    let mut others: Vec<&Standing> =
        unfailed.into_iter().filter(|one| one.label != fastest.label).collect();
    let whole = |one: &Standing| one.compared().median().unwrap_or(f64::INFINITY);
    others.sort_by(|one, other| whole(one).total_cmp(&whole(other)));
    let said = others.iter().filter_map(|other| sentence(fastest, other, last_choosing));
    let unsuccessful = standings.iter().filter_map(unsuccessful);
    let how = choosing.map(|choosing| {
        format!(
            "{} was chosen by {}, and is judged by the others",
            fastest.label,
            if choosing == 1 {
                "the first round".to_owned()
            } else {
                format!("the first {choosing} rounds")
            }
        )
    });
    said.chain(how).chain(unsuccessful).collect()
}

/// Tells of the runs that failed, and were measured because failures are to be ignored.
fn unsuccessful(one: &Standing) -> Option<String> {
    let failed = || one.statuses.iter().filter(|status| **status != Some(0));
    let end = |status: &Option<i64>| {
        status.map_or("a signal".to_owned(), |status| format!("status {status}"))
    };
    let (label, runs, ends) = (&one.label, one.statuses.len(), distinct(failed().map(end)));
    let failed = failed().count();
    (failed > 0)
        .then(|| format!("{label} failed in {failed} of {runs} rounds: {}", ends.join(", ")))
}

fn sentence(fastest: &Standing, other: &Standing, after: u32) -> Option<String> {
    let own = fastest.compared().after(after);
    let (how, by) = own.words();
    let pairs = own.pairs(&other.compared());
    let ratio = stats::paired_ratio(&pairs)?;
    let (Estimate { value, interval }, rounds) = (ratio, pairs.len());
    let (fast, slow) = (&fastest.label, &other.label);
    let Some(Interval { low, high }) = interval else {
        return Some(format!(
            "{fast} was {value:.2} times as {how} as {slow}{by} in {rounds} round{}, too few to be sure of anything",
            if rounds == 1 { "" } else { "s" }
        ));
    };
    Some(match Verdict::of(Some(&ratio), MARGIN) {
        Verdict::Faster => {
            format!(
                "{fast} is {value:.2} times as {how} as {slow}{by} (95 %: {low:.2} … {high:.2})"
            )
        }
        Verdict::Slower => format!(
            "{slow} is {:.2} times as {how} as {fast}{by} (95 %: {:.2} … {:.2}), although {fast} was ahead at first",
            value.recip(),
            high.recip(),
            low.recip()
        ),
        Verdict::CannotTell => format!(
            "{fast} and {slow}: no difference can be told ({value:.2} times as {how}{by}, 95 %: {low:.2} … {high:.2}; up \
             to {:.0} % count as none)",
            MARGIN * 100.0
        ),
    })
}

/// The contenders that are surely slower than the first by more than the part `margin`: with the whole interval.
#[must_use]
pub fn regressions(standings: &[Standing], margin: f64) -> Vec<&Standing> {
    let others = standings.iter().skip(1);
    let verdict = |other: &Standing| Verdict::of(other.times_first.as_ref(), margin);
    others.filter(|other| verdict(other) == Verdict::Slower).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The standings of contenders that the run does not describe.
    pub(crate) fn judged(samples: &[Sample]) -> Vec<Standing> {
        of(&Run { samples: samples.to_vec(), ..Run::default() }, "run")
    }

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
        let standings = judged(&all);
        assert!((standings[1].times_first.unwrap().value - 2.0).abs() < 0.02);
        let said = sentences(&standings);
        assert_eq!(said.len(), 1);
        assert!(said[0].starts_with("fast is 2.00 times as fast as slow (95 %: "), "{said:?}");
    }

    #[test]
    fn a_wrong_answer_never_wins() {
        let all =
            [samples("slow", &SLOW), samples("fast", &FAST), samples("other", &SLOW)].concat();
        let said = sentences(&of(
            &Run { samples: all, failures: vec![failure("fast")], ..Run::default() },
            "run",
        ));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("no difference can be told") && !said[0].contains("fast and"));
    }

    #[test]
    fn the_fastest_of_many_is_judged_by_rounds_that_did_not_choose_it() {
        // Lucky in the first three rounds of nine, and as fast as the others afterwards.
        let lucky = [0.5, 0.5, 0.5, 1.0, 1.01, 0.99, 1.0, 1.0, 1.0];
        let steady = [1.0, 1.01, 0.99, 1.0, 1.0, 1.0, 1.01, 0.99, 1.0];
        let all = [samples("a", &steady), samples("b", &steady), samples("lucky", &lucky)].concat();
        let said = sentences(&judged(&all));
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[0].starts_with("lucky and a: no difference can be told"), "{said:?}");
        assert!(said[1].starts_with("lucky and b: no difference can be told"), "{said:?}");
        assert_eq!(said[2], "lucky was chosen by the first 3 rounds, and is judged by the others");
        let six = [samples("a", &SLOW), samples("b", &SLOW), samples("fast", &FAST)].concat();
        let said = sentences(&judged(&six));
        assert_eq!(said[2], "fast was chosen by the first round, and is judged by the others");
        let late = [0.9, 0.9, 0.9, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0];
        let all = [samples("a", &steady), samples("b", &steady), samples("late", &late)].concat();
        let said = sentences(&judged(&all));
        assert!(said[0].starts_with("a is 2.00 times as fast as late"), "{said:?}");
    }

    #[test]
    fn small_differences_are_none_by_the_margin_of_tables_and_pages() {
        let faster = |part: f64| FAST.map(|seconds| seconds / (1.0 + part));
        let said = |part: f64| {
            let all = [samples("a", &FAST), samples("b", &faster(part))].concat();
            sentences(&judged(&all)).remove(0)
        };
        assert!(said(MARGIN - 0.01).contains("no difference can be told"));
        assert!(said(MARGIN + 0.03).starts_with("b is 1.08 times as fast as a"), "{}", said(0.08));
    }

    #[test]
    fn few_rounds_are_no_proof() {
        let all = [samples("slow", &SLOW[..3]), samples("fast", &FAST[..3])].concat();
        let standings = judged(&all);
        assert!(sentences(&standings)[0].contains("3 rounds, too few"));
        let turned = [samples("fast", &FAST[..3]), samples("slow", &SLOW[..3])].concat();
        assert!(regressions(&judged(&turned), 0.05).is_empty());
    }

    #[test]
    fn only_a_sure_regression_is_one() {
        let slower = |factor: f64| {
            let slow: Vec<f64> = FAST.iter().map(|seconds| seconds * factor).collect();
            let all = [samples("first", &FAST), samples("second", &slow)].concat();
            regressions(&judged(&all), 0.05).len()
        };
        assert_eq!(slower(1.1), 1);
        assert_eq!(slower(1.04), 0, "within the margin");
        assert_eq!(slower(0.5), 0, "faster is no regression");
        let wild = [0.6, 2.4, 1.1, 0.9, 1.8, 0.7];
        let all = [samples("first", &FAST), samples("second", &wild)].concat();
        assert!(regressions(&judged(&all), 0.05).is_empty(), "nobody can tell");
    }

    #[test]
    fn other_suites_of_the_run_are_left_alone() {
        let run = Run { samples: samples("a", &FAST), ..Run::default() };
        assert!(of(&run, "another").is_empty());
    }
}
