//! Surviving SIGBUS: a file that is truncated while it is mapped must give an error, not a death.
//!
//! While a [`Guard`] stands over a range, a fault in it puts an anonymous page under the faulting
//! address and marks the guard; the interrupted copy goes on with zeros, and its caller, who asks
//! [`Guard::was_hit`], reports failure. A fault anywhere else goes to whoever handled SIGBUS before.
//! (mmap(2), "SIGBUS"; the same way is used by libwayland's `wl_shm_buffer_begin_access`.)

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{mem, ptr};

use rustix::io::{self, Errno};

struct Slot {
    start: AtomicUsize,
    bytes: AtomicUsize,
    hit: AtomicBool,
}

/// More than two windows for each of as many threads as the engine ever starts.
const SLOTS: usize = 256;

static GUARDED: [Slot; SLOTS] = [const {
    Slot { start: AtomicUsize::new(0), bytes: AtomicUsize::new(0), hit: AtomicBool::new(false) }
}; SLOTS];

static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Stands over one mapped range until dropped.
pub(super) struct Guard(&'static Slot);

impl Guard {
    /// # Errors
    /// `EAGAIN` when every slot is taken; `EINVAL` when the handler cannot be installed.
    pub(super) fn over(start: usize, bytes: usize) -> io::Result<Self> {
        install()?;
        for slot in &GUARDED {
            if slot.start.compare_exchange(0, start, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                slot.hit.store(false, Ordering::Relaxed);
                slot.bytes.store(bytes, Ordering::Release);
                return Ok(Self(slot));
            }
        }
        Err(Errno::AGAIN)
    }

    pub(super) fn was_hit(&self) -> bool {
        self.0.hit.load(Ordering::Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.bytes.store(0, Ordering::Release);
        self.0.start.store(0, Ordering::Release);
    }
}

fn install() -> io::Result<()> {
    if BEFORE.get().is_some() {
        return Ok(());
    }
    // SAFETY: zeroed is a valid sigaction; the handler only does what signal-safety(7) allows and a
    // raw mmap; the old action is kept before the first guard can be hit.
    unsafe {
        let mut old: libc::sigaction = mem::zeroed();
        libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut old);
        if BEFORE.set(old).is_err() {
            return Ok(());
        }
        let mut new: libc::sigaction = mem::zeroed();
        new.sa_sigaction = on_sigbus as *const () as usize;
        new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        if libc::sigaction(libc::SIGBUS, &raw const new, ptr::null_mut()) != 0 {
            return Err(Errno::INVAL);
        }
    }
    Ok(())
}

extern "C" fn on_sigbus(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo to an SA_SIGINFO handler.
    let address = unsafe { (*info).si_addr() } as usize;
    for slot in &GUARDED {
        let start = slot.start.load(Ordering::Acquire);
        let bytes = slot.bytes.load(Ordering::Acquire);
        if start != 0 && (start..start + bytes).contains(&address) {
            slot.hit.store(true, Ordering::Release);
            if put_zero_page(address) {
                return;
            }
        }
    }
    pass_on(signal, info, context);
}

fn put_zero_page(address: usize) -> bool {
    let page_bytes = rustix::param::page_size();
    // SAFETY: the page lies inside a guarded mapping of ours, whose content is already lost.
    let page = unsafe {
        libc::mmap(
            (address & !(page_bytes - 1)) as *mut c_void,
            page_bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
            -1,
            0,
        )
    };
    page != libc::MAP_FAILED
}

fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let before = BEFORE.get().map_or(libc::SIG_DFL, |action| action.sa_sigaction);
    let flags = BEFORE.get().map_or(0, |action| action.sa_flags);
    if before == libc::SIG_DFL || before == libc::SIG_IGN {
        // SAFETY: the default action is valid; returning repeats the fault, which then ends the process.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    } else if flags & libc::SA_SIGINFO != 0 {
        // SAFETY: the earlier owner installed this address as a three-argument handler.
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void) =
            unsafe { mem::transmute(before) };
        handler(signal, info, context);
    } else {
        // SAFETY: the earlier owner installed this address as a one-argument handler.
        let handler: extern "C" fn(libc::c_int) = unsafe { mem::transmute(before) };
        handler(signal);
    }
}
