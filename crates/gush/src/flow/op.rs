//! The next call of a flow, and making the call.

use std::os::fd::BorrowedFd;

use rustix::event::PollFlags;
use rustix::io::{self, Errno};

use super::lend::Buf;
use super::{Delivery, Flow, Hand};
use crate::endpoint::Kind;
use crate::fault::{Fault, side_between_files};
use crate::kernel::page_bytes;
use crate::port::{Port, PortState, Side};
use crate::sys::{self, Call};
use crate::zeros;

/// The surplus of a lent page; where pages are larger it leaves the pipe in turns.
const DISCARD_BYTES: usize = 4096;

/// One call, to be made by the driver's hand ([`Flow::perform`]) under the driver's gate.
///
/// Numbers are bytes: the most for the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// How large is the next datagram? A look only (`MSG_PEEK` and `MSG_TRUNC`, recv(2)).
    Measure,
    /// Has the source ended? A look only, where the kind has one: 0 is the end.
    AskEnd,
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
    /// Pages of the buffer into the private pipe, by vmsplice(2).
    Lend,
    /// Bytes lent only to fill a page leave the private pipe unseen.
    Discard,
    /// So many zeros become a hole of the target, by fallocate(2).
    Punch(u64),
    /// Source to target, by splice(2): one of the two is a pipe.
    Direct(usize),
    /// Source to target, by sendfile(2).
    Sendfile(usize),
    /// poll(2) of one side: `EAGAIN` unless it is ready, so that a driver's gate sees the answer.
    Ready(Side),
}

impl Op {
    /// The sides touched by the call: `(source, target)`.
    #[must_use]
    pub fn touches(self) -> (bool, bool) {
        match self {
            Op::Measure | Op::AskEnd | Op::Read(_) | Op::Fill(_) | Op::Ready(Side::Source) => {
                (true, false)
            }
            Op::Write | Op::Empty | Op::Punch(_) | Op::Ready(Side::Target) => (false, true),
            Op::Direct(_) | Op::Sendfile(_) => (true, true),
            Op::Spill | Op::Lend | Op::Discard => (false, false),
        }
    }

    /// Does the call concern the flow's own pipe alone, which never makes anybody wait?
    pub(super) fn is_private(self) -> bool {
        self.touches() == (false, false)
    }

    /// Must poll(2) of `port` come first, because no flag keeps the call from waiting (invariant
    /// 5)?
    ///
    /// `SPLICE_F_NONBLOCK` concerns pipes, and sendfile(2) has no such flag; a socket, terminal or
    /// device has to have O_NONBLOCK itself.
    pub(super) fn must_poll(self, port: &PortState) -> bool {
        let has_flag = || port.kind() == Kind::Pipe && !matches!(self, Op::Sendfile(_));
        !port.is_nonblocking() && port.can_idle && !has_flag()
    }

    /// The system call's name.
    #[must_use]
    pub fn call(self) -> Call {
        match self {
            Op::Measure => Call::Recv,
            Op::Read(_) | Op::Spill | Op::Discard => Call::Read,
            Op::Lend => Call::Vmsplice,
            Op::Punch(_) => Call::Fallocate,
            Op::Write => Call::Write,
            Op::Fill(_) | Op::Empty | Op::Direct(_) => Call::Splice,
            Op::Sendfile(_) => Call::Sendfile,
            Op::Ready(_) | Op::AskEnd => Call::Poll,
        }
    }

    /// The call's failure with `errno`.
    pub(crate) fn fault(self, errno: Errno, flow: &Flow) -> Fault {
        let side = self.blames(errno, flow.source.kind(), flow.target.kind(), flow.blamed);
        Fault { call: self.call(), side, errno }
    }

