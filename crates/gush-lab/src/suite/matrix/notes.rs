//! The notes under the grids: rules of the engine's own, ends that are missing, unexpected outcomes.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::view::{Cell, Cells};

impl Cells<'_> {
    /// Which rules of the engine's own said no, and the kernel's own answers.
    pub(super) fn rules(&self) -> String {
        let mut groups: BTreeMap<(&str, &str), BTreeMap<&str, usize>> = BTreeMap::new();
        for (&(way, ..), cell) in &self.cells {
            let told = cell.told();
            if told.word() == "refused" {
                let answers = groups.entry((way, told.text("why"))).or_default();
                *answers.entry(told.text("kernel")).or_default() += 1;
            }
        }
        let mut text = String::new();
        for ((way, why), answers) in groups {
            let count: usize = answers.values().sum();
            // Writing into a `String` cannot fail, here and below.
            let _ = writeln!(text, "  {way}: {why}: {count}");
            let asked = answers.into_iter().filter(|(answer, _)| !answer.is_empty());
            let asked: Vec<_> = asked.map(|(answer, count)| format!("{answer} {count}")).collect();
            if !asked.is_empty() {
                let _ = writeln!(text, "    the kernel's own answers: {}", asked.join(", "));
            }
        }
        if text.is_empty() {
            text
        } else {
            format!("Rules of gush's own (·), with the cells that they concern\n{text}")
        }
    }

    /// Cells that differ from the sources' promises, grouped by outcome.
    pub(super) fn differences(&self) -> String {
        let mut groups: BTreeMap<[&str; 5], Vec<String>> = BTreeMap::new();
        for (&(way, from, to), cell) in &self.cells {
            let told = cell.told();
            if told.differs() {
                let word = if told.works() { "works" } else { told.word() };
                let key =
                    [way, word, told.text("expected"), told.text("because"), told.text("differs")];
                groups.entry(key).or_default().push(format!("{from}→{to}"));
            }
        }
        if groups.is_empty() {
            let promised = self.cells.values().filter(|cell| {
                let told = cell.told();
                !told.text("expected").is_empty() && told.word() != "absent"
            });
            return match promised.count() {
                0 => String::new(),
                1 => "The one cell is as the kernel's sources and manual pages say (Linux 6.18).\n"
                    .to_owned(),
                count => format!(
                    "All {count} cells that the kernel's sources and manual pages speak of are as they say (Linux 6.18).\n"
                ),
            };
        }
        let mut text =
            "Not as expected (! above), by the sources of Linux 6.18 and the manual pages:\n"
                .to_owned();
        for ([way, word, expected, because, meaning], pairs) in &groups {
            let _ = writeln!(text, "  {way}: {word}, expected: {expected} ({because})");
            let _ = writeln!(text, "    {}", some_of(pairs));
            let _ = writeln!(text, "    {meaning}");
        }
        text
    }

    /// Which ends could not be had when a cell was to be tried, and why.
    pub(super) fn absent(&self) -> String {
        let absent = self.cells.values().map(Cell::told);
        let absent = absent.filter(|told| told.word() == "absent");
        let mut groups: BTreeMap<&str, usize> = BTreeMap::new();
        absent.for_each(|told| *groups.entry(told.text("why")).or_default() += 1);
        let mut text = String::new();
        for (why, count) in groups {
            let _ = writeln!(text, "  {why}: {count}");
        }
        if text.is_empty() {
            text
        } else {
            format!("Ends that could not be had (-), with the cells that they concern\n{text}")
        }
    }

    /// Cells that should trouble whoever reads this, whether expected or not.
    pub(super) fn defects(&self) -> String {
        let mut text = String::new();
        for (&(way, from, to), cell) in &self.cells {
            let told = cell.told();
            if ["wrong", "hangs", "died"].contains(&told.word()) {
                let _ = writeln!(text, "{way}: {from}→{to}: {}: {}", told.word(), told.text("why"));
            }
            let not_timed = told.text("not_timed");
            if !not_timed.is_empty() {
                let _ = writeln!(text, "{way}: {from}→{to} works, but was not timed: {not_timed}");
            }
        }
        text
    }
}

fn some_of(pairs: &[String]) -> String {
    const SHOWN: usize = 6;
    let shown = pairs[..pairs.len().min(SHOWN)].join(", ");
    match pairs.len() {
        0..=SHOWN => shown,
        all => format!("{shown}, and {} more", all - SHOWN),
    }
}
