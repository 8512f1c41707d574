//! The sections of the page: the figures of each suite's samples, and the conclusions.

mod calls;
mod explained;
mod history;
mod machine;
mod suite;

use super::data::Data;
use super::page::{Fact, Page, Section, Warning};
use super::render;
use crate::model::{self, Run};
use crate::suite::SUITES;
use gush_text::plural;
pub use suite::{conclusions, findings};

/// The sections below the suites, in the order of the page; a section without anything to show is
/// none.
const SECTIONS: &[fn(&Data<'_>) -> Option<Section>] =
    &[suite::others, calls::section, history::section, explained::section, machine::section];

pub fn page(data: &Data<'_>) -> Page {
    let suites = SUITES.iter().filter_map(|known| match known.section {
        Some(section) => section(data),
        None => suite::section(data, known),
    });
    let below = SECTIONS.iter().filter_map(|section| section(data));
    Page {
        lead: lead(data),
        byline: machine::byline(data),
        warnings: warnings(data),
        sections: suites.chain(below).collect(),
        runs_href: render::runs_href(&data.runs),
    }
}

fn lead(data: &Data<'_>) -> String {
    suite::conclusions(data).into_iter().next().unwrap_or_else(|| match data.runs.len() {
        0 => "No run was given, so there is nothing to show.".to_owned(),
        runs => {
            let samples = data.runs.iter().map(|run| run.samples.len()).sum();
            format!("{} with {}.", plural(runs, "run"), plural(samples, "sample"))
        }
    })
}

/// Those of the runs whose figures are shown, once each, by remedy.
fn warnings(data: &Data<'_>) -> Vec<Warning> {
    let mut shown: Vec<(&Run, Vec<&str>)> = Vec::new();
    for name in data.suites() {
        let Some(run) = data.suite(name).map(|suite| suite.run) else { continue };
        match shown.iter_mut().find(|(known, _)| known.id == run.id) {
            Some((_, names)) => names.push(name),
            None => shown.push((run, vec![name])),
        }
    }
    let mut warnings: Vec<Warning> = Vec::new();
    for (run, names) in &shown {
        let of = if shown.len() > 1 { names.join(", ") } else { String::new() };
        for model::Warning { fact, remedy } in &run.warnings {
            let remedy = sentence(remedy);
            let place = warnings.iter().position(|known| known.remedy == remedy);
            let place = place.unwrap_or_else(|| {
                warnings.push(Warning { facts: Vec::new(), remedy });
                warnings.len() - 1
            });
            add_fact(&mut warnings[place].facts, fact, &of);
        }
    }
    warnings
}

/// Adds a fact about the suites `of`, or them to the same fact.
fn add_fact(facts: &mut Vec<Fact>, fact: &str, of: &str) {
    let text = sentence(fact);
    let text = text.strip_suffix('.').unwrap_or(&text);
    let (head, rest) = text.split_at(text.find(": ").unwrap_or(text.len()));
    match facts.iter_mut().find(|known| known.head == head && known.rest == rest) {
        Some(known) if !of.is_empty() && known.of != of => {
            known.of.push_str(", ");
            known.of.push_str(of);
        }
        Some(_) => {}
        None => facts.push(Fact { head: head.into(), rest: rest.into(), of: of.into() }),
    }
}

/// With a capital and a full stop, which a message on a terminal does without.
fn sentence(text: &str) -> String {
    let mut sentence = opened(text);
    if !sentence.ends_with(['.', '!', '?', '…']) {
        sentence.push('.');
    }
    sentence
}

/// With a capital.
fn opened(text: &str) -> String {
    let mut letters = text.trim().chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A name from a run, marked as code in a sentence.
fn code(name: &str) -> String {
    format!("`{}`", plain(name))
}

/// Text from a run, without the marks of a sentence.
fn plain(text: &str) -> String {
    text.replace(['`', '*'], "")
}
