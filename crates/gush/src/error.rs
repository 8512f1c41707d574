//! The one error of the engine.

use std::fmt;
use std::io;

use rustix::io::Errno;

use crate::errno::errno_name;
use crate::fault::Fault;
use crate::flow::Failure;
use crate::method::Refusal;
use crate::port::Side;
use crate::remedy::hint_for;
use crate::sys::Call;

/// Why a move ended early.
#[derive(Debug)]
enum Cause {
    Flow(Failure),
    SameFile,
    NoOffset(Side),
    Stopped,
    Cancelled,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Flow(Failure::Fault(Fault { call, side, .. })) => {
                write!(f, "{call} failed on the {side}")
            }
            Cause::Flow(failure) => failure.fmt(f),
            Cause::SameFile => {
                f.write_str("the source and the target are the same file, and the ranges overlap")
            }
            Cause::NoOffset(side) => write!(f, "the {side} takes no offset"),
            Cause::Stopped => f.write_str("stopped by the observer"),
            Cause::Cancelled => f.write_str("cancelled from another thread"),
        }
    }
}

/// A move that ended early: the failed operation, the side, the bytes delivered, and the
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
///
/// The text ends with the name of the kernel's answer. The operating system's words are the
/// source's: a program prints them after [`Error::without_errno`].
///
/// ```
/// let full = std::fs::File::options().write(true).open("/dev/full")?;
/// let error = gush::copy(&std::fs::File::open("/bin/sh")?, &full).unwrap_err();
/// assert_eq!(error.to_string(), "write failed on the target: ENOSPC");
/// let said = format!("{}: {}", error.without_errno(), error.io_error().unwrap());
/// assert_eq!(said, "write failed on the target: No space left on device (os error 28)");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// As a [`std::io::Error`], by `?`, an error with a kernel's answer is that answer, with its
/// [`raw_os_error`](std::io::Error::raw_os_error). Any other keeps text and [kind](Self::kind), and
/// is still there as a whole.
///
/// ```
/// fn copy_to_a_full_disk() -> std::io::Result<()> {
///     let full = std::fs::File::options().write(true).open("/dev/full")?;
///     gush::copy(&std::fs::File::open("/proc/version")?, &full)?;
///     Ok(())
/// }
///
/// let error = copy_to_a_full_disk().unwrap_err();
/// assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
/// assert_eq!(error.raw_os_error(), Some(gush::Errno::NOSPC.raw_os_error()));
/// ```
#[derive(Debug)]
pub struct Error {
    cause: Box<Cause>,
    delivered_bytes: u64,
    in_flight_bytes: u64,
    lost_old_content: bool,
    io: Option<io::Error>,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.without_errno(), Answer(self.cause.errno()))
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.io.as_ref().map(|io| io as _)
    }
}

impl Cause {
    /// The kernel's answer, where the sentence of the cause does not name it.
    fn errno(&self) -> Option<Errno> {
        match self {
            Cause::Flow(Failure::Fault(fault)) => Some(fault.errno),
            _ => None,
        }
    }
}

/// The tail of a text that names the kernel's answer.
struct Answer(Option<Errno>);

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |errno| write!(f, ": {}", errno_name(errno)))
    }
}

/// The text of an error without the kernel's answer.
struct WithoutErrno<'a>(&'a Error);

