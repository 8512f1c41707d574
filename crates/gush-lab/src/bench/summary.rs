//! The result of the samples: how fast each contender is, compared with the first and the fastest.

use gush_text::plural;
use std::fmt;

use serde_json::Value;

use super::counters::{COUNTERS, Counter};
use crate::cases::{self, distinct};
use crate::figures;
use crate::model::{Described, Failure, Measured, Printed, Run, Sample};
use crate::stats::{self, Estimate, Interval, MARGIN, Verdict};

#[derive(Clone, Debug)]
pub struct Summary {
    pub label: String,
    /// The time.
    pub seconds: Figure,
    pub mean_s: f64,
    /// The standard deviation; none of a single sample.
    pub deviation_s: Option<f64>,
    pub range_s: [f64; 2],
    /// The median of the processor seconds, user space and kernel together: the kernel's split of
    /// them means little below some 20 ms.
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
    pub figures: Vec<Figure>,
    /// The mean of the processor seconds in user space.
    pub mean_user_s: f64,
    /// The mean of the processor seconds in the kernel.
    pub mean_system_s: f64,
    /// The largest memory of each run in bytes; nothing unless all are known.
    pub peaks_bytes: Vec<u64>,
    /// Every end, in the order of the rounds.
    pub ends: Vec<ProcessEnd>,
    /// The processor's counters: of each its name, its heading, and the counts of all runs.
    pub counts: Vec<(&'static str, &'static str, Vec<f64>)>,
    pub parameters: Vec<(String, String)>,
    /// Why the contender was left out, if a round failed.
    pub failure: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    Status(i64),
    Signal(i64),
}

impl ProcessEnd {
    fn of(measured: &Measured) -> Self {
        let fact = |name: &str| measured.facts.get(name).and_then(Value::as_i64);
        fact("signal").map_or_else(|| Self::Status(fact("status").unwrap_or(0)), Self::Signal)
    }

