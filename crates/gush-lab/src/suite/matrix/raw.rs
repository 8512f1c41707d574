//! splice(2) between two ends as they are, as the experiment of 2007 made it.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use gush::Errno;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::pipe::SpliceFlags;

/// An end, and the readiness to wait for.
type Readiness<'fd> = (BorrowedFd<'fd>, PollFlags);

/// Moves at most `bytes`, at most `call_bytes` a call, between ends that are non-blocking where
/// they can wait; returns how many arrived. A splice of 0 is taken for the end.
///
/// # Errors
/// The call's, with the bytes that had arrived before.
pub(super) fn splice_all(
    source: BorrowedFd<'_>,
    target: BorrowedFd<'_>,
    bytes: u64,
    call_bytes: usize,
) -> Result<u64, (Errno, u64)> {
    let mut moved = 0;
    while moved < bytes {
        let len = usize::try_from(bytes - moved).unwrap_or(usize::MAX).min(call_bytes);
        match rustix::pipe::splice(source, None, target, None, len, SpliceFlags::NONBLOCK) {
            // The end, or a kernel that says so falsely: the count shows which.
            Ok(0) => break,
            Ok(some) => moved += some as u64,
            Err(Errno::INTR) => {}
            // EAGAIN does not name a side, so each that could be meant is looked at.
            Err(Errno::AGAIN) => wait(&[(source, PollFlags::IN), (target, PollFlags::OUT)]),
            Err(errno) => return Err((errno, moved)),
        }
    }
    Ok(moved)
}

/// Waits a moment for the end that is not ready; where all seem to be, for anything to change.
fn wait(ends: &[Readiness<'_>]) {
    const MOMENT_MS: i64 = 20;
    match ends.iter().find(|(fd, events)| !is_ready(*fd, *events, 0)) {
        Some((fd, events)) => drop(is_ready(*fd, *events, MOMENT_MS)),
        // All are ready, and yet the call would block (a TCP socket at its urgent mark): pause.
        None => std::thread::sleep(Duration::from_micros(50)),
    }
}

/// Is one of `events`, an error or the end there within `milliseconds`?
pub(super) fn is_ready(fd: BorrowedFd<'_>, events: PollFlags, milliseconds: i64) -> bool {
    let timeout = Timespec { tv_sec: 0, tv_nsec: milliseconds * 1_000_000 };
    let mut fds = [PollFd::from_borrowed_fd(fd, events)];
    matches!(rustix::event::poll(&mut fds, Some(&timeout)), Ok(1..))
}
