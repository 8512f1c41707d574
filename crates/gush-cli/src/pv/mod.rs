//! `gush pv`: pv's command line. The engine moves the bytes, and a separate thread shows the
//! progress of all but the shortest transfers.

mod args;
mod bar;
mod control;
mod cursor;
mod direct;
mod display;
mod extra;
mod figures;
mod format;
mod hash;
mod help;
mod inputs;
mod inspect;
mod json;
mod line;
mod lines;
mod meter;
mod moving;
pub mod pipeline;
mod pipes;
mod process;
mod query;
mod rw;
mod screen;
mod signals;
mod skip;
mod sparse;
mod state;
mod status;
mod store;
mod transfer;
mod turns;
mod values;
mod watch;
mod wrap;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use gush_text::os_text;

use crate::talk::Talker;
pub use args::command;
use args::{Display, PvArgs, Stop};
use display::{Form, Numeric, Plan, bounded_interval};
use line::Layout;
use moving::shown;
use pipeline::Target;
use process::{WatchTarget, Watched};
use screen::ScreenOptions;
use signals::SignalHandler;
use status::Status;
use values::Expected;

/// Runs `pv` with `words`, the arguments after the command's name. Messages start with `as_name`.
pub fn run(words: impl Iterator<Item = OsString>, as_name: &str) -> ExitCode {
    let is_posix = std::env::var_os("POSIXLY_CORRECT").is_some();
    let talker = Talker::new(as_name);
    let mut options = match args::read(words, is_posix) {
        Ok(options) => options,
        Err(Stop::Page(name)) => {
            return crate::args::page(command(), name, as_name);
        }
        Err(Stop::Wrong(why)) => {
            crate::args::misuse(&talker, why, as_name);
            return Status::MISUSE.into();
        }
    };
    // Before -R sends the options: bits shown by the other process do not ask for an amount.
    options.display.bytes |= options.display.bits;
    if options.monitor.is_some() {
        options.files.append(&mut options.command);
        options.command = std::mem::take(&mut options.files);
        if options.command.is_empty() {
            talker.say("--monitor requires a command");
            return Status::MISUSE.into();
        }
    } else if talker.is_gnu_name() || is_posix {
        // As pv, and with POSIXLY_CORRECT, `--` only ends the options.
        options.files.append(&mut options.command);
    }
    // A write then fails with EPIPE, and the last line is still shown.
    gush_process::ignore_sigpipe();
    // Likewise EFBIG at the limit on file sizes (ulimit -f).
    if talker.outlives_file_size_limit().is_err() {
        return Status::TRANSFER.into();
    }
    let pipeline = options.here.then_some(Target::Here).or(options.pipeline);
    let status = match (options.remote, options.query) {
        (Some(pid), _) => query::change(&options, pid, &talker),
        (_, Some(pid)) => query::run(&options, pid, &talker),
        _ if pipeline.is_some() => match (pipeline, options.files.first()) {
            (Some(target), None) => pipeline::run(&options, target, &talker),
            (_, operand) => {
                let operand = operand.map(|operand| shown(operand)).unwrap_or_default();
                talker.say(format_args!("{operand}: --pipeline and --here copy no files"));
                Err(Status::MISUSE)
            }
        },
        _ if !options.watchfd.is_empty() => {
            targets(&options, &talker).and_then(|targets| match targets.is_empty() {
                true => Ok(Status::default()),
                false => watch::run(&options, &targets, &talker),
            })
        }
        _ if !options.command.is_empty() => return wrap::run(&options, &talker),
        _ => transfer::run(&options, &talker),
    };
    match status {
        Ok(status) | Err(status) => status.into(),
    }
}

