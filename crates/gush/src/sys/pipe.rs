//! Calls on pipes: making, sizing, splicing.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io;
use rustix::pipe::{self, IoSliceRaw, PipeFlags, SpliceFlags};

use super::Call;
use super::seam::{plain, sized};

pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    plain(Call::Pipe, || pipe::pipe_with(PipeFlags::CLOEXEC))
}

/// `F_SETPIPE_SZ`: answers the capacity that the kernel made of it (fcntl(2)).
pub(crate) fn set_pipe_size(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<usize> {
    plain(Call::SetPipeSize, || pipe::fcntl_setpipe_size(fd, bytes))
}

pub(crate) fn splice(
    from: BorrowedFd<'_>,
    from_at: Option<&mut u64>,
    to: BorrowedFd<'_>,
    to_at: Option<&mut u64>,
    len: usize,
    flags: SpliceFlags,
) -> io::Result<usize> {
    sized(Call::Splice, len, |len| pipe::splice(from, from_at, to, to_at, len, flags))
}

/// Hands pages to a pipe.
///
/// # Safety
/// `from..from + len` must stay mapped, and must not be written, as long as any pipe, socket or
/// other holder of the pages may still read them (vmsplice(2), invariant 4).
pub(crate) unsafe fn vmsplice(
    to: BorrowedFd<'_>,
    from: *const u8,
    len: usize,
    flags: SpliceFlags,
) -> io::Result<usize> {
    sized(Call::Vmsplice, len, |len| {
        // SAFETY: the slice only names the pages for the kernel, and the caller keeps them as lent.
        let slice = unsafe { std::slice::from_raw_parts(from, len) };
        // SAFETY: promised by the caller.
        unsafe { pipe::vmsplice(to, &[IoSliceRaw::from_slice(slice)], flags) }
    })
}

/// Duplicates what is in one pipe into another, without taking it (tee(2)).
pub(crate) fn tee(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    len: usize,
    flags: SpliceFlags,
) -> io::Result<usize> {
    sized(Call::Tee, len, |len| pipe::tee(from, to, len, flags))
}

/// Waits for any of `fds`; answers how many are ready.
pub(crate) fn poll(fds: &mut [PollFd<'_>], timeout: Option<&Timespec>) -> io::Result<usize> {
    plain(Call::Poll, || rustix::event::poll(fds, timeout))
}

/// Is one of `events` (or an error, or the end) there now?
pub(crate) fn is_ready(fd: BorrowedFd<'_>, events: PollFlags) -> io::Result<bool> {
    let mut fds = [PollFd::from_borrowed_fd(fd, events)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).map(|ready| ready > 0)
}
