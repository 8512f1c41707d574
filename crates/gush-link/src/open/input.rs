//! The pipe that a program reads, and how much of it the program left unread, which a reading end
//! of ours shows ([`gush_process::unread_bytes`]). It is opened once all is written.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use gush_net::Conduit;
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, open};
use rustix::io::ioctl_fionread;

/// The pipe to a program.
#[derive(Debug)]
pub(crate) struct Input {
    /// The number of its writing end, as long as that is open.
    number: RawFd,
    inode: (u64, u64),
    /// Opened at the end of the data.
    reader: OnceLock<OwnedFd>,
    /// Unread when the program closed the pipe, before all was written.
    left_bytes: OnceLock<u64>,
}

/// What a program has not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// All was written, and this many bytes are left.
    Exactly(u64),
    /// Not all was written.
    AtLeast(u64),
}

impl Input {
    /// The pipe that a conduit writes, if it is one.
    pub fn of(conduit: &Conduit) -> Option<Self> {
        let fd = conduit.write_fd()?;
        let found = fstat(fd).ok().filter(is_pipe)?;
        let (reader, left_bytes) = (OnceLock::new(), OnceLock::new());
        Some(Self { number: fd.as_raw_fd(), inode: inode(&found), reader, left_bytes })
    }

    /// All is written, and the writing end is about to be closed.
    pub fn ends(&self) {
        // By number, since the relay has the conduit; the number may be that of another file by
        // now.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let reader = open(gush_text::fd_path(self.number), flags, Mode::empty());
        let is_ours = |reader: &OwnedFd| {
            fstat(reader).is_ok_and(|found| is_pipe(&found) && inode(&found) == self.inode)
        };
        if let Some(reader) = reader.ok().filter(is_ours) {
            let _ = self.reader.set(reader);
        }
    }

    /// There is no reader any more, before all is written.
    pub fn is_left(&self, conduit: &Conduit) {
        if let Some(bytes) = conduit.write_fd().and_then(|fd| ioctl_fionread(fd).ok()) {
            let _ = self.left_bytes.set(bytes);
        }
    }

    /// What was not read, once the program has exited. `None` also if another process still reads.
    pub fn unread(mut self) -> Option<Unread> {
        if let Some(&bytes) = self.left_bytes.get() {
            return Some(Unread::AtLeast(bytes)).filter(|_| bytes > 0);
        }
        let bytes = gush_process::unread_bytes(self.reader.take()?)?;
        Some(Unread::Exactly(bytes)).filter(|_| bytes > 0)
    }
}

fn is_pipe(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode).is_fifo()
}

fn inode(found: &Stat) -> (u64, u64) {
    (found.st_dev, found.st_ino)
}
