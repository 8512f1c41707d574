//! Which peers are served: the filter of `range=`, `sourceport=` and `lowport`.

use std::fmt::Display;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use gush::Unpoisoned;
use ipnet::IpNet;

use super::peer::Peer;
use super::throttle::Throttle;
use crate::address::{Opt, OptionSet};

/// Below, only root binds a port (IPPORT_RESERVED in netinet/in.h).
const RESERVED: u16 = 1024;

/// Events at a listener, counted for metrics.
#[derive(Debug, Default)]
pub(crate) struct ListenerCounts {
    /// Peers that the filter refused.
    pub refused: AtomicU64,
    /// Waits for descriptors.
    pub waits: AtomicU64,
    /// Datagrams dropped for lack of room.
    pub dropped: AtomicU64,
}

/// The filter, shared by all that accept from the listener.
#[derive(Debug, Clone, Default)]
pub(super) struct Gate {
    /// All peers are served if there is none.
    ranges: Vec<IpNet>,
    /// The only port of a peer that is served.
    source_port: Option<u32>,
    /// Are only peers with a reserved port served?
    is_low: bool,
    pub(super) counts: Arc<ListenerCounts>,
    warnings: Arc<Mutex<Throttle>>,
    /// The listener's address, for messages.
    pub(super) address: String,
}

impl Gate {
    pub(super) fn of(options: &OptionSet) -> Self {
        Self {
            ranges: options.ranges().to_vec(),
            source_port: options.count(Opt::SourcePort),
            is_low: options.is_on(Opt::LowPort),
            ..Self::default()
        }
    }

    /// The option that refuses the peer. One without an IP address is refused by each of them.
    fn refusing(&self, peer: &Peer) -> Option<Opt> {
        let (ip, port) = match peer {
            Peer::Ip(address) => (peer.ip(), Some(address.port())),
            _ => (None, None),
        };
        let is_within = |range: &IpNet| match (range, ip) {
            // An IPv4 peer of an IPv6 socket has an IPv4 address here.
            (IpNet::V6(range), Some(IpAddr::V4(ip))) => range.contains(&ip.to_ipv6_mapped()),
            (range, Some(ip)) => range.contains(&ip),
            (_, None) => false,
        };
        if !self.ranges.is_empty() && !self.ranges.iter().any(is_within) {
            Some(Opt::Range)
        } else if self.source_port.is_some() && self.source_port != port.map(u32::from) {
            Some(Opt::SourcePort)
        } else if self.is_low && port.is_none_or(|port| port >= RESERVED) {
            Some(Opt::LowPort)
        } else {
            None
        }
    }

    /// Is the peer not to be served?
    pub(super) fn refuses(&self, peer: &Peer) -> bool {
        let Some(option) = self.refusing(peer) else { return false };
        self.counts.refused.fetch_add(1, Ordering::Relaxed);
        let why = match (option, self.source_port) {
            (Opt::SourcePort, Some(port)) => format!("not from port {port} (sourceport)"),
            (Opt::LowPort, _) => format!("not from a port below {RESERVED} (lowport)"),
            _ => "outside range=".to_owned(),
        };
        self.warn(format_args!("{peer} refused: {why}"));
        true
    }

    /// Warns of what is not served, unless there is too much of it.
    fn warn(&self, what: impl Display) {
        let passes = self.warnings.lock().unpoisoned().passes(Instant::now());
        if let Some(suppressed) = passes {
            tracing::warn!("{}: {what}{suppressed}", self.address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_mapped_addresses_admits_ipv4_peers() {
        for (range, admits) in [
            ("::ffff:127.0.0.0/104", true),
            ("::ffff:127.0.0.0/80", true),
            ("::/0", true),
            ("127.0.0.0/8", true),
            ("::ffff:128.0.0.0/104", false),
            ("::1/128", false),
            ("128.0.0.0/8", false),
        ] {
            let gate = Gate { ranges: vec![range.parse().unwrap()], ..Gate::default() };
            let refusing = gate.refusing(&Peer::Ip("127.0.0.9:1".parse().unwrap()));
            assert_eq!(refusing, (!admits).then_some(Opt::Range), "{range}");
        }
    }
}
