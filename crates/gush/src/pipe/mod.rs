//! Pipes: private ones, kept ones, and sound fast output into somebody else's.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{self, Errno};
use rustix::pipe::SpliceFlags;

mod buffer;
mod pool;
mod reservoir;
mod socket;
mod technique;
mod writer;

pub use buffer::Buffer;
pub use pool::Pool;
pub use reservoir::Reservoir;
pub use technique::Technique;
pub use writer::Writer;

use crate::endpoint::Endpoint;
use crate::kernel::{Kernel, page_bytes};
use crate::port::Port;
use crate::sys;

/// Both ends of a pipe that nobody else has, and how many bytes are in it.
///
/// Capacity counts slots, not bytes (`struct pipe_buffer` of `fs/pipe.c`), and `EAGAIN` from a splice
/// into a pipe may mean "source empty" or "pipe full". The pipe is therefore only ever filled when
/// empty, and emptied before it is filled again.
///
/// ```
/// let pipe = gush::pipe::Pipe::new(65536)?;
/// assert!(pipe.capacity_bytes() >= 4096);
/// assert!(pipe.is_empty());
/// # Ok::<(), gush::Errno>(())
/// ```
#[derive(Debug)]
pub struct Pipe {
    read_end: OwnedFd,
    write_end: OwnedFd,
    capacity_bytes: usize,
    held_bytes: u64,
}

impl Pipe {
    /// A pipe of `wanted_bytes`, or of as much as the kernel permits.
    ///
    /// # Errors
    /// `EMFILE` or `ENFILE` from pipe2(2); a refused size is no error, the pipe is smaller then.
    pub fn new(wanted_bytes: usize) -> io::Result<Self> {
        let (read_end, write_end) = sys::pipe::pipe()?;
        let capacity_bytes = grow(write_end.as_fd(), wanted_bytes)?;
        Ok(Self { read_end, write_end, capacity_bytes, held_bytes: 0 })
    }

    /// The capacity in bytes where every slot holds one page.
    #[must_use]
    pub fn capacity_bytes(&self) -> usize {
        self.capacity_bytes
    }

    /// Makes an empty pipe smaller, so that the user's other pipes may be larger; answers whether it is.
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

    /// Is nothing in it?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held_bytes == 0
    }

    /// The bytes in it.
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

    /// Counts what was put into the write end by other means than [`Pipe::fill`].
    pub(crate) fn put(&mut self, bytes: usize) {
        self.held_bytes += bytes as u64;
    }

    /// Splices at most `most` bytes from a port into the pipe, which must be empty: else `EAGAIN`
    /// could mean "pipe full" as well as "nothing there".
    ///
    /// # Errors
    /// `EAGAIN` when the source has nothing now; else what the kernel answered.
    pub fn fill(&mut self, source: &mut Port<'_>, most: usize) -> io::Result<usize> {
        debug_assert!(self.is_empty(), "EAGAIN would be ambiguous");
        let got = sys::pipe::splice(
            source.fd,
            source.at.as_mut(),
            self.write_end.as_fd(),
            None,
            most,
            SpliceFlags::NONBLOCK,
        )?;
        self.put(got);
        Ok(got)
    }

    /// Splices at most `most` bytes out of the pipe into a port.
    ///
    /// # Errors
    /// `EAGAIN` when the target has no room now; else what the kernel answered.
    pub fn empty_into(&mut self, target: &mut Port<'_>, most: u64) -> io::Result<usize> {
        let most = usize::try_from(most.min(self.held_bytes)).unwrap_or(usize::MAX);
        let put = sys::pipe::splice(
            self.read_end.as_fd(),
            None,
            target.fd,
            target.at.as_mut(),
            most,
            SpliceFlags::NONBLOCK,
        )?;
        self.held_bytes -= put as u64;
        Ok(put)
    }

    /// Reads bytes out of the pipe, to deliver or to drop them; 0 when it holds none.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn read_out(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.held_bytes).unwrap_or(usize::MAX).min(buf.len());
        if most == 0 {
            return Ok(0);
        }
        let got = sys::data::read(self.read_end.as_fd(), &mut buf[..most])?;
        self.held_bytes -= got as u64;
        Ok(got)
    }
}

/// Writes once, without waiting, whatever the descriptor's own flags.
pub(crate) fn write_now(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    Port::new(&Endpoint::of_borrowed(fd)?, None).write(bytes)
}

/// Makes any pipe as large as `wanted_bytes` or as permitted; answers its capacity.
///
/// A size that is refused (EPERM: above `pipe-max-size` or past the user's page limit) is halved
/// until the pipe as it stands is large enough to be kept.
///
/// # Errors
/// `EBADF` when it is no pipe.
pub(crate) fn grow(pipe: BorrowedFd<'_>, wanted_bytes: usize) -> io::Result<usize> {
    let present_bytes = rustix::pipe::fcntl_getpipe_size(pipe)?;
    let mut wanted_bytes = wanted_bytes.max(page_bytes());
    while wanted_bytes > present_bytes {
        match sys::pipe::set_pipe_size(pipe, wanted_bytes) {
            Ok(bytes) => return Ok(bytes),
            Err(Errno::PERM) if wanted_bytes > Kernel::get().pipe_max_bytes() => {
                wanted_bytes = Kernel::get().pipe_max_bytes();
            }
            Err(Errno::PERM | Errno::NOMEM | Errno::BUSY) => wanted_bytes /= 2,
            Err(errno) => return Err(errno),
        }
    }
    Ok(present_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

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
