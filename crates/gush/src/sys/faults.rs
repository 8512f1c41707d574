//! Faults on demand: a test answers system calls instead of the kernel.
//!
//! A [`Plan`] applies to the installing thread, to the workers of its move, and to a task with the
//! plan [around](Plan::around), on any polling thread: tests run side by side without seeing each
//! other's faults. Missed calls are counted: [`unplanned_calls`].

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;

use super::Call;
use crate::locked::Unpoisoned;

/// What the seam does instead of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Injection {
    /// Ask the kernel.
    None,
    /// Ask the kernel for at most so many bytes.
    Short(usize),
    /// Answer 0 without asking the kernel: the false end of another call than `read`.
    Zero,
    /// Answer this error without asking the kernel.
    Fail(Errno),
    /// Of vmsplice(2): do what one development tree of 2026 does, which is an ordinary write(2),
    /// and `EOPNOTSUPP` where a FIFO is asked not to wait. Of splice(2) from a file into a pipe:
    /// read and write, as `copy_splice_read` of `fs/splice.c`. Any other call is made.
    Copy,
}

type Inject = dyn FnMut(Call, u64) -> Injection + Send;

/// A function that chooses a fault for each call by its name and its number among the calls of that
/// name, counted from 0 since the plan was installed.
///
/// ```
/// use gush::faults::{Plan, Injection};
/// use gush::{Call, Errno};
/// # use std::io::Write;
/// let source = tempfile::tempfile()?;
/// (&source).write_all(b"abc")?;
/// let target = tempfile::tempfile()?;
/// let _guard = Plan::new(|call, nth| match (call, nth) {
///     (Call::Fstat, 0) => Injection::Fail(Errno::IO),
///     _ => Injection::None,
/// })
/// .install();
/// let error = gush::copy(&source, &target).unwrap_err();
/// assert_eq!(error.call(), Some(Call::Fstat));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Plan(Arc<Mutex<Inner>>);

struct Inner {
    inject: Box<Inject>,
    seen: Vec<u64>,
}

thread_local! {
    static ACTIVE: RefCell<Option<Plan>> = const { RefCell::new(None) };
    /// The last injection was [`Injection::Copy`].
    static COPIES: Cell<bool> = const { Cell::new(false) };
}

/// Installed plans, on all threads; and calls seen by none of them.
static INSTALLED: AtomicUsize = AtomicUsize::new(0);
static UNPLANNED: AtomicU64 = AtomicU64::new(0);

impl Plan {
    /// A plan by `inject`, called at every system call.
    pub fn new(inject: impl FnMut(Call, u64) -> Injection + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            inject: Box::new(inject),
            seen: vec![0; Call::ALL.len()],
        })))
    }

    /// Makes the plan answer the calls of this thread until the guard is dropped.
    #[must_use]
    pub fn install(self) -> Guard {
        INSTALLED.fetch_add(1, Ordering::Relaxed);
        Guard(ACTIVE.replace(Some(self)))
    }

    /// Makes the plan answer the calls of a future, on any polling thread.
    ///
    /// ```
    /// # use std::task::{Context, Waker};
    /// use gush::faults::{Plan, Injection};
    /// use gush::{Errno, Port};
    /// let plan = Plan::new(|_, _| Injection::Fail(Errno::IO));
    /// let file = tempfile::tempfile()?;
    /// let looks = async { Port::of(&file).map(|_port| ()) };
    /// let mut looks = Box::pin(plan.around(looks));
    /// let polled = looks.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    /// assert_eq!(polled, std::task::Poll::Ready(Err(Errno::IO)));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn around<F: Future>(self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|cx| {
            let _guard = self.clone().install();
            future.as_mut().poll(cx)
        })
        .await
    }
}

/// Removes a plan when dropped, and restores the one before.
pub struct Guard(Option<Plan>);

impl Drop for Guard {
    fn drop(&mut self) {
        ACTIVE.replace(self.0.take());
        INSTALLED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How many calls were made by threads without a plan while some thread had one: in a process with
/// one job, the calls missed by the plan.
#[must_use]
pub fn unplanned_calls() -> u64 {
    UNPLANNED.load(Ordering::Relaxed)
}

/// The calling thread's plan, for a worker to install in that thread.
pub(crate) fn active() -> Option<Plan> {
    // A thread at its end has no plan any more, and still unmaps the buffers that it kept.
    ACTIVE.try_with(|active| active.borrow().clone()).ok().flatten()
}

/// Is the call that was asked about last to copy?
pub(super) fn copies() -> bool {
    COPIES.get()
}

pub(super) fn ask(call: Call) -> Injection {
    let injection = injected(call);
    COPIES.set(injection == Injection::Copy);
    injection
}

fn injected(call: Call) -> Injection {
    let Some(plan) = active() else {
        if INSTALLED.load(Ordering::Relaxed) > 0 {
            UNPLANNED.fetch_add(1, Ordering::Relaxed);
        }
        return Injection::None;
    };
    let mut inner = plan.0.lock().unpoisoned();
    let nth = inner.seen[call as usize];
    inner.seen[call as usize] += 1;
    (inner.inject)(call, nth)
}
