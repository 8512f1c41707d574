//! What a program around the engine needs of its process: signals.

use rustix::io;

use crate::sys::signal;

/// Lets SIGPIPE end the process silently, as filters such as `cat` are expected to.
///
/// Rust's start-up code ignores the signal; a program that keeps it ignored sees `EPIPE` instead.
///
/// ```
/// gush::process::restore_sigpipe();
/// ```
pub fn restore_sigpipe() {
    signal::restore_sigpipe();
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
