//! A system call that failed: which, on which side, with which answer.

use std::fmt;
use std::os::fd::BorrowedFd;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::errno::errno_name;
use crate::port::Side;
use crate::sys::{self, Call};

/// A system call that failed, and the side of the failure.
///
/// ```
/// let full = std::fs::File::options().write(true).open("/dev/full")?;
/// let report = gush::Tee::new(&std::fs::File::open("/proc/version")?).to(&full).run()?;
/// let Some(gush::Failure::Fault(fault)) = report.targets[0].failure else { panic!("no room") };
/// assert_eq!(fault.to_string(), "write failed on the target: ENOSPC");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// The call.
    pub call: Call,
    /// The side whose descriptor the error concerns, as far as the call shows.
    pub side: Side,
    /// The kernel's answer.
    pub errno: Errno,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed on the {}: {}", self.call, self.side, errno_name(self.errno))
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.errno)
    }
}

impl Fault {
    /// The error for a write that returned 0, which would otherwise be repeated for ever.
    pub(crate) const TOOK_NOTHING: Errno = Errno::IO;
}

/// The side that an error of a call between two files concerns, which the call does not report. An
/// EIO is the source's if a read fails at `at`, or at the source's position, where the call
/// stopped.
pub(crate) fn side_between_files(errno: Errno, source: BorrowedFd<'_>, at: Option<u64>) -> Side {
    let can_be_read = || {
        let at = at.map_or_else(|| sys::file::seek(source, SeekFrom::Current(0)), Ok);
        at.and_then(|at| sys::data::pread(source, &mut [0], at)) != Err(Errno::IO)
    };
    if errno != Errno::IO || can_be_read() { Side::Target } else { Side::Source }
}
