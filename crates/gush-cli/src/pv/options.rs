//! The command line of `gush pv`: pv's options, and gush's own.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, FromArgMatches, Parser, ValueEnum, ValueHint};
use gush::{Choice, MethodName, Tuning};
use gush_text::{SizeError, memory_bytes, size_bytes, some_time};
use serde::{Deserialize, Serialize};

use super::extra::Extra;
use super::hash::Algorithm;
use super::process::Watched;

use crate::manual::row;

/// Copy FILEs, or standard input, to standard output, and show progress on standard error
#[derive(Clone, Debug, Default, Parser)]
#[command(
    name = "pv",
    version,
    max_term_width = 100,
    disable_help_flag = true,
    disable_version_flag = true,
    after_help = after_help()
)]
pub struct Options {
    /// Files to copy; - is standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath)]
    pub files: Vec<OsString>,
    /// Pipe the input through CMD; show the bytes in, the bytes out and their ratio
    #[arg(value_name = "CMD", last = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,

    #[command(flatten)]
    pub display: Display,

    /// Show nothing until the first byte has been transferred
    #[arg(short = 'W', long, help_heading = OUTPUT)]
    pub wait: bool,
    /// Show nothing until SEC seconds have passed
    #[arg(short = 'D', long, value_name = "SEC", value_parser = seconds, help_heading = OUTPUT)]
    pub delay_start: Option<Duration>,
    /// Also show progress in a title: windowtitle, processtitle, or both separated by a comma;
    /// :FORMAT after them sets its format
    #[arg(short = 'x', long, value_name = "SPEC", value_parser = Extra::parse, conflicts_with_all = ["watchfd", "query"], help_heading = OUTPUT)]
    pub extra_display: Option<Extra>,
    /// Count lines instead of bytes; without -s, their total is estimated from the bytes of the
    /// inputs
    #[arg(short, long, help_heading = OUTPUT)]
    pub line_mode: bool,
    /// Lines end with a null byte; implies -l
    #[arg(short = '0', long, help_heading = OUTPUT)]
    pub null: bool,
    /// Show progress even if standard error is not a terminal
    #[arg(short, long, help_heading = OUTPUT)]
    pub force: bool,
    /// Print the minimum, mean and maximum rate and their standard deviation at the end
    #[arg(short = 'v', long, help_heading = OUTPUT)]
    pub stats: bool,

