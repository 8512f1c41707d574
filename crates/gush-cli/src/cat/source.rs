//! An operand of `cat`: a file by name, or standard input.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{FileType, OFlags, Stat, fcntl_getfl, fstat, tell};
use rustix::io::Errno;

/// An open operand.
pub struct Source {
    file: Option<File>,
    stat: Stat,
}

impl Source {
    /// Opens `name`; `-` is standard input.
    ///
    /// # Errors
    /// The error of open(2) or fstat(2), and `EISDIR` for a directory.
    pub fn open(name: &OsStr) -> io::Result<Self> {
        let is_input = name == "-";
        if is_input && gush_process::was_closed(0) || gush_process::closed_at(name).is_some() {
            return Err(Errno::BADF.into());
        }
        let file = if is_input { None } else { Some(File::open(name)?) };
        let stat = fstat(fd_of(file.as_ref()))?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            return Err(Errno::ISDIR.into());
        }
        Ok(Self { file, stat })
    }

    /// Whether the operand is a regular file.
    pub fn is_regular(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::RegularFile
    }

    /// Whether the operand is the regular file of `stat`.
    pub fn is(&self, stat: &Stat) -> bool {
        self.is_regular() && (self.stat.st_dev, self.stat.st_ino) == (stat.st_dev, stat.st_ino)
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
        fd_of(self.file.as_ref())
    }
}

fn fd_of(file: Option<&File>) -> BorrowedFd<'_> {
    file.map_or(rustix::stdio::stdin(), AsFd::as_fd)
}
