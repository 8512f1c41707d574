//! Why something was not measured, as a sentence.

use std::io;

use gush::Errno;
use gush_text::{in_brackets, os_text, unknown};

/// The failure as one sentence: what failed, the operating system's answer, and the remedy if there
/// is one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request contradicts itself, or cannot work here.
    #[error("{0}")]
    Refused(String),
    /// A system call failed while bytes moved.
    #[error("{what}: {}{}", os_text(source), in_brackets(*remedy))]
    Failed {
        /// The call and its object.
        what: String,
        source: io::Error,
        remedy: Option<&'static str>,
    },
    /// Bytes arrived that were never sent.
    #[error(transparent)]
    Corrupt(#[from] crate::pipe::Corruption),
}

impl Error {
    /// A failed system call: the call, the object, and the error.
    pub fn failed(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        // Bytes and files of the lab's own are what a disk may have no room for.
        let remedy = Errno::from_io_error(&source)
            .and_then(|errno| gush_text::remedy(gush_text::Doing::Making, errno));
        Self::Failed { what: what.into(), source, remedy }
    }

    pub(crate) fn not_started(name: &str, source: io::Error) -> Self {
        let remedy = Errno::from_io_error(&source).and_then(|errno| {
            gush_text::remedy_at(rustix::fs::CWD, name, gush_text::Doing::Starting, errno)
        });
        Self::Failed { what: format!("cannot start {name}"), source, remedy }
    }

    /// Something that makes no sense or cannot work here, as a sentence.
    pub fn refused(why: impl Into<String>) -> Self {
        Self::Refused(why.into())
    }

    /// The one of `all` that has the name.
    pub(crate) fn named<T>(
        kind: &str,
        name: &str,
        all: impl IntoIterator<Item = T> + Clone,
        name_of: impl Fn(&T) -> &'static str,
    ) -> Result<T, Self> {
        let found = all.clone().into_iter().find(|one| name_of(one) == name);
        found.ok_or_else(|| Self::unknown(kind, name, all.into_iter().map(|one| name_of(&one))))
    }

    /// A name that nothing of a kind has, with the nearest of the known names, or all of them if
    /// none is near.
    pub fn unknown<'a>(kind: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        Self::Refused(unknown(kind, name, known))
    }

    /// The operating system's error, if there is one.
    pub fn io_error(&self) -> Option<&io::Error> {
        match self {
            Self::Failed { source, .. } => Some(source),
            Self::Refused(_) | Self::Corrupt(_) => None,
        }
    }
}
