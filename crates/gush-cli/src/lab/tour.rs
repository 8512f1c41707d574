//! `gush lab` without a suite: a little of every suite, and one report.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::PossibleValuesParser;
use gush_lab::Error;
use gush_lab::case::{Case, View};
use gush_lab::model::Sample;
use gush_lab::suite::{copy, matrix, memory, pages, pipe, relay};
use gush_lab::transfer;
use gush_tree::quote;

use super::reporting;
use super::screen::Screen;
use super::session::{Keep, Limits, Session};
use super::suite::this_program;
use crate::files::takes_text_in_its_directory;
use crate::talk::Talker;

/// The options of `gush lab` without a suite.
#[derive(Debug, Args)]
pub struct Options {
    /// Measure every case N times, or as often as there is time
    #[arg(long, value_name = "N", default_value = "9", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Only these suites: pipe, memory, pages, copy, relay, matrix
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

/// Formats samples as text.
type Show = Box<dyn Fn(&[Sample]) -> String>;

/// The paths that cases need.
struct Places<'a> {
    /// This program, which cases start again.
    program: &'a Path,
    /// The directory for files.
    dir: &'a Path,
}

/// A suite's cases, the format of their figures, and notes to show first.
struct Shown {
    cases: Vec<Box<dyn Case>>,
    show: Show,
    notes: Vec<String>,
}

impl Shown {
    fn of(cases: Vec<Box<dyn Case>>, view: impl View + 'static) -> Self {
        Self { cases, show: Box::new(move |samples| view.table(samples)), notes: Vec::new() }
    }
}

/// A suite of the tour.
struct Stop {
    suite: &'static str,
    /// Do further rounds tell anything more?
    is_repeated: bool,
    shown: fn(&Places<'_>) -> Result<Shown, Error>,
}

/// The stops of the tour, in order.
const STOPS: &[Stop] = &[
    Stop {
        suite: "pipe",
        is_repeated: true,
        shown: |places| Ok(Shown::of(pipe::short(places.program), pipe::Ladder)),
    },
    Stop {
        suite: "memory",
        is_repeated: true,
        shown: |places| {
            Ok(Shown::of(memory::cases(places.program, Some(256 << 20)), memory::Bandwidths))
        },
    },
    Stop { suite: "pages", is_repeated: true, shown: lent_pages },
    Stop { suite: "copy", is_repeated: true, shown: copies },
    Stop {
        suite: "relay",
        is_repeated: true,
        shown: |places| Ok(Shown::of(relay::cases(places.program, Some(128 << 20)), relay::Relays)),
    },
    Stop { suite: "matrix", is_repeated: false, shown: cells },
];

/// After this time no case is measured again.
const ENOUGH: Duration = Duration::from_secs(40);
/// After this time no measurement begins, which keeps the tour within a minute on a busy machine, too.
const LATE: Duration = Duration::from_secs(50);

fn suites() -> PossibleValuesParser {
    PossibleValuesParser::new(STOPS.iter().map(|stop| stop.suite))
}

fn lent_pages(places: &Places<'_>) -> Result<Shown, Error> {
    let (cases, notes) = pages::cases(places.program, Some(256 << 20), &[]);
    Ok(Shown { notes, ..Shown::of(cases, pages::Costs) })
}

/// Three sizes, enough for a line in the report. The screen has room for the largest alone.
fn copies(places: &Places<'_>) -> Result<Shown, Error> {
    const LARGEST_BYTES: u64 = 16 << 20;
    let sizes_bytes = vec![64 << 10, 1 << 20, LARGEST_BYTES];
    let choice = copy::Choice { sizes_bytes, ..copy::Choice::default() };
    let copy::Cases { cases, notes } =
        copy::cases(places.program, places.dir, &copy::plan(&choice), false, true)?;
    let show = |samples: &[Sample]| {
        let is_large = |sample: &&Sample| sample.measured.bytes == LARGEST_BYTES;
        let large: Vec<Sample> = samples.iter().filter(is_large).cloned().collect();
        copy::Copies.table(&large)
    };
    Ok(Shown { cases, show: Box::new(show), notes })
}

/// All cells. The screen shows only how many work, and the report has the rest.
fn cells(places: &Places<'_>) -> Result<Shown, Error> {
    let matrix::Matrix { cases, .. } = matrix::cases(places.program, &matrix::Plan::default())?;
    let show = |samples: &[Sample]| {
        let works = |sample: &&Sample| sample.measured.facts.get("works") == Some(&true.into());
        format!(
            "{} of {} combinations of a method and two ends work, each with its bytes verified; \
             gush lab matrix prints all, and the report has all",
            samples.iter().filter(works).count(),
            samples.len()
        )
    };
    Ok(Shown { cases, show: Box::new(show), notes: Vec::new() })
}

pub fn run(options: &Options) -> ExitCode {
    let talker = Talker::new("gush lab");
    let program = match this_program() {
        Ok(program) => program,
        Err(error) => return talker.fail(error.told()),
    };
    let places = Places { program: &program, dir: &options.dir };
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
    let mut session = Session::begin(talker.clone(), &options.keep);
    let mut screen = Screen::new(talker.clone(), options.rounds);
    let (mut once, mut repeated, mut shows) = (Vec::new(), Vec::new(), Vec::new());
    for stop in STOPS.iter().filter(|stop| is_wanted(stop.suite)) {
        match (stop.shown)(&places) {
            Ok(Shown { cases, show, notes }) => {
                notes.iter().for_each(|note| talker.say(note));
                if stop.is_repeated { &mut repeated } else { &mut once }.extend(cases);
                shows.push((stop.suite, show));
            }
            Err(error) => session.leave_out(stop.suite, &error),
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
        let of_suite = |sample: &&Sample| sample.suite == *suite;
        let own: Vec<Sample> = session.samples().iter().filter(of_suite).cloned().collect();
        if !own.is_empty() {
            screen.print(&format!("{suite}\n{}\n", show(&own).trim_end()));
        }
    }
    // The cases' files are removed before the last message.
    drop((once, repeated));
    let ended = session.end();
    if options.json {
        screen.print(transfer::json(std::slice::from_ref(&ended.run)).trim_end());
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
