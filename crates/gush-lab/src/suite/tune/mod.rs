//! Is another method, buffer or pipe faster here than the plan's choice?
//!
//! | room | holds |
//! |---|---|
//! | `question` | a pair of ends and a size, and the settings to try; all of them as a table |
//! | `setting` | a method with sizes |
//! | `trial` | a question by one setting, or by the plan's choice, as a case |
//!
//! The ends, and the move under the clock, are those of the matrix.
//!
//! Facts of a sample: `method`, with the number of threads where there are several.

mod question;
mod setting;
mod trial;

use std::path::PathBuf;
use std::rc::Rc;

use clap::ArgAction;

use super::asked::{DIR, dir};
use super::{Asked, Cases, Suite, THROUGHPUT, Tour, WORK};
use crate::case::Case;
use crate::{Error, report};
use question::{Place, Question};
use setting::Setting;
use trial::Trial;

pub static SUITE: Suite = Suite {
    name: "tune",
    title: "The engine's choice and others",
    about: "Measure whether another method, buffer or pipe than the engine's choice is faster here",
    more: "Moves between files, pipes and sockets are timed by the engine's own choice (auto) and by \
           others. What is faster is chosen by options such as --method and --buffer-size of gush \
           cp and cat; look at its processor time, too. The files of the test are unnamed ones. \
           gush tune is the same command.",
    options: || {
        let about =
            "Measure files in DIR, and in shared memory; several DIRs name several file systems";
        // Not in one word: a directory's name may have a comma.
        vec![dir(about).action(ArgAction::Append)]
    },
    only: ("NAME,…", "Only these moves, such as pipe:tcp@48M, or cases"),
    rounds: "9",
    quantities: &[THROUGHPUT, WORK],
    axis: None,
    notes: &[],
    section: None,
    tour: Tour::Left,
    once: None,
    make,
};

fn make(asked: &Asked) -> Result<Cases, Error> {
    let questions = question::all(&Place::all(&asked.all::<PathBuf>(DIR))?);
    let mut made = Cases::default();
    let (mut moves, mut names, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for question in questions.into_iter().map(Rc::new) {
        let is_asked = |name: &String| asked.only.is_empty() || asked.only.contains(name);
        moves.push(question.name());
        let settings = question.settings().into_iter().map(Some);
        for setting in std::iter::once(None).chain(settings) {
            // The plan's choice is measured, or fails.
            let is_tried = setting.is_some();
            let trial = Trial::new(&question, setting);
            let name = trial.described().case.clone();
            let is_left = !is_asked(&question.name()) && !is_asked(&name);
            if !is_left {
                let refusal = is_tried.then(|| trial.refusal()).flatten();
                match refusal {
                    Some(why) => refused.push(format!("{name} is left out: {why}")),
                    None => made.cases.push(Box::new(trial)),
                }
            }
            names.push(name);
        }
    }
    let is_unknown = |name: &&String| !moves.contains(name) && !names.contains(name);
    if let Some(unknown) = asked.only.iter().find(is_unknown) {
        // All cases would fill the screen: those of a known move, or else the moves.
        let (asked_move, _) = unknown.split_once('/').unwrap_or((unknown, ""));
        let is_of_move = |name: &&String| name.split('/').next() == Some(asked_move);
        let known = match moves.iter().any(|name| name == asked_move) {
            true => names.iter().filter(is_of_move).collect(),
            false => moves.iter().collect::<Vec<_>>(),
        };
        return Err(Error::unknown("move or case", unknown, known.into_iter().map(String::as_str)));
    }
    if made.cases.is_empty() {
        return Err(Error::refused(refused.join("; ")));
    }
    made.notes = refused;
    made.show = Some(Box::new(|run| report::findings(run, SUITE.name).join("\n")));
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_refused_with_the_moves_or_with_the_cases_of_its_move() {
        let refusal = |name: &str| {
            let mut asked = Asked::read("gush", (SUITE.options)(), &[]).unwrap();
            asked.only = vec![name.to_owned()];
            make(&asked).err().unwrap().to_string()
        };
        let moves = refusal("nonsense");
        assert_eq!(moves.matches("pipe:tcp@48M").count(), 1, "{moves}");
        assert!(!moves.contains("/auto"), "{moves}");
        let cases = refusal("pipe:tcp@48M/nonsense");
        assert!(cases.contains("pipe:tcp@48M/auto, pipe:tcp@48M/read-write, "), "{cases}");
        assert!(!cases.contains("tcp:tcp"), "{cases}");
    }
}
