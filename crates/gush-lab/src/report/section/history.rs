//! The same cases in several runs of the same machine.

use crate::cases::{CaseRun, SuiteRun};
use crate::compare;
use crate::model::Run;
use crate::report::data::Data;
use crate::report::lines::polyline;
use crate::report::number::{around, count, figure, plural, range, times};
use crate::report::page::{Body, Cell, Figure, Section, Spark, Table, Tone, numbers, words};
use crate::report::scale::Scale;
use crate::stats::{Estimate, Verdict};

/// The newest runs that a table has columns for, and a course points for.
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
             interval of their ratio lies beyond 5 %, and beyond all that other programs and machines beside this one can \
             have made of the difference.",
            plural(data.own().count(), "run")
        )],
        figures,
        notes: Vec::new(),
    })
}

/// A case in each run with the case's suite.
struct Course<'a> {
    case: &'a str,
    taken: Vec<Option<(&'a Run, &'a CaseRun<'a>)>>,
}

fn figure_of<'a>(suite: &str, mut taken: Vec<&'a SuiteRun<'a>>) -> Option<Figure> {
    taken.retain(|taken| taken.is_followed());
    taken.drain(..taken.len().saturating_sub(RUNS));
    let newest = taken.last()?;
    let courses: Vec<Course<'a>> = newest
        .cases
        .iter()
        .map(|case| Course {
            case: case.name,
            taken: taken.iter().map(|suite| Some((suite.run, suite.like(case)?))).collect(),
        })
        .filter(|course| course.taken.iter().flatten().count() > 1)
        .collect();
    if courses.is_empty() {
        return None;
    }
    let times = taken.iter().map(|taken| taken.run.started.strftime("%m-%d %H:%M").to_string());
    Some(
        Figure::new(format!("{}, run by run", super::code(suite)))
            .with("Course", Body::Table(course_table(suite, newest.unit(), &courses)))
            .with("Table", Body::Table(every_run(suite, newest.unit(), &courses, times))),
    )
}

fn course_table(suite: &str, unit: &str, courses: &[Course<'_>]) -> Table {
    let columns = [
        words("Case"),
        words("Course"),
        numbers("Runs"),
        numbers("Least … most"),
        numbers(format!("Newest, {unit}")),
        numbers("To the one before"),
        words("It is"),
    ];
    let mut table = Table::new(format!("Medians of {suite} over the runs"), &columns);
    for course in courses {
        let all: Vec<(&Run, &CaseRun<'_>)> = course.taken.iter().copied().flatten().collect();
        let [.., (run_before, case_before), (newest_run, case)] = all[..] else { continue };
        let known: Vec<Estimate> = all.iter().filter_map(|(_, case)| case.compared()).collect();
        let [.., before, newest] = known[..] else { continue };
        let medians = known.iter().map(|estimate| estimate.value);
        let (least, most) =
            medians.fold((f64::INFINITY, 0.0), |(a, b), median| (median.min(a), median.max(b)));
        let undecided = compare::undecided(run_before, newest_run);
        let verdict = Verdict::of(case.times(case_before).as_ref(), undecided);
        let tone = match verdict {
            Verdict::Faster => Tone::GOOD,
            Verdict::Slower => Tone::BAD,
            Verdict::CannotTell => Tone::ABSENT,
        };
        table.rows.push(vec![
            Cell::code(course.case),
            Cell { spark: Some(spark(&known)), ..Cell::default() },
            count(known.len() as u64).into(),
            range(least, most).into(),
            Cell::from(figure(newest.value)).small(around(newest)),
            times(newest.value / before.value).into(),
            Cell::toned(verdict.to_string(), tone),
        ]);
    }
    table
}

/// From zero, so that noise looks small.
fn spark(known: &[Estimate]) -> Spark {
    const WIDTH: f64 = 120.0;
    const HEIGHT: f64 = 24.0;
    let scale = Scale::linear(known.iter().map(|estimate| estimate.value));
    let last = (known.len().max(2) - 1) as f64;
    // A tenth of a dot is finer than any screen, and keeps the page small.
    let tenth = |place: f64| (place * 10.0).round() / 10.0;
    let points: Vec<(f64, f64)> = known
        .iter()
        .enumerate()
        .map(|(index, estimate)| {
            // The y of SVG grows downwards.
            let y = HEIGHT - scale.at(estimate.value) / 100.0 * HEIGHT;
            (tenth(index as f64 / last * WIDTH), tenth(y))
        })
        .collect();
    let (last_x, last_y) = points.last().copied().unwrap_or_default();
    Spark { points: polyline(points.into_iter()), last_x, last_y }
}

fn every_run(
    suite: &str,
    unit: &str,
    courses: &[Course<'_>],
    times: impl Iterator<Item = String>,
) -> Table {
    let mut columns = vec![words("Case")];
    columns.extend(times.map(numbers));
    let mut table = Table::new(format!("Medians of {suite} in each run, {unit}"), &columns);
    for course in courses {
        let mut row = vec![Cell::code(course.case)];
        row.extend(course.taken.iter().map(|taken| {
            let Some(own) = taken.and_then(|(_, case)| case.compared()) else {
                return Cell::absent();
            };
            Cell::from(figure(own.value)).small(around(own))
        }));
        table.rows.push(row);
    }
    table
}
