//! The lines of a journal: a word, a fingerprint, and a checksum.

use std::collections::HashSet;
use std::io::{self, BufRead};

use xxhash_rust::xxh3::xxh3_64;

use super::fingerprint::Fingerprint;

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// The first line: the format, and which copy this is.
    Copy,
    /// A file is done.
    Done,
    /// A directory is about to be made.
    Makes,
    /// The mark of this copy's temporary names.
    Mark,
    /// The file systems of source and target.
    On,
}

impl Tag {
    pub(super) fn text(self) -> &'static str {
        WORDS.iter().find(|(_, known)| *known == self).map_or("", |(text, _)| *text)
    }
}

/// The first word without the number of the format.
pub(super) const HEADING: &str = "gush-journal-";
/// To be raised with each change of a line or of a fingerprint; the test
/// `fingerprints_are_those_of_the_format` notices.
pub(super) const FORMAT: u32 = 3;
const WORDS: [(&str, Tag); 5] = [
    ("gush-journal-3", Tag::Copy),
    ("done", Tag::Done),
    ("makes", Tag::Makes),
    ("mark", Tag::Mark),
    ("on", Tag::On),
];

/// The format of a journal that begins with this line; `None` if no journal does.
pub(super) fn format_of(first: &[u8]) -> Option<u32> {
    let (number, _) = str::from_utf8(first).ok()?.strip_prefix(HEADING)?.split_once([' ', '\n'])?;
    number.parse().ok()
}

pub(super) fn line(word: Tag, of: Fingerprint) -> String {
    let text = format!("{} {of:032x}", word.text());
    // Against a line that is torn; nobody else may write to the file.
    let check = xxh3_64(text.as_bytes()) as u32;
    format!("{text} {check:08x}\n")
}

pub(super) fn read_line(text: &str) -> Option<(Tag, Fingerprint)> {
    let (word, rest) = text.split_once(' ')?;
    let (_, word) = WORDS.iter().find(|(known, _)| *known == word)?;
    let of = Fingerprint::from_str_radix(rest.split_once(' ')?.0, 16).ok()?;
    // Written anew and compared, so that writing and reading cannot disagree about a checksum.
    (line(*word, of) == text).then_some((*word, of))
}

/// What the lines with this word are about. The others, most of them perhaps, are not looked into.
pub(crate) fn lines_of(word: Tag, mut journal: impl BufRead) -> io::Result<HashSet<Fingerprint>> {
    let (mut found, mut text) = (HashSet::new(), Vec::new());
    while journal.read_until(b'\n', &mut text)? > 0 {
        if text.starts_with(word.text().as_bytes()) {
            let line = std::str::from_utf8(&text).ok().and_then(read_line);
            found.extend(line.filter(|(known, _)| *known == word).map(|(_, of)| of));
        }
        text.clear();
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_names_the_format() {
        assert_eq!(format_of(line(Tag::Copy, 7).as_bytes()), Some(FORMAT));
        for (text, format) in [
            ("gush-journal-1 0123456789abcdef0123456789abcdef 89abcdef\n", Some(1)),
            ("gush-journal-2 0123456789abcdef0123456789abcdef 89abcdef\n", Some(2)),
            ("gush-journal-3 0123456789abcdef0123456789abcdef 89abcdef\n", Some(3)),
            ("gush-journal-4 in other words\n", Some(4)),
            ("gush-journal-10\n", Some(10)),
            ("gush-journal-1", None),
            ("gush-journal-x y\n", None),
            ("copy the photos\n", None),
            ("done 1\n", None),
            ("", None),
        ] {
            assert_eq!(format_of(text.as_bytes()), format, "{text}");
        }
    }

    #[test]
    fn a_line_is_read_as_written_and_no_other() {
        for (word, of) in [(Tag::Copy, 0), (Tag::Done, u128::MAX), (Tag::Makes, 7)] {
            let text = line(word, of);
            assert_eq!(read_line(&text), Some((word, of)));
            assert_eq!(read_line(&text[..text.len() - 1]), None);
            assert_eq!(read_line(&text[1..]), None);
            let last = if text.ends_with("0\n") { "1\n" } else { "0\n" };
            let scribbled = [&text[..text.len() - 2], last].concat();
            assert_eq!(read_line(&scribbled), None);
        }
    }
}
