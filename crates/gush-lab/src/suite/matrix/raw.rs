//! Plain system calls, as the experiment of 2007 made them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use gush::Errno;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io;
use rustix::pipe::{PipeFlags, SpliceFlags};

/// A call that was refused, and how many bytes had arrived before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) call: &'static str,
    pub(super) errno: Errno,
    pub(super) delivered_bytes: u64,
}

/// A loop of one or two system calls, as [`direct`].
pub(super) type Calls = fn(BorrowedFd<'_>, BorrowedFd<'_>, u64, usize) -> Result<u64, Refused>;

/// Moves at most `bytes`, at most `call_bytes` a call, between ends that are non-blocking where they can wait; answers how many
/// arrived. A splice of 0 is taken for the end.
pub(super) fn direct(
    source: BorrowedFd<'_>,
    target: BorrowedFd<'_>,
    bytes: u64,
    call_bytes: usize,
) -> Result<u64, Refused> {
    let mut moved = 0;
    while moved < bytes {
        let got = splice(
            source,
            target,
            &[(source, PollFlags::IN), (target, PollFlags::OUT)],
            bytes - moved,
            call_bytes,
        )
        .map_err(|errno| Refused { call: "splice", errno, delivered_bytes: moved })?;
        // The end, or a kernel that says so falsely: the count shows which.
        if got == 0 {
            break;
        }
        moved += got;
    }
    Ok(moved)
}

/// As [`direct`], into a pipe and out of it.
pub(super) fn through_pipe(
    source: BorrowedFd<'_>,
    target: BorrowedFd<'_>,
    bytes: u64,
    call_bytes: usize,
) -> Result<u64, Refused> {
    let mut moved = 0;
    let refused = |call, errno, delivered_bytes| Refused { call, errno, delivered_bytes };
    let (read_end, write_end): (OwnedFd, OwnedFd) =
        rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(|errno| refused("pipe2", errno, 0))?;
    // Larger is faster, and smaller is no error.
    let _ = rustix::pipe::fcntl_setpipe_size(&write_end, 1 << 20);
    while moved < bytes {
        let most = bytes - moved;
        let mut held =
            splice(source, write_end.as_fd(), &[(source, PollFlags::IN)], most, call_bytes)
                .map_err(|errno| refused("splice into the pipe", errno, moved))?;
        if held == 0 {
            break;
        }
        while held > 0 {
            let put =
                splice(read_end.as_fd(), target, &[(target, PollFlags::OUT)], held, call_bytes)
                    .map_err(|errno| refused("splice out of the pipe", errno, moved))?;
            if put == 0 {
                return Err(refused("splice out of the pipe", Errno::IO, moved));
            }
            held -= put;
            moved += put;
        }
    }
    Ok(moved)
}

/// An end, and the readiness to wait for.
type Readiness<'fd> = (BorrowedFd<'fd>, PollFlags);

/// One splice, as soon as the ends allow; after `EAGAIN` the ends of `waits` are waited for.
fn splice(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    waits: &[Readiness<'_>],
    most: u64,
    call_bytes: usize,
) -> io::Result<u64> {
    let len = usize::try_from(most).unwrap_or(usize::MAX).min(call_bytes);
    loop {
        match rustix::pipe::splice(from, None, to, None, len, SpliceFlags::NONBLOCK) {
            Ok(moved) => return Ok(moved as u64),
            Err(Errno::INTR) => {}
            // EAGAIN does not name a side, so each that could be meant is looked at.
            Err(Errno::AGAIN) => wait(waits),
            Err(errno) => return Err(errno),
        }
    }
}

/// Waits a moment for the end that is not ready; where all seem to be, for anything to change.
fn wait(ends: &[Readiness<'_>]) {
    const MOMENT_MS: i64 = 20;
    match ends.iter().find(|(fd, events)| !is_ready(*fd, *events, 0)) {
        Some((fd, events)) => drop(is_ready(*fd, *events, MOMENT_MS)),
        // All are ready, and yet the call would not go on (a TCP socket at its urgent mark): a pause, not a spin.
        None => std::thread::sleep(Duration::from_micros(50)),
    }
}

/// Is one of `events`, an error or the end there within `milliseconds`?
pub(super) fn is_ready(fd: BorrowedFd<'_>, events: PollFlags, milliseconds: i64) -> bool {
    let timeout = Timespec { tv_sec: 0, tv_nsec: milliseconds * 1_000_000 };
    let mut fds = [PollFd::from_borrowed_fd(fd, events)];
    matches!(rustix::event::poll(&mut fds, Some(&timeout)), Ok(1..))
}
