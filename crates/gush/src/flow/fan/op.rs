//! The next call of a fan, and making the call.

use std::os::fd::BorrowedFd;

use rustix::event::PollFlags;
use rustix::io::{self, Errno};
use rustix::pipe::SpliceFlags;

use super::super::spread::{NUMBERS, Spread};
use super::super::{Failure, Fds, Lender, Moved, Next, Op};
use super::lane::Lane;
use super::{Fan, FanNext, Interest, Who};
use crate::endpoint::Kind;
use crate::fault::Fault;
use crate::sys::{self, Call};

/// One call, to be made by the driver's hand ([`Spread::perform`]) under the driver's gate.
///
/// Targets are counted from 0, other numbers are bytes: the most for the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FanOp {
    /// A call on the source, into the intake's buffer or pipe; or [`Op::Spill`], from the pipe to
    /// the buffer.
    Intake(Op),
    /// [`Op::Write`] to a target, or a call on the lane's own pipe: [`Op::Empty`],
    /// [`Op::Spill`], [`Op::Ready`] of the target.
    Lane(u16, Op),
    /// The intake's pipe to a target pipe or the lane's own, by tee(2): the bytes stay for the
    /// others.
    Tee(u16),
    /// The same by splice(2), for the last lane that needs the bytes.
    Move(u16, usize),
    /// poll(2) of a target with nothing to take: `EPIPE` if its reader has gone.
    Look(u16),
}

/// The descriptors, lent for one call.
#[derive(Clone, Copy, Debug)]
pub struct FanFds<'fd> {
    /// Where the bytes come from.
    pub source: BorrowedFd<'fd>,
    /// Where they go, in the order of the fan's states.
    pub targets: &'fd [BorrowedFd<'fd>],
}

/// poll(2) of a target: `EPIPE` if its reader has gone.
///
/// # Errors
/// Also that of poll(2).
pub(in crate::flow) fn look(fd: BorrowedFd<'_>) -> io::Result<usize> {
    // No event is requested: POLLERR and POLLHUP are always reported, and mean that the reader has
    // left.
    if sys::pipe::is_ready(fd, PollFlags::empty())? { Err(Errno::PIPE) } else { Ok(0) }
}

impl Spread for Fan {
    fn next(&mut self, may_take_bytes: u64, lender: &mut dyn Lender) -> FanNext {
        // A lane can fail while it is asked, for want of memory: then another look is due.
        loop {
            self.reap(lender);
            for (target, lane) in NUMBERS.zip(&mut self.lanes) {
                if !lane.is_live() && !std::mem::replace(&mut lane.is_reported, true) {
                    return FanNext::Lost(target);
                }
            }
            if self.live().next().is_none() {
                return FanNext::Deserted;
            }
            if let Some(op) = self.due(lender) {
                return FanNext::Do(op);
            }
            if !self.live().any(Lane::has_failed) {
                break;
            }
        }
        self.settle();
        if self.must_spill() {
            return match self.intake.with_buf(lender, Op::Spill) {
                Next::Failed(failure) => FanNext::Failed(failure),
                _ => FanNext::Do(FanOp::Intake(Op::Spill)),
            };
        }
        if self.is_delivering() {
            return FanNext::Wait;
        }
        if self.source_waits {
            return if may_take_bytes == 0 { FanNext::Throttled } else { FanNext::Wait };
        }
        self.intake.tally.delivered_bytes = self.intake.tally.taken_bytes;
        match self.intake.next(may_take_bytes, lender) {
            Next::Do(op) => FanNext::Do(FanOp::Intake(op)),
            Next::Wait(_) => {
                self.source_waits = true;
                FanNext::Wait
            }
            Next::Throttled => FanNext::Throttled,
            Next::Ended(end) => FanNext::Ended(end),
            Next::Failed(failure) => FanNext::Failed(failure),
        }
    }

