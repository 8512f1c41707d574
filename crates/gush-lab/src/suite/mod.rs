//! The suites: a room each, and one table of them.
//!
//! A module declares as data its options, cases and figures. The command line, the table, CSV,
//! JSON, the page, the tour, `explain` and `compare` know no suite by name: a new one is a module
//! here and a row in [`SUITES`]. Only the matrix has its own section, a grid.

pub mod copy;
pub mod matrix;
pub mod memory;
pub mod pages;
pub mod pipe;
pub mod tune;

mod asked;

pub use asked::Asked;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::Arg;

use crate::Error;
use crate::case::Case;
use crate::model::{Measured, Run};
use crate::report::data::Data;
use crate::report::page::Section;

/// All suites, in the order of the list and of the page.
pub const SUITES: &[&Suite] =
    &[&pipe::SUITE, &copy::SUITE, &matrix::SUITE, &memory::SUITE, &pages::SUITE, &tune::SUITE];

pub fn named(name: &str) -> Option<&'static Suite> {
    SUITES.iter().find(|suite| suite.name == name).copied()
}

#[derive(Debug)]
pub struct Suite {
    /// The name of the suite and of the command.
    pub name: &'static str,
    /// The heading on the page.
    pub title: &'static str,
    /// The subject, in a line.
    pub about: &'static str,
    /// More about the subject, below the options.
    pub more: &'static str,
    /// The options of the command, besides those of every suite.
    pub options: fn() -> Vec<Arg>,
    /// The value of `--only`: a name for the value, and a sentence.
    pub only: (&'static str, &'static str),
    /// How often each case is measured by default.
    pub rounds: &'static str,
    /// The figures of the cases; the first is the one that is compared.
    pub quantities: &'static [Quantity],
    /// The quantity along the x axis of the page's section, if any.
    pub axis: Option<Axis>,
    /// In small type below the figures.
    pub notes: &'static [&'static str],
    /// The section of the page, in place of the usual one.
    pub(crate) section: Option<fn(&Data<'_>) -> Option<Section>>,
    pub tour: Tour,
    /// One measurement in a process of its own, `gush lab once NAME …`: the options, and the
    /// function.
    pub once: Option<Once>,
    /// The cases for what was asked.
    pub make: fn(&Asked) -> Result<Cases, Error>,
}

impl Suite {
    /// Does the suite make files, in the directory of `--dir`?
    pub fn makes_files(&self) -> bool {
        (self.options)().iter().any(|option| option.get_id() == asked::DIR)
    }

    /// What a tour asks for, with files in `dir`.
    pub fn toured(&self, program: &Path, dir: &Path) -> Result<Asked, Error> {
        let (only, options) = match self.tour {
            Tour::Repeated(only, options) => (only, options),
            Tour::Once | Tour::Left => Default::default(),
        };
        let mut words: Vec<&OsStr> = options.iter().map(OsStr::new).collect();
        // In one word: a directory may be called as an option is.
        let mut place = OsString::from(format!("--{}=", asked::DIR));
        place.push(dir);
        if self.makes_files() {
            words.push(&place);
        }
        let asked = Asked::read(program, (self.options)(), &words)?;
        let only = only.iter().map(|name| (*name).to_owned()).collect();
        Ok(Asked { only, is_brief: true, ..asked })
    }
}

/// The part of a suite in a tour.
#[derive(Clone, Copy, Debug)]
pub enum Tour {
    /// None: it takes too long.
    Left,
    /// All cases, once, if there is time.
    Once,
    /// With these names after `--only` and these options, again and again while there is time.
    Repeated(&'static [&'static str], &'static [&'static str]),
}

/// The work of a separate process for one measurement.
#[derive(Debug)]
pub struct Once {
    /// The description, in a line.
    pub about: &'static str,
    /// The options and operands.
    pub options: fn() -> Vec<Arg>,
    pub run: fn(&Asked) -> Result<Measured, Error>,
}

/// A figure that every sample of a suite has.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    /// The quantity, as the caption of a figure.
    pub caption: &'static str,
    /// The unit, short enough for the head of a column.
    pub unit: &'static str,
    /// Takes the quantity from a sample.
    pub of: fn(&Measured) -> Option<f64>,
    pub less_is_better: bool,
}

/// A parameter that a suite's figures are drawn over.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// The fact with the number of bytes.
    pub fact: &'static str,
    /// The axis's name.
    pub label: &'static str,
}

/// Bytes in a second.
pub const THROUGHPUT: Quantity = Quantity {
    caption: "Throughput",
    unit: "GiB/s",
    of: |measured| measured.gib_per_s,
    less_is_better: false,
};

/// The processor time for a GiB, all processors together.
pub const WORK: Quantity = Quantity {
    caption: "Processor time for a GiB, less is better",
    unit: "cpu s/GiB",
    of: |measured| {
        let gib = measured.bytes as f64 / (1_u64 << 30) as f64;
        (gib > 0.0).then_some((measured.user_s? + measured.system_s?) / gib)
    },
    less_is_better: true,
};

/// Shows the samples of the suite in a special form.
pub type Show = Box<dyn Fn(&Run) -> String>;

/// Cases that are ready to be measured.
#[derive(Default)]
pub struct Cases {
    pub cases: Vec<Box<dyn Case>>,
    /// The cases that cannot be measured here, and the reasons, a sentence each.
    pub notes: Vec<String>,
    /// The text that replaces the table, if there is a special form.
    pub show: Option<Show>,
}

impl Cases {
    /// These, with nothing to be said about them.
    pub fn of(cases: Vec<Box<dyn Case>>) -> Self {
        Self { cases, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats;

    /// The winner is judged by rounds that did not choose it.
    #[test]
    fn the_usual_rounds_choose_a_winner_and_judge_it_by_others() {
        for suite in SUITES.iter().filter(|suite| suite.section.is_none()) {
            let rounds = suite.rounds.parse().expect("a number");
            assert!(stats::choosing_rounds(rounds).is_some(), "{}", suite.name);
        }
    }

    #[test]
    fn every_baseline_is_another_case_of_the_suite() {
        let dir = tempfile::tempdir().expect("a directory");
        for suite in SUITES.iter().filter(|suite| suite.section.is_none()) {
            let tour = suite.toured("/nowhere/gush".as_ref(), dir.path()).expect("options");
            let whole = Asked { only: Vec::new(), ..tour.clone() };
            for asked in [tour, whole] {
                let cases = (suite.make)(&asked).expect("cases").cases;
                let all: Vec<_> = cases.iter().map(|case| case.described().clone()).collect();
                for one in &all {
                    let Some(baseline) = &one.baseline else { continue };
                    let other = all.iter().find(|other| other.case == *baseline);
                    let other = other.unwrap_or_else(|| panic!("{}: no {baseline}", one.case));
                    assert_ne!(other.identity, one.identity, "{} and {baseline}", one.case);
                }
            }
        }
    }

    #[test]
    fn a_tour_makes_its_files_in_a_directory_of_any_name() {
        let dir = Path::new("-x");
        let asked = copy::SUITE.toured("gush".as_ref(), dir).expect("options");
        assert_eq!(asked.path(asked::DIR), dir);
    }

    #[test]
    fn processor_time_is_counted_for_a_gib() {
        let measured = Measured {
            user_s: Some(0.5),
            system_s: Some(1.5),
            bytes: 4 << 30,
            ..Measured::default()
        };
        assert_eq!((WORK.of)(&measured), Some(0.5));
        assert_eq!((WORK.of)(&Measured::default()), None);
    }
}
