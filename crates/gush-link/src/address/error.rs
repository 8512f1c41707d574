//! The error of parsing an address, with carets under the wrong piece.

use std::fmt;
use std::ops::Range;

use gush_text::{width, without_controls};

use super::options;
use crate::kind::Kind;

/// An invalid address. Displays as several lines: the message, the address with carets under the
/// wrong piece, and the grammar of this kind of address.
///
/// ```
/// use gush_link::address::Address;
/// let error = "tcp-listen:80,frok".parse::<Address>().unwrap_err();
/// assert_eq!(error.message(), "unknown option 'frok' of tcp-listen; did you mean 'fork'?");
/// assert_eq!(&error.text()[error.span()], "frok");
/// assert!(error.to_string().contains("\n  tcp-listen:80,frok\n                ^^^^\n"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressError {
    text: String,
    span: Range<usize>,
    message: String,
    kind: Option<Kind>,
}

impl AddressError {
    pub(super) fn new(fault: Fault, text: &str, kind: Option<Kind>) -> Self {
        Self { text: text.to_owned(), span: fault.span, message: fault.message, kind }
    }

    /// The sentence, without the address and the grammar.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The whole address as given.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The wrong piece, as a byte range of [`text`](Self::text); empty if something is missing.
    #[must_use]
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// The kind of the intended address, if the keyword is known.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        self.kind
    }
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = width(&visible(&self.text[..self.span.start]));
        let under = width(&visible(&self.text[self.span.clone()])).max(1);
        writeln!(f, "{}", self.message)?;
        if !self.text.is_empty() {
            writeln!(f, "  {}", visible(&self.text))?;
            writeln!(f, "  {}{}", " ".repeat(before), "^".repeat(under))?;
        }
        match self.kind {
            Some(kind) => {
                write!(f, "  {} {}", kind.grammar(), kind.help())?;
                let mut names = options::taken_by(kind).map(|row| row.usage()).collect::<Vec<_>>();
                names.sort();
                let Some(last) = names.pop() else { return Ok(()) };
                names.iter_mut().for_each(|name| name.push(','));
                names.insert(0, "options:".to_owned());
                names.push(last);
                listed(f, &names)
            }
            None => {
                f.write_str("  the kinds of addresses:")?;
                listed(f, &Kind::all().map(|kind| kind.grammar().to_owned()).collect::<Vec<_>>())
            }
        }
    }
}

/// Writes `words` on new lines that fit a terminal.
fn listed(f: &mut fmt::Formatter<'_>, words: &[String]) -> fmt::Result {
    const WIDTH: usize = 79;
    let mut at = WIDTH;
    for word in words {
        if at + 1 + word.len() > WIDTH {
            f.write_str("\n ")?;
            at = 1;
        }
        write!(f, " {word}")?;
        at += 1 + word.len();
    }
    Ok(())
}

impl std::error::Error for AddressError {}

/// The error of a piece of the text, to which [`AddressError`] adds the whole text.
#[derive(Debug)]
pub(crate) struct Fault {
    pub span: Range<usize>,
    pub message: String,
}

pub(crate) fn fault<T>(span: Range<usize>, message: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { span, message: message.into() })
}

/// The text with its control characters replaced, which could control a terminal.
pub(crate) fn visible(text: &str) -> String {
    without_controls(text).replace('\n', "\u{fffd}")
}
