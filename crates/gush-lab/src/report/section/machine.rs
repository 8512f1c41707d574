//! The machines, the runs, and the facts that made their figures doubtful.

use crate::cases::distinct;
use crate::model::{Machine, Run};
use crate::report::data::Data;
use crate::report::number::{bytes, count};
use crate::report::page::{Cell, Figure, Section, Table, Tone, numbers, words};
use gush_text::plural;

/// With spaces that do not break.
const DAY: &str = "%Y‑%m‑%d";
const TIME: &str = "%H:%M:%S UTC";

pub fn section(data: &Data<'_>) -> Option<Section> {
    if data.runs.is_empty() {
        return None;
    }
    let machines = data.machines();
    let title = if machines.len() == 1 { "Machine and runs" } else { "Machines and runs" };
    let tables = machines.into_iter().map(facts).chain([runs(&data.runs)]);
    Some(Section {
        id: "machine",
        title: title.to_owned(),
        figures: tables
            .map(|table| Figure::of_table(&table))
            .chain(doubts(&data.runs))
            .chain(left_out(&data.runs))
            .collect(),
        ..Section::default()
    })
}

/// A machine's name in a few words.
pub fn name(machine: &Machine) -> String {
    let fact = |name| machine.facts.get(name).map(String::as_str);
    let short: String = machine.id.chars().take(8).collect();
    match fact("processor") {
        Some(processor) => format!("{processor} ({short})"),
        None => short,
    }
}

