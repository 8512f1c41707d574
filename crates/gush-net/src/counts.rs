//! Byte counts that can be read while a relay is at work, and after the relay failed or was dropped.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Passed;

/// One of the two directions of a relay between `a` and `b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// From `a` to `b`; in a one-way copy from the source to the target.
    Forward,
    /// From `b` to `a`.
    Back,
}

impl Way {
    /// Both.
    pub const ALL: [Way; 2] = [Way::Forward, Way::Back];

    /// The other one.
    #[must_use]
    pub fn opposite(self) -> Self {
        match self {
            Way::Forward => Way::Back,
            Way::Back => Way::Forward,
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Way::Forward => "forward",
            Way::Back => "back",
        })
    }
}

/// Live byte counts of one relay, or the sums of several that share it.
///
/// Bytes taken from one end are delivered to the other or in flight, in a pipe or a buffer of the
/// relay. When the relay's future is dropped, the bytes in flight are lost, and these counts say how
/// many; a [`Relay`](crate::Relay) keeps them.
///
/// ```
/// use gush_net::{Counts, Way};
/// let counts = Counts::default();
/// assert_eq!(counts.delivered_bytes(Way::Forward), 0);
/// assert_eq!(counts.in_flight_bytes(Way::Back), 0);
/// ```
#[derive(Debug, Default)]
pub struct Counts {
    lanes: [Lane; 2],
}

#[derive(Debug, Default)]
struct Lane {
    taken_bytes: AtomicU64,
    delivered_bytes: AtomicU64,
}

impl Counts {
    fn lane(&self, way: Way) -> &Lane {
        &self.lanes[way as usize]
    }

    /// Bytes that the kernel took for the end they go to.
    pub fn delivered_bytes(&self, way: Way) -> u64 {
        self.lane(way).delivered_bytes.load(Ordering::Relaxed)
    }

    /// Bytes taken from one end and not yet delivered to the other.
    pub fn in_flight_bytes(&self, way: Way) -> u64 {
        // Delivered is read first: a byte that is delivered in between must not count as negative.
        let delivered = self.delivered_bytes(way);
        self.lane(way).taken_bytes.load(Ordering::Relaxed).saturating_sub(delivered)
    }

    /// Both, as a result tells them; by which method the bytes went is not counted here.
    ///
    /// ```
    /// use gush_net::{Counts, Passed, Way};
    /// assert_eq!(Counts::default().passed(Way::Forward), Passed::default());
    /// ```
    pub fn passed(&self, way: Way) -> Passed {
        let in_flight_bytes = self.in_flight_bytes(way);
        let bytes = self.delivered_bytes(way);
        Passed { bytes, in_flight_bytes, ..Passed::default() }
    }

    pub(crate) fn take(&self, way: Way, bytes: u64) {
        // Relaxed: the counts are looked at, and order nothing else.
        self.lane(way).taken_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn deliver(&self, way: Way, bytes: u64) {
        self.lane(way).delivered_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
