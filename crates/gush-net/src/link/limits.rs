//! How many clients are served at once.

use std::sync::Arc;

use rustix::process::{Resource, getrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::warn;

use super::ledger::{Ledger, Limit};
use crate::address::{Address, Kind, Opt};

/// Kept free, so that a client that has a place can be connected on, whatever is opened for a moment.
const SPARE: u64 = 8;
/// An epoll, its waker and its copies, for each further thread's runtime.
const EACH_THREAD: u64 = 4;
/// Open from the start, where /proc does not tell.
const AT_START: u64 = 32;

/// Places for clients.
#[derive(Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    limit: Limit,
    most: usize,
}

impl Places {
    /// As many as `most` says and as there are descriptors for, once the limit on these is raised as far as it may be.
    pub fn new(most: Option<usize>, client: &Address, other: &Address, threads: usize) -> Self {
        gush_process::raise_descriptor_limit();
        let descriptors = getrlimit(Resource::Nofile).current;
        let open = std::fs::read_dir("/proc/self/fd").map(|found| found.count() as u64);
        let apart =
            open.unwrap_or(AT_START) + SPARE + EACH_THREAD * (threads as u64).saturating_sub(1);
        let enough = clients(descriptors, apart, descriptors_each(client, other));
        let (most, limit) = match most {
            Some(most) if most <= enough => (most, Limit::MaxChildren),
            _ => (enough, Limit::Descriptors),
        };
        Self { free: Arc::new(Semaphore::new(most)), limit, most }
    }

    /// Waits for a place, which is given back when the answer is dropped. That none is free is counted each time,
    /// and told the first time.
    pub async fn take(&self, ledger: &Ledger) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(&self.free).try_acquire_owned() {
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
        // Nobody closes the semaphore.
        Arc::clone(&self.free).acquire_owned().await.ok()
    }
}

/// A client's own descriptor and those of the other address; a pipe between them is borrowed only if there is one.
fn descriptors_each(client: &Address, other: &Address) -> u64 {
    // A sender of datagrams has a socket pair.
    let pair = u64::from(client.kind() == Kind::UdpListen);
    let is_on = |option| other.options().is_on(option);
    let of_other = match other.kind() {
        // A program is waited for by a descriptor.
        Kind::Exec | Kind::Shell if is_on(Opt::Pipes) => 4,
        Kind::Exec | Kind::Shell | Kind::Pipe => 3,
        _ => 2,
    };
    of_other + pair
}

fn clients(descriptors: Option<u64>, apart: u64, each: u64) -> usize {
    let Some(descriptors) = descriptors else { return Semaphore::MAX_PERMITS };
    let clients = descriptors.saturating_sub(apart) / each;
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
