//! Which method moves bytes from which end to which: a grid for each method, and one of all.

use crate::model::Measured;
use crate::report::data::{Case, Data, Suite};
use crate::report::number::{count, figure, plural};
use crate::report::page::{Body, Cell, Figure, Section, Table, Tone, numbers, words};
use crate::stats::Summary;
use crate::suite::matrix::{Kind, Way, s4};

pub const SUITE: &str = "matrix";
/// In place of an errno, where a rule of gush's own says no.
const REFUSED: &str = "refused";

#[derive(Debug)]
struct Tried<'a> {
    method: &'a str,
    source: &'a str,
    target: &'a str,
    works: bool,
    errno: &'a str,
    gib_per_s: Option<f64>,
    /// The expectation, the meaning of another outcome, and the source of the expectation.
    unexpected: Option<[&'a str; 3]>,
}

impl<'a> Tried<'a> {
    fn of(case: &Case<'a>) -> Option<Self> {
        let works = case.is("works")?;
        let errno = case.text("errno").unwrap_or_default();
        Some(Self {
            method: case.text("method")?,
            source: case.text("source")?,
            target: case.text("target")?,
            works,
            errno,
            gib_per_s: median(case),
            unexpected: case.text("differs").map(|meaning| {
                let text = |name| case.text(name).unwrap_or_default();
                [text("expected"), meaning, text("because")]
            }),
        })
    }

    fn cell(&self, most: f64) -> Cell {
        let cell = match (self.works, self.gib_per_s) {
            (true, Some(speed)) => {
                // By the logarithm: one very fast cell would make all others look alike.
                Cell::toned(figure(speed), Tone::heat((speed.ln_1p() / most.ln_1p()).min(1.0)))
            }
            (true, None) => Cell::toned("✓", Tone::Good),
            (false, _) if matches!(self.errno, "" | REFUSED) => Cell::toned("·", Tone::Absent),
            (false, _) => Cell::toned(self.errno, Tone::Refused),
        };
        Cell { odd: self.unexpected.is_some(), ..cell }
    }
}

/// Of a cell's throughput; thousands of cells need no intervals.
fn median(case: &Case<'_>) -> Option<f64> {
    let speeds: Vec<f64> =
        case.samples.iter().filter_map(|sample| sample.measured.gib_per_s).collect();
    Summary::of(&speeds).map(|summary| summary.median).filter(|median| *median > 0.0)
}

pub fn section(data: &Data<'_>) -> Option<Section> {
    let suite = data.suite(SUITE)?;
    let tried: Vec<Tried<'_>> = suite.cases.iter().filter_map(Tried::of).collect();
    if tried.is_empty() {
        return None;
    }
    let mut notes = vec![
        "✓ or a number (GiB/s): it works, and the bytes were verified. A name such as EINVAL: the kernel's \
         answer; a word such as false-end: how else it went wrong. A dot: a rule of gush itself says no. ≠ \
         marks what differs from what the kernel is known to do."
            .to_owned(),
    ];
    notes.extend(skipped(suite));
    Some(Section {
        id: SUITE,
        title: "What moves to what".to_owned(),
        said: said(&tried),
        figures: [
            then_and_now(&tried),
            five_ways_in_time(suite),
            Some(figure_of(&tried)),
            differences(&tried),
        ]
        .into_iter()
        .flatten()
        .collect(),
        notes,
    })
}

