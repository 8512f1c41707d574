//! The conditions of a flow.

use super::{CALL_BYTES, STREAM_TO_DATAGRAM_BYTES};
use crate::method::MethodName;
use crate::mover::Choice;

/// The user's and the driver's conditions for a flow.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The plan's routes, or one method: then used or refused, never replaced (invariant 6).
    pub choice: Choice,
    /// The methods that the driver permits in addition to read-write: others are left out of the
    /// plan, and refused by name.
    pub permitted: &'static [MethodName],
    /// No page of a file may be shared with the readers of the target.
    pub isolated: bool,
    /// Somebody looks at the bytes, so they must pass through memory.
    pub through_memory: bool,
    /// No call may hold the driver: a stream without O_NONBLOCK is not spliced.
    pub never_held: bool,
    /// Between streams: a read of so many bytes is no short message.
    pub short_bytes: usize,
    /// The most bytes of one read through memory, bounded by
    /// [`Tuning::MOST_BUFFER_BYTES`](crate::Tuning::MOST_BUFFER_BYTES).
    pub buffer_bytes: usize,
    /// The most bytes of one call by reference; 1 GiB or more leaves the size to the flow.
    pub call_bytes: usize,
    /// From a file into a pipe through the flow's own pipe, filled while the reader works.
    pub own_pipe: bool,
    /// The most bytes of one datagram made of a piece of a stream.
    pub message_bytes: usize,
    /// How many bytes the source is said to hold, if known: after them only a `read` is asked.
    pub expected_bytes: Option<u64>,
    /// The driver can go on from any last byte delivered: bytes in flight when the last route is
    /// refused are dropped, because the source still has them.
    pub rereads: bool,
    /// Runs of zeros become holes of the target, a file at an offset; the bytes pass through
    /// memory. A fan makes none.
    pub make_holes: bool,
    /// The most bytes to take, or all. A datagram is never cut: one longer than the rest stays in
    /// the socket, and is an error (`EMSGSIZE`).
    pub length_bytes: Option<u64>,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            choice: Choice::Auto,
            permitted: MethodName::ALL,
            isolated: false,
            through_memory: false,
            never_held: false,
            short_bytes: 16 << 10,
            buffer_bytes: 64 << 10,
            call_bytes: CALL_BYTES,
            own_pipe: false,
            message_bytes: STREAM_TO_DATAGRAM_BYTES,
            expected_bytes: None,
            rereads: false,
            make_holes: false,
            length_bytes: None,
        }
    }
}
