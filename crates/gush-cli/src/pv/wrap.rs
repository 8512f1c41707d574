//! `pv -- CMD` and `pv --monitor`: the input and the output of a command.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;

use gush::{Errno, Rate, Side};
use gush_text::{Doing, os_text};
use rustix::process::{Pid, Signal, kill_process};

use super::args::PvArgs;
use super::display::Transfers;
use super::moving::{MoveError, Moving, Output};
use super::state::{StopReason, TransferState};
use super::status::Status;
use super::transfer::{Session, Stage, close, open_output};
use super::values::Monitored;
use crate::console::{Console, remedy};

/// Runs the command on the inputs, and moves its output to the output.
///
/// The status is that of the command, or of another failure if the command succeeded or its output
/// could not be written.
///
/// # Errors
/// The status of a command that was not run; the error has been reported.
pub fn run(options: &PvArgs, console: &Console) -> Result<ExitCode, Status> {
    if options.store_and_forward.is_some() {
        let why = "-U cannot be used with a command; use -o to store its output";
        return Err(Status::MISUSE.report(console, why));
    }
    let output = open_output(options, console)?;
    let mut session = Session::new(options, console, &output)?;
    // The input goes to the command, which has no size.
    session.device_bytes = None;
    let session = session;
    let side = options.monitor.unwrap_or(Monitored::Both);
    let plan = session.plan(session.expected, None, side == Monitored::Both);
    let into = session.state(session.expected, &plan, Stage::Whole);
    // The bytes that a command writes are only counted.
    let out = Arc::new(TransferState::new(options.inspect(), Rate::default()));
    session.signals.add(&out);
    // After the transfers are registered, so that a signal ends the command, too.
    let child = match start(options) {
        Ok(child) => child,
        Err(error) => {
            let path = options.command[0].as_ref();
            console.say_unopened(path, &error, remedy(path, Doing::Starting, &error));
            // As env(1) and timeout(1).
            let is_missing = error.kind() == std::io::ErrorKind::NotFound;
            return Ok(ExitCode::from(if is_missing { 127 } else { 126 }));
        }
    };
    let (shown, extras) = match side {
        Monitored::Input => (&into, None),
        // The size of the output is known only from --size.
        Monitored::Output => (&out, None),
        Monitored::Both => (&into, Some(&out)),
    };
    if side == Monitored::Output {
        out.expect(session.asked);
        out.set_input();
    }
    let transfers = Transfers { shown, out: extras, watched: &[&into, &out] };
    let display = match session.show(plan, &transfers) {
        Ok(display) => display,
        Err(status) => {
            end(child);
            return Err(status);
        }
    };
    let moved = move_both(&session, child, &into, &out, output);
    display.finish(true);
    let Moved { ended, output, mut status, is_written, unread_bytes } = moved.map_err(|error| {
        let why = os_text(&error);
        let what = format!("cannot start a thread to feed the command: {why}");
        Status::MISUSE.report(console, what)
    })?;
    let is_ended_here = matches!(out.stop_reason(), Some(StopReason::Signal | StopReason::Stall));
    // Only known if the size of the input is.
    let is_fed_short = session.input_bytes().is_some_and(|bytes| into.bytes() < bytes);
    match unread_bytes {
        Some(bytes) if !is_ended_here && (bytes > 0 || is_fed_short) => {
            session.report_unread(into.bytes().saturating_sub(bytes));
        }
        _ => {}
    }
    status.add(session.report_checksum(&into));
    status.add(close(output, console));
    // Lost output outweighs the status of the command.
    let own = is_written.then(|| ended.ok().and_then(own_status)).flatten();
    Ok(own.map_or(status.into(), ExitCode::from))
}

