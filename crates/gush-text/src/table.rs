//! Rows in columns of text, for a terminal.

use crate::width;

/// A column: the heading, and whether the cells are numbers, which are aligned right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub label: String,
    /// Are the cells numbers?
    pub number: bool,
}

/// A column of words.
#[must_use]
pub fn words(label: impl Into<String>) -> Column {
    Column { label: label.into(), number: false }
}

/// A column of numbers, aligned to the right.
#[must_use]
pub fn numbers(label: impl Into<String>) -> Column {
    Column { label: label.into(), number: true }
}

/// The headings and the rows, each a line. A column is as wide as the widest of its cells, two
/// spaces are between columns and none at the end, and a column without any cell is left out.
///
/// ```
/// use gush_text::table::{lines, numbers, words};
/// let columns = [words("case"), numbers("GiB/s"), numbers("calls"), words("what")];
/// let rows = [["fresh", "12.0", "", "fast"], ["write-read", "4.5", "", ""]];
/// let rows = rows.map(|row| row.map(String::from).to_vec());
/// let shown = ["case        GiB/s  what", "fresh        12.0  fast", "write-read    4.5"];
/// assert_eq!(lines(&columns, &rows), shown);
/// ```
#[must_use]
pub fn lines(columns: &[Column], rows: &[Vec<String>]) -> Vec<String> {
    let widest = |place: usize| {
        let cells = rows.iter().map(|row| width(&row[place])).max().unwrap_or(0);
        if cells == 0 { 0 } else { cells.max(width(&columns[place].label)) }
    };
    let widths: Vec<usize> = (0..columns.len()).map(widest).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for ((text, column), widest) in cells.zip(columns).zip(&widths).filter(|(_, w)| **w > 0) {
            let between = if line.is_empty() { "" } else { "  " };
            let blanks = " ".repeat(widest - width(text));
            line += &match column.number {
                true => format!("{between}{blanks}{text}"),
                false => format!("{between}{text}{blanks}"),
            };
        }
        line.truncate(line.trim_end().len());
        line
    };
    let head = line(&mut columns.iter().map(|column| column.label.as_str()));
    let rows = rows.iter().map(|row| line(&mut row.iter().map(String::as_str)));
    std::iter::once(head).chain(rows).collect()
}

/// The same as one text, with a newline after each line; nothing without rows.
///
/// ```
/// use gush_text::table::{text, words};
/// assert_eq!(text(&[words("run")], &[vec!["last".into()]]), "run\nlast\n");
/// ```
#[must_use]
pub fn text(columns: &[Column], rows: &[Vec<String>]) -> String {
    if rows.is_empty() { String::new() } else { lines(columns, rows).join("\n") + "\n" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_a_terminal_shows_them() {
        let rows = [["休日", "1"], ["e\u{301}a", "22"]].map(|row| row.map(String::from).to_vec());
        let lines = lines(&[words("name"), numbers("n")], &rows);
        assert_eq!(lines, ["name   n", "休日   1", "e\u{301}a    22"]);
    }
}
