//! Correct command lines, read by a table: building clap's tree of pv's sixty options takes a third
//! of the start of the shipped program (`bench/RESULTS.md`).
//!
//! The grammar is that of getopt_long(3), as in `args`. clap reports errors and prints help and
//! version. Tests compare both parsers for every option that clap knows.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::slice;

use clap::ValueEnum;
use gush_text::{size_bytes, some_time};

use super::extra::Extra;
use super::hash::Algorithm;
use super::options::{
    Monitored, Options, PV, SetSize, Style, columns, hex, pid, seconds, set_buffer_size,
    set_error_skip_block, set_rate_limit, set_size,
};

/// What an option does.
enum Take {
    /// Sets a field.
    Flag(fn(&mut Options) -> &mut bool),
    /// Counts how often it is given.
    Count(fn(&mut Options) -> &mut u8),
    /// Reads its value; none if that is invalid.
    Value(fn(&mut Options, &str) -> Option<()>),
    /// Keeps its value, which need not be text.
    Path(fn(&mut Options) -> &mut Option<OsString>),
    /// Prints a page, which is clap's.
    Page,
}

use Take::{Count, Flag, Page, Path, Value};

/// An option: its letter, its name, and what it does.
type Row = (u8, &'static str, Take);

/// In the place of a letter: no word of a command line has this byte.
const NONE: u8 = 0;

const ROWS: &[Row] = &[
    (b'p', "progress", Flag(|options| &mut options.display.progress)),
    (b't', "timer", Flag(|options| &mut options.display.timer)),
    (b'e', "eta", Flag(|options| &mut options.display.eta)),
    (b'I', "fineta", Flag(|options| &mut options.display.fineta)),
    (b'r', "rate", Flag(|options| &mut options.display.rate)),
    (b'a', "average-rate", Flag(|options| &mut options.display.average_rate)),
    (b'b', "bytes", Flag(|options| &mut options.display.bytes)),
    (b'T', "buffer-percent", Flag(|options| &mut options.display.buffer_percent)),
    (
        b'A',
        "last-written",
        Value(|options, text| put(&mut options.display.last_written, columns(text))),
    ),
    (
        b'F',
        "format",
        Value(|options, text| put(&mut options.display.format, Ok::<_, ()>(text.to_owned()))),
    ),
    (b'n', "numeric", Flag(|options| &mut options.display.numeric)),
    (b'q', "quiet", Flag(|options| &mut options.display.quiet)),
    (b'8', "bits", Flag(|options| &mut options.display.bits)),
    (b'k', "si", Flag(|options| &mut options.display.si)),
    (b's', "size", Value(|options, text| sized(options, text, set_size))),
    (b'g', "gauge", Flag(|options| &mut options.display.gauge)),
    (b'i', "interval", Value(|options, text| put(&mut options.display.interval, seconds(text)))),
    (
        b'm',
        "average-rate-window",
        Value(|options, text| put(&mut options.display.average_rate_window, seconds(text))),
    ),
    (b'w', "width", Value(|options, text| put(&mut options.display.width, columns(text)))),
    (b'H', "height", Value(|options, text| put(&mut options.display.height, columns(text)))),
    (
        b'N',
        "name",
        Value(|options, text| put(&mut options.display.name, Ok::<_, ()>(text.to_owned()))),
    ),
    (
        b'u',
        "bar-style",
        Value(|options, text| put(&mut options.display.bar_style, Style::from_str(text, false))),
    ),
    (b'c', "cursor", Flag(|options| &mut options.display.cursor)),
    (b'L', "rate-limit", Value(|options, text| sized(options, text, set_rate_limit))),
    (b'W', "wait", Flag(|options| &mut options.wait)),
    (b'D', "delay-start", Value(|options, text| put(&mut options.delay_start, seconds(text)))),
    (
        b'x',
        "extra-display",
        Value(|options, text| put(&mut options.extra_display, Extra::parse(text))),
    ),
    (b'l', "line-mode", Flag(|options| &mut options.line_mode)),
    (b'0', "null", Flag(|options| &mut options.null)),
    (b'f', "force", Flag(|options| &mut options.force)),
    (b'v', "stats", Flag(|options| &mut options.stats)),
    (b'o', "output", Path(|options| &mut options.output)),
    (b'B', "buffer-size", Value(|options, text| sized(options, text, set_buffer_size))),
    (b'C', "no-splice", Flag(|options| &mut options.no_splice)),
    (b'E', "skip-errors", Count(|options| &mut options.skip_errors)),
    (b'Z', "error-skip-block", Value(|options, text| sized(options, text, set_error_skip_block))),
    (b'S', "stop-at-size", Flag(|options| &mut options.stop_at_size)),
    (b'Y', "sync", Flag(|options| &mut options.sync)),
    (b'K', "direct-io", Flag(|options| &mut options.direct_io)),
    (b'O', "sparse", Flag(|options| &mut options.sparse)),
    (b'X', "discard", Flag(|options| &mut options.discard)),
    (b'U', "store-and-forward", Path(|options| &mut options.store_and_forward)),
    (b'd', "watchfd", Value(|options, text| add(&mut options.watchfd, text.parse()))),
    (b'R', "remote", Value(|options, text| put(&mut options.remote, pid(text)))),
    (b'Q', "query", Value(|options, text| put(&mut options.query, pid(text)))),
    (b'M', "monitor", Value(|options, text| put(&mut options.monitor, Monitored::parse(text)))),
    (b'P', "pidfile", Path(|options| &mut options.pidfile)),
    (b'h', "help", Page),
    (b'V', "version", Page),
    (NONE, "json", Flag(|options| &mut options.json)),
    (NONE, "explain", Flag(|options| &mut options.explain)),
    (
        NONE,
        "checksum",
        Value(|options, text| put(&mut options.checksum, Algorithm::from_str(text, false))),
    ),
    (NONE, "expect", Value(|options, text| put(&mut options.expect, hex(text)))),
    (NONE, "skip", Value(|options, text| put(&mut options.skip, size_bytes(text)))),
    (NONE, "seek", Value(|options, text| put(&mut options.seek, size_bytes(text)))),
    (
        NONE,
        "stall-timeout",
        Value(|options, text| put(&mut options.stall_timeout, some_time(text))),
    ),
];

/// Aliases of options, each of which begins with the option's name.
const ALIASES: [(&str, &str); 1] = [("sparse", "sparse-output")];

fn put<T, E>(field: &mut Option<T>, value: Result<T, E>) -> Option<()> {
    *field = Some(value.ok()?);
    Some(())
}

/// Adds a value of an option that can be repeated.
fn add<T, E>(field: &mut Vec<T>, value: Result<T, E>) -> Option<()> {
    field.push(value.ok()?);
    Some(())
}

/// Sets an option to a size, after `--si` or not.
fn sized(options: &mut Options, text: &str, set: SetSize) -> Option<()> {
    set(options, text, options.display.si)
}

/// The options of a correct command line; none if `words` need clap. With `operands_end_options`,
/// the first operand ends the options, as POSIX requires.
pub fn options(words: &[OsString], operands_end_options: bool) -> Option<Options> {
    let mut options = Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_bytes() {
            b"--" => options.command.extend(words.by_ref().cloned()),
            [b'-', b'-', long @ ..] => long_option(long, &mut words, &mut options)?,
            [b'-', letters @ ..] if !letters.is_empty() => {
                short_options(letters, &mut words, &mut options)?;
            }
            _ if operands_end_options => {
                options.command.push(word.clone());
                options.command.extend(words.by_ref().cloned());
            }
            _ => options.files.push(word.clone()),
        }
    }
    goes_together(&options).then_some(options)
}

