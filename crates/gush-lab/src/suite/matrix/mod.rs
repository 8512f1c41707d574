//! Every method to move bytes on every pair of ends, tried for real on this kernel.
//!
//! A cell is a method (`Method`), a kind of source and a kind of target (`Kind`). It is tried on a
//! thread (`Prober`) that opens both ends, moves some bytes, and compares those that arrived.
//!
//! Facts of a sample: `method`, `source`, `target`, `works`, `errno`, `why`.

mod attempt;
mod cell;
mod ends;
mod far;
mod kind;
mod load;
mod marks;
mod method;
mod notes;
mod outcome;
mod page;
mod pairs;
mod places;
mod prober;
mod raw;
mod s4;
mod source;
mod target;
mod view;

use super::asked::{flag, memory, several, text};
use super::{Asked, Cases, Suite, THROUGHPUT, Tour, WORK};
use crate::Error;
use crate::model::{Run, Sample};

pub(super) use attempt::{attempt, outcome_of};
use cell::{Matrix, Plan, cases};
pub(super) use kind::Kind;
pub(super) use load::{Aim, Load};
use method::Method;
pub(super) use outcome::{Attempt, Outcome};
use pairs::Pairs;
use places::KindPlace;
pub(super) use places::kind_in;
use prober::Prober;
pub(super) use source::{Source, Workshop};
pub(super) use target::Target;
use view::Grid;

pub static SUITE: Suite = Suite {
    name: "matrix",
    title: "What moves to what",
    about: "Try every method on every pair of ends, for real, and print which ones work here",
    more: "Instead of an errno: 'refused' by a rule of gush itself, 'false-end' if a call returns 0 \
           although there are bytes, 'wrong', or 'hangs'.",
    options: || {
        vec![
            several(text(
                "pairs",
                "PAIR,…",
                "Only these pairs: SOURCE:TARGET by their kinds, '*' for any, such as ext4:tcp,pipe:*",
            )),
            flag(
                "five-ways",
                "Only the table of 2007: five ways on four pairs of files and sockets",
            ),
            flag("speed", "Time the working ones: GiB/s, user and system seconds"),
            memory(
                "bytes",
                "Time with SIZE bytes, instead of 1G for the table of 2007 and 64M for the rest",
            ),
        ]
    },
    only: ("METHOD,…", "Only these methods"),
    rounds: "1",
    quantities: &[THROUGHPUT, WORK],
    axis: None,
    notes: &[],
    // Thousands of cells are a grid, and no bars.
    section: Some(page::section),
    tour: Tour::Once,
    once: None,
    make,
};

fn make(asked: &Asked) -> Result<Cases, Error> {
    if asked.size("bytes").is_some() && !asked.is("speed") {
        return Err(Error::refused("--bytes says how much --speed moves: add --speed"));
    }
    let pairs = asked.all::<String>("pairs");
    let plan = Plan {
        methods: asked.only.iter().map(|name| name.parse()).collect::<Result<_, _>>()?,
        pairs: pairs.iter().map(|pair| pair.parse()).collect::<Result<_, _>>()?,
        only_s4: asked.is("five-ways"),
        speed: asked.is("speed"),
        bytes: asked.size("bytes"),
    };
    let Matrix { cases, places } = cases(&plan);
    if cases.is_empty() {
        let missing = places.iter().find(|place| place.dir.is_none());
        let why =
            missing.map_or(String::new(), |place| format!(": no {}: {}", place.kind, place.how));
        return Err(Error::refused(format!(
            "--only, --pairs and --five-ways leave no cell to be tried{why}"
        )));
    }
    let grid = Grid { places };
    let show: super::Show = if asked.is_brief {
        Box::new(in_brief)
    } else {
        Box::new(move |run| grid.table(&own(run)))
    };
    Ok(Cases { cases, notes: Vec::new(), show: Some(show) })
}

fn own(run: &Run) -> Vec<Sample> {
    run.samples.iter().filter(|sample| sample.suite == SUITE.name).cloned().collect()
}

/// How many work; the page has the rest.
fn in_brief(run: &Run) -> String {
    let samples = own(run);
    let works = |sample: &&Sample| sample.measured.facts.get("works") == Some(&true.into());
    format!(
        "{} of {} combinations of a method and two ends work, each with its bytes verified; \
         gush lab matrix prints all, and the report has all",
        samples.iter().filter(works).count(),
        samples.len()
    )
}
