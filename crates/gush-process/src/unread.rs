//! How much of a pipe a program has left unread, which is known once the program has ended.
//!
//! The bytes in a pipe are gone with the pipe's last descriptor. So a reading end of our own is
//! opened once all is written, when nobody can wait for this reader any more.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{self, ioctl_fionread, retry_on_intr};

/// Another description of the pipe of `end` (proc(5), /proc/PID/fd).
fn another_end(end: impl AsFd, access: OFlags) -> io::Result<OwnedFd> {
    let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC;
    open(format!("/proc/self/fd/{}", end.as_fd().as_raw_fd()), flags, Mode::empty())
}

/// Opens another reading end of the pipe that `writing_end` writes, for [`unread_bytes`]: to be
/// called when all is written, and before the writing end is closed.
///
/// # Errors
/// That of open(2), such as ENOENT without a mounted /proc, and ENXIO for a socket.
///
/// ```
/// use std::io::{Read, Write};
///
/// let (mut reader, mut writer) = std::io::pipe()?;
/// writer.write_all(b"three more")?;
/// let kept = gush_process::reading_end(&writer)?;
/// drop(writer);
/// reader.read_exact(&mut [0; 6])?;
/// drop(reader);
/// assert_eq!(gush_process::unread_bytes(kept), Some(4));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn reading_end(writing_end: impl AsFd) -> io::Result<OwnedFd> {
    another_end(writing_end, OFlags::RDONLY)
}

/// How many bytes are in the pipe that `reading_end` is the last reader of; nothing where another
/// reader may still take them. There is an example at [`reading_end`].
pub fn unread_bytes(reading_end: OwnedFd) -> Option<u64> {
    // Only a writing end reports whether there are other readers: POLLERR (poll(2)).
    let writing_end = another_end(&reading_end, OFlags::WRONLY).ok()?;
    let bytes = ioctl_fionread(&reading_end).ok()?;
    drop(reading_end);
    let mut looked = [PollFd::new(&writing_end, PollFlags::empty())];
    let no_wait = Timespec { tv_sec: 0, tv_nsec: 0 };
    retry_on_intr(|| poll(&mut looked, Some(&no_wait))).ok()?;
    looked[0].revents().contains(PollFlags::ERR).then_some(bytes)
}
