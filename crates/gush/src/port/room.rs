//! How much can be written to a port without waiting, where no flag prevents the wait.

use rustix::event::PollFlags;
use rustix::io::{self, Errno};
use rustix::pipe::PIPE_BUF;

use super::Port;
use crate::endpoint::Kind;
use crate::sys::data::Nowait;
use crate::sys::pipe::is_ready;
use crate::terminal::Output;

/// How much a plain write may carry without waiting.
pub(super) enum Room {
    /// All bytes: nothing waits, or O_NONBLOCK is set.
    Enough,
    /// A polled pipe takes one page at once (pipe(7), `PIPE_BUF`).
    Bytes(usize),
    /// A polled terminal takes one call of the driver.
    Call(Output),
}

impl Room {
    /// How many bytes of any content, `len` at most.
    pub(super) fn any_bytes(&self, len: usize) -> usize {
        match self {
            Room::Enough => len,
            Room::Bytes(most) => len.min(*most),
            Room::Call(output) => len.min(output.any_bytes()),
        }
    }
}

impl Port<'_> {
    /// Must be polled first, because no flag keeps the calls from waiting.
    fn needs_poll(&self) -> bool {
        !self.state.is_nonblocking() && self.nowait() == Nowait::Plain && self.state.can_idle
    }

    pub(super) fn ready_or_again(&self, events: PollFlags) -> io::Result<()> {
        if !self.needs_poll() || is_ready(self.fd, events)? { Ok(()) } else { Err(Errno::AGAIN) }
    }

    /// The room for a plain write that must not wait.
    pub(super) fn room(&self) -> io::Result<Room> {
        if !self.needs_poll() {
            return Ok(Room::Enough);
        }
        self.ready_or_again(PollFlags::OUT)?;
        Ok(self.room_after_poll())
    }

    /// The room of a side that has just polled writable; devices other than terminals never wait
    /// then.
    fn room_after_poll(&self) -> Room {
        match self.state.kind {
            Kind::Pipe => Room::Bytes(PIPE_BUF),
            Kind::Terminal => Room::Call(Output::of(self.fd, self.state.is_master)),
            _ => Room::Enough,
        }
    }

    /// How many bytes may be spliced or sent here after poll(2): a terminal without O_NONBLOCK
    /// would wait for the rest.
    pub(crate) fn unheld_bytes(&self, most: usize) -> usize {
        match self.state.kind {
            Kind::Terminal if !self.state.is_nonblocking() => {
                self.room_after_poll().any_bytes(most)
            }
            _ => most,
        }
    }
}
