//! How a command is started: directly, or by a shell.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};

use super::from_text;
use super::template::filled;
use crate::Error;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Shell {
    /// No shell, unless a command needs one; then `sh` starts all of them, for a fair
    /// comparison.
    #[default]
    Auto,
    /// No shell: pipes, redirections and variables mean nothing.
    None,
    /// A shell: the words of the command, without the `-c` that follows them.
    Words(Vec<String>),
}

/// The words of a shell, `none` for no shell, and `default` for sh, as with hyperfine.
impl FromStr for Shell {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match shlex::split(text).filter(|words| !words.is_empty()) {
            _ if text == "none" => Ok(Self::None),
            _ if text == "default" => Ok(Self::Words(vec!["sh".to_owned()])),
            Some(words) => Ok(Self::Words(words)),
            None => Err(Error::refused(format!("'{text}' is not a shell"))),
        }
    }
}

impl<'de> Deserialize<'de> for Shell {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_text(deserializer)
    }
}

impl Shell {
    /// The shell's words for all of `commands`, or `None` where each can be started directly.
    pub fn words_for<'a>(
        &self,
        commands: impl IntoIterator<Item = &'a str>,
    ) -> Option<Vec<String>> {
        match self {
            Self::None => None,
            Self::Words(words) => Some(words.clone()),
            Self::Auto => commands.into_iter().any(needs_shell).then(|| vec!["sh".to_owned()]),
        }
    }
}

/// Words with a meaning to a shell, and no program of that name, or another one.
const BUILT_IN: &[&str] = &[
    ".", ":", "!", "alias", "case", "cd", "command", "eval", "exec", "exit", "export", "for", "if",
    "read", "set", "shift", "source", "time", "times", "trap", "ulimit", "umask", "unset", "until",
    "wait", "while",
];

/// Does `command` mean something else to a shell than the words themselves?
pub fn needs_shell(command: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "-_".contains(c))
    };
    let plain = filled(command, |name| is_name(name).then(|| "x".to_owned()));
    let first = plain.split_whitespace().next().unwrap_or_default();
    // `A=b command` sets a variable, which only a shell does.
    if BUILT_IN.contains(&first) || first.contains('=') {
        return true;
    }
    let (mut around, mut rest, mut before) = (Vec::new(), plain.as_str(), ' ');
    while let Some(letter) = rest.chars().next() {
        let is_special = match around.last() {
            // Within a word `~` and `#` are ordinary letters for a shell.
            None if before.is_whitespace() => "|&;<>()$`*?[\n~#".contains(letter),
            None => "|&;<>()$`*?[\n".contains(letter),
            // A shell replaces these in double quotes as well.
            Some(Around::Double) => "$`".contains(letter),
            Some(_) => false,
        };
        if is_special {
            return true;
        }
        rest = &rest[step(&mut around, letter, rest)..];
        before = letter;
    }
    false
}

/// The words of `command`, with `value_of` in the place of names; a value stays within one word,
/// even with spaces or quotes in the value.
pub(super) fn words(
    command: &str,
    value_of: impl Fn(&str) -> Option<String>,
) -> Result<Vec<String>, Error> {
    let split = shlex::split(command).filter(|words| !words.is_empty()).ok_or_else(|| {
        Error::refused(format!(
            "'{command}' is not a command: it is empty, or a quote is not closed"
        ))
    })?;
    Ok(split.iter().map(|word| filled(word, &value_of)).collect())
}

/// The variables that `text` sets: `A=1 B="2 3"`.
pub(super) fn assignments(text: &str) -> Result<Vec<(String, String)>, Error> {
    let pair = |word: &str| match word.split_once('=') {
        Some((name, value)) if !name.is_empty() => Some((name.to_owned(), value.to_owned())),
        _ => None,
    };
    let all = shlex::split(text).and_then(|words| words.iter().map(|word| pair(word)).collect());
    all.ok_or_else(|| Error::refused(format!("--env '{text}': write NAME=VALUE or NAME='A B'")))
}

/// The process that runs `command` by the shell `shell`, or directly, by the program at `path` if
/// that has been found.
pub(super) fn process(
    command: &str,
    shell: Option<&[String]>,
    path: Option<&Path>,
    value_of: impl Fn(&str) -> Option<String>,
) -> Result<Command, Error> {
    let Some(shell) = shell else {
        let words = words(command, value_of)?;
        let mut process = Command::new(path.unwrap_or(Path::new(&words[0])));
        process.arg0(&words[0]).args(&words[1..]);
        return Ok(process);
    };
    let mut process = Command::new(&shell[0]);
    process.args(&shell[1..]).arg("-c").arg(filled_for_shell(command, value_of));
    Ok(process)
}

