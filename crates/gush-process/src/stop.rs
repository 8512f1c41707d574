//! Stopping and going on: SIGTSTP, which a terminal sends for Ctrl-Z.

use crate::signal::empty_set;

/// The two moments of a stop from the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// SIGTSTP came: the process stops as soon as this returns.
    Begins,
    /// The process goes on. Other threads may have gone on before this call.
    Ended,
}

/// Told of each stop.
pub(crate) type OnStop = Box<dyn FnMut(Stop) + Send>;

/// The signals that a terminal stops a program by. SIGTTOU stays blocked, and then the kernel lets
/// a program in the background write (`__tty_check_change` of drivers/tty/tty_jobctrl.c).
pub(crate) const SIGNALS: [libc::c_int; 2] = [libc::SIGTSTP, libc::SIGTTOU];

/// Takes one of [`SIGNALS`] from the thread that waits for signals; answers whether the signal is
/// one.
pub(crate) fn takes(signal: libc::c_int, on_stop: &mut Option<OnStop>) -> bool {
    if let (libc::SIGTSTP, Some(on_stop)) = (signal, on_stop) {
        on_stop(Stop::Begins);
        stop();
        on_stop(Stop::Ended);
    }
    SIGNALS.contains(&signal)
}

/// Stops the process as SIGTSTP does. Where the kernel lets nobody stop it, because nobody could
/// make it go on (an orphaned process group, the first process of a container), nothing happens.
fn stop() {
    let mut set = empty_set();
    // SAFETY: `set` is initialised. Only this thread does not block the signal, so kill returns
    // after the stop.
    unsafe {
        libc::sigaddset(&raw mut set, libc::SIGTSTP);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::kill(libc::getpid(), libc::SIGTSTP);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}
