//! Findings as text for people.

use std::fmt::Write;

use gush_lab::probe::doctor::{Condition, Examination, Finding};

/// Wider lines are hard to read.
pub const MOST_COLUMNS: usize = 96;
/// Narrower sentences would be a column of words.
const FEWEST_COLUMNS: usize = 50;
/// The column of the sentences.
const INDENT: usize = 22;

/// The whole examination in lines of at most `columns`, with a legend of the marks at the end.
pub fn of(examination: &Examination, columns: usize) -> String {
    let columns = columns.clamp(FEWEST_COLUMNS, MOST_COLUMNS);
    let mut text = format!("Linux {}: kernel and process\n", examination.kernel);
    add(&mut text, &examination.findings, columns);
    for path in &examination.paths {
        // Writing into a `String` cannot fail, here and below.
        let _ = writeln!(text, "\n{}", printable(&path.path));
        add(&mut text, &path.findings, columns);
    }
    for pair in &examination.pairs {
        let _ = writeln!(text, "\n{} → {}", printable(&pair.from), printable(&pair.to));
        add(&mut text, &pair.findings, columns);
    }
    text.push_str("\n✓ fine  ~ limited  ✗ not available  ? unknown  → consequence  + remedy\n");
    text
}

/// A name with all control characters replaced: a terminal would obey them.
fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn add(text: &mut String, findings: &[Finding], columns: usize) {
    for Finding { topic, state, fact, consequence, remedy } in findings {
        let mark = match state {
            Condition::Fine => '✓',
            Condition::Limited => '~',
            Condition::Absent => '✗',
            Condition::Unknown => '?',
        };
        let head = format!("  {mark} {topic:17} ");
        sentence(text, &head, fact, columns);
        sentence(text, &format!("{:INDENT$}→ ", ""), consequence, columns);
        if let Some(remedy) = remedy {
            sentence(text, &format!("{:INDENT$}+ ", ""), remedy, columns);
        }
    }
}

/// `head` and then `words`, in as many lines as needed.
fn sentence(text: &mut String, head: &str, words: &str, columns: usize) {
    let begin = head.chars().count();
    let lines = gush_text::wrapped(words, columns - begin);
    let _ = writeln!(text, "{head}{}", lines.join(&format!("\n{:begin$}", "")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_sentences_are_broken_and_stay_in_their_column() {
        let mut text = String::new();
        sentence(&mut text, "  ✓ topic ", &"word ".repeat(30), MOST_COLUMNS);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() == 2 && lines[1].starts_with("          word"), "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= MOST_COLUMNS), "{text}");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let examination = gush_lab::probe::doctor::examine(&gush_lab::probe::Probe::take(), &[]);
        let text = of(&examination, 80);
        // Only what cannot be broken, such as a path, may be wider.
        let wide = |line: &&str| line.chars().count() > 80 && line.trim().contains(' ');
        assert_eq!(text.lines().filter(wide).collect::<Vec<_>>(), Vec::<&str>::new());
    }

    #[test]
    fn names_cannot_command_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb"), "a?[2Jb");
    }
}
