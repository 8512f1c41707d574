//! What getting a user's pages costs: vmsplice(2) of memory that was touched or not, on pages of 4 KiB
//! or of 2 MiB, and the kernel's own test of `get_user_pages_fast` where it is built in.
//!
//! vmsplice takes a reference to every 4 KiB (`iov_iter_get_pages2`), which is a walk of the page tables
//! for each small page, and one for all 512 of a huge page. The references are dropped by a splice to
//! /dev/null, which is timed apart.

mod once;

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;

pub use once::once;

use crate::Error;
use crate::case::{Case, View};
use crate::model::Sample;
use crate::once::Single;
use crate::stats::Summary;
use crate::{csv, table};

const SUITE: &str = "pages";
/// The kernel's own test (`mm/gup_test.c`, CONFIG_GUP_TEST), in debugfs.
const GUP_TEST: &str = "/sys/kernel/debug/gup_test";

/// What takes the references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taker {
    /// vmsplice(2) into a pipe.
    Vmsplice,
    /// The kernel's own test.
    GupTest,
}

/// One measurement of getting pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// What it is called, unique.
    pub name: &'static str,
    /// What takes the references.
    pub taker: Taker,
    /// Every page was written before.
    pub touched: bool,
    /// The memory is on pages of 2 MiB.
    pub huge: bool,
}

const fn way(name: &'static str, taker: Taker, touched: bool, huge: bool) -> Way {
    Way { name, taker, touched, huge }
}

/// Every measurement.
pub const WAYS: &[Way] = &[
    way("touched-4K", Taker::Vmsplice, true, false),
    way("touched-2M", Taker::Vmsplice, true, true),
    way("untouched-4K", Taker::Vmsplice, false, false),
    way("untouched-2M", Taker::Vmsplice, false, true),
    way("gup-test-4K", Taker::GupTest, true, false),
    way("gup-test-2M", Taker::GupTest, true, true),
];

/// The cases, and why some are left out here.
///
/// Those of the kernel's own test are left out without it, unless they are asked for by name.
#[must_use]
pub fn cases(
    program: &Path,
    bytes: Option<u64>,
    only: &[String],
) -> (Vec<Box<dyn Case>>, Vec<String>) {
    let mut notes = Vec::new();
    let test = gup_test();
    if let (Err(error), true) = (&test, only.is_empty()) {
        notes.push(format!("gup-test-4K and gup-test-2M are left out: {}", error.told()));
    }
    let case = |way: &Way| -> Box<dyn Case> {
        let mut words: Vec<OsString> = vec![SUITE.into(), "--way".into(), way.name.into()];
        if let Some(bytes) = bytes {
            words.extend(["--bytes".into(), bytes.to_string().into()]);
        }
        Box::new(Single {
            suite: SUITE,
            name: way.name,
            program: program.to_owned(),
            words,
            pinned: true,
        })
    };
    let wanted = |way: &&Way| {
        let named = only.iter().any(|name| name == way.name);
        way.taker == Taker::Vmsplice || test.is_ok() || named
    };
    (WAYS.iter().filter(wanted).map(case).collect(), notes)
}

fn gup_test() -> Result<File, Error> {
    File::open(GUP_TEST).map_err(|error| {
        let why = "the kernel's own test is not at /sys/kernel/debug/gup_test (a kernel built with \
                   CONFIG_GUP_TEST has it, for root, where debugfs is mounted)";
        Error::failed(why, error)
    })
}

/// The suite's CSV and table.
#[derive(Clone, Copy, Debug)]
pub struct Costs;

impl View for Costs {
    fn csv_header(&self) -> &str {
        "case,memory,page_bytes,round,gib_per_s,ns_per_page,drop_ns_per_page,bytes"
    }

    /// ```
    /// use gush_lab::{case::View, model::{Measured, Sample}, suite::pages::Costs};
    /// let measured = Measured { gib_per_s: Some(80.5), bytes: 4096, ..Measured::default() }
    ///     .with("memory", "touched").with("page_bytes", 2_097_152).with("ns_per_page", 47.5);
    /// let sample = Sample { suite: "pages".into(), case: "touched-2M".into(), round: 1, measured };
    /// assert_eq!(Costs.csv_row(&sample), "touched-2M,touched,2097152,1,80.500000,47.500000,,4096");
    /// ```
    fn csv_row(&self, sample: &Sample) -> String {
        let Sample { case, round, measured, .. } = sample;
        let [memory, page] = ["memory", "page_bytes"].map(|name| csv::fact(measured, name));
        let [cost, dropping] =
            ["ns_per_page", "drop_ns_per_page"].map(|name| csv::figure(number(sample, name)));
        let speed = csv::figure(measured.gib_per_s);
        format!("{case},{memory},{page},{round},{speed},{cost},{dropping},{}", measured.bytes)
    }

    fn table(&self, samples: &[Sample]) -> String {
        let mut names: Vec<&str> = Vec::new();
        for sample in samples {
            if !names.contains(&sample.case.as_str()) {
                names.push(&sample.case);
            }
        }
        let rows: Vec<Row<'_>> = names.iter().filter_map(|name| row(name, samples)).collect();
        let most = rows.iter().map(|row| row.cost.median).fold(0.0, f64::max);
        let mut text = format!(
            "{:13}  {:>11}  {:>17}  {:>9}  {:>8}\n",
            "case", "ns per 4 KiB", "least … most", "dropping", "GiB/s"
        );
        for Row { name, cost, dropping, speed } in &rows {
            let range = format!("{:.1} … {:.1}", cost.least, cost.most);
            let dropping = dropping.map_or(String::new(), |ns| format!("{ns:.1}"));
            text += &format!(
                "{name:13}  {:>12.1}  {range:>17}  {dropping:>9}  {speed:8.2}  {}\n",
                cost.median,
                table::bar(cost.median, most)
            );
        }
        text
    }
}

struct Row<'a> {
    name: &'a str,
    cost: Summary,
    dropping: Option<f64>,
    speed: f64,
}

fn row<'a>(name: &'a str, samples: &[Sample]) -> Option<Row<'a>> {
    let own = || samples.iter().filter(|sample| sample.case == name);
    let summary = |of: &dyn Fn(&Sample) -> Option<f64>| {
        Summary::of(&own().filter_map(of).collect::<Vec<f64>>())
    };
    Some(Row {
        name,
        cost: summary(&|sample| number(sample, "ns_per_page"))?,
        dropping: summary(&|sample| number(sample, "drop_ns_per_page")).map(|ns| ns.median),
        speed: summary(&|sample| sample.measured.gib_per_s)?.median,
    })
}

fn number(sample: &Sample, name: &str) -> Option<f64> {
    sample.measured.facts.get(name)?.as_f64()
}