impl fmt::Display for WithoutErrno<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Error { cause, delivered_bytes, in_flight_bytes, .. } = self.0;
        write!(f, "{cause}")?;
        match (delivered_bytes, in_flight_bytes) {
            (0, 0) => Ok(()),
            (delivered, 0) => write!(f, " after {delivered} bytes"),
            (delivered, lost) => {
                write!(f, " after {delivered} bytes; {lost} more were read but not delivered")
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
            lost_old_content: false,
            io: errno.map(io::Error::from),
        }
    }

    pub(crate) fn failed(fault: Fault) -> Self {
        Failure::Fault(fault).into()
    }

    pub(crate) fn refused(refusal: Refusal) -> Self {
        Failure::Refused(refusal).into()
    }

    pub(crate) fn same_file() -> Self {
        Self::new(Cause::SameFile, None)
    }

    pub(crate) fn no_offset(side: Side) -> Self {
        Self::new(Cause::NoOffset(side), None)
    }

    pub(crate) fn stopped() -> Self {
        Self::new(Cause::Stopped, None)
    }

    pub(crate) fn cancelled() -> Self {
        Self::new(Cause::Cancelled, None)
    }

    pub(crate) fn after(mut self, delivered_bytes: u64, in_flight_bytes: u64) -> Self {
        self.delivered_bytes = delivered_bytes;
        self.in_flight_bytes = in_flight_bytes;
        self
    }

    pub(crate) fn having_cut(mut self, lost_old_content: bool) -> Self {
        self.lost_old_content = lost_old_content;
        self
    }

    /// The sentence without the bytes: the failed operation and the side, or why none was tried.
    ///
    /// ```
    /// let full = std::fs::File::options().write(true).open("/dev/full")?;
    /// let error = gush::copy(&std::fs::File::open("/proc/version")?, &full).unwrap_err();
    /// assert_eq!(error.what().to_string(), "write failed on the target");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn what(&self) -> impl fmt::Display + '_ {
        &self.cause
    }

    /// The text without the errno's name, for a program that adds the answer in other words. A
    /// refusal keeps the name, which is the reason.
    pub fn without_errno(&self) -> impl fmt::Display + '_ {
        WithoutErrno(self)
    }

    /// The failed or refused system call, if one was made.
    ///
    /// ```
    /// use gush::{Call, Choice, Errno, MethodName, Mover, Side};
    /// let full = std::fs::File::options().write(true).open("/dev/full")?;
    /// let source = std::fs::File::open("/proc/version")?;
    /// let by_name = Choice::Only(MethodName::ReadWrite);
    /// let error = Mover::new(&source, &full).method(by_name).run().unwrap_err();
    /// assert_eq!(error.call(), Some(Call::Write));
    /// assert_eq!((error.side(), error.errno()), (Some(Side::Target), Some(Errno::NOSPC)));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn call(&self) -> Option<Call> {
        match *self.cause {
            Cause::Flow(Failure::Fault(fault)) => Some(fault.call),
            Cause::Flow(Failure::Refused(ref refusal)) => refusal.call,
            _ => None,
        }
    }

    /// The side whose descriptor the error concerns.
    #[must_use]
    pub fn side(&self) -> Option<Side> {
        match *self.cause {
            Cause::Flow(Failure::Fault(fault)) => Some(fault.side),
            Cause::NoOffset(side) => Some(side),
            // Only a mapped target gives up by EFAULT, and only the target's space is reserved.
            Cause::Flow(Failure::Refused(ref refusal))
                if refusal.errno == Some(Errno::FAULT) || refusal.lacks_room() =>
            {
                Some(Side::Target)
            }
            _ => None,
        }
    }

    /// The kernel's answer to [`Error::call`].
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        match *self.cause {
            Cause::Flow(ref failure) => failure.errno(),
            _ => None,
        }
    }

    /// The kind of the errno; without one `Unsupported` for a refusal, `InvalidInput` for a file
    /// copied onto itself and for an offset in something that has none, and `Other` for a move that
    /// was stopped ([`Error::is_stopped`]).
    ///
    /// Never `Interrupted`: the standard library's loops would begin anew.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        match (self.io.as_ref().map(io::Error::kind), &*self.cause) {
            (Some(io::ErrorKind::Interrupted), _) => io::ErrorKind::Other,
            (Some(kind), _) => kind,
            (None, Cause::Flow(Failure::Refused(_))) => io::ErrorKind::Unsupported,
            (None, Cause::Flow(Failure::FalseEnd(_))) => io::ErrorKind::UnexpectedEof,
            (None, Cause::SameFile | Cause::NoOffset(_)) => io::ErrorKind::InvalidInput,
            (None, _) => io::ErrorKind::Other,
        }
    }

    /// The bytes delivered to the target before.
    #[must_use]
    pub fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes
    }

    /// The bytes taken for good from a stream, and not delivered (invariant 1).
    ///
    /// ```
    /// use std::io::Write;
    /// let (source, mut filler) = std::io::pipe()?;
    /// filler.write_all(b"taken from the pipe")?;
    /// drop(filler);
    /// let full = std::fs::File::options().write(true).open("/dev/full")?;
    /// let error = gush::copy(&source, &full).unwrap_err();
    /// assert_eq!((error.delivered_bytes(), error.in_flight_bytes()), (0, 19));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes
    }

    /// Was old content of the target cut off ([`Mover::replace`](crate::Mover::replace)) before the
    /// move ended?
    #[must_use]
    pub fn lost_old_content(&self) -> bool {
        self.lost_old_content
    }

    /// Did somebody end the move: the observer, or another thread by a [`Cancel`](crate::Cancel)?
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        matches!(*self.cause, Cause::Stopped | Cause::Cancelled)
    }

    /// Did another thread end the move, by a [`Cancel`](crate::Cancel)?
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(*self.cause, Cause::Cancelled)
    }

    /// Was a method asked for by name refused (invariant 6)?
    ///
    /// ```
    /// use gush::{Choice, MethodName, Mover};
    /// let (source, target) = (std::fs::File::open("/dev/zero")?, tempfile::tempfile()?);
    /// let by_name = Choice::Only(MethodName::Reflink);
    /// let error = Mover::new(&source, &target).method(by_name).run().unwrap_err();
    /// assert!(error.is_refused());
    /// assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(*self.cause, Cause::Flow(Failure::Refused(_) | Failure::FalseEnd(_)))
    }

    /// The refusal of a named method; `None` where it started, and reported a false end.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match &*self.cause {
            Cause::Flow(Failure::Refused(refusal)) => Some(refusal),
            _ => None,
        }
    }

    /// The operating system's error, where there is one.
    #[must_use]
    pub fn io_error(&self) -> Option<&io::Error> {
        self.io.as_ref()
    }

    /// The remedy, where there is one.
    ///
    /// ```
    /// let full = std::fs::File::options().write(true).open("/dev/full")?;
    /// let error = gush::copy(&std::fs::File::open("/proc/version")?, &full).unwrap_err();
    /// let hint = "the target is full: free some space on its file system";
    /// assert_eq!(error.hint(), Some(hint));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match *self.cause {
            Cause::Flow(Failure::Refused(ref refusal)) if refusal.lacks_room() => {
                refusal.errno.and_then(|errno| hint_for(Side::Target, errno))
            }
            Cause::Flow(Failure::Refused(ref refusal)) if refusal.is_of_user() => {
                Some("leave one of the methods that serve this pair of ends")
            }
            Cause::Flow(Failure::Refused(_) | Failure::FalseEnd(_)) => {
                Some("choose another method, or auto, which falls back by itself")
            }
            Cause::Flow(Failure::Fault(fault)) => hint_for(fault.side, fault.errno),
            Cause::SameFile => Some("name another target, or ranges that do not overlap"),
            Cause::NoOffset(Side::Source) => Some(
                "pipes, sockets, terminals and files of /proc are read from where they are: name no offset",
            ),
            Cause::NoOffset(Side::Target) => Some(
                "pipes, sockets and terminals have no offsets, and with O_APPEND each write goes to the end: name none",
            ),
            Cause::Stopped | Cause::Cancelled => None,
        }
    }
}

/// Of a flow refused before it began.
impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::refused(refusal)
    }
}

/// Of a flow that failed, whose own counts say how far the flow got.
impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let errno = failure.errno();
        Self::new(Cause::Flow(failure), errno)
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error.errno() {
            // The standard library's loops would begin anew.
            Some(Errno::INTR) | None => io::Error::new(error.kind(), error),
            Some(errno) => errno.into(),
        }
    }
}

/// As [`Error`].
impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        Error::from(refusal).into()
    }
}

/// As [`Error`].
impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        Error::from(failure).into()
    }
}
