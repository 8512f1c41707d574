//! Runs as the sections look at them: by machine, by suite, by case.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::bars::Limit;
use super::estimate::Estimate;
use crate::figures::Measure;
use crate::model::{Described, Failure, Machine, Measured, Run, Sample};
use crate::stats;
use crate::suite::{self, memory};

/// All runs, oldest first.
#[derive(Debug)]
pub struct Data<'a> {
    pub runs: Vec<&'a Run>,
    /// Of all runs, in their order.
    suites: Vec<Suite<'a>>,
}

impl<'a> Data<'a> {
    /// Takes each run once, however often given.
    pub fn of(runs: &'a [Run]) -> Self {
        // A run may come twice: from the store, and in a file that was given.
        let mut seen = BTreeSet::new();
        let mut runs: Vec<&Run> = runs.iter().filter(|run| seen.insert(&run.id)).collect();
        runs.sort_by_key(|run| (run.started, &run.id));
        let suites = runs.iter().flat_map(|run| suites(run)).collect();
        Self { runs, suites }
    }

    /// The machine that the page is about: the newest run's that measured anything.
    pub fn machine(&self) -> Option<&'a Machine> {
        // A run that only failed tells little about the machine that the page is for.
        let measured = self.runs.iter().rev().find(|run| !run.samples.is_empty());
        measured.or(self.runs.last()).map(|run| &run.machine)
    }

    /// The runs of this page's machine.
    pub fn own(&self) -> impl DoubleEndedIterator<Item = &'a Run> + '_ {
        let id = self.machine().map(|machine| &machine.id);
        self.runs.iter().copied().filter(move |run| Some(&run.machine.id) == id)
    }

    /// Every machine once, the page's own first, then in the order of their newest runs.
    pub fn machines(&self) -> Vec<&'a Machine> {
        let mut machines: Vec<&Machine> = self.machine().into_iter().collect();
        for run in self.runs.iter().rev() {
            if machines.iter().all(|machine| machine.id != run.machine.id) {
                machines.push(&run.machine);
            }
        }
        machines
    }

    /// The names of all suites, in the order in which they first appear.
    pub fn suites(&self) -> Vec<&'a str> {
        let mut names = Vec::new();
        for suite in &self.suites {
            if !names.contains(&suite.name) {
                names.push(suite.name);
            }
        }
        names
    }

    /// A suite from the newest run of this page's machine.
    pub fn suite(&self, name: &str) -> Option<&Suite<'a>> {
        let machine = self.machine()?;
        self.suites
            .iter()
            .rev()
            // From the end, since the latest figures are the ones that hold.
            .find(|suite| suite.name == name && suite.run.machine.id == machine.id)
    }

    /// One processor's rate of reading memory.
    pub fn memory_read(&self) -> Option<Limit> {
        let is_it = |case: &&Case<'_>| {
            case.text("operation") == Some("read") && case.number("processors") == Some(1)
        };
        let speed = self.suite(memory::SUITE.name)?.cases.iter().find(is_it)?.speed()?.median;
        Some(Limit { value: speed, text: "memory, read by one processor".to_owned() })
    }

    /// A suite in each run of `machine` with that suite, oldest first.
    pub fn every<'s>(
        &'s self,
        machine: &'s Machine,
        name: &'s str,
    ) -> impl DoubleEndedIterator<Item = &'s Suite<'a>> {
        self.suites
            .iter()
            .filter(move |suite| suite.name == name && suite.run.machine.id == machine.id)
    }
}

fn suites(run: &Run) -> Vec<Suite<'_>> {
    let mut suites: Vec<Suite<'_>> = Vec::new();
    let mut places: BTreeMap<(&str, &str), (usize, usize)> = BTreeMap::new();
    // A case that failed later is out altogether: its earlier samples may be of the same fault.
    let is_in = |sample: &&Sample| run.failure_of(&sample.suite, &sample.case).is_none();
    for sample in run.samples.iter().filter(is_in) {
        let key = (sample.suite.as_str(), sample.case.as_str());
        let &mut (suite, case) = places.entry(key).or_insert_with(|| {
            let suite = suites.iter().position(|suite| suite.name == sample.suite);
            let suite = suite.unwrap_or_else(|| {
                suites.push(Suite { name: &sample.suite, run, cases: Vec::new() });
                suites.len() - 1
            });
            suites[suite].cases.push(Case::new(run, sample));
            (suite, suites[suite].cases.len() - 1)
        });
        suites[suite].cases[case].samples.push(sample);
    }
    // Samples come in a shuffled order.
    for Suite { name, cases, .. } in &mut suites {
        run.sort_as_described(cases, |case| (name, case.name));
    }
    suites
}

