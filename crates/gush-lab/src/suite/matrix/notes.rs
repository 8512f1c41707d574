//! The notes under the grids: rules of the engine's own, ends that are missing, defects.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::view::Cells;

impl Cells<'_> {
    /// Which rules of the engine's own said no.
    pub(super) fn rules(&self) -> String {
        let refused = self.cells.iter().filter(|(_, cell)| cell.word() == "refused");
        counted(
            "Rules of gush's own (·), with the cells that they concern",
            refused.map(|((method, ..), cell)| format!("{method}: {}", cell.text("why"))),
        )
    }

    /// Which ends could not be had when a cell was to be tried, and why.
    pub(super) fn absent(&self) -> String {
        let absent = self.cells.values().filter(|cell| cell.word() == "absent");
        counted(
            "Ends that could not be had (-), with the cells that they concern",
            absent.map(|cell| cell.text("why").to_owned()),
        )
    }

    /// Cells with defects, whether expected or not.
    pub(super) fn defects(&self) -> String {
        let mut text = String::new();
        for (&(method, from, to), cell) in &self.cells {
            let (word, why) = (cell.word(), cell.text("why"));
            if ["wrong", "hangs"].contains(&word) {
                let _ = writeln!(text, "{method}: {from}→{to}: {word}: {why}");
            }
            let not_timed = cell.text("not_timed");
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
