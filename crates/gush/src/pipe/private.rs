//! A pipe of our own, through which pages go from one descriptor to another.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{self, Errno};
use rustix::pipe::SpliceFlags;

use super::grow;
use crate::port::Port;
use crate::sys;

/// Both ends of a private pipe, and how many bytes are inside.
///
/// Capacity counts slots, not bytes (`struct pipe_buffer` of `fs/pipe.c`), and `EAGAIN` from a
/// splice may mean "source empty" or "pipe full". So the pipe is filled only when empty.
#[derive(Debug)]
pub struct Pipe {
    read_end: OwnedFd,
    write_end: OwnedFd,
    capacity_bytes: usize,
    held_bytes: u64,
}

impl Pipe {
    /// A pipe of `wanted_bytes`, or as much as permitted; never less than a new one (64 KiB).
    ///
    /// A pipe grows only while a sixteenth of the user's memory for pipes stays free.
    ///
    /// # Errors
    /// `EMFILE` or `ENFILE` from pipe2(2); a refused size is no error, the pipe is smaller then.
    pub fn new(wanted_bytes: usize) -> io::Result<Self> {
        let (read_end, write_end) = sys::pipe::pipe()?;
        let capacity_bytes = grow(write_end.as_fd(), wanted_bytes)?;
        Ok(Self { read_end, write_end, capacity_bytes, held_bytes: 0 })
    }

    /// A pipe of another process, by both its ends.
    ///
    /// # Errors
    /// `EBADF` if they are no pipe's; `EINVAL` if they are those of two.
    pub fn of_ends(read_end: OwnedFd, write_end: OwnedFd) -> io::Result<Self> {
        let capacity_bytes = sys::pipe::pipe_size(write_end.as_fd())?;
        let held_bytes = sys::pipe::unread_bytes(read_end.as_fd())?;
        let [read, write] = [&read_end, &write_end].map(|end| sys::file::fstat(end.as_fd()));
        if read?.st_ino != write?.st_ino {
            return Err(Errno::INVAL);
        }
        Ok(Self { read_end, write_end, capacity_bytes, held_bytes })
    }

    /// The capacity in bytes where every slot holds one page.
    #[must_use]
    pub fn capacity_bytes(&self) -> usize {
        self.capacity_bytes
    }

    /// Shrinks an empty pipe, so that the user's others may grow; returns whether the kernel
    /// agreed.
    ///
    /// Pages are counted by user, not by process (`pipe-user-pages-soft`, pipe(7)).
    pub fn shrink(&mut self, wanted_bytes: usize) -> bool {
        if self.is_empty()
            && wanted_bytes < self.capacity_bytes
            && let Ok(bytes) = sys::pipe::set_pipe_size(self.write_end.as_fd(), wanted_bytes)
        {
            self.capacity_bytes = bytes;
        }
        self.capacity_bytes <= wanted_bytes
    }

    /// Is the pipe empty?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held_bytes == 0
    }

    /// The bytes in the pipe.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    pub(crate) fn read_end(&self) -> BorrowedFd<'_> {
        self.read_end.as_fd()
    }

    pub(crate) fn write_end(&self) -> BorrowedFd<'_> {
        self.write_end.as_fd()
    }

    /// Counts bytes put into the write end by other means than [`Pipe::fill`].
    pub(crate) fn put(&mut self, bytes: usize) {
        self.held_bytes += bytes as u64;
    }

    /// Counts bytes taken out of the read end by other means than [`Pipe::read_out`].
    pub(crate) fn gone(&mut self, bytes: usize) {
        self.held_bytes = self.held_bytes.saturating_sub(bytes as u64);
    }

    /// The call of [`Pipe::fill`] alone: the caller counts by [`Pipe::put`].
    pub(crate) fn splice_in(&self, source: &mut Port<'_>, most: usize) -> io::Result<usize> {
        let (to, flags) = (self.write_end.as_fd(), SpliceFlags::NONBLOCK);
        let from = *source;
        let spliced = from.before_last_offset(most, |most| {
            sys::pipe::splice(from.fd, source.offset_mut(), to, None, most, flags)
        });
        source.ended_by_slave(spliced)
    }

    /// Splices at most `most` bytes into a port; the caller counts by [`Pipe::gone`].
    pub(crate) fn splice_out(&self, target: &mut Port<'_>, most: u64) -> io::Result<usize> {
        // From an empty pipe nothing is asked, so that `EAGAIN` can only be the target's.
        let most = usize::try_from(most.min(self.held_bytes)).unwrap_or(usize::MAX);
        let (from, most) = (self.read_end.as_fd(), target.unheld_bytes(most));
        sys::pipe::splice(from, None, target.fd, target.offset_mut(), most, SpliceFlags::NONBLOCK)
    }

    /// The call of [`Pipe::read_out`] alone: the caller counts by [`Pipe::gone`].
    pub(crate) fn read_held(&self, buf: &mut [u8]) -> io::Result<usize> {
        // A read of an empty pipe would wait for ever: the write end is ours, and open.
        let most = usize::try_from(self.held_bytes).unwrap_or(usize::MAX).min(buf.len());
        if most == 0 { Ok(0) } else { sys::data::read(self.read_end.as_fd(), &mut buf[..most]) }
    }

    /// Splices at most `most` bytes from a port into the pipe, which must be empty: else `EAGAIN`
    /// could mean "pipe full" as well as "nothing there".
    ///
    /// # Errors
    /// `EAGAIN` when the source has nothing now; else the kernel's answer.
    pub fn fill(&mut self, source: &mut Port<'_>, most: usize) -> io::Result<usize> {
        debug_assert!(self.is_empty(), "EAGAIN would be ambiguous");
        let got = self.splice_in(source, most)?;
        self.put(got);
        Ok(got)
    }

    /// Reads bytes out of the pipe, to deliver or to drop them; 0 when the pipe is empty.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn read_out(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let got = self.read_held(buf)?;
        self.gone(got);
        Ok(got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::page_bytes;

    #[test]
    fn a_pipe_is_as_large_as_permitted() {
        let pipe = Pipe::new(usize::MAX / 4).expect("a refused size is no error");
        assert!(pipe.capacity_bytes() >= 2 * page_bytes());
    }

    #[test]
    fn a_pipe_is_never_made_smaller_than_it_is() {
        let pipe = Pipe::new(1).expect("pipe");
        assert!(pipe.capacity_bytes() >= 2 * page_bytes());
    }
}