    /// Write to FILE, truncating it first
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::AnyPath, help_heading = TRANSFER)]
    pub output: Option<OsString>,
    /// Move up to SIZE bytes at a time through memory, at most 4M; implies --no-splice
    #[arg(short = 'B', long, value_name = "SIZE", value_parser = memory_bytes, help_heading = TRANSFER)]
    pub buffer_size: Option<usize>,
    /// Use read and write only
    #[arg(short = 'C', long, help_heading = TRANSFER)]
    pub no_splice: bool,
    /// Write zeros where the input cannot be read; given twice, report only the first error of each
    /// file
    #[arg(short = 'E', long, action = ArgAction::Count, help_heading = TRANSFER)]
    pub skip_errors: u8,
    /// Skip SIZE bytes at each read error [default: 1 at first, up to 512 after many errors in a
    /// row]
    #[arg(short = 'Z', long, value_name = "SIZE", value_parser = memory_bytes, help_heading = TRANSFER)]
    pub error_skip_block: Option<usize>,
    /// Stop after --size bytes
    #[arg(short = 'S', long, help_heading = TRANSFER)]
    pub stop_at_size: bool,
    /// Count bytes only once they are on disk (fdatasync)
    #[arg(short = 'Y', long, help_heading = TRANSFER)]
    pub sync: bool,
    /// Bypass the page cache (O_DIRECT) where the file system supports it
    #[arg(short = 'K', long, help_heading = TRANSFER)]
    pub direct_io: bool,
    /// Write blocks of zeros as holes, if the output is a file
    #[arg(short = 'O', long, visible_alias = "sparse-output", help_heading = TRANSFER)]
    pub sparse: bool,
    /// Discard the input instead of writing it
    #[arg(short = 'X', long, help_heading = TRANSFER)]
    pub discard: bool,
    /// Store the whole input in FILE first, then write FILE to the output; - is a temporary file
    #[arg(short = 'U', long, value_name = "FILE", value_hint = ValueHint::AnyPath, help_heading = TRANSFER)]
    pub store_and_forward: Option<OsString>,

    /// Transfer nothing; show the position of descriptor FD of process PID, or of all its files.
    /// =NAME stands for all processes of that name, @LIST for a file that lists one of these per
    /// line. Operands, and -d again, add more
    #[arg(short = 'd', long, value_name = "PID[:FD]", help_heading = OTHERS)]
    pub watchfd: Vec<Watched>,
    /// Send these display options, -L and -s to the gush pv with this PID
    #[arg(short = 'R', long, value_name = "PID", value_parser = pid, conflicts_with_all = ["watchfd", "query"], help_heading = OTHERS)]
    pub remote: Option<i32>,
    /// Show the progress of the gush pv with this PID
    #[arg(short = 'Q', long, value_name = "PID", value_parser = pid, conflicts_with = "watchfd", help_heading = OTHERS)]
    pub query: Option<i32>,

    /// Run the operands as a command, and show its input, its output, or both: in, out, both
    #[arg(short = 'M', long, value_name = "SIDE", value_parser = Monitored::parse, conflicts_with_all = ["watchfd", "remote", "query"], help_heading = OTHERS)]
    pub monitor: Option<Monitored>,

    /// Write the PID of this process to FILE, and remove FILE at the end
    #[arg(short = 'P', long, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    pub pidfile: Option<OsString>,
    /// Print help
    #[arg(short, long, action = ArgAction::Help)]
    help: Option<bool>,
    /// Print version
    #[arg(short = 'V', long, action = ArgAction::Version)]
    version: Option<bool>,

    /// Print progress as one JSON object per line
    #[arg(long, help_heading = BEYOND)]
    pub json: bool,
    /// After each input, print which methods moved the bytes, and which were refused and why
    #[arg(long, help_heading = BEYOND)]
    pub explain: bool,
    /// Print a checksum of the transferred bytes at the end
    #[arg(long, value_name = "NAME", value_enum, help_heading = BEYOND)]
    pub checksum: Option<Algorithm>,
    /// Fail unless the checksum is HEX
    #[arg(long, value_name = "HEX", requires = "checksum", value_parser = hex, help_heading = BEYOND)]
    pub expect: Option<String>,
    /// Skip the first SIZE bytes of the input
    #[arg(long, value_name = "SIZE", value_parser = size_bytes, help_heading = BEYOND)]
    pub skip: Option<u64>,
    /// Skip SIZE bytes of the output before writing; --output keeps what it holds there
    #[arg(long, value_name = "SIZE", value_parser = size_bytes, help_heading = BEYOND)]
    pub seek: Option<u64>,
    /// Fail once no byte moved for TIME
    #[arg(long, value_name = "TIME", value_parser = some_time, help_heading = BEYOND)]
    pub stall_timeout: Option<Duration>,
}

/// The display options, which `--remote` sends.
#[derive(Clone, Debug, Default, Parser, Serialize, Deserialize)]
pub struct Display {
    /// Show a progress bar
    #[arg(short, long, help_heading = DISPLAY)]
    pub progress: bool,
    /// Show the elapsed time
    #[arg(short, long, help_heading = DISPLAY)]
    pub timer: bool,
    /// Show the estimated time left
    #[arg(short, long, help_heading = DISPLAY)]
    pub eta: bool,
    /// Show the estimated time of completion
    #[arg(short = 'I', long, help_heading = DISPLAY)]
    pub fineta: bool,
    /// Show the current rate
    #[arg(short, long, help_heading = DISPLAY)]
    pub rate: bool,
    /// Show the average rate (see -m)
    #[arg(short, long, help_heading = DISPLAY)]
    pub average_rate: bool,
    /// Show the amount transferred
    #[arg(short, long, help_heading = DISPLAY)]
    pub bytes: bool,
    /// Show how full the output pipe is
    #[arg(short = 'T', long, help_heading = DISPLAY)]
    pub buffer_percent: bool,
    /// Show the last NUM bytes written
    #[arg(short = 'A', long, value_name = "NUM", value_parser = columns, help_heading = DISPLAY)]
    pub last_written: Option<usize>,
    /// Show FORMAT instead of -p, -t, -e, -I, -r, -a, -b, -T and -A
    #[arg(short = 'F', long, value_name = "FORMAT", help_heading = DISPLAY)]
    pub format: Option<String>,
    /// Print a line of bare numbers: the percentage, or with -b the bytes and with -r the rate,
    /// after the seconds with -t; with -F, FORMAT with bare numbers
    #[arg(short, long, help_heading = DISPLAY)]
    pub numeric: bool,
    /// Show nothing
    #[arg(short, long, help_heading = DISPLAY)]
    pub quiet: bool,

