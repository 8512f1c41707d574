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
mod onlooker;
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

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use gush_text::os_text;

use crate::console::Console;
pub use args::command;
use args::{Display, PvArgs, Stop};
use display::Plan;
use line::Layout;
use moving::shown;
use pipeline::Selector;
use process::{WatchTarget, Watched};
use status::Status;
use values::Expected;

/// Runs `pv` with `words`, the arguments after the command's name. Messages start with `as_name`.
pub fn run(words: impl Iterator<Item = OsString>, as_name: &str) -> ExitCode {
    let is_posix = std::env::var_os("POSIXLY_CORRECT").is_some();
    let console = Console::new(as_name);
    let mut options = match args::read(words, is_posix) {
        Ok(options) => options,
        Err(Stop::Page(name)) => {
            return crate::args::page(command(), name, as_name);
        }
        Err(Stop::Wrong(why)) => {
            crate::args::misuse(&console, why, as_name);
            return Status::MISUSE.into();
        }
    };
    // Before -R sends the options: bits shown by the other process do not ask for an amount.
    options.display.bytes |= options.display.bits;
    if options.monitor.is_some() {
        options.files.append(&mut options.command);
        options.command = std::mem::take(&mut options.files);
        if options.command.is_empty() {
            return Status::MISUSE.report(&console, "--monitor requires a command").into();
        }
    } else if console.is_gnu_name() || is_posix {
        // As pv, and with POSIXLY_CORRECT, `--` only ends the options.
        options.files.append(&mut options.command);
    }
    // A write then fails with EPIPE, and the last line is still shown.
    gush_process::ignore_sigpipe();
    // Likewise EFBIG at the limit on file sizes (ulimit -f).
    if console.outlives_file_size_limit().is_err() {
        return Status::TRANSFER.into();
    }
    act(options, &console).unwrap_or_else(Status::into)
}

/// What the options ask for.
fn act(mut options: PvArgs, console: &Console) -> Result<ExitCode, Status> {
    let pipeline = options.here.then_some(Selector::Here).or(options.pipeline);
    let status = match (options.remote, options.query) {
        (Some(pid), _) => query::change(&options, pid, console),
        (_, Some(pid)) => query::run(&options, pid, console),
        _ if pipeline.is_some() => match (pipeline, options.files.first()) {
            (Some(target), None) => pipeline::run(&options, target, console),
            (_, operand) => {
                let operand = operand.map(|operand| shown(operand)).unwrap_or_default();
                let why = format!("{operand}: --pipeline and --here copy no files");
                Err(Status::MISUSE.report(console, why))
            }
        },
        _ if !options.watchfd.is_empty() => {
            // The lines of several descriptors use the cursor.
            options.display.cursor = false;
            targets(&options, console).and_then(|targets| match targets.is_empty() {
                true => Ok(Status::default()),
                false => watch::run(&options, &targets, console),
            })
        }
        _ => {
            if options.files.is_empty() {
                options.files.push("-".into());
            }
            if !options.command.is_empty() {
                return wrap::run(&options, console);
            }
            transfer::run(&options, console)
        }
    };
    status.map(Status::into)
}

/// The targets of `-d` and of the operands.
fn targets(options: &PvArgs, console: &Console) -> Result<Vec<WatchTarget>, Status> {
    let mut watched = options.watchfd.clone();
    for word in &options.files {
        match word.to_str().unwrap_or_default().parse() {
            Ok(more) => watched.push(more),
            Err(why) => {
                let why = format!("{}: {why}", shown(word));
                return Err(Status::MISUSE.report(console, why));
            }
        }
    }
    let mut targets = Vec::new();
    for watched in watched {
        match watched.targets() {
            Ok(more) => {
                if let (Watched::Listed(list), true) = (&watched, more.is_empty()) {
                    console.say(format_args!("@{}: lists no process", list.display()));
                }
                targets.extend(more);
            }
            // As in pv, it is no failure that a program is not running.
            Err(why) if matches!(watched, Watched::Named(_)) => console.say(why),
            Err(why) => return Err(Status::MISUSE.report(console, why)),
        }
    }
    Ok(targets)
}

/// The value of `--size`; none without the option, or if it is 0.
fn asked_size(display: &Display, console: &Console) -> Result<Option<u64>, Status> {
    let size = match &display.size {
        None => return Ok(None),
        Some(Expected::Number(number)) => *number,
        Some(Expected::AsLargeAs(path)) => inputs::bytes_at(Path::new(path)).map_err(|error| {
            let why = format!("-s: {}: {}", shown(path.as_ref()), os_text(&error));
            Status::MISUSE.report(console, why)
        })?,
    };
    Ok(Some(size).filter(|&size| size > 0))
}

fn plan(options: &PvArgs, layout: Layout) -> Plan {
    let extra = options.extra_display.clone().map(|extra| {
        let layout = extra.layout(&options.display, &layout);
        (extra, layout)
    });
    Plan {
        layout,
        extra,
        display: options.display.clone(),
        json: options.json,
        waits: options.wait,
        delay: options.delay_start.unwrap_or_default(),
        statistics: options.stats,
        stall: options.stall_timeout,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::args::read_words;
    use super::line::Subject;
    use super::*;

    #[test]
    fn the_times_of_a_display_are_those_of_the_options() {
        let times = |words: &[&str]| {
            let options = read_words(words);
            let plan = plan(&options, Layout::new(&options.display, Subject::default()));
            (plan.display.interval(), plan.meter(0).window, plan.delay, plan.stall)
        };
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        assert_eq!(times(&[]), (s(1), s(30), s(0), None));
        let words = ["-i", "2.5", "-m", "5", "-D", "0.25", "--stall-timeout", "5m"];
        assert_eq!(times(&words), (ms(2500), s(5), ms(250), Some(s(300))));
        assert_eq!(times(&["-i", "0", "--stall-timeout", "200ms"]).0, ms(100));
        assert_eq!(times(&["-i", "9999", "--stall-timeout", "7"]).3, Some(s(7)));
    }
}
