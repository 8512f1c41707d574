//! `-R` sends display options to another `gush pv`, `-Q` shows its progress.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::args::PvArgs;
use super::control::{self, Answer, Request, Snapshot};
use super::line::{Extras, Layout, SPARKLINE_COLUMNS, Subject};
use super::meter::Meter;
use super::process::Process;
use super::screen::Screen;
use super::signals::{self, SignalHandler, lock};
use super::state::TransferState;
use super::status::Status;
use super::values::Expected;
use super::{asked_size, plan, screen_options};
use crate::talk::Talker;
use gush_text::os_text;

/// How often to check for a signal.
const SLICE: Duration = Duration::from_millis(50);

/// Sends the display options.
///
/// # Errors
/// The status; the error has been reported.
pub fn change(options: &PvArgs, pid: i32, talker: &Talker) -> Result<Status, Status> {
    find(pid, talker)?;
    let mut display = options.display.clone();
    let size = asked_size(&display).map_err(|why| {
        talker.say(why);
        Status::MISUSE
    })?;
    display.size = size.map(Expected::Number);
    let request = Request::Show(Box::new(display), options.extra_display.clone());
    match control::ask(pid, &request) {
        Ok(Answer::Done) => Ok(Status::default()),
        Ok(answer) => Err(fail(pid, format_args!("unexpected answer: {answer:?}"), talker)),
        Err(error) => Err(fail(pid, control::why_unanswered(&error), talker)),
    }
}

/// Shows the progress of the process until it ends.
///
/// # Errors
/// The status; the error has been reported.
pub fn run(options: &PvArgs, pid: i32, talker: &Talker) -> Result<Status, Status> {
    let process = find(pid, talker)?;
    let mut snapshot = ask(pid).map_err(|why| fail(pid, why, talker))?;
    let screen = Arc::new(Mutex::new(Screen::new(screen_options(options), talker)));
    let state = Arc::new(TransferState::idle());
    let signals = SignalHandler::begin(&screen, None)
        .map_err(|errno| signals::cannot_handle(errno, talker))?;
    signals.add(&state);
    let subject = Subject {
        counts_lines: snapshot.counts_lines,
        is_sized: snapshot.expected.is_some(),
        has_out: false,
    };
    let layout = Layout::new(&options.display, subject);
    let plan = plan(options, layout);
    let mut meter = Meter::new(plan.window);
    loop {
        let reading = meter.read(snapshot.count, snapshot.elapsed, snapshot.expected);
        let row =
            if plan.layout.has_sparkline() { meter.row(SPARKLINE_COLUMNS) } else { Vec::new() };
        let extras = Extras { row, ..Extras::default() };
        let mut shown = lock(&screen);
        let columns = plan.columns.unwrap_or_else(|| shown.columns());
        shown.show(&plan.line(&plan.layout, &reading, &extras, columns));
        drop(shown);
        let asked = Instant::now();
        while asked.elapsed() < plan.interval && !process.has_ended() {
            if state.stop_reason().is_some() {
                lock(&screen).close();
                return Ok(Status::SIGNAL);
            }
            std::thread::sleep(SLICE.min(plan.interval));
        }
        // The last answer stays on the screen.
        let Ok(next) = ask(pid) else { break };
        snapshot = next;
    }
    lock(&screen).close();
    Ok(Status::default())
}

fn find(pid: i32, talker: &Talker) -> Result<Process, Status> {
    Process::find(pid).map_err(|error| fail(pid, os_text(&error), talker))
}

fn ask(pid: i32) -> Result<Snapshot, String> {
    match control::ask(pid, &Request::Snapshot) {
        Ok(Answer::Snapshot(snapshot)) => Ok(snapshot),
        Ok(answer) => Err(format!("unexpected answer: {answer:?}")),
        Err(error) => Err(control::why_unanswered(&error)),
    }
}

fn fail(pid: i32, why: impl std::fmt::Display, talker: &Talker) -> Status {
    talker.say(format_args!("{pid}: {why}"));
    Status::OTHER
}
