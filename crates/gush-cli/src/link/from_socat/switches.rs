//! The switches of socat's command line.

use gush_link::address::Family;
use gush_link::gush_net::Direction;

use super::{Report, did_you_mean};
use crate::args::getopt::Value;

/// The most that socat takes for `-b`.
const MOST_BYTES: u64 = i64::MAX as u64;

/// The switches of a command line of socat, as options of `gush link`.
#[derive(Debug, Default)]
pub struct Parsed {
    pub words: Vec<String>,
    pub addresses: Vec<String>,
    /// The only direction, if there is one.
    pub one_way: Option<Direction>,
    pub families: Families,
    /// The file for messages.
    pub log_file: Option<String>,
    /// The most bytes of a datagram.
    pub message_bytes: Option<usize>,
    /// The value of `-b`, if it is larger than `gush link` makes datagrams.
    pub large_messages: Option<String>,
    /// Is the linger limit set?
    pub lingers: bool,
    /// Does socat go on after errors?
    pub is_sloppy: bool,
    /// Has socat another name, and so have the variables of programs?
    pub is_renamed: bool,
    /// The option that takes a lock, and its file.
    pub lock: Option<(&'static str, String)>,
}

impl Parsed {
    /// Removes what is about bytes that are relayed.
    pub fn relay_nothing(&mut self) {
        let mut words = std::mem::take(&mut self.words).into_iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "-u" | "-U" => self.words.push(word),
                "--log" | "--log-format" => {
                    self.words.extend([word].into_iter().chain(words.next()))
                }
                "-v" | "-x" | "--stats" => {}
                // `-t TIME`, `--tee FILE` and the like.
                _ => drop(words.next()),
            }
        }
        self.lingers = true;
    }
}

/// The version of IP of addresses that name none.
#[derive(Debug, Clone, Copy)]
pub struct Families {
    /// Comes first among the addresses of a name; `None` for the order of the system.
    pub of_peers: Option<Family>,
    pub of_listeners: Option<Family>,
}

/// By default socat listens on IPv4 only, and prefers it, unless the environment says otherwise.
impl Default for Families {
    fn default() -> Self {
        let of = |variable| match std::env::var_os(variable) {
            None => Some(Family::V4),
            Some(value) => match value.as_encoded_bytes().first() {
                Some(b'4') => Some(Family::V4),
                Some(b'6') => Some(Family::V6),
                _ => None,
            },
        };
        Self {
            of_peers: of("SOCAT_PREFERRED_RESOLVE_IP"),
            of_listeners: of("SOCAT_DEFAULT_LISTEN_IP"),
        }
    }
}

/// A switch: the start of an argument, whose value follows at once or is the next argument.
struct Switch {
    start: &'static str,
    value: Value,
    effect: Effect,
}

