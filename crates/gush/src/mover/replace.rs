//! What a target held before, where a move replaces it: cut off once something takes its place.
//!
//! The plan ends in a method that serves everything, so the old content goes before the plan's first
//! method is tried. A method that was named may be refused, and a refusal leaves the target as it was:
//! the method first shows on a small piece, written over the old content, that it serves. Then the
//! target is cut, and the move begins anew, as if the target had been empty; ext4 counts on that
//! truncation to 0 (`auto_da_alloc`, ext4(5)). A stream cannot give its bytes again: its first piece
//! stays, and the old content is cut off behind it. A method refused after that has failed.

use super::Choice;
use super::job::Job;
use super::space::OpenEnd;
use crate::error::Error;
use crate::method::{MethodName, Refusal};
use crate::port::Side;
use crate::sys::{self, Call};

/// More than any alignment that a method asks for.
const PIECE_BYTES: u64 = 64 << 10;

impl Job<'_> {
    /// Before `name` is tried: the old content is cut off, or kept because the method is refused.
    pub(super) fn make_way(
        &mut self,
        name: MethodName,
        goal: Option<u64>,
    ) -> Result<Option<Refusal>, Error> {
        if !self.has_old_content {
            return Ok(None);
        }
        if self.options.choice != Choice::Only(name) {
            return self.cut_old_content(self.target_base).map(|()| None);
        }
        if self.source_base.is_some() && self.known_left_bytes(goal) == 0 {
            // Nothing to show it on: no call that could be refused is made.
            return Ok(None);
        }
        match name.method().traits().whole {
            true => self.show_on_whole_blocks(name, goal),
            false => self.show_on_a_piece(name, goal),
        }
    }

    /// A method whose one call moves everything makes it over the old content: that what was longer is cut
    /// afterwards. Only a last part of a block cannot be cloned into the middle of a file
    /// (`generic_remap_check_len` of `fs/remap_range.c`): the whole blocks before it come first, and show.
    fn show_on_whole_blocks(
        &mut self,
        name: MethodName,
        goal: Option<u64>,
    ) -> Result<Option<Refusal>, Error> {
        let left_bytes = self.known_left_bytes(goal);
        let part_bytes = left_bytes % self.target.block_bytes();
        let end_of = |at: Option<u64>| at.map(|at| at + left_bytes);
        let to_the_end = end_of(self.source_at()) == Some(self.source.size_bytes());
        let into_the_middle = end_of(self.target_at()) < Some(self.target.size_bytes());
        if part_bytes == 0 || !to_the_end || !into_the_middle {
            return Ok(None);
        }
        let blocks_bytes = left_bytes - part_bytes;
        if blocks_bytes > 0 {
            let refusal = self.move_by(name, Some(self.moved_bytes + blocks_bytes))?;
            if refusal.is_none() {
                self.cut_old_content(self.target_at())?;
            }
            return Ok(refusal);
        }
        let pair = self.pair_with_offsets(goal)?;
        match name.method().is_served(&pair) {
            Ok(true) => self.cut_old_content(self.target_base).map(|()| None),
            Ok(false) => Ok(None),
            Err(refusal) => Ok(Some(refusal)),
        }
    }

    /// After the last step of a move that succeeded: nothing is left of the old content.
    pub(super) fn cut_what_is_left(&mut self) -> Result<(), Error> {
        if self.has_old_content { self.cut_old_content(self.target_at()) } else { Ok(()) }
    }

    /// The error of a move whose last method was refused.
    pub(super) fn given_up(&self, refusal: &Refusal) -> Error {
        match (self.lost_old_content, refusal.call, refusal.errno) {
            (true, Some(call), Some(errno)) => self.failed(call, side_of(call), errno),
            _ => Error::refused(refusal.clone()).after(self.moved_bytes, 0),
        }
    }

    fn cut_old_content(&mut self, at: Option<u64>) -> Result<(), Error> {
        let Some(at) = at else { return Ok(()) };
        self.has_old_content = false;
        sys::file::ftruncate(self.target.fd(), at)
            .map_err(|errno| self.failed(Call::Ftruncate, Side::Target, errno))?;
        self.lost_old_content = true;
        // What was reserved has been given back with the old blocks.
        if self.reserved { self.preallocate() } else { Ok(()) }
    }

    fn show_on_a_piece(
        &mut self,
        name: MethodName,
        goal: Option<u64>,
    ) -> Result<Option<Refusal>, Error> {
        let base = self.target_at();
        let end = OpenEnd::of(self.options.target)
            .map_err(|errno| self.failed(Call::Fstat, Side::Target, errno))?;
        let left_bytes = self.known_left_bytes(goal);
        if let (true, Some(at)) = (name.method().traits().needs_target_size, base)
            && left_bytes > 0
            && let Err(errno) = end.reserve(at, left_bytes)
        {
            return Ok(Some(Refusal::by_kernel(name, Call::Fallocate, errno)));
        }
        let before_bytes = self.moved_bytes;
        let piece_end = before_bytes + PIECE_BYTES;
        let piece_end = goal.map_or(piece_end, |goal| goal.min(piece_end));
        let is_stream = self.source_base.is_none();
        if is_stream {
            let outcome = self.move_by(name, Some(piece_end));
            if self.moved_bytes > before_bytes || matches!(outcome, Ok(None)) {
                self.cut_old_content(self.target_at())?;
            }
            return outcome;
        }
        // Nobody is told of the piece: it is moved once more.
        let observer = self.options.observer.take();
        let tap = self.options.tuning.tap.take();
        let (uses, all_seen, hole_bytes) = (self.uses.clone(), self.all_seen, self.hole_bytes);
        let outcome = self.move_by(name, Some(piece_end));
        self.options.observer = observer;
        self.options.tuning.tap = tap;
        (self.uses, self.all_seen, self.hole_bytes) = (uses, all_seen, hole_bytes);
        if !matches!(outcome, Ok(None)) {
            match self.moved_bytes > before_bytes {
                true => self.cut_old_content(self.target_at())?,
                false => end
                    .trim(None)
                    .map_err(|errno| self.failed(Call::Ftruncate, Side::Target, errno))?,
            }
            return outcome;
        }
        self.ended = false;
        self.moved_bytes = before_bytes;
        self.positions_lag = true;
        self.cut_old_content(self.target_base)?;
        Ok(None)
    }
}

/// Where the descriptor is that a call of a method moving between files concerns most.
fn side_of(call: Call) -> Side {
    match call {
        Call::Read | Call::Pread | Call::Preadv2 | Call::Recv | Call::UringRead => Side::Source,
        _ => Side::Target,
    }
}
