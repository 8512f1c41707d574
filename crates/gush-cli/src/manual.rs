//! Manual pages, from the definitions of the commands, and the text after the options that help and
//! page share.

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use gush_text::wrapped;

/// The column of descriptions in a table of the help.
const INDENT: usize = 26;
/// Lines of a table are no wider: clap breaks wider ones and does not indent the rest.
const WIDTH: usize = 79;

/// A row of a table for [`Command::after_help`]: the description follows the term, or is below a
/// long one.
pub fn row(term: &str, description: &str) -> String {
    let mut text = format!("  {term:<width$}", width = INDENT - 2);
    let below = format!("\n{:INDENT$}", "");
    if !text.ends_with("  ") {
        text = format!("  {term}{below}");
    }
    text += &wrapped(description, WIDTH - INDENT).join(&below);
    text.truncate(text.trim_end().len());
    text + "\n"
}

/// The pages of `command` and of all commands below, each after the name of its file.
pub fn pages(command: Command) -> Vec<(String, String)> {
    // `gush help` has no page.
    let mut command = command.disable_help_subcommand(true).mut_args(in_full);
    command.build();
    let mut pages = Vec::new();
    add(command, &mut pages);
    pages
}

fn add(mut command: Command, pages: &mut Vec<(String, String)>) {
    for part in command.get_subcommands().filter(|part| !part.is_hide_set()) {
        add(part.clone().mut_args(in_full), pages);
    }
    let notes = command.get_after_help().map(|text| notes(&text.to_string()));
    let usage = command.render_usage().to_string();
    let command = command
        .after_help(None::<&str>)
        .override_usage(usage.trim_start_matches("Usage: ").to_owned());
    let man = Man::new(command).source(concat!("gush ", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    // Writing into memory cannot fail.
    let _ = man.render(&mut page);
    let mut page = String::from_utf8_lossy(&page).into_owned();
    let end = page.find(".SH VERSION").unwrap_or(page.len());
    page.insert_str(end, &notes.unwrap_or_default());
    pages.push((man.get_filename(), page));
}

/// Names of values and other names of the option in brackets, as `--help` shows them.
fn in_full(arg: clap::Arg) -> clap::Arg {
    with_other_names(short_values(arg))
}

/// clap_mangen leaves the other names of an option out.
fn with_other_names(arg: clap::Arg) -> clap::Arg {
    let letters = arg.get_visible_short_aliases().into_iter().flatten();
    let words = arg.get_visible_aliases().into_iter().flatten();
    let names: Vec<String> = letters
        .map(|letter| format!("-{letter}"))
        .chain(words.map(|word| format!("--{word}")))
        .collect();
    if names.is_empty() {
        return arg;
    }
    let kind = if names.len() == 1 { "alias" } else { "aliases" };
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    arg.help(format!("{help} [{kind}: {}]", names.join(", ")))
}

/// A list of values would take two lines a name.
fn short_values(arg: clap::Arg) -> clap::Arg {
    let values = arg.get_possible_values();
    let takes_values = arg.get_action().takes_values() && !values.is_empty();
    if !takes_values || arg.is_hide_possible_values_set() {
        return arg;
    }
    let names: Vec<&str> = values.iter().map(clap::builder::PossibleValue::get_name).collect();
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    arg.help(format!("{help} [possible values: {}]", names.join(", "))).hide_possible_values(true)
}

/// The section of the text after the options. A line is a paragraph. Indented lines are a row of a
/// table, or a command to type if they begin with `gush`; lines that are indented farther go on
/// with either.
fn notes(text: &str) -> String {
    let mut roff = Roff::new();
    roff.control("SH", ["NOTES"]);
    let mut lines = text.lines().filter(|line| !line.is_empty()).peekable();
    while let Some(line) = lines.next() {
        let Some(first) = line.strip_prefix("  ") else {
            roff.control("PP", []).text([roman(line)]);
            continue;
        };
        let more: Vec<&str> =
            std::iter::from_fn(|| lines.next_if(|next| next.starts_with("   "))).collect();
        if first.starts_with("gush ") {
            roff.control("RS", ["4"]).control("nf", []).text([roman(first)]);
            for line in more {
                roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
            }
            roff.control("fi", []).control("RE", []);
        } else {
            let (term, description) = first.split_once("  ").unwrap_or((first, ""));
            let parts = std::iter::once(description).chain(more).map(str::trim);
            let description: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
            roff.control("TP", []).text([bold(term)]).text([roman(description.join(" "))]);
        }
    }
    roff.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_follows_its_term_or_is_below_a_long_one() {
        assert_eq!(row("fd:N", "a descriptor"), format!("  {:<24}a descriptor\n", "fd:N"));
        let long = "http-connect:PROXY:PORT:HOST:PORT";
        assert_eq!(row(long, "a proxy"), format!("  {long}\n{:26}a proxy\n", ""));
        let wide = row("pty", &"word ".repeat(40));
        assert!(wide.lines().all(|line| line.len() < 80), "{wide}");
        assert!(wide.lines().skip(1).all(|line| line.starts_with(&" ".repeat(INDENT))), "{wide}");
    }

    #[test]
    fn notes_have_paragraphs_terms_and_commands_as_they_are_typed() {
        let text =
            format!("One: two\n{}  gush cp \\\n      a b\nThree.", row("term", "what it is"));
        let set = notes(&text);
        let (_, set) = set.split_once(".SH NOTES\n").expect("a section");
        let expected = ".PP\nOne: two\n.TP\n\\fBterm\\fR\nwhat it is\n\
                        .RS 4\n.nf\ngush cp \\\\\n    a b\n.fi\n.RE\n.PP\nThree.\n";
        assert_eq!(set, expected);
    }
}
