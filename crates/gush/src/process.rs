//! What a program around the engine needs of its process: signals.

use rustix::io;

use crate::sys::{signal, start};

/// Lets SIGPIPE end the process silently, as filters such as `cat` are expected to.
///
/// Rust's start-up code ignores the signal; a program that keeps it ignored sees `EPIPE` instead, and
/// so does one whose parent ignored it.
///
/// ```
/// gush::process::restore_sigpipe();
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
/// assert!(!gush::process::was_closed(1));
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
/// gush::process::on_termination(|| eprintln!("removing what is half done"))?;
/// # Ok::<(), gush::Errno>(())
/// ```
pub fn on_termination(tidy: impl FnOnce() + Send + 'static) -> io::Result<()> {
    signal::on_termination(tidy)
}
