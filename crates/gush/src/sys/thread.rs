//! What the calling thread has used.

use std::mem::MaybeUninit;
use std::time::Duration;

use rustix::io;
use rustix::time::{ClockId, clock_gettime};

use super::Call;
use super::file::last_errno;
use super::seam::plain;

/// The processor time of this thread, and how often it went to sleep in the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) busy: Duration,
    pub(crate) sleeps: u64,
}

impl Usage {
    /// Both together.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self { busy: self.busy + other.busy, sleeps: self.sleeps + other.sleeps }
    }
}

/// `getrusage(2)` and the processor clock of the calling thread: getrusage counts the time since
/// the last tick of the scheduler to nobody.
pub(crate) fn usage() -> io::Result<Usage> {
    plain(Call::GetUsage, || {
        let mut used = MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: the kernel writes one `struct rusage` where the pointer leads.
        let used = match unsafe { libc::getrusage(libc::RUSAGE_THREAD, used.as_mut_ptr()) } {
            // SAFETY: the call has filled it.
            0 => unsafe { used.assume_init() },
            _ => return Err(last_errno()),
        };
        Ok(Usage {
            busy: clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default(),
            sleeps: u64::try_from(used.ru_nvcsw).unwrap_or(0),
        })
    })
}