/// `command` with the value of each name, written so that a POSIX shell reads that value again,
/// wherever the name stands: bare, within one or the other kind of quotes, or in a command
/// substitution within these.
fn filled_for_shell(command: &str, value_of: impl Fn(&str) -> Option<String>) -> String {
    let mut done = String::with_capacity(command.len());
    // Quotes and substitutions around the place, the innermost last.
    let mut around: Vec<Around> = Vec::new();
    let mut rest = command;
    while let Some(letter) = rest.chars().next() {
        let named = rest.strip_prefix('{').and_then(|inside| {
            let close = inside.find('}')?;
            Some((value_of(&inside[..close])?, &inside[close + 1..]))
        });
        if let Some((value, after)) = named {
            done += &match around.last() {
                // Single quotes know no escape: they end, a quote is added, and they begin again.
                Some(Around::Single) => value.replace('\'', r"'\''"),
                Some(Around::Double) => in_double_quotes(&value),
                None | Some(Around::Substitution | Around::Backticks) => {
                    shlex::try_quote(&value).map_or_else(|_| value.clone(), |text| text.into())
                }
            };
            rest = after;
            continue;
        }
        let (own, after) = rest.split_at(step(&mut around, letter, rest));
        done += own;
        rest = after;
    }
    done
}

/// Goes past `letter`, the first of `rest`, which may open or close something around the place; the
/// bytes that are taken.
fn step(around: &mut Vec<Around>, letter: char, rest: &str) -> usize {
    let taken = letter.len_utf8();
    match (around.last(), letter) {
        (Some(Around::Single), '\'')
        | (Some(Around::Double), '"')
        | (Some(Around::Backticks), '`')
        | (Some(Around::Substitution), ')') => drop(around.pop()),
        (Some(Around::Single), _) => {}
        // An escaped character opens and closes nothing.
        (_, '\\') => return taken + rest.chars().nth(1).map_or(0, char::len_utf8),
        (_, '`') => around.push(Around::Backticks),
        (_, '$') if rest.starts_with("$(") => {
            around.push(Around::Substitution);
            return 2;
        }
        (Some(Around::Substitution), '(') => around.push(Around::Substitution),
        (_, '"') => around.push(Around::Double),
        (Some(Around::Double), _) => {}
        (_, '\'') => around.push(Around::Single),
        _ => {}
    }
    taken
}

/// What a place in a shell's command is within.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Around {
    Single,
    Double,
    Substitution,
    Backticks,
}

/// `value` as double quotes need it (POSIX.1-2017, Shell Command Language, 2.2.3).
fn in_double_quotes(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for letter in value.chars() {
        if "$`\"\\".contains(letter) {
            text.push('\\');
        }
        text.push(letter);
    }
    text
}

/// The path of the program `name`, looked for as execvp(3) does.
pub fn found(name: &Path) -> Option<PathBuf> {
    let may_run = |path: &Path| {
        path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
    };
    if name.components().count() > 1 || name.is_absolute() {
        return may_run(name).then(|| name.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|path| may_run(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_value_wherever_its_name_stands() {
        const VALUES: [&str; 6] =
            ["plain", "two words", "it's", "a\"b", "$HOME `id` \\ !", "; rm -rf '\"x"];
        let places = [
            "printf '%s|' {in} x{in}y",
            "printf '%s|' '{in}' 'x{in}y'",
            "printf '%s|' \"{in}\" \"x{in}y\"",
            "printf '%s|' \"$(printf '%s' {in})\" \"x$(printf '%s' \"{in}\")y\"",
            "printf '%s|' \"$( (printf '%s' '{in}') )\" \\'x >/dev/null; printf '%s|' {in} x{in}y",
        ];
        for value in VALUES {
            for (at, place) in places.iter().enumerate() {
                let value_of = |name: &str| (name == "in").then(|| value.into());
                let shell = ["sh".to_owned()];
                let output =
                    process(place, Some(&shell), None, value_of).unwrap().output().unwrap();
                let expected = format!("{value}|x{value}y|");
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{at}: {said}");
            }
        }
    }

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(found(Path::new("sh")).is_some());
        assert!(found(Path::new("no-such-program-anywhere")).is_none());
    }

    #[test]
    fn other_braces_stay() {
        let none = |_: &str| None;
        for text in ["awk '{print $1}' x", "echo ${HOME} {a,b}", "echo {", "echo \"{\" '", "\\"] {
            assert_eq!(filled_for_shell(text, none), text);
        }
    }
}
