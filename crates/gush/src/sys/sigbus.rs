//! Surviving SIGBUS: the truncation of a mapped file must give an error, not a death.
//!
//! While a [`Guard`] covers a range, a fault there puts an anonymous page under the faulting
//! address and marks the guard; the interrupted copy goes on with zeros, and the caller, who asks
//! [`Guard::was_hit`], reports failure. (mmap(2), "SIGBUS"; the same way is used by libwayland's
//! `wl_shm_buffer_begin_access`.)
//!
//! A signal's disposition belongs to the whole process, so it is only borrowed: the first guard
//! installs the handler, the last restores the previous disposition. Every SIGBUS that is not a
//! fault in a guarded range meets the previous disposition: faults elsewhere, signals sent by a
//! process, and the kernel's notices of failing memory.

use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::{mem, ptr};

use crate::locked::Unpoisoned;

use rustix::io::{self, Errno};
use rustix::mm::{self, MapFlags, ProtFlags};

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

/// How many guards there are, and the disposition to be put back by the last one.
static STANDING: Mutex<(usize, Option<libc::sigaction>)> = Mutex::new((0, None));

/// The disposition for other signals: read by the handler, so published by one store. Never
/// freed, because a handler may still be reading; an equal one is not made again.
static PREVIOUS: AtomicPtr<Previous> = AtomicPtr::new(ptr::null_mut());

#[derive(Clone, Copy, PartialEq, Eq)]
struct Previous {
    handler: libc::sighandler_t,
    flags: libc::c_int,
}

const DEFAULT: Previous = Previous { handler: libc::SIG_DFL, flags: 0 };

impl Previous {
    fn of(action: &libc::sigaction) -> Self {
        Self { handler: action.sa_sigaction, flags: action.sa_flags }
    }

    fn get() -> Self {
        // SAFETY: null, or a leaked allocation that nobody writes any more.
        unsafe { PREVIOUS.load(Ordering::Acquire).as_ref() }.copied().unwrap_or(DEFAULT)
    }

    fn publish(self) {
        if self != Self::get() {
            // Leaked, because the handler may still read the earlier value on another thread.
            PREVIOUS.store(Box::leak(Box::new(self)), Ordering::Release);
        }
    }
}

/// Stands over one mapped range until dropped.
pub(super) struct Guard(&'static Slot);

impl Guard {
    /// # Errors
    /// `EAGAIN` when every slot is taken; `EOPNOTSUPP` where this thread blocks SIGBUS, because the
    /// kernel then ends the process at a fault (`force_sig_info_to_task` of kernel/signal.c).
    pub(super) fn over(start: usize, bytes: usize) -> io::Result<Self> {
        // Unblocking would let a signal through that the program holds back on purpose.
        if is_blocked_here() {
            return Err(Errno::OPNOTSUPP);
        }
        let free = |slot: &&Slot| {
            // No lock: the handler reads the slots, and may have interrupted the holder of one.
            slot.start.compare_exchange(0, start, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let slot = GUARDED.iter().find(free).ok_or(Errno::AGAIN)?;
        let mut standing = STANDING.lock().unpoisoned();
        // Borrowed by the first guard only: a later one would save our own handler as the previous.
        if standing.0 == 0 {
            standing.1 = Some(install());
        }
        standing.0 += 1;
        slot.hit.store(false, Ordering::Relaxed);
        // Until now the length was 0, so the handler found no address in this range.
        slot.bytes.store(bytes, Ordering::Release);
        Ok(Self(slot))
    }

    pub(super) fn was_hit(&self) -> bool {
        self.0.hit.load(Ordering::Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // The length goes first: the handler then finds no address in the range, and the slot
        // becomes free for another guard only after that.
        self.0.bytes.store(0, Ordering::Release);
        self.0.start.store(0, Ordering::Release);
        let mut standing = STANDING.lock().unpoisoned();
        standing.0 -= 1;
        if standing.0 == 0
            && let Some(previous) = standing.1.take()
        {
            put_back(&previous);
        }
    }
}

fn handler() -> libc::sighandler_t {
    on_sigbus as *const () as libc::sighandler_t
}

/// Answers the disposition replaced by our handler. Called with [`STANDING`] locked.
fn install() -> libc::sigaction {
    let previous = disposition();
    // Somebody saved our handler and put it back: what was before it stays what it passes on to.
    if previous.sa_sigaction == handler() {
        return previous;
    }
    // Published first: the handler may run as soon as it is installed.
    Previous::of(&previous).publish();
    let mut ours = previous;
    ours.sa_sigaction = handler();
    // The kernel itself then blocks the signals that the previous handler wants blocked, and
    // restarts calls as it wants; without a handler there was nothing to be interrupted by.
    let kept = match previous.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => libc::SA_RESTART,
        _ => previous.sa_flags & (libc::SA_RESTART | libc::SA_NODEFER),
    };
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | kept;
    set_disposition(&ours);
    previous
}

/// Called with [`STANDING`] locked. A handler installed over ours meanwhile stays, because that
/// handler may pass on to ours, which passes on to the previous one.
fn put_back(previous: &libc::sigaction) {
    if disposition().sa_sigaction != handler() {
        return;
    }
    let mut previous = *previous;
    // It was used up meanwhile (SA_RESETHAND).
    if Previous::get() == DEFAULT {
        previous.sa_sigaction = libc::SIG_DFL;
    }
    set_disposition(&previous);
}

fn disposition() -> libc::sigaction {
    let mut now = mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action only asks; zeroed is a valid sigaction, should the call fail.
    unsafe {
        libc::sigaction(libc::SIGBUS, ptr::null(), now.as_mut_ptr());
        now.assume_init()
    }
}

/// sigaction(2) fails for SIGKILL, SIGSTOP and bad pointers only.
fn set_disposition(to: &libc::sigaction) {
    // SAFETY: `to` is what the kernel gave, or that with our handler, which makes only calls that
    // signal-safety(7) allows and raw system calls, and reads atomics and memory that is never
    // freed.
    unsafe { libc::sigaction(libc::SIGBUS, to, ptr::null_mut()) };
}

fn is_blocked_here() -> bool {
    let mut mask = mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: a null new mask only asks; zeroed is a valid, empty set.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), mask.as_mut_ptr());
        libc::sigismember(mask.as_ptr(), libc::SIGBUS) == 1
    }
}

