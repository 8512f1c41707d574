//! An operand of `cat`: a file by name, or standard input.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{FileType, Stat, fstat, tell};
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
        if is_input && gush_process::was_closed(0) || gush_process::closed_behind(name).is_some() {
            return Err(Errno::BADF.into());
        }
        let file = if is_input { None } else { Some(File::open(name)?) };
        let stat = fstat(fd_of(file.as_ref()))?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            return Err(Errno::ISDIR.into());
        }
        Ok(Self { file, stat })
    }

    /// Is the operand a regular file, whose bytes can be read again?
    pub fn is_regular(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::RegularFile
    }

    /// Is the operand the same regular file as `target`, with bytes left? The file would be copied to itself
    /// for ever.
    pub fn would_feed_itself(&self, target: &Stat) -> bool {
        self.is_regular()
            && (self.stat.st_dev, self.stat.st_ino) == (target.st_dev, target.st_ino)
            && tell(self).is_ok_and(|position| position < self.stat.st_size as u64)
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