fn long_option(
    long: &[u8],
    words: &mut slice::Iter<'_, OsString>,
    options: &mut Options,
) -> Option<()> {
    let mut parts = long.splitn(2, |byte| *byte == b'=');
    let (_, _, take) = named(std::str::from_utf8(parts.next()?).ok()?)?;
    match (take, parts.next()) {
        (Flag(_) | Count(_), Some(_)) => None,
        (_, value) => apply(take, value, words, options),
    }
}

/// The option with this name or unique prefix; pv's options take precedence over gush's own.
fn named(name: &str) -> Option<&'static Row> {
    let is_alias =
        |(first, alias): &&(&str, &str)| name.starts_with(first) && alias.starts_with(name);
    let name = ALIASES.iter().find(is_alias).map_or(name, |(first, _)| first);
    let exact = ROWS.iter().find(|(_, known, _)| *known == name);
    let only = |is_pv: bool| {
        let begins = |(_, known, _): &&Row| known.starts_with(name);
        let mut found =
            ROWS.iter().filter(begins).filter(|(_, known, _)| PV.contains(known) == is_pv);
        let first = found.next()?;
        Some(found.next().is_none().then_some(first))
    };
    exact.or_else(|| only(true).or_else(|| only(false)).flatten())
}

fn short_options(
    letters: &[u8],
    words: &mut slice::Iter<'_, OsString>,
    options: &mut Options,
) -> Option<()> {
    let mut rest = letters.iter();
    while let Some(letter) = rest.next() {
        let (_, _, take) = ROWS.iter().find(|(known, ..)| known == letter)?;
        let attached = Some(rest.as_slice()).filter(|attached| !attached.is_empty());
        apply(take, attached, words, options)?;
        if matches!(take, Value(_) | Path(_)) {
            break;
        }
    }
    Some(())
}

