//! Descriptors that the process was given, and how the programs that it starts begin.

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::{self, Errno, FdFlags};

pub(crate) fn take(number: i32) -> io::Result<OwnedFd> {
    inherited(number)?;
    // SAFETY: nobody in this process owns a descriptor without FD_CLOEXEC: the standard library and
    // our crates open all with it. Setting the flag below makes this the only time it is taken.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    io::fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
    Ok(fd)
}

pub(crate) fn duplicate(number: i32) -> io::Result<OwnedFd> {
    io::fcntl_dupfd_cloexec(inherited(number)?, 3)
}

/// It exists, and was not opened by this process.
fn inherited<'a>(number: i32) -> io::Result<BorrowedFd<'a>> {
    if number < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: the number is not -1, and the kernel answers EBADF if nothing is open under it. Nobody
    // closes an inherited descriptor before it is taken.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    match io::fcntl_getfd(fd.as_fd())?.contains(FdFlags::CLOEXEC) {
        true => Err(Errno::BADF),
        false => Ok(fd),
    }
}

pub(crate) fn in_new_session(command: &mut Command, terminal: bool) {
    let begin = move || {
        rustix::process::setsid()?;
        if terminal {
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
        }
        Ok(())
    };
    // SAFETY: setsid and ioctl are all that the child calls between fork and exec, and both are
    // async-signal-safe; nothing is allocated, not even for an error, which is a number.
    unsafe { command.pre_exec(begin) };
}
