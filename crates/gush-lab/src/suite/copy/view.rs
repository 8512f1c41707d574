//! Copies as CSV and as tables: by size the ways with bars, and the system calls of the largest size.

use std::fmt::Write;

use super::case::size_text;
use super::published::{agrees, published};
use crate::case::View;
use crate::count::{self, Calls};
use crate::model::{Measured, Sample};
use crate::stats::Summary;
use crate::{csv, table};

/// The suite's CSV and table.
#[derive(Clone, Copy, Debug)]
pub struct Copies;

impl View for Copies {
    fn csv_header(&self) -> &str {
        "case,method,buffer_bytes,size_bytes,round,wall_s,user_s,system_s,gib_per_s,syscalls"
    }

    /// ```
    /// use gush_lab::{case::View, model::{Measured, Sample}, suite::copy::Copies};
    /// let measured = Measured { wall_s: Some(0.5), gib_per_s: Some(1.0), ..Measured::default() }
    ///     .with("method", "read-write").with("buffer_bytes", 4096).with("size_bytes", 536_870_912)
    ///     .with("syscalls", serde_json::json!({"read": 131_074, "write": 131_072}));
    /// let sample = Sample { suite: "copy".into(), case: "read-write-4096@512M".into(), round: 1, measured };
    /// assert_eq!(
    ///     Copies.csv_row(&sample),
    ///     "read-write-4096@512M,read-write,4096,536870912,1,0.500000,,,1.000000,read=131074;write=131072"
    /// );
    /// ```
    fn csv_row(&self, sample: &Sample) -> String {
        let Sample { case, round, measured, .. } = sample;
        let [method, buffer, size] =
            ["method", "buffer_bytes", "size_bytes"].map(|name| csv::fact(measured, name));
        let [wall, user, system, speed] =
            [measured.wall_s, measured.user_s, measured.system_s, measured.gib_per_s]
                .map(csv::figure);
        let calls =
            calls(measured, "syscalls").map(|calls| count::line(&calls)).unwrap_or_default();
        let case = csv::field(case);
        format!("{case},{method},{buffer},{size},{round},{wall},{user},{system},{speed},{calls}")
    }

    fn table(&self, samples: &[Sample]) -> String {
        let rows = rows(samples);
        let mut text = String::new();
        for size_bytes in sizes(&rows) {
            let own: Vec<&Row<'_>> =
                rows.iter().filter(|row| row.size_bytes == size_bytes).collect();
            speeds(&mut text, size_bytes, &own);
        }
        if rows.iter().any(|row| row.wall_s < TICK_S) {
            text.push_str(
                "Below a clock tick the kernel guesses what is the user's and what the system's: trust their sum.\n\n",
            );
        }
        if let Some(largest) = sizes(&rows).into_iter().max() {
            let own: Vec<&Row<'_>> = rows.iter().filter(|row| row.size_bytes == largest).collect();
            system_calls(&mut text, largest, &own);
        }
        text
    }
}

/// A tick at the lowest common rate, 100 Hz; user and system time are split in proportion to ticks
/// (`cputime_adjust`, `kernel/sched/cputime.c`).
const TICK_S: f64 = 0.01;

/// A case with all its samples.
struct Row<'a> {
    /// The case's name without its size.
    name: &'a str,
    way: &'a str,
    size_bytes: u64,
    speed: Option<Summary>,
    user_s: f64,
    system_s: f64,
    wall_s: f64,
    first: &'a Measured,
}