/// Applies the option, with the value attached to it or the next word.
fn apply(
    take: &Take,
    attached: Option<&[u8]>,
    words: &mut slice::Iter<'_, OsString>,
    options: &mut Options,
) -> Option<()> {
    let value = |words: &mut slice::Iter<'_, OsString>| match attached {
        Some(attached) => Some(OsStr::from_bytes(attached).to_owned()),
        None => words.next().cloned(),
    };
    match take {
        Flag(field) => *field(options) = true,
        Count(field) => *field(options) = field(options).saturating_add(1),
        Value(take) => take(options, value(words)?.to_str()?)?,
        Path(field) => *field(options) = Some(value(words)?),
        Page => return None,
    }
    Some(())
}

/// Whether the options can be combined, by the rules that `options` gives to clap.
fn goes_together(options: &Options) -> bool {
    let modes = [
        !options.watchfd.is_empty(),
        options.query.is_some(),
        options.remote.is_some(),
        options.monitor.is_some(),
    ];
    let is_one = modes.iter().filter(|&&is_given| is_given).count() <= 1;
    let shows_titles = options.extra_display.is_some();
    let has_titles = options.watchfd.is_empty() && options.query.is_none();
    let has_checksum = options.expect.is_none() || options.checksum.is_some();
    is_one && (has_titles || !shows_titles) && has_checksum
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{Arg, ArgAction, Command};

    use super::super::command;
    use super::super::options::Ordered;
    use super::*;
    use crate::args::AsGnu;

    /// Valid and invalid values; each option with a value has a valid one here.
    const VALUES: [&str; 40] = [
        "1",
        "0",
        "-1",
        "1k",
        "2.5M",
        "1,5k",
        "1.5.5",
        "64KiB",
        "64kB",
        "1Ki",
        "8E",
        "99999999999999999999",
        "@/x",
        "@",
        "0.5",
        "5m",
        "1:2",
        "=name",
        "=",
        "in",
        "2",
        "block",
        "plai",
        "xxh3",
        "sha256",
        "aB",
        "xy",
        "process:%b",
        "window,proc",
        "title",
        "",
        " ",
        "-q",
        "--",
        "--quiet",
        "1/s",
        "100001",
        "+5",
        "é",
        "--=",
    ];

    /// Both readings, side by side.
    struct Both {
        by_clap: AsGnu,
        read: usize,
    }

    impl Both {
        fn new(operands_end_options: bool) -> Self {
            Self { by_clap: AsGnu::new(command(), PV, operands_end_options), read: 0 }
        }

        /// The options as text; none if clap reports an error or prints a page.
        fn agree_on(&mut self, words: &[OsString]) -> Option<String> {
            let read = options(words, self.by_clap.operands_end_options());
            let read = read.map(|options| format!("{options:?}"));
            let by_clap = self.by_clap.read(words).map(|Ordered(options)| format!("{options:?}"));
            assert_eq!(read, by_clap, "{words:?}");
            self.read += usize::from(read.is_some());
            read
        }

        fn agree(&mut self, words: &[&str]) -> bool {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            self.agree_on(&words).is_some()
        }
    }

    fn takes_value(arg: &Arg) -> bool {
        arg.get_action().takes_values()
    }

    fn all(command: &Command) -> Vec<Arg> {
        command.get_arguments().filter(|arg| !arg.is_positional()).cloned().collect()
    }

    /// Every spelling of an option in one word without its value.
    fn spellings(arg: &Arg) -> Vec<String> {
        let long = arg.get_long().unwrap();
        let names = [long].into_iter().chain(arg.get_all_aliases().into_iter().flatten());
        let starts =
            names.flat_map(|name| (1..=name.len()).map(|end| format!("--{}", &name[..end])));
        let mut words: Vec<String> = starts.collect();
        words.extend(arg.get_short().map(|letter| format!("-{letter}")));
        words
    }

    /// `words` with the options that this one requires.
    fn with_required<'a>(arg: &Arg, words: &[&'a str]) -> Vec<&'a str> {
        let needed: &[&str] = if arg.get_id() == "expect" { &["--checksum=xxh3"] } else { &[] };
        [needed, words].concat()
    }

    #[test]
    fn every_option_is_read_as_by_clap_in_every_spelling() {
        let mut both = Both::new(false);
        for arg in all(&command()) {
            let is_page = matches!(arg.get_action(), ArgAction::Help | ArgAction::Version);
            let long = format!("--{}", arg.get_long().unwrap());
            let value = VALUES
                .iter()
                .find(|value| both.agree(&with_required(&arg, &[&format!("{long}={value}")])));
            assert_eq!(value.is_some(), takes_value(&arg), "{long}: a right value is in the list");
            let value = value.copied().unwrap_or("a");
            for word in spellings(&arg) {
                let is_read = both.agree(&with_required(&arg, &[&word, value, "b"]));
                // An abbreviation may be one of two options; the full name and the letter are not.
                let is_full = word == long || !word.starts_with("--");
                assert!(!is_full || is_read != is_page, "{word}");
                both.agree(&with_required(&arg, &[&format!("{word}={value}"), "b"]));
                both.agree(&with_required(&arg, &[&format!("{word}{value}")]));
                both.agree(&with_required(&arg, &[&word]));
            }
            let Some(letter) = arg.get_short() else { continue };
            both.agree(&[&format!("-q{letter}"), value]);
            both.agree(&[&format!("-{letter}q"), value]);
            for value in VALUES.iter().filter(|_| takes_value(&arg)) {
                both.agree(&[&format!("-{letter}"), value]);
                both.agree(&[&format!("-{letter}{value}")]);
            }
        }
    }

    #[test]
    fn every_row_is_an_option() {
        let known: BTreeSet<(u8, String)> = all(&command())
            .iter()
            .map(|arg| {
                (
                    arg.get_short().map_or(NONE, |letter| letter as u8),
                    arg.get_long().unwrap().to_owned(),
                )
            })
            .collect();
        let rows: BTreeSet<_> =
            ROWS.iter().map(|(letter, name, _)| (*letter, (*name).to_owned())).collect();
        assert_eq!(known, rows);
    }

    /// Several options, operands between them, and every kind of error.
    #[test]
    fn random_lines_are_read_as_by_clap() {
        let mut chance = fastrand::Rng::with_seed(13);
        for operands_end_options in [false, true] {
            let mut both = Both::new(operands_end_options);
            let known = all(&command());
            let tries = 600;
            for _ in 0..tries {
                let mut words: Vec<OsString> = Vec::new();
                let mut has_si = false;
                for _ in 0..chance.usize(1..5) {
                    let arg = chance.choice(&known).unwrap();
                    match chance.u8(..12) {
                        0 | 1 => words.push("a".into()),
                        2 => words.push("-".into()),
                        3 => words.push("--".into()),
                        4 => words.push(OsStr::from_bytes(b"\xff").to_owned()),
                        // Of two --si, clap reports the place of the second.
                        _ if arg.get_id() == "si" && std::mem::replace(&mut has_si, true) => {}
                        _ => {
                            words.push(chance.choice(spellings(arg)).unwrap().into());
                            if takes_value(arg) {
                                let before = chance.bool().then(|| words.pop()).flatten();
                                let value = chance.choice(VALUES).unwrap();
                                words.push(match before {
                                    Some(word) => {
                                        let mut word = word;
                                        word.push("=");
                                        word.push(value);
                                        word
                                    }
                                    None => value.into(),
                                });
                            }
                        }
                    }
                }
                both.agree_on(&words);
            }
            assert!((tries / 20..tries).contains(&both.read), "{} were right", both.read);
        }
    }

    #[test]
    fn units_are_of_a_thousand_behind_si_alone() {
        let mut both = Both::new(false);
        let size = |line: &str, both: &mut Both| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            both.agree_on(&words).unwrap();
            let options = options(&words, false).unwrap();
            (options.display.rate_limit, options.buffer_size)
        };
        assert_eq!(size("-L 1k -k -B 1k", &mut both), (Some(1024), Some(1000)));
        assert_eq!(size("-k -L 1KiB -B 1k -B 2", &mut both), (Some(1024), Some(2)));
        // As in pv, the first one counts.
        let twice = ["-k", "-L", "1k", "--si"].map(OsString::from);
        assert_eq!(options(&twice, false).unwrap().display.rate_limit, Some(1000));
    }

    #[test]
    fn options_that_do_not_go_together_are_claps() {
        let mut both = Both::new(false);
        let apart = ["-d1", "-Q1", "-R1", "-Min", "-xwindow", "--expect=ab", "--checksum=xxh3"];
        for one in apart {
            for other in apart {
                both.agree(&[one, other]);
            }
        }
        assert!(both.read > 0);
    }
}
