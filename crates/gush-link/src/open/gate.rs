//! The filter of `range=`: which peers are served.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use ipnet::IpNet;

use super::peer::Peer;
use super::throttle::Throttle;

/// Events at a listener, counted for metrics.
#[derive(Debug, Default)]
pub(crate) struct ListenerCounts {
    /// Peers outside `range=`.
    pub refused: AtomicU64,
    /// Waits for descriptors.
    pub waits: AtomicU64,
    /// Datagrams dropped for lack of room.
    pub dropped: AtomicU64,
}

/// The filter of `range=`, shared by all that accept from the listener.
#[derive(Debug, Clone, Default)]
pub(super) struct Gate {
    /// All peers are served if there is none.
    ranges: Vec<IpNet>,
    pub(super) counts: Arc<ListenerCounts>,
    warnings: Arc<Mutex<Throttle>>,
    /// The listener's address, for messages.
    pub(super) address: String,
}

impl Gate {
    pub(super) fn of(ranges: &[IpNet]) -> Self {
        Self { ranges: ranges.to_vec(), ..Self::default() }
    }

    /// Is the peer outside `range=`? A peer without an IP address is outside every range.
    pub(super) fn refuses(&self, peer: &Peer) -> bool {
        let ip = peer.ip();
        let is_within = |range: &IpNet| ip.is_some_and(|ip| range.contains(&ip));
        if self.ranges.is_empty() || self.ranges.iter().any(is_within) {
            return false;
        }
        self.counts.refused.fetch_add(1, Ordering::Relaxed);
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(suppressed) = warnings.passes(Instant::now()) {
            drop(warnings);
            let address = &self.address;
            tracing::warn!("{address}: {peer} refused: outside range={suppressed}");
        }
        true
    }
}
