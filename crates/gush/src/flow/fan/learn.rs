//! The consequences of a call's answer for the lanes.

use rustix::io::{self, Errno};

use super::super::{Delivery, Flow, Moved, Op};
use super::Fan;
use super::lane::Lane;
use crate::fault::Fault;
use crate::kernel::is_refusal;
use crate::method::{MethodName, Refusal};
use crate::port::Side;
use crate::sys::Call;

impl Fan {
    pub(super) fn learn_intake(&mut self, op: Op, answer: io::Result<usize>) -> Moved {
        let moved = self.intake.learn_answer(op, answer, &mut ());
        if matches!(op, Op::Read(_) | Op::Spill) && self.intake.held.hand.full {
            for lane in self.lanes.iter_mut().filter(|lane| lane.is_live()) {
                lane.hand_out(self.intake.held.hand.to);
            }
        }
        moved
    }

    pub(super) fn learn_lane(&mut self, target: u16, op: Op, answer: io::Result<usize>) -> Moved {
        let moved = if self.is_common(target, op) {
            self.with_common(target, |outlet| outlet.learn(op, answer, &mut ()))
        } else {
            self.lanes[usize::from(target)].outlet.learn_answer(op, answer, &mut ())
        };
        let lane = &mut self.lanes[usize::from(target)];
        // The fan waits for all sides at once, so a lane's wait is noted and not answered.
        lane.waits |= lane.outlet.readiness.take_wait().is_some();
        if moved.refusal.is_some() && !self.named && !Lane::take_references(&self.lanes) {
            self.intake.held.delivery = Delivery::Refused;
        }
        moved
    }

    /// Is this a call on the buffer that all lanes write from?
    pub(super) fn is_common(&self, target: u16, op: Op) -> bool {
        op == Op::Write && !self.lane(target).outlet.held.hand.full
    }

    /// Puts the common buffer into the lane's hand, at the place up to which the lane has written.
    pub(super) fn with_common<T>(&mut self, target: u16, act: impl FnOnce(&mut Flow) -> T) -> T {
        let lane = &mut self.lanes[usize::from(target)];
        let (from, to) = (self.intake.held.hand.from, self.intake.held.hand.to);
        std::mem::swap(&mut self.intake.held.hand, &mut lane.outlet.held.hand);
        lane.outlet.held.hand.put(to as usize);
        lane.outlet.held.hand.from = lane.written;
        let answer = act(&mut lane.outlet);
        lane.owes = lane.outlet.held.hand.full;
        lane.written = if lane.owes { lane.outlet.held.hand.from } else { to };
        lane.outlet.held.hand.clear();
        std::mem::swap(&mut self.intake.held.hand, &mut lane.outlet.held.hand);
        self.intake.held.hand.put(to as usize);
        self.intake.held.hand.from = from;
        answer
    }

    /// A tee or splice out of the intake's pipe was answered.
    pub(super) fn learn_shared(
        &mut self,
        target: u16,
        call: Call,
        answer: io::Result<usize>,
    ) -> Moved {
        let lane = &mut self.lanes[usize::from(target)];
        let is_straight = lane.is_straight();
        let errno = match answer {
            Ok(bytes) if bytes > 0 => return self.shared(target, call, bytes),
            Err(Errno::INTR) => return Moved::default(),
            // Only a target can be full: the lane's pipe is empty here, so its EAGAIN is a refusal.
            Err(Errno::AGAIN) if is_straight => {
                lane.waits = true;
                return Moved::default();
            }
            Err(errno) if is_straight && !is_refusal(errno) => {
                lane.fail(call, errno);
                return Moved::default();
            }
            Err(errno) => errno,
            // Of a pipe that holds bytes nothing was taken.
            Ok(_) => Errno::IO,
        };
        self.refuse(Refusal::by_kernel(MethodName::Splice, call, errno), errno, call)
    }

    fn shared(&mut self, target: u16, call: Call, bytes: usize) -> Moved {
        // splice(2) takes the bytes away from the head, where tee(2) leaves them.
        if call == Call::Splice {
            self.intake.held.gone_from_pipe(bytes);
            self.lanes.iter_mut().for_each(|lane| lane.head_moved(bytes as u64));
        }
        let lane = &mut self.lanes[usize::from(target)];
        if call == Call::Tee {
            lane.ahead_bytes = bytes as u64;
        } else {
            lane.ahead_bytes = 0;
        }
        if lane.is_straight() {
            lane.outlet.took(bytes, MethodName::Splice);
            return lane.outlet.delivered(bytes, MethodName::Splice);
        }
        lane.outlet.held.put_into_pipe(bytes);
        lane.loaded(bytes);
        Moved::default()
    }

    /// Everything goes through memory from here, the bytes in the intake's pipe first.
    pub(super) fn refuse(&mut self, refusal: Refusal, errno: Errno, call: Call) -> Moved {
        let fault = Fault { call, side: Side::Target, errno };
        self.intake.refuse(Op::Empty, refusal, fault)
    }
}
