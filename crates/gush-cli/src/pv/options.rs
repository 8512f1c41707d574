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

/// Copy FILEs, or standard input, to standard output, and show the progress on standard error
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
    /// Run CMD with the input, and write what CMD writes; show both, and their ratio
    #[arg(value_name = "CMD", last = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,

    #[command(flatten)]
    pub display: Display,

    /// Show nothing until the first byte has arrived
    #[arg(short = 'W', long, help_heading = OUTPUT)]
    pub wait: bool,
    /// Show nothing until SEC seconds have passed
    #[arg(short = 'D', long, value_name = "SEC", value_parser = seconds, help_heading = OUTPUT)]
    pub delay_start: Option<Duration>,
    /// Show progress in a title, too: windowtitle, processtitle or both with a comma; behind a colon may stand a FORMAT of theirs
    #[arg(short = 'x', long, value_name = "SPEC", value_parser = Extra::parse, conflicts_with_all = ["watchfd", "query"], help_heading = OUTPUT)]
    pub extra_display: Option<Extra>,
    /// Count lines; without -s, files are read again for their number
    #[arg(short, long, help_heading = OUTPUT)]
    pub line_mode: bool,
    /// Count lines that end with a null byte
    #[arg(short = '0', long, help_heading = OUTPUT)]
    pub null: bool,
    /// Show progress even if standard error is no terminal
    #[arg(short, long, help_heading = OUTPUT)]
    pub force: bool,
    /// Say at the end what the lowest, mean and highest rate was, and their deviation
    #[arg(short = 'v', long, help_heading = OUTPUT)]
    pub stats: bool,

    /// Write to FILE, which is emptied first
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::AnyPath, help_heading = TRANSFER)]
    pub output: Option<OsString>,
    /// Bytes moved at a time through memory, 4M at most; turns --no-splice on
    #[arg(short = 'B', long, value_name = "SIZE", value_parser = memory_bytes, help_heading = TRANSFER)]
    pub buffer_size: Option<usize>,
    /// Read and write, and use no other method
    #[arg(short = 'C', long, help_heading = TRANSFER)]
    pub no_splice: bool,
    /// Write zeros where the input cannot be read; given twice, tell of one failure a file
    #[arg(short = 'E', long, action = ArgAction::Count, help_heading = TRANSFER)]
    pub skip_errors: u8,
    /// Skip as many bytes at each failure of reading [default: 1 at first, up to 512 at many failures in a row]
    #[arg(short = 'Z', long, value_name = "SIZE", value_parser = memory_bytes, help_heading = TRANSFER)]
    pub error_skip_block: Option<usize>,
    /// Stop once --size bytes have passed
    #[arg(short = 'S', long, help_heading = TRANSFER)]
    pub stop_at_size: bool,
    /// Count bytes once they are on the disk (fdatasync)
    #[arg(short = 'Y', long, help_heading = TRANSFER)]
    pub sync: bool,
    /// Read and write past the page cache (O_DIRECT), where the file system can
    #[arg(short = 'K', long, help_heading = TRANSFER)]
    pub direct_io: bool,
    /// Make holes of blocks of zeros, in an output that is a file
    #[arg(short = 'O', long, visible_alias = "sparse-output", help_heading = TRANSFER)]
    pub sparse: bool,
    /// Write nothing: the input is read and thrown away
    #[arg(short = 'X', long, help_heading = TRANSFER)]
    pub discard: bool,
    /// Store the whole input in FILE first, then write FILE out; - is a file that goes away
    #[arg(short = 'U', long, value_name = "FILE", value_hint = ValueHint::AnyPath, help_heading = TRANSFER)]
    pub store_and_forward: Option<OsString>,

    /// Move nothing: show how far descriptor FD of process PID is, or all its files; =NAME is all processes of that name,
    /// @LIST a file with one of these a line; more operands, and -d again, are more of them
    #[arg(short = 'd', long, value_name = "PID[:FD]", help_heading = OTHERS)]
    pub watchfd: Vec<Watched>,
    /// Give the gush pv with the number PID these display options, -L and -s
    #[arg(short = 'R', long, value_name = "PID", value_parser = pid, conflicts_with_all = ["watchfd", "query"], help_heading = OTHERS)]
    pub remote: Option<i32>,
    /// Show the progress of the gush pv with the number PID
    #[arg(short = 'Q', long, value_name = "PID", value_parser = pid, conflicts_with = "watchfd", help_heading = OTHERS)]
    pub query: Option<i32>,

    /// Run the command that the operands are, and show what goes in, what comes out, or both: in, out, both
    #[arg(short = 'M', long, value_name = "SIDE", value_parser = Monitored::parse, conflicts_with_all = ["watchfd", "remote", "query"], help_heading = OTHERS)]
    pub monitor: Option<Monitored>,

    /// Keep the number of this process in FILE meanwhile
    #[arg(short = 'P', long, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    pub pidfile: Option<OsString>,
    /// Print help
    #[arg(short, long, action = ArgAction::Help)]
    help: Option<bool>,
    /// Print version
    #[arg(short = 'V', long, action = ArgAction::Version)]
    version: Option<bool>,

    /// Print progress as a line of JSON
    #[arg(long, help_heading = BEYOND)]
    pub json: bool,
    /// Tell after each input which methods moved the bytes, and which were refused and why
    #[arg(long, help_heading = BEYOND)]
    pub explain: bool,
    /// Print a checksum of what has passed at the end
    #[arg(long, value_name = "NAME", value_enum, help_heading = BEYOND)]
    pub checksum: Option<Algorithm>,
    /// Fail if the checksum is another than HEX
    #[arg(long, value_name = "HEX", requires = "checksum", value_parser = hex, help_heading = BEYOND)]
    pub expect: Option<String>,
    /// Leave out the first SIZE bytes of the input
    #[arg(long, value_name = "SIZE", value_parser = size_bytes, help_heading = BEYOND)]
    pub skip: Option<u64>,
    /// Write SIZE bytes further on in the output, and keep what --output has before
    #[arg(long, value_name = "SIZE", value_parser = size_bytes, help_heading = BEYOND)]
    pub seek: Option<u64>,
    /// End with an error once no byte has moved for TIME
    #[arg(long, value_name = "TIME", value_parser = some_time, help_heading = BEYOND)]
    pub stall_timeout: Option<Duration>,
    /// Leave the pipes on both sides as large as they are
    #[arg(long, help_heading = BEYOND)]
    pub no_boost: bool,
}

