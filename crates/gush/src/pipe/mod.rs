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
pub use pool::{PipeLoan, Pool, PoolUsage};
pub use reservoir::Reservoir;
pub use technique::Technique;
pub use writer::{Writer, WriterError};

use crate::endpoint::Endpoint;
use crate::kernel::{Kernel, page_bytes};
use crate::port::Port;
use crate::sys;

/// Both ends of a private pipe, and how many bytes are inside.
///
/// Capacity counts slots, not bytes (`struct pipe_buffer` of `fs/pipe.c`), and `EAGAIN` from a splice
/// into a pipe may mean "source empty" or "pipe full". The pipe is therefore only ever filled when
/// empty, and emptied before the next filling.
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
    /// A pipe of `wanted_bytes`, or of as much as the kernel permits; never smaller than a new pipe (64 KiB, pipe(7)).
    ///
    /// A pipe grows only while a sixteenth of the user's memory for pipes (`/proc/sys/fs/pipe-user-pages-soft`) stays free.
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

    /// Makes an empty pipe smaller, so that the user's other pipes may be larger; answers whether the kernel agreed.
    ///
    /// Pages are counted by user, not by process (`pipe-user-pages-soft`, pipe(7)).
    ///
    /// ```
    /// let mut pipe = gush::pipe::Pipe::new(65536)?;
    /// assert!(pipe.shrink(8192));
    /// assert!(pipe.capacity_bytes() <= 8192);
    /// # Ok::<(), gush::Errno>(())
    /// ```
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

    /// Counts bytes taken out of the read end by other means than [`Pipe::empty_into`].
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

    /// The call of [`Pipe::empty_into`] alone: the caller counts by [`Pipe::gone`].
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
    ///
    /// ```
    /// use std::io::Write;
    /// let (source, mut feeder) = std::io::pipe()?;
    /// feeder.write_all(b"passes by")?;
    /// let target = tempfile::tempfile()?;
    ///
    /// let mut pipe = gush::pipe::Pipe::new(65536)?;
    /// assert_eq!(pipe.fill(&mut gush::Port::of(&source)?, 65536)?, 9);
    /// assert_eq!(pipe.empty_into(&mut gush::Port::of(&target)?, 65536)?, 9);
    /// assert!(pipe.is_empty());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn fill(&mut self, source: &mut Port<'_>, most: usize) -> io::Result<usize> {
        debug_assert!(self.is_empty(), "EAGAIN would be ambiguous");
        let got = self.splice_in(source, most)?;
        self.put(got);
        Ok(got)
    }

    /// Splices at most `most` bytes out of the pipe into a port.
    ///
    /// # Errors
    /// `EAGAIN` when the target has no room now; else the kernel's answer.
    pub fn empty_into(&mut self, target: &mut Port<'_>, most: u64) -> io::Result<usize> {
        let put = self.splice_out(target, most)?;
        self.gone(put);
        Ok(put)
    }

    /// Reads bytes out of the pipe, to deliver or to drop them; 0 when the pipe is empty.
    ///
    /// # Errors
    /// The kernel's error.
    ///
    /// ```
    /// use std::io::Write;
    /// let (source, mut feeder) = std::io::pipe()?;
    /// feeder.write_all(b"looked at")?;
    /// let mut pipe = gush::pipe::Pipe::new(65536)?;
    /// pipe.fill(&mut gush::Port::of(&source)?, 65536)?;
    /// let mut text = [0; 16];
    /// assert_eq!(pipe.read_out(&mut text)?, 9);
    /// assert_eq!(&text[..9], b"looked at");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn read_out(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let got = self.read_held(buf)?;
        self.gone(got);
        Ok(got)
    }
}

/// Writes once, without waiting, with or without O_NONBLOCK.
pub(crate) fn write_now(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    Port::new(&Endpoint::of_borrowed(fd)?, None).write(bytes)
}

/// The usual size of a pipe: as large as an unprivileged process may have (`/proc/sys/fs/pipe-max-size`), and as
/// fast as any larger.
pub(crate) const USUAL_BYTES: usize = 1 << 20;

/// Of the user's memory for pipes, a pipe of somebody else gets one part in so many: the pipe stays
/// so large, and the user's other programs need theirs.
const SHARE_OF_USER: usize = 16;

