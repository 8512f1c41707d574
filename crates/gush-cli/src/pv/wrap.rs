//! `pv -- CMD` and `pv --monitor`: the input and the output of a command.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;

use gush::{Errno, Rate, Side};
use gush_text::{Doing, in_brackets, os_text};
use rustix::process::{Pid, Signal, kill_process};

use super::account::{Account, Early};
use super::moving::{Halt, Moving, Output};
use super::options::{Monitored, Options};
use super::seen::{Observed, Wanted};
use super::status::Status;
use super::steward::{Accounts, Steward};
use super::transfer::{Setting, Stage, close, open_output};
use super::{asked_size, plan};
use crate::talk::{Talker, remedy};

/// Runs the command with the inputs as its standard input, and moves the command's output to the output.
///
/// The status is that of the command; with a command that succeeded, or whose output could not be written, that of any
/// other failure: a command that writes into a broken output fails because of that output.
pub fn run(options: &Options, talker: &Talker) -> ExitCode {
    match wrapped(options, talker) {
        Ok(status) => status,
        Err(status) => status.into(),
    }
}

fn wrapped(options: &Options, talker: &Talker) -> Result<ExitCode, Status> {
    if options.store_and_forward.is_some() {
        talker.say("-U cannot be used with a command; use -o to store its output");
        return Err(Status::MISUSE);
    }
    let output = open_output(options, talker)?;
    let mut setting = Setting::new(options, talker, &output)?;
    // The input goes to the command, which has room for all.
    setting.device_bytes = None;
    let setting = setting;
    let side = options.monitor.unwrap_or(Monitored::Both);
    let look = setting.look(setting.expected, None, side == Monitored::Both);
    let into = setting.account(setting.expected, &look, Stage::Whole);
    let out = Arc::new(account_of_output(options));
    setting.ending.concerns(&out);
    // A signal that came before the accounts would end this process, and leave the command behind.
    let child = match start(options) {
        Ok(child) => child,
        Err(error) => {
            let path = options.command[0].as_ref();
            let remedy = match talker.is_familiar() {
                true => String::new(),
                false => in_brackets(remedy(path, Doing::Starting, &error)),
            };
            let name = gush_text::quote::if_needed(path);
            talker.say(format_args!("{name}: {}{remedy}", os_text(&error)));
            // As env(1) and timeout(1) say it.
            let is_missing = error.kind() == std::io::ErrorKind::NotFound;
            return Ok(ExitCode::from(if is_missing { 127 } else { 126 }));
        }
    };
    let (shown, beside) = match side {
        Monitored::Input => (&into, None),
        // How much comes out is known from --size alone.
        Monitored::Output => (&out, None),
        Monitored::Both => (&into, Some(&out)),
    };
    if side == Monitored::Output {
        out.expect(asked_size(&options.display).unwrap_or_default());
        out.set_input();
    }
    let plan = plan(options, look);
    let accounts = Accounts { shown, out: beside, watched: &[&into, &out] };
    let steward = match Steward::start(plan, &accounts, &setting.screen, &setting.late) {
        Ok(steward) => steward,
        Err(errno) => {
            end(child);
            return Err(setting.unshown(errno));
        }
    };
    let moved = move_both(&setting, child, &into, &out, output);
    steward.finish(true);
    let Moved { ended, output, mut status, is_written, unread_bytes } = match moved {
        Ok(moved) => moved,
        Err(error) => {
            talker.say(format_args!(
                "cannot start a thread to feed the command: {}",
                os_text(&error)
            ));
            return Err(Status::MISUSE);
        }
    };
    let is_ended_here = matches!(out.ended_early(), Some(Early::Signal | Early::Stall));
    // Of an input whose size is not known, more than the pipe held may have been left, or nothing.
    let is_fed_short = setting.input_bytes().is_some_and(|bytes| into.bytes() < bytes);
    match unread_bytes {
        Some(bytes) if !is_ended_here && (bytes > 0 || is_fed_short) => {
            setting.tell_unread(into.bytes().saturating_sub(bytes));
        }
        _ => {}
    }
    status.add(setting.tell_checksum(&into));
    status.add(close(output, talker));
    Ok(match ended.map(|ended| (ended.code(), ended.signal())) {
        // Bytes that did not arrive are the worse news, whatever the command says.
        _ if !is_written => status.into(),
        Ok((Some(code @ 1..), _)) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        // As a shell tells the signal that has ended a command.
        Ok((None, Some(signal))) => ExitCode::from(u8::try_from(128 + signal).unwrap_or(255)),
        _ => status.into(),
    })
}

