//! The grammar of getopt_long(3), applied before clap: shortened options are written out, values
//! are tied to their options, and misuse is explained in the words of GNU tools.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

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

/// An option of the command.
struct Found<'a> {
    arg: &'a Arg,
    takes_value: bool,
}

/// Rewrites `words` with every option in full and every value in its option's word.
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
    let mut speller = Speller { command, reading, spelled: Vec::new(), asks_for_page: false };
    match speller.spell(words) {
        Err(wrong) if !speller.asks_for_page => Err(wrong),
        _ => Ok(speller.spelled),
    }
}

struct Speller<'a> {
    command: &'a Command,
    reading: Reading<'a>,
    spelled: Vec<OsString>,
    /// An option so far asks for help or the version.
    asks_for_page: bool,
}

impl<'a> Found<'a> {
    fn of(arg: &'a Arg) -> Self {
        // An optional value is part of the option's own word.
        let takes_value = arg.get_action().takes_values() && !arg.is_require_equals_set();
        Self { arg, takes_value }
    }

    fn takes_none(&self) -> bool {
        !self.arg.get_action().takes_values()
    }

    /// Does the option ask for help or the version, whatever follows?
    fn is_page(&self) -> bool {
        use ArgAction::{Help, HelpLong, HelpShort, Version};
        matches!(self.arg.get_action(), Help | HelpLong | HelpShort | Version)
    }
}

impl Speller<'_> {
    fn spell(&mut self, mut words: impl Iterator<Item = OsString>) -> Result<(), String> {
        while let Some(word) = words.next() {
            match word.as_bytes() {
                b"--" => {
                    self.spelled.push(word);
                    self.spelled.extend(words);
                    return Ok(());
                }
                [b'-', b'-', long @ ..] => self.long_option(long, &mut words)?,
                [b'-', shorts @ ..] if !shorts.is_empty() => {
                    self.short_options(shorts, &mut words)?;
                }
                _ if self.reading.operands_end_options => {
                    self.spelled.extend(["--".into(), word]);
                    self.spelled.extend(words);
                    return Ok(());
                }
                _ => self.spelled.push(word),
            }
        }
        Ok(())
    }

    fn push(&mut self, option: &Found<'_>, word: OsString) {
        self.asks_for_page |= option.is_page();
        self.spelled.push(word);
    }

    fn long_option(
        &mut self,
        long: &[u8],
        words: &mut impl Iterator<Item = OsString>,
    ) -> Result<(), String> {
        let command = self.command;
        let end = long.iter().position(|&byte| byte == b'=').unwrap_or(long.len());
        let (given, value) = (&long[..end], long.get(end + 1..));
        let name = full_name(command, self.reading, given, long)?;
        let Some(arg) =
            command.get_arguments().find(|arg| long_names(arg).any(|known| known == name))
        else {
            return Err(unrecognized(command, given, long));
        };
        let option = Found::of(arg);
        let word = match (value, option.takes_value) {
            (Some(_), false) if option.takes_none() => {
                return Err(format!("option '--{name}' doesn't allow an argument"));
            }
            (Some(value), _) => joined(&name, value),
            (None, false) => format!("--{name}").into(),
            (None, true) => match words.next() {
                Some(value) => joined(&name, value.as_bytes()),
                None => return Err(format!("option '--{name}' requires an argument")),
            },
        };
        self.push(&option, word);
        Ok(())
    }

    fn short_options(
        &mut self,
        shorts: &[u8],
        words: &mut impl Iterator<Item = OsString>,
    ) -> Result<(), String> {
        let command = self.command;
        for (at, &short) in shorts.iter().enumerate() {
            let letter = char::from(short);
            let found = command.get_arguments().find(|arg| {
                arg.get_short_and_visible_aliases().is_some_and(|letters| letters.contains(&letter))
            });
            let Some(option) = found.map(Found::of) else {
                // A character of several bytes is shown whole.
                let shown = String::from_utf8_lossy(&shorts[at..]).chars().next().unwrap_or(letter);
                return Err(format!("invalid option -- '{shown}'"));
            };
            if !option.takes_value {
                self.push(&option, format!("-{letter}").into());
                continue;
            }
            let rest = &shorts[at + 1..];
            let value = match rest.is_empty() {
                false => OsString::from_vec(rest.to_vec()),
                true => words
                    .next()
                    .ok_or_else(|| format!("option requires an argument -- '{letter}'"))?,
            };
            match option.arg.get_long() {
                Some(name) => self.spelled.push(joined(name, value.as_bytes())),
                None => self.spelled.extend([format!("-{letter}").into(), value]),
            }
            return Ok(());
        }
        Ok(())
    }
}

