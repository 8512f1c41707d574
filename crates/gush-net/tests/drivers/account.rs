//! The outcome of a move, and the comparison of two outcomes.

use gush::{Errno, Side};

use crate::case::{Case, Scene};

/// The way that the move ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The end of the source was proven.
    Proven,
    /// As many bytes as were asked for.
    Limit,
    /// As many bytes as were asked for, counted by who dropped a relay, which knows no length of a
    /// stream.
    Cut,
    Failed(Side, Errno),
    /// A method that was named does not serve here.
    Refused,
}

/// Where every byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    pub fate: Fate,
    pub delivered: usize,
    pub in_flight: usize,
    /// The bytes that a plain reader still gets from the source.
    pub left: usize,
}

/// The bytes that the smallest buffer of all drivers takes at once.
const ONE_PIECE_BYTES: usize = 4096;

impl Account {
    /// Is this the ending that the row requires?
    pub fn check(&self, case: &Case) -> Result<(), String> {
        let counted = self.delivered + self.in_flight + self.left;
        if counted != case.bytes {
            return Err(format!("{counted} of {} bytes are accounted for: {self:?}", case.bytes));
        }
        let without_end = !case.from.ends() && case.fate == Fate::Proven;
        let fate = if without_end { Fate::Limit } else { case.fate };
        if self.fate != fate && !(self.fate == Fate::Cut && fate == Fate::Limit) {
            return Err(format!("it ends otherwise: {self:?}, not {fate:?}"));
        }
        if fate == Fate::Refused {
            let untouched = self.left == case.bytes;
            return if untouched { Ok(()) } else { Err(format!("refused, but touched: {self:?}")) };
        }
        if matches!(fate, Fate::Failed(..)) {
            // Where the reader goes in the middle, the moment decides how much has arrived.
            let expected = case.delivers.filter(|_| case.scene != Scene::Leaves);
            return match expected {
                Some(expected) if self.delivered != expected => {
                    Err(format!("{expected} bytes should have arrived: {self:?}"))
                }
                _ => Ok(()),
            };
        }
        let most = case.limit.map_or(case.bytes, |limit| case.bytes.min(limit as usize));
        match (self.delivered, self.in_flight) == (most, 0) {
            true => Ok(()),
            false => Err(format!("{most} bytes should have arrived: {self:?}")),
        }
    }

    /// Did another driver come to the same?
    ///
    /// How much is in flight when a target fails depends on how much a driver takes at once, so the
    /// number is compared where everything fits into one piece, and drivers go the same way
    /// ([`Hand::road`]). A file gives undelivered bytes again: the mover puts the file's position
    /// back, and a relay, which has no use for the file any more, counts the bytes as lost.
    ///
    /// [`Hand::road`]: crate::hands::Hand::road
    pub fn agrees(&self, other: &Account, case: &Case, same_road: bool) -> bool {
        let ended = |account: &Account| match account.fate {
            Fate::Cut => Fate::Limit,
            fate => fate,
        };
        let one_piece = case.bytes <= ONE_PIECE_BYTES && !case.from.has_offsets() && same_road;
        let by_moment = case.scene == Scene::Leaves;
        ended(self) == ended(other)
            && (by_moment || self.delivered == other.delivered)
            && (!one_piece || self.in_flight == other.in_flight)
    }
}
