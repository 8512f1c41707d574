//! Several machines side by side.

use super::machine::name;
use crate::cases::{Case, Estimate, Suite};
use crate::compare;
use crate::model::Machine;
use crate::report::data::Data;
use crate::report::dots;
use crate::report::number::{figure, plural, times};
use crate::report::page::{Body, Cell, Figure, Section, Table, numbers, words};
use crate::stats::Verdict;

pub fn section(data: &Data<'_>) -> Option<Section> {
    let machines = data.machines();
    if machines.len() < 2 {
        return None;
    }
    let figures: Vec<Figure> =
        data.suites().into_iter().filter_map(|suite| figure_of(data, &machines, suite)).collect();
    (!figures.is_empty()).then(|| Section {
        id: "machines",
        title: "Machines side by side".to_owned(),
        said: vec![format!(
            "{}, each by its newest run. The first is the one that the rest of this page is about.",
            plural(machines.len(), "machine")
        )],
        figures,
        notes: Vec::new(),
    })
}

fn figure_of(data: &Data<'_>, machines: &[&Machine], suite: &str) -> Option<Figure> {
    let taken: Vec<(&Machine, &Suite<'_>)> = machines
        .iter()
        .filter_map(|machine| Some((*machine, data.every(machine, suite).next_back()?)))
        .filter(|(_, taken)| taken.is_followed())
        .collect();
    if taken.len() < 2 {
        return None;
    }
    let cases: Vec<&Case<'_>> = taken[0].1.cases.iter().collect();
    let names: Vec<String> = taken.iter().map(|(machine, _)| name(machine)).collect();
    let rows: Vec<_> = cases
        .iter()
        .map(|case| {
            let figures = taken.iter().map(|(_, suite)| suite.like(case)?.compared().cloned());
            (case.name.to_owned(), figures.collect::<Vec<Option<Estimate>>>())
        })
        // A case of one machine alone compares nothing.
        .filter(|(_, figures)| figures.iter().flatten().count() > 1)
        .collect();
    if rows.is_empty() {
        return None;
    }
    let unit = taken[0].1.unit();
    Some(
        Figure::new(format!("{} on each machine", super::code(suite)))
            .with("Logarithmic", dots::drawn(unit, &names, &rows, true))
            .with("Linear", dots::drawn(unit, &names, &rows, false))
            .with("Table", Body::Table(table(suite, &taken, &cases))),
    )
}

fn table(suite: &str, taken: &[(&Machine, &Suite<'_>)], cases: &[&Case<'_>]) -> Table {
    let mut columns = vec![words("Case")];
    columns.extend(taken.iter().map(|(machine, _)| numbers(name(machine))));
    let mut table =
        Table::new(format!("Medians of {suite} by machine, {}", taken[0].1.unit()), &columns);
    for case in cases {
        let first = case.compared();
        let mut row = vec![Cell::code(case.name)];
        row.extend(taken.iter().enumerate().map(|(place, (_, suite))| {
            let Some(own) = suite.like(case) else { return Cell::absent() };
            let Some(estimate) = own.compared() else { return Cell::absent() };
            let beside = match first {
                Some(first) if place > 0 => {
                    let margin = compare::undecided(taken[0].1.run, suite.run);
                    match Verdict::of(own.times(case).as_ref(), margin) {
                        Verdict::CannotTell => "not to be told from the first".to_owned(),
                        _ => format!("{} the first", times(estimate.median / first.median)),
                    }
                }
                _ => estimate.around(),
            };
            Cell::from(figure(estimate.median)).small(beside)
        }));
        table.rows.push(row);
    }
    table
}