/// The targets of `-d` and of the operands.
fn targets(options: &PvArgs, talker: &Talker) -> Result<Vec<WatchTarget>, Status> {
    let mut watched = options.watchfd.clone();
    for word in &options.files {
        match word.to_str().unwrap_or_default().parse() {
            Ok(more) => watched.push(more),
            Err(why) => {
                talker.say(format_args!("{}: {why}", shown(word)));
                return Err(Status::MISUSE);
            }
        }
    }
    let mut targets = Vec::new();
    for watched in watched {
        match watched.targets() {
            Ok(more) => {
                if let (Watched::Listed(list), true) = (&watched, more.is_empty()) {
                    talker.say(format_args!("@{}: lists no process", list.display()));
                }
                targets.extend(more);
            }
            // As in pv, it is no failure that a program is not running.
            Err(why) if matches!(watched, Watched::Named(_)) => talker.say(why),
            Err(why) => {
                talker.say(why);
                return Err(Status::MISUSE);
            }
        }
    }
    Ok(targets)
}

/// The value of `--size`; none without the option, or if it is 0.
fn asked_size(display: &Display) -> Result<Option<u64>, String> {
    match &display.size {
        None => Ok(None),
        Some(Expected::Number(number)) => Ok(Some(*number).filter(|&number| number > 0)),
        Some(Expected::AsLargeAs(path)) => {
            let bytes = inputs::bytes_at(Path::new(path))
                .map(|bytes| Some(bytes).filter(|&bytes| bytes > 0));
            let unsized_file = |error| format!("-s: {}: {}", shown(path.as_ref()), os_text(&error));
            bytes.map_err(unsized_file)
        }
    }
}

/// Writes the PID of this process to the file of `-P`.
fn write_pid(signals: &SignalHandler, name: &OsStr, talker: &Talker) -> Result<(), Status> {
    signals.write_pid(name).map_err(|error| {
        talker.say(transfer::unopened(talker, name, &error));
        Status::OTHER
    })
}

fn screen_options(options: &PvArgs) -> ScreenOptions {
    let display = &options.display;
    let (quiet, numeric, cursor) = (display.quiet, display.numeric || options.json, display.cursor);
    ScreenOptions { quiet, numeric, force: options.force, cursor }
}

fn plan(options: &PvArgs, layout: Layout) -> Plan {
    let display = &options.display;
    let extra = options.extra_display.clone().map(|extra| {
        let layout = extra.layout(display, &layout);
        (extra, layout)
    });
    let numbers = Numeric { timer: display.timer, amount: display.bytes, rate: display.rate };
    Plan {
        layout,
        extra,
        form: if options.json {
            Form::Json
        } else if display.numeric {
            Form::Numbers(numbers)
        } else {
            Form::Line
        },
        // As in pv, 0 is the terminal's width.
        columns: display.width.filter(|&columns| columns > 0),
        interval: bounded_interval(display.interval.unwrap_or(Duration::from_secs(1))),
        window: display.average_rate_window.unwrap_or(Duration::from_secs(30)),
        waits: options.wait,
        delay: options.delay_start.unwrap_or_default(),
        statistics: options.stats,
        stall: options.stall_timeout,
    }
}

#[cfg(test)]
mod tests {
    use super::args::read_words;
    use super::line::Subject;
    use super::*;

    #[test]
    fn the_times_of_a_display_are_those_of_the_options() {
        let times = |words: &[&str]| {
            let options = read_words(words);
            let plan = plan(&options, Layout::new(&options.display, Subject::default()));
            (plan.interval, plan.window, plan.delay, plan.stall)
        };
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        assert_eq!(times(&[]), (s(1), s(30), s(0), None));
        let words = ["-i", "2.5", "-m", "5", "-D", "0.25", "--stall-timeout", "5m"];
        assert_eq!(times(&words), (ms(2500), s(5), ms(250), Some(s(300))));
        assert_eq!(times(&["-i", "0", "--stall-timeout", "200ms"]).0, ms(100));
        assert_eq!(times(&["-i", "9999", "--stall-timeout", "7"]).3, Some(s(7)));
    }
}
