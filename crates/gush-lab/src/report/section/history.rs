//! The same cases in several runs of the same machine.

use crate::cases::{CaseRun, SuiteRun};
use crate::compare;
use crate::report::data::Data;
use crate::report::number::times;
use crate::report::page::{Cell, Figure, Section, Table, Tone, numbers, words};
use crate::stats::Verdict;
use gush_text::plural;

/// How many of the newest runs have a column.
const RUNS: usize = 12;

pub fn section(data: &Data<'_>) -> Option<Section> {
    let machine = data.machine()?;
    let figures: Vec<Figure> = data
        .suites()
        .into_iter()
        .filter_map(|suite| figure_of(suite, data.every(machine, suite).collect()))
        .collect();
    (!figures.is_empty()).then(|| Section {
        id: "history",
        title: "History".to_owned(),
        said: vec![format!(
            "{} of this machine. A case is called faster or slower than in the run before only where the \
             interval of their ratio lies beyond 5 %, and beyond all that other programs, and other machines on this host, can \
             have made of the difference.",
            plural(data.own().count(), "run")
        )],
        figures,
        notes: Vec::new(),
    })
}

fn figure_of<'a>(suite: &str, mut taken: Vec<&'a SuiteRun<'a>>) -> Option<Figure> {
    taken.retain(|taken| taken.is_followed());
    taken.drain(..taken.len().saturating_sub(RUNS));
    let newest = taken.last()?;
    let mut columns = vec![words("Case")];
    let started = |taken: &&SuiteRun<'_>| taken.run.started.strftime("%m-%d %H:%M").to_string();
    columns.extend(taken.iter().map(started).map(numbers));
    columns.extend([numbers("To the one before"), words("It is")]);
    let caption = format!("Medians of {suite} in each run, {}", newest.unit());
    let mut table = Table::new(caption, &columns);
    for case in &newest.cases {
        let known: Vec<Option<&CaseRun<'_>>> = taken.iter().map(|one| one.like(case)).collect();
        let before = taken
            .iter()
            .zip(&known)
            .rev()
            .skip(1)
            .find_map(|(one, known)| Some((one.run, (*known)?)));
        let (Some((run_before, before)), Some(own)) = (before, case.compared()) else { continue };
        let Some(median_before) = before.compared() else { continue };
        let undecided = compare::undecided(run_before, newest.run);
        let verdict = Verdict::of(case.times(before).as_ref(), undecided);
        let tone = match verdict {
            Verdict::Faster => Tone::GOOD,
            Verdict::Slower => Tone::BAD,
            Verdict::CannotTell => Tone::ABSENT,
        };
        let median = |case: &Option<&CaseRun<'_>>| Cell::of(case.and_then(CaseRun::compared));
        let mut row = vec![Cell::code(case.name)];
        row.extend(known.iter().map(median));
        row.push(times(own.value / median_before.value).into());
        row.push(Cell::toned(verdict.to_string(), tone));
        table.rows.push(row);
    }
    let caption = format!("{}, run by run", super::code(suite));
    (!table.rows.is_empty()).then(|| Figure::new(caption).with_table("", &table))
}
