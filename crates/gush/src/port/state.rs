//! What a move knows of one side apart from the descriptor.

use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::OFlags;
use rustix::io::{self, Errno};

use super::Port;
use crate::endpoint::{Endpoint, Kind};
use crate::sys;

/// One side of a flow without the descriptor: kind, flags, and present offset.
///
/// Looked at once, when the flow begins. A driver owns the descriptor and lends one for each call.
#[derive(Clone, Copy, Debug)]
pub struct PortState {
    /// Where the next call reads or writes, if not at the descriptor's own position.
    pub(crate) at: Option<u64>,
    pub(crate) kind: Kind,
    pub(crate) flags: OFlags,
    pub(crate) can_idle: bool,
    pub(crate) is_master: bool,
    pub(crate) ends_at_zero: bool,
    /// The descriptor refused the call that never waits ([`Port::learn_nowait_refused`]).
    pub(crate) refuses_nowait: bool,
    is_in_memory: bool,
    /// The capacity, if this is a pipe and a flow asked; 31 bits are enough (`pipe_set_size`).
    pipe_bytes: Option<NonZeroU32>,
}

impl PortState {
    /// Looks at a descriptor, used at the descriptor's own position.
    ///
    /// # Errors
    /// As [`Endpoint::of`].
    pub fn of(fd: &impl AsFd) -> std::io::Result<Self> {
        Ok(Self::of_endpoint(&Endpoint::of(fd)?, None))
    }

    /// A side of a flow, at an offset or at the descriptor's position.
    pub(crate) fn of_endpoint(endpoint: &Endpoint<'_>, at: Option<u64>) -> Self {
        let Port { fd, state } = Port::new(endpoint, at);
        let pipe_bytes = match state.kind {
            Kind::Pipe => sys::pipe::pipe_size(fd).unwrap_or(0),
            _ => 0,
        };
        Self { pipe_bytes: u32::try_from(pipe_bytes).ok().and_then(NonZeroU32::new), ..state }
    }

    /// A descriptor of a known kind, used at the descriptor's own position; no call is made.
    #[must_use]
    pub fn known(kind: Kind, nonblocking: bool) -> Self {
        Self::of_kind(kind, if nonblocking { OFlags::NONBLOCK } else { OFlags::empty() })
    }

    pub(crate) fn of_kind(kind: Kind, flags: OFlags) -> Self {
        Self {
            at: None,
            kind,
            flags,
            can_idle: kind.can_idle(),
            is_master: false,
            ends_at_zero: kind != Kind::Datagram,
            refuses_nowait: false,
            is_in_memory: false,
            pipe_bytes: None,
        }
    }

    /// A side without a descriptor, such as a TLS stream: the bytes pass through memory alone, and
    /// the driver answers the calls, by [`Flow::room`](crate::flow::Flow::room) and
    /// [`Flow::pending`](crate::flow::Flow::pending). The end is an answer of 0 bytes.
    #[must_use]
    pub fn in_memory() -> Self {
        Self { is_in_memory: true, ..Self::known(Kind::Other, true) }
    }

    /// As [`PortState::in_memory`], for a side whose messages keep their boundaries, such as a
    /// stream made around a socket of datagrams: each read gives a message, and is given room for
    /// 64 KiB; each write takes one whole. 0 bytes are the end, unless it `has_empty` messages.
    #[must_use]
    pub fn in_memory_of_messages(has_empty: bool) -> Self {
        Self { is_in_memory: true, ends_at_zero: !has_empty, ..Self::known(Kind::Datagram, true) }
    }

    /// Has this side no descriptor ([`PortState::in_memory`])?
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        self.is_in_memory
    }

    /// The port of a descriptor in this state, for calls that a driver makes outside the flow.
    #[must_use]
    pub fn port<'fd>(&self, fd: BorrowedFd<'fd>) -> Port<'fd> {
        Port { fd, state: *self }
    }

    /// The same, at an offset in bytes, which moves on with every call.
    #[must_use]
    pub fn at(self, offset_bytes: u64) -> Self {
        Self { at: Some(offset_bytes), ..self }
    }

    /// The kind of the descriptor.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The offset in bytes where the next call reads or writes, unless the descriptor's own
    /// position counts.
    #[must_use]
    pub fn offset_bytes(&self) -> Option<u64> {
        self.at
    }

    /// Is a read of 0 bytes the end? From a datagram socket such a read is an empty datagram.
    #[must_use]
    pub fn ends_at_zero(&self) -> bool {
        self.ends_at_zero
    }

    /// Is this the master of a pseudo-terminal? [`Port::read`] answers 0 at the end of a master.
    #[must_use]
    pub fn is_master(&self) -> bool {
        self.is_master
    }

    /// Does the descriptor itself have O_NONBLOCK?
    #[must_use]
    pub fn is_nonblocking(&self) -> bool {
        self.flags.contains(OFlags::NONBLOCK)
    }

    /// Was the descriptor opened with `O_APPEND`?
    pub(crate) fn is_append(&self) -> bool {
        self.flags.contains(OFlags::APPEND)
    }

    /// Does the descriptor have `O_DIRECT`, so that addresses, offsets and lengths must be aligned?
    pub(crate) fn is_direct(&self) -> bool {
        matches!(self.kind, Kind::File | Kind::Block) && self.flags.contains(OFlags::DIRECT)
    }

    /// Do messages keep their boundaries here?
    pub(crate) fn keeps_boundaries(&self) -> bool {
        self.kind == Kind::Datagram
    }

    /// Do messages have boundaries, and the stream of them an end? UDP and unix datagrams have no
    /// end.
    pub(crate) fn is_seqpacket(&self) -> bool {
        self.keeps_boundaries() && self.ends_at_zero
    }

    /// Does an empty datagram go on to this port? A stream has no place for one, and to a
    /// SOCK_SEQPACKET peer one would be the end.
    pub(crate) fn takes_empty(&self) -> bool {
        self.keeps_boundaries() && !self.ends_at_zero
    }

    /// The capacity of a pipe, as it was when the flow began.
    pub(crate) fn pipe_bytes(&self) -> Option<usize> {
        self.pipe_bytes.map(|bytes| bytes.get() as usize)
    }

    /// Makes one call on the port.
    pub(crate) fn call<T>(
        &mut self,
        fd: BorrowedFd<'_>,
        call: impl FnOnce(&mut Port<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        if self.is_in_memory {
            return Err(Errno::BADF);
        }
        let mut port = self.port(fd);
        let answer = call(&mut port);
        *self = port.state;
        answer
    }

    /// Moves the offset on, past bytes not moved by a call.
    pub(crate) fn skip(&mut self, bytes: u64) {
        self.at = self.at.map(|at| at + bytes);
    }
}
