//! A flow's knowledge of one of the two ports: everything but the descriptor.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::{self, Errno};

use super::Op;
use crate::endpoint::{Endpoint, Kind};
use crate::method::{Refusal, SpliceTarget};
use crate::mover::Choice;
use crate::port::{Manner, Port, Side};
use crate::sys::{self, Call};

/// One side of a flow without the descriptor: kind, flags, and present offset.
///
/// Looked at once, when the flow begins. A driver owns the descriptor and lends one for each call.
///
/// ```
/// use gush::flow::Stance;
/// let (end, _other) = std::os::unix::net::UnixStream::pair()?;
/// let stance = Stance::of(&end)?;
/// assert_eq!(stance.kind(), gush::Kind::Stream);
/// assert!(stance.ends_at_zero());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Stance {
    pub(super) manner: Manner,
    ends_at_zero: bool,
    is_in_memory: bool,
    /// The capacity, if this is a pipe.
    pipe_bytes: Option<usize>,
}

/// How much of a pipe's capacity one splice moves. The kernel wakes the other side once, when the call is over
/// (`splice_file_to_pipe` and `splice_from_pipe` of `fs/splice.c`): a call that fills or empties the pipe leaves this
/// side nothing to do while the other wakes up, and then the other while this one does, so that neither works beside
/// the other. A part of a pipe of 64 KiB or less is not worth a call.
fn part_of_pipe(capacity_bytes: usize) -> usize {
    const PART: usize = 4;
    const LEAST_BYTES: usize = 64 << 10;
    (capacity_bytes / PART).max(LEAST_BYTES)
}

impl Stance {
    /// Looks at a descriptor, used at the descriptor's own position.
    ///
    /// # Errors
    /// The error of fstat(2), fcntl(2) or getsockopt(2).
    pub fn of(fd: &impl AsFd) -> std::io::Result<Self> {
        Ok(Self::of_port(&Port::of(fd)?)?)
    }

    fn of_port(port: &Port<'_>) -> io::Result<Self> {
        let ends_at_zero = port.kind() != Kind::Datagram || port.is_seqpacket()?;
        let pipe_bytes = match port.kind() {
            Kind::Pipe => sys::pipe::pipe_size(port.fd).ok(),
            _ => None,
        };
        let manner = port.manner();
        Ok(Self { manner, ends_at_zero, is_in_memory: false, pipe_bytes })
    }

    /// An end of a move, at an offset or at the descriptor's position.
    pub(crate) fn of_endpoint(
        endpoint: &Endpoint<'_>,
        at: Option<u64>,
    ) -> Result<Self, (Call, Errno)> {
        Self::of_port(&Port::new(endpoint, at)).map_err(|errno| (Call::GetSocketOption, errno))
    }

    /// A descriptor of a known kind, used at the descriptor's own position; no call is made.
    #[must_use]
    pub fn known(kind: Kind, nonblocking: bool) -> Self {
        let manner = Manner::known(kind, nonblocking);
        let ends_at_zero = kind != Kind::Datagram;
        Self { manner, ends_at_zero, is_in_memory: false, pipe_bytes: None }
    }

    /// A side without a descriptor, such as a TLS stream: the bytes pass through memory alone, and the driver answers the calls,
    /// by [`Flow::room`](super::Flow::room) and [`Flow::pending`](super::Flow::pending). The end is an answer of 0 bytes.
    ///
    /// ```
    /// use gush::{Choice, Kind, MethodName};
    /// use gush::flow::{Flow, Stance, Terms};
    /// let (memory, socket) = (Stance::in_memory(), Stance::known(Kind::Stream, true));
    /// let by_name = Terms { choice: Choice::Only(MethodName::Splice), ..Terms::default() };
    /// let refusal = Flow::between(memory, socket, &by_name).unwrap_err();
    /// assert!(refusal.to_string().contains("no descriptor"));
    /// ```
    #[must_use]
    pub fn in_memory() -> Self {
        Self { is_in_memory: true, ..Self::known(Kind::Other, true) }
    }

