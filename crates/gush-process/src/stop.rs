//! Stopping and going on: SIGTSTP, which a terminal sends for Ctrl-Z.

use std::thread;

use rustix::io::{self, Errno};

use crate::Stop;
use crate::signal::{change_mask, empty_set, is_ignored};

/// Calls `tell` before the process stops by SIGTSTP, and once it goes on. SIGTTOU no longer stops the process.
///
/// A thread instead of a handler, as `tell` may take locks. SIGTTOU stays blocked, and then the kernel lets a program in
/// the background write (`__tty_check_change` of drivers/tty/tty_jobctrl.c).
pub(crate) fn on_stop(mut tell: impl FnMut(Stop) + Send + 'static) -> io::Result<()> {
    let mut set = empty_set();
    for signal in [libc::SIGTSTP, libc::SIGTTOU] {
        if !is_ignored(signal) {
            // SAFETY: `set` was initialised by sigemptyset.
            unsafe { libc::sigaddset(&raw mut set, signal) };
        }
    }
    // The new thread blocks every signal: none that another thread waits for is to reach this one.
    let before = change_mask(libc::SIG_SETMASK, &full_set())?;
    let wait = move || {
        let mut signal = 0;
        // SAFETY: both pointers are to live locals.
        while unsafe { libc::sigwait(&raw const set, &raw mut signal) } == 0 {
            if signal == libc::SIGTSTP {
                tell(Stop::Begins);
                stop();
                tell(Stop::Ended);
            }
        }
    };
    let thread = thread::Builder::new().name("gush-stops".into()).stack_size(64 * 1024);
    let started = thread.spawn(wait).map(drop).map_err(|_| Errno::AGAIN);
    change_mask(libc::SIG_SETMASK, &before)?;
    if started.is_ok() {
        change_mask(libc::SIG_BLOCK, &set)?;
    }
    started
}

fn full_set() -> libc::sigset_t {
    let mut set = empty_set();
    // SAFETY: `set` is a live local.
    unsafe { libc::sigfillset(&raw mut set) };
    set
}

/// Stops the process as SIGTSTP does. Where the kernel lets nobody stop it, because nobody could make it go on
/// (an orphaned process group, the first process of a container), nothing happens.
fn stop() {
    let mut set = empty_set();
    // SAFETY: `set` is initialised. Only this thread does not block the signal, so kill returns after the stop.
    unsafe {
        libc::sigaddset(&raw mut set, libc::SIGTSTP);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::kill(libc::getpid(), libc::SIGTSTP);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}
