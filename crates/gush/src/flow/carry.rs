//! A flow that goes on in another process.

use rustix::fd::BorrowedFd;

use super::held::Delivery;
use super::{Buf, Flow};
use crate::pipe::{Pipe, PipeLoan};

/// What a flow has delivered, and what is in flight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Bytes delivered to the target.
    pub delivered_bytes: u64,
    /// Bytes in memory, which come before those in the pipe.
    pub hand: Vec<u8>,
    /// How many bytes are in the pipe.
    pub piped_bytes: u64,
    /// The target takes no splices of these bytes.
    pub through_memory: bool,
}

impl Flow {
    /// The state for another process, and the ends of the pipe, if bytes are in there: first the
    /// one to be read. `None` of a flow that has failed, or holds a message, lent pages or zeros.
    #[must_use]
    pub fn carried(&self) -> Option<(Carried, Option<[BorrowedFd<'_>; 2]>)> {
        let held = &self.held;
        let is_message = held.hand.full && self.source.keeps_boundaries();
        let moves =
            self.failed.is_none() && held.zeros_bytes == 0 && held.delivery != Delivery::Lent;
        if !moves || is_message {
            return None;
        }
        let pipe = held.pipe.as_ref().filter(|pipe| !pipe.is_empty());
        let carried = Carried {
            delivered_bytes: self.tally.delivered_bytes,
            hand: held.hand.held().to_vec(),
            piped_bytes: pipe.map_or(0, |pipe| pipe.held_bytes()),
            through_memory: held.delivery.through_memory(),
        };
        Some((carried, pipe.map(|pipe| [pipe.read_end(), pipe.write_end()])))
    }

    /// Goes on from the state of another process. `self` has moved nothing yet; the pipe holds the
    /// bytes that the state says.
    #[must_use]
    pub fn carry_on(mut self, carried: Carried, pipe: Option<Pipe>) -> Self {
        let Carried { delivered_bytes, hand, piped_bytes, through_memory } = carried;
        self.tally.took(delivered_bytes + hand.len() as u64 + piped_bytes);
        self.tally.delivered_bytes = delivered_bytes;
        if !hand.is_empty() {
            let bytes = hand.len();
            self.held.hand.buf = Some(Buf::Rest(hand.into()));
            self.held.hand.put(bytes);
        }
        self.held.pipe = pipe.map(PipeLoan::alone);
        if through_memory {
            // Not `Refused`: the routes begin anew, and this one may do.
            self.held.delivery = Delivery::Sipped;
        }
        self
    }
}
