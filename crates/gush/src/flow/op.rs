//! The one call that a flow asks for next, and making that call.

use std::os::fd::BorrowedFd;

use rustix::event::PollFlags;
use rustix::io::{self, Errno};

use super::Flow;
use crate::endpoint::Kind;
use crate::fault::Fault;
use crate::port::Side;
use crate::sys::{self, Call};

/// One call, to be made by the driver's hand ([`Flow::perform`]) under the driver's gate.
///
/// Numbers are bytes: the most that the call may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// How large is the next datagram? A look that takes nothing (`MSG_PEEK` and `MSG_TRUNC`, recv(2)).
    Measure,
    /// Source to buffer.
    Read(usize),
    /// Buffer to target.
    Write,
    /// Source to the private pipe, by splice(2).
    Fill(usize),
    /// Private pipe to target, by splice(2).
    Empty,
    /// Private pipe to buffer: the target takes no splices.
    Spill,
    /// Source to target, by splice(2): one of the two is a pipe.
    Direct(usize),
    /// Source to target, by sendfile(2).
    Sendfile(usize),
    /// poll(2) of one side, without waiting: `EAGAIN` unless it is ready, so that a driver's gate sees it.
    Ready(Side),
}

impl Op {
    /// The sides that the call touches: `(source, target)`.
    #[must_use]
    pub fn touches(self) -> (bool, bool) {
        match self {
            Op::Measure | Op::Read(_) | Op::Fill(_) | Op::Ready(Side::Source) => (true, false),
            Op::Write | Op::Empty | Op::Ready(Side::Target) => (false, true),
            Op::Direct(_) | Op::Sendfile(_) => (true, true),
            Op::Spill => (false, false),
        }
    }

    /// The system call's name.
    #[must_use]
    pub fn call(self) -> Call {
        match self {
            Op::Measure => Call::Recv,
            Op::Read(_) | Op::Spill => Call::Read,
            Op::Write => Call::Write,
            Op::Fill(_) | Op::Empty | Op::Direct(_) => Call::Splice,
            Op::Sendfile(_) => Call::Sendfile,
            Op::Ready(_) => Call::Poll,
        }
    }

    /// The call's failure with `errno`.
    pub(crate) fn fault(self, errno: Errno, flow: &Flow) -> Fault {
        let side = self.blames(errno, flow.source.kind() == Kind::Pipe);
        Fault { call: self.call(), side, errno }
    }

    /// The side that an error of the call concerns, as far as the call tells.
    fn blames(self, errno: Errno, source_is_pipe: bool) -> Side {
        match self {
            Op::Measure | Op::Read(_) | Op::Fill(_) | Op::Spill => Side::Source,
            Op::Write | Op::Empty => Side::Target,
            Op::Ready(side) => side,
            // A pipe has no medium and no peer that resets; only its reader can have gone.
            Op::Direct(_) if !source_is_pipe && errno != Errno::PIPE => Side::Source,
            Op::Direct(_) | Op::Sendfile(_) => Side::Target,
        }
    }
}

/// The two descriptors, lent for one call.
#[derive(Clone, Copy, Debug)]
pub struct Fds<'fd> {
    /// Where the bytes come from.
    pub source: BorrowedFd<'fd>,
    /// Where they go.
    pub target: BorrowedFd<'fd>,
}

impl Flow {
    /// Makes the call that [`Flow::next`] asked for. Every system call of a flow is made here.
    ///
    /// The answer belongs to [`Flow::learn`], also where it is an error.
    ///
    /// # Errors
    /// What the kernel answered; `EAGAIN` where a side cannot go on now.
    pub fn perform(&mut self, op: Op, fds: Fds<'_>) -> io::Result<usize> {
        match op {
            Op::Measure => {
                self.source.call(fds.source, |port| port.next_datagram_bytes().unwrap_or(Ok(0)))
            }
            Op::Read(most) => {
                let Some(buf) = &mut self.hand.buf else { return Err(Errno::NOMEM) };
                let memory = &mut buf.as_mut_slice()[..most];
                self.source.call(fds.source, |port| port.read(memory))
            }
            Op::Write => {
                let held = self.hand.held();
                self.target.call(fds.target, |port| port.write(held))
            }
            Op::Fill(most) => {
                let Some(pipe) = &self.pipe else { return Err(Errno::NOMEM) };
                self.source.call(fds.source, |port| pipe.splice_in(port, most))
            }
            Op::Empty => {
                let Some(pipe) = &self.pipe else { return Err(Errno::NOMEM) };
                self.target.call(fds.target, |port| pipe.splice_out(port, u64::MAX))
            }
            Op::Spill => {
                let (Some(pipe), Some(buf)) = (&self.pipe, &mut self.hand.buf) else {
                    return Err(Errno::NOMEM);
                };
                pipe.read_held(buf.as_mut_slice())
            }
            Op::Direct(most) => self.source.call(fds.source, |from| {
                self.target.call(fds.target, |to| from.splice_to(to, most))
            }),
            Op::Sendfile(most) => self.source.call(fds.source, |from| {
                self.target.call(fds.target, |to| from.send_file_to(to, most))
            }),
            Op::Ready(Side::Source) => ready_or_again(fds.source, PollFlags::IN),
            Op::Ready(Side::Target) => ready_or_again(fds.target, PollFlags::OUT),
        }
    }
}

fn ready_or_again(fd: BorrowedFd<'_>, events: PollFlags) -> io::Result<usize> {
    if sys::pipe::is_ready(fd, events)? { Ok(0) } else { Err(Errno::AGAIN) }
}
