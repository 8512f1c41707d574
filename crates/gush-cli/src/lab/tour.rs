//! `gush lab` without a suite: a little of every suite, and one report.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::PossibleValuesParser;
use gush_lab::case::Case;
use gush_lab::model::Sample;
use gush_lab::probe::Probe;
use gush_lab::suite::{Asked, Cases, Given, SUITES, Show, Suite};
use gush_lab::{report, table, transfer};
use gush_text::quote;

use super::narrowing::Narrowing;
use super::reporting;
use super::screen::Screen;
use super::session::{Keep, Limits, Session};
use super::suites::this_program;
use crate::files::takes_text_in_its_directory;
use crate::talk::Talker;

/// The options of `gush lab` without a suite.
#[derive(Debug, Args)]
pub struct Options {
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

fn names() -> impl Iterator<Item = &'static str> {
    SUITES.iter().map(|suite| suite.name)
}

pub fn run(options: &Options) -> ExitCode {
    let talker = Talker::new("gush lab");
    let program = match this_program() {
        Ok(program) => program,
        Err(error) => return talker.fail(error),
    };
    if let Err(status) = options.refuse_early(&talker) {
        return status;
    }
    let begun = Instant::now();
    let session = match Session::begin(talker.clone(), &options.keep, Probe::take()) {
        Ok(session) => session,
        Err(error) => return talker.fail(error),
    };
    let screen = Screen::new(talker.clone(), options.rounds);
    let mut tour = Tour {
        options,
        talker,
        session,
        screen,
        once: Vec::new(),
        repeated: Vec::new(),
        shows: Vec::new(),
    };
    tour.choose(&program);
    tour.measure(begun);
    if !options.json {
        tour.print_tables();
    }
    tour.end()
}

impl Options {
    fn wants(&self, suite: &Suite) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == suite.name)
    }

    /// Refuses now what would only fail after a minute: a directory without files, a report without
    /// a place.
    fn refuse_early(&self, talker: &Talker) -> Result<(), ExitCode> {
        if SUITES.iter().any(|suite| suite.makes_files() && self.wants(suite))
            && let Err(error) = self.dir.read_dir()
        {
            talker.say_failed(&self.dir, "cannot make files there", &error);
            return Err(ExitCode::FAILURE);
        }
        match self.report.as_deref().map(takes_text_in_its_directory) {
            Some(Err(why)) => Err(talker.fail(why)),
            _ => Ok(()),
        }
    }
}

/// A tour under way.
struct Tour<'a> {
    options: &'a Options,
    talker: Talker,
    session: Session,
    screen: Screen,
    /// The cases that are measured once.
    once: Vec<Box<dyn Case>>,
    /// The cases that are measured in rounds.
    repeated: Vec<Box<dyn Case>>,
    /// The suites of all cases, each with the form of its table if that is a special one.
    shows: Vec<(&'static Suite, Option<Show>)>,
}

impl Tour<'_> {
    /// Takes a few cases of each suite that is wanted and can be measured here.
    fn choose(&mut self, program: &Path) {
        for suite in SUITES.iter().filter(|suite| self.options.wants(suite)) {
            let mut asked = Asked::of(program);
            asked.is_brief = true;
            asked.give("dir", Given::Path(self.options.dir.clone()));
            (suite.tour)(&mut asked);
            match suite.cases(&asked) {
                Ok(Cases { cases, show, notes }) => {
                    notes.iter().for_each(|note| self.talker.say(note));
                    self.session.expect(&cases);
                    let chosen =
                        if suite.is_repeated { &mut self.repeated } else { &mut self.once };
                    chosen.extend(cases);
                    self.shows.push((*suite, show));
                }
                Err(error) => self.session.leave_out(suite.name, &error),
            }
        }
    }

    /// Measures the chosen cases in the minute since `begun`.
    fn measure(&mut self, begun: Instant) {
        let Self { options, talker, session, screen, once, repeated, .. } = self;
        let end = Some(begun + LATE);
        // In rounds of all suites: a disturbance of the machine shows in the interval of each case.
        let time = ENOUGH.saturating_sub(begun.elapsed());
        let mut schedule =
            Narrowing::new(options.rounds, time, repeated.len(), session.run().clone());
        let limits = Limits { time: Some(time), end };
        session.measure_on(repeated, &mut schedule, limits, screen, |_, _| ());
        if let Some(note) = schedule.note() {
            talker.say(note);
        }
        // Last: whatever the time does not suffice for is missing here, and not in the comparisons.
        session.measure(once, 1, Limits { time: None, end }, screen, |_, _| ());
        let left = session.not_reached();
        if left > 0 && !session.is_interrupted() {
            talker.say(format_args!(
                "{left} cases were not reached within a minute: gush lab SUITE measures all cases of a suite"
            ));
        }
    }

    /// Prints a table for each suite with samples.
    fn print_tables(&mut self) {
        let run = self.session.run();
        for (suite, show) in &self.shows {
            let of_suite = |sample: &&Sample| sample.suite == suite.name;
            let own: Vec<Sample> = run.samples.iter().filter(of_suite).cloned().collect();
            if !own.is_empty() {
                let shown = match show {
                    Some(show) => show(&own),
                    None => table::of(run, suite),
                };
                self.screen.print(&format!("{}\n{}\n", suite.name, shown.trim_end()));
            }
        }
    }

    /// Ends the run, and says what it has shown and where the report is.
    fn end(self) -> ExitCode {
        let Self { options, talker, session, mut screen, once, repeated, .. } = self;
        // The cases' files are removed before the last message.
        drop((once, repeated));
        let ended = session.end();
        let runs = std::slice::from_ref(&ended.run);
        if options.json {
            screen.print(transfer::json(runs).trim_end());
        } else {
            // What a person can act on comes last, where it is still on the screen. The page has
            // all conclusions.
            last_words(report::conclusions(runs))
                .iter()
                .for_each(|sentence| screen.print(sentence));
        }
        let told = match reporting::after(&ended, options.report.as_deref()) {
            Ok(path) => {
                let line = format!("report: {}", quote::if_needed(&path));
                if options.json {
                    talker.say(line)
                } else {
                    screen.print(&line)
                }
                ExitCode::SUCCESS
            }
            Err(why) => talker.fail(why),
        };
        let status = ended.last_words(screen);
        if status == ExitCode::SUCCESS { told } else { status }
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
        let told = |count: usize| last_words((0..count).map(|n| n.to_string()).collect());
        assert_eq!(told(5).len(), 3);
        assert_eq!(told(5)[..2], ["0", "1"]);
        assert_eq!(told(0)[0], INCONCLUSIVE);
        assert!(told(0)[1].starts_with("gush tune "));
    }
}
