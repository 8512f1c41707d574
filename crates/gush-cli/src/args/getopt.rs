//! The grammar of getopt_long(3): what the words of a command line mean, by a table of the options.
//! Misuse is explained in the words of GNU tools.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::{Arg, ArgAction, Command};

/// The rules for reading the arguments.
#[derive(Clone, Copy, Default)]
pub struct Reading<'a> {
    /// Long options of the GNU tool of the same name. An abbreviation means one of these before all
    /// others, so that scripts written for the GNU tool mean the same here. (The short options are
    /// the command's own.)
    pub first: &'a [&'a str],
    /// The first operand ends the options (POSIXLY_CORRECT).
    pub operands_end_options: bool,
}

/// Whether an option has a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Value {
    None,
    /// Optional, and then part of the option's own word.
    Attached,
    Needed,
}

/// An option of a command.
pub trait Known {
    fn has_letter(&self, letter: char) -> bool;
    /// All long names.
    fn names(&self) -> impl Iterator<Item = &str>;
    /// The long names shown in help. A hidden option is for gush itself, or is refused with a
    /// remedy.
    fn shown_names(&self) -> impl Iterator<Item = &str>;
    fn value(&self) -> Value;
    /// Whether `name` is a long option of the GNU tool.
    fn is_first(&self, name: &str, reading: Reading<'_>) -> bool {
        reading.first.contains(&name)
    }
}

/// A part of a command line.
pub enum Argument<'a, K> {
    Option(&'a K, Option<OsString>),
    Operand(OsString),
    /// Everything after the end of the options.
    Rest(Vec<OsString>),
}

/// Reads `words`, and gives each argument to `take`, which can end the reading.
///
/// # Errors
/// A sentence about the first error in the arguments, or the error of `take`.
pub fn read<K: Known, E: From<String>>(
    known: &[K],
    reading: Reading<'_>,
    mut words: impl Iterator<Item = OsString>,
    mut take: impl FnMut(Argument<'_, K>) -> Result<(), E>,
) -> Result<(), E> {
    while let Some(word) = words.next() {
        match word.as_bytes() {
            b"--" => return take(Argument::Rest(words.collect())),
            [b'-', b'-', long @ ..] => {
                let (option, value) = long_option(known, reading, long, &mut words)?;
                take(Argument::Option(option, value))?;
            }
            [b'-', shorts @ ..] if !shorts.is_empty() => {
                short_options(known, shorts, &mut words, &mut take)?;
            }
            _ if reading.operands_end_options => {
                return take(Argument::Rest([word].into_iter().chain(words).collect()));
            }
            _ => take(Argument::Operand(word))?,
        }
    }
    Ok(())
}

fn long_option<'k, K: Known>(
    known: &'k [K],
    reading: Reading<'_>,
    long: &[u8],
    words: &mut impl Iterator<Item = OsString>,
) -> Result<(&'k K, Option<OsString>), String> {
    let end = long.iter().position(|&byte| byte == b'=').unwrap_or(long.len());
    let value = long.get(end + 1..).map(|value| OsStr::from_bytes(value).to_owned());
    let (option, name) = named(known, reading, &long[..end], long)?;
    match (&value, option.value()) {
        (Some(_), Value::None) => Err(format!("option '--{name}' doesn't allow an argument")),
        (None, Value::Needed) => match words.next() {
            Some(value) => Ok((option, Some(value))),
            None => Err(format!("option '--{name}' requires an argument")),
        },
        _ => Ok((option, value)),
    }
}

