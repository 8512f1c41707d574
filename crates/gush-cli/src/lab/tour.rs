//! `gush lab` without a suite: a little of every suite, and one report.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::PossibleValuesParser;
use gush_lab::Error;
use gush_lab::model::Run;
use gush_lab::probe::Probe;
use gush_lab::suite::{Cases, SUITES, Show, Suite, Tour};
use gush_lab::{report, table, transfer};
use gush_text::quote;

use super::screen::Screen;
use super::session::{Keep, Limits, Session};
use super::suites::this_program;
use crate::console::Console;
use crate::files::takes_text_in_its_directory;

/// The options of `gush lab` without a suite.
#[derive(Debug, Args)]
pub struct TourArgs {
    /// Measure every case N times, or as often as there is time
    #[arg(long, value_name = "N", default_value = "9", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    #[arg(
        long,
        value_name = "SUITE,…",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(names()),
        hide_possible_values = true,
        help = format!("Only these suites: {}", names().collect::<Vec<_>>().join(", "))
    )]
    only: Vec<String>,
    /// Write the report to the file PATH [default: $XDG_DATA_HOME/gush/report.html]
    #[arg(long, value_name = "PATH")]
    report: Option<PathBuf>,
    /// Make the files in DIR, on the file system to be measured
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Print the whole run as JSON, as gush lab export does
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    keep: Keep,
}

/// In place of conclusions.
const INCONCLUSIVE: &str = "Nothing can be concluded: these rounds show no measurable difference between any two cases. On a quieter machine, \
     or one suite at a time (gush lab pipe), there are more.";
/// After this time no case is measured again.
const ENOUGH: Duration = Duration::from_secs(40);
/// After this time no measurement begins, which keeps the tour within a minute on a busy machine,
/// too.
const LATE: Duration = Duration::from_secs(50);

/// The suites of a tour.
fn suites() -> impl Iterator<Item = &'static Suite> {
    SUITES.iter().copied().filter(|suite| !matches!(suite.tour, Tour::Left))
}

fn names() -> impl Iterator<Item = &'static str> {
    suites().map(|suite| suite.name)
}

pub fn run(options: &TourArgs) -> ExitCode {
    let console = Console::new("gush lab");
    options.measure(&console).unwrap_or_else(|error| console.fail(error))
}

impl TourArgs {
    fn wants(&self, suite: &Suite) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == suite.name)
    }

    /// Refuses now what would only fail after a minute: a directory without files, a report without
    /// a place.
    fn refuse_early(&self) -> Result<(), Error> {
        if suites().any(|suite| suite.makes_files() && self.wants(suite))
            && let Err(error) = self.dir.read_dir()
        {
            let what = format!("{}: cannot make files there", quote::if_needed(&self.dir));
            return Err(Error::failed(what, error));
        }
        let place = self.report.as_deref().map_or(Ok(()), takes_text_in_its_directory);
        place.map_err(Error::refused)
    }

    fn measure(&self, console: &Console) -> Result<ExitCode, Error> {
        let program = this_program()?;
        self.refuse_early()?;
        let begun = Instant::now();
        let mut session = Session::begin(console.clone(), &self.keep, Probe::take())?;
        let mut screen = Screen::new(console.clone(), self.rounds);
        let (mut repeated, mut once, mut shows) = (Vec::new(), Vec::new(), Vec::new());
        for suite in suites().filter(|suite| self.wants(suite)) {
            let asked = suite.toured(&program, &self.dir)?;
            match (suite.make)(&asked) {
                Ok(Cases { cases, show, notes }) => {
                    notes.iter().for_each(|note| console.say(note));
                    session.expect(&cases);
                    let list = match suite.tour {
                        Tour::Repeated(..) => &mut repeated,
                        Tour::Once | Tour::Left => &mut once,
                    };
                    list.extend(cases);
                    shows.push((suite, show));
                }
                Err(error) => session.leave_out(suite.name, &error),
            }
        }
        let end = Some(begun + LATE);
        // In rounds of all suites: a disturbance of the machine shows in the interval of each case.
        let time = Some(ENOUGH.saturating_sub(begun.elapsed()));
        let limits = Limits { rounds: Some(self.rounds), time, end };
        session.measure(&repeated, &mut |_, _| true, limits, &mut screen);
        // Last: whatever the time does not suffice for is missing here, and not in the comparisons.
        let limits = Limits { rounds: Some(1), time: None, end };
        session.measure(&once, &mut |_, _| true, limits, &mut screen);
        // The cases' files are removed before the last message.
        drop((repeated, once));
        let left = session.not_reached;
        if left > 0 && !session.run.interrupted {
            console.say(format_args!(
                "{left} cases were not reached within a minute: gush lab SUITE measures all cases of a suite"
            ));
        }
        let ended = session.end();
        let runs = std::slice::from_ref(&ended.run);
        if self.json {
            screen.print(transfer::json(runs).trim_end());
        } else {
            print_tables(&ended.run, &shows, &mut screen);
            // What a person can act on comes last, where it is still on the screen. The page has
            // all conclusions.
            let sentences = last_words(report::conclusions(runs));
            sentences.iter().for_each(|sentence| screen.print(sentence));
        }
        let written = ended.report(self.report.as_deref());
        if let Ok(path) = &written {
            let line = format!("report: {}", quote::if_needed(path));
            if self.json { console.say(line) } else { screen.print(&line) }
        }
        let status = ended.last_words(screen);
        Ok(written.map_or_else(|why| console.fail(why), |_| status))
    }
}

/// Prints a table for each suite with samples, in the form of the suite if that is a special one.
fn print_tables(run: &Run, shows: &[(&Suite, Option<Show>)], screen: &mut Screen) {
    for (suite, show) in shows {
        if run.samples.iter().any(|sample| sample.suite == suite.name) {
            let shown = match show {
                Some(show) => show(run),
                None => table::of(run, suite),
            };
            screen.print(&format!("{}\n{}\n", suite.name, shown.trim_end()));
        }
    }
}

/// At most three sentences.
fn last_words(mut conclusions: Vec<String>) -> Vec<String> {
    if conclusions.is_empty() {
        conclusions.push(INCONCLUSIVE.to_owned());
    }
    conclusions.truncate(2);
    conclusions.push(
        "gush tune measures whether another method than the engine's would be faster here."
            .to_owned(),
    );
    conclusions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tour_ends_with_three_sentences_at_most_and_never_without_one() {
        let words = |count: usize| last_words((0..count).map(|n| n.to_string()).collect());
        assert_eq!(words(5).len(), 3);
        assert_eq!(words(5)[..2], ["0", "1"]);
        assert_eq!(words(0)[0], INCONCLUSIVE);
        assert!(words(0)[1].starts_with("gush tune "));
    }
}
