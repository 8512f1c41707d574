//! The account of a link: the connections open now, and the totals of all connections.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gush::Unpoisoned;
use gush::pipe::Pool;
use gush_net::{ByteCounts, Direction};
use prometheus::{
    Histogram, HistogramOpts, IntCounter, IntGauge, Registry, TextEncoder,
    register_histogram_with_registry, register_int_counter_vec_with_registry,
    register_int_counter_with_registry, register_int_gauge_with_registry,
};

use crate::open::ListenerCounts;
use crate::record::Ending;

/// Upper bounds of the durations' histogram, in seconds: a request, a download, a session of a day.
const SECONDS: [f64; 12] =
    [0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0, 3600.0, 86400.0];

/// The limit at which clients wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    Descriptors,
    MaxChildren,
}

impl Limit {
    fn as_str(self) -> &'static str {
        match self {
            Self::Descriptors => "descriptors",
            Self::MaxChildren => "max-children",
        }
    }
}

/// Counts the connections of a link, shared by the threads, the progress display and the metrics.
///
/// ```
/// use gush_link::{Link, Settings, Stop};
/// use gush_net::Direction;
///
/// let link = Link::new("exec:'echo hello'".parse()?, "null:".parse()?, Settings::default())?;
/// link.run(&Stop::new())?;
/// let ledger = link.ledger();
/// assert_eq!((ledger.connections(), ledger.active(), ledger.failed()), (1, 0, 0));
/// assert_eq!(ledger.delivered_bytes(Direction::Forward), 6);
/// assert!(ledger.prometheus()?.contains("gush_link_connections_accepted_total 1"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Ledger {
    registry: Registry,
    active: IntGauge,
    accepted: IntCounter,
    refused: IntCounter,
    /// By [`Limit`].
    waits: [IntCounter; 2],
    endings: [IntCounter; Ending::ALL.len()],
    /// By [`Direction`].
    bytes: [IntCounter; 2],
    seconds: Histogram,
    pipes: [IntGauge; 4],
    dropped: IntCounter,
    listener: Arc<ListenerCounts>,
    last_id: AtomicU64,
    open: Mutex<OpenConnections>,
    scrape: Mutex<()>,
}

/// The connections open now, and the totals of ended ones.
#[derive(Debug, Default)]
struct OpenConnections {
    counts: BTreeMap<u64, Arc<ByteCounts>>,
    ended_bytes: [u64; 2],
}

