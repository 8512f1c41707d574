//! The limit on clients served at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Resource, getrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::warn;

use crate::address::{Address, Locator, Opt};
use crate::ledger::{Ledger, Limit};
use crate::workers::MAX_ACCEPTORS;

/// Descriptors kept free for short needs: four to start a program (its ends of the sockets, and the
/// pipe that reports a failed exec(2)), two for a lookup, one for a request for metrics.
const SPARE: u64 = 8;
/// An epoll, its waker and its copies, for each further thread's runtime.
const EACH_THREAD: u64 = 4;
/// Descriptors open from the start, if /proc is not mounted.
const AT_START: u64 = 32;

/// Places for clients.
#[derive(Debug)]
pub(crate) struct Places {
    free: Arc<Semaphore>,
    limit: Limit,
    most: usize,
    /// Does a client wait for a place because descriptors are short?
    short: Arc<AtomicBool>,
}

impl Places {
    /// Raises the limit on descriptors to the hard limit. Offers `most` places, or fewer if the
    /// descriptors do not suffice.
    pub fn new(most: Option<usize>, client: &Address, other: &Address, threads: usize) -> Self {
        // The soft limit is often 1,024 while the hard one is a million; programs get the old one
        // back.
        gush_process::raise_descriptor_limit();
        let descriptors = getrlimit(Resource::Nofile).current;
        // Counted, since the caller may have opened many. One is the directory itself.
        let open = std::fs::read_dir("/proc/self/fd")
            .map(|found| (found.count() as u64).saturating_sub(1));
        let further = threads.saturating_sub(1);
        let copies = further.min(MAX_ACCEPTORS - 1);
        let apart = open.unwrap_or(AT_START) + SPARE + EACH_THREAD * further as u64 + copies as u64;
        let enough = clients(descriptors, apart, descriptors_each(client, other));
        let (most, limit) = match most {
            Some(most) if most <= enough => (most, Limit::MaxChildren),
            _ => (enough, Limit::Descriptors),
        };
        Self { free: Arc::new(Semaphore::new(most)), limit, most, short: Arc::default() }
    }

    /// True while a client waits because descriptors are short.
    pub fn are_short(&self) -> &Arc<AtomicBool> {
        &self.short
    }

    /// A place, if one is free.
    pub fn free_now(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.free).try_acquire_owned().ok()
    }

    /// Waits for a place, which dropping the permit releases. Every wait is counted, and the first
    /// one is logged.
    pub async fn take(&self, ledger: &Ledger) -> Option<OwnedSemaphorePermit> {
        if let Some(place) = self.free_now() {
            return Some(place);
        }
        if ledger.waits_at(self.limit) {
            match self.limit {
                Limit::MaxChildren => {
                    warn!("all {} places of max-children= are taken: new clients wait", self.most);
                }
                Limit::Descriptors => warn!(
                    "the limit of open files is reached: new clients wait for one of {} places (ulimit -n raises it)",
                    self.most
                ),
            }
        }
        // Evicting silent senders helps with this limit only.
        self.short.store(matches!(self.limit, Limit::Descriptors), Ordering::Relaxed);
        // The semaphore is never closed.
        let place = Arc::clone(&self.free).acquire_owned().await.ok();
        self.short.store(false, Ordering::Relaxed);
        place
    }
}

/// The descriptors of one client at both addresses. Pipes between them come from a pool with a
/// limit.
fn descriptors_each(client: &Address, other: &Address) -> u64 {
    of_address(client) + of_address(other)
}

fn of_address(address: &Address) -> u64 {
    match address.locator() {
        Locator::Joined(parts) => parts.iter().map(of_address).sum(),
        // A failed one is closed before the next is tried.
        Locator::FirstOf(parts) => parts.iter().map(of_address).max().unwrap_or(1),
        _ => address.kind().row().descriptors + u64::from(address.options().is_on(Opt::Pipes)),
    }
}

fn clients(descriptors: Option<u64>, apart: u64, each: u64) -> usize {
    let Some(descriptors) = descriptors else { return Semaphore::MAX_PERMITS };
    let clients = descriptors.saturating_sub(apart) / each;
    // At least one, whose error reports a lack of descriptors.
    usize::try_from(clients).unwrap_or(usize::MAX).clamp(1, Semaphore::MAX_PERMITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_is_always_tried() {
        assert_eq!(clients(Some(0), 20, 2), 1);
        assert_eq!(clients(Some(64), 24, 2), 20);
        assert_eq!(clients(None, 20, 2), Semaphore::MAX_PERMITS);
    }
}