fn figure_of(tried: &[Tried<'_>]) -> Figure {
    let methods = in_order(tried.iter().map(|tried| tried.method), way_place);
    let most = tried.iter().filter_map(|tried| tried.gib_per_s).fold(1.0, f64::max);
    let mut figure = Figure::new("Source (rows) to target (columns), method by method").print_all();
    if methods.len() > 1 {
        let caption = format!("How many of {} methods work", methods.len());
        figure = figure.with(
            "All",
            grid(tried, &caption, |here| {
                let works = here.iter().filter(|tried| tried.works).count();
                let share = works as f64 / methods.len() as f64;
                match works {
                    0 => Cell::toned("0", Tone::Refused),
                    _ => Cell::toned(count(works as u64), Tone::heat(share)),
                }
            }),
        );
    }
    for method in methods {
        let own = tried.iter().filter(|tried| tried.method == method);
        let body = grid(own, method, |here| here[0].cell(most));
        figure = figure.with(method, body);
    }
    figure
}

fn grid<'a>(
    tried: impl IntoIterator<Item = &'a Tried<'a>>,
    caption: &str,
    cell: impl Fn(&[&Tried<'a>]) -> Cell,
) -> Body {
    let tried: Vec<&Tried<'_>> = tried.into_iter().collect();
    let sources = in_order(tried.iter().map(|tried| tried.source), kind_place);
    let targets = in_order(tried.iter().map(|tried| tried.target), kind_place);
    let mut columns = vec![words("From ↓ to →")];
    columns.extend(targets.iter().map(|target| words(*target)));
    let mut table = Table { grid: true, ..Table::new(caption, &columns) };
    for source in sources {
        let mut row = vec![Cell::code(source)];
        for target in &targets {
            let here: Vec<&Tried<'_>> = tried
                .iter()
                .copied()
                .filter(|tried| tried.source == source && tried.target == *target)
                .collect();
            row.push(if here.is_empty() { Cell::from("") } else { cell(&here) });
        }
        table.rows.push(row);
    }
    Body::Table(table)
}

fn said(tried: &[Tried<'_>]) -> Vec<String> {
    let methods = distinct(tried.iter().map(|tried| tried.method));
    let mut pairs: Vec<(&str, &str)> =
        tried.iter().map(|tried| (tried.source, tried.target)).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let works = tried.iter().filter(|tried| tried.works).count();
    let mut served: Vec<(&str, &str)> = tried
        .iter()
        .filter(|tried| tried.works)
        .map(|tried| (tried.source, tried.target))
        .collect();
    served.sort_unstable();
    served.dedup();
    let mut said = vec![format!(
        "{} on {}: {} of {} attempts move the bytes, and {} of the pairs are served by some method.",
        plural(methods.len(), "method"),
        plural(pairs.len(), "pair"),
        count(works as u64),
        count(tried.len() as u64),
        if served.len() == pairs.len() {
            "all".to_owned()
        } else {
            format!("{} of {}", served.len(), pairs.len())
        }
    )
    .replace(" of the pairs are", " pairs are")];
    said.push(match tried.iter().filter(|tried| tried.unexpected.is_some()).count() {
        0 => "Nothing differs from what the kernel is known to do.".to_owned(),
        1 => "1 answer differs from what the kernel is known to do; see below.".to_owned(),
        n => format!("{n} answers differ from what the kernel is known to do; see below."),
    });
    said
}

/// Every answer that is not as expected; none when all are.
fn differences(tried: &[Tried<'_>]) -> Option<Figure> {
    let columns = ["Method", "From", "To", "Here", "Expected", "What it means", "Who says so"];
    let mut table =
        Table::new("What differs from what the kernel is known to do", &columns.map(words));
    for tried in tried {
        let Some([expected, meaning, because]) = tried.unexpected else { continue };
        let here = if tried.works { "works" } else { tried.errno };
        table.rows.push(vec![
            Cell::code(tried.method),
            tried.source.into(),
            tried.target.into(),
            Cell::code(here),
            Cell::code(expected),
            meaning.into(),
            because.into(),
        ]);
    }
    (!table.rows.is_empty()).then(|| Figure::of_table(table))
}

fn skipped(suite: &Suite<'_>) -> Option<String> {
    let without = suite.cases.iter().filter(|case| case.is("works").is_none()).count();
    (without > 0).then(|| format!("{} told no result.", plural(without, "case")))
}

/// Every name once, in the order that `place` gives, unknown ones last.
fn in_order<'a>(
    names: impl Iterator<Item = &'a str>,
    place: fn(&str) -> Option<usize>,
) -> Vec<&'a str> {
    let mut names = distinct(names);
    names.sort_by_key(|name| place(name).unwrap_or(usize::MAX));
    names
}

fn kind_place(name: &str) -> Option<usize> {
    Kind::ALL.iter().position(|kind| kind.name() == name)
}

fn way_place(name: &str) -> Option<usize> {
    Way::all().iter().position(|way| way.name() == name)
}

/// Five ways on four pairs, as an experiment of 2007 had them; none unless a part of the experiment was tried.
fn then_and_now(tried: &[Tried<'_>]) -> Option<Figure> {
    let file = s4::file_among(|kind| tried.iter().any(|tried| tried.source == kind.name()))?;
    let mut columns = vec![words("Way")];
    columns.extend(s4::PAIRS.iter().map(|(name, ..)| words(*name)));
    let caption =
        format!("Five ways on four pairs: in 2007, and now (files on {file}, sockets TCP)");
    let mut table = Table::new(caption, &columns);
    let end = |is_socket| if is_socket { Kind::Tcp } else { file }.name();
    for (way, in_2007) in s4::ROWS {
        let cells = s4::PAIRS.iter().zip(in_2007).map(|(&(_, from, to), then)| {
            let now = tried.iter().find(|tried| {
                tried.method == *way && tried.source == end(from) && tried.target == end(to)
            })?;
            let (text, tone) = match now.works {
                true => ("✓ works", Tone::Good),
                false => (now.errno, Tone::Refused),
            };
            let then = if *then { "in 2007: ✓" } else { "in 2007: EINVAL" };
            Some(Cell::toned(text, tone).small(then))
        });
        let cells: Vec<Option<Cell>> = cells.collect();
        if cells.iter().any(Option::is_some) {
            let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(Cell::absent));
            table.rows.push([Cell::code(*way)].into_iter().chain(cells).collect());
        }
    }
    (!table.rows.is_empty()).then(|| Figure::of_table(table))
}

/// Elapsed, user and system seconds of the five ways, and the processor's share, as the experiment of 2007 had them.
fn five_ways_in_time(suite: &Suite<'_>) -> Option<Figure> {
    let is = |case: &Case<'_>, fact: &str, name: &str| case.text(fact) == Some(name);
    let file =
        s4::file_among(|kind| suite.cases.iter().any(|case| is(case, "source", kind.name())))?;
    let end = |is_socket| if is_socket { Kind::Tcp } else { file }.name();
    let columns = ["Pair", "Way"].map(words).into_iter();
    let columns =
        columns.chain(["Elapsed s", "User s", "System s", "Processor", "GiB/s"].map(numbers));
    let mut table = Table::new(
        "The five ways in time: user and system seconds are those of the moving thread",
        &columns.collect::<Vec<_>>(),
    );
    for (pair, from, to) in s4::PAIRS {
        for (way, _) in s4::ROWS {
            let case = suite.cases.iter().find(|case| {
                is(case, "method", way)
                    && is(case, "source", end(*from))
                    && is(case, "target", end(*to))
            });
            let of = |seconds: fn(&Measured) -> Option<f64>| {
                let all = case?.samples.iter().filter_map(|sample| seconds(&sample.measured));
                Summary::of(&all.collect::<Vec<_>>()).map(|summary| summary.median)
            };
            let times = [of(|one| one.wall_s), of(|one| one.user_s), of(|one| one.system_s)];
            let ([Some(wall_s), Some(user_s), Some(system_s)], Some(speed)) =
                (times, case.and_then(median))
            else {
                continue;
            };
            let share = 100.0 * (user_s + system_s) / wall_s.max(1e-9);
            let mut row = vec![Cell::from(*pair), Cell::code(*way)];
            row.extend(
                [wall_s, user_s, system_s].map(|seconds| Cell::from(format!("{seconds:.3}"))),
            );
            row.extend([format!("{share:.0} %"), figure(speed)].map(Cell::from));
            table.rows.push(row);
        }
    }
    (!table.rows.is_empty()).then(|| Figure::of_table(table))
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut all = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}
