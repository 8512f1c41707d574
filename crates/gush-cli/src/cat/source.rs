//! An operand of `cat`: a file by name, or standard input.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{FileType, OFlags, Stat, fcntl_getfl, fstat, tell};
use rustix::io::Errno;

use crate::files::{Operand, is_same_file};

/// An open operand.
pub struct Source {
    operand: Operand,
    stat: Stat,
}

impl Source {
    /// Opens `name`; `-` is standard input.
    ///
    /// # Errors
    /// The error of open(2) or fstat(2), and `EISDIR` for a directory.
    pub fn open(name: &OsStr) -> io::Result<Self> {
        let operand = Operand::open(name)?;
        let stat = fstat(&operand)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            return Err(Errno::ISDIR.into());
        }
        Ok(Self { operand, stat })
    }

    /// Whether the operand is a regular file.
    pub fn is_regular(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::RegularFile
    }

    /// Whether the operand is the regular file of `stat`.
    pub fn is(&self, stat: &Stat) -> bool {
        is_same_file(&self.stat, stat)
    }

    /// Whether bytes written to `target`, the same file, would be read again. `keeps_bytes` if as
    /// many are written as are read.
    pub fn would_feed_itself(&self, target: BorrowedFd<'_>, keeps_bytes: bool) -> bool {
        let Ok(from) = tell(self) else { return false };
        from < self.stat.st_size as u64 && !(keeps_bytes && self.stays_ahead_of(target, from))
    }

    fn stays_ahead_of(&self, target: BorrowedFd<'_>, from: u64) -> bool {
        // If it is read-only, it shares no position with the target.
        let reads_only =
            fcntl_getfl(self).is_ok_and(|flags| flags & OFlags::RWMODE == OFlags::RDONLY);
        let appends = fcntl_getfl(target).is_ok_and(|flags| flags.contains(OFlags::APPEND));
        reads_only && !appends && tell(target).is_ok_and(|to| to <= from)
    }
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.operand.as_fd()
    }
}
