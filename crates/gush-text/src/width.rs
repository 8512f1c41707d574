//! The width of text on a terminal.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// `text` with U+FFFD in place of control characters. Line feeds stay: a message may have several
/// lines.
#[must_use]
pub fn without_controls(text: &str) -> String {
    text.replace(|letter: char| letter.is_control() && letter != '\n', "\u{fffd}")
}

/// The columns that `text` takes on a terminal: two for a wide character, none for one that
/// combines with another, nor for a sequence that sets colours.
#[must_use]
pub fn width(text: &str) -> usize {
    let mut pieces = text.split("\x1b[");
    let first = pieces.next().unwrap_or_default().width();
    let after_sequence =
        |piece: &str| piece.split_once('m').map_or(piece, |(_, rest)| rest).width();
    first + pieces.map(after_sequence).sum::<usize>()
}

/// `text` in lines of at most `columns`, broken at blanks; a longer word has a line of its own.
///
/// ```
/// assert_eq!(gush_text::wrapped("one two three", 7), ["one two", "three"]);
/// ```
#[must_use]
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// `text` in at most `columns`, shortened in the middle by an ellipsis.
#[must_use]
pub fn shortened(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let kept = columns.saturating_sub(1);
    let start = start_of(text, kept / 2);
    format!("{start}…{}", end_of(text, kept - width(start)))
}

/// The start of `text` that fits in `columns`.
#[must_use]
pub fn start_of(text: &str, columns: usize) -> &str {
    let mut left = columns;
    let has_room = |letter: char| match left.checked_sub(letter.width().unwrap_or(0)) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    &text[..text.len() - text.trim_start_matches(has_room).len()]
}

/// The end of `text` that fits in `columns`.
#[must_use]
pub fn end_of(text: &str, columns: usize) -> &str {
    let (mut left, mut from) = (columns, text.len());
    for (at, letter) in text.char_indices().rev() {
        let Some(rest) = left.checked_sub(letter.width().unwrap_or(0)) else { break };
        left = rest;
        // A mark without its letter is left out.
        if letter.width() != Some(0) {
            from = at;
        }
    }
    &text[from..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_names_are_not_shown() {
        assert_eq!(
            without_controls("a\x1b[31mb\r\nc\u{9b}é"),
            "a\u{fffd}[31mb\u{fffd}\nc\u{fffd}é"
        );
    }

    #[test]
    fn a_long_text_keeps_its_start_and_its_end() {
        assert_eq!(shortened("file", 4), "file");
        assert_eq!(shortened("holiday.mkv", 7), "hol…mkv");
        assert_eq!(shortened("abc", 1), "…");
        assert_eq!(shortened("休日の写真", 10), "休日の写真");
        assert_eq!(shortened("休日の写真", 8), "休…写真");
        assert_eq!(shortened("休日の写真", 1), "…");
    }

    #[test]
    fn columns_are_those_of_the_terminal() {
        for (text, columns) in
            [("", 0), ("abc", 3), ("休日", 4), ("e\u{301}", 1), ("\x1b[1;31mab\x1b[0m", 2)]
        {
            assert_eq!(width(text), columns, "{text:?}");
        }
        assert_eq!((start_of("休日の", 3), end_of("休日の", 3)), ("休", "の"));
        assert_eq!(start_of("e\u{301}x", 1), "e\u{301}");
        assert_eq!((end_of("ae\u{301}", 1), end_of("休\u{301}", 1)), ("e\u{301}", ""));
    }
}