/// What is shown, and how: also what `--remote` sends.
#[derive(Clone, Debug, Default, Parser, Serialize, Deserialize)]
pub struct Display {
    /// Show a progress bar
    #[arg(short, long, help_heading = DISPLAY)]
    pub progress: bool,
    /// Show the time since the start
    #[arg(short, long, help_heading = DISPLAY)]
    pub timer: bool,
    /// Show how long the rest will take
    #[arg(short, long, help_heading = DISPLAY)]
    pub eta: bool,
    /// Show when everything will have arrived
    #[arg(short = 'I', long, help_heading = DISPLAY)]
    pub fineta: bool,
    /// Show the rate of now
    #[arg(short, long, help_heading = DISPLAY)]
    pub rate: bool,
    /// Show the rate of the last SEC seconds (see -m)
    #[arg(short, long, help_heading = DISPLAY)]
    pub average_rate: bool,
    /// Show how much has arrived
    #[arg(short, long, help_heading = DISPLAY)]
    pub bytes: bool,
    /// Show how full the pipe at the output is
    #[arg(short = 'T', long, help_heading = DISPLAY)]
    pub buffer_percent: bool,
    /// Show the last NUM bytes written
    #[arg(short = 'A', long, value_name = "NUM", value_parser = columns, help_heading = DISPLAY)]
    pub last_written: Option<usize>,
    /// Show what FORMAT says, instead of -p, -t, -e, -I, -r, -a, -b, -T and -A
    #[arg(short = 'F', long, value_name = "FORMAT", help_heading = DISPLAY)]
    pub format: Option<String>,
    /// Print a number a line: percent, or with -b the bytes, after the seconds with -t, before the rate with -r; with -F, what
    /// FORMAT says with bare numbers
    #[arg(short, long, help_heading = DISPLAY)]
    pub numeric: bool,
    /// Show nothing
    #[arg(short, long, help_heading = DISPLAY)]
    pub quiet: bool,