    /// The side of an error, as far as the call shows; between two files the one found by asking.
    fn blames(self, errno: Errno, source: Kind, target: Kind, between_files: Side) -> Side {
        match self {
            Op::Measure | Op::AskEnd | Op::Read(_) | Op::Fill(_) | Op::Spill | Op::Discard => {
                Side::Source
            }
            Op::Write | Op::Lend | Op::Empty | Op::Punch(_) => Side::Target,
            Op::Ready(side) => side,
            // A pipe has no medium and no peer that resets, only a reader that can leave: see
            // `learn_look`.
            Op::Direct(_) if source != Kind::Pipe => Side::Source,
            // A socket or a pipe has no medium: the file could not be read.
            Op::Sendfile(_)
                if errno == Errno::IO
                    && matches!(target, Kind::Pipe | Kind::Stream | Kind::Datagram) =>
            {
                Side::Source
            }
            Op::Sendfile(_) => between_files,
            Op::Direct(_) => Side::Target,
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

impl<'fd> Fds<'fd> {
    /// The one descriptor of a flow whose other side is [in memory](super::PortState::in_memory).
    #[must_use]
    pub fn one(fd: BorrowedFd<'fd>) -> Self {
        Self { source: fd, target: fd }
    }
}

impl Flow {
    /// The memory for an [`Op::Read`] from a source without a descriptor: the driver fills it from
    /// the front, and passes the count to [`Flow::learn`], 0 at the end. Empty for any other call.
    pub fn room(&mut self, op: Op) -> &mut [u8] {
        match op {
            Op::Read(most) => self.held.hand.room(most).unwrap_or_default(),
            _ => &mut [],
        }
    }

    /// The bytes of an [`Op::Write`] to a target without a descriptor; the driver passes to
    /// [`Flow::learn`] how many were taken. Empty for any other call.
    #[must_use]
    pub fn pending(&self, op: Op) -> &[u8] {
        match op {
            Op::Write => self.held.hand.run(),
            _ => &[],
        }
    }

    /// Makes the call named by [`Flow::next`]: every call on the two sides is made here.
    ///
    /// The answer, or the error, belongs to [`Flow::learn`].
    ///
    /// # Errors
    /// The kernel's answer; `EAGAIN` where a side cannot go on; `EBADF` for a side in memory.
    pub fn perform(&mut self, op: Op, fds: Fds<'_>) -> io::Result<usize> {
        match op {
            Op::Measure => {
                self.source.call(fds.source, |port| port.next_datagram_bytes().unwrap_or(Ok(0)))
            }
            Op::AskEnd => self.source.call(fds.source, |port| port.look_for_end()),
            Op::Read(most) => {
                // A driver that calls out of turn gets an error, and no panic.
                let Some(memory) = self.held.hand.room(most) else { return Err(Errno::NOMEM) };
                self.source.call(fds.source, |port| port.read(memory))
            }
            Op::Write => {
                let (run, is_last) = (self.held.hand.run(), self.end_follows);
                let write = |port: &mut Port<'_>| match is_last {
                    true => port.write_last(run),
                    false => port.write(run),
                };
                self.target.call(fds.target, write)
            }
            Op::Fill(most) => {
                let Some(pipe) = &self.held.pipe else { return Err(Errno::NOMEM) };
                self.source.call(fds.source, |port| pipe.splice_in(port, most))
            }
            Op::Empty => {
                let Some(pipe) = &self.held.pipe else { return Err(Errno::NOMEM) };
                let is_lent = self.held.delivery == Delivery::Lent;
                // What is lent beyond the bytes in hand is no data.
                let most = if is_lent { self.held.hand.held().len() as u64 } else { u64::MAX };
                // Only a regular file copies, and each call may come with another descriptor.
                let copies =
                    || self.target.kind() == Kind::File && sys::file::is_regular(fds.target);
                if is_lent && !copies() {
                    self.held.lent.kept();
                }
                let answer = self.target.call(fds.target, |port| pipe.splice_out(port, most));
                answer.inspect(|&bytes| self.held.lent.copied(bytes))
            }
            Op::Lend => {
                let (Some(pipe), Some(Buf::Lent(pages))) = (&self.held.pipe, &self.held.hand.buf)
                else {
                    return Err(Errno::NOMEM);
                };
                let Hand { from, to, .. } = self.held.hand;
                // SPLICE_F_GIFT lets the kernel move a page into a file's cache, and takes whole
                // pages (vmsplice(2)): the surplus is discarded later.
                let end = (to as usize).next_multiple_of(page_bytes());
                pages
                    .splice_into(pipe.write_end(), from as usize..end, true)
                    .inspect(|&bytes| self.held.lent.put(bytes))
            }
            Op::Discard => {
                let Some(pipe) = &self.held.pipe else { return Err(Errno::NOMEM) };
                pipe.read_held(&mut [0; DISCARD_BYTES])
                    .inspect(|&bytes| self.held.lent.copied(bytes))
            }
            Op::Punch(zeros_bytes) => {
                // A hole has a place, and a descriptor's own position may be somebody else's too.
                let Some(at) = self.target.offset_bytes() else { return Err(Errno::SPIPE) };
                let punched = |port: &mut Port<'_>| zeros::punch(port, at, zeros_bytes);
                self.target.call(fds.target, punched).map(|bytes| bytes as usize)
            }
            Op::Spill => {
                let (Some(pipe), Some(buf)) = (&self.held.pipe, &mut self.held.hand.buf) else {
                    return Err(Errno::NOMEM);
                };
                pipe.read_held(buf.as_mut_slice())
            }
            Op::Direct(most) => self.source.call(fds.source, |from| {
                self.target.call(fds.target, |to| from.splice_to(to, most))
            }),
            Op::Sendfile(most) => {
                let answer = self.source.call(fds.source, |from| {
                    self.target.call(fds.target, |to| from.send_file_to(to, most))
                });
                if let (Err(errno), Kind::File | Kind::Block) = (answer, self.target.kind()) {
                    let at = self.source.offset_bytes();
                    self.blamed = side_between_files(errno, fds.source, at);
                }
                answer
            }
            Op::Ready(Side::Source) => ready_or_again(fds.source, PollFlags::IN),
            Op::Ready(Side::Target) => ready_or_again(fds.target, PollFlags::OUT),
        }
    }
}

fn ready_or_again(fd: BorrowedFd<'_>, events: PollFlags) -> io::Result<usize> {
    // As a call's own EAGAIN: tokio clears a side's readiness only on this answer.
    if sys::pipe::is_ready(fd, events)? { Ok(0) } else { Err(Errno::AGAIN) }
}
