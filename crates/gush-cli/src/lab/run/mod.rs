//! `gush lab run`: any commands as contenders.

mod options;

use std::cell::OnceCell;
use std::process::ExitCode;
use std::time::Instant;

use gush_lab::bench::{self, Comparison, Pace, Paced, Summary, show};
use gush_lab::model::Sample;
use gush_lab::probe::Probe;
use gush_lab::transfer;
use gush_text::{os_text, quote};

use super::screen::{Outlook, Screen};
use super::session::{Ended, Limits, Session};
use crate::console::Console;
use crate::files::takes_text_in_its_directory;
use options::is_stdout;
pub use options::{RunArgs, percent};

pub fn run(options: &RunArgs) -> ExitCode {
    let console = Console::new("gush lab run");
    compare(options, &console).unwrap_or_else(|why| console.fail(why))
}

fn compare(options: &RunArgs, console: &Console) -> Result<ExitCode, String> {
    options.check_stdout()?;
    let files = options.exports().map(|(_, path, _)| path);
    let named = files.chain(options.report.as_deref()).filter(|path| !is_stdout(path));
    for path in named {
        takes_text_in_its_directory(path)?;
    }
    let comparisons = options.comparisons().map_err(|error| error.to_string())?;
    for comparison in &comparisons {
        comparison.check().map_err(|error| error.to_string())?;
        let pace = options.pace(1, comparison.runs).map_err(|error| error.to_string())?;
        let Comparison { entries, parameters, .. } = comparison;
        let is_alone = entries.len() < 2 && parameters.is_empty();
        if let Some(why) =
            undecidable(is_alone, pace.most).filter(|_| options.fail_if_slower.is_some())
        {
            return Err(why);
        }
    }
    let begun = Session::begin(console.clone(), &options.keep, Probe::unpinned());
    let mut session = begun.map_err(|error| error.to_string())?;
    let mut screen = Screen::new(console.clone(), 0);
    if options.exports_to_stdout() {
        screen.tables_to_stderr();
    }
    let mut summaries = Vec::new();
    if options.csv {
        screen.print_samples(&session.run);
    }
    for comparison in &comparisons {
        if session.run.interrupted || screen.is_broken() {
            break;
        }
        summaries.push(measure(comparison, options, console, &mut session, &mut screen));
    }
    let ended = session.end();
    if options.json {
        screen.print(transfer::json(std::slice::from_ref(&ended.run)).trim_end());
    }
    let is_empty = summaries.iter().all(Vec::is_empty) && !ended.run.interrupted;
    match conclude(options, console, &ended, &summaries, screen)? {
        ExitCode::SUCCESS if is_empty => Err(NOTHING.to_owned()),
        status => Ok(status),
    }
}

const NOTHING: &str = "nothing was measured: every contender lacks a program that it needs (the first lines of a file of comparisons say how its programs are built)";

fn outlook(pace: Pace) -> Outlook {
    let begun = OnceCell::new();
    Box::new(move |round| {
        let begun: &Instant = begun.get_or_init(Instant::now);
        let of = if pace.least == pace.most { format!(" of {}", pace.most) } else { String::new() };
        match pace.left(round, begun.elapsed()) {
            Some(left) => format!("round {round}{of}, about {} s left", left.as_secs() + 1),
            None => format!("round {round}{of}"),
        }
    })
}

/// Measures one comparison, and shows the figures.
fn measure(
    comparison: &Comparison,
    options: &RunArgs,
    console: &Console,
    session: &mut Session,
    screen: &mut Screen,
) -> Vec<Summary> {
    let suite = comparison.suite();
    let prepared = comparison.prepare().and_then(|prepared| {
        let pace = options.pace(prepared.cases.len(), comparison.runs)?;
        Ok((prepared, pace))
    });
    let (prepared, pace) = match prepared {
        Ok(ready) => ready,
        Err(error) => {
            session.leave_out(&suite, &error);
            return Vec::new();
        }
    };
    let Comparison { name, about, aims, .. } = comparison;
    if options.shows_tables() && !name.is_empty() {
        let colon = if about.is_empty() { "" } else { ": " };
        screen.show(&format!("\n{name}{colon}{about}"));
    }
    prepared.notes.iter().for_each(|note| console.say(note));
    screen.set_outlook(outlook(pace));
    let mut schedule = Paced::new(pace, &prepared.baseline, comparison.figures.first());
    session.expect(&prepared.cases);
    let goes_on = &mut |round, samples: &[Sample]| schedule.goes_on(round, samples);
    session.measure(&prepared.cases, goes_on, Limits::default(), screen);
    // An interrupt ends the reading of an input, too, and is reported at the end.
    let agreement = if session.run.interrupted { Ok(None) } else { prepared.agreement() };
    let measure = prepared.baseline.clone();
    prepared.end(
        |error| session.leave_out(&suite, error),
        |cleanup| {
            console.say(format_args!(
                "interrupted: the cleanup '{cleanup}' runs on; to interrupt again ends it at once"
            ));
        },
    );
    let summaries = bench::summaries(&session.run, &suite);
    if options.shows_tables() && !summaries.is_empty() {
        let rows = options.sorted(summaries.clone());
        screen.show(show::table(&rows, options.time_unit).trim_end());
        if let Some(first) = summaries.first().filter(|first| first.label != measure) {
            let first = &first.label;
            screen.show(&format!("{measure} has no time: {first} is the first here"));
        }
        let aims = aims.iter().filter_map(|aim| aim.verdict(&summaries));
        bench::sentences(&summaries).into_iter().chain(aims).for_each(|line| screen.show(&line));
    }
    match agreement {
        Ok(Some(line)) if options.shows_tables() => screen.show(&line),
        Ok(_) => {}
        Err(error) => session.leave_out(&suite, &error),
    }
    summaries
}