fn short_options<K: Known, E: From<String>>(
    known: &[K],
    shorts: &[u8],
    words: &mut impl Iterator<Item = OsString>,
    take: &mut impl FnMut(Argument<'_, K>) -> Result<(), E>,
) -> Result<(), E> {
    for (at, &short) in shorts.iter().enumerate() {
        let letter = char::from(short);
        let Some(option) = known.iter().find(|option| option.has_letter(letter)) else {
            // A character of several bytes is shown whole.
            let shown = String::from_utf8_lossy(&shorts[at..]).chars().next().unwrap_or(letter);
            return Err(format!("invalid option -- '{shown}'").into());
        };
        if option.value() != Value::Needed {
            take(Argument::Option(option, None))?;
            continue;
        }
        let value = match &shorts[at + 1..] {
            [] => {
                words.next().ok_or_else(|| format!("option requires an argument -- '{letter}'"))?
            }
            attached => OsStr::from_bytes(attached).to_owned(),
        };
        return take(Argument::Option(option, Some(value)));
    }
    Ok(())
}

/// The option named `given`, or the only one with a name that begins so, and this name; `word`
/// includes the value.
fn named<'k, K: Known>(
    known: &'k [K],
    reading: Reading<'_>,
    given: &[u8],
    word: &[u8],
) -> Result<(&'k K, &'k str), String> {
    let unknown = || {
        let names = known.iter().filter_map(|option| option.shown_names().next());
        let word = format!("--{}", String::from_utf8_lossy(word));
        Err(super::unrecognized(&word, &String::from_utf8_lossy(given), names))
    };
    let Ok(given) = std::str::from_utf8(given) else { return unknown() };
    let find =
        |option: &'k K| option.names().find(|name| *name == given).map(|name| (option, name));
    if let Some(exact) = known.iter().find_map(find) {
        return Ok(exact);
    }
    // Two names of one option count once.
    let begins = || {
        let begin = |option: &'k K| {
            option.shown_names().find(|name| name.starts_with(given)).map(|name| (option, name))
        };
        known.iter().filter_map(begin)
    };
    // GNU's own options first: scripts that shorten them must mean what they meant.
    let first: Vec<_> = begins().filter(|(option, name)| option.is_first(name, reading)).collect();
    let candidates = if first.is_empty() { begins().collect() } else { first };
    match candidates[..] {
        [] => unknown(),
        [only] => Ok(only),
        _ => {
            let listed: String = begins().map(|(_, name)| format!(" '--{name}'")).collect();
            Err(format!("option '--{given}' is ambiguous; possibilities:{listed}"))
        }
    }
}

impl Known for &Arg {
    fn has_letter(&self, letter: char) -> bool {
        self.get_short_and_visible_aliases().is_some_and(|letters| letters.contains(&letter))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.get_long().into_iter().chain(self.get_all_aliases().into_iter().flatten())
    }

    fn shown_names(&self) -> impl Iterator<Item = &str> {
        let names =
            self.get_long().into_iter().chain(self.get_visible_aliases().into_iter().flatten());
        names.filter(|_| !self.is_hide_set())
    }

    fn value(&self) -> Value {
        match self.get_action().takes_values() {
            false => Value::None,
            true if self.is_require_equals_set() => Value::Attached,
            true => Value::Needed,
        }
    }
}

/// Rewrites `words` for clap, with every option in full and every value in its option's word.
///
/// Parsing stops at the first error if an earlier option asked for help or the version.
///
/// # Errors
/// A sentence about the first error in the arguments.
pub fn spell_out(
    command: &Command,
    reading: Reading<'_>,
    words: impl Iterator<Item = OsString>,
) -> Result<Vec<OsString>, String> {
    use ArgAction::{Help, HelpLong, HelpShort, Version};
    let known: Vec<&Arg> = command.get_arguments().collect();
    let mut spelled = Vec::new();
    let mut asks_for_page = false;
    let read: Result<(), String> = read(&known, reading, words, |argument| {
        match argument {
            Argument::Option(arg, value) => {
                asks_for_page |= matches!(arg.get_action(), Help | HelpLong | HelpShort | Version);
                spell(arg, value, &mut spelled);
            }
            Argument::Operand(word) => spelled.push(word),
            Argument::Rest(rest) => {
                spelled.push("--".into());
                spelled.extend(rest);
            }
        }
        Ok(())
    });
    match read {
        Err(wrong) if !asks_for_page => Err(wrong),
        _ => Ok(spelled),
    }
}