/// The option named `given`, or the only one whose name begins so; `word` includes the value.
fn full_name(
    command: &Command,
    reading: Reading<'_>,
    given: &[u8],
    word: &[u8],
) -> Result<String, String> {
    let Ok(given_text) = std::str::from_utf8(given) else {
        return Err(unrecognized(command, given, word));
    };
    let all = || command.get_arguments().flat_map(long_names);
    if let Some(exact) = all().find(|name| *name == given_text) {
        return Ok(exact.to_owned());
    }
    // Two names of one option count once.
    let begins = || {
        shown_options(command)
            .filter_map(|arg| shown_names(arg).find(|name| name.starts_with(given_text)))
    };
    // GNU's own options first: scripts that shorten them must mean what they meant.
    let first: Vec<&str> = begins().filter(|name| reading.first.contains(name)).collect();
    let candidates = if first.is_empty() { begins().collect() } else { first };
    match candidates[..] {
        [] => Err(unrecognized(command, given, word)),
        [only] => Ok(only.to_owned()),
        _ => {
            let listed: String = begins().map(|name| format!(" '--{name}'")).collect();
            Err(format!("option '--{given_text}' is ambiguous; possibilities:{listed}"))
        }
    }
}

fn long_names(arg: &Arg) -> impl Iterator<Item = &str> {
    arg.get_long().into_iter().chain(arg.get_all_aliases().into_iter().flatten())
}

/// The arguments shown in help. A hidden one is for gush itself, or is refused with a remedy.
pub fn shown_options(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| !arg.is_hide_set())
}

/// The name of an option, then its other names shown in help.
fn shown_names(arg: &Arg) -> impl Iterator<Item = &str> {
    arg.get_long().into_iter().chain(arg.get_visible_aliases().into_iter().flatten())
}

fn unrecognized(command: &Command, given: &[u8], word: &[u8]) -> String {
    let names = shown_options(command).filter_map(Arg::get_long);
    let word = String::from_utf8_lossy(word);
    super::unrecognized(&format!("--{word}"), &String::from_utf8_lossy(given), names)
}

fn joined(name: &str, value: &[u8]) -> OsString {
    let mut word = OsString::from(format!("--{name}="));
    word.push(OsStr::from_bytes(value));
    word
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
        assert_eq!(spell(&["-vS=x"]), ["-v", "--suffix==x"]);
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
        assert_eq!(spell(&["-ax"]).unwrap(), ["-a"]);
        assert!(spell(&["--nope", "--about"]).is_err());
        // A value asks for nothing.
        assert!(spell(&["-t", "-a", "--nope"]).is_err());
    }

    #[test]
    fn the_first_operand_ends_the_options_where_posix_is_asked_for() {
        let reading = Reading { operands_end_options: true, ..Reading::default() };
        assert_eq!(
            spell(reading, &["-v", "-S", "x", "a", "-v"]).unwrap(),
            ["-v", "--suffix=x", "--", "a", "-v"]
        );
    }

    #[test]
    fn misuse_is_told_in_gnus_words() {
        let wrong = |word: &str| spell(Reading::default(), &[word]).unwrap_err();
        assert_eq!(wrong("-vh"), "invalid option -- 'h'");
        assert_eq!(wrong("-é"), "invalid option -- 'é'");
        assert_eq!(wrong("--nope=x"), "unrecognized option '--nope=x'");
        assert_eq!(wrong("--verbose=x"), "option '--verbose' doesn't allow an argument");
        assert_eq!(wrong("--suf"), "option '--suffix' requires an argument");
        assert_eq!(wrong("-S"), "option requires an argument -- 'S'");
    }
}