/// The machine and the time, below the page's first sentence.
pub fn byline(data: &Data<'_>) -> String {
    let (Some(machine), Some(run)) = (data.machine(), data.own().next_back()) else {
        return String::new();
    };
    let fact = |name: &str| machine.facts.get(name).cloned();
    let processors = fact("processors").map(|n| match n.as_str() {
        "1" => "1 processor".to_owned(),
        _ => format!("{n} processors"),
    });
    let kernel = fact("kernel").map(|kernel| match kernel.starts_with("Linux") {
        true => kernel,
        false => format!("Linux {kernel}"),
    });
    let gush = format!("gush {}", run.gush);
    let time = run.started.strftime("%-d %B %Y, %H:%M UTC").to_string();
    let rounds = rounds(data);
    let parts = [fact("processor"), processors, kernel, rounds, Some(gush), Some(time)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// The number of rounds that the cases shown were measured in: the least and the most.
fn rounds(data: &Data<'_>) -> Option<String> {
    let shown = data.suites().into_iter().filter_map(|name| data.suite(name));
    let rounds: Vec<usize> =
        shown.flat_map(|suite| &suite.cases).map(|case| case.samples.len()).collect();
    let (least, most) = (*rounds.iter().min()?, *rounds.iter().max()?);
    Some(match least == most {
        true => plural(most, "round"),
        false => format!("{least} to {}", plural(most, "round")),
    })
}

/// Facts in the order in which they matter, in the words of a person.
const FACTS: &[(&str, &str)] = &[
    ("host", "Host"),
    ("processor", "Processor"),
    ("processors", "Processors"),
    ("pinned", "Processors of a case's two programs"),
    ("virtualisation", "Virtualisation"),
    ("memory", "Memory"),
    ("memory_given_back", "Free memory is given back"),
    ("kernel", "Kernel"),
    ("kernel_build", "Kernel build"),
    ("mitigations", "Mitigations"),
    ("huge_pages", "Transparent huge pages"),
    ("huge_pages_shmem", "Huge pages in shared memory"),
    ("pipe_max_bytes", "Largest pipe"),
    ("pipe_user_pages_soft", "Pages in one user's pipes"),
    ("cgroup_processors", "Processors of the control group"),
    ("cgroup_memory", "Memory of the control group"),
    ("file_systems", "File systems"),
    ("governor", "Frequency governor"),
    ("turbo", "Turbo frequencies"),
    ("clock_source", "Clock source"),
    ("system", "Distribution"),
    ("libc", "C library"),
    ("architecture", "Architecture"),
];

/// The position of a fact; unknown ones come last.
fn place(fact: &str) -> usize {
    FACTS.iter().position(|(name, _)| *name == fact).unwrap_or(FACTS.len())
}

/// The value of a fact in words for people.
fn value(fact: &str, text: &str) -> String {
    match text.parse() {
        Ok(number) if fact.ends_with("_bytes") => bytes(number),
        _ => text.to_owned(),
    }
}

fn label(fact: &str) -> String {
    let known = FACTS.iter().find(|(name, _)| *name == fact);
    known.map_or_else(|| super::opened(&fact.replace('_', " ")), |(_, label)| (*label).to_owned())
}

fn facts(machine: &Machine) -> Table {
    let mut table =
        Table::new(format!("Machine {}", name(machine)), &[words("Fact"), words("Value")]);
    table.rows.push(vec!["Id".into(), Cell::code(&machine.id)]);
    let mut names: Vec<&String> = machine.facts.keys().collect();
    names.sort_by_key(|name| place(name));
    table.rows.extend(
        names
            .iter()
            .map(|name| vec![label(name).into(), value(name, &machine.facts[*name]).into()]),
    );
    table
}

fn runs(runs: &[&Run]) -> Table {
    let columns = [
        words("Run"),
        words("Started"),
        words("Machine"),
        words("Suites"),
        numbers("Samples"),
        words("Warnings"),
        words("Command"),
    ];
    let mut table = Table::new("The runs, newest first", &columns);
    for run in runs.iter().rev() {
        let suites = distinct(run.samples.iter().map(|sample| sample.suite.as_str()));
        let ended = match run.finished {
            _ if run.interrupted => "was interrupted".to_owned(),
            Some(finished) => format!("took {:#}", short(run.started.until(finished))),
            None => "did not come to its end".to_owned(),
        };
        let warnings = match run.warnings.len() {
            0 => Cell::absent(),
            n => Cell::toned(plural(n, "warning"), Tone::BAD),
        };
        table.rows.push(vec![
            Cell::code(&run.id),
            Cell::from(run.started.strftime(DAY).to_string())
                .small(format!("{}, {ended}", run.started.strftime(TIME))),
            name(&run.machine).into(),
            suites.join(", ").into(),
            count(run.samples.len() as u64).into(),
            warnings,
            Cell::code(run.command_line()).small(format!("gush {}", run.gush)),
        ]);
    }
    table
}

/// The warnings of each run; none without warnings.
fn doubts(runs: &[&Run]) -> Option<Figure> {
    let columns = [words("Run"), words("What was so, and what to do about it")];
    let mut table = Table::new("What made figures doubtful", &columns);
    for run in runs.iter().rev().filter(|run| !run.warnings.is_empty()) {
        let sentences = run.warnings.iter().map(|warning| {
            let [fact, remedy] = [&warning.fact, &warning.remedy].map(|text| super::sentence(text));
            format!("{fact} {remedy}")
        });
        let sentences = sentences.collect::<Vec<_>>().join(" ");
        table.rows.push(vec![Cell::code(&run.id), sentences.into()]);
    }
    (!table.rows.is_empty()).then(|| Figure::of_table(&table))
}

/// Every case that could not be measured, with the reason; none when all could.
fn left_out(runs: &[&Run]) -> Option<Figure> {
    let columns = [words("Run"), words("Case"), words("Why")];
    let mut table = Table::new("What could not be measured", &columns);
    for run in runs.iter().rev() {
        table.rows.extend(run.failures.iter().map(|failure| {
            let case = format!("{}:{}", failure.suite, failure.case);
            vec![Cell::code(&run.id), Cell::code(case), failure.error.as_str().into()]
        }));
    }
    (!table.rows.is_empty()).then(|| Figure::of_table(&table))
}

fn short(span: Result<jiff::Span, jiff::Error>) -> jiff::SignedDuration {
    let seconds = span.map_or(0, |span| {
        span.total(jiff::Unit::Second).map_or(0, |seconds| seconds.round() as i64)
    });
    jiff::SignedDuration::from_secs(seconds)
}