#[derive(Clone, Copy)]
enum Effect {
    Ours(&'static [&'static str]),
    OursWithTime(&'static str),
    /// The most bytes that are read at once, and so of a datagram.
    MessageSize,
    /// A copy of the bytes of one direction.
    Copy(Direction),
    /// Both versions of IP without one.
    Family(Option<Family>),
    Verbosity,
    LogFile,
    Sloppy,
    ProgramName,
    /// The option of the address that is opened first.
    Lock(&'static str),
    Needless(&'static str),
    Missing(&'static str),
}

const fn switch(start: &'static str, value: Value, effect: Effect) -> Switch {
    Switch { start, value, effect }
}

const NO_SYSLOG: &str = "messages go to standard error; `2> >(logger)` hands them to syslog";

/// The longer of two with the same start comes first.
const SWITCHES: &[Switch] = &[
    switch("-ly", Value::Attached, Effect::Missing(NO_SYSLOG)),
    switch("-lm", Value::Attached, Effect::Missing(NO_SYSLOG)),
    switch("-lf", Value::Needed, Effect::LogFile),
    switch("-ls", Value::None, Effect::Needless("messages go to standard error anyway")),
    switch("-lp", Value::Needed, Effect::ProgramName),
    switch("-lu", Value::None, Effect::Ours(&["--log-format", "timed"])),
    switch("-lh", Value::None, Effect::Needless("messages do not name the host")),
    switch("-d", Value::Attached, Effect::Verbosity),
    switch(
        "-D",
        Value::None,
        Effect::Needless("ls -l /proc/PID/fd shows the descriptors of a process"),
    ),
    switch("-v", Value::None, Effect::Ours(&["-v"])),
    switch("-x", Value::None, Effect::Ours(&["-x"])),
    switch("-r", Value::Needed, Effect::Copy(Direction::Forward)),
    switch("-R", Value::Needed, Effect::Copy(Direction::Back)),
    switch("-b", Value::Needed, Effect::MessageSize),
    switch("-s", Value::None, Effect::Sloppy),
    switch("-t", Value::Needed, Effect::OursWithTime("-t")),
    switch("-T", Value::Needed, Effect::OursWithTime("-T")),
    switch("-u", Value::None, Effect::Ours(&["-u"])),
    switch("-U", Value::None, Effect::Ours(&["-U"])),
    switch("-g", Value::None, Effect::Needless("options are always checked")),
    switch("-L", Value::Needed, Effect::Lock("lockfile")),
    switch("-W", Value::Needed, Effect::Lock("waitlock")),
    switch("-4", Value::None, Effect::Family(Some(Family::V4))),
    switch("-6", Value::None, Effect::Family(Some(Family::V6))),
    switch("-0", Value::None, Effect::Family(None)),
    switch("-S", Value::Attached, Effect::Missing("signals end a link, and are not logged")),
    switch("--experimental", Value::None, Effect::Needless("nothing of gush link is experimental")),
    switch("--statistics", Value::None, Effect::Ours(&["--stats"])),
    switch("-V", Value::None, Effect::Missing("gush link -V prints the version")),
    switch("-h", Value::Attached, Effect::Missing("gush link --help shows addresses and options")),
    switch("-?", Value::Attached, Effect::Missing("gush link --help shows addresses and options")),
];

/// Reads switches until the first address.
pub fn read(words: Vec<String>, report: &mut Report) -> Parsed {
    let mut parsed = Parsed::default();
    let mut copies = Vec::new();
    let mut verbosity = 0;
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        // A minus sign alone, or with options, is an address.
        let is_address = !word.starts_with('-')
            || word == "-"
            || word.starts_with("-,")
            || word.starts_with("-!!");
        if is_address {
            parsed.addresses.push(word);
            parsed.addresses.extend(words);
            break;
        }
        let found = SWITCHES.iter().find(|switch| match switch.value {
            Value::None => word == switch.start,
            _ => word.starts_with(switch.start),
        });
        let Some(switch) = found else {
            let has_equivalent = |switch: &&Switch| !matches!(switch.effect, Effect::Missing(_));
            let names = SWITCHES.iter().filter(has_equivalent).map(|switch| switch.start);
            report.wrong("", &format!("unknown switch '{word}'{}", did_you_mean(&word, names)));
            continue;
        };
        let attached = &word[switch.start.len()..];
        let value = match switch.value {
            Value::Needed if attached.is_empty() => match words.next() {
                Some(value) => value,
                None => {
                    report.wrong(switch.start, "its value is missing");
                    continue;
                }
            },
            _ => attached.to_owned(),
        };
        match switch.effect {
            Effect::Ours(ours) => parsed.words.extend(ours.iter().map(|&word| word.to_owned())),
            Effect::OursWithTime(_) if !is_time(&value) => {
                let why = "not a time: socat takes seconds, such as 2 or 0.5";
                report.wrong(&format!("{} {value}", switch.start), why);
            }
            Effect::OursWithTime(ours) => {
                parsed.lingers |= ours == "-t";
                let words = time(ours, &value);
                if ours == "-T" && !words.is_empty() {
                    report.note("-T", "a reader that takes nothing is waited for; socat leaves it");
                }
                parsed.words.extend(words);
            }
            Effect::MessageSize => match size(&value) {
                Some(bytes @ 1..=65_536) => {
                    parsed.message_bytes = usize::try_from(bytes).ok();
                    parsed.words.extend(["-b".to_owned(), bytes.to_string()]);
                }
                Some(65_537..=MOST_BYTES) => parsed.large_messages = Some(value),
                _ => report.wrong(&format!("-b {value}"), "not a number of bytes from 1"),
            },
            Effect::Copy(_) if value.contains('$') => {
                report.missing(
                    &format!("{} {value}", switch.start),
                    "socat expands variables in this name, and --tee FILE does not",
                );
            }
            Effect::Copy(way) => copies.push((way, value)),
            Effect::Family(family) => {
                parsed.families = Families { of_peers: family, of_listeners: family };
            }
            Effect::Verbosity => {
                // -dd, -d -d and -d2 mean the same.
                verbosity = match value.parse::<usize>() {
                    Ok(level) => level,
                    Err(_) => verbosity + 1 + value.len(),
                }
            }
            Effect::LogFile => {
                report.note("-lf", "the file is standard error as a whole, also of programs");
                parsed.log_file = Some(value);
            }
            Effect::Sloppy => parsed.is_sloppy = true,
            Effect::ProgramName => {
                report.note(switch.start, "messages begin with gush: link:");
                // In upper case it begins the names of variables.
                parsed.is_renamed = !value.eq_ignore_ascii_case("socat");
            }
            Effect::Lock(_) if parsed.lock.is_some() => {
                report.wrong(switch.start, "socat takes one lock");
            }
            Effect::Lock(option) => parsed.lock = Some((option, value)),
            Effect::Needless(why) => report.note(switch.start, why),
            Effect::Missing(why) => report.missing(switch.start, why),
        }
    }
    let has = |word: &str| parsed.words.iter().any(|own| own == word);
    if has("-u") && has("-U") {
        report.wrong("-u -U", "socat takes one of them");
    }
    if parsed.log_file.is_some() && (has("-v") || has("-x")) {
        let why = "-v and -x print where messages go: without -lf both go to standard error";
        report.missing("-lf", why);
    }
    parsed.one_way = Direction::ALL.into_iter().find(|way| has(["-u", "-U"][*way as usize]));
    for (way, file) in copies {
        let name = ["--tee", "--tee-back"][way as usize];
        parsed.words.extend([name.to_owned(), file]);
    }
    // Errors and warnings are printed without a switch.
    let level = match verbosity {
        0 | 1 => None,
        2 | 3 => Some("info"),
        _ => Some("debug"),
    };
    if let Some(level) = level {
        parsed.words.splice(..0, ["--log".to_owned(), level.to_owned()]);
    }
    parsed
}

/// As by strtoul(3) with base 0.
fn size(value: &str) -> Option<u64> {
    match value.strip_prefix("0x").or_else(|| value.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None if value.starts_with('0') => u64::from_str_radix(value, 8).ok(),
        None => value.parse().ok(),
    }
}

fn is_time(value: &str) -> bool {
    value.parse::<f64>().is_ok_and(|seconds| seconds.is_finite() && seconds >= 0.0)
}

/// Zero is no limit for silence, and no wait once one side has ended.
fn time(switch: &str, value: &str) -> Vec<String> {
    let is_zero = value.parse::<f64>() == Ok(0.0);
    match (switch, is_zero) {
        ("-T", true) => Vec::new(),
        (_, true) => vec![switch.to_owned(), "1ms".to_owned()],
        _ => vec![switch.to_owned(), value.to_owned()],
    }
}
