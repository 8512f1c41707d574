//! Interrupting the calls in which other threads wait.

use std::sync::Once;
use std::{io, mem, thread};

/// Ignored by default, and sent by nobody to a program that has asked for no urgent data of sockets (fcntl(2), F_SETOWN).
const SIGNAL: libc::c_int = libc::SIGURG;

/// Sends a signal to every other thread of this process.
pub(crate) fn others() {
    static HANDLED: Once = Once::new();
    HANDLED.call_once(handle);
    // SAFETY: these calls have no arguments.
    let (process, own) = unsafe { (libc::getpid(), libc::gettid()) };
    let threads = match numbers() {
        Err(error) if error.raw_os_error() == Some(libc::EMFILE) => numbers_by_a_spare_table(),
        numbers => numbers.ok(),
    };
    // Without /proc the first thread is known alone: it has the number of the process.
    for thread in
        threads.unwrap_or_else(|| vec![process]).into_iter().filter(|&thread| thread != own)
    {
        // SAFETY: a signal with a handler that does nothing, to a thread of this process or to none.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread, SIGNAL) };
    }
}

/// The numbers of all threads of this process.
fn numbers() -> io::Result<Vec<libc::pid_t>> {
    let entries = std::fs::read_dir("/proc/self/task")?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// As [`numbers`], where this process has as many descriptors as it may have: a thread takes a copy of their table for itself,
/// and has room there once it has closed one.
fn numbers_by_a_spare_table() -> Option<Vec<libc::pid_t>> {
    thread::scope(|scope| {
        let look = || {
            // SAFETY: these calls take numbers, and the descriptor is closed in the copy alone, which nobody else knows.
            let has_room = unsafe { libc::unshare(libc::CLONE_FILES) == 0 && libc::close(0) == 0 };
            has_room.then(|| numbers().ok()).flatten()
        };
        thread::Builder::new().spawn_scoped(scope, look).ok()?.join().ok()?
    })
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
