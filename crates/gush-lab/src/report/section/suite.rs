//! A suite: a figure for each group of cases that can be compared, and the conclusions.

use std::collections::{BTreeMap, BTreeSet};

use super::{code, plain};
use crate::cases::{self, CaseRun, SuiteRun, distinct};
use crate::figures::Measure;
use crate::model::Run;
use crate::report::bars::{self, Bar, Limit};
use crate::report::data::Data;
use crate::report::number::{bytes, figure, times_between};
use crate::report::page::{Cell, Column, Figure, Section, Table, numbers, words};
use crate::stats::{self, Estimate};
use crate::suite::{self, Axis, Quantity, THROUGHPUT, WORK, memory};

/// The explanation of intervals, below the first figures of the page.
const INTERVALS: &str = "A bar is the median of the rounds, its whisker the interval (95 %, from sample to sample; that of a ratio is by resampling; of fewer than \
                         five rounds none can be trusted), each dot a sample. Of twenty comparisons one is wrong by chance.";

/// The section of a suite that this gush knows.
pub fn section(data: &Data<'_>, suite: &'static suite::Suite) -> Option<Section> {
    let taken = data.suite(suite.name)?;
    let mut figures = Vec::new();
    for (place, quantity) in suite.quantities.iter().enumerate() {
        match suite.axis {
            Some(axis) if place == 0 => figures.extend(along(taken, quantity, axis)),
            Some(_) => {}
            None => figures.extend(groups(data, taken, Measure::Quantity(*quantity), place == 0)),
        }
    }
    if figures.is_empty() {
        return None;
    }
    let mut notes: Vec<String> =
        [INTERVALS].iter().chain(suite.notes).map(|note| (*note).to_owned()).collect();
    notes.extend(sources(taken));
    Some(Section {
        id: suite.name,
        title: suite.title.to_owned(),
        said: said(taken, suite.axis).into_iter().chain(out(taken)).collect(),
        figures,
        notes,
    })
}

/// Suites that this version does not know: of a newer version, or of `gush lab run`.
pub fn others(data: &Data<'_>) -> Option<Section> {
    let unknown = data.suites().into_iter().filter(|name| suite::named(name).is_none());
    let (mut figures, mut said) = (Vec::new(), Vec::new());
    for taken in unknown.filter_map(|name| data.suite(name)) {
        let printed = taken.cases.first().map_or(&[][..], |case| &case.described.printed);
        let usual: &[Quantity] = if taken.has_speeds() { &[THROUGHPUT] } else { &TIMES };
        let usual = usual.iter().copied().map(Measure::Quantity);
        let all = printed.iter().map(Measure::Printed).chain(usual);
        for (place, measure) in all.enumerate() {
            figures.extend(groups(data, taken, measure, place == 0).into_iter().map(|figure| {
                Figure { caption: format!("{}: {}", code(taken.name), figure.caption), ..figure }
            }));
        }
        said.extend(out(taken));
    }
    (!figures.is_empty()).then(|| Section {
        id: "other",
        title: "Other suites".to_owned(),
        said,
        figures,
        ..Section::default()
    })
}

/// The times of commands that move no bytes anybody knows of.
const TIMES: [Quantity; 2] = [
    Quantity {
        caption: "Time of a run, less is better",
        unit: "s",
        of: |measured| measured.wall_s,
        less_is_better: true,
    },
    Quantity {
        caption: "Processor time of a run, less is better",
        unit: "cpu s",
        of: |measured| Some(measured.user_s? + measured.system_s?),
        less_is_better: true,
    },
];

/// The cases that failed, and why.
fn out(taken: &SuiteRun<'_>) -> impl Iterator<Item = String> {
    taken
        .failures()
        .map(|failure| format!("{} is left out: {}.", code(&failure.case), plain(&failure.error)))
}

/// Where the published figures come from, and of which machine they are.
fn sources(taken: &SuiteRun<'_>) -> Option<String> {
    let published = taken.cases.iter().filter_map(|case| case.described.published.as_ref());
    let sources = distinct(published.map(|published| published.source.as_str()));
    (!sources.is_empty()).then(|| {
        format!(
            "Outlines are published figures: {}. Another machine, another kernel: compare the shape, not the height.",
            plain(&sources.join("; "))
        )
    })
}

