//! What it costs to get a user's pages.

use super::code;
use crate::report::bars::{self, Bar};
use crate::report::data::{Case, Data, Suite};
use crate::report::estimate::Estimate;
use crate::report::number::{bytes, figure, times_between};
use crate::report::page::Section;

const SUITE: &str = "pages";

pub fn section(data: &Data<'_>) -> Option<Section> {
    let suite = data.suite(SUITE)?;
    let costs: Vec<Bar> = bars_of(suite, cost);
    let speeds: Vec<Bar> = bars_of(suite, |case| case.speed().cloned());
    let mut figures = Vec::new();
    if !costs.is_empty() {
        figures.push(bars::figure_of("Cost of a page, less is better", "ns per page", &costs, &[]));
    }
    if !speeds.is_empty() {
        figures.push(bars::figure_of("The same as throughput", "GiB/s", &speeds, &[]));
    }
    if figures.is_empty() {
        return None;
    }
    Some(Section {
        id: SUITE,
        title: "What getting pages costs".to_owned(),
        said: said(suite),
        figures,
        notes: Vec::new(),
    })
}

fn bars_of(suite: &Suite<'_>, of: impl Fn(&Case<'_>) -> Option<Estimate>) -> Vec<Bar> {
    let bar = |case: &Case<'_>| {
        let page = case.number("page_bytes").map(|size| format!("pages of {}", bytes(size)));
        let words = [case.text("memory").map(str::to_owned), page];
        let about: Vec<String> = words.into_iter().flatten().collect();
        Some(Bar { about: about.join(", "), ..Bar::new(case.name, of(case)?) })
    };
    suite.cases.iter().filter_map(bar).collect()
}

fn cost(case: &Case<'_>) -> Option<Estimate> {
    case.estimate(|measured| measured.facts.get("ns_per_page")?.as_f64())
}

fn said(suite: &Suite<'_>) -> Vec<String> {
    let costs: Vec<(&str, Estimate)> =
        suite.cases.iter().filter_map(|case| Some((case.name, cost(case)?))).collect();
    let least = costs.iter().min_by(|a, b| a.1.median.total_cmp(&b.1.median));
    let most = costs.iter().max_by(|a, b| a.1.median.total_cmp(&b.1.median));
    let (Some((cheap, least)), Some((dear, most))) = (least, most) else { return Vec::new() };
    let Some(ratio) = most.times(least).filter(|ratio| ratio.value > 1.0) else {
        return Vec::new();
    };
    vec![format!(
        "A page costs {} ns by {} and {} ns by {}: {} for the same bytes.",
        figure(least.median),
        code(cheap),
        figure(most.median),
        code(dear),
        times_between(ratio)
    )]
}
