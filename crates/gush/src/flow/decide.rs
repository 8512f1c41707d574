//! Which call is due.

use rustix::io::Errno;

use super::lend::Buf;
use super::route::Route;
use super::{
    CALL_BYTES, Completion, DATAGRAM_BYTES, DOUBT_BYTES, Delivery, Failure, Flow, Lender, NO_PIPE,
    Next, Op, SPILL_BYTES, SourceState, ZEROS_BYTES,
};
use crate::endpoint::Kind;
use crate::fault::Fault;
use crate::kernel::page_bytes;
use crate::method::Refusal;
use crate::port::{MOST_DATAGRAM_BYTES, Side};
use crate::sys::Call;
use crate::zeros::{self, Run};

impl Flow {
    /// Decides the next call, which takes at most `may_take_bytes`, or one datagram.
    pub fn next(&mut self, may_take_bytes: u64, lender: &mut dyn Lender) -> Next {
        if let Some(side) = self.readiness.take_wait() {
            return Next::Wait(side);
        }
        // What was taken is delivered first (invariant 1).
        if let Some(failure) = &self.failed
            && !(self.held.delivery.through_memory() && self.in_flight_bytes() > 0)
        {
            // Zeros taken before the source failed are delivered; a failed target's are dropped.
            return match self.held.zeros_bytes > 0 && self.makes_holes {
                true => Next::Do(Op::Punch(self.held.zeros_bytes)),
                false => Next::Failed(failure.clone()),
            };
        }
        // One side at a time, because the answer of each decides about the other.
        if let Some(side) = self.readiness.asks() {
            return Next::Do(Op::Ready(side));
        }
        if self.held.hand.full
            && let Some(next) = self.deliver(lender)
        {
            return next;
        }
        if self.held.is_piped() {
            return match self.held.delivery {
                Delivery::ByRoute => self.ready_for(Op::Empty),
                Delivery::Lent => Next::Do(Op::Discard),
                Delivery::Refused | Delivery::Sipped => self.with_buf(lender, Op::Spill),
            };
        }
        // Nothing but zeros is in flight, so the next route begins with nothing before it.
        if std::mem::take(&mut self.held.delivery) == Delivery::Refused {
            self.routes.advance();
        }
        let left_bytes = self.tally.left_bytes;
        let takes_more =
            self.source_state != SourceState::Over && left_bytes > 0 && may_take_bytes > 0;
        // A run is one hole over many buffers, up to a size that an observer waits for.
        let zeros_bytes = self.held.zeros_bytes;
        if zeros_bytes > 0 && !(takes_more && zeros_bytes < ZEROS_BYTES) {
            return Next::Do(Op::Punch(zeros_bytes));
        }
        match self.source_state {
            SourceState::Deserted => return Next::Do(Op::AskEnd),
            SourceState::Over => return Next::Ended(Completion::Eof),
            // Before the throttle: a finished flow must not wait for a rate.
            _ if left_bytes == 0 => return Next::Ended(Completion::Limit),
            _ if may_take_bytes == 0 => return Next::Throttled,
            SourceState::Take | SourceState::Doubt => {}
        }
        let most =
            usize::try_from(may_take_bytes.min(left_bytes)).unwrap_or(CALL_BYTES).min(CALL_BYTES);
        let route = self.routes.now();
        // All that the size promised is there: the next call would return 0, and a read must
        // follow.
        if self.tally.expected_bytes == Some(0) && !route.reads() {
            self.source_state = SourceState::Doubt;
        }
        if self.source_state == SourceState::Doubt {
            // Short: in nearly all cases it answers 0.
            return self.read(lender, most.min(DOUBT_BYTES));
        }
        match route {
            Route::Memory => self.read(lender, most.min(self.fixed.buffer_bytes as usize)),
            // A first read finds out whether the messages are short.
            Route::Adaptive if !self.bulk => {
                self.read(lender, most.min(self.fixed.short_bytes as usize))
            }
            Route::Adaptive | Route::Piped => self.fill(lender, most),
            Route::Lent => self.read_to_lend(lender, most.min(self.fixed.buffer_bytes as usize)),
            Route::Direct => self.ready_for(Op::Direct(most.min(self.fixed.call_bytes as usize))),
            Route::Sendfile => {
                self.ready_for(Op::Sendfile(most.min(self.fixed.call_bytes as usize)))
            }
        }
    }