fn spell(arg: &Arg, value: Option<OsString>, spelled: &mut Vec<OsString>) {
    let letter = || arg.get_short().map(|letter| format!("-{letter}").into()).unwrap_or_default();
    match (arg.get_long(), value) {
        (Some(name), Some(value)) => {
            let mut word = OsString::from(format!("--{name}="));
            word.push(value);
            spelled.push(word);
        }
        (Some(name), None) => spelled.push(format!("--{name}").into()),
        (None, value) => spelled.extend([letter()].into_iter().chain(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spell(reading: Reading<'_>, words: &[&str]) -> Result<Vec<String>, String> {
        let flag = |name| Arg::new(name).long(name).action(ArgAction::SetTrue);
        let command = Command::new("x").args([
            flag("verbose").short('v'),
            flag("version"),
            flag("verify"),
            Arg::new("suffix").long("suffix").short('S'),
            Arg::new("preserve").long("preserve").num_args(0..=1).require_equals(true),
            flag("preallocate"),
            flag("suspend").hide(true),
        ]);
        let spelled = spell_out(&command, reading, words.iter().map(OsString::from))?;
        Ok(spelled.into_iter().map(|word| word.into_string().unwrap()).collect())
    }

    #[test]
    fn a_beginning_means_the_gnu_option_first() {
        let reading =
            Reading { first: &["verbose", "version", "suffix", "preserve"], ..Reading::default() };
        assert_eq!(spell(reading, &["--pre=mode"]).unwrap(), ["--preserve=mode"]);
        assert_eq!(spell(reading, &["--veri"]).unwrap(), ["--verify"]);
        let ambiguous =
            "option '--ver' is ambiguous; possibilities: '--verbose' '--version' '--verify'";
        assert_eq!(spell(reading, &["--ver"]).unwrap_err(), ambiguous);
        assert!(spell(Reading::default(), &["--pre"]).is_err());
    }

    #[test]
    fn a_hidden_option_is_found_by_its_whole_name_alone() {
        let spell = |word: &str| spell(Reading::default(), &[word]);
        assert_eq!(spell("--suspend").unwrap(), ["--suspend"]);
        assert_eq!(spell("--susp").unwrap_err(), "unrecognized option '--susp'");
        assert_eq!(spell("--suspnd").unwrap_err(), "unrecognized option '--suspnd'");
        assert_eq!(spell("--su=x").unwrap(), ["--suffix=x"]);
    }

    #[test]
    fn a_value_may_look_like_an_option() {
        let spell = |words: &[&str]| spell(Reading::default(), words).unwrap();
        assert_eq!(spell(&["-S", "-v", "a"]), ["--suffix=-v", "a"]);
        assert_eq!(spell(&["-vS=x"]), ["--verbose", "--suffix==x"]);
        assert_eq!(spell(&["--suff", "--", "a"]), ["--suffix=--", "a"]);
        assert_eq!(spell(&["--", "--suff"]), ["--", "--suff"]);
    }

    #[test]
    fn a_page_is_shown_if_it_was_asked_for_before_the_first_mistake() {
        let spell = |words: &[&str]| {
            let page = Arg::new("about").long("about").short('a').action(ArgAction::Version);
            let command = Command::new("x").version("1").args([page, Arg::new("to").short('t')]);
            spell_out(&command, Reading::default(), words.iter().map(OsString::from))
        };
        assert_eq!(spell(&["--abo", "--nope"]).unwrap(), ["--about"]);
        assert_eq!(spell(&["-ax"]).unwrap(), ["--about"]);
        assert!(spell(&["--nope", "--about"]).is_err());
        // A value asks for nothing.
        assert!(spell(&["-t", "-a", "--nope"]).is_err());
    }

    #[test]
    fn the_first_operand_ends_the_options_where_posix_is_asked_for() {
        let reading = Reading { operands_end_options: true, ..Reading::default() };
        assert_eq!(
            spell(reading, &["-v", "-S", "x", "a", "-v"]).unwrap(),
            ["--verbose", "--suffix=x", "--", "a", "-v"]
        );
    }

    #[test]
    fn misuse_is_reported_in_gnus_words() {
        let wrong = |word: &str| spell(Reading::default(), &[word]).unwrap_err();
        assert_eq!(wrong("-vh"), "invalid option -- 'h'");
        assert_eq!(wrong("-é"), "invalid option -- 'é'");
        assert_eq!(wrong("--nope=x"), "unrecognized option '--nope=x'");
        assert_eq!(wrong("--verbose=x"), "option '--verbose' doesn't allow an argument");
        assert_eq!(wrong("--suf"), "option '--suffix' requires an argument");
        assert_eq!(wrong("-S"), "option requires an argument -- 'S'");
    }
}
