//! The command line of `gush tee`: GNU tee's options, and gush's own.

use std::ffi::OsString;
use std::time::Duration;

use clap::builder::TypedValueParser;
use clap::{ArgAction, Parser, ValueHint};
use gush::{Choice, MethodName};
use gush_text::{buffer_bytes, memory_bytes, pipe_bytes, some_time};

use crate::listed::Listed;
use crate::method;

/// Copy standard input to each FILE, and also to standard output
#[derive(Debug, Parser)]
#[command(
    name = "tee",
    version,
    max_term_width = 100,
    disable_help_flag = true,
    disable_version_flag = true,
    after_help = "MODE determines behavior with write errors on the outputs:\n  \
                  warn         diagnose errors writing to any output\n  \
                  warn-nopipe  diagnose errors writing to any output not a pipe\n  \
                  exit         exit on error writing to any output\n  \
                  exit-nopipe  exit on error writing to any output not a pipe\n\
                  By default, tee exits when the reader of a pipe is gone, and diagnoses errors \
                  writing to other outputs. A program of --to that exits early does not end tee: \
                  the other outputs get everything, and the program is diagnosed.\n\n\
                  The slowest output limits the others, which can be ahead of it by one pipe or one \
                  buffer, or by SIZE bytes with --buffer. With --drop-slow as well, an output is \
                  dropped only once its SIZE bytes are full. The last output is never dropped, as it \
                  blocks no other.\n\
                  TIME is a number of seconds, such as 2 or 0.5, or has a unit: 200ms, 5m, 1h.\n\n\
                  Unlike GNU tee: an output that is also the file at standard input is skipped, since \
                  it would be truncated or grow without end. If tee exits early, the other outputs \
                  still get the bytes read so far. Full non-blocking outputs are waited for. Pipes on \
                  both sides are enlarged to 1 MiB (see --pipe-size), so that tee and its neighbours \
                  wait less often: up to 2 MiB are read before a reader that is gone is noticed."
)]
pub struct TeeArgs {
    /// Files to write, besides standard output
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath)]
    pub files: Vec<OsString>,

    /// Append to the given FILEs, do not overwrite
    #[arg(short, long)]
    pub append: bool,
    /// Ignore interrupt signals
    #[arg(short, long)]
    pub ignore_interrupts: bool,
    /// Operate in a more appropriate MODE with pipes: --output-error=warn-nopipe
    #[arg(short = 'p', overrides_with = "output_error")]
    nopipe: bool,
    /// Set behavior on write error
    #[arg(long, value_name = "MODE", value_parser = modes(), hide_possible_values = true, num_args = 0..=1, require_equals = true,
        default_missing_value = "warn-nopipe", overrides_with = "nopipe")]
    output_error: Option<Mode>,

    /// Also write to an address of gush link, such as tcp:host:9000; can be repeated. The -nopipe
    /// MODEs treat a program (exec:, shell:) as a pipe
    #[arg(long, value_name = "ADDR", action = ArgAction::Append, help_heading = BEYOND)]
    pub to: Vec<OsString>,
    /// Drop an output that blocks the others for TIME without accepting a byte; one that cannot be
    /// opened yet, such as a FIFO without a reader, is waited for [default: 1 s]
    #[arg(long, value_name = "TIME", value_parser = some_time, num_args = 0..=1, require_equals = true,
        default_missing_value = "1", help_heading = BEYOND)]
    pub drop_slow: Option<Duration>,
    /// Let a slow output lag by up to SIZE bytes, at least a page, which are kept in memory
    #[arg(long, value_name = "SIZE", value_parser = memory_bytes, help_heading = BEYOND)]
    pub buffer: Option<usize>,
    /// Use method NAME or fail; auto picks the fastest sound method
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = method::parser(&METHODS), help_heading = BEYOND)]
    pub method: Choice,
    /// Use no method that shares pages with the source
    #[arg(long, help_heading = BEYOND)]
    pub isolated: bool,
    /// Move up to SIZE bytes at a time through memory, at most 4M
    #[arg(long, value_name = "SIZE", value_parser = buffer_bytes, help_heading = BEYOND)]
    pub buffer_size: Option<usize>,
    /// Size of the pipes in use: at least 64K, up to fs.pipe-max-size
    #[arg(long, value_name = "SIZE", value_parser = pipe_bytes, help_heading = BEYOND)]
    pub pipe_size: Option<usize>,
    /// Print to standard error which methods were used and refused, and why
    #[arg(long, help_heading = BEYOND)]
    pub explain: bool,

    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
    /// Print version
    #[arg(long, action = ArgAction::Version)]
    version: Option<bool>,
}

/// The long options of GNU tee.
pub const GNU: &[&str] = &["append", "help", "ignore-interrupts", "output-error", "version"];

const BEYOND: &str = "Beyond GNU tee";

/// What to do after a failed write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// Stop writing to the others, too.
    pub exits: bool,
    /// A pipe without a reader is no failure.
    pub spares_pipes: bool,
}

const MODES: [(&str, Mode); 4] = [
    ("warn", Mode { exits: false, spares_pipes: false }),
    ("warn-nopipe", Mode { exits: false, spares_pipes: true }),
    ("exit", Mode { exits: true, spares_pipes: false }),
    ("exit-nopipe", Mode { exits: true, spares_pipes: true }),
];

impl TeeArgs {
    /// The requested mode.
    pub fn mode(&self) -> Option<Mode> {
        self.output_error.or(self.nopipe.then_some(MODES[1].1))
    }
}

fn modes() -> impl TypedValueParser<Value = Mode> {
    let names = MODES.iter().map(|(name, _)| *name).collect();
    Listed(names).try_map(|word| mode(&word.to_string_lossy()))
}

/// The mode with this name or unique prefix.
fn mode(word: &str) -> Result<Mode, String> {
    let named = MODES.iter().find(|(name, _)| *name == word);
    let mut begun = MODES.iter().filter(|(name, _)| !word.is_empty() && name.starts_with(word));
    match (named, begun.next(), begun.next()) {
        (Some(&(_, mode)), ..) | (None, Some(&(_, mode)), None) => Ok(mode),
        _ => Err(format!("valid modes are {}", MODES.map(|(name, _)| name).join(", "))),
    }
}

/// The methods for several targets.
const METHODS: [MethodName; 2] = [MethodName::ReadWrite, MethodName::Splice];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_dropped_after_the_time_of_the_option() {
        let time = |word: &str| TeeArgs::try_parse_from(["tee", word]).unwrap().drop_slow;
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        assert_eq!(time("--drop-slow"), Some(s(1)));
        assert_eq!(time("--drop-slow=200ms"), Some(ms(200)));
        assert_eq!(time("--drop-slow=0.5"), Some(ms(500)));
        assert_eq!(time("--drop-slow=5m"), Some(s(300)));
        assert_eq!(time("file"), None);
    }
}