    /// Show bits instead of bytes; turns -b on
    #[arg(short = '8', long, help_heading = OUTPUT)]
    pub bits: bool,
    /// Show multiples of 1000 (kB) instead of 1024 (KiB), and read those in the sizes behind this option
    #[arg(short = 'k', long, help_heading = OUTPUT)]
    pub si: bool,
    /// Expect SIZE bytes, or lines with -l; @PATH is the size of a file, a device, or a directory's files
    #[arg(short, long, value_name = "SIZE", value_parser = Expected::parse, help_heading = OUTPUT)]
    pub size: Option<Expected>,
    /// Where the size is not known, let the bar show the rate as a part of the highest, which stands behind
    #[arg(short, long, help_heading = OUTPUT)]
    pub gauge: bool,
    /// Show progress every SEC seconds [default: 1]
    #[arg(short, long, value_name = "SEC", value_parser = seconds, help_heading = OUTPUT)]
    pub interval: Option<Duration>,
    /// Average the rate over SEC seconds [default: 30]
    #[arg(short = 'm', long, value_name = "SEC", value_parser = seconds, help_heading = OUTPUT)]
    pub average_rate_window: Option<Duration>,
    /// Show WIDTH columns
    #[arg(short, long, value_name = "WIDTH", value_parser = columns, help_heading = OUTPUT)]
    pub width: Option<usize>,
    /// Taken for pv's sake: no display of gush needs the height
    #[arg(short = 'H', long, value_name = "HEIGHT", value_parser = columns, help_heading = OUTPUT)]
    pub height: Option<usize>,
    /// Show NAME before everything else
    #[arg(short = 'N', long, value_name = "NAME", value_parser = shown_name(), help_heading = OUTPUT)]
    pub name: Option<String>,
    /// Draw the bar in STYLE
    #[arg(short = 'u', long, value_name = "STYLE", value_enum, help_heading = OUTPUT)]
    pub bar_style: Option<Style>,
    /// Move the cursor, so that several pv in one terminal have a line each
    #[arg(short, long, help_heading = OUTPUT)]
    pub cursor: bool,
    /// Move at most RATE bytes a second, or lines with -l; 0 lifts the limit
    #[arg(short = 'L', long, value_name = "RATE", value_parser = rate, help_heading = TRANSFER)]
    pub rate_limit: Option<u64>,
}

impl Options {
    pub fn counts_lines(&self) -> bool {
        self.line_mode || self.null
    }

    /// May the display show which part of all has arrived?
    pub fn shows_share(&self) -> bool {
        !self.display.quiet || self.stop_at_size || self.extra_display.is_some()
    }

    /// The byte that ends a line.
    pub fn separator(&self) -> u8 {
        if self.null { 0 } else { b'\n' }
    }

    /// The engine's method: the plan's choice, or reading and writing where pv has to do that, too.
    pub fn choice(&self) -> Choice {
        let through_memory = self.no_splice || self.buffer_size.is_some() || self.skip_errors > 0;
        if through_memory { Choice::Only(MethodName::ReadWrite) } else { Choice::Auto }
    }

    pub fn tuning(&self) -> Tuning {
        let tuning = Tuning::default();
        let tuning = match self.buffer_size {
            Some(bytes) => tuning.buffer_bytes(bytes),
            None => tuning,
        };
        if self.no_boost { tuning.pipe_bytes(1) } else { tuning }
    }
}

/// The options of a command line, whose order counts for the sizes behind `--si`.
#[derive(Debug)]
pub struct Ordered(pub Options);