    /// The status as shells count: 128 and the number of the signal, after an end by a signal.
    pub(super) fn shell_status(self) -> i64 {
        match self {
            Self::Status(status) => status,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

impl fmt::Display for ProcessEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "status {status}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// A figure by which contenders can be compared: the time, or one that the commands print.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The name, the unit, and which way is better; the time has no name.
    pub printed: Printed,
    pub rounds: Vec<(u32, f64)>,
    pub median: Estimate,
    /// How many times as good as the first contender, from samples of the same rounds; none of the
    /// first itself.
    pub times_first: Option<Estimate>,
}

impl Figure {
    fn of(
        printed: Printed,
        samples: &[&Sample],
        value: impl Fn(&Measured) -> Option<f64>,
    ) -> Option<Self> {
        let round = |sample: &&Sample| Some((sample.round, value(&sample.measured)?));
        let rounds: Vec<(u32, f64)> = samples.iter().filter_map(round).collect();
        let values: Vec<f64> = rounds.iter().map(|&(_, value)| value).collect();
        Some(Self { printed, rounds, median: stats::median(&values)?, times_first: None })
    }

    /// The costs in the wanted rounds: the figure turned so that less is better.
    fn costs(&self, is_wanted: impl Fn(u32) -> bool) -> Vec<(u32, f64)> {
        let cost = |value: f64| if self.printed.less_is_better { value } else { value.recip() };
        let wanted = self.rounds.iter().filter(|(round, _)| is_wanted(*round));
        wanted.map(|&(round, value)| (round, cost(value))).collect()
    }

    /// The median cost in the wanted rounds; more than any without a round.
    pub(super) fn cost(&self, is_wanted: impl Fn(u32) -> bool) -> f64 {
        let costs = self.costs(is_wanted).into_iter();
        let costs: Vec<f64> = costs.map(|(_, cost)| cost).collect();
        stats::middle(&costs).unwrap_or(f64::INFINITY)
    }

    /// The costs of both in each wanted round that both have: the other's first.
    pub(super) fn pairs(&self, other: &Self, is_wanted: impl Fn(u32) -> bool) -> Vec<(f64, f64)> {
        figures::pairs(&other.costs(&is_wanted), &self.costs(&is_wanted))
    }

    fn set_times_first(&mut self, first: &Self) {
        self.times_first = stats::paired_ratio(&self.pairs(first, |_| true));
    }

    /// The words for a comparison: `fast` and nothing, or `good` and by which figure.
    pub(super) fn words(&self) -> (&'static str, String) {
        match self.printed.name.as_str() {
            "" => ("fast", String::new()),
            name => ("good", format!(" by {name}")),
        }
    }
}

impl Summary {
    /// The figure by which contenders are compared: the first that the commands print, or else the
    /// time.
    pub fn compared(&self) -> &Figure {
        self.figures.first().unwrap_or(&self.seconds)
    }

    /// The figure of this name, or else the one that is compared; none where there is no such
    /// figure.
    pub(super) fn figure(&self, name: Option<&str>) -> Option<&Figure> {
        let Some(name) = name else { return Some(self.compared()) };
        self.figures.iter().find(|one| one.printed.name == name)
    }
}

/// The summaries of a suite's contenders that have samples, in the order in which the run describes
/// them.
pub fn of(run: &Run, suite: &str) -> Vec<Summary> {
    let taken = cases::all(run, |sample| sample.suite == suite);
    let cases = taken.iter().flat_map(|suite| &suite.cases);
    let mut summaries: Vec<Summary> = cases
        .filter_map(|case| {
            summary(&case.described, &case.samples, run.failure_of(suite, case.name))
        })
        .collect();
    if let Some((first, others)) = summaries.split_first_mut() {
        for other in others {
            other.seconds.set_times_first(&first.seconds);
            for figure in &mut other.figures {
                if let Some(own) = first.figure(Some(&figure.printed.name)) {
                    figure.set_times_first(own);
                }
            }
        }
    }
    summaries
}

fn summary(
    described: &Described,
    samples: &[&Sample],
    failure: Option<&Failure>,
) -> Option<Summary> {
    let time = Printed { name: String::new(), unit: "s".to_owned(), less_is_better: true };
    let time = Figure::of(time, samples, |measured| measured.wall_s)?;
    let seconds: Vec<f64> = time.rounds.iter().map(|&(_, seconds)| seconds).collect();
    let figure = |one: &Printed| Figure::of(one.clone(), samples, |measured| one.of(measured));
    let mean_s = seconds.iter().sum::<f64>() / seconds.len() as f64;
    let squares: f64 = seconds.iter().map(|second| (second - mean_s).powi(2)).sum();
    let median = |of: fn(&Measured) -> Option<f64>| {
        let values: Vec<f64> = samples.iter().filter_map(|sample| of(&sample.measured)).collect();
        stats::middle(&values)
    };
    let number =
        |sample: &&Sample, name: &str| sample.measured.facts.get(name).and_then(Value::as_u64);
    let largest = |name: &str| samples.iter().filter_map(|sample| number(sample, name)).max();
    let mean = |of: fn(&Measured) -> Option<f64>| {
        samples.iter().filter_map(|sample| of(&sample.measured)).sum::<f64>() / samples.len() as f64
    };
    let peaks: Option<Vec<u64>> =
        samples.iter().map(|sample| number(sample, "peak_bytes")).collect();
    let newest = samples.last()?;
    let counts = |Counter { name, heading, .. }: &Counter| {
        let count = |sample: &&Sample| sample.measured.facts.get(*name)?.as_f64();
        (*name, *heading, samples.iter().filter_map(count).collect::<Vec<f64>>())
    };
    let counts = COUNTERS.iter().map(counts).filter(|(.., counts)| !counts.is_empty());
    let parameter = |(name, value): (&String, &Value)| {
        Some((name.strip_prefix("parameter ")?.to_owned(), value.as_str()?.to_owned()))
    };
    Some(Summary {
        label: described.case.clone(),
        seconds: time,
        mean_s,
        deviation_s: (seconds.len() > 1).then(|| (squares / (seconds.len() - 1) as f64).sqrt()),
        range_s: stats::range(&seconds)?,
        user_s: median(|measured| measured.user_s).unwrap_or(0.0),
        system_s: median(|measured| measured.system_s).unwrap_or(0.0),
        processor_s: median(|measured| Some(measured.user_s? + measured.system_s?)).unwrap_or(0.0),
        peak_bytes: largest("peak_bytes"),
        peak_at_most_bytes: largest("peak_at_most_bytes"),
        gib_per_s: median(|measured| measured.gib_per_s),
        figures: described.printed.iter().filter_map(figure).collect(),
        mean_user_s: mean(|measured| measured.user_s),
        mean_system_s: mean(|measured| measured.system_s),
        peaks_bytes: peaks.unwrap_or_default(),
        ends: samples.iter().map(|sample| ProcessEnd::of(&sample.measured)).collect(),
        counts: counts.collect(),
        parameters: newest.measured.facts.iter().filter_map(parameter).collect(),
        failure: failure.map(|failure| failure.error.clone()),
    })
}

/// The fastest compared with each of the others, as sentences, the fastest of these first. A
/// contender that failed, or whose output is wrong, is never the fastest. The fastest of three or
/// more is chosen by the first rounds, and judged by the others.
pub fn sentences(summaries: &[Summary]) -> Vec<String> {
    let unfailed: Vec<&Summary> = summaries.iter().filter(|one| one.failure.is_none()).collect();
    let rounds = unfailed.iter().map(|one| one.seconds.rounds.len()).min().unwrap_or(0);
    // With two contenders there is no choice to make.
    let choosing = stats::choosing_rounds(rounds).filter(|_| unfailed.len() > 2);
    let last = choosing.and_then(|choosing| unfailed[0].seconds.rounds.get(choosing - 1));
    let last = last.map(|&(round, _)| round);
    let sort = |all: &mut Vec<&Summary>, is_wanted: &dyn Fn(u32) -> bool| {
        let cost = |one: &Summary| one.compared().cost(is_wanted);
        all.sort_by(|one, other| cost(one).total_cmp(&cost(other)));
    };
    let mut others = unfailed;
    sort(&mut others, &|round| last.is_none_or(|last| round <= last));
    if others.is_empty() {
        return Vec::new();
    }
    let fastest = others.remove(0);
    sort(&mut others, &|_| true);
    let last_choosing = last.unwrap_or(0);
    let said = others.iter().filter_map(|other| sentence(fastest, other, last_choosing));
    let unsuccessful = summaries.iter().filter_map(unsuccessful);
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

/// Reports the runs that failed, and were measured because failures are to be ignored.
fn unsuccessful(one: &Summary) -> Option<String> {
    let failed = || one.ends.iter().filter(|end| **end != ProcessEnd::Status(0));
    let (label, runs, ends) =
        (&one.label, one.ends.len(), distinct(failed().map(ProcessEnd::to_string)));
    let failed = failed().count();
    (failed > 0)
        .then(|| format!("{label} failed in {failed} of {runs} rounds: {}", ends.join(", ")))
}

fn sentence(fastest: &Summary, other: &Summary, after: u32) -> Option<String> {
    let (how, by) = fastest.compared().words();
    let pairs = fastest.compared().pairs(other.compared(), |round| round > after);
    let ratio = stats::paired_ratio(&pairs)?;
    let Estimate { value, interval } = ratio;
    let (fast, slow) = (&fastest.label, &other.label);
    let Some(Interval { low, high }) = interval else {
        return Some(format!(
            "{fast} was {value:.2} times as {how} as {slow}{by} in {}, too few to be sure of anything",
            plural(pairs.len(), "round")
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
            "{fast} and {slow}: no measurable difference ({value:.2} times as {how}{by}, 95 %: {low:.2} … {high:.2}; up \
             to {:.0} % count as none)",
            MARGIN * 100.0
        ),
    })
}

/// The contenders that are surely slower than the first by more than the part `margin`: with the
/// whole interval.
pub fn regressions(summaries: &[Summary], margin: f64) -> Vec<&Summary> {
    let others = summaries.iter().skip(1);
    let verdict = |other: &Summary| Verdict::of(other.compared().times_first.as_ref(), margin);
    others.filter(|other| verdict(other) == Verdict::Slower).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The summaries of contenders that the run does not describe.
    pub(crate) fn judged(samples: &[Sample]) -> Vec<Summary> {
        of(&Run { samples: samples.to_vec(), ..Run::default() }, "run")
    }

    pub(crate) fn samples(case: &str, seconds: &[f64]) -> Vec<Sample> {
        let sample = |(round, &seconds): (u32, &f64)| {
            let measured = Measured { wall_s: Some(seconds), ..Measured::default() };
            Sample::new("run", case, round, measured)
        };
        (1..).zip(seconds).map(sample).collect()
    }

    fn failure(case: &str) -> Failure {
        Failure { suite: "run".into(), case: case.into(), error: "wrong output".into() }
    }

    const SLOW: [f64; 6] = [2.0, 2.02, 1.98, 2.0, 2.01, 1.99];
    const FAST: [f64; 6] = [1.0, 1.01, 0.99, 1.0, 1.01, 0.99];

    #[test]
    fn means_are_no_medians_and_memory_is_that_of_every_run_or_none() {
        let mut all = samples("a", &[1.0; 4]);
        for (place, sample) in all.iter_mut().enumerate() {
            let far = if place == 2 { 4.0 } else { 0.0 };
            (sample.measured.user_s, sample.measured.system_s) = (Some(far), Some(2.0 * far));
            sample.measured.facts.insert("peak_bytes".to_owned(), (place + 1).into());
        }
        all[1].measured.facts.insert("signal".to_owned(), 9.into());
        all[3].measured.facts.insert("status".to_owned(), 137.into());
        let one = &judged(&all)[0];
        assert_eq!((one.user_s, one.mean_user_s), (0.0, 1.0));
        assert_eq!((one.system_s, one.mean_system_s), (0.0, 2.0));
        assert_eq!(one.peaks_bytes, [1, 2, 3, 4]);
        let (well, killed) = (ProcessEnd::Status(0), ProcessEnd::Signal(9));
        assert_eq!(one.ends, [well, killed, well, ProcessEnd::Status(137)]);
        assert_eq!([killed, ProcessEnd::Status(137)].map(ProcessEnd::shell_status), [137, 137]);
        all[0].measured.facts.remove("peak_bytes");
        assert_eq!(judged(&all)[0].peaks_bytes, Vec::<u64>::new());
    }

    #[test]
    fn the_fastest_is_named_with_its_interval() {
        let all = [samples("slow", &SLOW), samples("fast", &FAST)].concat();
        let summaries = judged(&all);
        assert!((summaries[1].seconds.times_first.unwrap().value - 2.0).abs() < 0.02);
        let said = sentences(&summaries);
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
        assert!(said[0].contains("no measurable difference") && !said[0].contains("fast and"));
    }

    #[test]
    fn the_fastest_of_many_is_judged_by_rounds_that_did_not_choose_it() {
        // Lucky in the first three rounds of nine, and as fast as the others afterwards.
        let lucky = [0.5, 0.5, 0.5, 1.0, 1.01, 0.99, 1.0, 1.0, 1.0];
        let steady = [1.0, 1.01, 0.99, 1.0, 1.0, 1.0, 1.01, 0.99, 1.0];
        let all = [samples("a", &steady), samples("b", &steady), samples("lucky", &lucky)].concat();
        let said = sentences(&judged(&all));
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[0].starts_with("lucky and a: no measurable difference"), "{said:?}");
        assert!(said[1].starts_with("lucky and b: no measurable difference"), "{said:?}");
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
        assert!(said(MARGIN - 0.01).contains("no measurable difference"));
        assert!(said(MARGIN + 0.03).starts_with("b is 1.08 times as fast as a"), "{}", said(0.08));
    }

    #[test]
    fn few_rounds_are_no_proof() {
        let all = [samples("slow", &SLOW[..3]), samples("fast", &FAST[..3])].concat();
        let summaries = judged(&all);
        assert!(sentences(&summaries)[0].contains("3 rounds, too few"));
        let turned = [samples("fast", &FAST[..3]), samples("slow", &SLOW[..3])].concat();
        assert!(regressions(&judged(&turned), 0.05).is_empty());
    }

    #[test]
    fn only_a_sure_regression_is_one() {
        let slower_by = |factor: f64, margin: f64| {
            let slow: Vec<f64> = FAST.iter().map(|seconds| seconds * factor).collect();
            let all = [samples("first", &FAST), samples("second", &slow)].concat();
            regressions(&judged(&all), margin).len()
        };
        let slower = |factor: f64| slower_by(factor, 0.05);
        assert_eq!(
            [0.02, 0.2].map(|margin| slower_by(1.1, margin)),
            [1, 0],
            "the margin asked for"
        );
        assert_eq!(slower(1.1), 1);
        assert_eq!(slower(1.04), 0, "within the margin");
        assert_eq!(slower(0.5), 0, "faster is no regression");
        let wild = [0.6, 2.4, 1.1, 0.9, 1.8, 0.7];
        let all = [samples("first", &FAST), samples("second", &wild)].concat();
        assert!(regressions(&judged(&all), 0.05).is_empty(), "the interval is too wide");
    }

    #[test]
    fn other_suites_of_the_run_are_left_alone() {
        let run = Run { samples: samples("a", &FAST), ..Run::default() };
        assert!(of(&run, "another").is_empty());
    }
}
