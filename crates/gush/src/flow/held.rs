//! What a flow has taken and not delivered, and the memory and pipe that hold it.

use super::hand::Hand;
use super::{Lender, SPILL_BYTES};
use crate::pipe::PipeLoan;

/// The bytes in flight: zeros that become a hole, then those in hand, then those in the pipe. An
/// empty buffer and pipe stay until [`Held::rest`].
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Zeros taken, and not yet a hole of the target.
    pub(super) zeros_bytes: u64,
    pub(super) hand: Hand,
    /// The pipe, while bytes are in there or about to be.
    pub(super) pipe: Option<PipeLoan>,
    pub(super) delivery: Delivery,
    pub(super) lent: LentPages,
}

/// How the bytes in hand and in the pipe leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Delivery {
    /// By the calls of the route.
    #[default]
    ByRoute,
    /// As lent pages (vmsplice): the pipe holds some of these, and perhaps the rest of the last
    /// page.
    Lent,
    /// Through memory: the target refused the route. The next begins once nothing is in flight.
    Refused,
    /// Through memory, as a sip ([`super::Flow::sip`]): the route stays.
    Sipped,
}

impl Delivery {
    /// Do the bytes leave the pipe by `read` and `write`?
    pub(super) fn through_memory(self) -> bool {
        matches!(self, Delivery::Refused | Delivery::Sipped)
    }
}

impl Held {
    /// The bytes in flight.
    pub(super) fn bytes(&self) -> u64 {
        let in_pipe = match self.delivery {
            // They are in hand as well.
            Delivery::Lent => 0,
            _ => self.pipe.as_ref().map_or(0, |pipe| pipe.held_bytes()),
        };
        self.zeros_bytes + self.hand.held().len() as u64 + in_pipe
    }

    pub(super) fn is_piped(&self) -> bool {
        self.pipe.as_ref().is_some_and(|pipe| !pipe.is_empty())
    }

    /// How much is in the pipe.
    pub(super) fn piped_bytes(&self) -> usize {
        self.pipe
            .as_ref()
            .map_or(0, |pipe| usize::try_from(pipe.held_bytes()).unwrap_or(SPILL_BYTES))
    }

    /// Bytes have come into the pipe.
    pub(super) fn put_into_pipe(&mut self, bytes: usize) {
        if let Some(pipe) = &mut self.pipe {
            pipe.put(bytes);
        }
    }

    /// Bytes have left the pipe.
    pub(super) fn gone_from_pipe(&mut self, bytes: usize) {
        if let Some(pipe) = &mut self.pipe {
            pipe.gone(bytes);
        }
        if self.delivery == Delivery::Lent && !self.is_piped() {
            self.delivery = Delivery::ByRoute;
        }
    }

    /// Borrows a pipe, if none is here; `None` if none can be had.
    pub(super) fn borrow_pipe(&mut self, lender: &mut dyn Lender) -> Option<&PipeLoan> {
        if self.pipe.is_none() {
            self.pipe = lender.pipe();
        }
        self.pipe.as_ref()
    }

    pub(super) fn is_at_rest(&self) -> bool {
        let idle_pipe = self.pipe.as_ref().is_some_and(|pipe| pipe.is_empty());
        let idle_buf = self.hand.buf.is_some() && !self.hand.full;
        !idle_pipe && !idle_buf
    }

    pub(super) fn rest(&mut self, lender: &mut dyn Lender) {
        // Dropped, it goes back to the pool, where another flow takes it.
        if self.pipe.as_ref().is_some_and(|pipe| pipe.is_empty()) {
            self.pipe = None;
        }
        // Pages that the pipe holds are in flight themselves.
        if self.delivery != Delivery::Lent
            && let Some(buf) = self.hand.shrink()
        {
            lender.take_back(buf);
        }
    }
}

/// How many bytes of lent pages may still be read, counted by the flow's own calls: a driver can
/// pass a descriptor of another kind, or false answers, and lent pages stay untouched (invariant
/// 4).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LentPages(u32);

impl LentPages {
    /// Some went to a descriptor that may keep them.
    const FOR_GOOD: u32 = u32::MAX;

    /// A pipe holds so many more.
    pub(super) fn put(&mut self, bytes: usize) {
        self.0 = u32::try_from(bytes).map_or(Self::FOR_GOOD, |more| self.0.saturating_add(more));
    }

    /// So many left the pipe, copied.
    pub(super) fn copied(&mut self, bytes: usize) {
        if self.0 != Self::FOR_GOOD {
            self.0 = self.0.saturating_sub(u32::try_from(bytes).unwrap_or(u32::MAX));
        }
    }

    /// Some leave the pipe as they are.
    pub(super) fn kept(&mut self) {
        self.0 = Self::FOR_GOOD;
    }

    /// Has everybody who got the pages copied them?
    pub(super) fn are_copied(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::{Delivery, Held, LentPages};
    use crate::pipe::{Pipe, PipeLoan};

    #[test]
    fn an_empty_pipe_holds_no_lent_page() {
        let pipe = Some(PipeLoan::alone(Pipe::new(1).expect("a pipe")));
        let mut held = Held { pipe, delivery: Delivery::Lent, ..Held::default() };
        held.put_into_pipe(8);
        held.gone_from_pipe(5);
        assert_eq!(held.delivery, Delivery::Lent);
        held.gone_from_pipe(3);
        assert_eq!(held.delivery, Delivery::ByRoute);
    }

    #[test]
    fn lent_pages_are_free_once_all_of_them_were_copied() {
        let mut lent = LentPages::default();
        assert!(lent.are_copied());
        lent.put(8);
        lent.copied(5);
        assert!(!lent.are_copied());
        lent.copied(3);
        assert!(lent.are_copied());
        lent.put(8);
        lent.kept();
        lent.copied(8);
        assert!(!lent.are_copied(), "somebody keeps them");
        let mut uncounted = LentPages::default();
        uncounted.put(usize::MAX);
        uncounted.copied(usize::MAX);
        assert!(!uncounted.are_copied());
    }
}
