//! Runs as the sections look at them: by machine and by suite.

use std::collections::BTreeSet;

use super::bars::Limit;
use crate::cases::{self, CaseRun, SuiteRun};
use crate::model::{Machine, Run};
use crate::suite::memory;

/// All runs, oldest first.
#[derive(Debug)]
pub struct Data<'a> {
    pub runs: Vec<&'a Run>,
    suites: Vec<SuiteRun<'a>>,
}

impl<'a> Data<'a> {
    /// Takes each run once, however often given.
    pub fn of(runs: &'a [Run]) -> Self {
        // A run may come twice: from the store, and in a file that was given.
        let mut seen = BTreeSet::new();
        let mut runs: Vec<&Run> = runs.iter().filter(|run| seen.insert(&run.id)).collect();
        runs.sort_by_key(|run| (run.started, &run.id));
        let suites = runs.iter().flat_map(|run| cases::suites(run)).collect();
        Self { runs, suites }
    }

    /// The machine that the page is about: the newest run's that measured anything.
    pub fn machine(&self) -> Option<&'a Machine> {
        // A run that only failed says little about its machine.
        let measured = self.runs.iter().rev().find(|run| !run.samples.is_empty());
        measured.or(self.runs.last()).map(|run| &run.machine)
    }

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
        cases::distinct(self.suites.iter().map(|suite| suite.name))
    }

    /// A suite from the newest run of this page's machine.
    pub fn suite(&self, name: &str) -> Option<&SuiteRun<'a>> {
        let machine = self.machine()?;
        self.suites
            .iter()
            .rev()
            // From the end, since the latest figures are the ones that hold.
            .find(|suite| suite.name == name && suite.run.machine.id == machine.id)
    }

    /// One processor's rate of reading memory.
    pub fn memory_read(&self) -> Option<Limit> {
        let is_it = |case: &&CaseRun<'_>| {
            case.text("operation") == Some("read") && case.number("processors") == Some(1)
        };
        let case = self.suite(memory::SUITE.name)?.cases.iter().find(is_it)?;
        let speed = case.estimate(|measured| measured.gib_per_s)?;
        Some(Limit { value: speed.value, text: "memory, read by one processor".to_owned() })
    }

    /// A suite in each run of `machine` with that suite, oldest first.
    pub fn every<'s>(
        &'s self,
        machine: &'s Machine,
        name: &'s str,
    ) -> impl DoubleEndedIterator<Item = &'s SuiteRun<'a>> {
        self.suites
            .iter()
            .filter(move |suite| suite.name == name && suite.run.machine.id == machine.id)
    }
}