    /// Has this side no descriptor ([`Stance::in_memory`])?
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        self.is_in_memory
    }

    /// As [`Stance::in_memory`], for a side whose messages keep their boundaries, such as a stream made around a socket of
    /// datagrams: each read gives a message, and is given room for 64 KiB; each write takes one whole. No message is empty,
    /// since 0 bytes are the end.
    ///
    /// ```
    /// use gush::flow::{Flow, Lender, Next, Op, Shelf, Stance, Terms};
    /// let (memory, socket) = (Stance::in_memory_of_messages(), Stance::known(gush::Kind::Datagram, true));
    /// let mut flow = Flow::between(memory, socket, &Terms::default())?;
    /// let mut shelf = Shelf::new(gush::pipe::Pool::shared().clone());
    /// // A limit cuts no message.
    /// assert!(matches!(flow.next(10, &mut shelf), Next::Do(Op::Read(65_536))));
    /// # Ok::<(), gush::Refusal>(())
    /// ```
    #[must_use]
    pub fn in_memory_of_messages() -> Self {
        Self { is_in_memory: true, ends_at_zero: true, ..Self::known(Kind::Datagram, true) }
    }

    /// The port again, on the descriptor given: for calls that a driver makes beside the flow.
    ///
    /// ```
    /// use std::os::fd::AsFd;
    /// let (near, far) = std::os::unix::net::UnixStream::pair()?;
    /// let stance = gush::flow::Stance::of(&near)?;
    /// assert_eq!(stance.port(near.as_fd()).write(b"beside"), Ok(6));
    /// # drop(far);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn port<'fd>(&self, fd: BorrowedFd<'fd>) -> Port<'fd> {
        self.manner.on(fd)
    }

    /// The same, at an offset in bytes, which moves on with every call.
    #[must_use]
    pub fn at(self, offset_bytes: u64) -> Self {
        Self { manner: self.manner.at(offset_bytes), ..self }
    }

    /// The kind of the descriptor.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.manner.kind()
    }

    /// The offset in bytes where the next call reads or writes, unless the descriptor's own position counts.
    #[must_use]
    pub fn offset_bytes(&self) -> Option<u64> {
        self.manner.offset()
    }

    /// Is a read of 0 bytes the end? From a datagram socket such a read is an empty datagram.
    #[must_use]
    pub fn ends_at_zero(&self) -> bool {
        self.ends_at_zero
    }

    /// Is this the master of a pseudo-terminal? [`Port::read`] answers 0 at the end of a master.
    #[must_use]
    pub fn is_master(&self) -> bool {
        self.manner.is_master()
    }

    /// The capacity of a pipe, as it was when the flow began.
    pub(crate) fn pipe_bytes(&self) -> Option<usize> {
        self.pipe_bytes
    }

    /// The most bytes of one splice from here to `target`. From pipe to pipe whole slots change hands, which takes no
    /// time: as many as there are.
    pub(super) fn splice_bytes(&self, target: &Stance) -> usize {
        match (self.pipe_bytes, target.pipe_bytes) {
            (Some(capacity), None) | (None, Some(capacity)) => part_of_pipe(capacity),
            (None, None) | (Some(_), Some(_)) => usize::MAX,
        }
    }

    /// Does the descriptor itself have O_NONBLOCK?
    #[must_use]
    pub fn is_nonblocking(&self) -> bool {
        self.manner.is_nonblocking()
    }

    /// Do messages keep their boundaries here?
    pub(super) fn keeps_boundaries(&self) -> bool {
        self.kind() == Kind::Datagram
    }

    /// Does an empty datagram go on to this port? A stream has no place for one, and to a SOCK_SEQPACKET peer one
    /// would be the end.
    pub(super) fn takes_empty(&self) -> bool {
        self.keeps_boundaries() && !self.ends_at_zero
    }

    /// Makes one call on the port.
    pub(super) fn call<T>(
        &mut self,
        fd: BorrowedFd<'_>,
        call: impl FnOnce(&mut Port<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        if self.is_in_memory {
            return Err(Errno::BADF);
        }
        let mut port = self.manner.on(fd);
        let answer = call(&mut port);
        self.manner = port.manner();
        answer
    }

    /// Moves the offset on, past bytes not moved by a call.
    pub(super) fn skip(&mut self, bytes: u64) {
        if let Some(offset_bytes) = self.manner.offset() {
            self.manner = self.manner.at(offset_bytes + bytes);
        }
    }

    /// Must poll(2) answer first, because no flag keeps the call from waiting (invariant 5)?
    ///
    /// `SPLICE_F_NONBLOCK` concerns pipes, and sendfile(2) has no such flag; a socket, terminal or device
    /// has to have O_NONBLOCK itself.
    pub(super) fn must_be_polled(&self, op: Op) -> bool {
        let has_flag = self.kind() == Kind::Pipe && !matches!(op, Op::Sendfile(_));
        self.manner.can_idle() && !has_flag && !self.manner.is_nonblocking()
    }

    /// Can `EAGAIN` be meant for this side at all?
    pub(super) fn can_answer_again(&self) -> bool {
        self.manner.can_idle()
    }

    /// The obstacle to page references at this side, apart from the kind.
    pub(super) fn obstacle(&self, side: Side, terms: &super::Terms) -> Option<&'static str> {
        let by_name = terms.choice != Choice::Auto && !terms.never_held;
        if by_name {
            // The kernel says for itself.
            return None;
        }
        let as_target = SpliceTarget {
            is_append: self.manner.is_append(),
            is_direct: self.manner.is_direct(),
            // A flow knows no sizes: its pieces are those of a stream.
            has_odd_pieces: true,
        };
        if side == Side::Target
            && let Some((why, _)) = as_target.obstacle()
        {
            Some(why)
        } else if terms.never_held && self.kind().is_socket() && !self.manner.is_nonblocking() {
            Some(Refusal::HELD_BY_SOCKET)
        } else {
            None
        }
    }
}
