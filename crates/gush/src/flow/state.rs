//! The parts of a flow's state: fixed terms, the source's end, readiness, counts.

use super::Terms;
use crate::mover::Choice;
use crate::port::Side;
use crate::tuning::Tuning;

/// What is known about the end of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceState {
    /// Bytes are taken by the route of the plan.
    Take,
    /// A call other than `read` answered 0, or both sides are ready after `EAGAIN`: `read` decides.
    Doubt,
    /// The target has no reader: the end, if the source has nothing more.
    Deserted,
    /// A `read` answered 0.
    Over,
}

/// The terms that no answer changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct FixedTerms {
    pub(super) rereads: bool,
    /// A method was asked for by name.
    pub(super) named: bool,
    // Half the size of a usize: a relay with thousands of connections has two flows for each.
    pub(super) short_bytes: u32,
    pub(super) buffer_bytes: u32,
    pub(super) call_bytes: u32,
    pub(super) message_bytes: u32,
}

impl FixedTerms {
    pub(super) fn of(terms: &Terms, call_bytes: usize) -> Self {
        let as_u32 = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX).max(1);
        Self {
            rereads: terms.rereads,
            named: terms.choice != Choice::Auto,
            short_bytes: as_u32(terms.short_bytes),
            buffer_bytes: as_u32(terms.buffer_bytes.min(Tuning::MOST_BUFFER_BYTES)),
            call_bytes: as_u32(call_bytes),
            message_bytes: as_u32(terms.message_bytes),
        }
    }
}

/// The counts of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tally {
    pub(super) taken_bytes: u64,
    pub(super) delivered_bytes: u64,
    /// The delivered bytes that became holes.
    pub(super) hole_bytes: u64,
    /// Bytes that may still be taken; without a limit more than there can be.
    pub(super) left_bytes: u64,
    /// Bytes still in the source, as far as the source says.
    pub(super) expected_bytes: Option<u64>,
}

impl Tally {
    pub(super) fn of(terms: &Terms) -> Self {
        Self {
            taken_bytes: 0,
            delivered_bytes: 0,
            hole_bytes: 0,
            left_bytes: terms.length_bytes.unwrap_or(u64::MAX),
            expected_bytes: terms.expected_bytes,
        }
    }

    #[inline]
    pub(super) fn took(&mut self, bytes: u64) {
        self.taken_bytes += bytes;
        // Saturating: a datagram is taken whole, also past the length that was left.
        self.left_bytes = self.left_bytes.saturating_sub(bytes);
        if let Some(expected_bytes) = &mut self.expected_bytes {
            *expected_bytes = expected_bytes.saturating_sub(bytes);
        }
    }
}

/// How often in turn a route reported a false end, as at the end of a growing file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FalseEnds(u8);

impl FalseEnds {
    // A file that grows at its end says "nothing more" a few times, procfs says so for ever.
    const MOST: u8 = 8;

    /// One more; answers whether the route is still to be believed.
    pub(crate) fn add(&mut self) -> bool {
        // Counted up to the bound only, so that the count cannot run over.
        let is_believed = self.0 < Self::MOST;
        self.0 += u8::from(is_believed);
        is_believed
    }

    /// Was there one since bytes last moved?
    pub(crate) fn any(self) -> bool {
        self.0 > 0
    }

    /// Bytes have moved.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

/// None, one or both of the two sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sides {
    pub(super) source: bool,
    pub(super) target: bool,
}

impl Sides {
    const NONE: Self = Self { source: false, target: false };

    fn set(&mut self, side: Side, yes: bool) {
        match side {
            Side::Source => self.source = yes,
            Side::Target => self.target = yes,
        }
    }

    fn first(self) -> Option<Side> {
        match self {
            Sides { source: true, .. } => Some(Side::Source),
            Sides { target: true, .. } => Some(Side::Target),
            Sides::NONE => None,
        }
    }
}