/// The status of a command that has failed.
fn own_status(ended: ExitStatus) -> Option<u8> {
    match (ended.code(), ended.signal()) {
        (Some(code @ 1..), _) => Some(u8::try_from(code).unwrap_or(1)),
        // As a shell reports a signal.
        (None, Some(signal)) => Some(u8::try_from(128 + signal).unwrap_or(255)),
        _ => None,
    }
}

fn start(options: &PvArgs) -> io::Result<Child> {
    gush_process::restore_sigchld();
    let mut command = Command::new(&options.command[0]);
    command.args(&options.command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
    // Signals are blocked here for the signal thread, and the mask would be inherited.
    gush_process::unblocked(&mut command);
    command.spawn()
}

/// Terminates a command that cannot be fed, and reaps it.
fn end(mut child: Child) {
    (child.stdin, child.stdout) = (None, None);
    let _ = kill_process(Pid::from_child(&child), Signal::TERM);
    let _ = child.wait();
}

/// The name of the moved output in messages.
const OUTPUT: &str = "the command's output";

/// The result of running a command.
struct Moved {
    ended: io::Result<ExitStatus>,
    output: Output,
    status: Status,
    /// No write of the command's output has failed, except with EPIPE.
    is_written: bool,
    /// The unread bytes in the command's input; none if another process may still read them.
    unread_bytes: Option<u64>,
}

/// Feeds the command from a second thread, and moves its output in this one, until it has ended.
///
/// # Errors
/// `EAGAIN` if no thread can be started; the command has been terminated.
fn move_both(
    session: &Session<'_>,
    mut child: Child,
    into: &Arc<TransferState>,
    out: &Arc<TransferState>,
    output: Output,
) -> io::Result<Moved> {
    let stdin = child.stdin.take().map(OwnedFd::from);
    let stdout = child.stdout.take().map(OwnedFd::from);
    thread::scope(|scope| {
        // A separate thread, since both pipes would fill up if a command writes before it has read.
        let feeding = stdin.map(|stdin| {
            let feed = move || {
                let input = Output::File(File::from(stdin));
                let mut moving = session.moving(into, input);
                moving.output_name = "the command's input".to_owned();
                moving.run(&session.options.files);
                into.unwatch_output();
                // Dropping the writing end here ends the command's input.
                (moving.status, gush_process::reading_end(&moving.output).ok())
            };
            thread::Builder::new().name("gush-pv-feed".into()).spawn_scoped(scope, feed)
        });
        let feeding = match feeding.transpose() {
            Ok(feeding) => feeding,
            Err(error) => {
                end(child);
                return Err(error);
            }
        };
        let mut emptying = session.moving(out, output);
        match stdout.as_ref().map(|stdout| emptying.pass(stdout, None)) {
            Some(Ok(report)) => {
                emptying.explain(OUTPUT, report.explain());
                // The end came before the move saw that it was cancelled.
                if out.stop_reason().is_some() {
                    emptying.report_end(OUTPUT, &MoveError::by(Side::Source, Errno::CANCELED));
                }
            }
            Some(Err(error)) => emptying.report_end(OUTPUT, &error),
            None => {}
        }
        // Let the command see that its output has no reader.
        drop(stdout);
        if matches!(out.stop_reason(), Some(StopReason::Signal | StopReason::Stall)) {
            // The child is not reaped yet, so its PID is not reused. A set-user-ID program may be
            // out of reach (EPERM, kill(2)): then the wait below lasts until it ends by itself.
            let _ = kill_process(Pid::from_child(&child), Signal::TERM);
        }
        let ended = child.wait();
        // The command has ended and reads no more.
        into.stop(StopReason::Reader);
        let Moving { output, mut status, .. } = emptying;
        let is_written = status == Status::default();
        let mut unread_bytes = None;
        if let Some(Ok((fed, reading_end))) = feeding.map(|feeding| feeding.join()) {
            status.add(fed);
            unread_bytes = reading_end.and_then(gush_process::unread_bytes);
        }
        Ok(Moved { ended, output, status, is_written, unread_bytes })
    })
}
