//! `gush lab` without a suite: a little of every suite, and one report.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use gush_lab::Error;
use gush_lab::case::{Case, View};
use gush_lab::suite::{matrix, pipe};
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
    /// Write the report to the file PATH [default: $XDG_DATA_HOME/gush/report.html]
    #[arg(long, value_name = "PATH")]
    report: Option<PathBuf>,
    /// Print the whole run as JSON, as gush lab export does
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    keep: Keep,
}

/// A suite's cases and how they are shown.
pub type Shown = (Vec<Box<dyn Case>>, Box<dyn View>);

/// A suite on the way: at most so many rounds in so much time, of these cases.
struct Stop {
    suite: &'static str,
    rounds: u32,
    time: Duration,
    cases: fn(&Path) -> Result<Shown, Error>,
}

/// The way: a minute altogether, on two processors.
const STOPS: &[Stop] = &[
    Stop {
        suite: "pipe",
        rounds: u32::MAX,
        time: Duration::from_secs(15),
        cases: |program| Ok((pipe::short(program), Box::new(pipe::Ladder))),
    },
    Stop {
        suite: "matrix",
        rounds: 1,
        time: Duration::from_secs(10),
        cases: |program| {
            let matrix::Matrix { cases, places } =
                matrix::cases(program, &matrix::Plan::default())?;
            Ok((cases, Box::new(matrix::Grid { places })))
        },
    },
];

pub fn run(options: &Options) -> ExitCode {
    let talker = Talker::new("gush lab");
    let program = match this_program() {
        Ok(program) => program,
        Err(error) => return talker.fail(error.told()),
    };
    let mut session = Session::begin(talker.clone(), &options.keep);
    let mut screen = Screen::new(talker.clone(), options.rounds);
    for stop in STOPS {
        if session.is_interrupted() {
            break;
        }
        let (cases, view) = match (stop.cases)(&program) {
            Ok(shown) => shown,
            Err(error) => {
                session.leave_out(stop.suite, &error);
                continue;
            }
        };
        let known = session.samples().len();
        let rounds = options.rounds.min(stop.rounds);
        session.measure(&cases, rounds, Some(stop.time), &mut screen, |_, _| ());
        let own = &session.samples()[known..];
        if !options.json && !own.is_empty() {
            screen.print(&format!("{}\n{}\n", stop.suite, view.table(own).trim_end()));
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