/// What poll(2) and `EAGAIN` have said of the sides since the last call that could move bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// These were found ready, perhaps none.
    Polled(Sides),
    /// A call that concerns both answered `EAGAIN`: these are to be polled.
    Asking(Sides),
    /// The driver is to wait for one side; reported once.
    Waiting { side: Side, polled: Sides },
}

impl Default for Readiness {
    fn default() -> Self {
        Self::Polled(Sides::NONE)
    }
}

impl Readiness {
    /// The sides found ready.
    pub(super) fn polled(self) -> Sides {
        match self {
            Self::Polled(sides) | Self::Waiting { polled: sides, .. } => sides,
            Self::Asking(_) => Sides::NONE,
        }
    }

    /// The side to poll, after an `EAGAIN` that may have meant either.
    pub(super) fn asks(self) -> Option<Side> {
        match self {
            Self::Asking(sides) => sides.first(),
            Self::Polled(_) | Self::Waiting { .. } => None,
        }
    }

    /// Takes out the side to wait for.
    pub(super) fn take_wait(&mut self) -> Option<Side> {
        let Self::Waiting { side, polled } = *self else { return None };
        *self = Self::Polled(polled);
        Some(side)
    }

    /// `side` has answered `EAGAIN`.
    pub(super) fn wait_for(&mut self, side: Side) {
        *self = Self::Waiting { side, polled: self.polled() };
    }

    /// Begins to ask these; `false` if there is none.
    pub(super) fn ask(&mut self, sides: Sides) -> bool {
        let is_any = sides != Sides::NONE;
        *self = if is_any { Self::Asking(sides) } else { Self::default() };
        is_any
    }

    /// poll(2) has found `side` ready; answers whether that was the last one to be asked.
    pub(super) fn found(&mut self, side: Side) -> bool {
        match self {
            Self::Asking(sides) => {
                sides.set(side, false);
                let was_last = *sides == Sides::NONE;
                if was_last {
                    *self = Self::default();
                }
                was_last
            }
            Self::Polled(polled) | Self::Waiting { polled, .. } => {
                polled.set(side, true);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_longer_than_the_length_leaves_nothing_to_take() {
        let mut tally = Tally::of(&Terms { length_bytes: Some(3), ..Terms::default() });
        tally.took(8);
        assert_eq!((tally.taken_bytes, tally.left_bytes), (8, 0));
    }

    #[test]
    fn a_false_end_is_believed_eight_times_in_a_row() {
        let mut false_ends = FalseEnds::default();
        for _ in 0..2 {
            assert!(!false_ends.any());
            for nth in 1..=FalseEnds::MOST {
                assert!(false_ends.add(), "{nth}");
                assert!(false_ends.any(), "{nth}");
            }
            assert!(!false_ends.add());
            false_ends.forget();
        }
    }

    #[test]
    fn a_side_found_ready_stays_so_while_the_other_is_waited_for() {
        let mut readiness = Readiness::default();
        assert!(!readiness.found(Side::Source));
        readiness.wait_for(Side::Target);
        assert_eq!(readiness.take_wait(), Some(Side::Target));
        assert_eq!(readiness.take_wait(), None, "reported once");
        assert_eq!(readiness.polled(), Sides { source: true, target: false });
    }

    #[test]
    fn both_sides_are_asked_in_turn() {
        let mut readiness = Readiness::default();
        assert!(!readiness.ask(Sides::NONE));
        assert!(readiness.ask(Sides { source: true, target: true }));
        assert_eq!(readiness.asks(), Some(Side::Source));
        assert!(!readiness.found(Side::Source));
        assert_eq!(readiness.asks(), Some(Side::Target));
        assert!(readiness.found(Side::Target));
        // Ready sides that answered EAGAIN together are ready for nothing.
        assert_eq!((readiness.asks(), readiness.polled()), (None, Sides::NONE));
    }
}
