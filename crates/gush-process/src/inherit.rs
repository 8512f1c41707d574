//! Inherited descriptors, each given to one owner, and the session in which a child program starts.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::{self, Errno, FdFlags};

use crate::start;

/// The first number to give away: 0 to 2 belong to the standard library's streams.
const FIRST: usize = 3;

/// Descriptors of [`with_descriptor`] wait from here on; the numbers of programs are lower.
const FIRST_FREE: i32 = 256;

/// Locked while a descriptor is looked up and then taken or duplicated. Two threads cannot take the
/// same descriptor, and no thread takes a descriptor that another is duplicating.
fn given() -> MutexGuard<'static, ()> {
    static GIVEN: Mutex<()> = Mutex::new(());
    GIVEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes over an inherited descriptor by number.
///
/// Inherited descriptors are those from 3 to 1023 which were open before main and are not
/// close-on-exec now. (0 to 2 stay with the standard library's streams.) A descriptor is given
/// once, and becomes close-on-exec, so that child programs do not get a copy.
///
/// # Errors
/// `EBADF` when the number is not open, not inherited, or already taken.
///
/// ```
/// assert_eq!(gush_process::take_inherited(999_999).unwrap_err(), gush_process::Errno::BADF);
/// ```
pub fn take_inherited(number: i32) -> io::Result<OwnedFd> {
    let _given = given();
    let index = usize::try_from(number).ok().filter(|index| *index >= FIRST).ok_or(Errno::BADF)?;
    inherited(index, number)?;
    start::claim(index);
    // SAFETY: the descriptor was open before any code of this process ran, and is not
    // close-on-exec, as every owner here makes it. The claim gives each descriptor an owner at most
    // once.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    // Programs started from here on must not hold it open.
    io::fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
    Ok(fd)
}

/// Duplicates an inherited descriptor, 0 to 2 included. The original stays open and unchanged.
///
/// The duplicate is close-on-exec and refers to the same open file.
///
/// # Errors
/// As [`take_inherited`], and `EMFILE` when the process may open no more descriptors.
///
/// ```
/// assert_eq!(gush_process::duplicate_inherited(999_999).unwrap_err(), gush_process::Errno::BADF);
/// ```
pub fn duplicate_inherited(number: i32) -> io::Result<OwnedFd> {
    let _given = given();
    let index = usize::try_from(number).map_err(|_| Errno::BADF)?;
    io::fcntl_dupfd_cloexec(inherited(index, number)?, 3)
}

/// Borrows an inherited descriptor without an owner. The caller holds the lock of [`given`].
fn inherited<'a>(index: usize, number: i32) -> io::Result<BorrowedFd<'a>> {
    if !start::is_given(index) {
        return Err(Errno::BADF);
    }
    // SAFETY: the number is not negative. The descriptor is open, because no owner exists who could
    // close it. If somebody closed it against the rules, the kernel answers EBADF.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    match io::fcntl_getfd(fd.as_fd())?.contains(FdFlags::CLOEXEC) {
        true => Err(Errno::BADF),
        false => Ok(fd),
    }
}

/// Gives a program a copy of `fd` as its descriptor `number`, in the place of what it would have
/// there.
///
/// # Errors
/// The error of fcntl(2), `EMFILE` for instance.
///
/// ```
/// let mut command = std::process::Command::new("sh");
/// command.args(["-c", "cat <&4"]).stdout(std::process::Stdio::piped());
/// gush_process::with_descriptor(&mut command, std::fs::File::open("/dev/null")?, 4)?;
/// assert!(command.output()?.stdout.is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn with_descriptor(command: &mut Command, fd: impl AsFd, number: u32) -> io::Result<()> {
    let number = i32::try_from(number).map_err(|_| Errno::INVAL)?;
    // Not a number that another descriptor of the program has.
    let copy = io::fcntl_dupfd_cloexec(&fd, FIRST_FREE.max(number.saturating_add(1)))?;
    // Nor that of the pipe by which the child reports that it cannot start the program: while this
    // is open, the pipe gets another one.
    let occupied = io::fcntl_dupfd_cloexec(&fd, number.max(3))?;
    let held = [copy, occupied];
    let put = move || {
        // SAFETY: dup2 takes any two numbers; the first is that of a descriptor owned here.
        match unsafe { libc::dup2(held[0].as_raw_fd(), number) } {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    // SAFETY: between fork and exec the child calls dup2 alone, which is async-signal-safe. Nothing
    // is allocated, not even for an error, which is a number.
    unsafe { command.pre_exec(put) };
    Ok(())
}

/// Starts a program with another umask.
///
/// ```
/// let mut command = std::process::Command::new("/bin/sh");
/// gush_process::with_umask(command.args(["-c", "test $(umask) -eq 27"]), 0o027);
/// assert!(command.status()?.success());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn with_umask(command: &mut Command, umask: u32) {
    let set = move || {
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(umask));
        Ok(())
    };
    // SAFETY: between fork and exec the child calls umask alone, which is async-signal-safe and
    // cannot fail.
    unsafe { command.pre_exec(set) };
}

/// Makes a program start as the leader of a new session (setsid(2)). The descriptor `terminal`,
/// as the program has it, becomes the controlling terminal of the session.
///
/// ```
/// let mut command = std::process::Command::new("true");
/// gush_process::in_new_session(&mut command, None);
/// assert!(command.status()?.success());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn in_new_session(command: &mut Command, terminal: Option<BorrowedFd<'static>>) {
    let begin = move || {
        rustix::process::setsid()?;
        if let Some(terminal) = terminal {
            // Only a session leader without a terminal can take one, so after setsid(2)
            // (ioctl_tty(2)).
            rustix::process::ioctl_tiocsctty(terminal)?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec the child calls setsid and ioctl alone. Both are
    // async-signal-safe. Nothing is allocated, not even for an error, which is a number.
    unsafe { command.pre_exec(begin) };
}