    /// Show bits instead of bytes; implies -b
    #[arg(short = '8', long, help_heading = OUTPUT)]
    pub bits: bool,
    /// Use multiples of 1000 (kB) instead of 1024 (KiB), also in the sizes given after this option
    #[arg(short = 'k', long, help_heading = OUTPUT)]
    pub si: bool,
    /// Expect SIZE bytes, or lines with -l; @PATH uses the size of a file, a device, or a
    /// directory's files
    #[arg(short, long, value_name = "SIZE", value_parser = Expected::parse, help_heading = OUTPUT)]
    pub size: Option<Expected>,
    /// If the size is unknown, show the current rate relative to the maximum, printed after the bar
    #[arg(short, long, help_heading = OUTPUT)]
    pub gauge: bool,
    /// Update every SEC seconds [default: 1]
    #[arg(short, long, value_name = "SEC", value_parser = seconds, help_heading = OUTPUT)]
    pub interval: Option<Duration>,
    /// Average the rate over SEC seconds [default: 30]
    #[arg(short = 'm', long, value_name = "SEC", value_parser = seconds, help_heading = OUTPUT)]
    pub average_rate_window: Option<Duration>,
    /// Assume a terminal of WIDTH columns
    #[arg(short, long, value_name = "WIDTH", value_parser = columns, help_heading = OUTPUT)]
    pub width: Option<usize>,
    /// Accepted for compatibility with pv; has no effect
    #[arg(short = 'H', long, value_name = "HEIGHT", value_parser = columns, help_heading = OUTPUT)]
    pub height: Option<usize>,
    /// Prefix the display with NAME
    #[arg(short = 'N', long, value_name = "NAME", value_parser = shown_name(), help_heading = OUTPUT)]
    pub name: Option<String>,
    /// Draw the bar in STYLE
    #[arg(short = 'u', long, value_name = "STYLE", value_enum, help_heading = OUTPUT)]
    pub bar_style: Option<Style>,
    /// Position the cursor, so that several pv can share a terminal, one line each
    #[arg(short, long, help_heading = OUTPUT)]
    pub cursor: bool,
    /// Move at most RATE bytes per second, or lines with -l; 0 lifts the limit
    #[arg(short = 'L', long, value_name = "RATE", value_parser = rate, help_heading = TRANSFER)]
    pub rate_limit: Option<u64>,
}

impl Options {
    pub fn counts_lines(&self) -> bool {
        self.line_mode || self.null
    }

    pub fn separator(&self) -> u8 {
        if self.null { 0 } else { b'\n' }
    }

    /// The engine's method: its choice, or read-write where the options require it.
    pub fn choice(&self) -> Choice {
        let through_memory = self.no_splice || self.buffer_size.is_some() || self.skip_errors > 0;
        if through_memory { Choice::Only(MethodName::ReadWrite) } else { Choice::Auto }
    }

    pub fn tuning(&self) -> Tuning {
        match self.buffer_size {
            Some(bytes) => Tuning::default().buffer_bytes(bytes),
            None => Tuning::default(),
        }
    }
}

/// Options that were read in order, which matters for sizes after `--si`.
#[derive(Debug)]
pub struct Ordered(pub Options);

impl FromArgMatches for Ordered {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut options = Options::from_arg_matches(matches)?;
        let is_given = matches.value_source("si") == Some(ValueSource::CommandLine);
        let si = matches.index_of("si").filter(|_| is_given);
        for (name, set) in SIZES {
            let is_after = matches.index_of(name).zip(si).is_some_and(|(at, si)| at > si);
            let text = matches.get_raw(name).filter(|_| is_after).and_then(Iterator::last);
            // clap has accepted the same text.
            let _ = text.and_then(OsStr::to_str).map(|text| set(&mut options, text, true));
        }
        Ok(Self(options))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// How a bar is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Style {
    #[default]
    Plain,
    Block,
    Granular,
    Shaded,
}

/// The sides of a command that are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Monitored {
    Input,
    Output,
    Both,
}

impl Monitored {
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "in" | "0" => Ok(Self::Input),
            "out" | "1" => Ok(Self::Output),
            "both" | "2" => Ok(Self::Both),
            _ => Err("expected in, out or both"),
        }
    }
}

/// The value of `--size`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Expected {
    Number(u64),
    /// The size of the file at this path.
    AsLargeAs(String),
}

impl Expected {
    pub fn parse(text: &str) -> Result<Self, SizeError> {
        match text.strip_prefix('@') {
            Some(path) if !path.is_empty() => Ok(Self::AsLargeAs(path.to_owned())),
            _ => as_pv_reads(text).map(Self::Number),
        }
    }
}

