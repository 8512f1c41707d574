//! What is told of a connection when it has ended.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use crate::address::Address;
use crate::{Ended, Passed};

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Ending {
    /// Both ends had sent their last byte, and all of it was delivered.
    Closed,
    /// Nothing moved for as long as the idle limit allows.
    Idle,
    /// One end had ended, and the other was silent for as long as the linger limit allows.
    Lingered,
    /// The link itself was ended, by a signal for example.
    Interrupted,
    /// What it goes to could not be opened.
    OpenFailed,
    /// The client's PROXY header was missing, late or malformed.
    ProxyHeader,
    /// Bytes could not be moved, or were not known to have arrived.
    RelayFailed,
    /// The program of an end exited with another status than 0.
    ProgramFailed,
}

impl Ending {
    /// Every ending, in the order in which people are shown them.
    pub const ALL: [Ending; 8] = [
        Ending::Closed,
        Ending::Idle,
        Ending::Lingered,
        Ending::Interrupted,
        Ending::OpenFailed,
        Ending::ProxyHeader,
        Ending::RelayFailed,
        Ending::ProgramFailed,
    ];

    /// The name that JSON and metrics have for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Ending::Closed => "closed",
            Ending::Idle => "idle",
            Ending::Lingered => "lingered",
            Ending::Interrupted => "interrupted",
            Ending::OpenFailed => "open-failed",
            Ending::ProxyHeader => "proxy-header",
            Ending::RelayFailed => "relay-failed",
            Ending::ProgramFailed => "program-failed",
        }
    }

    /// Did it go wrong?
    #[must_use]
    pub fn is_failure(self) -> bool {
        use Ending::{OpenFailed, ProgramFailed, ProxyHeader, RelayFailed};
        matches!(self, OpenFailed | ProxyHeader | RelayFailed | ProgramFailed)
    }
}

impl From<Ended> for Ending {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Closed => Ending::Closed,
            Ended::Idle => Ending::Idle,
            Ended::Lingered => Ending::Lingered,
        }
    }
}

/// In words, for people.
impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Ending::Closed => "both ends had finished",
            Ending::Idle => "nothing moved within the idle limit",
            Ending::Lingered => {
                "one end had finished, and the other was silent for the linger limit"
            }
            Ending::Interrupted => "the link was told to end",
            Ending::OpenFailed => "the other address could not be opened",
            Ending::ProxyHeader => "no valid PROXY header came",
            Ending::RelayFailed => "bytes could not be moved",
            Ending::ProgramFailed => "a program failed",
        })
    }
}

/// What went wrong, as a sentence, and the operating system's number for it where there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The whole sentence.
    pub message: String,
    /// The `errno`.
    pub errno: Option<i32>,
    /// Is it only that nobody reads standard output any more, as `head` does when it has enough?
    pub reader_gone: bool,
}

impl Failure {
    pub(super) fn new(message: impl Into<String>, errno: Option<i32>) -> Self {
        Self { message: message.into(), errno, reader_gone: false }
    }

    /// The sentences of `error` and of what it came from.
    pub(super) fn of(error: &(dyn Error + 'static)) -> Self {
        let (mut message, mut errno) = (String::new(), None);
        let mut next = Some(error);
        while let Some(error) = next {
            let sentence = error.to_string();
            // Some errors already end with what they came from.
            if !message.ends_with(&sentence) {
                message += if message.is_empty() { "" } else { ": " };
                message += &sentence;
            }
            let io = error.downcast_ref::<io::Error>();
            errno = errno.or(io.and_then(io::Error::raw_os_error));
            next = error.source();
        }
        Self::new(message, errno)
    }

    /// Has the process, or the system, no descriptor left?
    pub(super) fn wants_descriptors(&self) -> bool {
        let number = |errno: gush::Errno| Some(errno.raw_os_error());
        self.errno == number(gush::Errno::MFILE) || self.errno == number(gush::Errno::NFILE)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Failure {}

/// The account of one connection. It is complete also when the connection failed.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its number, from 1 in the order of arrival.
    pub id: u64,
    /// Who stands at the first address: the client of a listener, or the address itself.
    pub first: String,
    /// Who stands at the second address.
    pub second: String,
    /// What went from the first to the second.
    pub forward: Passed,
    /// What went from the second to the first.
    pub back: Passed,
    /// From its arrival to its end.
    pub lasted: Duration,
    /// Why it ended.
    pub ending: Ending,
    /// What went wrong, if something did.
    pub failure: Option<Failure>,
}

impl Record {
    /// Of a connection that never came about.
    pub(super) fn of_unopened(
        id: u64,
        first: &Address,
        second: &Address,
        failure: Failure,
    ) -> Self {
        let nothing = Passed { bytes: 0, in_flight_bytes: 0, method: None };
        Self {
            id,
            first: first.target().to_string(),
            second: second.target().to_string(),
            forward: nothing,
            back: nothing,
            lasted: Duration::ZERO,
            ending: Ending::OpenFailed,
            failure: Some(failure),
        }
    }
}
