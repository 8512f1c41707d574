//! The check of `range=`: which peers are served.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use ipnet::IpNet;

use super::peer::Peer;
use super::throttle::Throttle;

/// The check of `range=`.
#[derive(Debug, Clone, Default)]
pub(super) struct Gate {
    /// The ranges of addresses that are served; all, if none is given.
    ranges: Vec<IpNet>,
    /// Counts the peers from elsewhere.
    pub(super) strangers: Arc<AtomicU64>,
    /// One for all who accept from the listener.
    told: Arc<Mutex<Throttle>>,
    /// The listener's address, for messages.
    pub(super) address: String,
}

impl Gate {
    pub(super) fn of(ranges: &[IpNet]) -> Self {
        Self { ranges: ranges.to_vec(), ..Self::default() }
    }

    /// Is the peer outside `range=`? A peer without an address is outside every range.
    pub(super) fn is_stranger(&self, peer: &Peer) -> bool {
        let ip = peer.ip();
        let is_within = |range: &IpNet| ip.is_some_and(|ip| range.contains(&ip));
        // A peer without an IP address is within no range: the check fails closed.
        if self.ranges.is_empty() || self.ranges.iter().any(is_within) {
            return false;
        }
        self.strangers.fetch_add(1, Ordering::Relaxed);
        // A flood of strangers fills no log.
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(untold) = told.passes(Instant::now()) {
            drop(told);
            let address = &self.address;
            match untold {
                0 => tracing::warn!("{address}: {peer} refused: outside range="),
                _ => tracing::warn!(
                    "{address}: {peer} refused: outside range=, and {untold} others before"
                ),
            }
        }
        true
    }
}
