//! `gush lab` without a suite: a little of every suite, and one report.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::PossibleValuesParser;
use gush_lab::case::Case;
use gush_lab::model::{Run, Sample};
use gush_lab::probe::Probe;
use gush_lab::runner::Course;
use gush_lab::suite::{Asked, Cases, Given, SUITES};
use gush_lab::{report, table, transfer};
use gush_tree::quote;

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
const INCONCLUSIVE: &str = "Nothing can be concluded: no case is told from the case beside it by these rounds. On a quieter machine, \
     or one suite at a time (gush lab pipe), there are more.";
/// After this time no case is measured again.
const ENOUGH: Duration = Duration::from_secs(40);
/// After this time no measurement begins, which keeps the tour within a minute on a busy machine, too.
const LATE: Duration = Duration::from_secs(50);

/// Rounds of all cases while there is time, and then of those that the conclusions will be about.
struct Narrowing {
    rounds: u32,
    time: Duration,
    cases: usize,
    /// With the cases of this run, and the samples so far.
    run: Run,
    begun: Instant,
    first_round: Option<Instant>,
    /// The round from which on only these cases, named by suite and case, are measured.
    narrowed: Option<(u32, Vec<(String, String)>)>,
}

impl Narrowing {
    /// Of each suite; those of the first rounds choose between them, and the other rounds judge.
    const AHEAD: usize = 2;
    /// Enough for that choice and for an interval.
    const ROUNDS_AHEAD: u32 = 7;

    fn new(rounds: u32, time: Duration, cases: usize, run: Run) -> Self {
        Self { rounds, time, cases, run, begun: Instant::now(), first_round: None, narrowed: None }
    }

    /// Is the time too short for one more round of all, and behind it the rounds of those ahead?
    fn is_short(&self, round: u32, ahead: usize, rounds_took: Duration) -> bool {
        let one = rounds_took / (round - 1);
        let share = ahead as f64 / self.cases.max(1) as f64;
        let more = Self::ROUNDS_AHEAD.min(self.rounds).saturating_sub(round);
        self.begun.elapsed() + one + one.mul_f64(share).saturating_mul(more) > self.time
    }

    fn told(&self) -> Option<String> {
        let (round, ahead) = self.narrowed.as_ref()?;
        let (left, cases) = (ahead.len(), self.cases);
        Some(format!(
            "the time was short: from round {round} on only {left} of {cases} cases were measured, which the sentences \
             below are about (gush lab SUITE measures all of a suite)"
        ))
    }
}

impl Course for Narrowing {
    fn goes_on(&mut self, round: u32, samples: &[Sample]) -> bool {
        let first_round = *self.first_round.get_or_insert_with(Instant::now);
        if round > 1 && round <= self.rounds && self.narrowed.is_none() {
            self.run.samples = samples.to_vec();
            let mut ahead = report::ahead(std::slice::from_ref(&self.run), Self::AHEAD);
            ahead.sort_unstable();
            ahead.dedup();
            if self.is_short(round, ahead.len(), first_round.elapsed()) && ahead.len() < self.cases
            {
                self.narrowed = Some((round, ahead));
            }
        }
        round <= self.rounds
    }

