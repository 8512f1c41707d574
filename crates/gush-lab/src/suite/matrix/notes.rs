//! The notes under the grids: rules of the engine's own, ends that are missing, defects.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::view::{Cell, Cells};

impl Cells<'_> {
    /// Which rules of the engine's own said no.
    pub(super) fn rules(&self) -> String {
        let facts = self.cells.iter().map(|(&(method, ..), cell)| (method, cell.facts()));
        let refused = facts.filter(|(_, facts)| facts.word() == "refused");
        counted(
            "Rules of gush's own (·), with the cells that they concern",
            refused.map(|(method, facts)| format!("{method}: {}", facts.text("why"))),
        )
    }

    /// Which ends could not be had when a cell was to be tried, and why.
    pub(super) fn absent(&self) -> String {
        let absent = self.cells.values().map(Cell::facts);
        let absent = absent.filter(|facts| facts.word() == "absent");
        counted(
            "Ends that could not be had (-), with the cells that they concern",
            absent.map(|facts| facts.text("why").to_owned()),
        )
    }

    /// Cells with defects, whether expected or not.
    pub(super) fn defects(&self) -> String {
        let mut text = String::new();
        for (&(method, from, to), cell) in &self.cells {
            let facts = cell.facts();
            if ["wrong", "hangs"].contains(&facts.word()) {
                let _ = writeln!(
                    text,
                    "{method}: {from}→{to}: {}: {}",
                    facts.word(),
                    facts.text("why")
                );
            }
            let not_timed = facts.text("not_timed");
            if !not_timed.is_empty() {
                let _ =
                    writeln!(text, "{method}: {from}→{to} works, but was not timed: {not_timed}");
            }
        }
        text
    }
}

/// Reasons with the number of their cells, below a heading; nothing without a reason.
fn counted(heading: &str, reasons: impl Iterator<Item = String>) -> String {
    let mut groups: BTreeMap<String, usize> = BTreeMap::new();
    reasons.for_each(|why| *groups.entry(why).or_default() += 1);
    if groups.is_empty() {
        return String::new();
    }
    let line = |(why, count): (String, usize)| format!("  {why}: {count}\n");
    format!("{heading}\n{}", groups.into_iter().map(line).collect::<String>())
}
