//! A row of the table: two ends, the acts of the peers, and the required ending.

use std::fmt;

use gush::Choice;

use crate::account::Fate;
use crate::common::{SourceKind, TargetKind};

/// Where the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    Kind(TargetKind),
    /// `/dev/full`.
    Full,
    /// A file on a file system with room for [`crate::stage::ROOM_BYTES`].
    Room,
}

impl To {
    pub fn kind(self) -> Option<TargetKind> {
        match self {
            To::Kind(kind) => Some(kind),
            To::Full | To::Room => None,
        }
    }

    pub fn is_datagram(self) -> bool {
        self.kind().is_some_and(TargetKind::is_datagram)
    }
}

/// The acts of the two peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// One sends and ends, the other reads.
    Whole,
    /// As whole, with an empty datagram at the beginning, in the middle and at the end.
    Empties,
    /// The second half is sent once the first has arrived.
    Pause,
    /// Nobody reads until the sender can write no more.
    Stuffed,
    /// The sender's last word is a reset.
    Reset,
    /// An urgent byte in the middle (tcp(7)).
    Urgent { in_line: bool },
    /// The reader has gone before the first byte.
    NoReader,
    /// The reader goes after some bytes.
    Leaves,
}

/// A row.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub from: SourceKind,
    pub to: To,
    pub scene: Scene,
    pub bytes: usize,
    pub limit: Option<u64>,
    pub choice: Choice,
    pub fate: Fate,
    /// How many bytes arrive: all that may, by default.
    pub delivers: Option<usize>,
}

impl Case {
    pub fn new(from: SourceKind, to: To, scene: Scene, bytes: usize, fate: Fate) -> Self {
        Self { from, to, scene, bytes, limit: None, choice: Choice::Auto, fate, delivers: None }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { from, to, scene, bytes, choice, .. } = self;
        write!(f, "{bytes} bytes, {from:?} -> {to:?}, {scene:?}, {choice}")?;
        self.limit.map_or(Ok(()), |limit| write!(f, ", at most {limit}"))
    }
}