    fn perform(&mut self, op: FanOp, fds: FanFds<'_>) -> io::Result<usize> {
        let fd_of = |target: u16| fds.targets.get(usize::from(target)).copied().ok_or(Errno::BADF);
        let fds_of = |target| fd_of(target).map(|to| Fds { source: fds.source, target: to });
        match op {
            // Nothing of the intake's concerns a target.
            FanOp::Intake(op) => {
                self.intake.perform(op, Fds { source: fds.source, target: fds.source })
            }
            FanOp::Lane(target, op) if self.is_common(target, op) => {
                let fds = fds_of(target)?;
                self.with_common(target, |outlet| outlet.perform(op, fds))
            }
            FanOp::Lane(target, op) => {
                self.lanes[usize::from(target)].outlet.perform(op, fds_of(target)?)
            }
            FanOp::Tee(target) => {
                let Some(pipe) = &self.intake.held.pipe else { return Err(Errno::NOMEM) };
                // All that is there: a shorter tee could not be continued.
                let most = usize::try_from(pipe.held_bytes()).unwrap_or(usize::MAX);
                let to = self.entrance(target, fd_of(target)?);
                sys::pipe::tee(pipe.read_end(), to, most, SpliceFlags::NONBLOCK)
            }
            FanOp::Move(target, most) => {
                let Some(pipe) = &self.intake.held.pipe else { return Err(Errno::NOMEM) };
                let to = self.entrance(target, fd_of(target)?);
                let flags = SpliceFlags::NONBLOCK;
                sys::pipe::splice(pipe.read_end(), None, to, None, most, flags)
            }
            FanOp::Look(target) => look(fd_of(target)?),
        }
    }

    fn learn(&mut self, op: FanOp, answer: io::Result<usize>) -> Moved {
        match op {
            FanOp::Intake(op) => self.learn_intake(op, answer),
            FanOp::Lane(target, op) => self.learn_lane(target, op, answer),
            FanOp::Tee(target) => self.learn_shared(target, Call::Tee, answer),
            FanOp::Move(target, _) => self.learn_shared(target, Call::Splice, answer),
            FanOp::Look(target) => {
                let lane = &mut self.lanes[usize::from(target)];
                lane.is_to_look = matches!(answer, Err(Errno::INTR));
                if let (Err(errno), false) = (answer, lane.is_to_look) {
                    lane.fail(Call::Poll, errno);
                }
                Moved::default()
            }
        }
    }

    fn waits(&self, each: &mut dyn FnMut(Who, Interest)) {
        for (target, lane) in NUMBERS.zip(&self.lanes).filter(|(_, lane)| lane.is_live()) {
            if lane.waits {
                each(Who::Target(target), Interest::Writable);
            } else if matches!(lane.outlet.target.kind(), Kind::Pipe | Kind::Stream) {
                each(Who::Target(target), Interest::HangUp);
            }
        }
        if self.source_waits {
            each(Who::Source, Interest::Readable);
        }
    }

    fn wake(&mut self, who: Who) {
        match who {
            Who::Source => self.source_waits = false,
            Who::Target(target) => {
                let lane = &mut self.lanes[usize::from(target)];
                // Woken without waiting: poll(2) reported a hang-up, which a look has to confirm.
                lane.is_to_look |= !std::mem::take(&mut lane.waits);
            }
        }
    }

    fn rest(&mut self, lender: &mut dyn Lender) {
        self.settle();
        for lane in &mut self.lanes {
            lane.outlet.rest(lender);
        }
        // Of the common buffer only what somebody still has to write is kept.
        let least =
            self.live().map(|lane| lane.written).min().filter(|_| self.intake.held.hand.full);
        let least = least.unwrap_or_default();
        self.intake.held.hand.from = least;
        self.intake.rest(lender);
        let moved_by = least - self.intake.held.hand.from;
        self.lanes.iter_mut().for_each(|lane| lane.written = lane.written.saturating_sub(moved_by));
    }

    fn fail(&mut self, target: u16, fault: Fault) {
        self.lanes[usize::from(target)].fail(fault.call, fault.errno);
    }

    fn is_held_by(&self, _target: u16) -> bool {
        true
    }

    fn targets(&self) -> usize {
        self.lanes.len()
    }

    fn taken_bytes(&self) -> u64 {
        self.intake.tally.taken_bytes
    }

    fn delivered_bytes(&self, target: u16) -> u64 {
        self.lane(target).outlet.tally.delivered_bytes
    }

    fn is_live(&self, target: u16) -> bool {
        self.lane(target).is_live()
    }

    fn failure(&self, target: u16) -> Option<&Failure> {
        let lane = self.lane(target);
        lane.outlet.failed.as_deref().filter(|_| !lane.is_live())
    }
}

impl Fan {
    /// The pipe by which a lane gets the content of the intake's pipe.
    fn entrance<'a>(&'a self, target: u16, fd: BorrowedFd<'a>) -> BorrowedFd<'a> {
        // A target that is no pipe cannot be teed to, so its lane has one of its own.
        self.lane(target).outlet.held.pipe.as_ref().map_or(fd, |pipe| pipe.write_end())
    }
}