impl Ledger {
    /// An empty account.
    ///
    /// # Errors
    /// Never, unless the names of the metrics contradict each other.
    pub(crate) fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let counter = |name: &str, help: &str| {
            register_int_counter_with_registry!(format!("gush_link_{name}_total"), help, registry)
        };
        let counters = |name: &str, help: &str, label: &str| {
            let name = format!("gush_link_{name}_total");
            register_int_counter_vec_with_registry!(name, help, &[label], registry)
        };
        let gauge = |name: &str, help: &str| {
            register_int_gauge_with_registry!(format!("gush_link_{name}"), help, registry)
        };
        let ended =
            counters("connections_ended", "Connections that have ended, by reason.", "reason")?;
        let failed =
            counters("connections_failed", "Connections that failed, by reason.", "reason")?;
        let refused = counters(
            "connections_refused",
            "Connections that were closed unserved, by reason.",
            "reason",
        )?;
        let waits = counters(
            "waits",
            "How often no further client could be served, by the limit that was reached.",
            "limit",
        )?;
        let bytes = counters(
            "bytes",
            "Bytes written to the other side, live connections included; a peer may not have acknowledged the last ones.",
            "direction",
        )?;
        let seconds = HistogramOpts::new(
            "gush_link_connection_duration_seconds",
            "How long connections lasted.",
        )
        .buckets(SECONDS.to_vec());
        // All series exist from the start: one that appears with its first event looks like a
        // missing one. Finding a series by its label takes a lock and a hash.
        Ok(Self {
            active: gauge("connections_active", "Connections open now.")?,
            accepted: counter("connections_accepted", "Connections that were accepted or made.")?,
            refused: refused.with_label_values(&["range"]),
            waits: [Limit::Descriptors, Limit::MaxChildren]
                .map(|limit| waits.with_label_values(&[limit.as_str()])),
            endings: Ending::ALL.map(|ending| {
                let series = if ending.is_failure() { &failed } else { &ended };
                series.with_label_values(&[ending.as_str()])
            }),
            bytes: ["forward", "back"].map(|direction| bytes.with_label_values(&[direction])),
            seconds: register_histogram_with_registry!(seconds, registry)?,
            pipes: [
                gauge("pipes_in_use", "Pipes that hold bytes in flight.")?,
                gauge("pipes_idle", "Empty pipes kept for later.")?,
                gauge("pipe_bytes", "Capacity of all pipes held.")?,
                gauge("pipe_budget_bytes", "The limit of that capacity.")?,
            ],
            dropped: counter(
                "datagrams_dropped",
                "Datagrams that were received and had no room with their sender's flow.",
            )?,
            listener: Arc::default(),
            last_id: AtomicU64::new(0),
            open: Mutex::default(),
            scrape: Mutex::default(),
            registry,
        })
    }

    /// Counts a new connection, whose bytes `counts` counts. Returns the connection's number.
    pub(crate) fn begin(&self, counts: Arc<ByteCounts>) -> u64 {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        self.accepted.inc();
        self.active.inc();
        self.open.lock().unpoisoned().counts.insert(id, counts);
        id
    }

    /// The last number, once `more` connections have come.
    pub(crate) fn last_id_with(&self, more: usize) -> u64 {
        self.last_id.load(Ordering::Relaxed) + more as u64
    }

    /// Gives numbers after `last_id` only, of another process.
    pub(crate) fn begin_after(&self, last_id: u64) {
        self.last_id.fetch_max(last_id, Ordering::Relaxed);
    }

    /// Counts the connection `id` of another process.
    pub(crate) fn resume(&self, id: u64, counts: Arc<ByteCounts>) {
        self.accepted.inc();
        self.active.inc();
        self.open.lock().unpoisoned().counts.insert(id, counts);
    }

    /// The connection `id` belongs to another process from here on.
    pub(crate) fn give(&self, id: u64) {
        let mut open = self.open.lock().unpoisoned();
        let Some(counts) = open.counts.remove(&id) else { return };
        for (sum, way) in open.ended_bytes.iter_mut().zip(Direction::ALL) {
            *sum += counts.delivered_bytes(way);
        }
        drop(open);
        self.active.dec();
    }

    /// Counts the end of connection `id`, over which so many bytes went forward and back.
    pub(crate) fn end(&self, id: u64, bytes: [u64; 2], lasted: Duration, ending: Ending) {
        let mut open = self.open.lock().unpoisoned();
        // Dropped after the lock is released: this may free them.
        let counts = open.counts.remove(&id);
        for (sum, bytes) in open.ended_bytes.iter_mut().zip(bytes) {
            *sum += bytes;
        }
        drop(open);
        drop(counts);
        self.active.dec();
        self.endings[ending as usize].inc();
        self.seconds.observe(lasted.as_secs_f64());
    }

    /// The counts of the listener.
    pub(crate) fn listener(&self) -> &Arc<ListenerCounts> {
        &self.listener
    }

    /// Counts a wait, because all places are taken. Is this the first wait?
    pub(crate) fn waits_at(&self, limit: Limit) -> bool {
        match limit {
            Limit::Descriptors => self.listener.waits.fetch_add(1, Ordering::Relaxed) == 0,
            Limit::MaxChildren => {
                let waits = &self.waits[limit as usize];
                waits.inc();
                waits.get() == 1
            }
        }
    }

    /// The number of open connections.
    #[must_use]
    pub fn active(&self) -> u64 {
        u64::try_from(self.active.get()).unwrap_or(0)
    }

    /// The number of all connections, open ones included.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.accepted.get()
    }

    /// The number of failed connections.
    #[must_use]
    pub fn failed(&self) -> u64 {
        let failures = Ending::ALL.into_iter().filter(|ending| ending.is_failure());
        failures.map(|ending| self.endings[ending as usize].get()).sum()
    }

    /// Bytes written in one direction by all connections, open ones included. A peer may not have
    /// acknowledged the last ones, and loses them if the connection is reset.
    #[must_use]
    pub fn delivered_bytes(&self, way: Direction) -> u64 {
        let open = self.open.lock().unpoisoned();
        let live: u64 = open.counts.values().map(|counts| counts.delivered_bytes(way)).sum();
        open.ended_bytes[way as usize] + live
    }

    /// All metrics as Prometheus text, format 0.0.4.
    ///
    /// # Errors
    /// Never, unless a metric is malformed.
    pub fn prometheus(&self) -> Result<String, prometheus::Error> {
        // Two concurrent scrapes must not both add the same bytes.
        let _alone = self.scrape.lock();
        let ListenerCounts { refused, waits, dropped } = &*self.listener;
        let now = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let [forward, back] = &self.bytes;
        for (counter, now) in [
            (forward, self.delivered_bytes(Direction::Forward)),
            (back, self.delivered_bytes(Direction::Back)),
            (&self.refused, now(refused)),
            (&self.waits[Limit::Descriptors as usize], now(waits)),
            (&self.dropped, now(dropped)),
        ] {
            counter.inc_by(now.saturating_sub(counter.get()));
        }
        let usage = Pool::shared().usage();
        for (gauge, value) in
            self.pipes.iter().zip([usage.in_use, usage.idle, usage.bytes, usage.budget_bytes])
        {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        }
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}