/// The cases of one suite in one run.
#[derive(Debug)]
pub struct Suite<'a> {
    pub name: &'a str,
    pub run: &'a Run,
    pub cases: Vec<Case<'a>>,
}

impl<'a> Suite<'a> {
    pub fn case(&self, name: &str) -> Option<&Case<'a>> {
        self.cases.iter().find(|case| case.name == name)
    }

    /// The case that measured the same as `like`, with figures.
    pub fn like(&self, like: &Case<'_>) -> Option<&Case<'a>> {
        let unit = |case: &Case<'_>| case.measure().unit().to_owned();
        self.case(like.name)
            .filter(|own| own.is_same(like) && unit(own) == unit(like))
            .filter(|own| own.compared().is_some())
    }

    /// The unit of the figures that are compared.
    pub fn unit(&self) -> &str {
        self.cases.first().map_or("", |case| case.measure().unit())
    }

    /// The cases that are out.
    pub fn failures(&self) -> impl Iterator<Item = &'a Failure> {
        let name = self.name;
        self.run.failures.iter().filter(move |failure| failure.suite == name)
    }

    /// Is there a figure to be followed from run to run, case by case? A grid has too many cells for that.
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
pub struct Case<'a> {
    pub name: &'a str,
    pub described: Described,
    pub samples: Vec<&'a Sample>,
    /// The machine's id.
    machine: &'a str,
    /// Drawing ten thousand times for an interval is done once.
    speed: OnceCell<Option<Estimate>>,
    compared: OnceCell<Option<Estimate>>,
}

impl<'a> Case<'a> {
    fn new(run: &'a Run, sample: &'a Sample) -> Self {
        let Sample { suite, case, .. } = sample;
        let known = run.cases.iter().find(|known| known.suite == *suite && known.case == *case);
        let described = known.cloned().unwrap_or_else(|| Described::new(suite, case));
        let machine = run.machine.id.as_str();
        let (speed, compared) = (OnceCell::new(), OnceCell::new());
        Self { name: case, described, samples: Vec::new(), machine, speed, compared }
    }

    /// Did both measure the same? Of a run without descriptions nobody knows. Devices have other names on other machines.
    fn is_same(&self, other: &Self) -> bool {
        let [own, others] = [self, other].map(|case| {
            let mut identity = case.described.identity.clone();
            if self.machine != other.machine {
                // Each machine numbers its devices by itself.
                identity.remove("device");
            }
            identity
        });
        own.is_empty() || others.is_empty() || own == others
    }

    /// The baseline of this case, and the ratio of speeds, where the two can be told apart.
    pub fn against<'s>(&self, suite: &'s Suite<'a>) -> Option<(&'s Self, Option<stats::Estimate>)> {
        let baseline = self.baseline(suite)?;
        let (times, verdict) = self.paired(baseline, |_| true)?;
        Some((baseline, Some(times).filter(|_| verdict != stats::Verdict::CannotTell)))
    }

    /// The case that this one is measured against.
    pub fn baseline<'s>(&self, suite: &'s Suite<'a>) -> Option<&'s Self> {
        suite.case(self.described.baseline.as_deref()?)
    }

    /// The ratio of speeds to `baseline` in the wanted rounds, and whether the two can be told apart.
    pub fn paired(
        &self,
        baseline: &Self,
        is_wanted: impl Fn(u32) -> bool,
    ) -> Option<(stats::Estimate, stats::Verdict)> {
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
    pub fn compared(&self) -> Option<&Estimate> {
        let estimate = || {
            let measure = self.measure();
            self.estimate(|measured| measure.value(measured))
        };
        self.compared.get_or_init(estimate).as_ref()
    }

    /// Whether this case is better than `other`, of another run, by more than the part `margin`.
    pub fn verdict(&self, other: &Self, margin: f64) -> Option<stats::Verdict> {
        let measure = self.measure();
        let scores = |case: &Self| -> Option<Vec<f64>> {
            Some(case.compared()?.samples.iter().map(|&value| measure.score(value)).collect())
        };
        let (own, others) = (scores(self)?, scores(other)?);
        let ratio = stats::ratio(&own, &others);
        Some(stats::Verdict::of(ratio.as_ref(), margin))
    }

    /// In GiB/s.
    pub fn speed(&self) -> Option<&Estimate> {
        self.speed.get_or_init(|| self.estimate(|measured| measured.gib_per_s)).as_ref()
    }

    pub fn estimate(&self, of: impl Fn(&Measured) -> Option<f64>) -> Option<Estimate> {
        Estimate::of(self.samples.iter().filter_map(|sample| of(&sample.measured)))
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
