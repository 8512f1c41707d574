//! The matrix as text: the old experiment's table, and a grid for every method.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use super::{Kind, KindPlace, Method, marks, s4};
use crate::model::{Measured, Sample};
use crate::stats;

/// The matrix's tables; `places` says where files lay, and which kinds are left out.
#[derive(Clone, Debug, Default)]
pub(super) struct Grid {
    /// As [`super::cases`] answered them.
    pub(super) places: Vec<KindPlace>,
}

/// A word or sentence among the facts of a sample.
fn text<'a>(measured: &'a Measured, name: &str) -> &'a str {
    measured.facts.get(name).and_then(Value::as_str).unwrap_or_default()
}

impl Grid {
    /// The whole text.
    pub(super) fn table(&self, samples: &[Sample]) -> String {
        let cells = Cells::of(samples);
        let mut parts = Vec::new();
        parts.push(s4::text(&cells));
        if !cells.are_s4() {
            parts.extend(Method::all().into_iter().map(|method| cells.grid(method)));
            parts.push(marks::legend(&cells));
            parts.push(cells.rules());
        }
        parts.push(self.places());
        parts.push(cells.absent());
        parts.push(cells.defects());
        parts.retain(|part| !part.is_empty());
        parts.join("\n")
    }

    /// Where files lie, and which kinds have no cells here.
    fn places(&self) -> String {
        let mut text = String::new();
        for KindPlace { kind, dir, how } in &self.places {
            let _ = match dir {
                Some(_) => writeln!(text, "  {kind:13} {how}"),
                None => writeln!(text, "  {kind:13} left out: {how}"),
            };
        }
        if text.is_empty() { text } else { format!("Files\n{text}") }
    }
}

/// The cells by method, source and target.
pub(super) struct Cells<'a> {
    pub(super) cells: BTreeMap<(&'a str, Kind, Kind), Cell<'a>>,
    pub(super) kinds: Vec<Kind>,
}

/// The rounds of a cell.
pub(super) struct Cell<'a>(Vec<&'a Measured>);

impl<'a> Cell<'a> {
    /// A fact of the outcome of the last round.
    pub(super) fn text(&self, name: &str) -> &'a str {
        text(self.0[self.0.len() - 1], name)
    }

    pub(super) fn works(&self) -> bool {
        self.0[self.0.len() - 1].facts.get("works") == Some(&Value::Bool(true))
    }

    /// The errno's name, or the word in place of an errno.
    pub(super) fn word(&self) -> &'a str {
        self.text("errno")
    }

    /// The median of a figure; thousands of cells need no intervals.
    pub(super) fn median(&self, of: fn(&Measured) -> Option<f64>) -> Option<f64> {
        let figures: Vec<f64> = self.0.iter().filter_map(|measured| of(measured)).collect();
        stats::middle(&figures)
    }

    /// In GiB/s.
    pub(super) fn speed(&self) -> Option<f64> {
        self.median(|measured| measured.gib_per_s).filter(|speed| *speed > 0.0)
    }
}

impl<'a> Cells<'a> {
    /// Of the samples that have an outcome.
    pub(super) fn of(samples: impl IntoIterator<Item = &'a Sample>) -> Self {
        let mut cells: BTreeMap<_, Cell<'a>> = BTreeMap::new();
        for sample in samples {
            let facts = |name| text(&sample.measured, name);
            let kind = |name| facts(name).parse::<Kind>().ok();
            let (Some(source), Some(target)) = (kind("source"), kind("target")) else { continue };
            if sample.measured.facts.contains_key("works") {
                let key = (facts("method"), source, target);
                cells.entry(key).or_insert(Cell(Vec::new())).0.push(&sample.measured);
            }
        }
        let is_end = |kind| cells.keys().any(|&(_, from, to)| from == kind || to == kind);
        let kinds = Kind::ALL.iter().copied().filter(|&kind| is_end(kind)).collect();
        Self { cells, kinds }
    }