/// A group's heading, to follow a caption.
fn below(group: &str) -> String {
    if group.is_empty() { String::new() } else { format!(": {}", plain(group)) }
}

/// A figure for each group; with what is known of the cases where the figure is the compared one.
fn groups(
    data: &Data<'_>,
    taken: &SuiteRun<'_>,
    measure: Measure<'_>,
    is_compared: bool,
) -> Vec<Figure> {
    let names = distinct(taken.cases.iter().map(|case| case.described.group.as_str()));
    let is_speed = measure.unit() == THROUGHPUT.unit;
    let limits: Vec<Limit> = data
        .memory_read()
        .filter(|_| is_speed && taken.name != memory::SUITE.name)
        .into_iter()
        .collect();
    names
        .into_iter()
        .filter_map(|group| {
            let own = taken.cases.iter().filter(|case| case.described.group == group);
            let bars: Vec<Bar> =
                own.filter_map(|case| bar(taken, case, measure, is_compared)).collect();
            let caption = measure.caption() + &below(group);
            (!bars.is_empty()).then(|| bars::figure_of(caption, measure.unit(), &bars, &limits))
        })
        .collect()
}

fn bar(
    taken: &SuiteRun<'_>,
    case: &CaseRun<'_>,
    measure: Measure<'_>,
    is_compared: bool,
) -> Option<Bar> {
    let samples = case.drawable(|measured| measure.value(measured));
    let estimate = stats::median(&samples)?;
    let mut facts = Vec::new();
    if let (Some((baseline, Some(times))), true) = (case.against(taken), is_compared) {
        facts.push(("Ratio".to_owned(), format!("{} {}", times_between(times), baseline.name)));
    }
    let sizes = [("Buffer", "buffer_bytes"), ("Pipe", "pipe_bytes")];
    facts.extend(
        sizes
            .iter()
            .filter_map(|(label, fact)| Some(((*label).to_owned(), bytes(case.number(fact)?)))),
    );
    if let Some(evidence) = case.text("evidence").filter(|_| is_compared) {
        facts.push(("Hostile reader".to_owned(), evidence.to_owned()));
    }
    Some(Bar {
        about: case.described.does.clone(),
        published: case
            .described
            .published
            .as_ref()
            .filter(|_| is_compared)
            .map(|known| (known.from, known.to)),
        sound: case.is("sound").filter(|_| is_compared),
        facts,
        ..Bar::new(case.name, estimate, samples)
    })
}

/// The conclusions on one suite of a run.
pub fn findings(run: &Run, suite: &str) -> Vec<String> {
    let known = suite::named(suite).and_then(|known| known.axis);
    let taken = cases::suites(run).into_iter().find(|taken| taken.name == suite);
    taken.map_or_else(Vec::new, |taken| said(&taken, known))
}

/// The conclusions: group by group the case that gained most over its baseline.
fn said(taken: &SuiteRun<'_>, axis: Option<Axis>) -> Vec<String> {
    let names = distinct(taken.cases.iter().map(|case| case.described.group.as_str()));
    let mut said = Vec::new();
    for group in names {
        let own = || of_largest(taken, axis).filter(move |case| case.described.group == group);
        let place = if group.is_empty() { String::new() } else { format!("{}: ", plain(group)) };
        match most_gained(taken, own(), true) {
            Some(gained) => said.push(format!("{place}{}", gained.sentence())),
            None if own().any(|case| case.described.baseline.is_some()) => {
                said.push(format!("{place}{}.", nothing_gained(own())));
            }
            None => {}
        }
        if let Some(gained) = most_gained(taken, own(), false) {
            said.push(format!(
                "{} does {} {} and is not sound: the hostile reader saw bytes change.",
                code(gained.case.name),
                figure(gained.figure.value),
                gained.case.measure().unit()
            ));
        }
    }
    said
}

