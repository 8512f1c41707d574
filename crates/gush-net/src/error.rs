//! The error of a relay, and the account of one that ended well.

use std::fmt;
use std::io;

use gush::{Errno, MethodName, Refusal, Side};

use crate::counts::Direction;

/// One of the two ends of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// The first end; in a one-way copy the source.
    A,
    /// The second end; in a one-way copy the target.
    B,
}

impl End {
    pub(crate) fn of(direction: Direction, side: Side) -> Self {
        match (direction, side) {
            (Direction::Forward, Side::Source) | (Direction::Back, Side::Target) => End::A,
            (Direction::Forward, Side::Target) | (Direction::Back, Side::Source) => End::B,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            End::A => "the first end",
            End::B => "the second end",
        })
    }
}

/// Why a relay ended, if it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EndReason {
    /// Both ends had sent their last byte, and all bytes were delivered.
    Closed,
    /// Nothing moved for as long as [`RelayOptions::idle`](crate::RelayOptions::idle) allows.
    Idle,
    /// One end had ended, and the other was silent for as long as
    /// [`RelayOptions::linger`](crate::RelayOptions::linger) allows.
    Lingered,
}

/// What went in one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Passed {
    /// Bytes that were delivered: written to the target, so that a socket's kernel or the stream
    /// has them. The peer may not have acknowledged them all, and a reset discards what it has not
    /// read: [`Conduit::linger`](crate::Conduit::linger) finds out whether everything has arrived.
    pub bytes: u64,
    /// Bytes that were taken and not delivered; 0 unless the relay ended early.
    pub in_flight_bytes: u64,
    /// The method that moved most of them, if any moved.
    pub method: Option<MethodName>,
    /// The methods that the kernel refused, in order; another moved the bytes then.
    pub refused: Vec<Refusal>,
}

/// The account of a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// From `a` to `b`, or from the source to the target.
    pub forward: Passed,
    /// From `b` to `a`.
    pub back: Passed,
    /// Why the relay ended.
    pub ended: EndReason,
    /// Did a time limit find bytes that could not go on: taken and not delivered, or still waiting
    /// at their source?
    pub stuck: bool,
}

#[derive(Debug)]
enum Cause {
    Failed(&'static str, End),
    /// The engine's refusal.
    Refused(gush::Error),
    Truncated {
        end: End,
        expected_bytes: u64,
    },
    Withheld {
        end: End,
    },
}

/// A relay that failed: which call on which end, how much had gone in each direction, and the
/// operating system's error as [`source`](std::error::Error::source).
///
/// As an [`io::Error`] it is the operating system's error itself, if there is one, so that
/// [`raw_os_error`](io::Error::raw_os_error) answers as that of tokio's functions does.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
/// use gush_net::{Conduit, End, Relay, RelayOptions};
/// let mut zeros = Conduit::new(std::fs::File::open("/dev/zero")?.into())?;
/// let mut full = Conduit::new(std::fs::File::create("/dev/full")?.into())?;
/// let mut relay = Relay::new(&RelayOptions::new());
/// let error = relay.copy(&mut zeros, &mut full).await.unwrap_err();
/// assert_eq!((error.end(), error.call()), (Some(End::B), Some("write")));
/// assert!(error.to_string().ends_with("more were read but not delivered: ENOSPC"));
/// let error = std::io::Error::from(error);
/// assert_eq!(error.raw_os_error(), Some(gush::Errno::NOSPC.raw_os_error()));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Error {
    cause: Cause,
    /// Forward and back. Boxed, to keep the result of a relay small.
    passed: Box<[Passed; 2]>,
    io: Option<io::Error>,
    /// The engine's hint, if it has one.
    hint: Option<&'static str>,
}

impl Error {
    /// A call on one end failed that the caller of a relay made, before any byte had gone.
    #[must_use]
    pub fn failed(call: &'static str, end: End, io: io::Error) -> Self {
        Self::new(Cause::Failed(call, end), Some(io))
    }

    /// The flow of one direction failed.
    pub(crate) fn of_flow(error: gush::Error, direction: Direction) -> Self {
        let (io, hint) = (error.errno().map(io::Error::from), error.hint());
        let failed = match (error.call(), error.side(), io) {
            (Some(call), Some(side), Some(io)) if !error.is_refused() => {
                Self::failed(call.name(), End::of(direction, side), io)
            }
            (_, _, io) => Self::new(Cause::Refused(error), io),
        };
        Self { hint, ..failed }
    }

    pub(crate) fn truncated(end: End, expected_bytes: u64) -> Self {
        Self::new(Cause::Truncated { end, expected_bytes }, None)
    }

    pub(crate) fn withheld(end: End) -> Self {
        Self::new(Cause::Withheld { end }, None)
    }

