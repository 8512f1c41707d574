//! What the process was given, noted before Rust's start-up code changes it.
//!
//! That code ignores SIGPIPE and opens /dev/null for standard descriptors that are closed
//! (`init` in `library/std/src/sys/pal/unix/mod.rs`), so a program could not tell any more.

use std::sync::atomic::{AtomicBool, Ordering};

use super::signal::is_ignored;

static SIGPIPE_IGNORED: AtomicBool = AtomicBool::new(false);
static CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

#[used]
// SAFETY: the C library calls what stands in .init_array once, before main and before any thread;
// `note` makes three kinds of system calls and stores to atomics, which needs nothing set up.
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

extern "C" fn note() {
    SIGPIPE_IGNORED.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
    for (fd, closed) in (0..).zip(&CLOSED) {
        // SAFETY: F_GETFD takes no argument and touches nothing.
        closed.store(unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0, Ordering::Relaxed);
    }
}

pub(crate) fn sigpipe_was_ignored() -> bool {
    SIGPIPE_IGNORED.load(Ordering::Relaxed)
}

pub(crate) fn was_closed(standard: usize) -> bool {
    CLOSED[standard].load(Ordering::Relaxed)
}
