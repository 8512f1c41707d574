//! Descriptors that the process was given, and how the programs that it starts begin.

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::{self, Errno, FdFlags};

use crate::start;

/// The standard ones always have their users: the standard library's streams.
const FIRST: usize = 3;

/// Held while a descriptor is looked up and taken or duplicated, so that it is taken once, and not away
/// from under a duplication.
fn given() -> MutexGuard<'static, ()> {
    static GIVEN: Mutex<()> = Mutex::new(());
    GIVEN.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn take(number: i32) -> io::Result<OwnedFd> {
    let _given = given();
    let index = usize::try_from(number).ok().filter(|index| *index >= FIRST).ok_or(Errno::BADF)?;
    inherited(index, number)?;
    start::claim(index);
    // SAFETY: it was open before any code of this process ran, nobody has made it close-on-exec as every
    // owner here does, and the claim makes this the only time that it gets an owner.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    io::fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
    Ok(fd)
}

pub(crate) fn duplicate(number: i32) -> io::Result<OwnedFd> {
    let _given = given();
    let index = usize::try_from(number).map_err(|_| Errno::BADF)?;
    io::fcntl_dupfd_cloexec(inherited(index, number)?, 3)
}

/// It was given to this process, and has no owner yet. To be called with [`given`] locked.
fn inherited<'a>(index: usize, number: i32) -> io::Result<BorrowedFd<'a>> {
    if !start::is_given(index) {
        return Err(Errno::BADF);
    }
    // SAFETY: the number is not negative. It is open, as nobody owns it who could close it; should
    // somebody have closed it against the rules, the kernel answers EBADF.
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
