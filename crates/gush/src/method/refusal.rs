//! Why a technique cannot move something.

use std::borrow::Cow;
use std::fmt;

use rustix::io::Errno;

use super::MethodName;
use crate::errno::errno_name;
use crate::sys::Call;

/// Why a technique cannot move this, here; nothing was touched (invariant 3).
///
/// ```
/// use gush::{Call, Choice, Errno, MethodName, Mover};
/// let (source, target) = (std::fs::File::open("/dev/zero")?, tempfile::tempfile()?);
/// std::io::Write::write_all(&mut (&target), b"x")?;
/// let by_name = Choice::Only(MethodName::CopyFileRange);
/// let error = Mover::new(&source, &target).method(by_name).run().unwrap_err();
/// let refusal = error.refusal().unwrap();
/// assert_eq!((refusal.call, refusal.errno), (Some(Call::CopyFileRange), Some(Errno::INVAL)));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The technique.
    pub method: MethodName,
    /// The refused call, where the kernel is the reason.
    pub call: Option<Call>,
    /// The kernel's answer to the call.
    pub errno: Option<Errno>,
    /// The reason, or the refused call.
    pub why: Cow<'static, str>,
}

impl Refusal {
    /// The reason where the user ruled the method out.
    pub(crate) const EXCLUDED: &str = "excluded by an option";

    /// The reason where each write of the target goes to its end.
    pub(super) const APPENDS: &str = "the target was opened with O_APPEND";

    /// The reason where splice(2) and sendfile(2) would wait for room, which no flag of theirs
    /// prevents. The socket's own flag belongs to everybody who shares the socket.
    pub(crate) const HELD_BY_SOCKET: &str =
        "the socket is shared with other processes and has no O_NONBLOCK";

    pub(crate) fn because(method: MethodName, why: &'static str) -> Self {
        Self { method, call: None, errno: None, why: Cow::Borrowed(why) }
    }

    pub(crate) fn by_kernel(method: MethodName, call: Call, errno: Errno) -> Self {
        let why = Cow::Borrowed(call.name());
        Self { method, call: Some(call), errno: Some(errno), why }
    }

    /// The method said "nothing more" where a `read` finds bytes.
    pub(crate) fn false_end(method: MethodName) -> Self {
        Self::because(method, "the source has bytes past the end that the method reports")
    }

    /// Did the user rule the method out?
    pub(crate) fn is_of_user(&self) -> bool {
        self.why == Self::EXCLUDED
    }

    /// Does the method not serve a target with `O_APPEND`?
    ///
    /// ```
    /// let from = tempfile::tempfile()?;
    /// let to = tempfile::NamedTempFile::new()?;
    /// let to = std::fs::File::options().append(true).open(to.path())?;
    /// let splice = gush::Choice::Only(gush::MethodName::Splice);
    /// let error = gush::Mover::new(&from, &to).method(splice).run().unwrap_err();
    /// assert!(error.refusal().unwrap().is_of_append());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn is_of_append(&self) -> bool {
        self.why == Self::APPENDS
    }

    /// Is the target full, or at the size limit? Then another method finds no more room.
    pub(crate) fn lacks_room(&self) -> bool {
        matches!(self.errno, Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG))
    }

    /// The line of `--explain`.
    pub(crate) fn line(&self) -> impl fmt::Display + '_ {
        struct Line<'a>(&'a Refusal);
        impl fmt::Display for Line<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "refused {}: {}", self.0.method, self.0.why)?;
                self.0.errno.map_or(Ok(()), |errno| write!(f, ": {}", errno_name(errno)))
            }
        }
        Line(self)
    }

    /// The symbolic name of the errno, such as `EXDEV`, where the kernel answered one.
    #[must_use]
    pub fn errno_name(&self) -> Option<String> {
        self.errno.map(errno_name)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errno {
            // Only a mapped target makes a method give up this way.
            Some(Errno::FAULT) => write!(
                f,
                "{} cannot go on: {}: EFAULT: the target was truncated, or its file system is full",
                self.method, self.why
            ),
            Some(errno) if self.lacks_room() => {
                let name = errno_name(errno);
                write!(f, "{} finds no room for the target: {}: {name}", self.method, self.why)
            }
            Some(errno) => {
                write!(f, "{} is refused here: {}: {}", self.method, self.why, errno_name(errno))
            }
            None => write!(f, "{} cannot serve this: {}", self.method, self.why),
        }
    }
}

impl std::error::Error for Refusal {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.errno.as_ref().map(|errno| errno as _)
    }
}
