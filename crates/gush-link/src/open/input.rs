//! The pipe that a program reads: how much of its input the program has left unread.
//!
//! What is in a pipe is gone with the pipe's last descriptor. So a reading end of our own is opened once all is written, when
//! nobody can wait for this reader any more.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use gush_net::Conduit;
use rustix::event::PollFlags;
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
    /// So many bytes of all.
    Exactly(u64),
    /// So many, and more had not been written.
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
        let reader = self.opened(OFlags::RDONLY, self.number);
        if let Some(reader) = reader {
            let _ = self.reader.set(reader);
        }
    }

    /// Nobody reads any more, and not all is written; the conduit is still open.
    pub fn is_left(&self, conduit: &Conduit) {
        if let Some(bytes) = conduit.write_fd().and_then(|fd| ioctl_fionread(fd).ok()) {
            let _ = self.left_bytes.set(bytes);
        }
    }

    /// What nobody has read, once the program has exited; nothing where that cannot be known, as where another process still reads.
    pub fn unread(mut self) -> Option<Unread> {
        if let Some(&bytes) = self.left_bytes.get() {
            return Some(Unread::AtLeast(bytes)).filter(|_| bytes > 0);
        }
        let reader = self.reader.take()?;
        // Only a writing end tells whether there are other readers (POLLERR, poll(2)).
        let writer = self.opened(OFlags::WRONLY, reader.as_raw_fd())?;
        let bytes = ioctl_fionread(&reader).ok().filter(|bytes| *bytes > 0)?;
        drop(reader);
        let told = gush::poll_now(&writer.as_fd(), PollFlags::empty()).ok()?;
        told.contains(PollFlags::ERR).then_some(Unread::Exactly(bytes))
    }

    /// Another descriptor of the pipe that `number` belongs to; none where the number has become another's.
    fn opened(&self, access: OFlags, number: RawFd) -> Option<OwnedFd> {
        let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let fd = open(format!("/proc/self/fd/{number}"), flags, Mode::empty()).ok()?;
        let is_same = fstat(&fd).is_ok_and(|found| is_pipe(&found) && inode(&found) == self.inode);
        is_same.then_some(fd)
    }
}

fn is_pipe(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode).is_fifo()
}

fn inode(found: &Stat) -> (u64, u64) {
    (found.st_dev, found.st_ino)
}
