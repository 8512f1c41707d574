//! The command line of `gush pv`, by one table of pv's options and gush's own: it is read by the
//! table, and clap makes help, manual page and completions from the table. Building clap's tree for
//! every start would take a third of it (`bench/RESULTS.md`).

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use clap::builder::PossibleValue;
use clap::{Arg, ArgAction, Command, ValueEnum, ValueHint};
use gush::{Choice, MethodName, Tuning};
use gush_text::{size_bytes, some_time, suggestion};
use serde::{Deserialize, Serialize};

use super::extra::Extra;
use super::figures::Unit;
use super::hash::Algorithm;
use super::help;
use super::inspect::Inspect;
use super::pipeline::Selector;
use super::process::Watched;
use super::values::{Expected, Monitored, Style, columns, hex, memory, pid, rate, seconds};
use crate::args::getopt::{self, Argument, Known, Reading};

#[derive(Clone, Debug, Default)]
pub struct PvArgs {
    pub files: Vec<OsString>,
    pub command: Vec<OsString>,
    pub display: Display,
    pub wait: bool,
    pub delay_start: Option<Duration>,
    pub extra_display: Option<Extra>,
    pub line_mode: bool,
    pub null: bool,
    pub force: bool,
    pub stats: bool,
    pub output: Option<OsString>,
    pub buffer_size: Option<usize>,
    pub no_splice: bool,
    pub skip_errors: u8,
    pub error_skip_block: Option<usize>,
    pub stop_at_size: bool,
    pub sync: bool,
    pub direct_io: bool,
    pub sparse: bool,
    pub discard: bool,
    pub store_and_forward: Option<OsString>,
    pub watchfd: Vec<Watched>,
    pub remote: Option<i32>,
    pub query: Option<i32>,
    pub pipeline: Option<Selector>,
    pub here: bool,
    pub once: bool,
    pub widen: bool,
    pub monitor: Option<Monitored>,
    pub pidfile: Option<OsString>,
    pub json: bool,
    pub explain: bool,
    pub checksum: Option<Algorithm>,
    pub expect: Option<String>,
    pub skip: Option<u64>,
    pub seek: Option<u64>,
    pub stall_timeout: Option<Duration>,
}

/// The display options, which `--remote` sends.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Display {
    pub progress: bool,
    pub timer: bool,
    pub eta: bool,
    pub fineta: bool,
    pub rate: bool,
    pub average_rate: bool,
    pub bytes: bool,
    pub buffer_percent: bool,
    pub last_written: Option<usize>,
    pub format: Option<String>,
    pub numeric: bool,
    pub quiet: bool,
    pub bits: bool,
    pub si: bool,
    pub size: Option<Expected>,
    pub gauge: bool,
    pub interval: Option<Duration>,
    pub average_rate_window: Option<Duration>,
    pub width: Option<usize>,
    pub height: Option<usize>,
    pub name: Option<String>,
    pub bar_style: Option<Style>,
    pub cursor: bool,
    pub rate_limit: Option<u64>,
}

impl Display {
    /// The interval between two readings, within pv's limits.
    pub fn interval(&self) -> Duration {
        let interval = self.interval.unwrap_or(Duration::from_secs(1));
        interval.clamp(Duration::from_millis(100), Duration::from_secs(600))
    }

    pub fn unit(&self, lines: bool) -> Unit {
        Unit { lines, bits: self.bits, decimal: self.si }
    }

    /// The width of `--width`. As in pv, 0 is that of the terminal.
    pub fn columns(&self) -> Option<usize> {
        self.width.filter(|&columns| columns > 0)
    }
}

impl PvArgs {
    pub fn counts_lines(&self) -> bool {
        self.line_mode || self.null
    }

