//! A child of fork(2) that goes on in the test's own memory.
#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};

/// A child process, which [`forked`] has started.
#[derive(Debug)]
pub struct Forked(libc::pid_t);

impl Forked {
    /// Kills the child at once.
    pub fn kill(self) {
        // SAFETY: kill(2) touches no memory, and the child's number is kept until `passed` reaps
        // it.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
        let _ = self.passed();
    }

    /// Waits for the child, and returns whether it ended without a panic.
    #[must_use]
    pub fn passed(self) -> bool {
        let mut status = 0;
        // SAFETY: waitpid(2) stores one number, in a live local.
        let answer = unsafe { libc::waitpid(self.0, &raw mut status, 0) };
        answer == self.0 && status == 0
    }
}

/// Runs `work` in a child that has a copy of this process's memory, and ends the child.
///
/// # Panics
/// Where fork(2) fails.
pub fn forked(work: impl FnOnce()) -> Forked {
    // SAFETY: the child has this thread alone, and glibc makes its memory usable; `work` is a
    // test's.
    match unsafe { libc::fork() } {
        0 => {
            // A test that fails leaves no child waiting.
            // SAFETY: prctl(2) with these arguments touches no memory.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            let outcome = catch_unwind(AssertUnwindSafe(work));
            // SAFETY: ends the process, without what the parent has registered for its own end.
            unsafe { libc::_exit(i32::from(outcome.is_err())) }
        }
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        pid => Forked(pid),
    }
}