    /// The call that delivers the bytes in hand; `None` if all of them are zeros to leave out.
    fn deliver(&mut self, lender: &mut dyn Lender) -> Option<Next> {
        // Zeros are passed over until data, the end or a limit shows how long their run is.
        while let Some(at) = self.target.offset_bytes().filter(|_| self.makes_holes) {
            match zeros::first_run(self.held.hand.held(), at + self.held.zeros_bytes) {
                Run::Data(bytes) => {
                    self.held.hand.run_end = self.held.hand.from + bytes as u32;
                    break;
                }
                Run::Zeros(bytes) => {
                    self.held.zeros_bytes += bytes as u64;
                    self.held.hand.gone(bytes);
                    if !self.held.hand.full {
                        return None;
                    }
                }
            }
        }
        if self.held.zeros_bytes > 0 {
            return Some(Next::Do(Op::Punch(self.held.zeros_bytes)));
        }
        // Of an empty datagram there is nothing to lend.
        let is_empty = self.held.hand.held().is_empty();
        let by_route = !self.held.delivery.through_memory();
        if self.routes.now() != Route::Lent || !by_route || is_empty {
            return Some(Next::Do(Op::Write));
        }
        Some(self.lend(lender))
    }

    /// Lends the bytes in hand to the pipe, and empties it; writes them where no pipe can be had.
    pub(super) fn lend(&mut self, lender: &mut dyn Lender) -> Next {
        // From here on nothing can write to the buffer (invariant 4).
        let is_page = self.held.hand.buf.as_mut().is_some_and(Buf::lend);
        match self.held.borrow_pipe(lender) {
            // Into an empty pipe only: EAGAIN of a later splice can then be the target's alone.
            Some(pipe) if is_page && pipe.is_empty() => Next::Do(Op::Lend),
            Some(_) if is_page => self.ready_for(Op::Empty),
            _ => Next::Do(Op::Write),
        }
    }

    /// Reads as much as the pipe can be lent at once.
    fn read_to_lend(&mut self, lender: &mut dyn Lender, most: usize) -> Next {
        let Some(pipe) = self.held.borrow_pipe(lender) else {
            return self.lacks_pipe(lender, most);
        };
        let room_bytes = match self.target.keeps_boundaries() {
            // Each slot becomes a datagram of its own, so a message must fit one slot.
            true => pipe.capacity_bytes().min(page_bytes()),
            false => pipe.capacity_bytes(),
        };
        if self.source.keeps_boundaries()
            && let Some(next) = self.measure().or_else(|| self.refuse_cut(room_bytes, lender, most))
        {
            return next;
        }
        self.read(lender, most.min(room_bytes))
    }

    /// A read through memory; datagrams whole, past any limit.
    pub(super) fn read(&mut self, lender: &mut dyn Lender, most: usize) -> Next {
        if !self.source.keeps_boundaries() {
            let most = match self.target.keeps_boundaries() {
                true => most.min(self.fixed.message_bytes as usize),
                false => most,
            };
            return self.sip(lender, most).unwrap_or_else(|| self.with_buf(lender, Op::Read(most)));
        }
        if let Some(next) = self.measure() {
            return next;
        }
        // Not less than 64 KiB: if another process reads the socket, another datagram may be first.
        let whole = self.datagram_bytes.unwrap_or(0).max(DATAGRAM_BYTES) as usize;
        self.with_buf(lender, Op::Read(whole))
    }

    /// So few bytes of a pipe that a `read` could cut a packet, whose rest the kernel drops
    /// (`pipe_read` of `fs/pipe.c`). A splice leaves the rest in the source, and a pipe of our own
    /// is read to the end. `None` where a `read` may do it, or must.
    fn sip(&mut self, lender: &mut dyn Lender, most: usize) -> Option<Next> {
        // A packet is a page at most. The `read` of a doubt has to be one.
        let is_due = self.source.kind() == Kind::Pipe
            && most < page_bytes()
            && self.source_state == SourceState::Take
            && !self.cannot_sip;
        let can_sip = is_due && self.held.borrow_pipe(lender).is_some();
        can_sip.then(|| self.ready_for(Op::Fill(most)))
    }

    /// A datagram is measured before it is taken whole: it must fit the rest of the length.
    fn measure(&mut self) -> Option<Next> {
        // Nobody can be asked how long the next message is.
        if self.source.is_in_memory() {
            return None;
        }
        let Some(bytes) = self.datagram_bytes else { return Some(Next::Do(Op::Measure)) };
        let fits =
            u64::from(bytes) <= self.tally.left_bytes && bytes as usize <= MOST_DATAGRAM_BYTES;
        let fault = Fault { call: Call::Recv, side: Side::Source, errno: Errno::MSGSIZE };
        (!fits).then(|| self.fail(Failure::Fault(fault)))
    }

