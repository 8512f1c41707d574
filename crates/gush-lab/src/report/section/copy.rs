//! Copying files: each method over the size, cached and cold.

use std::collections::BTreeMap;

use super::code;
use crate::report::bars::{self, Bar};
use crate::report::data::{Case, Data, Suite};
use crate::report::estimate::Estimate;
use crate::report::lines::{self, Point, Series};
use crate::report::number::{bytes, figure, range, times_between};
use crate::report::page::{Body, Cell, Column, Figure, Section, Table, numbers, words};

const SUITE: &str = "copy";

/// One copy of one size with what it was: a case as this section sees it.
#[derive(Debug)]
struct Copy<'a> {
    case: &'a str,
    method: &'a str,
    size_bytes: u64,
    cache: &'a str,
    speed: Estimate,
}

pub fn section(data: &Data<'_>) -> Option<Section> {
    let suite = data.suite(SUITE)?;
    let copies = copies(suite);
    let caches = distinct(copies.iter().map(|copy| copy.cache));
    let figures: Vec<Figure> = caches
        .iter()
        .map(|cache| {
            let own: Vec<&Copy<'_>> = copies.iter().filter(|copy| copy.cache == *cache).collect();
            figure_of(cache, &own)
        })
        .collect();
    (!figures.is_empty()).then(|| Section {
        id: SUITE,
        title: "Copying files".to_owned(),
        said: caches.iter().filter_map(|cache| said(&copies, cache)).collect(),
        figures,
        notes: vec![
            "A line shows the best variant of a method at each size; pointing at it, or the arrow keys, tell \
             which. The table has every variant."
                .to_owned(),
        ],
    })
}

fn copies<'a>(suite: &Suite<'a>) -> Vec<Copy<'a>> {
    let copy = |case: &Case<'a>| {
        Some(Copy {
            case: case.name,
            method: case.text("method").unwrap_or(case.name),
            size_bytes: case.number("size_bytes").unwrap_or(case.samples.last()?.measured.bytes),
            cache: case.text("cache").unwrap_or("cached"),
            speed: case.speed()?.clone(),
        })
    };
    suite.cases.iter().filter_map(copy).collect()
}

fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut all = Vec::new();
    for value in values {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

/// Its cases in their order, and what they are called without the size.
fn figure_of(cache: &str, copies: &[&Copy<'_>]) -> Figure {
    let sizes = sizes(copies);
    if let [size] = sizes.as_slice() {
        let bars: Vec<Bar> =
            copies.iter().map(|copy| Bar::new(variant(copy), copy.speed.clone())).collect();
        return bars::figure_of(
            format!("A file of {}, {cache}", bytes(*size)),
            "GiB/s",
            &bars,
            &[],
        );
    }
    let series = series(copies, &sizes);
    let caption = format!("Throughput by size of the file, {cache}");
    let drawn = |logarithmic| Body::Lines(lines::drawn(&series, "GiB/s", "File size", logarithmic));
    Figure::new(caption.clone())
        .with("Linear", drawn(false))
        .with("Logarithmic", drawn(true))
        .with("Table", Body::Table(table(caption, copies, &sizes)))
}

fn sizes(copies: &[&Copy<'_>]) -> Vec<u64> {
    let mut sizes: Vec<u64> = copies.iter().map(|copy| copy.size_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// A method's fastest variant at each size.
fn series(copies: &[&Copy<'_>], sizes: &[u64]) -> Vec<Series> {
    distinct(copies.iter().map(|copy| copy.method))
        .into_iter()
        .map(|method| {
            let best = |size: &u64| {
                let here = copies
                    .iter()
                    .filter(|copy| copy.method == method && copy.size_bytes == *size)
                    .max_by(|a, b| a.speed.median.total_cmp(&b.speed.median))?;
                let about = if here.case == method { "" } else { here.case };
                Some(Point {
                    x: *size as f64,
                    x_text: bytes(*size),
                    low: here.speed.low,
                    median: here.speed.median,
                    high: here.speed.high,
                    about: about.to_owned(),
                })
            };
            Series { name: method.to_owned(), points: sizes.iter().filter_map(best).collect() }
        })
        .collect()
}

/// Every variant by size.
fn table(caption: String, copies: &[&Copy<'_>], sizes: &[u64]) -> Table {
    let mut columns: Vec<Column> = vec![words("Case")];
    columns.extend(sizes.iter().map(|size| numbers(bytes(*size))));
    let mut table = Table::new(format!("{caption}, GiB/s: median and interval"), &columns);
    let mut rows: BTreeMap<(usize, String), BTreeMap<u64, &Estimate>> = BTreeMap::new();
    let names = distinct(copies.iter().map(|copy| variant(copy)));
    for copy in copies {
        let name = variant(copy);
        let place = names.iter().position(|known| *known == name).unwrap_or(names.len());
        rows.entry((place, name)).or_default().insert(copy.size_bytes, &copy.speed);
    }
    for ((_, name), by_size) in rows {
        let mut row = vec![Cell::code(name)];
        row.extend(sizes.iter().map(|size| match by_size.get(size) {
            Some(speed) => Cell::from(figure(speed.median)).small(range(speed.low, speed.high)),
            None => Cell::absent(),
        }));
        table.rows.push(row);
    }
    table
}

/// A case's name without what the table says elsewhere: `read-write-128K+cold@256M` is
/// `read-write-128K` among cold files.
fn variant(copy: &Copy<'_>) -> String {
    let name = copy.case.rsplit_once('@').map_or(copy.case, |(name, _)| name);
    name.replace(&format!("+{}", copy.cache), "")
}

/// The page's first sentence, when there are no pipes.
pub fn lead(data: &Data<'_>) -> Option<String> {
    let suite = data.suite(SUITE)?;
    let copies = copies(suite);
    let best = copies.iter().max_by(|a, b| a.speed.median.total_cmp(&b.speed.median))?;
    Some(format!(
        "On this machine, files are copied at up to **{}** GiB/s, by {}.",
        figure(best.speed.median),
        code(best.method)
    ))
}

/// The fastest method for the largest file, and how it stands to read-write.
fn said(copies: &[Copy<'_>], cache: &str) -> Option<String> {
    let own: Vec<&Copy<'_>> = copies.iter().filter(|copy| copy.cache == cache).collect();
    let size = *sizes(&own).last()?;
    let best = |wanted: &dyn Fn(&str) -> bool| {
        own.iter()
            .filter(|copy| copy.size_bytes == size && wanted(copy.method))
            .max_by(|a, b| a.speed.median.total_cmp(&b.speed.median))
    };
    // A clone moves no bytes, so that its speed says nothing about moving them.
    let fastest = best(&|method| method != "reflink")?;
    let mut said = format!(
        "For a file of {}, {cache}, {} is fastest: {} GiB/s",
        bytes(size),
        code(fastest.method),
        figure(fastest.speed.median)
    );
    if let Some(plain) =
        best(&|method| method == "read-write").filter(|_| fastest.method != "read-write")
    {
        said.push_str(&match fastest.speed.times(&plain.speed) {
            Some(ratio) => {
                format!(", {} what `read-write` does at its best", times_between(ratio))
            }
            None => ", but not to be told from `read-write` at its best".to_owned(),
        });
    }
    said.push('.');
    Some(said)
}
