//! What the calling thread has used.

use std::mem::MaybeUninit;
use std::time::Duration;

use rustix::io;

use super::Call;
use super::file::last_errno;
use super::seam::plain;

/// The processor time of this thread, and how often it went to sleep in the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) busy: Duration,
    pub(crate) sleeps: u64,
}

/// `getrusage(2)` of the calling thread.
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
            busy: duration(used.ru_utime) + duration(used.ru_stime),
            sleeps: u64::try_from(used.ru_nvcsw).unwrap_or(0),
        })
    })
}

fn duration(time: libc::timeval) -> Duration {
    let [seconds, micros] =
        [time.tv_sec, time.tv_usec].map(|part| u64::try_from(part).unwrap_or(0));
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}
