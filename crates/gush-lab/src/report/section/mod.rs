//! The sections of the page: what each suite's samples are drawn as, and what they say.

mod calls;
mod copy;
mod explained;
mod fleet;
mod history;
mod machine;
mod matrix;
mod memory;
mod other;
mod pages;
mod pipe;
mod relay;

use super::data::Data;
use super::number::plural;
use super::page::{Page, Section, Warning};
use super::render;

/// In the order of the page; a section without anything to show is none.
const SECTIONS: &[fn(&Data<'_>) -> Option<Section>] = &[
    pipe::section,
    copy::section,
    calls::section,
    matrix::section,
    memory::section,
    pages::section,
    relay::section,
    other::section,
    history::section,
    fleet::section,
    explained::section,
    machine::section,
];

/// Suites that have a section of their own.
const KNOWN: &[&str] = &["pipe", "copy", "matrix", "memory", "pages", "relay"];

/// The whole page.
pub fn page(data: &Data<'_>) -> Page {
    let sections: Vec<Section> = SECTIONS.iter().filter_map(|section| section(data)).collect();
    Page {
        lead: lead(data),
        byline: machine::byline(data),
        warnings: warnings(data),
        sections,
        downloads: render::downloads(&data.runs),
    }
}

fn lead(data: &Data<'_>) -> String {
    let lead = pipe::lead(data).or_else(|| copy::lead(data));
    lead.unwrap_or_else(|| match data.runs.len() {
        0 => "No run was given, so there is nothing to show.".to_owned(),
        runs => {
            let samples = data.runs.iter().map(|run| run.samples.len()).sum();
            format!("{} with {}.", plural(runs, "run"), plural(samples, "sample"))
        }
    })
}

/// Those of the runs whose figures are shown, once each.
fn warnings(data: &Data<'_>) -> Vec<Warning> {
    let mut shown: Vec<&str> = Vec::new();
    let mut warnings = Vec::new();
    for suite in data.suites() {
        let Some(suite) = data.suite(suite) else { continue };
        if shown.contains(&suite.run.id.as_str()) {
            continue;
        }
        shown.push(&suite.run.id);
        for crate::model::Warning { fact, remedy } in &suite.run.warnings {
            let warning = Warning { fact: sentence(fact), remedy: sentence(remedy) };
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
    }
    warnings
}

/// With a capital and a full stop, which a message on a terminal does without.
fn sentence(text: &str) -> String {
    let mut letters = text.trim().chars();
    let mut sentence: String = letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect());
    if !sentence.ends_with(['.', '!', '?', '…']) {
        sentence.push('.');
    }
    sentence
}

/// A name from a run, marked as code in a sentence.
fn code(name: &str) -> String {
    format!("`{}`", name.replace(['`', '*'], ""))
}
