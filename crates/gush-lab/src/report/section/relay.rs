//! Relays between sockets.

use super::code;
use crate::report::bars::{self, Bar};
use crate::report::data::{Case, Data, Suite};
use crate::report::number::{count, figure, times_between};
use crate::report::page::Section;

const SUITE: &str = "relay";

pub fn section(data: &Data<'_>) -> Option<Section> {
    let suite = data.suite(SUITE)?;
    let speeds: Vec<Bar> = suite
        .cases
        .iter()
        .filter_map(|case| Some(about(case, Bar::new(case.name, case.speed()?.clone()))))
        .collect();
    let costs: Vec<Bar> = suite
        .cases
        .iter()
        .filter_map(|case| {
            let cost = case.estimate(|measured| measured.facts.get("cpu_s_per_gib")?.as_f64())?;
            Some(about(case, Bar::new(case.name, cost)))
        })
        .collect();
    let mut figures = Vec::new();
    if !speeds.is_empty() {
        figures.push(bars::figure_of("Relayed, all connections together", "GiB/s", &speeds, &[]));
    }
    if !costs.is_empty() {
        figures.push(bars::figure_of(
            "Processor time for a GiB, less is better",
            "s per GiB",
            &costs,
            &[],
        ));
    }
    (!figures.is_empty()).then(|| Section {
        id: SUITE,
        title: "Relays between sockets".to_owned(),
        said: said(suite),
        figures,
        notes: Vec::new(),
    })
}

fn about(case: &Case<'_>, bar: Bar) -> Bar {
    let connections = case.number("connections").map(|n| match n {
        1 => "1 connection".to_owned(),
        n => format!("{} connections", count(n)),
    });
    let words: Vec<String> =
        [case.text("peer").map(str::to_owned), connections].into_iter().flatten().collect();
    Bar { about: words.join(", "), ..bar }
}

fn said(suite: &Suite<'_>) -> Vec<String> {
    let mut speeds: Vec<_> =
        suite.cases.iter().filter_map(|case| Some((case, case.speed()?.clone()))).collect();
    speeds.sort_by(|a, b| b.1.median.total_cmp(&a.1.median));
    let Some((first, best)) = speeds.first() else { return Vec::new() };
    let same = |other: &Case<'_>| other.number("connections") == first.number("connections");
    let Some((second, next)) = speeds.iter().skip(1).find(|(case, _)| same(case)) else {
        return Vec::new();
    };
    vec![match best.times(next) {
        Some(ratio) => format!(
            "{} relays most, {} GiB/s: {} what {} does.",
            code(first.name),
            figure(best.median),
            times_between(ratio),
            code(second.name)
        ),
        None => format!(
            "{} relays most, {} GiB/s, but cannot be told from {}.",
            code(first.name),
            figure(best.median),
            code(second.name)
        ),
    }]
}