fn start(options: &Options) -> io::Result<Child> {
    gush_process::restore_sigchld();
    let mut command = Command::new(&options.command[0]);
    command.args(&options.command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
    // Our signals are blocked for a thread of ours, and a mask would be inherited.
    gush_process::unblocked(&mut command);
    command.spawn()
}

/// Ends a command without a feeder, and waits for the exit.
fn end(mut child: Child) {
    (child.stdin, child.stdout) = (None, None);
    let _ = kill_process(Pid::from_child(&child), Signal::TERM);
    let _ = child.wait();
}

/// The bytes that a command writes are counted, and neither limited nor remembered.
fn account_of_output(options: &Options) -> Account {
    let (lines, separator) = (options.counts_lines(), options.separator());
    let observed = Observed::new(Wanted { lines, separator, ..Wanted::default() });
    Account::new(observed, lines, Rate::default())
}

/// The ends of the command, of the output, and of everything else.
struct Moved {
    ended: io::Result<ExitStatus>,
    output: Output,
    status: Status,
    /// No write of the command's output has failed, unless the reader has left.
    is_written: bool,
    /// The bytes in the command's input that nobody can read any more; `None` where they may have been read since.
    unread_bytes: Option<u64>,
}

/// Feeds the command from a thread, and reads the command's output in this thread, until the command has ended.
///
/// # Errors
/// `EAGAIN` where no thread can be started: the command has been ended.
fn move_both(
    setting: &Setting<'_>,
    mut child: Child,
    into: &Arc<Account>,
    out: &Arc<Account>,
    output: Output,
) -> io::Result<Moved> {
    let stdin = child.stdin.take().map(OwnedFd::from);
    let stdout = child.stdout.take().map(OwnedFd::from);
    thread::scope(|scope| {
        // A thread of its own: a command may write before it has read, and both pipes would fill up.
        let feeding = stdin.map(|stdin| {
            let feed = move || {
                let input = Output::File(File::from(stdin));
                let mut moving = setting.moving(&setting.options.files, into, input);
                moving.output_name = "the command's input".to_owned();
                moving.run();
                into.leave_output();
                // The command sees the end of its input when the writing end is dropped here.
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
        let mut emptying = setting.moving(&[], out, output);
        match stdout.as_ref().map(|stdout| emptying.pass(stdout, None)) {
            Some(Ok(report)) => {
                emptying.explain("the command's output", report.explain());
                // The end of the input has ended the command before the cancelled move looked.
                if out.ended_early().is_some() {
                    emptying.tell_end(&Halt::by(Side::Source, Errno::CANCELED));
                }
            }
            Some(Err(halt)) => emptying.tell_end(&halt),
            None => {}
        }
        // A command whose output nobody takes is to see that.
        drop(stdout);
        if matches!(out.ended_early(), Some(Early::Signal | Early::Stall)) {
            // The child is not reaped yet, so nobody else has its number. A set-user-ID program may be
            // out of reach (EPERM, kill(2)): then the wait below lasts until the program ends by itself.
            let _ = kill_process(Pid::from_child(&child), Signal::TERM);
        }
        // The output may be closed, and the command still read.
        let ended = child.wait();
        // The command has ended: nobody takes what is still to be fed.
        into.end_early(Early::Reader);
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
