//! Which processors this process may use, and staying on one of them.

use rustix::io;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors that this process may run on, in order (sched_getaffinity(2)).
///
/// # Errors
/// What sched_getaffinity(2) answers.
///
/// ```
/// assert!(!gush_lab::affinity::allowed()?.is_empty());
/// # Ok::<(), gush::Errno>(())
/// ```
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Keeps this thread on one processor.
///
/// # Errors
/// `EINVAL` when there is no such processor, or this process may not use it.
///
/// ```
/// let first = gush_lab::affinity::allowed()?[0];
/// gush_lab::affinity::pin(first)?;
/// # Ok::<(), gush::Errno>(())
/// ```
pub fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::Errno::INVAL);
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
}