    fn takes(&self, case: &dyn Case) -> bool {
        let is_ahead =
            |(suite, name): &(String, String)| suite == case.suite() && name == case.name();
        self.narrowed.as_ref().is_none_or(|(_, ahead)| ahead.iter().any(is_ahead))
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    SUITES.iter().map(|suite| suite.name)
}

pub fn run(options: &Options) -> ExitCode {
    let talker = Talker::new("gush lab");
    let program = match this_program() {
        Ok(program) => program,
        Err(error) => return talker.fail(error.told()),
    };
    let is_wanted =
        |suite: &str| options.only.is_empty() || options.only.iter().any(|s| s == suite);
    // Better an error now than after a minute.
    if SUITES.iter().any(|suite| suite.makes_files() && is_wanted(suite.name))
        && let Err(error) = options.dir.read_dir()
    {
        talker.say_failed(&options.dir, "cannot make files there", &error);
        return ExitCode::FAILURE;
    }
    if let Some(Err(why)) = options.report.as_deref().map(takes_text_in_its_directory) {
        return talker.fail(why);
    }
    let begun = Instant::now();
    let mut session = match Session::begin(talker.clone(), &options.keep, Probe::take()) {
        Ok(session) => session,
        Err(error) => return talker.fail(error.told()),
    };
    let mut screen = Screen::new(talker.clone(), options.rounds);
    let (mut once, mut repeated, mut shows) = (Vec::new(), Vec::new(), Vec::new());
    for suite in SUITES.iter().filter(|suite| is_wanted(suite.name)) {
        let mut asked = Asked::of(&program);
        asked.is_brief = true;
        asked.give("dir", Given::Path(options.dir.clone()));
        (suite.tour)(&mut asked);
        match suite.cases(&asked) {
            Ok(Cases { cases, show, notes }) => {
                notes.iter().for_each(|note| talker.say(note));
                session.expect(&cases);
                if suite.is_repeated { &mut repeated } else { &mut once }.extend(cases);
                shows.push((*suite, show));
            }
            Err(error) => session.leave_out(suite.name, &error),
        }
    }
    let end = Some(begun + LATE);
    // In rounds of all suites: a disturbance of the machine shows in the interval of each case.
    let time = ENOUGH.saturating_sub(begun.elapsed());
    let mut course = Narrowing::new(options.rounds, time, repeated.len(), session.run().clone());
    let limits = Limits { time: Some(time), end };
    session.measure_on(&repeated, &mut course, limits, &mut screen, |_, _| ());
    if let Some(note) = course.told() {
        talker.say(note);
    }
    // Last: whatever the time does not suffice for is missing here, and not in the comparisons.
    session.measure(&once, 1, Limits { time: None, end }, &mut screen, |_, _| ());
    let left = session.not_reached();
    if left > 0 && !session.is_interrupted() {
        talker.say(format_args!(
            "{left} cases were not reached within a minute: gush lab SUITE measures all cases of a suite"
        ));
    }
    for (suite, show) in shows.iter().filter(|_| !options.json) {
        let of_suite = |sample: &&Sample| sample.suite == suite.name;
        let own: Vec<Sample> = session.run().samples.iter().filter(of_suite).cloned().collect();
        if !own.is_empty() {
            let shown = match show {
                Some(show) => show(&own),
                None => table::of(session.run(), suite),
            };
            screen.print(&format!("{}\n{}\n", suite.name, shown.trim_end()));
        }
    }
    // The cases' files are removed before the last message.
    drop((once, repeated));
    let ended = session.end();
    if options.json {
        screen.print(transfer::json(std::slice::from_ref(&ended.run)).trim_end());
    }
    // What a person can act on comes last, where it is still on the screen: three sentences, since nobody reads seven. The page has all.
    if !options.json {
        let conclusions = report::conclusions(std::slice::from_ref(&ended.run));
        last_words(conclusions).iter().for_each(|sentence| screen.print(sentence));
    }
    let written = reporting::after(&ended, options.report.as_deref());
    let told = match &written {
        Ok(path) => {
            let line = format!("report: {}", quote::if_needed(path));
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

/// At most three sentences.
fn last_words(mut conclusions: Vec<String>) -> Vec<String> {
    if conclusions.is_empty() {
        conclusions.push(INCONCLUSIVE.to_owned());
    }
    conclusions.truncate(2);
    conclusions.push(
        "gush tune measures what cp, cat and link should do here, and makes them do it.".to_owned(),
    );
    conclusions
}

#[cfg(test)]
mod tests {
    use super::*;
    use gush_lab::Error;
    use gush_lab::model::{Described, Measured};

    struct Named(&'static str);

    impl Case for Named {
        fn suite(&self) -> &str {
            "pipe"
        }

        fn name(&self) -> &str {
            self.0
        }

        fn measure(&self, _: &Probe) -> Result<Measured, Error> {
            Ok(Measured::default())
        }
    }

    /// Speeds in GiB/s, beside the first; as many samples of each as there are rounds.
    const SPEEDS: [(&str, f64); 5] =
        [("base", 1.0), ("slow", 0.5), ("first", 9.0), ("third", 2.0), ("second", 4.0)];

    fn samples(rounds: u32) -> Vec<Sample> {
        let of = |round| {
            SPEEDS.map(|(case, speed)| Sample {
                suite: "pipe".into(),
                case: case.into(),
                round,
                measured: Measured { gib_per_s: Some(speed), ..Measured::default() },
            })
        };
        (1..=rounds).flat_map(of).collect()
    }

    fn course(time: Duration) -> Narrowing {
        let described = |(case, _): &(&str, f64)| Described {
            baseline: (*case != "base").then(|| "base".into()),
            ..Described::new("pipe", case)
        };
        let run = Run { cases: SPEEDS.iter().map(described).collect(), ..Run::default() };
        Narrowing::new(9, time, SPEEDS.len(), run)
    }

    fn taken(course: &Narrowing) -> Vec<&'static str> {
        let names = SPEEDS.iter().map(|(case, _)| *case);
        names.filter(|case| course.takes(&Named(case))).collect()
    }

    #[test]
    fn a_tour_ends_with_three_sentences_at_most_and_never_without_one() {
        let told = |count: usize| last_words((0..count).map(|n| n.to_string()).collect());
        assert_eq!(told(5).len(), 3);
        assert_eq!(told(5)[..2], ["0", "1"]);
        assert_eq!(told(0)[0], INCONCLUSIVE);
        assert!(told(0)[1].starts_with("gush tune "));
    }

    #[test]
    fn a_short_time_is_spent_on_the_cases_ahead() {
        let mut course = course(Duration::ZERO);
        assert!(course.goes_on(1, &[]));
        assert_eq!(taken(&course).len(), 5, "everything once");
        assert!(course.goes_on(2, &samples(1)));
        assert_eq!(taken(&course), ["base", "first", "second"]);
        assert!(course.told().unwrap().contains("from round 2 on only 3 of 5 cases"));
        assert!(course.goes_on(9, &samples(8)) && !course.goes_on(10, &samples(9)));
    }

    #[test]
    fn with_time_enough_every_round_has_all_cases() {
        let mut course = course(Duration::MAX / 4);
        assert!((1..=9).all(|round| course.goes_on(round, &samples(round - 1))));
        assert_eq!((taken(&course).len(), course.told()), (5, None));
        assert!(!course.goes_on(10, &samples(9)));
    }
}
