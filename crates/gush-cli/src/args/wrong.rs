//! An error in the arguments of a command as one sentence, in the manner of GNU tools.

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use gush_text::{suggestion, unknown};

use super::unrecognized;

/// The sentence for `error`; `parts` are the subcommands shown in help, `options` the long options.
pub fn sentence(error: &Error, parts: &[String], options: &[String]) -> String {
    let sentence = match error.kind() {
        ErrorKind::InvalidSubcommand => unknown_command(error, parts),
        ErrorKind::MissingRequiredArgument => missing(error),
        ErrorKind::UnknownArgument => unknown_argument(error, options),
        ErrorKind::InvalidValue => not_among(error),
        ErrorKind::ValueValidation => invalid(error),
        ErrorKind::ArgumentConflict => conflict(error),
        _ => None,
    };
    sentence.unwrap_or_else(|| in_claps_words(error))
}

fn unknown_command(error: &Error, parts: &[String]) -> Option<String> {
    let word = text(error, ContextKind::InvalidSubcommand)?;
    Some(unknown("command", &word, parts.iter().map(String::as_str)))
}

fn missing(error: &Error) -> Option<String> {
    let missing = list(error, ContextKind::InvalidArg)?;
    let names: Vec<_> = missing.iter().map(|name| bare(name)).collect();
    Some(match &names[..] {
        [name] if name.starts_with('-') => format!("option '{name}' is missing"),
        [name] => format!("missing operand: {name}"),
        _ => format!("missing operands: {}", names.join(", ")),
    })
}

fn unknown_argument(error: &Error, options: &[String]) -> Option<String> {
    let word = text(error, ContextKind::InvalidArg)?;
    Some(match word.starts_with('-') && word != "-" {
        // clap itself suggests hidden options, and takes `--rounds` for near to `--bogus`.
        true => {
            let names = options.iter().map(String::as_str);
            unrecognized(&word, word.trim_start_matches('-'), names)
        }
        false => format!("extra operand '{word}'"),
    })
}

/// A value that is not among the possible ones.
fn not_among(error: &Error) -> Option<String> {
    let value = text(error, ContextKind::InvalidValue)?;
    let words = list(error, ContextKind::ValidValue)?;
    let words = words.iter().map(String::as_str);
    let subject = subject(error)?;
    Some(match value.is_empty() {
        true => format!("{subject} needs a value{}", suggestion("", words)),
        false => format!("invalid {subject} '{value}'{}", suggestion(&value, words)),
    })
}

/// A value that cannot be read, with the reason.
fn invalid(error: &Error) -> Option<String> {
    use std::error::Error as _;
    let value = text(error, ContextKind::InvalidValue)?;
    Some(format!("invalid {} '{value}': {}", subject(error)?, reason(error.source()?)))
}

/// Why a value is invalid, without the name of a type.
fn reason(source: &(dyn std::error::Error + 'static)) -> String {
    use std::num::{ParseFloatError, ParseIntError};
    if source.is::<ParseIntError>() {
        return "expected a whole number".to_owned();
    }
    if source.is::<ParseFloatError>() {
        return "expected a number".to_owned();
    }
    let text = source.to_string();
    // As clap puts a number outside of a range.
    match text.split_once(" is not in ").and_then(|(_, range)| range.split_once("..=")) {
        Some((least, most)) if most == u32::MAX.to_string() => {
            format!("expected at least {least}")
        }
        Some((least, most)) => format!("expected a number from {least} to {most}"),
        None => text,
    }
}

fn conflict(error: &Error) -> Option<String> {
    let one = text(error, ContextKind::InvalidArg)?;
    // An option that excludes all others.
    let Some(other) = list(error, ContextKind::PriorArg) else {
        return Some(format!("{} cannot be used with another option or operand", named(&one)));
    };
    let others: Vec<_> = other.iter().map(|name| named(name)).collect();
    Some(format!("{} cannot be used with {}", named(&one), others.join(" or ")))
}

/// The option or operand with the wrong value.
fn subject(error: &Error) -> Option<String> {
    text(error, ContextKind::InvalidArg).map(|name| named(&name))
}

/// `--limit` of `--limit <RATE>`, `--stats` of `--stats[=<FORMAT>]`, `ADDR1` of `<ADDR1>`.
fn named(name: &str) -> String {
    let option = name.split([' ', '=', '[']).next().unwrap_or(name);
    if option.starts_with('-') { option.to_owned() } else { bare(name) }
}

/// An operand without the brackets around the name.
fn bare(name: &str) -> String {
    name.chars().filter(|letter| !"<>[]".contains(*letter)).collect()
}

fn text(error: &Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        _ => None,
    }
}

fn list(error: &Error, kind: ContextKind) -> Option<Vec<String>> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(vec![text.clone()]),
        ContextValue::Strings(texts) => Some(texts.clone()),
        _ => None,
    }
}

/// A rare error in the words of clap, without the usage.
fn in_claps_words(error: &Error) -> String {
    let explained = error.render().to_string();
    let reason: Vec<&str> = explained
        .lines()
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let reason = reason.join("; ");
    reason.strip_prefix("error: ").unwrap_or(&reason).to_owned()
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};

    use super::*;

    fn said(words: &[&str]) -> String {
        let sort = Command::new("sort")
            .arg(Arg::new("size").long("size").value_parser(clap::value_parser!(u8)))
            .arg(Arg::new("by").long("by").value_parser(["name", "age"]).conflicts_with("size"))
            .arg(Arg::new("rounds").long("rounds"))
            .arg(Arg::new("list").long("list").value_name("WHAT").exclusive(true))
            .arg(Arg::new("first").required(true).value_name("FIRST"))
            .arg(Arg::new("second").required(true).value_name("SECOND"));
        let command =
            Command::new("x").no_binary_name(true).subcommand_required(true).subcommand(sort);
        let error = command.try_get_matches_from(words).unwrap_err();
        sentence(&error, &["sort".to_owned()], &["size", "by", "rounds", "list"].map(str::to_owned))
    }

    #[test]
    fn every_mistake_is_one_sentence() {
        for (words, expected) in [
            (&["sotr"][..], "unknown command 'sotr'; did you mean 'sort'?"),
            (&["nope"], "unknown command 'nope'; choose from sort"),
            (&["sort"], "missing operands: FIRST, SECOND"),
            (&["sort", "a"], "missing operand: SECOND"),
            (&["sort", "a", "b", "c"], "extra operand 'c'"),
            (&["sort", "--nope", "a", "b"], "unrecognized option '--nope'"),
            (&["sort", "--bogus", "a", "b"], "unrecognized option '--bogus'"),
            (
                &["sort", "--ronds", "a", "b"],
                "unrecognized option '--ronds'; did you mean '--rounds'?",
            ),
            (&["sort", "--by=x", "a", "b"], "invalid --by 'x'; choose from name, age"),
            (&["sort", "--by=age", "--size=1", "a", "b"], "--by cannot be used with --size"),
            (
                &["sort", "--list=x", "--size=1"],
                "--list cannot be used with another option or operand",
            ),
            (&["sort", "--size=x", "a", "b"], "invalid --size 'x': expected a whole number"),
            (
                &["sort", "--size=256", "a", "b"],
                "invalid --size '256': expected a number from 0 to 255",
            ),
        ] {
            assert_eq!(said(words), expected, "{words:?}");
        }
    }
}
