//! Which method moves bytes from which end to which: a grid for each method, and one of all.

use gush_text::plural;
use std::collections::BTreeSet;

use super::s4;
use super::view::{self, Cells};
use super::{Kind, Method, SUITE};
use crate::cases::SuiteRun;
use crate::report::data::Data;
use crate::report::number::{count, figure};
use crate::report::page::{Cell, Figure, Section, Table, Tone, words};

/// The content of a grid's cell; the fastest of all has `most` GiB/s.
fn cell(tried: &view::Cell<'_>, most: f64) -> Cell {
    match (tried.works(), tried.speed()) {
        (true, Some(speed)) => {
            Cell::toned(figure(speed), Tone::heat((speed.ln_1p() / most.ln_1p()).min(1.0)))
        }
        (true, None) => Cell::toned("✓", Tone::GOOD),
        // A rule of gush's own says no.
        (false, _) if matches!(tried.word(), "" | "refused") => Cell::toned("·", Tone::ABSENT),
        (false, _) => Cell::toned(tried.word(), Tone::REFUSED),
    }
}

pub(super) fn section(data: &Data<'_>) -> Option<Section> {
    let suite = data.suite(SUITE.name)?;
    let cells = Cells::of(suite.cases.iter().flat_map(|case| case.samples.iter().copied()));
    if cells.cells.is_empty() {
        return None;
    }
    let mut notes = vec![
        "✓ or a number (GiB/s): it works, and the bytes were verified. A name such as EINVAL: the kernel's \
         answer; a word such as false-end: how else it went wrong. A dot: a rule of gush itself says no. \
         A dash: not tried, for want of time or because it was not asked for."
            .to_owned(),
    ];
    notes.extend(skipped(suite, &cells));
    let of_table = |(table, note): (Table, &str)| {
        Figure::of_table(&Table { caption: format!("{}; {note}", table.caption), ..table })
    };
    let mut figures: Vec<Figure> = s4::tables(&cells).into_iter().map(of_table).collect();
    figures.push(figure_of(&cells));
    Some(Section {
        id: SUITE.name,
        title: SUITE.title.to_owned(),
        said: said(&cells),
        figures,
        notes,
    })
}

/// The names of the methods, in the order of [`Method::all`], unknown ones last.
fn methods<'a>(cells: &Cells<'a>) -> Vec<&'a str> {
    let names: BTreeSet<&str> = cells.cells.keys().map(|(method, ..)| *method).collect();
    let mut names: Vec<&str> = names.into_iter().collect();
    let all = Method::all();
    names.sort_by_key(|name| {
        all.iter().position(|method| method.name() == *name).unwrap_or(all.len())
    });
    names
}

fn figure_of(cells: &Cells<'_>) -> Figure {
    let methods = methods(cells);
    let most = cells.cells.values().filter_map(view::Cell::speed).fold(1.0, f64::max);
    let mut figure = Figure::new("Source (rows) to target (columns), method by method");
    figure.print_all = true;
    if methods.len() > 1 {
        let caption = format!("How many of {} methods work", methods.len());
        let all = grid(&caption, &cells.kinds, &cells.kinds, |from, to| {
            let here = || methods.iter().filter_map(|method| cells.get(method, from, to));
            let works = here().filter(|tried| tried.works()).count();
            let share = works as f64 / methods.len() as f64;
            here().next().map(|_| match works {
                0 => Cell::toned("0", Tone::REFUSED),
                _ => Cell::toned(count(works as u64), Tone::heat(share)),
            })
        });
        figure = figure.with_table("All", &all);
    }
    for method in methods {
        let [sources, targets] = [true, false].map(|is_source| cells.kinds_of(method, is_source));
        let tried = |from, to| cells.get(method, from, to).map(|tried| cell(tried, most));
        figure = figure.with_table(method, &grid(method, &sources, &targets, tried));
    }
    figure
}

fn grid(
    caption: &str,
    sources: &[Kind],
    targets: &[Kind],
    cell: impl Fn(Kind, Kind) -> Option<Cell>,
) -> Table {
    let mut columns = vec![words("From ↓ to →")];
    columns.extend(targets.iter().map(|target| words(target.name())));
    let mut table = Table { grid: true, ..Table::new(caption, &columns) };
    for &from in sources {
        let mut row: Vec<Option<Cell>> = targets.iter().map(|&to| cell(from, to)).collect();
        if row.iter().any(Option::is_some) {
            row.insert(0, Some(Cell::code(from.name())));
            table.rows.push(row.into_iter().map(Option::unwrap_or_default).collect());
        }
    }
    table
}

fn said(cells: &Cells<'_>) -> Vec<String> {
    let tried = cells.cells.iter();
    let pairs: BTreeSet<(Kind, Kind)> =
        cells.cells.keys().map(|&(_, from, to)| (from, to)).collect();
    let working: Vec<(Kind, Kind)> =
        tried.filter(|(_, cell)| cell.works()).map(|(&(_, from, to), _)| (from, to)).collect();
    let served = working.iter().collect::<BTreeSet<_>>().len();
    let served = match served == pairs.len() {
        true => "all".to_owned(),
        false => format!("{served} of {}", pairs.len()),
    };
    vec![format!(
        "{} on {}: {} of {} attempts move the bytes, and {served} pairs are served by some method.",
        plural(methods(cells).len(), "method"),
        plural(pairs.len(), "pair"),
        count(working.len() as u64),
        count(cells.cells.len() as u64),
    )]
}

fn skipped(suite: &SuiteRun<'_>, cells: &Cells<'_>) -> Option<String> {
    let without = suite.cases.len().saturating_sub(cells.cells.len());
    (without > 0).then(|| format!("{} gave no result.", plural(without, "case")))
}
