//! A relay that goes on in another process: its state, and the descriptors of its ends.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use gush::Side;
use gush::flow::{Carried, Flow, PortState, Terms};
use gush::pipe::Pipe;

use crate::conduit::Conduit;
use crate::counts::Direction;
use crate::options::RelayOptions;

/// One descriptor of a [`Conduit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ConduitPart {
    /// Is it read?
    pub reads: bool,
    /// Is it written?
    pub writes: bool,
    /// Is it a TCP socket without a layer above TCP in the kernel?
    pub is_tcp: bool,
}

/// The state of a [`Relay`](crate::Relay) between two runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
pub struct RelayState {
    /// Forward and back.
    pub directions: [DirectionState; 2],
    /// How long nothing has moved.
    pub quiet: Duration,
}

/// What one direction of a relay has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
pub struct DirectionState {
    /// Bytes delivered.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub delivered_bytes: u64,
    /// The same by read-write, splice and sendfile.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub by_method: [u64; 3],
    /// Bytes in flight in memory, which come before those in the pipe.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub hand: Vec<u8>,
    /// Bytes in flight in a pipe.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub piped_bytes: u64,
    /// The target takes no splices of them.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub through_memory: bool,
    /// Has the source ended, and is everything delivered?
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub is_at_end: bool,
    /// Did a read find that end?
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub has_seen_end: bool,
    /// Was the end passed on?
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub is_done: bool,
}

/// Thousands of connections move at once: what most of them lack is not sent.
#[cfg(feature = "serde")]
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The ends of a pipe with bytes in flight: first the one to be read.
pub type PipeEnds<F> = Option<[F; 2]>;

impl DirectionState {
    pub(crate) fn of_flow(flow: Option<&Flow>) -> Option<(Self, PipeEnds<BorrowedFd<'_>>)> {
        let Some(flow) = flow else { return Some(Default::default()) };
        let (carried, pipe) = flow.carried()?;
        let Carried { delivered_bytes, hand, piped_bytes, through_memory } = carried;
        let state = Self { delivered_bytes, hand, piped_bytes, through_memory, ..Self::default() };
        Some((state, pipe))
    }

    /// The flow of a direction from `a` to `b`, or back; `None` if it has moved nothing.
    pub(crate) fn flow(
        &mut self,
        direction: Direction,
        ends: [&Conduit; 2],
        options: &RelayOptions,
        pipe: PipeEnds<OwnedFd>,
    ) -> io::Result<Option<Flow>> {
        let pipe = pipe.map(|[read, write]| Pipe::of_ends(read, write)).transpose()?;
        if pipe.as_ref().map_or(0, Pipe::held_bytes) != self.piped_bytes {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "bytes in flight are missing"));
        }
        let carried = Carried {
            delivered_bytes: self.delivered_bytes,
            hand: std::mem::take(&mut self.hand),
            piped_bytes: self.piped_bytes,
            through_memory: self.through_memory,
        };
        if carried == Carried::default() {
            return Ok(None);
        }
        let [a, b] = ends;
        let (source, target) = match direction {
            Direction::Forward => (a, b),
            Direction::Back => (b, a),
        };
        // The end of the data may have closed the target.
        let port = |end: &Conduit, side| end.port(side).unwrap_or(PortState::in_memory());
        let terms = if self.is_done { Terms::default() } else { options.terms() };
        let flow = Flow::between(port(source, Side::Source), port(target, Side::Target), &terms);
        Ok(Some(flow.map_err(|refusal| io::Error::other(refusal.why))?.carry_on(carried, pipe)))
    }
}
