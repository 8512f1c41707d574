//! What a program around the engine needs of its process: signals, SIGPIPE, closed or inherited
//! descriptors, sessions. For programs, not for libraries: each of these is the whole process's.
//!
//! With the feature `start` a function runs before main and notes what the process was given. Without
//! it nothing does: then nothing counts as inherited, closed, or ignored from the start.
#![allow(unsafe_code)]

#[cfg(test)]
use gush_test as _;

mod inherit;
mod limits;
mod signal;
mod start;

use std::os::fd::OwnedFd;
use std::process::Command;

use rustix::io;
pub use rustix::io::Errno;

/// Lets SIGPIPE end the process silently, as filters such as `cat` are expected to.
///
/// Rust's start-up code ignores the signal; a program that keeps it ignored sees `EPIPE` instead, and
/// so does one whose parent ignored it.
///
/// ```
/// gush_process::restore_sigpipe();
/// ```
pub fn restore_sigpipe() {
    signal::restore_sigpipe();
}

/// Was standard input (0), output (1) or error (2) closed when the process started?
///
/// Rust's start-up code puts /dev/null there, and what is written to it is lost.
///
/// # Panics
/// When `standard` is more than 2.
///
/// ```
/// assert!(!gush_process::was_closed(1));
/// ```
#[must_use]
pub fn was_closed(standard: usize) -> bool {
    start::was_closed(standard)
}

/// Runs `tidy` when SIGINT, SIGTERM or SIGHUP comes, then lets the process die of that signal.
///
/// Call it before starting other threads: the signals are blocked in this thread and in those that
/// it starts later. `tidy` runs in a thread of its own at once, even while another thread is inside
/// a long system call. Signals that are ignored now (nohup) stay ignored.
///
/// # Errors
/// `EAGAIN` when no thread could be started.
///
/// ```
/// gush_process::on_termination(|| eprintln!("removing what is half done"))?;
/// # Ok::<(), gush_process::Errno>(())
/// ```
pub fn on_termination(tidy: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let mut tidy = Some(tidy);
    on_each_termination(move |_| {
        if let Some(tidy) = tidy.take() {
            tidy();
        }
        Then::Die
    })
}

/// Which of the ending signals came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Termination {
    /// SIGINT: somebody pressed Ctrl-C.
    Interrupt,
    /// SIGTERM: somebody, or the system, asks the program to end.
    Terminate,
    /// SIGHUP: the terminal is gone.
    HangUp,
}

/// What follows an ending signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The process goes on, and the next signal is waited for.
    GoOn,
    /// The process dies of the signal.
    Die,
}

/// As [`on_termination`], and `respond` may let the process go on: a server that lets its clients finish.
///
/// # Errors
/// `EAGAIN` when no thread could be started.
///
/// ```
/// use gush_process::{Termination, Then, on_each_termination};
/// on_each_termination(|signal| match signal {
///     Termination::Terminate => Then::GoOn,
///     Termination::Interrupt | Termination::HangUp => Then::Die,
/// })?;
/// # Ok::<(), gush_process::Errno>(())
/// ```
pub fn on_each_termination(
    respond: impl FnMut(Termination) -> Then + Send + 'static,
) -> io::Result<()> {
    signal::on_termination(respond)
}

/// Lets a program that is started after [`on_each_termination`] be ended by those signals as usual.
///
/// ```
/// let mut command = std::process::Command::new("true");
/// gush_process::unblocked(&mut command);
/// assert!(command.status()?.success());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn unblocked(command: &mut Command) {
    signal::unblocked(command);
}

/// Makes a write into what nobody reads an error (`EPIPE`), for a program with more than one reader.
///
/// ```
/// gush_process::ignore_sigpipe();
/// ```
pub fn ignore_sigpipe() {
    signal::ignore_sigpipe();
}

/// Ends the process as [`restore_sigpipe`] would have had it end: silently, of SIGPIPE.
///
/// Returns if the signal was ignored when the process started.
///
/// ```no_run
/// gush_process::die_of_sigpipe();
/// ```
pub fn die_of_sigpipe() {
    signal::die_of_sigpipe();
}

/// Takes over a descriptor that the process inherited, by its number.
///
/// Inherited is what was open before main, from 3 to 1023 (0 to 2 stay with the standard library's
/// streams), and has not been made close-on-exec by somebody since. It is given once, and gets the flag, so
/// that no program that is started gets it.
///
/// # Errors
/// `EBADF` when there is no such descriptor, it was not inherited, or it has been taken.
///
/// ```
/// assert_eq!(gush_process::take_inherited(999_999).unwrap_err(), gush_process::Errno::BADF);
/// ```
pub fn take_inherited(number: i32) -> io::Result<OwnedFd> {
    inherit::take(number)
}

/// A descriptor of our own for what an inherited one refers to, 0 to 2 included; the original stays as it is.
///
/// # Errors
/// As [`take_inherited`], and `EMFILE`.
///
/// ```
/// assert_eq!(gush_process::duplicate_inherited(999_999).unwrap_err(), gush_process::Errno::BADF);
/// ```
pub fn duplicate_inherited(number: i32) -> io::Result<OwnedFd> {
    inherit::duplicate(number)
}

/// Lets a program start as the leader of a session of its own (setsid(2)), with its standard input as
/// the controlling terminal if `terminal` says so.
///
/// ```
/// let mut command = std::process::Command::new("true");
/// gush_process::in_new_session(&mut command, false);
/// assert!(command.status()?.success());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn in_new_session(command: &mut Command, terminal: bool) {
    inherit::in_new_session(command, terminal);
}

/// Raises the limit on open descriptors as far as it may be raised; programs that are started do not have it raised
/// ([`with_given_descriptor_limit`]).
///
/// ```
/// gush_process::raise_descriptor_limit();
/// ```
pub fn raise_descriptor_limit() {
    limits::raise_descriptors();
}

/// Lets a program start with the limit on open descriptors that this process was given: programs that use select(2)
/// cannot do with more than 1024.
///
/// ```
/// gush_process::raise_descriptor_limit();
/// let mut command = std::process::Command::new("true");
/// gush_process::with_given_descriptor_limit(&mut command);
/// assert!(command.status()?.success());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn with_given_descriptor_limit(command: &mut Command) {
    limits::give_back_descriptors(command);
}
