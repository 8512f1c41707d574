//! Predicts from the first messages of recent directions whether the next one is long.
//!
//! A first read that fills its buffer copies a part of a long message, which leaves before the
//! rest. FIONREAD before that read avoids this, and costs each short connection a call in each
//! direction. So it is made only while long messages have come recently.

use std::cell::Cell;

use crate::counts::Direction;

/// After so many short first messages in a row no call is made any more.
const SHORT_ONES: u8 = 16;

thread_local! {
    /// Of each direction, how many short messages are left until then. Shared by all relays of the
    /// thread, which mostly carry the same kind of traffic.
    static ASKED: [Cell<u8>; 2] = const { [Cell::new(SHORT_ONES), Cell::new(SHORT_ONES)] };
}

/// May the first message of a direction be a long one?
pub(crate) fn may_be_long(direction: Direction) -> bool {
    ASKED.with(|asked| asked[direction as usize].get() > 0)
}

/// Records the first message of a direction.
pub(crate) fn learn(direction: Direction, is_long: bool) {
    ASKED.with(|asked| {
        let asked = &asked[direction as usize];
        asked.set(if is_long { SHORT_ONES } else { asked.get().saturating_sub(1) });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_messages_in_turn_end_the_asking_and_one_long_one_begins_it_again() {
        for _ in 0..2 {
            for nth in 0..SHORT_ONES {
                assert!(may_be_long(Direction::Forward), "{nth}");
                learn(Direction::Forward, false);
            }
            assert!(!may_be_long(Direction::Forward) && may_be_long(Direction::Back));
            learn(Direction::Forward, true);
        }
        assert!(may_be_long(Direction::Forward));
    }
}
