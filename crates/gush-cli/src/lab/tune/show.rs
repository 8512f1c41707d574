//! The output of `gush tune`: a line for each question once answered, then the conclusion.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use gush_lab::tune::{Answer, Comparison};
use serde_json::json;

use super::super::screen;
use crate::talk::Talker;

/// The width of most questions: `file on ext4 to file on tmpfs, 256 MiB`, and a little more.
const WIDTH: usize = 40;

/// Standard output for the answers; with `json` for one object, and a terminal's standard error
/// for the answers.
pub struct Screen {
    screen: screen::Screen,
    json: bool,
}

impl Screen {
    pub fn new(talker: &Talker, json: bool) -> Self {
        let mut screen = screen::Screen::new(talker.clone(), 0);
        if json {
            screen.tables_to_stderr();
        }
        Self { screen, json }
    }

    /// Shows one answered question.
    pub fn answer(&mut self, answer: &Answer) {
        if self.json && !io::stderr().is_terminal() {
            return;
        }
        let Answer { question, plan, .. } = answer;
        let what = match (answer.best.zip(answer.comparison), &answer.skipped) {
            (_, Some(why)) => format!("{plan}: {why}"),
            (Some((best, compared)), None) => {
                let sign = match answer.faster() {
                    Some(_) => "->",
                    None if answer.costs_more_processor_time => {
                        "stays; faster for more processor time:"
                    }
                    None => "stays; next",
                };
                format!("{plan} {sign} {best}: {}", figures(&compared))
            }
            (None, None) => format!("{plan} stays"),
        };
        self.screen.show(&format!("{question:WIDTH$} {what}"));
    }

    /// Shows the conclusion; returns the exit status.
    pub fn conclude(mut self, answers: &[Answer]) -> ExitCode {
        let faster = answers.iter().filter(|answer| answer.faster().is_some()).count();
        let costly = answers.iter().filter(|answer| answer.costs_more_processor_time).count();
        let skipped = answers.iter().filter(|answer| answer.skipped.is_some()).count();
        let line = if self.json {
            json!({ "answers": answers, "faster": faster, "for_more_processor_time": costly, "skipped": skipped }).to_string()
        } else {
            conclusion(answers.len(), [faster, costly, skipped])
        };
        self.screen.print(&line);
        self.screen.status()
    }
}

fn conclusion(all: usize, [faster, costly, skipped]: [usize; 3]) -> String {
    let be = |count: usize| if count == 1 { "is" } else { "are" };
    let mut line = match faster {
        0 => format!("of {all} moves none is surely faster than by the engine's choice"),
        _ => format!(
            "of {all} moves {faster} {} surely faster than by the engine's choice (->): \
             --method, --buffer-size, --pipe-size and --threads of gush cp choose so",
            be(faster)
        ),
    };
    if costly > 0 {
        line += &format!("; {costly} {} faster, but for more processor time", be(costly));
    }
    if skipped > 0 {
        let have = if skipped == 1 { "has" } else { "have" };
        line += &format!("; {skipped} {have} no answer (more --seconds, a quiet machine)");
    }
    line
}

fn figures(compared: &Comparison) -> String {
    let Comparison { before_gib_per_s, after_gib_per_s, ratio, processor, rounds, .. } = compared;
    let processor = processor.map_or_else(String::new, |processor| {
        format!(", {:.2} of the processor time", processor.value.recip())
    });
    format!(
        "{before_gib_per_s:.2} -> {after_gib_per_s:.2} GiB/s, {:.2} times [{}]{processor}, {rounds} rounds",
        ratio.value,
        ratio.around(2)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_conclusion_counts_what_costs_more_processor_time_separately() {
        let none = "of 5 moves none is surely faster than by the engine's choice";
        assert_eq!(conclusion(5, [0; 3]), none);
        assert_eq!(
            conclusion(5, [0, 2, 1]),
            format!(
                "{none}; 2 are faster, but for more processor time; 1 has no answer (more --seconds, \
                 a quiet machine)"
            )
        );
        assert!(conclusion(5, [1, 0, 0]).starts_with("of 5 moves 1 is surely faster "));
    }
}
