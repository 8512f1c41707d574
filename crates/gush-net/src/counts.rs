//! Byte counts that can be read while a relay is at work, and after the relay failed or was
//! dropped.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Passed;

/// One of the two directions of a relay between `a` and `b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From `a` to `b`; in a one-way copy from the source to the target.
    Forward,
    /// From `b` to `a`.
    Back,
}

impl Direction {
    /// Both directions.
    pub const ALL: [Direction; 2] = [Direction::Forward, Direction::Back];

    /// The other one.
    #[must_use]
    pub fn opposite(self) -> Self {
        match self {
            Direction::Forward => Direction::Back,
            Direction::Back => Direction::Forward,
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Direction::Forward => "forward",
            Direction::Back => "back",
        })
    }
}

/// Live byte counts of one relay, or the sums of several that share them.
///
/// Bytes taken from one end are delivered to the other or in flight, in a pipe or a buffer of the
/// relay. When the future of a dropped [`Relay`](crate::Relay) ends with bytes in flight, they are
/// lost, and these counts report how many.
///
/// ```
/// use gush_net::{ByteCounts, Direction};
/// let counts = ByteCounts::default();
/// assert_eq!(counts.delivered_bytes(Direction::Forward), 0);
/// assert_eq!(counts.in_flight_bytes(Direction::Back), 0);
/// ```
#[derive(Debug, Default)]
pub struct ByteCounts {
    lanes: [Lane; 2],
}

#[derive(Debug, Default)]
struct Lane {
    taken_bytes: AtomicU64,
    delivered_bytes: AtomicU64,
}

impl ByteCounts {
    fn lane(&self, direction: Direction) -> &Lane {
        &self.lanes[direction as usize]
    }

    /// Bytes that the kernel, or the stream, took for the end they go to.
    pub fn delivered_bytes(&self, direction: Direction) -> u64 {
        self.lane(direction).delivered_bytes.load(Ordering::Relaxed)
    }

    /// Bytes taken from one end and not yet delivered to the other.
    pub fn in_flight_bytes(&self, direction: Direction) -> u64 {
        // Delivered is read first: a byte delivered in between must not make the difference
        // negative.
        let delivered = self.delivered_bytes(direction);
        self.lane(direction).taken_bytes.load(Ordering::Relaxed).saturating_sub(delivered)
    }

    /// Both, as in a result, but without methods.
    ///
    /// ```
    /// use gush_net::{ByteCounts, Direction, Passed};
    /// assert_eq!(ByteCounts::default().passed(Direction::Forward), Passed::default());
    /// ```
    pub fn passed(&self, direction: Direction) -> Passed {
        let in_flight_bytes = self.in_flight_bytes(direction);
        let bytes = self.delivered_bytes(direction);
        Passed { bytes, in_flight_bytes, ..Passed::default() }
    }

    pub(crate) fn take(&self, direction: Direction, bytes: u64) {
        // Relaxed: the counts order nothing else.
        self.lane(direction).taken_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn deliver(&self, direction: Direction, bytes: u64) {
        self.lane(direction).delivered_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