/// Writes the files, reports regressions, and returns the exit status.
fn conclude(
    options: &RunArgs,
    console: &Console,
    ended: &Ended,
    summaries: &[Vec<Summary>],
    mut screen: Screen,
) -> Result<ExitCode, String> {
    let all = options.sorted(summaries.iter().flatten().cloned().collect());
    let mut unwritten = Vec::new();
    for (_, path, export) in options.exports() {
        let text = export(&all, options.time_unit);
        if is_stdout(path) {
            screen.print(text.trim_end());
        } else if let Err(error) = gush_lab::write_atomic(path, &text) {
            unwritten.push(format!(
                "{}: cannot write: {}",
                quote::if_needed(path),
                os_text(&error)
            ));
        }
    }
    if let Some(path) = &options.report {
        match ended.report(Some(path)) {
            Ok(path) => console.say(format_args!("report: {}", quote::if_needed(&path))),
            Err(why) => unwritten.push(why),
        }
    }
    let status = ended.last_words(screen);
    unwritten.iter().for_each(|why| console.say(why));
    if !unwritten.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    match options.fail_if_slower.filter(|_| status == ExitCode::SUCCESS) {
        Some(margin) => judged(summaries, margin, console),
        None => Ok(status),
    }
}

/// Reports the contenders that are slower than the first of their comparison.
fn judged(summaries: &[Vec<Summary>], margin: f64, console: &Console) -> Result<ExitCode, String> {
    /// Everything was measured, and a contender is slower than permitted.
    const SLOWER: u8 = 2;

    let mut status = ExitCode::SUCCESS;
    for summaries in summaries {
        if let Some(why) = undecided(summaries) {
            return Err(why);
        }
        for one in bench::regressions(summaries, margin) {
            let Some(times) = one.compared().times_first else { continue };
            let Some(around) = times.interval else { continue };
            let (how, by) = match one.figures.first() {
                Some(figure) => {
                    let (name, around) = (&figure.printed.name, times.around(2));
                    (
                        "worse",
                        format!("{:.2} times as good by {name} (95 %: {around})", times.value),
                    )
                }
                None => {
                    let [value, low, high] = [times.value, around.high, around.low].map(f64::recip);
                    let around = format!("{low:.2} … {high:.2}");
                    ("slower", format!("it takes {value:.2} times as long (95 %: {around})"))
                }
            };
            let (label, first, percent) = (&one.label, &summaries[0].label, margin * 100.0);
            console.say(format_args!(
                "{label} is {how} than {first} by more than {percent:.1} %: {by}"
            ));
            status = ExitCode::from(SLOWER);
        }
    }
    Ok(status)
}

/// The reason why nobody can say whether a contender is slower, if there is one.
fn undecided(summaries: &[Summary]) -> Option<String> {
    let fewest = summaries.iter().map(|one| one.seconds.rounds.len()).min().unwrap_or(0);
    undecidable(summaries.len() < 2, u32::try_from(fewest).unwrap_or(u32::MAX))
}

/// The reason why one contender alone, or so few rounds, decide nothing.
fn undecidable(is_alone: bool, rounds: u32) -> Option<String> {
    let least = gush_lab::stats::FEWEST_SAMPLES;
    if is_alone {
        return Some("--fail-if-slower needs two contenders that are measured".to_owned());
    }
    let is_short = usize::try_from(rounds).is_ok_and(|rounds| rounds < least);
    is_short
        .then(|| format!("--fail-if-slower needs at least {least} rounds: give a larger --runs"))
}