/// The size that a pipe of somebody else is asked to take: as the user named the size, or else a
/// modest part of `wanted_bytes`.
pub(crate) fn asked_bytes(named_bytes: Option<usize>, wanted_bytes: usize) -> usize {
    let share_bytes = || Kernel::get().pipe_user_bytes().map(|all| all / SHARE_OF_USER);
    named_bytes.unwrap_or_else(|| wanted_bytes.min(share_bytes().unwrap_or(usize::MAX)))
}

/// Makes a pipe of somebody else as large as a move would, for bytes that are read and written by hand: 1 MiB, but at most a
/// sixteenth of the user's memory for pipes, and only while another sixteenth of that memory stays free for the user's other
/// programs. The pipe stays so.
///
/// ```
/// let (reader, _writer) = std::io::pipe()?;
/// assert!(gush::pipe::enlarge(&reader)? >= 65_536);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// `EBADF` for a descriptor of anything but a pipe.
pub fn enlarge(pipe: &impl AsFd) -> io::Result<usize> {
    grow(pipe.as_fd(), asked_bytes(None, USUAL_BYTES))
}

/// Pages for pipes that nothing may use up: a pipe that grows beside them leaves as many to the user's other programs.
///
/// The kernel counts the pages of all the user's processes and tells nobody the count, but refuses F_SETPIPE_SZ past the limit
/// (`pipe_set_size` of fs/pipe.c). So pipes of these pages are made, and closed once the other pipe has grown.
struct Reserve {
    _pipes: Vec<(OwnedFd, OwnedFd)>,
}

impl Reserve {
    /// Of the user's memory for pipes, one part in so many.
    const SHARE: usize = 16;

    /// Where the limit was raised, more pipes than these would cost more time than they spare.
    const MOST_PIPES: usize = 4;

    /// Holds the reserve, or answers none where the user has no such pages left. Nothing is held where no limit applies.
    fn hold() -> Option<Self> {
        let kernel = Kernel::get();
        let mut pipes = Vec::new();
        let mut missing_bytes = match kernel.pipe_user_bytes() {
            Some(all_bytes) if !kernel.exceeds_pipe_limits() => all_bytes / Self::SHARE,
            _ => 0,
        };
        while missing_bytes > 0 && pipes.len() < Self::MOST_PIPES {
            let (read_end, write_end) = sys::pipe::pipe().ok()?;
            let asked_bytes = missing_bytes.clamp(page_bytes(), kernel.pipe_max_bytes());
            // Past the limit a pipe is born with two slots, and may not grow.
            let held_bytes = sys::pipe::set_pipe_size(write_end.as_fd(), asked_bytes).ok()?;
            missing_bytes = missing_bytes.saturating_sub(held_bytes);
            pipes.push((read_end, write_end));
        }
        Some(Self { _pipes: pipes })
    }
}

/// Makes any pipe as large as `wanted_bytes` or as permitted, beside the [`Reserve`]; answers the capacity.
///
/// A refused size (EPERM: above `pipe-max-size` or past the user's page limit) is halved
/// until the pipe is as large already.
///
/// # Errors
/// `EBADF` for any other descriptor.
pub(crate) fn grow(pipe: BorrowedFd<'_>, wanted_bytes: usize) -> io::Result<usize> {
    let present_bytes = sys::pipe::pipe_size(pipe)?;
    let mut wanted_bytes = wanted_bytes.max(page_bytes());
    if wanted_bytes <= present_bytes {
        return Ok(present_bytes);
    }
    let Some(_reserve) = Reserve::hold() else { return Ok(present_bytes) };
    while wanted_bytes > present_bytes {
        match sys::pipe::set_pipe_size(pipe, wanted_bytes) {
            Ok(bytes) => return Ok(bytes),
            // A larger size needs privilege (`/proc/sys/fs/pipe-max-size`, fcntl(2)).
            Err(Errno::PERM) if wanted_bytes > Kernel::get().pipe_max_bytes() => {
                wanted_bytes = Kernel::get().pipe_max_bytes();
            }
            // The user's pages for pipes are used up, memory is short, or the pipe holds too much: less may do.
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
