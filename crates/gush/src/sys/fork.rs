//! Noticing fork(2): the child has copies of descriptors that the parent goes on using.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static FORKS: AtomicU32 = AtomicU32::new(0);

/// A number that differs from that of every process whose memory this one has a copy of.
///
/// Counted by pthread_atfork(3), which costs no call at each question. A child of vfork(2), `_Fork`
/// or a bare clone(2) is not noticed: POSIX allows it little more than execve(2).
pub(crate) fn generation() -> u32 {
    static COUNTED: Once = Once::new();
    COUNTED.call_once(|| {
        // SAFETY: the handler only adds to an atomic number, which is allowed in a child of any
        // process.
        let answer = unsafe { libc::pthread_atfork(None, None, Some(count)) };
        // ENOMEM for a few words: without the count another process's bytes could pass for ours.
        assert!(answer == 0, "pthread_atfork: error {answer}");
    });
    FORKS.load(Ordering::Relaxed)
}

unsafe extern "C" fn count() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