/// Sets an option to a size. As in pv, units after `--si` are powers of 1000.
pub type SetSize = fn(&mut Options, &str, is_after_si: bool) -> Option<()>;

/// The options that are sizes, by clap's names.
pub const SIZES: [(&str, SetSize); 4] = [
    ("size", set_size),
    ("rate_limit", set_rate_limit),
    ("buffer_size", set_buffer_size),
    ("error_skip_block", set_error_skip_block),
];

pub fn set_size(options: &mut Options, text: &str, is_after_si: bool) -> Option<()> {
    let decimal = decimal(text, is_after_si).map(Expected::Number);
    options.display.size = Some(decimal.or_else(|| Expected::parse(text).ok())?);
    Some(())
}

pub fn set_rate_limit(options: &mut Options, text: &str, is_after_si: bool) -> Option<()> {
    let decimal = decimal(text, is_after_si);
    options.display.rate_limit = Some(decimal.or_else(|| rate(text).ok())?);
    Some(())
}

pub fn set_buffer_size(options: &mut Options, text: &str, is_after_si: bool) -> Option<()> {
    options.buffer_size = Some(memory(text, is_after_si)?);
    Some(())
}

pub fn set_error_skip_block(options: &mut Options, text: &str, is_after_si: bool) -> Option<()> {
    options.error_skip_block = Some(memory(text, is_after_si)?);
    Some(())
}

fn memory(text: &str, is_after_si: bool) -> Option<usize> {
    // The bounds apply to the size without `--si`.
    let bytes = memory_bytes(text).ok()?;
    let decimal = decimal(text, is_after_si).and_then(|bytes| usize::try_from(bytes).ok());
    Some(decimal.unwrap_or(bytes))
}

/// The size `text` after `--si`, if its unit is one letter: `1k`, but not `1KiB`.
fn decimal(text: &str, is_after_si: bool) -> Option<u64> {
    let has_letter = text.ends_with(|end: char| end.is_ascii_alphabetic() && end != 'B');
    (is_after_si && has_letter).then(|| size_bytes(&format!("{text}B")).ok())?
}

/// A size as in pv: a comma is a decimal point, fractions of a byte are dropped, and a number that
/// is too large is the largest.
fn as_pv_reads(text: &str) -> Result<u64, SizeError> {
    let pointed = text.replacen(',', ".", 1);
    let (whole, fraction) = pointed.split_once('.').unwrap_or((&pointed, ""));
    let has_no_digits = !fraction.starts_with(|c: char| c.is_ascii_digit());
    let read = match has_no_digits {
        true => size_bytes(&format!("{whole}{fraction}")),
        false => size_bytes(&pointed),
    };
    match read {
        Err(SizeError::Fraction) => size_bytes(whole),
        // With a unit, pv refuses such a size.
        Err(SizeError::TooLarge) if text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(u64::MAX),
        answer => answer,
    }
}

/// The long options of pv.
pub const PV: &[&str] = &[
    "average-rate",
    "average-rate-window",
    "bar-style",
    "bits",
    "buffer-percent",
    "buffer-size",
    "bytes",
    "cursor",
    "delay-start",
    "direct-io",
    "discard",
    "error-skip-block",
    "eta",
    "extra-display",
    "fineta",
    "force",
    "format",
    "gauge",
    "height",
    "help",
    "interval",
    "last-written",
    "line-mode",
    "monitor",
    "name",
    "no-splice",
    "null",
    "numeric",
    "output",
    "pidfile",
    "progress",
    "query",
    "quiet",
    "rate",
    "rate-limit",
    "remote",
    "si",
    "size",
    "skip-errors",
    "sparse",
    "sparse-output",
    "stats",
    "stop-at-size",
    "store-and-forward",
    "sync",
    "timer",
    "version",
    "wait",
    "watchfd",
    "width",
];

const DISPLAY: &str = "Display";
const OUTPUT: &str = "Output";
const TRANSFER: &str = "Transfer";
const OTHERS: &str = "Other processes";
const BEYOND: &str = "Beyond pv";

fn after_help() -> String {
    let rows: String = SEQUENCES.iter().map(|(sequence, shown)| row(sequence, shown)).collect();
    format!("{FORMAT}\n{rows}\n{STATUS}\n\n{UNLIKE_PV}")
}

const FORMAT: &str = "\
Without any option of Display, the default is -p -t -e -r -b.

FORMAT is text with sequences. A number between % and the letter or brace of a bar sets its width:";

