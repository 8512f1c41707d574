//! Plain command lines, read without clap: to build clap's tree of pv's sixty options takes a sixth of the start
//! (`bench/RESULTS.md`).
//!
//! Read here are letters, the values of a few of them, and operands. Every other command line is clap's, and so is every
//! mistake. A test holds both readings against each other.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::options::{Expected, Options, rate, seconds};

/// The field that an option without a value sets.
type Field = fn(&mut Options) -> &mut bool;

/// The letters of options without a value, and their fields. Not `-k`: the sizes behind it have other units.
const FLAGS: [(u8, Field); 24] = [
    (b'p', |options| &mut options.display.progress),
    (b't', |options| &mut options.display.timer),
    (b'e', |options| &mut options.display.eta),
    (b'I', |options| &mut options.display.fineta),
    (b'r', |options| &mut options.display.rate),
    (b'a', |options| &mut options.display.average_rate),
    (b'b', |options| &mut options.display.bytes),
    (b'T', |options| &mut options.display.buffer_percent),
    (b'n', |options| &mut options.display.numeric),
    (b'q', |options| &mut options.display.quiet),
    (b'8', |options| &mut options.display.bits),
    (b'g', |options| &mut options.display.gauge),
    (b'c', |options| &mut options.display.cursor),
    (b'W', |options| &mut options.wait),
    (b'l', |options| &mut options.line_mode),
    (b'0', |options| &mut options.null),
    (b'f', |options| &mut options.force),
    (b'v', |options| &mut options.stats),
    (b'C', |options| &mut options.no_splice),
    (b'S', |options| &mut options.stop_at_size),
    (b'Y', |options| &mut options.sync),
    (b'K', |options| &mut options.direct_io),
    (b'O', |options| &mut options.sparse),
    (b'X', |options| &mut options.discard),
];

/// Takes the value of an option; nothing where it is wrong.
type Take = fn(&mut Options, &str) -> Option<()>;

/// The letters of common options with a value.
const VALUES: [(u8, Take); 4] = [
    (b's', |options, text| put(&mut options.display.size, Expected::parse(text).ok())),
    (b'L', |options, text| put(&mut options.display.rate_limit, rate(text).ok())),
    (b'i', |options, text| put(&mut options.display.interval, seconds(text).ok())),
    (b'N', |options, text| put(&mut options.display.name, Some(text.to_owned()))),
];

fn put<T>(field: &mut Option<T>, value: Option<T>) -> Option<()> {
    *field = Some(value?);
    Some(())
}

/// The options of a plain command line; nothing where `words` need clap.
pub fn options(words: &[OsString]) -> Option<Options> {
    // Then the first operand ends the options.
    if std::env::var_os("POSIXLY_CORRECT").is_some() {
        return None;
    }
    let mut options = Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_bytes() {
            [b'-', b'-', ..] => return None,
            [b'-', letters @ ..] if !letters.is_empty() => {
                letters_of(letters, &mut words, &mut options)?;
            }
            _ => options.files.push(word.clone()),
        }
    }
    Some(options)
}

fn letters_of<'a>(
    letters: &[u8],
    words: &mut impl Iterator<Item = &'a OsString>,
    options: &mut Options,
) -> Option<()> {
    for (at, letter) in letters.iter().enumerate() {
        if let Some((_, field)) = FLAGS.iter().find(|(known, _)| known == letter) {
            *field(options) = true;
            continue;
        }
        let (_, take) = VALUES.iter().find(|(known, _)| known == letter)?;
        let value = match &letters[at + 1..] {
            [] => words.next()?.as_os_str(),
            rest => OsStr::from_bytes(rest),
        };
        return take(options, value.to_str()?);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use clap::{ArgAction, FromArgMatches};

    use super::super::command;
    use super::super::options::Ordered;
    use super::*;

    fn by_clap(words: &[OsString]) -> Options {
        let matches = command().no_binary_name(true).args_override_self(true);
        let matches = matches.try_get_matches_from(words).unwrap();
        Ordered::from_arg_matches(&matches).unwrap().0
    }

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn what_is_read_without_clap_is_what_clap_reads() {
        let lines = [
            "",
            "a - b",
            "-q /dev/null",
            "a -qf b -",
            "-pterb -i 0.1 a",
            "-L1G -s 10M -N name",
            "-L 1 -L 2 -lN-x",
            "-s @file -Sfi2",
            "-N = -",
        ];
        let flags = FLAGS.iter().map(|(letter, _)| format!("-{}", char::from(*letter)));
        for line in lines.into_iter().map(str::to_owned).chain(flags) {
            let words = words(&line);
            let read = options(&words).unwrap_or_else(|| panic!("{line} is plain"));
            assert_eq!(format!("{read:?}"), format!("{:?}", by_clap(&words)), "{line}");
        }
    }

    #[test]
    fn every_option_without_a_value_is_known() {
        for arg in command().get_arguments() {
            let is_flag = matches!(arg.get_action(), ArgAction::SetTrue);
            let Some(letter) = arg.get_short().filter(|&letter| is_flag && letter != 'k') else {
                continue;
            };
            let is_known = FLAGS.iter().any(|(known, _)| char::from(*known) == letter);
            assert!(is_known, "-{letter}");
        }
    }

    #[test]
    fn everything_else_is_claps() {
        let lines = [
            "--", "a -- b", "--quiet", "-h", "-V", "-k", "-qk", "-L", "-L x", "-i -1", "-s",
            "-d 1", "-E", "-R 1", "-é", "-q?",
        ];
        for line in lines {
            assert!(options(&words(line)).is_none(), "{line}");
        }
        let bytes = OsStr::from_bytes(b"\xff").to_owned();
        assert!(options(&["-N".into(), bytes.clone()]).is_none());
        assert_eq!(options(std::slice::from_ref(&bytes)).unwrap().files, [bytes]);
    }
}
