//! The waits of a listener: for free descriptors, and between failures that repeat at once.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// The most descriptors for one client: the client's own, those of the other end, and pipes.
pub(super) const SPARE: u64 = 6;

/// The failures in a row after which accepting pauses between attempts.
const FAILURES: u32 = 16;

/// The longest pause between two attempts, to accept a client or to find free descriptors.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Errors for lack of descriptors or memory, in the process or in the kernel.
pub(super) const EXHAUSTED: [Errno; 4] = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];

/// Yields, then backs off: a persistent refusal, such as that of a security module, repeats at
/// once.
pub(super) async fn pause_after(failures: u32, call: &str, errno: Errno, address: &str) {
    if failures < FAILURES {
        return tokio::task::yield_now().await;
    }
    if failures == FAILURES {
        tracing::warn!("{address}: {call}: {errno}, again and again; trying ever less often");
    }
    let doubled = Duration::from_millis(1 << (failures - FAILURES).min(10));
    tokio::time::sleep(doubled.min(LONGEST_PAUSE)).await;
}

pub(super) fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Waits if the descriptor `number` of an accepted client is so near the limit that its other end
/// could not be opened.
pub(super) async fn wait_for_room(number: u64, waits: &AtomicU64) {
    let limit = descriptor_limit();
    if number + SPARE >= limit {
        // A small limit cannot spare so many.
        until_free(SPARE.min(limit / 4).max(1), waits).await;
    }
}

/// Waits until `wanted` descriptors can be opened. There is no event for that, so it polls and
/// backs off.
pub(super) async fn until_free(wanted: u64, waits: &AtomicU64) {
    let mut pause = Duration::from_millis(1);
    let mut has_waited = false;
    while !are_free(wanted) {
        // A busy server reaches the limit with every client: warn once.
        if !std::mem::replace(&mut has_waited, true) && waits.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!(
                "the limit of open files is reached: new peers wait (ulimit -n raises it)"
            );
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn are_free(wanted: u64) -> bool {
    // Both the limit of the process and that of the system count, so only opening answers.
    let Ok(one) = rustix::fs::open("/dev/null", OFlags::CLOEXEC, Mode::empty()) else {
        return false;
    };
    let more: Result<Vec<OwnedFd>, _> =
        (1..wanted).map(|_| rustix::io::fcntl_dupfd_cloexec(&one, 0)).collect();
    more.is_ok()
}
