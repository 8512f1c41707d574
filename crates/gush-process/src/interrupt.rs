//! Interrupting the calls in which other threads wait.

use std::mem;
use std::sync::Once;

/// Ignored by default, and sent by nobody to a program that has asked for no urgent data of sockets (fcntl(2), F_SETOWN).
const SIGNAL: libc::c_int = libc::SIGURG;

/// Sends a signal to every other thread of this process.
pub(crate) fn others() {
    static HANDLED: Once = Once::new();
    HANDLED.call_once(handle);
    // SAFETY: these calls have no arguments.
    let (process, own) = unsafe { (libc::getpid(), libc::gettid()) };
    let numbers = std::fs::read_dir("/proc/self/task").map(|entries| {
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
    });
    // Without /proc the first thread is known alone: it has the number of the process.
    let threads: Vec<libc::pid_t> = numbers.unwrap_or_else(|_| vec![process]);
    for thread in threads.into_iter().filter(|&thread| thread != own) {
        // SAFETY: a signal with a handler that does nothing, to a thread of this process or to none.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread, SIGNAL) };
    }
}

/// Gives the signal a handler: what is ignored interrupts nobody. Without SA_RESTART, the interrupted call is not made again.
fn handle() {
    extern "C" fn nothing(_: libc::c_int) {}
    let handler: extern "C" fn(libc::c_int) = nothing;
    // SAFETY: a zeroed sigaction has no flags and an empty mask, and the handler does nothing at all.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler as libc::sighandler_t;
        libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut());
    }
}
