//! Interrupting the calls in which other threads wait.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, Once, PoisonError};
use std::{io, mem};

use rustix::event::{EventfdFlags, eventfd};

use crate::limits;

/// Ignored by default, and sent by nobody to a program that has asked for no urgent data of sockets
/// (fcntl(2), F_SETOWN).
const SIGNAL: libc::c_int = libc::SIGURG;

/// Makes the calls fail with `EINTR` in which other threads of this process wait now, where a
/// signal can interrupt them (signal(7)): a read(2) of a file such as tracefs' `trace_pipe`, of
/// which poll(2) says nothing.
///
/// The signal is SIGURG, which is ignored by default, and which gets a handler here that does
/// nothing. A thread that was about to wait is not interrupted: call this again and again.
pub fn interrupt_others() {
    static HANDLED: Once = Once::new();
    HANDLED.call_once(handle);
    // SAFETY: these calls have no arguments.
    let (process, own) = unsafe { (libc::getpid(), libc::gettid()) };
    let threads = match numbers() {
        Err(error) if error.raw_os_error() == Some(libc::EMFILE) => numbers_in_kept_room(),
        numbers => numbers.ok(),
    };
    // Without /proc the first thread is known alone: it has the number of the process.
    for thread in
        threads.unwrap_or_else(|| vec![process]).into_iter().filter(|&thread| thread != own)
    {
        // SAFETY: a signal with a handler that does nothing, to a thread of this process or to
        // none.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread, SIGNAL) };
    }
}

/// The numbers of all threads of this process.
fn numbers() -> io::Result<Vec<libc::pid_t>> {
    let entries = std::fs::read_dir("/proc/self/task")?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// A descriptor that is given up for the look at the threads of a process which has as many
/// descriptors as it may have.
///
/// To close another one, even in a copy of the table, may wait for ever: FUSE's flush waits for its
/// server (`fuse_flush` of fs/fuse/file.c).
static SPARE: Mutex<Option<OwnedFd>> = Mutex::new(None);

/// Keeps a descriptor for [`interrupt_others`], unless that is the last one. Without one the first
/// thread is interrupted alone.
pub(crate) fn keep_room() {
    fill_room();
    if !limits::has_room() {
        SPARE.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

fn fill_room() {
    let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
    if spare.is_none() {
        *spare = eventfd(0, EventfdFlags::CLOEXEC).ok();
    }
}

/// As [`numbers`], with the room that the hard limit leaves, or else that of the spare descriptor.
fn numbers_in_kept_room() -> Option<Vec<libc::pid_t>> {
    limits::raise_descriptor_limit();
    numbers().ok().or_else(|| {
        drop(SPARE.lock().unwrap_or_else(PoisonError::into_inner).take()?);
        let numbers = numbers().ok();
        fill_room();
        numbers
    })
}

/// Gives the signal a handler: what is ignored interrupts nobody. Without SA_RESTART, the
/// interrupted call is not made again.
fn handle() {
    extern "C" fn nothing(_: libc::c_int) {}
    let handler: extern "C" fn(libc::c_int) = nothing;
    // SAFETY: a zeroed sigaction has no flags and an empty mask, and the handler does nothing at
    // all.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler as libc::sighandler_t;
        libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut());
    }
}
