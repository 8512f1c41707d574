//! The figures of a run, case by case: medians with intervals, and ratios to the baselines.

use serde::Serialize;

use crate::cases::{self, CaseRun, SuiteRun};
use crate::model::{Described, Measured, Printed, Run, Sample};
use crate::stats::{self, Estimate, Verdict};
use crate::suite::{self, Quantity, THROUGHPUT};

/// Times a second, where the bytes are not known.
const RATE: Quantity = Quantity {
    caption: "Times a second",
    unit: "1/s",
    of: |measured| measured.wall_s.map(f64::recip),
    less_is_better: false,
};

/// The figure by which a case is compared with others: the first one that its command prints, or
/// else the first one of its suite, or else its throughput, or how often a second it could run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Measure<'d> {
    Printed(&'d Printed),
    Quantity(Quantity),
}

impl<'d> Measure<'d> {
    /// The first of these figures that the samples of the case have.
    pub fn of<'s>(
        suite: &str,
        described: Option<&'d Described>,
        samples: impl IntoIterator<Item = &'s Sample> + Clone,
    ) -> Self {
        let printed = described.and_then(|described| described.printed.first()).map(Self::Printed);
        let first = suite::named(suite).and_then(|suite| suite.quantities.first());
        let known = [first.copied(), Some(THROUGHPUT)].into_iter().flatten().map(Self::Quantity);
        let has = |measure: &Self| {
            samples.clone().into_iter().any(|sample| measure.value(&sample.measured).is_some())
        };
        printed.into_iter().chain(known).find(has).unwrap_or(Self::Quantity(RATE))
    }

    pub fn value(&self, measured: &Measured) -> Option<f64> {
        let value = match self {
            Self::Printed(printed) => printed.of(measured),
            Self::Quantity(quantity) => (quantity.of)(measured),
        };
        value.filter(|value| value.is_finite())
    }

    pub fn caption(&self) -> String {
        match self {
            Self::Printed(Printed { name, less_is_better: true, .. }) => {
                format!("{name}, less is better")
            }
            Self::Printed(printed) => printed.name.clone(),
            Self::Quantity(quantity) => quantity.caption.to_owned(),
        }
    }

    pub fn unit(&self) -> &'d str {
        match self {
            Self::Printed(printed) => &printed.unit,
            Self::Quantity(quantity) => quantity.unit,
        }
    }

    pub fn less_is_better(&self) -> bool {
        match self {
            Self::Printed(printed) => printed.less_is_better,
            Self::Quantity(quantity) => quantity.less_is_better,
        }
    }

    /// Larger is better, whichever way the figure counts.
    pub fn score(&self, value: f64) -> f64 {
        if self.less_is_better() { value.recip() } else { value }
    }

    /// How many times as good as `to` the samples `of` are, round by round, and whether that is a
    /// measurable difference: one rule for tables and pages.
    pub fn paired(&self, of: &[&Sample], to: &[&Sample]) -> Option<(Estimate, Verdict)> {
        let scores = |samples: &[&Sample]| -> Vec<(u32, f64)> {
            let one =
                |sample: &&Sample| Some((sample.round, self.score(self.value(&sample.measured)?)));
            samples.iter().filter_map(one).collect()
        };
        let rounds = pairs(&scores(of), &scores(to));
        let ratio = stats::paired_ratio(&rounds)?;
        let verdict = Verdict::of(Some(&ratio), stats::MARGIN);
        Some((ratio, verdict))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    pub suite: String,
    pub case: String,
    /// `GiB/s`, the unit of the figure that the command prints, or `1/s` where the bytes are not
    /// known.
    pub unit: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub less_is_better: bool,
    pub samples: usize,
    pub median: Estimate,
    /// The baseline of the case, as the run says.
    pub baseline: Option<String>,
    /// How many times as good as the baseline, from samples of the same rounds: 2 is twice the
    /// throughput, or half the latency.
    pub times: Option<Estimate>,
}

/// The figures of every case that has some, suite by suite.
pub fn of(run: &Run) -> Vec<Figure> {
    let figure = |suite: &SuiteRun<'_>, case: &CaseRun<'_>| {
        let (measure, values) = (case.measure(), case.values());
        Some(Figure {
            suite: suite.name.to_owned(),
            case: case.name.to_owned(),
            unit: measure.unit().to_owned(),
            less_is_better: measure.less_is_better(),
            samples: values.len(),
            median: stats::median(&values)?,
            times: (case.baseline(suite))
                .and_then(|baseline| case.paired(baseline, |_| true))
                .map(|(times, _)| times),
            baseline: case.described.baseline.clone(),
        })
    };
    let of_suite = |suite: &SuiteRun<'_>| -> Vec<Figure> {
        suite.cases.iter().filter_map(|case| figure(suite, case)).collect()
    };
    cases::suites(run).iter().flat_map(of_suite).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn run(printed: &Printed, figures: &[(&str, f64)]) -> Run {
        let described = |case: &str| {
            let described = Described::new("relay/pingpong", case).against("first");
            Described { printed: vec![printed.clone()], ..described }
        };
        let rounds = |(case, value): &(&str, f64)| -> Vec<Sample> {
            let measured = Measured { wall_s: Some(1.0), ..Measured::default() };
            let measured = measured.with(&printed.fact(), *value);
            let sample = |round| Sample::new("relay/pingpong", case, round, measured.clone());
            (1..=5).map(sample).collect()
        };
        Run {
            cases: figures.iter().map(|(case, _)| described(case)).collect(),
            samples: figures.iter().flat_map(rounds).collect(),
            ..Run::default()
        }
    }

    #[test]
    fn half_the_latency_is_twice_as_good() {
        for (less_is_better, times) in [(true, 2.0), (false, 0.5)] {
            let printed = Printed { name: "median_us".into(), unit: "µs".into(), less_is_better };
            let found = of(&run(&printed, &[("first", 40.0), ("second", 20.0)]));
            assert_eq!((found[1].median.value, found[1].unit.as_str()), (20.0, "µs"));
            assert_eq!(found[1].times.map(|found| found.value), Some(times));
            assert_eq!(found[1].less_is_better, less_is_better);
        }
    }
}