    pub(super) fn get(&self, method: &'a str, from: Kind, to: Kind) -> Option<&Cell<'a>> {
        self.cells.get(&(method, from, to))
    }

    /// The kinds of the ends that cells of this method have at this side.
    pub(super) fn kinds_of(&self, method: &str, is_source: bool) -> Vec<Kind> {
        let is_end = |kind: Kind| {
            let of_method = self.cells.keys().filter(|(name, ..)| *name == method);
            of_method.into_iter().any(|&(_, from, to)| kind == if is_source { from } else { to })
        };
        self.kinds.iter().copied().filter(|&kind| is_end(kind)).collect()
    }

    /// Are they those of the old experiment's table, and no others?
    fn are_s4(&self) -> bool {
        s4::file_of(self).is_some_and(|file| {
            let is_s4 = |method: &str, from, to| {
                method.parse().is_ok_and(|method: Method| s4::has(method, from, to, file))
            };
            self.cells.keys().all(|&(method, from, to)| is_s4(method, from, to))
        })
    }

    /// One method's grid: a row a source, a column a target.
    fn grid(&self, method: Method) -> String {
        let columns = self.kinds_of(method.name(), false);
        if columns.is_empty() {
            return String::new();
        }
        let mut text = format!("{method}: {}\n  {:13} ", method.what(), "from \\ to");
        text.extend(columns.iter().map(|kind| format!("{} ", kind.short())));
        text.truncate(text.trim_end().len());
        for from in self.kinds_of(method.name(), true) {
            // Writing into a `String` cannot fail, here and below.
            let _ = write!(text, "\n  {from:13} ");
            for &to in &columns {
                let mark = self.get(method.name(), from, to).map_or_else(String::new, marks::mark);
                let _ = write!(text, "{mark:4}");
            }
            text.truncate(text.trim_end().len());
        }
        let mut answers: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, cell) in self.cells.iter().filter(|((name, ..), _)| *name == method.name()) {
            if marks::mark(cell) == marks::REFUSED_BY_KERNEL {
                *answers.entry(cell.word()).or_default() += 1;
            }
        }
        let answers: Vec<String> =
            answers.into_iter().map(|(word, count)| format!("{word}: {count}")).collect();
        if !answers.is_empty() {
            let _ = write!(text, "\n  {} {}", marks::REFUSED_BY_KERNEL, answers.join(", "));
        }
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(method: &str, from: Kind, to: Kind, errno: &str) -> Sample {
        let measured = Measured::default()
            .with("method", method)
            .with("source", from.name())
            .with("target", to.name())
            .with("works", errno.is_empty())
            .with("errno", errno);
        Sample::new("matrix", &format!("{method}:{from}:{to}"), 1, measured)
    }

    #[test]
    fn a_grid_has_a_row_for_each_source_and_a_column_for_each_target() {
        let samples = [
            sample("splice", Kind::Pipe, Kind::Tcp, ""),
            sample("splice", Kind::Pipe, Kind::Append, "EINVAL"),
            sample("splice", Kind::Null, Kind::Tcp, "EWHATEVER"),
        ];
        let text = Grid::default().table(&samples);
        assert!(text.contains("  from \\ to     app tcp\n"), "{text}");
        assert!(text.contains("  pipe          –   ✓\n"), "{text}");
        assert!(text.contains("  null              –\n"), "{text}");
        assert!(text.contains("\n  – EINVAL: 1, EWHATEVER: 1\n"), "{text}");
    }

    #[test]
    fn a_kind_that_is_left_out_is_said_to_be() {
        let how = "none is mounted".to_owned();
        let grid = Grid { places: vec![KindPlace { kind: Kind::Xfs, dir: None, how }] };
        let text = grid.table(&[sample("splice", Kind::Pipe, Kind::Tcp, "")]);
        assert!(text.contains("xfs           left out: none is mounted"), "{text}");
    }

    #[test]
    fn no_line_is_wider_than_a_hundred_columns() {
        let mut samples = Vec::new();
        for method in Method::all() {
            for &from in Kind::ALL.iter().filter(|kind| kind.is_source()) {
                for &to in Kind::ALL.iter().filter(|kind| kind.is_target()) {
                    samples.push(sample(method.name(), from, to, "EINVAL"));
                }
            }
        }
        let text = Grid::default().table(&samples);
        let widest = text.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!(widest.chars().count() <= 100, "{widest}");
    }
}
