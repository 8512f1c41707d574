//! The matrix as text: the old experiment's table, a grid for every way, unexpected outcomes.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use super::letters::Letters;
use super::{Kind, Place, Way, s4};
use crate::model::{Measured, Sample};

/// The matrix's tables; `places` says where files lay, and which kinds are left out.
#[derive(Clone, Debug, Default)]
pub(super) struct Grid {
    /// As [`super::cases`] answered them.
    pub(super) places: Vec<Place>,
}

/// The outcome of a cell, as a sample's facts tell.
pub(super) struct Told<'a>(&'a Measured);

impl<'a> Told<'a> {
    pub(super) fn of(measured: &'a Measured) -> Self {
        Self(measured)
    }

    pub(super) fn text(&self, name: &str) -> &'a str {
        self.0.facts.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn works(&self) -> bool {
        self.0.facts.get("works") == Some(&Value::Bool(true))
    }

    /// The errno's name, or the word in place of an errno.
    pub(super) fn word(&self) -> &'a str {
        self.text("errno")
    }

    pub(super) fn differs(&self) -> bool {
        !self.text("differs").is_empty()
    }
}

impl Grid {
    /// The whole text.
    pub(super) fn table(&self, samples: &[Sample]) -> String {
        let cells = Cells::of(samples);
        let mut parts = Vec::new();
        if let Some(file) = s4::file_among(|kind| cells.kinds.contains(&kind)) {
            parts.push(s4::table(file, |way, from, to| cells.find(way, from, to)));
        }
        if !cells.are_s4() {
            let mut letters = Letters::default();
            parts.extend(Way::all().into_iter().map(|way| cells.grid(way, &mut letters)));
            parts.push(letters.legend(&cells));
            parts.push(cells.rules());
        }
        parts.push(self.places());
        parts.push(cells.absent());
        parts.push(cells.differences());
        parts.push(cells.defects());
        parts.retain(|part| !part.is_empty());
        parts.join("\n")
    }

    /// Where files lie, and which kinds have no cells here.
    fn places(&self) -> String {
        let mut text = String::new();
        for Place { kind, dir, how } in &self.places {
            let _ = match dir {
                Some(_) => writeln!(text, "  {kind:13} {how}"),
                None => writeln!(text, "  {kind:13} left out: {how}"),
            };
        }
        if text.is_empty() { text } else { format!("Files\n{text}") }
    }
}

/// The cells by way, source and target; of several rounds the last, with the median of the speeds.
pub(super) struct Cells<'a> {
    pub(super) cells: BTreeMap<(&'a str, Kind, Kind), Cell<'a>>,
    pub(super) kinds: Vec<Kind>,
}

pub(super) struct Cell<'a> {
    pub(super) measured: &'a Measured,
    pub(super) speeds: Vec<f64>,
}

impl<'a> Cells<'a> {
    fn of(samples: &'a [Sample]) -> Self {
        let mut cells = BTreeMap::new();
        for sample in samples {
            let told = Told(&sample.measured);
            let kind = |name| told.text(name).parse::<Kind>().ok();
            let (Some(source), Some(target)) = (kind("source"), kind("target")) else { continue };
            let key = (told.text("method"), source, target);
            let cell = cells
                .entry(key)
                .or_insert_with(|| Cell { measured: &sample.measured, speeds: Vec::new() });
            cell.measured = &sample.measured;
            cell.speeds.extend(sample.measured.gib_per_s);
        }
        let is_end = |kind| cells.keys().any(|&(_, from, to)| from == kind || to == kind);
        let kinds = Kind::ALL.iter().copied().filter(|&kind| is_end(kind)).collect();
        Self { cells, kinds }
    }

