//! The one error of the engine.

use std::io;

use rustix::io::Errno;

use crate::fault::Fault;
use crate::method::Refusal;
use crate::port::Side;
use crate::sys::Call;

/// Why a move ended early.
#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error("{} failed on the {}", .0.call, side_name(.0.side))]
    Failed(Fault),
    #[error("{0}")]
    Refused(Refusal),
    #[error("{} reported the end of a source that has more bytes", .0)]
    FalseEnd(crate::MethodName),
    #[error("the source and the target are the same file, and the ranges overlap")]
    SameFile,
    #[error("stopped by the observer")]
    Stopped,
}

fn side_name(side: Side) -> &'static str {
    match side {
        Side::Source => "source",
        Side::Target => "target",
    }
}

/// A move that ended early: which operation failed, on which side, how far it had got, and the
/// operating system's error as [`source`](std::error::Error::source).
///
/// ```
/// use std::error::Error as _;
/// let source = tempfile::tempfile()?;
/// let error = gush::copy(&source, &source).err();
/// assert!(error.is_none(), "an empty range overlaps nothing");
///
/// std::io::Write::write_all(&mut (&source), b"abc")?;
/// std::io::Seek::rewind(&mut (&source))?;
/// let error = gush::copy(&source, &source).unwrap_err();
/// assert_eq!(error.delivered_bytes(), 0);
/// assert!(error.source().is_none());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{cause}{}", Progress(*.delivered_bytes, *.in_flight_bytes))]
pub struct Error {
    cause: Box<Cause>,
    delivered_bytes: u64,
    in_flight_bytes: u64,
    #[source]
    io: Option<io::Error>,
}

struct Progress(u64, u64);

impl std::fmt::Display for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Progress(0, 0) => Ok(()),
            Progress(delivered, 0) => write!(f, " after {delivered} bytes"),
            Progress(delivered, lost) => {
                write!(f, " after {delivered} bytes; {lost} more were read and not delivered")
            }
        }
    }
}

impl Error {
    fn new(cause: Cause, errno: Option<Errno>) -> Self {
        Self {
            cause: Box::new(cause),
            delivered_bytes: 0,
            in_flight_bytes: 0,
            io: errno.map(io::Error::from),
        }
    }

    pub(crate) fn failed(fault: Fault) -> Self {
        Self::new(Cause::Failed(fault), Some(fault.errno))
    }

    pub(crate) fn refused(refusal: Refusal) -> Self {
        let errno = refusal.errno;
        Self::new(Cause::Refused(refusal), errno)
    }

    pub(crate) fn false_end(method: crate::MethodName) -> Self {
        Self::new(Cause::FalseEnd(method), None)
    }

    pub(crate) fn same_file() -> Self {
        Self::new(Cause::SameFile, None)
    }

    pub(crate) fn stopped() -> Self {
        Self::new(Cause::Stopped, None)
    }

    pub(crate) fn after(mut self, delivered_bytes: u64, in_flight_bytes: u64) -> Self {
        self.delivered_bytes = delivered_bytes;
        self.in_flight_bytes = in_flight_bytes;
        self
    }

    /// The system call that failed, if one did.
    #[must_use]
    pub fn call(&self) -> Option<Call> {
        match *self.cause {
            Cause::Failed(fault) => Some(fault.call),
            _ => None,
        }
    }

    /// The side whose descriptor the error concerns.
    #[must_use]
    pub fn side(&self) -> Option<Side> {
        match *self.cause {
            Cause::Failed(fault) => Some(fault.side),
            _ => None,
        }
    }

    /// The bytes that had reached the target.
    #[must_use]
    pub fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes
    }

    /// The bytes taken from a source that cannot give them again, and not delivered (invariant 1).
    #[must_use]
    pub fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes
    }

    /// Did the observer end the move?
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        matches!(*self.cause, Cause::Stopped)
    }

    /// Was a method that was asked for by name refused (invariant 6)?
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(*self.cause, Cause::Refused(_) | Cause::FalseEnd(_))
    }

    /// The refusal of the method that was asked for by name; none where it started, and then ended falsely.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match &*self.cause {
            Cause::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// What the operating system said, where it said something.
    #[must_use]
    pub fn io_error(&self) -> Option<&io::Error> {
        self.io.as_ref()
    }

    /// What the user can do, where there is something.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match *self.cause {
            Cause::Refused(_) | Cause::FalseEnd(_) => {
                Some("choose another method, or auto, which falls back by itself")
            }
            Cause::Failed(fault) => hint_for(fault),
            Cause::SameFile | Cause::Stopped => None,
        }
    }
}

fn hint_for(fault: Fault) -> Option<&'static str> {
    match (fault.side, fault.errno) {
        (Side::Target, Errno::NOSPC) => Some("free some space on the target's file system"),
        (Side::Target, Errno::DQUOT) => Some("the user's quota on the target is used up"),
        (Side::Target, Errno::FBIG) => {
            Some("the target's file system or the limit on file size (ulimit -f) allows no more")
        }
        (Side::Source, Errno::FAULT) => Some("the source was truncated while it was being copied"),
        (Side::Target, Errno::FAULT) => Some("the target was truncated while it was being written"),
        (_, Errno::IO) => Some("the device or its connection is failing; see the kernel's log"),
        _ => None,
    }
}
