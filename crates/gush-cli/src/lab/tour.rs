//! `gush lab` without a suite: a little of every suite, and one report.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::PossibleValuesParser;
use gush_lab::model::Sample;
use gush_lab::probe::Probe;
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
    /// Only these suites: pipe, copy, matrix, memory, pages, relay
    #[arg(long, value_name = "SUITE,…", value_delimiter = ',', value_parser = suites(), hide_possible_values = true)]
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

/// After this time no case is measured again.
const ENOUGH: Duration = Duration::from_secs(40);
/// After this time no measurement begins, which keeps the tour within a minute on a busy machine, too.
const LATE: Duration = Duration::from_secs(50);

fn suites() -> PossibleValuesParser {
    PossibleValuesParser::new(SUITES.iter().map(|suite| suite.name))
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
    if is_wanted("copy")
        && let Err(error) = options.dir.read_dir()
    {
        talker.say_failed(&options.dir, "cannot make files there", &error);
        return ExitCode::FAILURE;
    }
    if let Some(Err(why)) = options.report.as_deref().map(takes_text_in_its_directory) {
        return talker.fail(why);
    }
    let begun = Instant::now();
    let mut session = Session::begin(talker.clone(), &options.keep, Probe::take());
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
    let time = Some(ENOUGH.saturating_sub(begun.elapsed()));
    session.measure(&repeated, options.rounds, Limits { time, end }, &mut screen, |_, _| ());
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
    // What a person can act on comes last, where it is still on the screen.
    for sentence in
        report::conclusions(std::slice::from_ref(&ended.run)).iter().filter(|_| !options.json)
    {
        screen.print(sentence);
    }
    if !options.json {
        screen.print(
            "gush tune measures what cp, cat and link should do here, and makes them do it.",
        );
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