    fn get(&self, way: &'static str, from: Kind, to: Kind) -> Option<&Cell<'a>> {
        self.cells.get(&(way, from, to))
    }

    fn find(&self, way: &'static str, from: Kind, to: Kind) -> Option<&'a Measured> {
        self.get(way, from, to).map(|cell| cell.measured)
    }

    /// Are they those of the old experiment's table, and no others?
    fn are_s4(&self) -> bool {
        let file = s4::file_among(|kind| self.kinds.contains(&kind));
        file.is_some_and(|file| {
            let is_s4 = |way: &str, from, to| {
                way.parse().is_ok_and(|way: Way| s4::has(way, from, to, file))
            };
            self.cells.keys().all(|&(way, from, to)| is_s4(way, from, to))
        })
    }

    /// One way's grid: a row a source, a column a target.
    fn grid(&self, way: Way, letters: &mut Letters) -> String {
        let own: Vec<_> = self.cells.keys().filter(|(name, ..)| *name == way.name()).collect();
        let rows = self.kinds.iter().filter(|kind| own.iter().any(|(_, from, _)| from == *kind));
        let columns: Vec<Kind> = self
            .kinds
            .iter()
            .copied()
            .filter(|kind| own.iter().any(|(.., to)| to == kind))
            .collect();
        if columns.is_empty() {
            return String::new();
        }
        let mut text = format!("{way}: {}\n  {:13} ", way.what(), "from \\ to");
        text.extend(columns.iter().map(|kind| format!("{} ", kind.short())));
        text.truncate(text.trim_end().len());
        for &from in rows {
            // Writing into a `String` cannot fail, here and below.
            let _ = write!(text, "\n  {from:13} ");
            for &to in &columns {
                let mark =
                    self.get(way.name(), from, to).map_or(String::new(), |cell| letters.mark(cell));
                let _ = write!(text, "{mark:4}");
            }
            text.truncate(text.trim_end().len());
        }
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(way: &str, from: Kind, to: Kind, errno: &str) -> Sample {
        let measured = Measured::default()
            .with("method", way)
            .with("source", from.name())
            .with("target", to.name())
            .with("works", errno.is_empty())
            .with("errno", errno);
        Sample { suite: "matrix".into(), case: format!("{way}:{from}:{to}"), round: 1, measured }
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
        assert!(text.contains("  pipe          I   ✓\n"), "{text}");
        assert!(text.contains("  null              e1\n"), "{text}");
        assert!(text.contains("I EINVAL") && text.contains("e1 EWHATEVER"), "{text}");
    }

    #[test]
    fn what_differs_is_pointed_out_with_what_it_means() {
        let mut one = sample("splice", Kind::Pipe, Kind::Tcp, "EPERM");
        one.measured = one
            .measured
            .with("expected", "works")
            .with("because", "splice(2)")
            .with("differs", "the call is denied");
        let text = Grid::default().table(&[one]);
        assert!(text.contains("P!"), "{text}");
        assert!(text.contains("splice: EPERM, expected: works (splice(2))"), "{text}");
        assert!(text.contains("pipe→tcp\n    the call is denied"), "{text}");
    }

    #[test]
    fn a_kind_that_is_left_out_is_said_to_be() {
        let how = "making one needs root".to_owned();
        let grid = Grid { places: vec![Place { kind: Kind::Xfs, dir: None, how }] };
        let text = grid.table(&[sample("splice", Kind::Pipe, Kind::Tcp, "")]);
        assert!(text.contains("xfs           left out: making one needs root"), "{text}");
    }

    #[test]
    fn no_line_is_wider_than_a_hundred_columns() {
        let mut samples = Vec::new();
        for way in Way::all() {
            for &from in Kind::ALL.iter().filter(|kind| kind.is_source()) {
                for &to in Kind::ALL.iter().filter(|kind| kind.is_target()) {
                    samples.push(sample(way.name(), from, to, "EINVAL"));
                }
            }
        }
        let text = Grid::default().table(&samples);
        let widest = text.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!(widest.chars().count() <= 100, "{widest}");
    }
}
