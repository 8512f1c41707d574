//! `-R` sends display options to another `gush pv`, `-Q` shows its progress.

use super::args::PvArgs;
use super::control::{self, Answer, Request, Snapshot};
use super::line::{Extras, Layout, Subject};
use super::onlooker::Onlooker;
use super::process::Process;
use super::screen::Screen;
use super::signals::lock;
use super::status::Status;
use super::values::Expected;
use super::{asked_size, plan};
use crate::console::Console;
use gush_text::os_text;

/// Sends the display options.
///
/// # Errors
/// The status; the error has been reported.
pub fn change(options: &PvArgs, pid: i32, console: &Console) -> Result<Status, Status> {
    find(pid, console)?;
    let mut display = options.display.clone();
    display.size = asked_size(&display, console)?.map(Expected::Number);
    let request = Request::Show(Box::new(display), options.extra_display.clone());
    match control::ask(pid, &request) {
        Ok(Answer::Done) => Ok(Status::default()),
        Ok(answer) => Err(fail(pid, format_args!("unexpected answer: {answer:?}"), console)),
        Err(error) => Err(fail(pid, control::why_unanswered(&error), console)),
    }
}

/// Shows the progress of the process until it ends.
///
/// # Errors
/// The status; the error has been reported.
pub fn run(options: &PvArgs, pid: i32, console: &Console) -> Result<Status, Status> {
    let process = find(pid, console)?;
    let snapshot = ask(pid).map_err(|why| fail(pid, why, console))?;
    let onlooker = Onlooker::begin(Screen::new(options, console), console)?;
    let subject = Subject {
        counts_lines: snapshot.counts_lines,
        is_sized: snapshot.expected.is_some(),
        has_out: false,
    };
    let layout = Layout::new(&options.display, subject);
    let plan = plan(options, layout);
    let mut meter = plan.meter(0);
    let mut show = |snapshot: Snapshot| {
        let reading = meter.read(snapshot.count, snapshot.elapsed, snapshot.expected);
        let extras = Extras { row: meter.row(), ..Extras::default() };
        lock(&onlooker.screen).show(&plan.line(&plan.layout, &reading, &extras));
    };
    show(snapshot);
    // The last answer stays on the screen.
    onlooker.follow(plan.display.interval(), |is_due| match is_due {
        true => ask(pid).map(&mut show).is_ok(),
        false => !process.has_ended(),
    });
    Ok(onlooker.end())
}

fn find(pid: i32, console: &Console) -> Result<Process, Status> {
    Process::find(pid).map_err(|error| fail(pid, os_text(&error), console))
}

fn ask(pid: i32) -> Result<Snapshot, String> {
    match control::ask(pid, &Request::Snapshot) {
        Ok(Answer::Snapshot(snapshot)) => Ok(snapshot),
        Ok(answer) => Err(format!("unexpected answer: {answer:?}")),
        Err(error) => Err(control::why_unanswered(&error)),
    }
}

fn fail(pid: i32, why: impl std::fmt::Display, console: &Console) -> Status {
    Status::OTHER.report(console, format_args!("{pid}: {why}"))
}
