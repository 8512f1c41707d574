//! Fat slots: bytes written into a Unix stream socket come out in pieces of up to 32 KiB, one a
//! slot, instead of the 4 KiB of a write into the pipe (`UNIX_SKB_FRAGS_SZ` of
//! `net/unix/af_unix.c`; tee and splice between pipes keep them).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{self, Errno};
use rustix::pipe::SpliceFlags;

use crate::sys::{self, Call};

/// The bytes that one slot holds when they come out of a socket.
pub(crate) const FAT_SLOT_BYTES: usize = 32 << 10;

/// Room for so many bytes inside the socket; the kernel counts double, for its own book-keeping.
const SEND_BUFFER_BYTES: usize = 1 << 20;

/// A private pair of sockets, and how many bytes lie between them.
#[derive(Debug)]
pub(crate) struct Fattener {
    into: OwnedFd,
    out_of: OwnedFd,
    held_bytes: usize,
    /// The process that made the pair.
    generation: u32,
}

impl Fattener {
    /// # Errors
    /// The denied call and its answer: `EMFILE`, `ENFILE`, or `EPERM` and `EACCES` where sockets
    /// are denied; splice(2)'s where that is.
    pub(crate) fn new() -> Result<Self, (Call, Errno)> {
        let (into, out_of) = sys::socket::pair().map_err(|errno| (Call::Socketpair, errno))?;
        // Capped by net.core.wmem_max; less room only means more calls.
        let _ = sys::socket::set_send_buffer(into.as_fd(), SEND_BUFFER_BYTES);
        let mut fattener =
            Self { into, out_of, held_bytes: 0, generation: sys::fork::generation() };
        // Asked at once: bytes that cannot be spliced on would have to be read back mid-stream.
        fattener.try_splice()?;
        Ok(fattener)
    }

    /// Passes one byte into a private pipe: a filter may allow sockets and deny splice(2).
    fn try_splice(&mut self) -> Result<(), (Call, Errno)> {
        let (_read_end, write_end) = sys::pipe::pipe().map_err(|errno| (Call::Pipe, errno))?;
        self.take(b"?").map_err(|errno| (Call::Send, errno))?;
        loop {
            match self.pass_on(write_end.as_fd()) {
                Err(Errno::INTR) => {}
                answer => return answer.map(drop).map_err(|errno| (Call::Splice, errno)),
            }
        }
    }

    /// Takes bytes out again by a read, where they cannot be spliced any more.
    pub(crate) fn take_back(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let most = bytes.len().min(self.held_bytes);
        let back = sys::data::read(self.out_of.as_fd(), &mut bytes[..most])?;
        self.held_bytes -= back;
        Ok(back)
    }

    /// May this process use the pair? After fork(2) the bytes inside may be the parent's.
    pub(crate) fn is_own(&self) -> bool {
        self.generation == sys::fork::generation()
    }

    /// Bytes taken in and not yet passed on.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Takes in as many bytes as there is room for; 0 when there is none.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match sys::data::send_nowait(self.into.as_fd(), bytes) {
            Ok(taken) => {
                self.held_bytes += taken;
                Ok(taken)
            }
            // A full socket is no error here: the caller passes bytes on, and so makes room.
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(errno) => Err(errno),
        }
    }

    /// Splices the socket's bytes into a pipe; `EAGAIN` when the pipe is full.
    pub(crate) fn pass_on(&mut self, pipe: BorrowedFd<'_>) -> io::Result<usize> {
        // An empty socket would answer EAGAIN as a full pipe does.
        if self.held_bytes == 0 {
            return Ok(0);
        }
        let passed = sys::pipe::splice(
            self.out_of.as_fd(),
            None,
            pipe,
            None,
            self.held_bytes,
            SpliceFlags::NONBLOCK,
        )?;
        self.held_bytes -= passed;
        Ok(passed)
    }
}
