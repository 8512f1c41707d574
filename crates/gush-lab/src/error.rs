//! Why something was not measured, as a sentence for whoever asked.

use std::io;

/// What went wrong, and what to do about it where something can be done.
///
/// ```
/// let error = gush_lab::Error::Refused("sizes end at 8 EiB".into());
/// assert_eq!(error.to_string(), "sizes end at 8 EiB");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It makes no sense, or cannot work here.
    #[error("{0}")]
    Refused(String),
    /// A system call failed while bytes moved.
    #[error("{what}")]
    Failed {
        /// Which call, on what.
        what: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// Bytes arrived that were never sent.
    #[error(transparent)]
    Corrupt(#[from] crate::pipe::Corruption),
}

impl Error {
    pub(crate) fn failed(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Failed { what: what.into(), source: source.into() }
    }

    pub(crate) fn refused(why: impl Into<String>) -> Self {
        Self::Refused(why.into())
    }

    /// The operating system's answer behind it, if there is one.
    #[must_use]
    pub fn io_error(&self) -> Option<&io::Error> {
        match self {
            Self::Failed { source, .. } => Some(source),
            Self::Refused(_) | Self::Corrupt(_) => None,
        }
    }
}
