//! A run by suite and case, each with its description and samples: the view of tables, pages,
//! `history` and `compare`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::compare::parameters_that_differ;
use crate::count::{self, Calls};
use crate::figures::Measure;
use crate::model::{Described, Failure, Measured, Run, Sample};
use crate::stats::{self, Estimate, Verdict};
use crate::suite;

/// The cases with samples, without those that failed, in the order of the run's descriptions.
pub(crate) fn suites(run: &Run) -> Vec<SuiteRun<'_>> {
    // A case that failed later is left out: its earlier samples may be of the same fault.
    all(run, |sample| run.failure_of(&sample.suite, &sample.case).is_none())
}

/// The cases of the samples that are wanted, in the order of the run's descriptions.
pub(crate) fn all(run: &Run, is_wanted: impl Fn(&Sample) -> bool) -> Vec<SuiteRun<'_>> {
    let mut suites: Vec<SuiteRun<'_>> = Vec::new();
    let mut places: BTreeMap<(&str, &str), (usize, usize)> = BTreeMap::new();
    for sample in run.samples.iter().filter(|sample| is_wanted(sample)) {
        let key = (sample.suite.as_str(), sample.case.as_str());
        let &mut (suite, case) = places.entry(key).or_insert_with(|| {
            let suite = suites.iter().position(|suite| suite.name == sample.suite);
            let suite = suite.unwrap_or_else(|| {
                suites.push(SuiteRun { name: &sample.suite, run, cases: Vec::new() });
                suites.len() - 1
            });
            suites[suite].cases.push(CaseRun::new(run, sample));
            (suite, suites[suite].cases.len() - 1)
        });
        suites[suite].cases[case].samples.push(sample);
    }
    // Samples come in a shuffled order.
    for SuiteRun { name, cases, .. } in &mut suites {
        run.sort_as_described(cases, |case| (name, case.name));
    }
    run.sort_as_described(&mut suites, |suite| (suite.name, suite.cases[0].name));
    suites
}

/// Ratios and logarithms need positive numbers.
fn drawable(samples: impl IntoIterator<Item = f64>) -> Vec<f64> {
    samples.into_iter().filter(|sample| sample.is_finite() && *sample > 0.0).collect()
}

/// Each value once, in the order in which they first come.
pub(crate) fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut all = Vec::new();
    for value in values {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

/// The cases of one suite in one run.
#[derive(Debug)]
pub(crate) struct SuiteRun<'a> {
    pub name: &'a str,
    pub run: &'a Run,
    pub cases: Vec<CaseRun<'a>>,
}

impl<'a> SuiteRun<'a> {
    pub fn case(&self, name: &str) -> Option<&CaseRun<'a>> {
        self.cases.iter().find(|case| case.name == name)
    }

    /// The case that measured the same as `like`, with figures.
    pub fn like(&self, like: &CaseRun<'_>) -> Option<&CaseRun<'a>> {
        let unit = |case: &CaseRun<'_>| case.measure().unit().to_owned();
        self.case(like.name)
            .filter(|own| parameters_that_differ(own, like).is_empty() && unit(own) == unit(like))
            .filter(|own| own.compared().is_some())
    }

    /// The unit of the figures that are compared.
    pub fn unit(&self) -> &str {
        self.cases.first().map_or("", |case| case.measure().unit())
    }

    /// The cases that failed and were left out.
    pub fn failures(&self) -> impl Iterator<Item = &'a Failure> {
        let name = self.name;
        self.run.failures.iter().filter(move |failure| failure.suite == name)
    }

    /// Can figures be followed from run to run? A grid has too many cells.
    pub fn is_followed(&self) -> bool {
        let has_section = suite::named(self.name).is_some_and(|known| known.section.is_some());
        let prints = || self.cases.iter().any(|case| !case.described.printed.is_empty());
        !has_section && (self.has_speeds() || prints())
    }

    /// Has any case a throughput?
    pub fn has_speeds(&self) -> bool {
        self.cases.iter().any(|case| case.samples.iter().any(|s| s.measured.gib_per_s.is_some()))
    }
}