impl FromArgMatches for Ordered {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut options = Options::from_arg_matches(matches)?;
        let is_given = matches.value_source("si") == Some(ValueSource::CommandLine);
        let si = matches.index_of("si").filter(|_| is_given);
        for (name, set) in SIZES {
            let is_behind = matches.index_of(name).zip(si).is_some_and(|(at, si)| at > si);
            let text = matches.get_raw(name).filter(|_| is_behind).and_then(Iterator::last);
            // clap has read the same text without a complaint.
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
            _ => Err("the sides are in, out and both"),
        }
    }
}

/// The value of `--size`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Expected {
    Number(u64),
    /// As large as what is at this path.
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

/// Sets an option to a size. As with pv, the unit of a size behind `--si` is a power of 1000.
pub type SetSize = fn(&mut Options, &str, is_behind_si: bool) -> Option<()>;

/// The options that are sizes, by clap's names.
pub const SIZES: [(&str, SetSize); 4] = [
    ("size", set_size),
    ("rate_limit", set_rate_limit),
    ("buffer_size", set_buffer_size),
    ("error_skip_block", set_error_skip_block),
];

pub fn set_size(options: &mut Options, text: &str, is_behind_si: bool) -> Option<()> {
    let decimal = decimal(text, is_behind_si).map(Expected::Number);
    options.display.size = Some(decimal.or_else(|| Expected::parse(text).ok())?);
    Some(())
}

pub fn set_rate_limit(options: &mut Options, text: &str, is_behind_si: bool) -> Option<()> {
    let decimal = decimal(text, is_behind_si);
    options.display.rate_limit = Some(decimal.or_else(|| rate(text).ok())?);
    Some(())
}

pub fn set_buffer_size(options: &mut Options, text: &str, is_behind_si: bool) -> Option<()> {
    options.buffer_size = Some(memory(text, is_behind_si)?);
    Some(())
}

pub fn set_error_skip_block(options: &mut Options, text: &str, is_behind_si: bool) -> Option<()> {
    options.error_skip_block = Some(memory(text, is_behind_si)?);
    Some(())
}

fn memory(text: &str, is_behind_si: bool) -> Option<usize> {
    // The bounds are those of the size without `--si`.
    let bytes = memory_bytes(text).ok()?;
    let decimal = decimal(text, is_behind_si).and_then(|bytes| usize::try_from(bytes).ok());
    Some(decimal.unwrap_or(bytes))
}

/// The size `text` behind `--si`, if its unit is one letter: `1k`, and not `1KiB`.
fn decimal(text: &str, is_behind_si: bool) -> Option<u64> {
    let has_letter = text.ends_with(|end: char| end.is_ascii_alphabetic() && end != 'B');
    (is_behind_si && has_letter).then(|| size_bytes(&format!("{text}B")).ok())?
}

/// A size as pv reads one: a comma is a point, a fraction of a byte is dropped, and digits for a larger number than any are the largest.
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
        // pv knows no unit for sizes that fit nowhere, and refuses such a size.
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

/// The text below the options in the help.
fn after_help() -> String {
    let rows: String = SEQUENCES.iter().map(|(sequence, shown)| row(sequence, shown)).collect();
    format!("{FORMAT}\n{rows}\n{STATUS}\n\n{UNLIKE_PV}")
}

const FORMAT: &str = "\
Without any option of Display the display is that of -p -t -e -r -b.

FORMAT is text with sequences. A number between % and the letter or brace of a bar is the width of the bar:";

const SEQUENCES: [(&str, &str); 18] = [
    ("%p, %{progress}", "bar with percentage"),
    ("%{progress-bar-only}", "bar alone"),
    ("%{progress-amount-only}", "percentage alone"),
    ("%{bar-STYLE}", "bar alone in this style: plain, block, granular, shaded"),
    ("%t, %{timer}", "time since the start"),
    ("%e, %{eta}", "time left"),
    ("%I, %{fineta}", "time of arrival"),
    ("%r, %{rate}", "rate of now"),
    ("%a, %{average-rate}", "average rate"),
    ("%b, %{bytes}", "amount"),
    ("%T, %{buffer-percent}", "how full the pipe at the output is"),
    ("%nA, %n{last-written}", "last n bytes"),
    ("%nL, %n{previous-line}", "last line, in n columns"),
    ("%N, %{name}", "name"),
    ("%%", "percent sign"),
    ("%{sgr:bold,red}", "colours from here on"),
    ("%{ratio}", "with CMD: the ratio of the two sides; gush's own %{out-bytes} and %{out-rate}"),
    ("%{sparkline}", "gush's own: the rates of the last minute"),
];

