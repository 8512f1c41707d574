//! `-R` gives another `gush pv` new display options, `-Q` shows that one's progress.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::account::Account;
use super::control::{self, Answer, Request, State};
use super::ending::{self, Ending, lock};
use super::line::{Beside, Look, ROW_COLUMNS, Subject};
use super::meter::Meter;
use super::options::{Expected, Options};
use super::process::Process;
use super::screen::Screen;
use super::status::Status;
use super::{asked_size, plan, wishes};
use crate::talk::Talker;
use gush_text::os_text;

/// How often somebody looks for a signal.
const SLICE: Duration = Duration::from_millis(50);

/// Sends the display options.
///
/// # Errors
/// The status, told already.
pub fn change(options: &Options, pid: i32, talker: &Talker) -> Result<Status, Status> {
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
        Ok(answer) => Err(told(pid, format_args!("unexpected answer: {answer:?}"), talker)),
        Err(error) => Err(told(pid, control::why_unanswered(&error), talker)),
    }
}

/// Shows the progress until that process ends.
///
/// # Errors
/// The status where the process cannot be asked; the message has been written already.
pub fn run(options: &Options, pid: i32, talker: &Talker) -> Result<Status, Status> {
    let process = find(pid, talker)?;
    let mut state = ask(pid).map_err(|why| told(pid, why, talker))?;
    let screen = Arc::new(Mutex::new(Screen::new(wishes(options), talker)));
    let account = Arc::new(Account::of_nothing());
    let ending = Ending::begin(&screen, None).map_err(|errno| ending::untold(errno, talker))?;
    ending.concerns(&account);
    let subject = Subject {
        counts_lines: state.counts_lines,
        is_sized: state.expected.is_some(),
        has_out: false,
    };
    let look = Look::new(&options.display, subject);
    let plan = plan(options, look);
    let mut meter = Meter::new(plan.window);
    loop {
        let reading = meter.read(state.count, state.elapsed, state.expected);
        let row = if plan.look.has_row() { meter.row(ROW_COLUMNS) } else { Vec::new() };
        let beside = Beside { row, ..Beside::default() };
        let mut shown = lock(&screen);
        let columns = plan.columns.unwrap_or_else(|| shown.columns());
        shown.show(&plan.line(&plan.look, &reading, &beside, columns));
        drop(shown);
        let asked = Instant::now();
        while asked.elapsed() < plan.interval && !process.has_ended() {
            if account.ended_early().is_some() {
                lock(&screen).close();
                return Ok(Status::SIGNAL);
            }
            std::thread::sleep(SLICE.min(plan.interval));
        }
        // Once it has ended, the last answer stays on the screen.
        let Ok(next) = ask(pid) else { break };
        state = next;
    }
    lock(&screen).close();
    Ok(Status::default())
}

fn find(pid: i32, talker: &Talker) -> Result<Process, Status> {
    Process::find(pid).map_err(|error| told(pid, os_text(&error), talker))
}

fn ask(pid: i32) -> Result<State, String> {
    match control::ask(pid, &Request::State) {
        Ok(Answer::State(state)) => Ok(state),
        Ok(answer) => Err(format!("unexpected answer: {answer:?}")),
        Err(error) => Err(control::why_unanswered(&error)),
    }
}

fn told(pid: i32, why: impl std::fmt::Display, talker: &Talker) -> Status {
    talker.say(format_args!("{pid}: {why}"));
    Status::OTHER
}
