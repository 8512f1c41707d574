//! Pipes: private ones, kept ones, and sound fast output into somebody else's.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{self, Errno};

mod buffer;
mod collector;
mod pool;
mod private;
mod reservoir;
mod socket;
mod technique;
mod writer;

pub use buffer::Buffer;
#[cfg(not(feature = "unstable-flow"))]
pub(crate) use pool::{PipeLoan, Pool};
#[cfg(feature = "unstable-flow")]
pub use pool::{PipeLoan, Pool, PoolUsage};
#[cfg(not(feature = "unstable-flow"))]
pub(crate) use private::Pipe;
#[cfg(feature = "unstable-flow")]
pub use private::Pipe;
pub use reservoir::Reservoir;
pub use technique::Technique;
pub use writer::{Writer, WriterError};

use crate::endpoint::Endpoint;
use crate::kernel::{Kernel, page_bytes};
use crate::port::Port;
use crate::sys;

/// Writes once, without waiting, with or without O_NONBLOCK.
pub(crate) fn write_now(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    Port::new(&Endpoint::of_borrowed(fd)?, None).write(bytes)
}

/// The usual size of a pipe: the most for an unprivileged process, and as fast as any larger.
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

/// Makes a caller's pipe as large as a move would: 1 MiB, but at most a sixteenth of the user's
/// memory for pipes, and only while another sixteenth stays free for other programs. The pipe stays
/// so.
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

/// Pages for pipes that stay free for the user's other programs.
///
/// The kernel does not report a user's count, but refuses F_SETPIPE_SZ past the limit
/// (`pipe_set_size` of fs/pipe.c). So pipes of these pages are made, and closed once the other has
/// grown.
struct Reserve {
    _pipes: Vec<(OwnedFd, OwnedFd)>,
}

impl Reserve {
    /// Of the user's memory for pipes, one part in so many.
    const SHARE: usize = 16;

    /// Where the limit was raised, more pipes than these would cost more time than they spare.
    const MOST_PIPES: usize = 4;

    /// Holds the reserve; `None` if the user has no such pages left. Without a limit nothing is
    /// held.
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

/// Makes any pipe as large as `wanted_bytes` or as permitted; returns the capacity.
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
            // The user's pages are used up, memory is short, or the pipe holds too much.
            Err(Errno::PERM | Errno::NOMEM | Errno::BUSY) => wanted_bytes /= 2,
            Err(errno) => return Err(errno),
        }
    }
    Ok(present_bytes)
}
