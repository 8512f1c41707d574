//! Moving the data of a sparse file, and leaving the holes as holes or writing zeros instead.

use super::Holes;
use super::drive::Move;
use super::extents::Extent;
use crate::error::Error;
use crate::kernel::Kernel;
use crate::method::MethodName;
use crate::port::{Port, Side};
use crate::sys::Call;
use crate::zeros::{self, PART_BYTES};

/// A stretch of the move, in bytes from the start.
#[derive(Clone, Copy)]
struct Hole {
    start: u64,
    end: u64,
}

impl Move<'_> {
    /// Reads everything, and leaves zeros out; a named method moves them as data.
    pub(super) fn move_and_look_for_holes(&mut self) -> Result<(), Error> {
        if self.keep_whole()? {
            return Ok(());
        }
        self.setup.makes_holes = match self.request.choice {
            super::Choice::Auto => true,
            super::Choice::Only(name) => name == MethodName::ReadWrite,
        };
        self.move_data(self.cursor.length_bytes())
    }

    /// Data moves, holes are passed over or filled.
    pub(super) fn move_around_holes(&mut self) -> Result<(), Error> {
        // Asked before the first hole is made: a refusal leaves the target untouched (invariant 3).
        self.refuse_whole()?;
        if self.request.holes == Holes::Keep && self.keep_whole()? {
            return Ok(());
        }
        let mut pending = None;
        // Not `?`: the hole at hand has to be made also where the walk failed.
        let walked = self.walk(&mut pending);
        // The error of the walk counts what has arrived; a last hole that is taken back has not.
        let made = self.make_hole(&mut pending);
        walked.map_err(|error| self.cursor.recounted(error)).and(made)
    }

    /// Asks the hole-keeping methods (reflink), for the whole.
    fn keep_whole(&mut self) -> Result<bool, Error> {
        let keeps_holes = |name: &&MethodName| name.method().traits().keeps_holes;
        let candidates = self.choosing(None).candidates();
        for &name in candidates.iter().filter(keeps_holes) {
            if self.try_method(name, self.cursor.length_bytes())? {
                return Ok(true);
            }
            if self.request.names(name) {
                self.give_up()?;
            }
        }
        Ok(false)
    }

    /// A named method is refused before the first piece, not at the last (invariant 6).
    fn refuse_whole(&mut self) -> Result<(), Error> {
        let super::Choice::Only(name) = self.request.choice else { return Ok(()) };
        let method = name.method();
        let pair = self.pair(method.traits(), self.cursor.length_bytes())?;
        self.choosing(None)
            .may_use(name)
            .and_then(|()| method.serves(&pair, Kernel::get()))
            .map_err(Error::refused)
    }

    /// The target gets a hole only once the data after it has arrived, or the end is known: a
    /// method refused at the first data must have touched nothing (invariant 3).
    fn walk(&mut self, pending: &mut Option<Hole>) -> Result<(), Error> {
        let goal = self.cursor.length_bytes();
        while !self.cursor.is_at(goal) {
            let left_bytes = goal.map_or(u64::MAX, |goal| goal - self.cursor.moved_bytes);
            match Extent::at(&mut self.cursor, &self.ends)? {
                Extent::Hole(bytes) => self.pass_over(bytes.min(left_bytes), pending)?,
                Extent::Data(bytes) => {
                    self.move_data(Some(bytes.min(left_bytes)))?;
                    self.make_hole(pending)?;
                }
                Extent::LastHole(bytes) => {
                    let hole_bytes = bytes.min(left_bytes);
                    self.pass_over(hole_bytes, pending)?;
                    // The goal is reached within the hole: there is no data to prove an end with.
                    if hole_bytes == left_bytes {
                        return Ok(());
                    }
                    return self.move_data(goal.map(|_| left_bytes - hole_bytes));
                }
                Extent::Unknown => return self.move_data(goal.map(|_| left_bytes)),
            }
        }
        Ok(())
    }

    /// # Errors
    /// Stopped or cancelled: the zeros of a large hole take long to show.
    fn pass_over(&mut self, bytes: u64, pending: &mut Option<Hole>) -> Result<(), Error> {
        if self.request.holes == Holes::Fill {
            return self.fill(bytes);
        }
        if bytes == 0 {
            return Ok(());
        }
        // Nobody looks, so a hole of a terabyte costs nothing.
        let mut left_bytes = if self.setup.inspectors.is_some() { bytes } else { 0 };
        while left_bytes > 0 {
            let part_bytes = left_bytes.min(PART_BYTES);
            if let Some(inspectors) = &self.setup.inspectors {
                inspectors.show_hole(part_bytes);
            }
            left_bytes -= part_bytes;
            self.ask_if_due()?;
        }
        let start = pending.map_or(self.cursor.moved_bytes, |hole| hole.start);
        self.cursor.hole_bytes += bytes;
        self.cursor.skip(bytes);
        // Holes side by side become one, and are made once their end is known.
        *pending = Some(Hole { start, end: self.cursor.moved_bytes });
        Ok(())
    }

    /// Writes zeros for a hole, which a read would put into the page cache.
    fn fill(&mut self, bytes: u64) -> Result<(), Error> {
        self.give_way()?;
        let mut left_bytes = bytes;
        while left_bytes > 0 {
            let allowed_bytes = self.watch.allowance();
            if allowed_bytes == 0 {
                self.watch.pause();
                self.ask(MethodName::ReadWrite)?;
                continue;
            }
            let part_bytes = left_bytes.min(allowed_bytes).min(PART_BYTES);
            let (at, began) = (self.cursor.target_at(), self.watch.now());
            let target = Port::new(&self.ends.target, at);
            zeros::write_zeros(&target, at.unwrap_or(0), part_bytes)
                .map_err(|errno| self.cursor.failed(Call::Pwrite, Side::Target, errno))?;
            if let Some(inspectors) = &self.setup.inspectors {
                inspectors.show_hole(part_bytes);
            }
            self.cursor.skip(part_bytes);
            self.watch.spend(part_bytes);
            self.watch.learn(part_bytes, began);
            self.ask(MethodName::ReadWrite)?;
            left_bytes -= part_bytes;
        }
        Ok(())
    }

    fn ask_if_due(&mut self) -> Result<(), Error> {
        if self.watch.is_cancelled() || self.watch.is_watched() && self.watch.is_due() {
            // Zeros are shown and written from memory, whichever method moves the data.
            self.ask(MethodName::ReadWrite)?;
        }
        Ok(())
    }

    /// Makes the hole passed over last; takes the hole back if the move ended right after
    /// without the end of the source, or the goal.
    fn make_hole(&mut self, pending: &mut Option<Hole>) -> Result<(), Error> {
        let (Some(hole), (_, Some(base))) = (pending.take(), self.cursor.bases()) else {
            return Ok(());
        };
        let moved_bytes = self.cursor.moved_bytes;
        let at_goal = self.cursor.length_bytes() == Some(moved_bytes);
        if moved_bytes == hole.end && !self.cursor.ended && !at_goal {
            self.cursor.go_back(hole.start);
            self.cursor.hole_bytes -= hole.end - hole.start;
            return Ok(());
        }
        let mut zeros_bytes = hole.start;
        let made = self.make_zeros(base, &mut zeros_bytes, hole.end);
        made.map_err(|error| {
            // Old content may be left in front of the data that has arrived.
            self.cursor.go_back(zeros_bytes);
            error.after(zeros_bytes, 0)
        })
    }

    /// From the byte `at` of the move to byte `end` the target reads as zeros then. `at` follows.
    fn make_zeros(&mut self, base: u64, at: &mut u64, end: u64) -> Result<(), Error> {
        while *at < end {
            let offset = base + *at;
            let target = Port::new(&self.ends.target, Some(offset));
            *at += zeros::punch(&target, offset, end - *at)
                .map_err(|errno| self.cursor.failed(Call::Fallocate, Side::Target, errno))?;
            if *at < end {
                self.ask_if_due()?;
            }
        }
        Ok(())
    }
}
