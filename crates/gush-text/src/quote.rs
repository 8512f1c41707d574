//! Paths as text without loss: the quoting of GNU's `-v` lines.

use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Displays a path in quotes. A shell reads the text back as the same path.
///
/// ```
/// use std::path::Path;
/// assert_eq!(gush_text::quote::always(Path::new("a b")).to_string(), "'a b'");
/// assert_eq!(gush_text::quote::always(Path::new("it's")).to_string(), "\"it's\"");
/// assert_eq!(gush_text::quote::always(Path::new("a\nb")).to_string(), r"'a'$'\n''b'");
/// ```
#[must_use]
pub fn always(path: &Path) -> Quoted<'_> {
    Quoted { text: path.as_os_str(), only_if_needed: false }
}

/// Displays a path unquoted, or in quotes if a shell would misread the plain text.
///
/// ```
/// use std::path::Path;
/// assert_eq!(gush_text::quote::if_needed(Path::new("a-b")).to_string(), "a-b");
/// assert_eq!(gush_text::quote::if_needed(Path::new("a b")).to_string(), "'a b'");
/// assert_eq!(gush_text::quote::if_needed(Path::new("a\tb")).to_string(), r"'a'$'\t''b'");
/// ```
#[must_use]
pub fn if_needed(path: &Path) -> Quoted<'_> {
    Quoted { text: path.as_os_str(), only_if_needed: true }
}

/// A path to display; see [`always`] and [`if_needed`].
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a> {
    text: &'a OsStr,
    only_if_needed: bool,
}

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = self.text.to_str().filter(|text| text.chars().all(is_printable));
        match plain {
            Some(text) if self.only_if_needed && !needs_quotes(text) => f.write_str(text),
            Some(text) if fits_double_quotes(text) => write!(f, "\"{text}\""),
            _ => escaped(self.text.as_bytes(), f),
        }
    }
}

fn is_printable(c: char) -> bool {
    matches!(c, '\'' | '"' | '\\') || c.escape_debug().len() == 1
}

fn needs_quotes(text: &str) -> bool {
    const ANYWHERE: &str = " !\"$&'()*:;<=>?[\\^`|";
    matches!(text, "" | "{" | "}")
        || text.starts_with(['#', '~'])
        || text.contains(|c| ANYWHERE.contains(c))
}

/// GNU uses double quotes for a text with an apostrophe and no characters special in double quotes.
fn fits_double_quotes(text: &str) -> bool {
    text.contains('\'')
        && text.char_indices().all(|(at, c)| match c {
            '#' | '~' => at == 0,
            _ => c.is_ascii_alphanumeric() || "' %+,-./:]_@".contains(c),
        })
}

fn escaped(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_char('\'')?;
    let mut within_dollar = false;
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_printable(c) {
                let ends_dollar = std::mem::take(&mut within_dollar);
                match c {
                    // The quotes of `'\''` also end an open `$'...'`.
                    '\'' => f.write_str("'\\''")?,
                    c if ends_dollar => write!(f, "''{c}")?,
                    c => f.write_char(c)?,
                }
            } else {
                let mut buffer = [0; 4];
                for &byte in c.encode_utf8(&mut buffer).as_bytes() {
                    escape_byte(byte, &mut within_dollar, f)?;
                }
            }
        }
        for &byte in chunk.invalid() {
            escape_byte(byte, &mut within_dollar, f)?;
        }
    }
    f.write_char('\'')
}

fn escape_byte(byte: u8, within_dollar: &mut bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if !std::mem::replace(within_dollar, true) {
        f.write_str("'$'")?;
    }
    match byte {
        7 => f.write_str("\\a"),
        8 => f.write_str("\\b"),
        b'\t' => f.write_str("\\t"),
        b'\n' => f.write_str("\\n"),
        11 => f.write_str("\\v"),
        12 => f.write_str("\\f"),
        b'\r' => f.write_str("\\r"),
        byte => write!(f, "\\{byte:03o}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_as_gnu_quotes_them() {
        let cases: [(&[u8], &str); 8] = [
            (b"a", "'a'"),
            (b"\ttab", r"''$'\t''tab'"),
            (b"do$lar'", r"'do$lar'\'''"),
            (b"it's", "\"it's\""),
            (b"n\nl", r"'n'$'\n''l'"),
            (b"q\x01'", r"'q'$'\001'\'''"),
            ("é".as_bytes(), "'é'"),
            (b"\xff\xfe", r"''$'\377\376'"),
        ];
        for (name, quoted) in cases {
            assert_eq!(always(Path::new(OsStr::from_bytes(name))).to_string(), quoted);
        }
    }
}
