//! Faults on demand: a test says what a system call answers instead of the kernel.
//!
//! A [`Plan`] belongs to the thread that installs it and to the workers that a move starts from
//! that thread; tests therefore run side by side without seeing each other's faults.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;

use super::Call;

/// What the seam does with one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Ask the kernel.
    Go,
    /// Ask the kernel for at most so many bytes.
    Short(usize),
    /// Answer 0 without asking the kernel: the false end of a call that is not `read`.
    Zero,
    /// Answer this error without asking the kernel.
    Fail(Errno),
}

type Judge = dyn FnMut(Call, u64) -> Verdict + Send;

/// A function that judges each call, given its name and its number among the calls of that name
/// (counted from 0 since the plan was installed).
///
/// ```
/// use gush::faults::{Plan, Verdict};
/// use gush::{Call, Errno};
/// # use std::io::Write;
/// let source = tempfile::tempfile()?;
/// (&source).write_all(b"abc")?;
/// let target = tempfile::tempfile()?;
/// let _guard = Plan::new(|call, nth| match (call, nth) {
///     (Call::Fstat, 0) => Verdict::Fail(Errno::IO),
///     _ => Verdict::Go,
/// })
/// .install();
/// let error = gush::copy(&source, &target).unwrap_err();
/// assert_eq!(error.call(), Some(Call::Fstat));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Plan(Arc<Mutex<State>>);

struct State {
    judge: Box<Judge>,
    seen: Vec<u64>,
}

thread_local! {
    static ACTIVE: RefCell<Option<Plan>> = const { RefCell::new(None) };
}

impl Plan {
    /// A plan that asks `judge` at every call.
    pub fn new(judge: impl FnMut(Call, u64) -> Verdict + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(State { judge: Box::new(judge), seen: vec![0; Call::ALL.len()] })))
    }

    /// Makes the plan answer the calls of this thread until the guard is dropped.
    #[must_use]
    pub fn install(self) -> Guard {
        Guard(ACTIVE.replace(Some(self)))
    }
}

/// Ends a plan's reign when dropped, and restores the one before.
pub struct Guard(Option<Plan>);

impl Drop for Guard {
    fn drop(&mut self) {
        ACTIVE.replace(self.0.take());
    }
}

/// The calling thread's plan, for a worker to install as its own.
pub(crate) fn active() -> Option<Plan> {
    ACTIVE.with_borrow(Clone::clone)
}

pub(super) fn ask(call: Call) -> Verdict {
    let Some(plan) = active() else { return Verdict::Go };
    let mut state = plan.0.lock().unwrap_or_else(PoisonError::into_inner);
    let nth = state.seen[call as usize];
    state.seen[call as usize] += 1;
    (state.judge)(call, nth)
}
