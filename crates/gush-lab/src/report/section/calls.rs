//! System calls by name, counted in a separate run, next to the published counts.

use std::cmp::Reverse;

use super::code;
use crate::cases::{CaseRun, SuiteRun};
use crate::count::Calls;
use crate::report::data::Data;
use crate::report::number::{bytes, count};
use crate::report::page::{Cell, Figure, Section, Table, numbers, words};

pub fn section(data: &Data<'_>) -> Option<Section> {
    let suites: Vec<&SuiteRun<'_>> =
        data.suites().into_iter().filter_map(|name| data.suite(name)).collect();
    let counted: Vec<Counted<'_, '_>> =
        suites.iter().flat_map(|suite| &suite.cases).filter_map(Counted::of).collect();
    if counted.is_empty() {
        return None;
    }
    let published = counted.iter().any(|case| case.published().is_some());
    let mut notes = Vec::new();
    if published {
        notes.push(
            "The published counts are those of whole C programs that copy 512 MiB, and what the same programs \
             would need for other sizes; one read is the loader's."
                .to_owned(),
        );
    }
    Some(Section {
        id: "calls",
        title: "System calls".to_owned(),
        said: said(&counted),
        figures: vec![figure_of(&counted, published)],
        notes,
    })
}

/// A case, and its calls.
struct Counted<'s, 'a>(&'s CaseRun<'a>, Calls);

impl<'s, 'a> Counted<'s, 'a> {
    fn of(case: &'s CaseRun<'a>) -> Option<Self> {
        case.calls("syscalls").filter(|calls| !calls.is_empty()).map(|calls| Self(case, calls))
    }

    fn size_bytes(&self) -> Option<u64> {
        self.0.number("size_bytes")
    }

    fn published(&self) -> Option<Calls> {
        self.0.calls("syscalls_published")
    }

    fn all(&self) -> u64 {
        self.1.values().fold(0, |all, count| all.saturating_add(*count))
    }
}

/// A table for each size, the largest first.
fn figure_of(counted: &[Counted<'_, '_>], published: bool) -> Figure {
    let mut sizes: Vec<Option<u64>> = counted.iter().map(Counted::size_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut figure = Figure::new("System calls of each case, counted in a separate run");
    // The largest size first: there the ways differ most.
    for size in sizes.into_iter().rev() {
        let own: Vec<&Counted<'_, '_>> =
            counted.iter().filter(|case| case.size_bytes() == size).collect();
        let label = size.map_or_else(|| "Other".to_owned(), bytes);
        figure = figure.with_table(label.clone(), &table(&label, &own, published));
    }
    figure
}

fn table(size: &str, counted: &[&Counted<'_, '_>], published: bool) -> Table {
    let mut columns = vec![words("Case"), words("Calls"), numbers("All")];
    if published {
        columns.push(words("Published"));
    }
    let mut table = Table::new(format!("System calls, {size}"), &columns);
    for case in counted {
        let mut calls: Vec<_> = case.1.iter().collect();
        // By number, and of equal ones by name: the page is the same at each making.
        calls.sort_by_key(|&(name, n)| (Reverse(n), name));
        let name = Cell::code(case.0.variant());
        let mut row = vec![name, listed(calls).into(), count(case.all()).into()];
        if published {
            row.push(case.published().map_or_else(Cell::absent, |known| {
                Cell::from(listed(&known)).small(case.0.text("syscalls_printed").unwrap_or(""))
            }));
        }
        table.rows.push(row);
    }
    table
}

fn listed<'c>(calls: impl IntoIterator<Item = (&'c String, &'c u64)>) -> String {
    let one = |(name, n): (&String, &u64)| format!("{}\u{a0}{name}", count(*n));
    calls.into_iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The most and the fewest calls for the same bytes.
fn said(counted: &[Counted<'_, '_>]) -> Vec<String> {
    let Some(size) = counted.iter().filter_map(Counted::size_bytes).max() else {
        return Vec::new();
    };
    let same = || counted.iter().filter(|case| case.size_bytes() == Some(size));
    let (Some(most), Some(least)) =
        (same().max_by_key(|case| case.all()), same().min_by_key(|case| case.all()))
    else {
        return Vec::new();
    };
    if most.all() == least.all() {
        return Vec::new();
    }
    vec![format!(
        "For the same {}, {} takes {} system calls and {} takes {}.",
        bytes(size),
        code(most.0.variant()),
        count(most.all()),
        code(least.0.variant()),
        count(least.all())
    )]
}
