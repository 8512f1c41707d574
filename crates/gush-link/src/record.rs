//! The record of an ended connection.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use gush_net::{EndReason, Passed};
use gush_text::os_text;

use crate::address::Address;

macro_rules! endings {
    ($($(#[doc = $doc:literal])+ $ending:ident $name:literal $text:literal $is_failure:literal;)+) => {
        /// Why a connection ended.
        ///
        /// ```
        /// use gush_link::Ending;
        /// assert_eq!(Ending::OpenFailed.as_str(), "open-failed");
        /// assert!(Ending::OpenFailed.is_failure() && !Ending::Idle.is_failure());
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Ending {
            $($(#[doc = $doc])+ $ending,)+
        }

        impl Ending {
            /// Every ending, in declaration order.
            pub const ALL: [Ending; [$($name),+].len()] = [$(Ending::$ending),+];

            /// The ending's name in JSON and metrics.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Ending::$ending => $name,)+ }
            }

            /// Is this ending a failure?
            #[must_use]
            pub fn is_failure(self) -> bool {
                match self { $(Ending::$ending => $is_failure,)+ }
            }
        }

        /// The ending as a phrase.
        impl fmt::Display for Ending {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self { $(Ending::$ending => $text,)+ })
            }
        }
    };
}

endings! {
    /// Both ends had sent their last byte, and all bytes were delivered.
    Closed "closed" "both ends had finished" false;
    /// Nothing moved within the idle limit.
    Idle "idle" "nothing moved within the idle limit" false;
    /// One end had ended, and the other was silent for the linger limit.
    Lingered "lingered" "one end had finished, and the other was silent for the linger limit" false;
    /// A silent sender of datagrams was evicted for another, because descriptors were short.
    MadeRoom "made-room" "descriptors were short, and it made room for another sender" false;
    /// The link ended, because of a signal for example.
    Interrupted "interrupted" "the link was ended" false;
    /// The other address could not be opened.
    OpenFailed "open-failed" "the other address could not be opened" true;
    /// The client's PROXY header was missing, late or malformed.
    ProxyHeader "proxy-header" "no valid PROXY header came" true;
    /// The TLS handshake with the client failed.
    HandshakeFailed "handshake-failed" "the TLS handshake with the client failed" true;
    /// Bytes could not be moved, or their arrival is unknown.
    RelayFailed "relay-failed" "bytes could not be moved" true;
    /// The program at an end exited with a status other than 0.
    ProgramFailed "program-failed" "a program failed" true;
}

impl From<EndReason> for Ending {
    fn from(ended: EndReason) -> Self {
        match ended {
            EndReason::Idle => Ending::Idle,
            EndReason::Lingered => Ending::Lingered,
            _ => Ending::Closed,
        }
    }
}

/// A failure as a sentence, with the OS error number if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The whole sentence.
    pub message: String,
    /// The `errno`.
    pub errno: Option<i32>,
    /// Did only the reader of standard output go away, as `head` does after enough lines?
    pub reader_gone: bool,
    /// Did a proxy, or a TLS server, refuse the connection?
    pub is_refusal: bool,
    /// Did the peer leave TLS without close_notify, as many clients do?
    pub(crate) is_unclosed: bool,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>, errno: Option<i32>) -> Self {
        Self {
            message: message.into(),
            errno,
            reader_gone: false,
            is_refusal: false,
            is_unclosed: false,
        }
    }

    /// A failure with the messages of `error` and its sources.
    pub(crate) fn of(error: &(dyn Error + 'static)) -> Self {
        let (mut message, mut errno) = (String::new(), None);
        let mut next = Some(error);
        while let Some(error) = next {
            let io = error.downcast_ref::<io::Error>();
            let sentence = io.map_or_else(|| error.to_string(), os_text);
            // Some errors end with the text of their source.
            if !message.ends_with(&sentence) {
                message += if message.is_empty() { "" } else { ": " };
                message += &sentence;
            }
            errno = errno.or(io.and_then(io::Error::raw_os_error));
            next = error.source();
        }
        Self::new(message, errno)
    }

    /// Has the process, or the system, no descriptor left?
    pub(crate) fn wants_descriptors(&self) -> bool {
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

/// The record of one connection, complete even if it failed.
#[derive(Clone, Debug)]
pub struct Record {
    /// The connection's number, from 1 in the order of arrival.
    pub id: u64,
    /// The peer at the first address: the client of a listener, or the address itself.
    pub first: String,
    /// The peer at the second address.
    pub second: String,
    /// The bytes from the first address to the second.
    pub forward: Passed,
    /// The bytes from the second address to the first.
    pub back: Passed,
    /// The time from the connection's arrival to its end.
    pub lasted: Duration,
    /// Why the connection ended.
    pub ending: Ending,
    /// The failure, if there was one.
    pub failure: Option<Failure>,
}

impl Record {
    /// The record of a connection whose address could not be opened.
    pub(crate) fn of_unopened(
        id: u64,
        first: &Address,
        second: &Address,
        failure: Failure,
    ) -> Self {
        Self {
            id,
            first: first.locator().to_string(),
            second: second.locator().to_string(),
            forward: Passed::default(),
            back: Passed::default(),
            lasted: Duration::ZERO,
            ending: Ending::OpenFailed,
            failure: Some(failure),
        }
    }
}
