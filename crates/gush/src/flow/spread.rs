//! What the driver of a tee needs of one source with several targets.

use std::ops::Range;

use rustix::io;

use super::fan::{FanFds, FanNext, FanOp, Interest, Who};
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

/// A [`Fan`](super::Fan), whose lanes keep pace, or a `Backlog`, whose lanes may lag.
/// Methods with a target's number panic where there is no such target.
pub trait Spread {
    /// Decides the next call, which takes at most `may_take_bytes`, or one datagram.
    fn next(&mut self, may_take_bytes: u64, lender: &mut dyn Lender) -> FanNext;
    /// Makes the call named by [`next`](Self::next). Every system call is made here.
    ///
    /// The kernel sends SIGPIPE where a pipe has no reader; to survive a lost target a program
    /// ignores the signal, as Rust's programs do.
    ///
    /// # Errors
    /// The kernel's answer; `EAGAIN` where a side cannot go on; `EBADF` for a side in memory.
    fn perform(&mut self, op: FanOp, fds: FanFds<'_>) -> io::Result<usize>;
    /// Learns the answer of a call; delivered bytes are those of the call's target.
    fn learn(&mut self, op: FanOp, answer: io::Result<usize>) -> Moved;
    /// Names each side to wait for after [`FanNext::Wait`].
    fn waits(&self, each: &mut dyn FnMut(Who, Interest));
    /// Something happened at this side: its call is made again, or a target with nothing to take is
    /// polled. Waking a side too early costs a call.
    fn wake(&mut self, who: Who);
    /// Gives back empty pipes and buffers, and shrinks nearly empty ones; called before the driver
    /// parks.
    fn rest(&mut self, lender: &mut dyn Lender);
    /// Loses a target to a fault that the driver found, as [`next`](Self::next) reports.
    fn fail(&mut self, target: u16, fault: Fault);
    /// Does this target, which has no room, keep bytes from the others?
    fn is_held_by(&self, target: u16) -> bool;
    /// How many targets there were at first.
    fn targets(&self) -> usize;
    /// Bytes taken from the source.
    fn taken_bytes(&self) -> u64;
    /// The bytes delivered to a target: the first ones of the source.
    fn delivered_bytes(&self, target: u16) -> u64;
    /// Does the target still get bytes?
    fn is_live(&self, target: u16) -> bool;
    /// Why the target was lost, if so.
    fn failure(&self, target: u16) -> Option<&Failure>;
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
