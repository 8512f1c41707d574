//! `gush cat`: GNU cat's command line. The engine moves bytes; text flags use a formatter.

mod glyphs;
mod options;
mod report;
mod show;
mod source;
mod stream;
mod text;

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::CommandFactory;
use gush_text::{Doing, errno_text, noted, os_text, quote};
use rustix::fs::{OFlags, Stat, fcntl_getfl, fstat};
use rustix::io::Errno;

use crate::args;
use crate::console::{Console, die_if_nobody_reads, remedy};
use crate::files::close_twin;
use options::CatArgs;
use show::{Moved, Show, Trouble};
use source::Source;

/// The definition of `gush cat`, from which help, manual page and completions are made.
pub fn command() -> clap::Command {
    CatArgs::command()
}

/// Runs `cat` with `words`, the arguments after the command's name. Messages start with `as_name`.
pub fn run(words: impl Iterator<Item = OsString>, as_name: &str) -> ExitCode {
    let options: CatArgs = match args::parse_as_gnu(command(), options::GNU, words, as_name) {
        Ok(options) => options,
        Err(status) => return status,
    };
    // Writing without a reader then fails with EPIPE, and only if there are bytes.
    gush_process::ignore_sigpipe();
    let console = Console::new(as_name).ending_unread(|| {});
    if let Err(status) = console.outlives_file_size_limit() {
        return status;
    }
    let target = rustix::stdio::stdout();
    // As GNU cat: a closed output is an error before anything is read.
    let stat = if gush_process::was_closed(1) { Err(Errno::BADF) } else { fstat(target) };
    let target_stat = match stat {
        Ok(stat) => stat,
        Err(errno) => return console.fail(format_args!("standard output: {}", errno_text(errno))),
    };
    let mut show = match Show::new(&options, target) {
        Ok(show) => show,
        Err(why) => return console.fail(why),
    };
    let cat = Cat { options: &options, console: &console, target_stat };
    let mut status = ExitCode::SUCCESS;
    for name in options.files() {
        match cat.one(name, &mut show) {
            Ok(()) => {}
            Err(Failure::Operand) => status = ExitCode::FAILURE,
            Err(Failure::Output) => return ExitCode::FAILURE,
            Err(Failure::Overwriting) => {
                status = ExitCode::FAILURE;
                break;
            }
        }
    }
    match show.finish().and_then(|()| close_twin(target)).inspect_err(die_if_nobody_reads) {
        Ok(()) => status,
        Err(error) => console.fail_output(&error),
    }
}

const IS_OUTPUT: &str = "input file is output file";

/// Why an operand was not shown in full. It has been reported.
enum Failure {
    /// The operand failed: the next one may succeed.
    Operand,
    /// Standard output failed: no operand can succeed.
    Output,
    /// The operand is the output, which the next one would overwrite.
    Overwriting,
}

struct Cat<'a> {
    options: &'a CatArgs,
    console: &'a Console,
    target_stat: Stat,
}

impl Cat<'_> {
    fn one(&self, name: &OsStr, show: &mut Show<'_>) -> Result<(), Failure> {
        let outcome = self.show(name, show);
        if let Err(Trouble::Target { error, .. }) = &outcome {
            die_if_nobody_reads(error);
        }
        report::print(self.options, name, &outcome, self.console);
        outcome.map(|_| ()).map_err(|trouble| self.report(name, trouble))
    }

    fn show(&self, name: &OsStr, show: &mut Show<'_>) -> Result<Moved, Trouble> {
        let source = Source::open(name).map_err(Trouble::Unopened)?;
        if !source.is(&self.target_stat) {
            return show.one(&source);
        }
        // `cat a >>a` would read its own output until the disk is full.
        if source.would_feed_itself(rustix::stdio::stdout(), show.keeps_bytes()) {
            return Err(Trouble::IsOutput);
        }
        show.one_within_its_target(&source)
    }

    fn report(&self, name: &OsStr, trouble: Trouble) -> Failure {
        let console = self.console;
        let shown = quote::if_needed(name.as_ref());
        match trouble {
            Trouble::Unopened(error) => {
                let remedy = remedy(name.as_ref(), Doing::Other, &error);
                console.say_unopened(name, &error, remedy);
            }
            // GNU cat does not distinguish open and read errors.
            Trouble::Source { what, error, hint } => {
                console.say(format_args!("{shown}: {}{}", os_text(&error), noted(&what, hint)));
            }
            Trouble::Refused(why) => console.say(format_args!("{shown}: {why}")),
            Trouble::IsOutput => {
                console.say(format_args!("{shown}: {IS_OUTPUT}"));
                let flags = fcntl_getfl(rustix::stdio::stdout());
                if !flags.is_ok_and(|flags| flags.contains(OFlags::APPEND)) {
                    return Failure::Overwriting;
                }
            }
            Trouble::Target { delivered_bytes, lost_bytes, error, hint } => {
                let lost = match lost_bytes {
                    0 => String::new(),
                    _ => format!("; {lost_bytes} more were read but not delivered"),
                };
                let note = noted(&format!("after {delivered_bytes} bytes of {shown}{lost}"), hint);
                console.say(format_args!("write error: {}{note}", os_text(&error)));
                return Failure::Output;
            }
        }
        Failure::Operand
    }
}
