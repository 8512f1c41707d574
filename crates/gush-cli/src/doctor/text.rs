//! Findings as text for people.

use std::fmt::Write;

use gush_lab::probe::doctor::{Examination, Finding, State};

/// Wider lines are hard to read.
const WIDTH: usize = 96;
/// The column of the sentences.
const INDENT: usize = 22;

/// The whole examination, with a legend of the marks at the end.
pub fn of(examination: &Examination) -> String {
    let mut text = format!("Linux {}: kernel and process\n", examination.kernel);
    add(&mut text, &examination.findings);
    for path in &examination.paths {
        // Writing into a `String` cannot fail, here and below.
        let _ = writeln!(text, "\n{}", printable(&path.path));
        add(&mut text, &path.findings);
    }
    for pair in &examination.pairs {
        let _ = writeln!(text, "\n{} → {}", printable(&pair.from), printable(&pair.to));
        add(&mut text, &pair.findings);
    }
    text.push_str(
        "\n✓ fine   ~ limited   ✗ not to be had   ? not found out   → consequence   + remedy\n",
    );
    text
}

/// A name with all control characters replaced: a terminal would obey them.
fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn add(text: &mut String, findings: &[Finding]) {
    for Finding { topic, state, fact, consequence, remedy } in findings {
        let mark = match state {
            State::Fine => '✓',
            State::Limited => '~',
            State::Absent => '✗',
            State::Unknown => '?',
        };
        let head = format!("  {mark} {topic:17} ");
        sentence(text, &head, fact);
        sentence(text, &format!("{:INDENT$}→ ", ""), consequence);
        if let Some(remedy) = remedy {
            sentence(text, &format!("{:INDENT$}+ ", ""), remedy);
        }
    }
}

/// `head` and then `words`, in as many lines as needed.
fn sentence(text: &mut String, head: &str, words: &str) {
    let begin = head.chars().count();
    let mut column = begin;
    text.push_str(head);
    for (index, word) in words.split(' ').enumerate() {
        let len = word.chars().count();
        if index > 0 && column + 1 + len > WIDTH {
            let _ = write!(text, "\n{:begin$}", "");
            column = begin;
        } else if index > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += len;
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_sentences_are_broken_and_stay_in_their_column() {
        let mut text = String::new();
        sentence(&mut text, "  ✓ topic ", &"word ".repeat(30));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() == 2 && lines[1].starts_with("          word"), "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH), "{text}");
    }

    #[test]
    fn names_cannot_command_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb"), "a?[2Jb");
    }
}
