//! One lane of a fan: a flow that only delivers, and the lane's place in the present intake.

use super::super::route::Route;
use super::super::{Delivery, Failure, Flow, Lender};
use crate::endpoint::Kind;
use crate::fault::Fault;
use crate::method::MethodName;
use crate::port::Side;
use crate::sys::Call;
use rustix::io::Errno;

#[derive(Debug)]
pub(super) struct Lane {
    /// The target, a pipe and a buffer. The outlet takes nothing: the fan puts bytes there.
    pub(super) outlet: Flow,
    /// How many bytes of the intake's pipe, from the head on, the lane has got.
    pub(super) ahead_bytes: u64,
    /// Where in the common buffer the lane goes on writing, and whether any bytes are due.
    pub(super) written: u32,
    pub(super) owes: bool,
    /// The target answered `EAGAIN`, and nobody has said since that the target is ready.
    pub(super) waits: bool,
    /// Something happened at the target while nothing was due there.
    pub(super) is_to_look: bool,
    /// How much had been taken when the lane was lost.
    pub(super) lost_at_bytes: Option<u64>,
    /// The driver knows that the lane is lost.
    pub(super) is_reported: bool,
}

impl Lane {
    pub(super) fn new(outlet: Flow) -> Self {
        Self {
            outlet,
            ahead_bytes: 0,
            written: 0,
            owes: false,
            waits: false,
            is_to_look: false,
            lost_at_bytes: None,
            is_reported: false,
        }
    }

    /// Do references cost fewer copies than memory? A lane without references reads bytes out of a
    /// pipe; a pipe or stream saves a copy. Bytes in a pipe are no datagram.
    pub(super) fn take_references(lanes: &[Lane]) -> bool {
        // A slot of a pipe is not a message: boundaries survive in memory only.
        if lanes.iter().any(|lane| lane.outlet.target.keeps_boundaries()) {
            return false;
        }
        let count =
            |is: fn(&&Lane) -> bool| lanes.iter().filter(|lane| lane.is_live()).filter(is).count();
        let spared = |lane: &&Lane| {
            !lane.is_through_memory()
                && matches!(lane.outlet.target.kind(), Kind::Pipe | Kind::Stream)
        };
        count(|lane| lane.is_through_memory()) <= count(spared)
    }

    pub(super) fn is_live(&self) -> bool {
        self.lost_at_bytes.is_none()
    }

    /// Does the target take no references?
    fn is_through_memory(&self) -> bool {
        self.outlet.held.delivery.through_memory() || self.outlet.routes.now() == Route::Memory
    }

    /// Do bytes go from the intake's pipe to the target directly, not through the lane's pipe?
    pub(super) fn is_straight(&self) -> bool {
        self.outlet.target.kind() == Kind::Pipe && !self.is_through_memory()
    }

    /// Is anything in the lane's own pipe or buffer?
    pub(super) fn has_own(&self) -> bool {
        self.outlet.held.hand.full || self.outlet.held.is_piped()
    }

    /// Has a call failed, and have plain writes delivered as much as they can?
    pub(super) fn has_failed(&self) -> bool {
        // Bytes in its pipe still go out by plain writes, so it has not failed yet.
        let is_draining = self.outlet.held.delivery.through_memory() && self.has_own();
        self.is_live() && self.outlet.failed.is_some() && !is_draining
    }

    /// Bytes came into the lane's own pipe.
    pub(super) fn loaded(&mut self, bytes: usize) {
        self.outlet.took(bytes, MethodName::Splice);
        // A target that takes no splices gets them by plain writes.
        if self.outlet.routes.now() == Route::Memory {
            self.outlet.held.delivery = Delivery::Refused;
        }
    }

    /// So many bytes left the head of the intake's pipe.
    pub(super) fn head_moved(&mut self, bytes: u64) {
        self.ahead_bytes = self.ahead_bytes.saturating_sub(bytes);
    }

    /// The common buffer has new bytes up to `to`; a lane that was ahead has the first of them.
    pub(super) fn hand_out(&mut self, to: u32) {
        self.written = u32::try_from(self.ahead_bytes).unwrap_or(u32::MAX).min(to);
        self.head_moved(to.into());
        self.owes = self.written < to || (to == 0 && self.outlet.target.takes_empty());
        self.outlet.took((to - self.written) as usize, MethodName::ReadWrite);
    }

    pub(super) fn fail(&mut self, call: Call, errno: Errno) {
        let fault = Fault { call, side: Side::Target, errno };
        // Not even plain writes go on: the target itself has failed.
        self.outlet.give_up_memory();
        self.outlet.failed = Some(Box::new(Failure::Fault(fault)));
    }

    /// The lane gets nothing more.
    pub(super) fn lose(&mut self, taken_bytes: u64) {
        self.lost_at_bytes = Some(taken_bytes);
        (self.owes, self.waits, self.is_to_look) = (false, false, false);
        // Closed with its bytes: a lost lane delivers nothing more, and its pipe counts for the
        // budget.
        self.outlet.held.pipe = None;
        self.outlet.held.hand.clear();
    }

    pub(super) fn give_back(&mut self, lender: &mut dyn Lender) {
        if let Some(buf) = self.outlet.held.hand.buf.take() {
            lender.take_back(buf);
        }
    }
}