    fn new(cause: Cause, io: Option<io::Error>) -> Self {
        Self { cause, passed: Box::default(), io, hint: None }
    }

    pub(crate) fn after(mut self, forward: Passed, back: Passed) -> Self {
        *self.passed = [forward, back];
        self
    }

    /// The end that failed; none if a method was refused.
    #[must_use]
    pub fn end(&self) -> Option<End> {
        match &self.cause {
            Cause::Failed(_, end) | Cause::Truncated { end, .. } | Cause::Withheld { end } => {
                Some(*end)
            }
            Cause::Refused(..) => None,
        }
    }

    /// The system call that failed; of a stream without a descriptor `read`, `write`, `flush` or
    /// `shutdown`, for the function that failed.
    #[must_use]
    pub fn call(&self) -> Option<&'static str> {
        match &self.cause {
            Cause::Failed(call, _) => Some(call),
            Cause::Refused(..) | Cause::Truncated { .. } | Cause::Withheld { .. } => None,
        }
    }

    /// What had gone in one direction until then.
    #[must_use]
    pub fn passed(&self, direction: Direction) -> &Passed {
        &self.passed[direction as usize]
    }

    /// Was a method asked for by name refused?
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self.cause, Cause::Refused(..))
    }

    /// The engine's refusal of a method asked for by name; none if the method started, and then
    /// ended early.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match &self.cause {
            Cause::Refused(error) => error.refusal(),
            _ => None,
        }
    }

    /// Was a file cut while it was sent, or shorter than the range?
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        matches!(self.cause, Cause::Truncated { .. })
    }

    /// The error number of [`Error::call`], if the kernel returned one.
    #[must_use]
    pub fn errno(&self) -> Option<gush::Errno> {
        self.io.as_ref().and_then(gush::Errno::from_io_error)
    }

    /// The operating system's error, if there is one.
    #[must_use]
    pub fn io_error(&self) -> Option<&io::Error> {
        self.io.as_ref()
    }

    /// What the user can do, if that is known.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        if self.is_refused() {
            return Some("choose another method, or auto, which falls back by itself");
        }
        if self.is_truncated() {
            return Some("the file was cut while it was being moved; move it again");
        }
        let io = self.io.as_ref()?;
        if io.kind() == io::ErrorKind::UnexpectedEof {
            return Some("the peer was cut off before it had said that it was done");
        }
        // The engine's own hint knows the side; of a caller's call only the error is known.
        self.hint.or_else(|| gush::hint_for(Side::Target, answer(io)?))
    }
}

/// The error number, or the one that a stream without a descriptor means.
fn answer(io: &io::Error) -> Option<Errno> {
    Errno::from_io_error(io).or(match io.kind() {
        io::ErrorKind::ConnectionReset => Some(Errno::CONNRESET),
        io::ErrorKind::BrokenPipe => Some(Errno::PIPE),
        io::ErrorKind::TimedOut => Some(Errno::TIMEDOUT),
        io::ErrorKind::ConnectionRefused => Some(Errno::CONNREFUSED),
        _ => None,
    })
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Failed(call, end) => write!(f, "{call} failed on {end}")?,
            Cause::Refused(error) => error.what().fmt(f)?,
            Cause::Truncated { expected_bytes, .. } => {
                write!(f, "the file shrank before {expected_bytes} bytes of it were moved")?;
            }
            Cause::Withheld { end } => write!(f, "the data of {end} has no proper end")?,
        }
        let [forward, back] = &*self.passed;
        match (forward.bytes, back.bytes) {
            (0, 0) => {}
            (there, here) => write!(f, " after {there} bytes forward and {here} back")?,
        }
        match forward.in_flight_bytes + back.in_flight_bytes {
            0 => Ok(()),
            lost => write!(f, "; {lost} more were read but not delivered"),
        }?;
        match (&self.cause, self.errno()) {
            (Cause::Failed(..), Some(errno)) => write!(f, ": {}", gush::errno_name(errno)),
            (Cause::Failed(..), None) => self.io.iter().try_for_each(|io| write!(f, ": {io}")),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.io.as_ref().map(|io| io as _)
    }
}

/// The operating system's error, if there is one; else an error with this one inside.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match (error.io.as_ref().map(io::Error::kind), &error.cause) {
            // Not EINTR itself, at which loops of the standard library call again.
            (Some(io::ErrorKind::Interrupted), _) => io::ErrorKind::Other,
            (Some(kind), _) => match error.errno() {
                Some(errno) => return errno.into(),
                None => kind,
            },
            (None, Cause::Refused(_)) => io::ErrorKind::Unsupported,
            (None, Cause::Truncated { .. }) => io::ErrorKind::UnexpectedEof,
            (None, Cause::Failed(..) | Cause::Withheld { .. }) => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}