fn rows(samples: &[Sample]) -> Vec<Row<'_>> {
    let mut names: Vec<&str> = Vec::new();
    for sample in samples {
        if !names.contains(&sample.case.as_str()) {
            names.push(&sample.case);
        }
    }
    let row = |case: &str| {
        let own: Vec<&Sample> = samples.iter().filter(|sample| sample.case == case).collect();
        let first = own.first()?;
        let median = |of: fn(&Measured) -> Option<f64>| {
            let figures: Vec<f64> = own.iter().filter_map(|sample| of(&sample.measured)).collect();
            Summary::of(&figures)
        };
        let seconds = |of| median(of).map_or(0.0, |summary| summary.median);
        Some(Row {
            name: first.case.rsplit_once('@').map_or(first.case.as_str(), |(name, _)| name),
            way: first.measured.facts.get("way")?.as_str()?,
            size_bytes: first.measured.facts.get("size_bytes")?.as_u64()?,
            speed: median(|measured| measured.gib_per_s),
            user_s: seconds(|measured| measured.user_s),
            system_s: seconds(|measured| measured.system_s),
            wall_s: seconds(|measured| measured.wall_s),
            first: &first.measured,
        })
    };
    names.into_iter().filter_map(row).collect()
}

fn sizes(rows: &[Row<'_>]) -> Vec<u64> {
    let mut sizes = Vec::new();
    for row in rows {
        if !sizes.contains(&row.size_bytes) {
            sizes.push(row.size_bytes);
        }
    }
    sizes
}

fn width(rows: &[&Row<'_>]) -> usize {
    rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max("copy".len())
}

// Writing to a String cannot fail: the results of writeln! are dropped.

fn speeds(text: &mut String, size_bytes: u64, rows: &[&Row<'_>]) {
    let width = width(rows);
    let most =
        rows.iter().filter_map(|row| row.speed).map(|speed| speed.median).fold(0.0, f64::max);
    let _ = writeln!(
        text,
        "{:width$}  {:>7}  {:>15}  {:>9}  {:>9}  {:>9}",
        format!("{} a file", size_text(size_bytes)),
        "GiB/s",
        "least … most",
        "ms",
        "user ms",
        "system ms"
    );
    for Row { name, speed, wall_s, user_s, system_s, .. } in rows {
        let speed = speed.unwrap_or(Summary { least: 0.0, median: 0.0, most: 0.0 });
        let range = format!("{:.2} … {:.2}", speed.least, speed.most);
        let _ = writeln!(
            text,
            "{name:width$}  {:7.2}  {range:>15}  {:9.3}  {:9.3}  {:9.3}  {}",
            speed.median,
            wall_s * 1e3,
            user_s * 1e3,
            system_s * 1e3,
            table::bar(speed.median, most)
        );
    }
    text.push('\n');
}

fn system_calls(text: &mut String, size_bytes: u64, rows: &[&Row<'_>]) {
    let counted: Vec<(&Row<'_>, Calls)> =
        rows.iter().filter_map(|row| Some((*row, calls(row.first, "syscalls")?))).collect();
    if counted.is_empty() {
        return;
    }
    let width = width(rows);
    let lines: Vec<String> = counted.iter().map(|(_, calls)| count::line(calls)).collect();
    let calls_width = lines.iter().map(String::len).max().unwrap_or(0);
    let _ = writeln!(
        text,
        "{:width$}  {:calls_width$}  {:>7}  published",
        "copy",
        format!("system calls for {}", size_text(size_bytes)),
        "in all"
    );
    for ((row, own), line) in counted.iter().zip(&lines) {
        let in_all = calls(row.first, "syscalls_in_all").map_or(0, |calls| calls.values().sum());
        let told = match published(row.way, size_bytes) {
            None => String::new(),
            Some(published) if agrees(own, &published) => "the same".to_owned(),
            Some(published) => format!("DIFFERS: {}", count::line(&published)),
        };
        let line = format!("{:width$}  {line:calls_width$}  {in_all:>7}  {told}", row.name);
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text.push_str(
        "The calls that move the data, counted by ptrace in a run of their own, and one read of the loader's:\n\
         so they stand in the published table, whose programs are C. In all: every call of our process.\n",
    );
}

fn calls(measured: &Measured, fact: &str) -> Option<Calls> {
    let calls = measured.facts.get(fact)?.as_object()?;
    Some(calls.iter().filter_map(|(name, count)| Some((name.clone(), count.as_u64()?))).collect())
}