const STATUS: &str = "\
Exit status: 0, or the sum of 2 (a file could not be opened), 4 (an input file is the output), 8 (close failed), 16 (reading or \
writing failed, or another checksum than that of --expect), 32 (ended by a signal); 64 for a wrong command line, 1 where FILE of \
-P cannot be written or PID of -R and -Q does not answer. With CMD that of the command, unless that is 0 or its output could not \
be written.";

const UNLIKE_PV: &str = "\
Unlike pv: the size of a partly read input is that of the rest. %T is about the pipe at the output, since nothing stays in a \
buffer of gush's; %nA and %nL show what has passed also where nothing was left in a buffer.

A line is never wider than the terminal: parts that have no room are left out. The last line comes after a failed write, too, \
since it says how much has arrived. Each skip past a read error has its line, and no warning comes before the first.

A digit is rounded as an amount of 64 bits is, and pv's have 80: 2065 lines may be 2.06k or 2.07k. A ratio from 10000 on is a \
whole number and no power of ten. Sizes have the units of all of gush: 64KiB, 64KB, 1P.

-c needs no reply of the terminal and no shared memory, and shows its line also where -f is given and no terminal is there. -M \
shows both sides in one line. A title of the process is as long as the command line at most, and -x goes with a transfer only.

-d also ends where nobody has waited for the process yet, and says that no process has NAME.

-R and -Q reach gush pv only, by a socket instead of a signal that would end another program. -R keeps -8, -k, -s, -L, -i, -m \
and -w where it does not name them, and leaves -n and -q as they are, as pv does. It leaves -B, too, as the engine's buffer is \
that of a whole move. Its -L is one of lines where lines are counted, except that a transfer with -O or -Y and without -L from \
the start goes on with one of bytes.

An unknown STYLE or place of -x, and -B 0 and -Z 0, are refused.

`gush pv ... -- CMD` runs CMD. Where CMD leaves a part of its input unread, the display tells how much CMD has read: on a \
terminal, with -f or with --json; nothing is told with -n or -q. Called by the name pv, or where POSIXLY_CORRECT is set, the words \
after -- are files.";

/// A name to be shown is most often that of a file, which may be any bytes.
fn shown_name() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().map(|name| name.to_string_lossy().into_owned())
}

/// Longer than any transfer, and no sum with another time overflows.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// A number of seconds, such as 2 or 0.5; 0 is allowed, and digits for a longer time than [`LONGEST`] are that, as pv bounds them.
pub fn seconds(text: &str) -> Result<Duration, &'static str> {
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_digits && text.parse().is_ok_and(|seconds: f64| seconds > LONGEST.as_secs_f64()) {
        return Ok(LONGEST);
    }
    gush_text::seconds(text).ok_or("not a number of seconds: write digits, such as 2 or 0.5")
}

pub fn columns(text: &str) -> Result<usize, &'static str> {
    match text.parse() {
        Ok(number @ 0..=100_000) => Ok(number),
        _ => Err("not a number from 0 to 100000"),
    }
}

pub fn pid(text: &str) -> Result<i32, &'static str> {
    match text.parse() {
        Ok(number @ 1..) => Ok(number),
        _ => Err("not the number of a process"),
    }
}

pub fn hex(text: &str) -> Result<String, &'static str> {
    let is_hex = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hex { Ok(text.to_ascii_lowercase()) } else { Err("not a hexadecimal number") }
}

/// A rate as pv reads one, in bytes or lines a second.
pub fn rate(text: &str) -> Result<u64, SizeError> {
    as_pv_reads(text.strip_suffix("/s").unwrap_or(text))
}