    /// A call that puts bytes into the buffer, once there is one of the right size.
    pub(super) fn with_buf(&mut self, lender: &mut dyn Lender, op: Op) -> Next {
        let wanted = match op {
            Op::Read(most) => most,
            // All at once: as a message it may not be cut.
            _ if self.target.keeps_boundaries() => self.held.piped_bytes(),
            _ => SPILL_BYTES,
        };
        // A file has copied what was lent to the pipe; any other target may still hold the pages.
        if self.target.kind() == Kind::File
            && self.held.lent.are_copied()
            && let Some(buf) = &mut self.held.hand.buf
        {
            buf.reclaim();
        }
        let buf = &mut self.held.hand.buf;
        if !buf.as_ref().is_some_and(|buf| buf.can_be_filled(wanted)) {
            // Returned before the next is asked for, so that a lender with one buffer can lend it
            // again.
            if let Some(useless) = buf.take() {
                lender.take_back(useless);
            }
            match lender.buf(wanted) {
                Ok(larger) => *buf = Some(larger),
                Err(errno) => {
                    let side = Side::Source;
                    return self.fail(Failure::Fault(Fault { call: Call::Mmap, side, errno }));
                }
            }
        }
        Next::Do(op)
    }

    /// Fills a pipe; without one, bytes go through memory, unless splice was asked for by name.
    fn fill(&mut self, lender: &mut dyn Lender, most: usize) -> Next {
        if let Some(pipe) = self.held.borrow_pipe(lender) {
            let room_bytes = pipe.capacity_bytes();
            return match self.source.keeps_boundaries() {
                true => self.fill_whole(lender, most, room_bytes),
                false => self.ready_for(Op::Fill(most.min(self.fixed.call_bytes as usize))),
            };
        }
        self.lacks_pipe(lender, most)
    }

    /// No pipe can be had: bytes go through memory, unless a method was asked for by name.
    fn lacks_pipe(&mut self, lender: &mut dyn Lender, most: usize) -> Next {
        if self.fixed.named {
            let refusal = Refusal::because(self.routes.now().method(), NO_PIPE);
            return self.fail(Failure::Refused(refusal));
        }
        self.read(lender, most.min(self.fixed.buffer_bytes as usize))
    }

    /// A splice would cut a datagram larger than the empty pipe: each page takes a slot
    /// (`copy_splice_read` of `fs/splice.c`), and becomes a message of a unix socket
    /// (`tests/datagrams.rs`).
    fn fill_whole(&mut self, lender: &mut dyn Lender, most: usize, room_bytes: usize) -> Next {
        if let Some(next) = self.measure() {
            return next;
        }
        let room_bytes = match self.target.keeps_boundaries() {
            true => room_bytes.min(page_bytes()),
            false => room_bytes,
        };
        match self.refuse_cut(room_bytes, lender, most) {
            Some(next) => next,
            // A splice would take it and answer 0.
            None if self.datagram_bytes == Some(0) => self.read(lender, most),
            // The whole room: the datagram was measured to fit, and its size could cut the next
            // one.
            None => self.ready_for(Op::Fill(room_bytes)),
        }
    }

    /// Refuses the route if the measured datagram has no room.
    fn refuse_cut(
        &mut self,
        room_bytes: usize,
        lender: &mut dyn Lender,
        most: usize,
    ) -> Option<Next> {
        if self.datagram_bytes.unwrap_or(0) as usize <= room_bytes {
            return None;
        }
        let fault = Fault { call: Call::Splice, side: Side::Source, errno: Errno::MSGSIZE };
        let refusal = Refusal::by_kernel(self.routes.now().method(), fault.call, fault.errno);
        self.refuse(Op::Fill(most), refusal, fault);
        Some(self.next(most as u64, lender))
    }

    /// Invariant 5: a side that no flag keeps from waiting is polled first.
    fn ready_for(&mut self, op: Op) -> Next {
        let (source, target) = op.touches();
        if source && op.must_poll(&self.source) && !self.readiness.polled().source {
            return Next::Do(Op::Ready(Side::Source));
        }
        if target && op.must_poll(&self.target) && !self.readiness.polled().target {
            return Next::Do(Op::Ready(Side::Target));
        }
        Next::Do(op)
    }

    /// The flow has failed, and its bytes in flight are not written either.
    pub(super) fn fail_for_good(&mut self, fault: Fault) {
        self.give_up_memory();
        self.failed = Some(Box::new(Failure::Fault(fault)));
    }

    /// What was to leave through memory stays in flight.
    pub(super) fn give_up_memory(&mut self) {
        if self.held.delivery.through_memory() {
            self.held.delivery = Delivery::ByRoute;
        }
    }

    pub(super) fn fail(&mut self, failure: Failure) -> Next {
        let failure = Box::new(failure);
        self.failed = Some(failure.clone());
        Next::Failed(failure)
    }
}