/// Why no gain is reported.
fn nothing_gained<'s, 'a: 's>(
    mut cases: impl Iterator<Item = &'s CaseRun<'a>> + Clone,
) -> &'static str {
    if cases.clone().all(|case| case.samples.len() < stats::FEWEST_SAMPLES) {
        "fewer than five rounds are too few to say what is faster"
    } else if cases.any(|case| case.is("sound") == Some(false)) {
        "nothing that is sound was clearly faster than its measure"
    } else {
        "nothing was clearly faster than its measure"
    }
}

/// Along an axis only the largest: the time of small sizes is mostly that of opening and closing
/// files.
fn of_largest<'s, 'a>(
    taken: &'s SuiteRun<'a>,
    axis: Option<Axis>,
) -> impl Iterator<Item = &'s CaseRun<'a>> + Clone {
    let at = move |case: &CaseRun<'_>| axis.and_then(|axis| case.number(axis.fact));
    let largest = taken.cases.iter().filter_map(at).max();
    taken.cases.iter().filter(move |case| at(case) == largest)
}

/// A case that is faster than the baseline.
struct Gained<'s, 'a> {
    case: &'s CaseRun<'a>,
    baseline: &'s CaseRun<'a>,
    figure: Estimate,
    times: Estimate,
    /// The gain comes from other rounds than those that chose the case.
    is_confirmed: bool,
}

/// The one with the most gain among `cases`; those that are not sound, or all others. The first
/// rounds choose, and the others measure: a case chosen by its figures owes some of them to luck.
fn most_gained<'s, 'a>(
    taken: &'s SuiteRun<'a>,
    cases: impl Iterator<Item = &'s CaseRun<'a>>,
    is_sound: bool,
) -> Option<Gained<'s, 'a>> {
    let is_wanted = |case: &&CaseRun<'_>| match is_sound {
        false => case.is("sound") == Some(false),
        true => case.fact("sound").is_none_or(|fact| *fact == serde_json::Value::Bool(true)),
    };
    let with_baseline = |case: &'s CaseRun<'a>| Some((case, case.baseline(taken)?));
    let mut candidates: Vec<_> = cases.filter(is_wanted).filter_map(with_baseline).collect();
    let measured = |(case, _): &(&CaseRun<'_>, &CaseRun<'_>)| case.samples.len();
    // Not a case that failed early.
    let most = candidates.iter().map(measured).max()?;
    candidates.retain(|pair| 2 * measured(pair) > most);
    let rounds = candidates.iter().map(measured).min()?;
    let choosing = stats::choosing_rounds(rounds).filter(|_| candidates.len() > 1);
    let choosing = choosing.and_then(|rounds| u32::try_from(rounds).ok());
    let gain = |(case, baseline): &(&CaseRun<'_>, &CaseRun<'_>)| {
        let chosen = case.paired(baseline, |round| choosing.is_none_or(|last| round <= last));
        chosen.map_or(0.0, |(times, _)| times.value)
    };
    candidates.sort_by(|one, other| gain(other).total_cmp(&gain(one)));
    candidates.into_iter().find_map(|(case, baseline)| {
        let judged = case.paired(baseline, |round| choosing.is_none_or(|last| round > last))?;
        let (times, _) = Some(judged).filter(|(_, verdict)| *verdict == stats::Verdict::Faster)?;
        let is_confirmed = choosing.is_some();
        Some(Gained { case, baseline, figure: case.compared()?, times, is_confirmed })
    })
}

impl Gained<'_, '_> {
    fn sentence(&self) -> String {
        let Self { case, baseline, figure: own, times, is_confirmed } = self;
        let does = match case.described.does.as_str() {
            "" => String::new(),
            does => format!(" ({})", plain(does)),
        };
        let work = |case: &CaseRun<'_>| case.estimate(WORK.of).map(|work| figure(work.value));
        let at_work = match (work(case), work(baseline)) {
            (Some(own), Some(other)) => {
                format!(", at {own} instead of {other} processor seconds a GiB")
            }
            _ => String::new(),
        };
        let confirmed =
            if *is_confirmed { ", confirmed by rounds that did not choose it" } else { "" };
        format!(
            "{}{does} does **{}** {}, {} what {} does{at_work}{confirmed}.",
            code(case.name),
            figure(own.value),
            case.measure().unit(),
            times_between(*times),
            code(baseline.name)
        )
    }
}

