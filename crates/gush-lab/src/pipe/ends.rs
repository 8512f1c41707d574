//! The two ends: their kinds, the size of the pipe, and calls on them that do not sleep.

use std::fs::File;
use std::os::fd::BorrowedFd;

use gush::{Endpoint, Errno, Kind};
use rustix::fs::OFlags;

use super::Waiting;
use crate::Error;
use crate::procfs::reopened;

/// Is `fd` a pipe or FIFO?
pub(super) fn is_pipe(fd: BorrowedFd<'_>, name: &str) -> Result<bool, Error> {
    match Endpoint::of(&fd) {
        Ok(endpoint) => Ok(endpoint.kind() == Kind::Pipe),
        Err(_) => Err(closed(name)),
    }
}

/// The pipe anew, where calls on it must not sleep: others may share the flags of `fd`.
pub(super) fn unsleeping(
    fd: BorrowedFd<'_>,
    name: &str,
    access: OFlags,
    waiting: Waiting,
) -> Result<Option<File>, Error> {
    if !waiting.is_non_blocking() || !is_pipe(fd, name)? {
        return Ok(None);
    }
    reopened(&fd, access | OFlags::NONBLOCK).map(Some).map_err(|errno| match errno {
        // open(2): a pipe without a reader.
        Errno::NXIO => Error::failed("write failed", Errno::PIPE),
        errno => Error::failed(
            "cannot open the pipe anew for calls that do not sleep (is /proc mounted?): use --wait block or poll",
            errno,
        ),
    })
}

/// The error of a program that was started without `name`.
pub fn closed(name: &str) -> Error {
    Error::refused(format!("{name} is closed: connect the two, gush pipe write | gush pipe read"))
}

/// The error where a pipe is needed and `name` is none.
pub(super) fn no_pipe(name: &str, need: &str) -> Error {
    Error::refused(format!(
        "{name} is not a pipe, and {need}: connect the two, gush pipe write | gush pipe read"
    ))
}

/// Makes the pipe as large or small as wanted; where that is refused, as near as is permitted, and
/// says so.
pub(super) fn size(
    pipe: BorrowedFd<'_>,
    wanted_bytes: usize,
    say: &mut dyn FnMut(&str),
) -> Result<usize, Error> {
    let mut asked_bytes = wanted_bytes;
    let refusal = loop {
        match rustix::pipe::fcntl_setpipe_size(pipe, asked_bytes) {
            Ok(bytes) if asked_bytes == wanted_bytes => return Ok(bytes),
            Ok(_) => break Errno::PERM,
            Err(errno @ (Errno::PERM | Errno::NOMEM)) => {
                asked_bytes /= 2;
                if asked_bytes < rustix::param::page_size() {
                    break errno;
                }
            }
            Err(errno) => break errno,
        }
    };
    let bytes = rustix::pipe::fcntl_getpipe_size(pipe)
        .map_err(|errno| Error::failed("cannot get the size of the pipe", errno))?;
    let why = match refusal {
        Errno::PERM => {
            "more is not permitted (/proc/sys/fs/pipe-max-size, /proc/sys/fs/pipe-user-pages-soft)"
        }
        Errno::BUSY => "it holds more than that already",
        Errno::INVAL => "pipes end below that size",
        _ => "the kernel has no memory for it",
    };
    say(&format!("the pipe has {bytes} bytes instead of {wanted_bytes}: {why}"));
    Ok(bytes)
}
