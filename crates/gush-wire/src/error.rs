//! Why a session ended before its copy was complete.

use std::io;

/// A failure of the session, after which nothing more is sent. Entries that fail are reported one
/// by one instead, and the session goes on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The remote command could not be started.
    #[error("cannot start {command}: {}", gush_text::os_text(.error))]
    Start {
        /// The program.
        command: String,
        /// The answer of the system.
        error: io::Error,
    },
    /// A stream failed.
    #[error("connection lost while {doing}: {}", gush_text::os_text(.error))]
    Io {
        /// What was under way.
        doing: &'static str,
        /// The answer of the system.
        error: io::Error,
    },
    /// Another stream than the first failed, or ended before its last record.
    #[error("a further connection was lost: {0}")]
    Further(String),
    /// The other side closed its stream too early.
    #[error("the other side ended before the copy was complete")]
    Ended,
    /// The other side ended before it had sent anything.
    #[error("the other side ended without an answer")]
    Silent,
    /// The first bytes from the other side are no greeting of gush.
    #[error("no gush answers there: it sent {0}")]
    Greeting(String),
    /// The other side has violated the protocol.
    #[error("the other side broke the protocol: {0}")]
    Protocol(String),
    /// The other side has another version of the protocol.
    #[error(
        "the other side speaks version {theirs} of the protocol, and this side version {ours} \
         (install the same gush on both machines)"
    )]
    Version {
        /// Of the other side.
        theirs: u32,
        /// Of this side.
        ours: u32,
    },
    /// The other side cannot serve the request, or go on.
    #[error("{0}")]
    Refused(String),
    /// This side cannot serve the request, or go on.
    #[error("{0}")]
    Local(String),
}

impl Error {
    /// What fails on another stream than the first: the session can still say it on that one.
    pub(crate) fn further(self) -> Self {
        match self {
            Self::Ended => Self::Further("it ended before its last record".into()),
            Self::Io { error, .. } => Self::Further(gush_text::os_text(&error).to_string()),
            error => error,
        }
    }

    /// Does the other side know of the failure, or is it not there any more?
    #[must_use]
    pub fn is_known_there(&self) -> bool {
        match self {
            // Either side sends its version before it reads the other one.
            Self::Refused(_) | Self::Ended | Self::Version { .. } => true,
            Self::Io { error, .. } => {
                matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
            }
            _ => false,
        }
    }
}

/// An error of the protocol, unless the other side is right.
pub(crate) fn ensure(is_right: bool, why: &str) -> Result<(), Error> {
    if is_right { Ok(()) } else { Err(Error::Protocol(why.into())) }
}
