//! The old content of a target that a move replaces: cut off once new content takes its place.
//!
//! The plan ends in read-write, which serves everything, so the old content goes before the plan's
//! first method, and before read-write by name. Another named method may be refused, and then
//! leaves the target untouched: it first moves a small piece over the old content. Then the target
//! is cut, and the move begins anew as into an empty file; ext4 relies on that truncation to 0
//! (`auto_da_alloc`, ext4(5)). A stream cannot be read again: the first piece stays, and the old
//! content after it is cut off.

use std::cmp::Ordering;

use super::cursor::Cursor;
use super::drive::{Halt, Move};
use super::ends::Ends;
use super::request::Request;
use crate::endpoint::Kind;
use crate::error::Error;
use crate::method::MethodName;
use crate::port::Side;
use crate::sys::{self, Call};

/// More than any method's alignment.
const PIECE_BYTES: u64 = 64 << 10;

/// The content of the target that a move is to replace.
pub(super) enum OldContent {
    /// Nothing, or nothing is to be replaced.
    None,
    /// The target is empty, or ends where the move begins: the move sets its times.
    Empty,
    /// Still complete.
    Kept,
    /// Partly cut off.
    Lost,
}

impl OldContent {
    pub(super) fn of(request: &Request<'_>, ends: &Ends<'_>, cursor: &Cursor) -> Self {
        let base = cursor.bases().1;
        match base.map(|base| ends.target.size_bytes().cmp(&base)) {
            _ if !request.replace || ends.target.kind() != Kind::File => OldContent::None,
            Some(Ordering::Greater) => OldContent::Kept,
            Some(Ordering::Equal) => OldContent::Empty,
            Some(Ordering::Less) | None => OldContent::None,
        }
    }

    pub(super) fn is_lost(&self) -> bool {
        matches!(self, OldContent::Lost)
    }

    fn is_kept(&self) -> bool {
        matches!(self, OldContent::Kept)
    }
}

impl Move<'_> {
    /// Before `name` is tried: the old content is cut off, or kept because the method is refused.
    pub(super) fn make_way(&mut self, name: MethodName, goal: Option<u64>) -> Result<(), Halt> {
        // The plan's last method serves everything.
        if !self.request.names(name) || name == MethodName::ReadWrite {
            return Ok(self.give_way()?);
        }
        if !self.old.is_kept() {
            return Ok(());
        }
        let is_whole = name.method().traits().whole;
        let left_bytes = self.cursor.known_left_bytes(&self.ends, goal);
        if self.cursor.source_at().is_some() && left_bytes == 0 && !is_whole {
            // Nothing to show it on: no call that could be refused is made.
            return Ok(());
        }
        match is_whole {
            true => self.show_on_whole_blocks(name, goal),
            false => self.show_on_a_piece(name, goal),
        }
    }

    /// Cuts the old content off.
    pub(super) fn give_way(&mut self) -> Result<(), Error> {
        match self.old.is_kept() {
            true => self.cut_old_content(self.cursor.bases().1),
            false => Ok(()),
        }
    }

    /// A method of one call moves everything over the old content, whose rest is cut afterwards. A
    /// last part of a block cannot be cloned into the middle of a file (`generic_remap_check_len`
    /// of `fs/remap_range.c`): the whole blocks come first.
    fn show_on_whole_blocks(&mut self, name: MethodName, goal: Option<u64>) -> Result<(), Halt> {
        let left_bytes = self.cursor.known_left_bytes(&self.ends, goal);
        // FICLONERANGE takes a part of a block only at the end of both files.
        let part_bytes = left_bytes % self.ends.target.block_bytes();
        let end_of = |at: Option<u64>| at.map(|at| at + left_bytes);
        let to_the_end = end_of(self.cursor.source_at()) == Some(self.ends.source.size_bytes());
        let into_the_middle = end_of(self.cursor.target_at()) < Some(self.ends.target.size_bytes());
        if part_bytes == 0 && left_bytes > 0 || !to_the_end || !into_the_middle {
            return Ok(());
        }
        let blocks_bytes = left_bytes - part_bytes;
        if blocks_bytes > 0 {
            self.move_by(name, Some(self.cursor.moved_bytes + blocks_bytes))?;
            return Ok(self.cut_old_content(self.cursor.target_at())?);
        }
        let pair = self.cursor.pair_at_offsets(&self.ends, goal)?;
        if name.method().probe(&pair)? {
            self.cut_old_content(self.cursor.bases().1)?;
        }
        Ok(())
    }

    /// A method that moves in pieces shows on the first that it serves; the observer does not hear
    /// of that piece, which is moved again.
    fn show_on_a_piece(&mut self, name: MethodName, goal: Option<u64>) -> Result<(), Halt> {
        let before_bytes = self.cursor.moved_bytes;
        let piece_end = before_bytes + PIECE_BYTES;
        let piece_end = Some(goal.map_or(piece_end, |goal| goal.min(piece_end)));
        let (source_base, target_base) = self.cursor.bases();
        if source_base.is_none() {
            // A stream cannot give its bytes again: the piece stays.
            let outcome = self.move_by(name, piece_end);
            if self.cursor.moved_bytes > before_bytes || outcome.is_ok() {
                self.cut_old_content(self.cursor.target_at())?;
            }
            return outcome;
        }
        let end = self.reserved_end(name, self.cursor.known_left_bytes(&self.ends, goal))?;
        // The piece is moved twice, and must be shown and counted once.
        let observer = self.watch.take_observer();
        // A hash of bytes seen twice would be wrong.
        let inspectors = self.setup.inspectors.take();
        let (account, hole_bytes) = (self.account.clone(), self.cursor.hole_bytes);
        let outcome = self.move_by(name, piece_end);
        self.watch.observe_again(observer);
        self.setup.inspectors = inspectors;
        self.account = account;
        self.cursor.hole_bytes = hole_bytes;
        if outcome.is_ok() {
            self.cursor.go_back(before_bytes);
            return Ok(self.cut_old_content(target_base)?);
        }
        if self.cursor.moved_bytes > before_bytes {
            self.cut_old_content(self.cursor.target_at())?;
        } else {
            end.trim(None)
                .map_err(|errno| self.cursor.failed(Call::Ftruncate, Side::Target, errno))?;
        }
        outcome
    }

    /// After the last step of a successful move: nothing is left of the old content.
    pub(super) fn cut_what_is_left(&mut self) -> Result<(), Error> {
        match self.old {
            OldContent::Kept => self.cut_old_content(self.cursor.target_at()),
            // Writing sets the times, and so does a truncation that cuts nothing off (truncate(2)).
            OldContent::Empty if self.cursor.moved_bytes == 0 => {
                self.old = OldContent::None;
                let at = self.cursor.bases().1.unwrap_or(0);
                sys::file::ftruncate(self.ends.target.fd(), at)
                    .map_err(|errno| self.cursor.failed(Call::Ftruncate, Side::Target, errno))
            }
            _ => Ok(()),
        }
    }

    fn cut_old_content(&mut self, at: Option<u64>) -> Result<(), Error> {
        let Some(at) = at else { return Ok(()) };
        // Set before the call: a failed truncation is not tried again at the end.
        self.old = OldContent::None;
        sys::file::ftruncate(self.ends.target.fd(), at)
            .map_err(|errno| self.cursor.failed(Call::Ftruncate, Side::Target, errno))?;
        self.old = OldContent::Lost;
        // What was reserved has been given back with the old blocks.
        if self.loose.reserved { self.preallocate() } else { Ok(()) }
    }
}