extern "C" fn on_sigbus(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo to an SA_SIGINFO handler.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    // BUS_ADRERR is what a page past the end of a file gives. Only faults have an address at all:
    // for a signal that was sent, that word is the sender's.
    if code == libc::BUS_ADRERR {
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
    }
    pass_on(signal, code, info, context);
}

fn put_zero_page(address: usize) -> bool {
    let page_bytes = rustix::param::page_size();
    let page = ptr::with_exposed_provenance_mut(address & !(page_bytes - 1));
    let flags = MapFlags::PRIVATE | MapFlags::FIXED;
    // SAFETY: the page lies inside a mapping that a guard covers: its owner keeps it mapped,
    // has no reference into it, and its content is already lost. The call is a raw one that leaves
    // errno alone.
    unsafe { mm::mmap_anonymous(page, page_bytes, ProtFlags::READ | ProtFlags::WRITE, flags) }
        .is_ok()
}

/// Acts on this signal by the previous disposition.
fn pass_on(
    signal: libc::c_int,
    code: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    let is_fault = matches!(
        code,
        libc::BUS_ADRALN | libc::BUS_ADRERR | libc::BUS_OBJERR | libc::BUS_MCEERR_AR
    );
    let previous = Previous::get();
    match previous.handler {
        // A fault cannot be ignored: the kernel ends the process.
        libc::SIG_IGN if !is_fault => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: the default action is valid. Returning repeats a fault, which then ends the
            // process; a signal that was sent is sent once more, and comes when this handler has
            // returned.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                if !is_fault {
                    libc::raise(signal);
                }
            }
        }
        handler => {
            if previous.flags & libc::SA_RESETHAND != 0 {
                use_up();
            }
            if previous.flags & libc::SA_SIGINFO != 0 {
                // SAFETY: the earlier owner installed this address as a three-argument handler.
                let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void) =
                    unsafe { mem::transmute(handler) };
                handler(signal, info, context);
            } else {
                // SAFETY: the earlier owner installed this address as a one-argument handler.
                let handler: extern "C" fn(libc::c_int) = unsafe { mem::transmute(handler) };
                handler(signal);
            }
        }
    }
}

/// The previous handler wanted to be called once (SA_RESETHAND).
fn use_up() {
    static USED_UP: Previous = DEFAULT;
    PREVIOUS.store(ptr::from_ref(&USED_UP).cast_mut(), Ordering::Release);
}

#[cfg(test)]
mod tests;