const SEQUENCES: [(&str, &str); 18] = [
    ("%p, %{progress}", "bar with percentage"),
    ("%{progress-bar-only}", "bar only"),
    ("%{progress-amount-only}", "percentage only"),
    ("%{bar-STYLE}", "bar only, in STYLE: plain, block, granular, shaded"),
    ("%t, %{timer}", "elapsed time"),
    ("%e, %{eta}", "estimated time left"),
    ("%I, %{fineta}", "estimated time of completion"),
    ("%r, %{rate}", "current rate"),
    ("%a, %{average-rate}", "average rate"),
    ("%b, %{bytes}", "amount transferred"),
    ("%T, %{buffer-percent}", "how full the output pipe is"),
    ("%nA, %n{last-written}", "last n bytes"),
    ("%nL, %n{previous-line}", "last line, in n columns"),
    ("%N, %{name}", "name"),
    ("%%", "percent sign"),
    ("%{sgr:bold,red}", "colours and weights"),
    ("%{ratio}", "with CMD, the ratio of input to output; gush adds %{out-bytes} and %{out-rate}"),
    ("%{sparkline}", "gush only: the rates of the last minute"),
];

const STATUS: &str = "\
Exit status: 0, or the sum of 2 (a file could not be opened), 4 (an input file is the output file), \
8 (close failed), 16 (a read or write failed, or the checksum differs from --expect), 32 (ended by a \
signal); 64 for a usage error; 1 if FILE of -P cannot be written or PID of -R or -Q does not answer. \
With CMD, the exit status of CMD, unless that is 0 or its output could not be written.";

const UNLIKE_PV: &str = "\
Differences from pv: the size of a partly read input is that of its rest, and -l estimates the \
number of lines instead of counting them first. %T refers to the output \
pipe, as gush has no transfer buffer; %nA and %nL show the last bytes even without a buffer.

A line is never wider than the terminal: parts that do not fit are left out. The last line is printed \
even after a failed write, since it shows how much was transferred. Each skip over a read error is \
reported, without a warning before the first.

Amounts have 64 bits, in pv 80, so a last digit may be rounded differently: 2065 lines may be 2.06k \
or 2.07k. A ratio of 10000 or more is a whole number, not a power of ten. Sizes accept all units of \
gush: 64KiB, 64KB, 1P.

-c neither queries the terminal nor uses shared memory, and also draws its line with -f and no \
terminal. -M shows both sides on one line. A process title is at most as long as the command line, \
and -x works only with a transfer.

-d also ends when the process is a zombie, and reports it when no process is called NAME.

-R and -Q reach only gush pv, through a socket instead of a signal, which would end another program. \
-R keeps -8, -k, -s, -L, -i, -m and -w unless it sets them, and never changes -n and -q, as in pv, \
nor -B, since the engine's buffer is fixed for a transfer. Its -L counts lines where lines are \
counted; a transfer with -O or -Y that started without -L counts bytes instead.

An unknown STYLE or -x place, -B 0 and -Z 0 are errors.

`gush pv ... -- CMD` runs CMD. If CMD leaves part of its input unread, how much it has read is \
reported on a terminal, with -f and with --json, but not with -n or -q. When invoked as pv, or if \
POSIXLY_CORRECT is set, the arguments after -- are files.";

/// The name is often that of a file, so it may be any bytes.
fn shown_name() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().map(|name| name.to_string_lossy().into_owned())
}

/// Longer than any transfer, and sums with other times do not overflow.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// A number of seconds, such as 2 or 0.5; at most [`LONGEST`].
pub fn seconds(text: &str) -> Result<Duration, &'static str> {
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_digits && text.parse().is_ok_and(|seconds: f64| seconds > LONGEST.as_secs_f64()) {
        return Ok(LONGEST);
    }
    gush_text::seconds(text).ok_or("expected a number of seconds, such as 2 or 0.5")
}

pub fn columns(text: &str) -> Result<usize, &'static str> {
    match text.parse() {
        Ok(number @ 0..=100_000) => Ok(number),
        _ => Err("expected a number from 0 to 100000"),
    }
}

pub fn pid(text: &str) -> Result<i32, &'static str> {
    match text.parse() {
        Ok(number @ 1..) => Ok(number),
        _ => Err("not a valid PID"),
    }
}

pub fn hex(text: &str) -> Result<String, &'static str> {
    let is_hex = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hex { Ok(text.to_ascii_lowercase()) } else { Err("not a hexadecimal number") }
}

/// A rate as in pv, in bytes or lines per second.
pub fn rate(text: &str) -> Result<u64, SizeError> {
    as_pv_reads(text.strip_suffix("/s").unwrap_or(text))
}
