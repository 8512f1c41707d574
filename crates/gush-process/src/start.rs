//! The inherited descriptors and the disposition of SIGPIPE, noted before Rust's start-up code
//! changes them.
//!
//! Rust's start-up code ignores SIGPIPE and opens /dev/null for closed standard descriptors (`init`
//! in `library/std/src/sys/pal/unix/mod.rs`), so a program could not ask later. Descriptors open
//! before that code runs are inherited, and without an owner: no code of this process has run.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::signal::is_ignored;

/// Descriptors from this number on are not noted.
const NUMBERS: usize = 1024;

static SIGPIPE_IGNORED: AtomicBool = AtomicBool::new(false);
static NOTED: AtomicBool = AtomicBool::new(false);
/// A bit for each inherited descriptor, cleared when somebody takes the descriptor.
static OPEN: [AtomicU64; NUMBERS / 64] = [const { AtomicU64::new(0) }; NUMBERS / 64];

// The GNU C library calls .preinit_array before all constructors. Only programs can have this
// section (System V ABI, "Initialization and Termination Functions"): a library loaded by dlopen(3)
// therefore cannot note, too late, the descriptors of its host. Other C libraries, such as musl,
// know .init_array only.
//
// SAFETY: the section holds one function, called once in the C convention with arguments that
// `note` does not take. `note` makes two kinds of system calls and stores to atomics, and needs no
// set-up.
#[used]
#[cfg(feature = "start")]
#[cfg_attr(target_env = "gnu", unsafe(link_section = ".preinit_array"))]
#[cfg_attr(not(target_env = "gnu"), unsafe(link_section = ".init_array"))]
static NOTE: extern "C" fn() = note;

#[cfg_attr(not(feature = "start"), allow(dead_code, reason = "called before main only"))]
extern "C" fn note() {
    SIGPIPE_IGNORED.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
    // On the stack: nothing may be allocated before main.
    let mut asked = [libc::pollfd { fd: 0, events: 0, revents: 0 }; NUMBERS];
    for (fd, ask) in (0..).zip(&mut asked) {
        ask.fd = fd;
    }
    // One poll(2) asks about all descriptors (POLLNVAL). The error is EINVAL if RLIMIT_NOFILE is
    // below NUMBERS. SAFETY: `asked` has NUMBERS entries.
    let is_answered = unsafe { libc::poll(asked.as_mut_ptr(), NUMBERS as libc::nfds_t, 0) } >= 0;
    for (fd, ask) in asked.iter().enumerate() {
        let is_open = match is_answered {
            true => ask.revents & libc::POLLNVAL == 0,
            // SAFETY: F_GETFD takes no argument and touches nothing.
            false => (unsafe { libc::fcntl(ask.fd, libc::F_GETFD) }) != -1,
        };
        if is_open {
            OPEN[fd / 64].fetch_or(1 << (fd % 64), Ordering::Relaxed);
        }
    }
    NOTED.store(true, Ordering::Relaxed);
}

/// Was SIGPIPE ignored when the process started? Then a reader that leaves ends no program of the
/// pipeline.
#[must_use]
pub fn sigpipe_was_ignored() -> bool {
    SIGPIPE_IGNORED.load(Ordering::Relaxed)
}

/// Was standard input (0), output (1) or error (2) closed when the process started?
///
/// Rust's start-up code opens /dev/null in place of a closed descriptor, and bytes written there
/// are lost.
///
/// # Panics
/// When `standard` is more than 2.
#[must_use]
pub fn was_closed(standard: usize) -> bool {
    assert!(standard < 3, "there are three standard descriptors");
    NOTED.load(Ordering::Relaxed) && !is_given(standard)
}

/// Was the descriptor open when the process started, and has nobody taken it since?
pub(crate) fn is_given(number: usize) -> bool {
    let word = OPEN.get(number / 64).map_or(0, |word| word.load(Ordering::Relaxed));
    word & 1 << (number % 64) != 0
}

/// Notes that the descriptor has an owner now: [`is_given`] answers no from here on.
pub(crate) fn claim(number: usize) {
    if let Some(word) = OPEN.get(number / 64) {
        word.fetch_and(!(1 << (number % 64)), Ordering::Relaxed);
    }
}