    /// What is kept of all bytes.
    pub fn inspect(&self) -> Inspect {
        let separator = if self.null { 0 } else { b'\n' };
        Inspect { lines: self.counts_lines(), separator, ..Inspect::default() }
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

/// An option.
struct OptionRow {
    /// The section of the help.
    heading: Option<&'static str>,
    /// [`NONE`] if it has only a name.
    letter: char,
    name: &'static str,
    action: Action,
    help: &'static str,
}

/// In the place of a letter: no word of a command line has this byte.
const NONE: char = '\0';

/// Reads the value of an option.
type Read = fn(&mut PvArgs, &OsStr) -> Result<(), String>;

/// What an option does.
enum Action {
    Flag(fn(&mut PvArgs) -> &mut bool),
    /// Counts how often it is given.
    Count(fn(&mut PvArgs) -> &mut u8),
    /// Reads its value, which has this name in the help.
    Value(&'static str, Read),
    /// Reads its value, which is one of a few words.
    OneOf(&'static str, Read, fn() -> Vec<PossibleValue>),
    /// Prints a page, which is clap's.
    Page,
}

use Action::{Count, Flag, OneOf, Page, Value};

macro_rules! rows {
    ($($heading:expr => {$($letter:tt $name:literal $action:expr, $help:literal;)+})+) => {
        &[$($(
            OptionRow {
                heading: $heading,
                letter: $letter,
                name: $name,
                action: $action,
                help: $help,
            }
        ),+),+]
    };
}

const BEYOND: &str = "Beyond pv";

const ROWS: &[OptionRow] = rows! {
    Some("Display") => {
        'p' "progress" Flag(|o| &mut o.display.progress), "Show a progress bar";
        't' "timer" Flag(|o| &mut o.display.timer), "Show the elapsed time";
        'e' "eta" Flag(|o| &mut o.display.eta), "Show the estimated time left";
        'I' "fineta" Flag(|o| &mut o.display.fineta), "Show the estimated time of completion";
        'r' "rate" Flag(|o| &mut o.display.rate), "Show the current rate";
        'a' "average-rate" Flag(|o| &mut o.display.average_rate),
            "Show the average rate (see -m)";
        'b' "bytes" Flag(|o| &mut o.display.bytes), "Show the amount transferred";
        'T' "buffer-percent" Flag(|o| &mut o.display.buffer_percent),
            "Show how full the output pipe is";
        'A' "last-written" Value("NUM", |o, v| set(&mut o.display.last_written, v, columns)),
            "Show the last NUM bytes written";
        'F' "format" Value("FORMAT", |o, v| set(&mut o.display.format, v, str::parse)),
            "Show FORMAT instead of -p, -t, -e, -I, -r, -a, -b, -T and -A";
        'n' "numeric" Flag(|o| &mut o.display.numeric),
            "Print a line of bare numbers: the percentage, or with -b the bytes and with -r \
             the rate, after the seconds with -t; with -F, FORMAT with bare numbers";
        'q' "quiet" Flag(|o| &mut o.display.quiet), "Show nothing";
    }
    Some("Output") => {
        '8' "bits" Flag(|o| &mut o.display.bits), "Show bits instead of bytes; implies -b";
        'k' "si" Flag(|o| &mut o.display.si),
            "Use multiples of 1000 (kB) instead of 1024 (KiB), also in the sizes given after \
             this option";
        's' "size"
            Value("SIZE", |o, v| sized(&mut o.display.size, v, o.display.si, Expected::parse)),
            "Expect SIZE bytes, or lines with -l; @PATH uses the size of a file, a device, or \
             a directory's files";
        'g' "gauge" Flag(|o| &mut o.display.gauge),
            "If the size is unknown, show the current rate relative to the maximum, printed \
             after the bar";
        'i' "interval" Value("SEC", |o, v| set(&mut o.display.interval, v, seconds)),
            "Update every SEC seconds [default: 1]";
        'm' "average-rate-window"
            Value("SEC", |o, v| set(&mut o.display.average_rate_window, v, seconds)),
            "Average the rate over SEC seconds [default: 30]";
        'w' "width" Value("WIDTH", |o, v| set(&mut o.display.width, v, columns)),
            "Assume a terminal of WIDTH columns";
        'H' "height" Value("HEIGHT", |o, v| set(&mut o.display.height, v, columns)),
            "Accepted for compatibility with pv; has no effect";
        'N' "name" Value("NAME", |o, v| keep(&mut o.display.name, v.to_string_lossy())),
            "Prefix the display with NAME";
        'u' "bar-style"
            OneOf("STYLE", |o, v| choose(&mut o.display.bar_style, v), names::<Style>),
            "Draw the bar in STYLE";
        'c' "cursor" Flag(|o| &mut o.display.cursor),
            "Position the cursor, so that several pv can share a terminal, one line each";
        'W' "wait" Flag(|o| &mut o.wait),
            "Show nothing until the first byte has been transferred";
        'D' "delay-start" Value("SEC", |o, v| set(&mut o.delay_start, v, seconds)),
            "Show nothing until SEC seconds have passed";
        'x' "extra-display" Value("SPEC", |o, v| set(&mut o.extra_display, v, Extra::parse)),
            "Also show progress in a title: windowtitle, processtitle, or both separated by a \
             comma; :FORMAT after them sets its format";
        'l' "line-mode" Flag(|o| &mut o.line_mode),
            "Count lines instead of bytes; without -s, their total is estimated from the bytes \
             of the inputs";
        '0' "null" Flag(|o| &mut o.null), "Lines end with a null byte; implies -l";
        'f' "force" Flag(|o| &mut o.force),
            "Show progress even if standard error is not a terminal";
        'v' "stats" Flag(|o| &mut o.stats),
            "Print the minimum, mean and maximum rate and their standard deviation at the end";
    }
    Some("Transfer") => {
        'L' "rate-limit"
            Value("RATE", |o, v| sized(&mut o.display.rate_limit, v, o.display.si, rate)),
            "Move at most RATE bytes per second, or lines with -l; 0 lifts the limit";
        'o' "output" Value("FILE", |o, v| keep(&mut o.output, v)),
            "Write to FILE, truncating it first";
        'B' "buffer-size"
            Value("SIZE", |o, v| sized(&mut o.buffer_size, v, o.display.si, memory)),
            "Move up to SIZE bytes at a time through memory, at most 4M; implies --no-splice";
        'C' "no-splice" Flag(|o| &mut o.no_splice), "Use read and write only";
        'E' "skip-errors" Count(|o| &mut o.skip_errors),
            "Write zeros where the input cannot be read; given twice, report only the first \
             error of each file";
        'Z' "error-skip-block"
            Value("SIZE", |o, v| sized(&mut o.error_skip_block, v, o.display.si, memory)),
            "Skip SIZE bytes at each read error [default: 1 at first, up to 512 after many \
             errors in a row]";
        'S' "stop-at-size" Flag(|o| &mut o.stop_at_size), "Stop after --size bytes";
        'Y' "sync" Flag(|o| &mut o.sync), "Count bytes only once they are on disk (fdatasync)";
        'K' "direct-io" Flag(|o| &mut o.direct_io),
            "Bypass the page cache (O_DIRECT) where the file system supports it";
        'O' "sparse" Flag(|o| &mut o.sparse),
            "Write blocks of zeros as holes, if the output is a file";
        'X' "discard" Flag(|o| &mut o.discard), "Discard the input instead of writing it";
        'U' "store-and-forward" Value("FILE", |o, v| keep(&mut o.store_and_forward, v)),
            "Store the whole input in FILE first, then write FILE to the output; - is a \
             temporary file";
    }
    Some("Other processes") => {
        'd' "watchfd" Value("PID[:FD]", |o, v| push(&mut o.watchfd, v)),
            "Transfer nothing; show the position of descriptor FD of process PID, or of all \
             its files. =NAME selects all processes of that name, @LIST is a file that \
             lists one of these per line. Operands, and -d again, add more";
        'R' "remote" Value("PID", |o, v| set(&mut o.remote, v, pid)),
            "Send these display options, -L and -s to the gush pv with this PID";
        'Q' "query" Value("PID", |o, v| set(&mut o.query, v, pid)),
            "Show the progress of the gush pv with this PID";
        'M' "monitor" Value("SIDE", |o, v| set(&mut o.monitor, v, Monitored::parse)),
            "Run the operands as a command, and show its input, its output, or both: in, out, \
             both";
    }
    None => {
        'P' "pidfile" Value("FILE", |o, v| keep(&mut o.pidfile, v)),
            "Write the PID of this process to FILE, and remove FILE at the end";
        'h' "help" Page, "Print help";
        'V' "version" Page, "Print version";
    }
    Some(BEYOND) => {
        NONE "json" Flag(|o| &mut o.json), "Print progress as one JSON object per line";
        NONE "explain" Flag(|o| &mut o.explain),
            "After each input, print which methods moved the bytes, and which were refused and \
             why";
        NONE "checksum" OneOf("NAME", |o, v| choose(&mut o.checksum, v), names::<Algorithm>),
            "Print a checksum of the transferred bytes at the end";
        NONE "expect" Value("HEX", |o, v| set(&mut o.expect, v, hex)),
            "Fail unless the checksum is HEX";
        NONE "skip" Value("SIZE", |o, v| set(&mut o.skip, v, size_bytes)),
            "Skip the first SIZE bytes of the input";
        NONE "seek" Value("SIZE", |o, v| set(&mut o.seek, v, size_bytes)),
            "Skip SIZE bytes of the output before writing; --output keeps what it holds there";
        NONE "stall-timeout" Value("TIME", |o, v| set(&mut o.stall_timeout, v, some_time)),
            "Fail once no byte moved for TIME";
        NONE "pipeline" Value("PID", |o, v| set(&mut o.pipeline, v, str::parse)),
            "Transfer nothing; show the pipeline that process PID (or process group -PGID) is part \
             of: each stage, how full its pipes are, and which stage holds the others up. With \
             --json, print an object per look; with -n, the PID of that stage (0 if uncertain) and \
             how full each pipe is, in percent. Without a terminal, one of these, --once or -f is needed";
        NONE "here" Flag(|o| &mut o.here),
            "As --pipeline, for all pipelines of this terminal";
        NONE "once" Flag(|o| &mut o.once),
            "With --pipeline or --here, look for 1 to 3 seconds and print the result to standard \
             output";
        NONE "widen" Flag(|o| &mut o.widen),
            "With --pipeline or --here, enlarge the pipes first; they keep that size";
    }
};

/// Other names of options.
const ALIASES: [(&str, &str); 1] = [("sparse", "sparse-output")];

/// Options that cannot be combined.
const APART: [(&str, &[&str]); 6] = [
    ("pipeline", &["here", "extra-display", "watchfd", "remote", "query", "monitor"]),
    ("here", &["extra-display", "watchfd", "remote", "query", "monitor"]),
    ("extra-display", &["watchfd", "query"]),
    ("remote", &["watchfd", "query"]),
    ("query", &["watchfd"]),
    ("monitor", &["watchfd", "remote", "query"]),
];

/// Why the arguments are no [`PvArgs`].
#[derive(Debug, PartialEq, Eq)]
pub enum Stop {
    /// The option of this name asks for a page.
    Page(&'static str),
    /// A sentence about the first error.
    Wrong(String),
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Wrong(why)
    }
}

/// Reads the arguments. With `operands_end_options`, the first operand ends the options, as POSIX
/// requires.
///
/// # Errors
/// What to do instead.
pub fn read(
    words: impl Iterator<Item = OsString>,
    operands_end_options: bool,
) -> Result<PvArgs, Stop> {
    let reading = Reading { operands_end_options, ..Reading::default() };
    let mut args = PvArgs::default();
    let mut given: Vec<&'static str> = Vec::new();
    let took: Result<(), Stop> = getopt::read(ROWS, reading, words, |argument| {
        match argument {
            Argument::Option(row, value) => {
                row.apply(&mut args, &value.unwrap_or_default())?;
                if APART.iter().any(|(one, others)| *one == row.name || others.contains(&row.name))
                {
                    given.push(row.name);
                }
            }
            Argument::Operand(word) => args.files.push(word),
            Argument::Rest(rest) => args.command.extend(rest),
        }
        Ok(())
    });
    took?;
    goes_together(&args, &given)?;
    Ok(args)
}

impl OptionRow {
    fn apply(&self, args: &mut PvArgs, value: &OsStr) -> Result<(), Stop> {
        let read = match self.action {
            Flag(field) => {
                *field(args) = true;
                Ok(())
            }
            Count(field) => {
                *field(args) = field(args).saturating_add(1);
                Ok(())
            }
            Value(_, read) | OneOf(_, read, _) => read(args, value),
            Page => return Err(Stop::Page(self.name)),
        };
        read.map_err(|why| match value.to_str() {
            Some("") if matches!(self.action, OneOf(..)) => {
                Stop::Wrong(format!("--{} needs a value{why}", self.name))
            }
            Some(value) => Stop::Wrong(format!("invalid --{} '{value}'{why}", self.name)),
            None => Stop::Wrong(format!("invalid --{}: the value is not valid UTF-8", self.name)),
        })
    }

    fn arg(&self) -> Arg {
        let arg = Arg::new(self.name).long(self.name).help(self.help).help_heading(self.heading);
        let arg = match self.letter {
            NONE => arg,
            letter => arg.short(letter),
        };
        let aliases = ALIASES.iter().filter(|(name, _)| *name == self.name);
        let arg = arg.visible_aliases(aliases.map(|(_, alias)| *alias));
        match self.action {
            Flag(_) => arg.action(ArgAction::SetTrue),
            Count(_) => arg.action(ArgAction::Count),
            Value("FILE", _) => arg.value_name("FILE").value_hint(ValueHint::AnyPath),
            Value(name, _) => arg.value_name(name),
            OneOf(name, _, values) => arg.value_name(name).value_parser(values()),
            Page if self.name == "version" => arg.action(ArgAction::Version),
            Page => arg.action(ArgAction::Help),
        }
    }
}

impl Known for OptionRow {
    fn has_letter(&self, letter: char) -> bool {
        self.letter == letter
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        let aliases = ALIASES.iter().filter(|(name, _)| *name == self.name);
        std::iter::once(self.name).chain(aliases.map(|(_, alias)| *alias))
    }

    fn shown_names(&self) -> impl Iterator<Item = &str> {
        self.names()
    }

    fn is_first(&self, _name: &str, _reading: Reading<'_>) -> bool {
        self.heading != Some(BEYOND)
    }

    fn value(&self) -> getopt::Value {
        match self.action {
            Flag(_) | Count(_) | Page => getopt::Value::None,
            Value(..) | OneOf(..) => getopt::Value::Needed,
        }
    }
}

/// # Errors
/// Two of the options `given` cannot be combined, or one lacks another.
fn goes_together(args: &PvArgs, given: &[&'static str]) -> Result<(), String> {
    let is_apart = |one: &str, other: &str| {
        APART.iter().any(|(name, others)| *name == one && others.contains(&other))
    };
    for (at, one) in given.iter().enumerate() {
        let mut later = given[at + 1..].iter();
        if let Some(other) = later.find(|other| is_apart(one, other) || is_apart(other, one)) {
            return Err(format!("--{one} cannot be used with --{other}"));
        }
    }
    let has_pipeline = args.pipeline.is_some() || args.here;
    for (name, is_alone, needed) in [
        ("expect", args.expect.is_some() && args.checksum.is_none(), "--checksum"),
        ("once", args.once && !has_pipeline, "--pipeline or --here"),
        ("widen", args.widen && !has_pipeline, "--pipeline or --here"),
    ] {
        if is_alone {
            return Err(format!("--{name} requires {needed}"));
        }
    }
    if let (Some(algorithm), Some(expected)) = (args.checksum, &args.expect) {
        let digits = algorithm.start().text().len();
        if expected.len() != digits {
            let (name, given) = (algorithm.name(), expected.len());
            return Err(format!("--expect has {given} digits, and {name} has {digits}"));
        }
    }
    Ok(())
}

/// Keeps a value that is read by `parse`.
fn set<T, E: ToString>(
    field: &mut Option<T>,
    value: &OsStr,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<(), String> {
    let text = value.to_str().ok_or_else(String::new)?;
    *field = Some(parse(text).map_err(|why| format!(": {}", why.to_string()))?);
    Ok(())
}

/// Keeps a size, before which --si is given or not.
fn sized<T, E: ToString>(
    field: &mut Option<T>,
    value: &OsStr,
    is_after_si: bool,
    parse: impl Fn(&str, bool) -> Result<T, E>,
) -> Result<(), String> {
    set(field, value, |text| parse(text, is_after_si))
}

/// Keeps a value that need not be text.
fn keep<T>(field: &mut Option<T>, value: impl Into<T>) -> Result<(), String> {
    *field = Some(value.into());
    Ok(())
}

fn push(field: &mut Vec<Watched>, value: &OsStr) -> Result<(), String> {
    let mut one = None;
    set(&mut one, value, str::parse)?;
    field.extend(one);
    Ok(())
}

fn choose<T: ValueEnum>(field: &mut Option<T>, value: &OsStr) -> Result<(), String> {
    let text = value.to_str().unwrap_or_default();
    *field = Some(
        T::from_str(text, false)
            .map_err(|_| suggestion(text, names::<T>().iter().map(PossibleValue::get_name)))?,
    );
    Ok(())
}

fn names<T: ValueEnum>() -> Vec<PossibleValue> {
    T::value_variants().iter().filter_map(ValueEnum::to_possible_value).collect()
}

/// The definition of `gush pv`, from which help, manual page and completions are made.
pub fn command() -> Command {
    let files = Arg::new("files").value_name("FILE").value_hint(ValueHint::AnyPath);
    let command = Arg::new("command").value_name("CMD").last(true);
    Command::new("pv")
        .version(env!("CARGO_PKG_VERSION"))
        .about(
            "Copy FILEs, or standard input, to standard output, and show progress on standard \
             error",
        )
        .max_term_width(100)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .after_help(help::after_options())
        .arg(files.num_args(1..).help("Files to copy; - is standard input"))
        .arg(
            command.num_args(1..).value_hint(ValueHint::CommandWithArguments).help(
                "Pipe the input through CMD; show the bytes in, the bytes out and their ratio",
            ),
        )
        .args(ROWS.iter().map(OptionRow::arg))
}

/// The arguments of a correct command line.
#[cfg(test)]
pub fn read_words(words: &[&str]) -> PvArgs {
    read(words.iter().map(OsString::from), false).unwrap()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn read_all(words: &[&str]) -> Result<PvArgs, Stop> {
        read(words.iter().map(OsString::from), false)
    }

    /// The arguments as text.
    fn shown(words: &[&str]) -> String {
        format!("{:?}", read_all(words).unwrap())
    }

    fn rows() -> impl Iterator<Item = &'static OptionRow> {
        ROWS.iter()
    }

    /// A valid value of each option.
    fn value_of(row: &OptionRow) -> &'static str {
        match row.name {
            "bar-style" => "block",
            "extra-display" => "process:%b",
            "checksum" => "xxh3",
            "monitor" => "in",
            "expect" => "0123456789abcdeF",
            _ => "5",
        }
    }

    /// `words` with the options that this one requires.
    fn with_required<'a>(row: &OptionRow, words: &[&'a str]) -> Vec<&'a str> {
        let needed: &[&str] = match row.name {
            "expect" => &["--checksum=xxh3"],
            "once" | "widen" => &["--pipeline=1"],
            _ => &[],
        };
        [needed, words].concat()
    }

    #[test]
    fn every_option_is_read_in_every_spelling() {
        let nothing = shown(&["a"]);
        for row in rows() {
            let value = value_of(row);
            let long = format!("--{}", row.name);
            let letter = format!("-{}", row.letter);
            if let Page = row.action {
                assert_eq!(read_all(&[&long]).unwrap_err(), Stop::Page(row.name));
                assert_eq!(read_all(&[&letter, "--nope"]).unwrap_err(), Stop::Page(row.name));
                continue;
            }
            let takes_value = row.value() == getopt::Value::Needed;
            let full = match takes_value {
                true => shown(&with_required(row, &[&format!("{long}={value}"), "a"])),
                false => shown(&with_required(row, &[&long, "a"])),
            };
            assert_ne!(full, nothing, "{long}");
            let mut spellings = vec![];
            for name in row.names() {
                // The shortest beginning that no other option has.
                let is_own = |end: &usize| {
                    let begins =
                        |other: &OptionRow| other.names().any(|o| o.starts_with(&name[..*end]));
                    rows().filter(|other| begins(other)).count() == 1
                };
                spellings.extend((1..name.len()).find(is_own).map(|end| &name[..end]));
                spellings.push(name);
            }
            let mut lines: Vec<Vec<String>> = Vec::new();
            for name in spellings {
                let name = format!("--{name}");
                match takes_value {
                    true => {
                        lines.push(vec![format!("{name}={value}")]);
                        lines.push(vec![name, value.to_owned()]);
                    }
                    false => lines.push(vec![name]),
                }
            }
            if row.letter != NONE {
                match takes_value {
                    true => {
                        lines.push(vec![format!("{letter}{value}")]);
                        lines.push(vec![letter.clone(), value.to_owned()]);
                    }
                    false => lines.push(vec![letter.clone()]),
                }
                let after_quiet = [format!("-q{}", row.letter), value.to_owned()];
                let words: Vec<&str> = after_quiet.iter().map(String::as_str).collect();
                assert!(read_all(&words).unwrap().display.quiet, "{words:?}");
            }
            for line in lines {
                let words: Vec<&str> = line.iter().map(String::as_str).chain(["a"]).collect();
                assert_eq!(shown(&with_required(row, &words)), full, "{words:?}");
            }
        }
    }

    #[test]
    fn no_two_options_have_a_letter_or_a_name() {
        let letters: Vec<char> = rows().map(|row| row.letter).filter(|&l| l != NONE).collect();
        let names: Vec<&str> = rows().flat_map(Known::names).collect();
        assert_eq!(letters.iter().collect::<BTreeSet<_>>().len(), letters.len());
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        for (name, others) in APART {
            assert!(others.iter().chain([&name]).all(|name| names.contains(name)), "{name}");
        }
    }

    #[test]
    fn a_wrong_value_is_named_with_its_option_and_what_is_right() {
        let columns = "expected a number from 0 to 100000";
        for (words, why) in [
            (&["-w", "x"][..], format!("invalid --width 'x': {columns}")),
            (&["-A100001"], format!("invalid --last-written '100001': {columns}")),
            (&["--bar-style=plai"], "invalid --bar-style 'plai'; did you mean 'plain'?".into()),
            (
                &["--checksum", ""],
                "--checksum needs a value; choose from blake3, xxh3, sha256".into(),
            ),
            (&["--expect=ab"], "--expect requires --checksum".into()),
            (
                &["--checksum=sha256", "--expect=ab"],
                "--expect has 2 digits, and sha256 has 64".into(),
            ),
            (&["-q", "--quiet=x"], "option '--quiet' doesn't allow an argument".into()),
            (&["-s"], "option requires an argument -- 's'".into()),
            (&["-qj"], "invalid option -- 'j'".into()),
        ] {
            assert_eq!(read_all(words).unwrap_err(), Stop::Wrong(why), "{words:?}");
        }
        let odd = OsStr::from_bytes(b"-s\xff").to_owned();
        assert!(
            matches!(read([odd].into_iter(), false), Err(Stop::Wrong(why)) if why.contains("UTF-8"))
        );
        let named = OsStr::from_bytes(b"-N\xff").to_owned();
        assert!(read([named].into_iter(), false).is_ok());
    }

    #[test]
    fn options_that_cannot_be_combined_are_named_in_their_order() {
        let each = [
            ("-d1", "watchfd"),
            ("-Q1", "query"),
            ("-R1", "remote"),
            ("-Min", "monitor"),
            ("-xwindow", "extra-display"),
            ("--pipeline=1", "pipeline"),
            ("--here", "here"),
        ];
        for (one, name) in each {
            for (other, other_name) in each {
                let titles = [name, other_name].contains(&"extra-display");
                let may_have_titles =
                    [name, other_name].iter().any(|n| ["remote", "monitor"].contains(n));
                let expected = match name == other_name || titles && may_have_titles {
                    true => None,
                    false => Some(format!("--{name} cannot be used with --{other_name}")),
                };
                let wrong = read_all(&[one, other]).err();
                assert_eq!(wrong, expected.map(Stop::Wrong), "{one} {other}");
            }
        }
    }

    #[test]
    fn a_unit_after_si_is_a_power_of_1000() {
        let sizes = |line: &str| {
            let args = read_all(&line.split(' ').collect::<Vec<_>>()).unwrap();
            (args.display.rate_limit, args.buffer_size)
        };
        assert_eq!(sizes("-L 1k -k -B 1k"), (Some(1024), Some(1000)));
        assert_eq!(sizes("-k -L 1KiB -B 1k -B 2"), (Some(1024), Some(2)));
        assert_eq!(sizes("-k -L 1k/s --si"), (Some(1000), None));
    }

    #[test]
    fn the_rest_of_the_command_line_is_the_command() {
        let line = ["a", "--", "-q", "--"].map(OsString::from);
        let args = read(line.into_iter(), false).unwrap();
        assert_eq!((args.files, args.command), (vec!["a".into()], vec!["-q".into(), "--".into()]));
        let line = ["-q", "a", "-b"].map(OsString::from);
        let args = read(line.into_iter(), true).unwrap();
        assert!(args.files.is_empty() && !args.display.bytes);
        assert_eq!(args.command, ["a", "-b"]);
    }
}
