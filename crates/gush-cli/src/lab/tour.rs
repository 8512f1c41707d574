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

use super::reporting;
use super::screen::Screen;
use super::session::{Keep, Session};
use super::suite::this_program;
use crate::talk::Talker;

/// What `gush lab` takes when no suite is named.
#[derive(Debug, Args)]
pub struct Options {
    /// Measure every case N times, or fewer where a suite's time is up
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
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

/// Samples as text.
type Show = Box<dyn Fn(&[Sample]) -> String>;

/// Where things are.
struct Places<'a> {
    /// This program, which cases start again.
    program: &'a Path,
    /// Where files are made.
    dir: &'a Path,
}

/// A suite's cases, how they are shown, and what is to be said of them first.
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

/// A suite on the way: at most so many rounds, and no new one after so much time.
struct Stop {
    suite: &'static str,
    rounds: u32,
    time_s: u64,
    shown: fn(&Places<'_>) -> Result<Shown, Error>,
}

/// The way: a minute altogether, on two processors.
const STOPS: &[Stop] = &[
    Stop {
        suite: "pipe",
        rounds: u32::MAX,
        time_s: 12,
        shown: |places| Ok(Shown::of(pipe::short(places.program), pipe::Ladder)),
    },
    Stop {
        suite: "memory",
        rounds: u32::MAX,
        time_s: 6,
        shown: |places| {
            Ok(Shown::of(memory::cases(places.program, Some(256 << 20)), memory::Bandwidths))
        },
    },
    Stop { suite: "pages", rounds: u32::MAX, time_s: 6, shown: lent_pages },
    Stop { suite: "copy", rounds: u32::MAX, time_s: 12, shown: copies },
    Stop {
        suite: "relay",
        rounds: u32::MAX,
        time_s: 6,
        shown: |places| Ok(Shown::of(relay::cases(places.program, Some(256 << 20)), relay::Relays)),
    },
    Stop { suite: "matrix", rounds: 1, time_s: 10, shown: cells },
];

fn suites() -> PossibleValuesParser {
    PossibleValuesParser::new(STOPS.iter().map(|stop| stop.suite))
}

/// After so much time every suite is only measured once.
const ENOUGH_S: u64 = 45;

fn lent_pages(places: &Places<'_>) -> Result<Shown, Error> {
    let (cases, notes) = pages::cases(places.program, Some(256 << 20), &[]);
    Ok(Shown { notes, ..Shown::of(cases, pages::Costs) })
}

/// Three sizes, which is enough for a line in the report; the screen has room for the largest.
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

/// All cells, of which the screen has no room: how many work is told, and the rest left to the report.
fn cells(places: &Places<'_>) -> Result<Shown, Error> {
    let matrix::Matrix { cases, .. } = matrix::cases(places.program, &matrix::Plan::default())?;
    let show = |samples: &[Sample]| {
        let works = |sample: &&Sample| sample.measured.facts.get("works") == Some(&true.into());
        format!(
            "{} of {} combinations of a method and two ends work, each with its bytes verified; \
             gush lab matrix prints them, the report has them",
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
    let begun = Instant::now();
    let mut session = Session::begin(talker.clone(), &options.keep);
    let mut screen = Screen::new(talker.clone(), options.rounds);
    let is_wanted =
        |suite: &str| options.only.is_empty() || options.only.iter().any(|s| s == suite);
    for stop in STOPS.iter().filter(|stop| is_wanted(stop.suite)) {
        if session.is_interrupted() {
            break;
        }
        let Shown { cases, show, notes } = match (stop.shown)(&places) {
            Ok(shown) => shown,
            Err(error) => {
                session.leave_out(stop.suite, &error);
                continue;
            }
        };
        for note in notes {
            talker.say(note);
        }
        let known = session.samples().len();
        let rounds = options.rounds.min(stop.rounds);
        let left = Duration::from_secs(ENOUGH_S).saturating_sub(begun.elapsed());
        let time = left.min(Duration::from_secs(stop.time_s));
        session.measure(&cases, rounds, Some(time), &mut screen, |_, _| ());
        let own = &session.samples()[known..];
        if !options.json && !own.is_empty() {
            screen.print(&format!("{}\n{}\n", stop.suite, show(own).trim_end()));
        }
    }
    let ended = session.end();
    if options.json {
        screen.print(transfer::json(std::slice::from_ref(&ended.run)).trim_end());
    }
    let written = reporting::after(&ended, options.report.as_deref());
    let told = match &written {
        Ok(path) => {
            let line = format!("report: {}", path.display());
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