/// The cases whose baseline is of the same group, at the largest size.
fn like_over_like<'s, 'a>(
    taken: &'s SuiteRun<'a>,
    suite: &suite::Suite,
) -> impl Iterator<Item = &'s CaseRun<'a>> {
    of_largest(taken, suite.axis).filter(|case| {
        let baseline = case.described.baseline.as_deref();
        let other = baseline.and_then(|name| taken.case(name));
        other.is_some_and(|other| other.described.group == case.described.group)
    })
}

/// The largest gain of a case over a baseline of the same group.
fn headline(taken: &SuiteRun<'_>, suite: &suite::Suite) -> Option<String> {
    let gained = most_gained(taken, like_over_like(taken, suite), true)?;
    let group = plain(&gained.case.described.group);
    let place = if group.is_empty() { suite.title.to_owned() } else { group };
    Some(format!("{place}: {}", gained.sentence()))
}

/// The largest gain of each suite between comparable cases, in the order of the suites.
pub fn conclusions(data: &Data<'_>) -> Vec<String> {
    let suites = suite::SUITES.iter().filter_map(|suite| Some((data.suite(suite.name)?, suite)));
    suites.filter_map(|(taken, suite)| headline(taken, suite)).collect()
}

/// A figure for each group, with a view for each place on the axis.
fn along(taken: &SuiteRun<'_>, quantity: &Quantity, axis: Axis) -> Vec<Figure> {
    let at = |case: &CaseRun<'_>| {
        let moved = case.samples.last().map(|sample| sample.measured.bytes);
        case.number(axis.fact).or(moved)
    };
    let cases = || taken.cases.iter();
    let of_group = |group| {
        let own = cases().filter(|case| case.described.group == group);
        let placed = |case: &CaseRun<'_>| {
            let (samples, speed) = (case.drawable(quantity.of), case.estimate(quantity.of)?);
            Some((at(case)?, Bar::new(case.variant(), speed, samples)))
        };
        let own: Vec<(u64, Bar)> = own.filter_map(placed).collect();
        (!own.is_empty()).then(|| along_one(own, group, quantity, axis))
    };
    distinct(cases().map(|case| case.described.group.as_str()))
        .into_iter()
        .filter_map(of_group)
        .collect()
}

fn along_one(own: Vec<(u64, Bar)>, group: &str, quantity: &Quantity, axis: Axis) -> Figure {
    let sizes = BTreeSet::from_iter(own.iter().map(|(size, _)| *size));
    let caption = format!("{} by {}{}", quantity.caption, axis.label.to_lowercase(), below(group));
    let table = table(&caption, quantity.unit, &own, &sizes);
    let mut by_size: BTreeMap<u64, Vec<Bar>> = BTreeMap::new();
    own.into_iter().for_each(|(size, bar)| by_size.entry(size).or_default().push(bar));
    let mut figure = Figure::new(caption);
    // The largest first: there the time of opening and closing counts least.
    for (size, bars) in by_size.iter().rev() {
        figure = figure.with(bytes(*size), bars::drawn(quantity.unit, bars, &[]));
    }
    figure.with_table("Table", &table)
}

/// Every case by place.
fn table(caption: &str, unit: &str, own: &[(u64, Bar)], sizes: &BTreeSet<u64>) -> Table {
    let mut columns: Vec<Column> = vec![words("Case")];
    columns.extend(sizes.iter().map(|size| numbers(bytes(*size))));
    let mut table = Table::new(format!("{caption}, {unit}: median and interval"), &columns);
    for name in distinct(own.iter().map(|(_, bar)| bar.name.as_str())) {
        let speed = |size: &u64| {
            let bar = own.iter().rfind(|(at, bar)| at == size && bar.name == name);
            Cell::of(bar.map(|(_, bar)| bar.estimate))
        };
        let mut row = vec![Cell::code(name)];
        row.extend(sizes.iter().map(speed));
        table.rows.push(row);
    }
    table
}
