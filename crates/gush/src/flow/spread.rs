//! What the driver of a tee needs of one source with several targets.

use std::ops::Range;

use rustix::io;

use super::fan::{Fan, FanFds, FanNext, FanOp, Interest, Who};
use super::{Failure, Lender, Moved};
use crate::fault::Fault;
use crate::method::{MethodName, Refusal};

/// The numbers that targets can have.
pub(crate) const NUMBERS: Range<u16> = 0..u16::MAX;

/// Refuses more targets than there are numbers.
pub(crate) fn count_targets(targets: usize) -> Result<(), Refusal> {
    match targets <= NUMBERS.len() {
        true => Ok(()),
        false => {
            Err(Refusal::because(MethodName::ReadWrite, "there can be at most 65,535 targets"))
        }
    }
}

/// A [`Fan`], whose lanes keep pace, or a [`Backlog`](super::Backlog), whose lanes may lag.
pub(crate) trait Spread {
    fn next(&mut self, may_take_bytes: u64, lender: &mut dyn Lender) -> FanNext;
    fn perform(&mut self, op: FanOp, fds: FanFds<'_>) -> io::Result<usize>;
    fn learn(&mut self, op: FanOp, answer: io::Result<usize>) -> Moved;
    fn waits(&self, each: &mut dyn FnMut(Who, Interest));
    fn wake(&mut self, who: Who);
    fn rest(&mut self, lender: &mut dyn Lender);
    fn fail(&mut self, target: u16, fault: Fault);
    /// Does this target, which has no room, keep bytes from the others?
    fn is_held_by(&self, target: u16) -> bool;
    fn targets(&self) -> usize;
    fn taken_bytes(&self) -> u64;
    fn delivered_bytes(&self, target: u16) -> u64;
    fn is_live(&self, target: u16) -> bool;
    fn failure(&self, target: u16) -> Option<&Failure>;
}

impl Spread for Fan {
    fn next(&mut self, may_take_bytes: u64, lender: &mut dyn Lender) -> FanNext {
        Fan::next(self, may_take_bytes, lender)
    }

    fn perform(&mut self, op: FanOp, fds: FanFds<'_>) -> io::Result<usize> {
        Fan::perform(self, op, fds)
    }

    fn waits(&self, each: &mut dyn FnMut(Who, Interest)) {
        Fan::waits(self, each);
    }

    fn wake(&mut self, who: Who) {
        Fan::wake(self, who);
    }

    fn rest(&mut self, lender: &mut dyn Lender) {
        Fan::rest(self, lender);
    }

    fn fail(&mut self, target: u16, fault: Fault) {
        Fan::fail(self, target, fault);
    }

    fn targets(&self) -> usize {
        Fan::targets(self)
    }

    fn taken_bytes(&self) -> u64 {
        Fan::taken_bytes(self)
    }

    fn delivered_bytes(&self, target: u16) -> u64 {
        Fan::delivered_bytes(self, target)
    }

    fn is_live(&self, target: u16) -> bool {
        Fan::is_live(self, target)
    }

    fn failure(&self, target: u16) -> Option<&Failure> {
        Fan::failure(self, target)
    }

    fn learn(&mut self, op: FanOp, answer: io::Result<usize>) -> Moved {
        Fan::learn(self, op, answer, &mut ())
    }

    fn is_held_by(&self, _target: u16) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_that_is_permitted_has_a_number() {
        for (targets, is_permitted) in [(0, true), (65_535, true), (65_536, false)] {
            assert_eq!(count_targets(targets).is_ok(), is_permitted, "{targets}");
        }
        assert_eq!(NUMBERS.len(), 65_535, "as the refusal says");
    }
}
