//! System calls by name, counted in a separate run, next to the published counts.

use super::code;
use crate::cases::{CaseRun, SuiteRun};
use crate::count::{Calls, of_fact};
use crate::report::data::Data;
use crate::report::number::{bytes, count};
use crate::report::page::{Body, Cell, Figure, Section, Table, numbers, words};

pub fn section(data: &Data<'_>) -> Option<Section> {
    let suites: Vec<&SuiteRun<'_>> =
        data.suites().into_iter().filter_map(|name| data.suite(name)).collect();
    let counted: Vec<Counted<'_>> =
        suites.iter().flat_map(|suite| &suite.cases).filter_map(Counted::of).collect();
    if counted.is_empty() {
        return None;
    }
    let published = counted.iter().any(|case| case.published.is_some());
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

#[derive(Debug)]
struct Counted<'a> {
    case: &'a str,
    size_bytes: Option<u64>,
    calls: Calls,
    published: Option<Calls>,
    /// The published text instead, with the correction.
    printed: Option<&'a str>,
}

impl<'a> Counted<'a> {
    fn of(case: &CaseRun<'a>) -> Option<Self> {
        let calls = of_fact(case.fact("syscalls")?)?;
        let size_bytes = case.number("size_bytes");
        let published = case.fact("syscalls_published").and_then(of_fact);
        let printed = case.text("syscalls_printed");
        (!calls.is_empty()).then_some(Self {
            case: case.name,
            size_bytes,
            calls,
            published,
            printed,
        })
    }

    /// Without the size, which is shown elsewhere.
    fn name(&self) -> &'a str {
        self.case.rsplit_once('@').map_or(self.case, |(name, _)| name)
    }

    fn all(&self) -> u64 {
        self.calls.values().fold(0, |all, count| all.saturating_add(*count))
    }
}

/// A table for each size, the largest first.
fn figure_of(counted: &[Counted<'_>], published: bool) -> Figure {
    let mut sizes: Vec<Option<u64>> = counted.iter().map(|case| case.size_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut figure = Figure::new("System calls of each case, counted in a separate run");
    // The largest size first: there the ways differ most.
    for size in sizes.into_iter().rev() {
        let own: Vec<&Counted<'_>> =
            counted.iter().filter(|case| case.size_bytes == size).collect();
        let label = size.map_or_else(|| "Other".to_owned(), bytes);
        figure = figure.with(label.clone(), Body::Table(table(&label, &own, published)));
    }
    figure
}

fn table(size: &str, counted: &[&Counted<'_>], published: bool) -> Table {
    let mut columns = vec![words("Case"), words("Calls"), numbers("All")];
    if published {
        columns.push(words("Published"));
    }
    let mut table = Table::new(format!("System calls, {size}"), &columns);
    for case in counted {
        let mut calls: Vec<(&str, u64)> =
            case.calls.iter().map(|(name, n)| (name.as_str(), *n)).collect();
        // By number, and of equal ones by name: the page is the same at each making.
        calls.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        let mut row =
            vec![Cell::code(case.name()), listed(&calls).into(), count(case.all()).into()];
        if published {
            row.push(case.published.as_ref().map_or_else(Cell::absent, |known| {
                let known: Vec<(&str, u64)> =
                    known.iter().map(|(name, n)| (name.as_str(), *n)).collect();
                let cell = Cell::from(listed(&known));
                case.printed.map_or(cell.clone(), |printed| cell.small(printed))
            }));
        }
        table.rows.push(row);
    }
    table
}

fn listed(calls: &[(&str, u64)]) -> String {
    let one = |(name, n): &(&str, u64)| format!("{}\u{a0}{name}", count(*n));
    calls.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The most and the fewest calls for the same bytes.
fn said(counted: &[Counted<'_>]) -> Vec<String> {
    let Some(size) = counted.iter().filter_map(|case| case.size_bytes).max() else {
        return Vec::new();
    };
    let same = || counted.iter().filter(|case| case.size_bytes == Some(size));
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
        code(most.name()),
        count(most.all()),
        code(least.name()),
        count(least.all())
    )]
}