/// The samples of one case in one run.
#[derive(Debug)]
pub(crate) struct CaseRun<'a> {
    pub name: &'a str,
    pub described: Described,
    pub samples: Vec<&'a Sample>,
    /// The machine's id.
    pub machine: &'a str,
}

impl<'a> CaseRun<'a> {
    fn new(run: &'a Run, sample: &'a Sample) -> Self {
        let Sample { suite, case, .. } = sample;
        let known = run.cases.iter().find(|known| known.suite == *suite && known.case == *case);
        Self {
            name: case,
            described: known.cloned().unwrap_or_else(|| Described::new(suite, case)),
            samples: Vec::new(),
            machine: &run.machine.id,
        }
    }

    /// The baseline of this case, and the ratio of speeds, if the difference is sure.
    pub fn against<'s>(&self, suite: &'s SuiteRun<'a>) -> Option<(&'s Self, Option<Estimate>)> {
        let baseline = self.baseline(suite)?;
        let (times, verdict) = self.paired(baseline, |_| true)?;
        Some((baseline, Some(times).filter(|_| verdict != Verdict::CannotTell)))
    }

    /// The case that this one is measured against.
    pub fn baseline<'s>(&self, suite: &'s SuiteRun<'a>) -> Option<&'s Self> {
        suite.case(self.described.baseline.as_deref()?)
    }

    /// The ratio of speeds to `baseline` in the wanted rounds, and the verdict.
    pub fn paired(
        &self,
        baseline: &Self,
        is_wanted: impl Fn(u32) -> bool,
    ) -> Option<(Estimate, Verdict)> {
        let of = |samples: &[&'a Sample]| -> Vec<&'a Sample> {
            samples.iter().copied().filter(|sample| is_wanted(sample.round)).collect()
        };
        let (own, other) = (of(&self.samples), of(&baseline.samples));
        self.measure().paired(&own, &other)
    }

    /// The figure by which the case is compared.
    pub fn measure(&self) -> Measure<'_> {
        Measure::of(&self.described.suite, Some(&self.described), self.samples.iter().copied())
    }

    /// The figure by which the case is compared, in its own unit.
    pub fn compared(&self) -> Option<Estimate> {
        stats::median(&drawable(self.values()))
    }

    /// How many times as good as `other`, of another run; rounds of different runs are not paired.
    pub fn times(&self, other: &Self) -> Option<Estimate> {
        let scores = |case: &Self| -> Vec<f64> {
            let measure = case.measure();
            case.values().into_iter().map(|value| measure.score(value)).collect()
        };
        stats::ratio(&scores(self), &scores(other))
    }

    /// The figures by which the case is compared, in the order in which they were taken.
    pub fn values(&self) -> Vec<f64> {
        let measure = self.measure();
        self.samples.iter().filter_map(|sample| measure.value(&sample.measured)).collect()
    }

    pub fn estimate(&self, of: impl Fn(&Measured) -> Option<f64>) -> Option<Estimate> {
        stats::median(&self.drawable(of))
    }

    /// A figure of each sample that has it, as far as a scale can show it.
    pub fn drawable(&self, of: impl Fn(&Measured) -> Option<f64>) -> Vec<f64> {
        drawable(self.samples.iter().filter_map(|sample| of(&sample.measured)))
    }

    /// The name without the place on the axis.
    pub fn variant(&self) -> &'a str {
        self.name.rsplit_once('@').map_or(self.name, |(name, _)| name)
    }

    /// System calls by name.
    pub fn calls(&self, fact: &str) -> Option<Calls> {
        count::of_fact(self.fact(fact)?)
    }

    /// The fact as the newest sample has it.
    pub fn fact(&self, name: &str) -> Option<&'a Value> {
        self.samples.iter().rev().find_map(|sample| sample.measured.facts.get(name))
    }

    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.fact(name)?.as_str()
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        self.fact(name)?.as_u64()
    }

    pub fn is(&self, name: &str) -> Option<bool> {
        self.fact(name)?.as_bool()
    }
}
