//! Moving the data of a sparse file, and leaving its holes as holes.

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::Choice;
use super::job::Job;
use crate::error::Error;
use crate::kernel::Kernel;
use crate::method::{MethodName, punch};
use crate::port::{Port, Side};
use crate::sys::{self, Call};

impl Job<'_> {
    /// Asks the methods that keep holes by themselves (reflink), for the whole.
    fn keep_whole(&mut self) -> Result<bool, Error> {
        let keeps_holes = |name: &&MethodName| name.method().traits().keeps_holes;
        for &name in self.candidates().iter().filter(keeps_holes) {
            if self.ask(name, self.options.length_bytes)? {
                return Ok(true);
            }
        }
        match (self.options.choice, self.refusals.last()) {
            (Choice::Only(name), Some(refusal)) if refusal.method == name => {
                Err(self.given_up(refusal))
            }
            _ => Ok(false),
        }
    }

    /// A method that was named is refused before the first piece, not at the last (invariant 6).
    fn refuse_whole(&mut self) -> Result<(), Error> {
        let Choice::Only(name) = self.options.choice else { return Ok(()) };
        let method = name.method();
        let pair = self.pair(method.traits(), self.options.length_bytes)?;
        self.may_use(name)
            .and_then(|()| method.serves(&pair, Kernel::get()))
            .map_err(Error::refused)
    }

    /// Reads everything, and leaves zeros out; a method that was named moves them as data.
    pub(super) fn move_and_look_for_holes(&mut self) -> Result<(), Error> {
        if self.keep_whole()? {
            return Ok(());
        }
        self.options.tuning.make_holes =
            matches!(self.options.choice, Choice::Auto | Choice::Only(MethodName::ReadWrite));
        self.move_data(self.options.length_bytes)
    }

    /// Walks the source by SEEK_DATA and SEEK_HOLE (lseek(2)): data moves, holes are passed over.
    pub(super) fn move_around_holes(&mut self) -> Result<(), Error> {
        self.refuse_whole()?;
        if !self.options.tuning.make_holes && self.keep_whole()? {
            return Ok(());
        }
        let outcome = self.walk();
        let made = self.make_pending_hole();
        let rolled_back = |error: Error| {
            let in_flight_bytes = error.in_flight_bytes();
            error.after(self.moved_bytes, in_flight_bytes)
        };
        outcome.map_err(rolled_back).and(made)
    }

    fn walk(&mut self) -> Result<(), Error> {
        let goal = self.options.length_bytes;
        loop {
            let Some(at) = self.source_at() else { return Ok(()) };
            let left = goal.map_or(u64::MAX, |goal| goal - self.moved_bytes);
            if self.ended || left == 0 {
                return Ok(());
            }
            match self.seek_source(SeekFrom::Data(at)) {
                Ok(data) if data > at => self.leave_hole((data - at).min(left)),
                Ok(_) => {
                    let hole = self.seek_source(SeekFrom::Hole(at)).unwrap_or(u64::MAX);
                    self.move_data(Some(hole.saturating_sub(at).max(1).min(left)))?;
                    self.make_pending_hole()?;
                }
                // No data from here on: the rest of the file is one hole.
                Err(Errno::NXIO) => {
                    let size_bytes = sys::file::size_bytes(self.source.fd())
                        .map_err(|errno| self.failed(Call::Fstat, Side::Source, errno))?;
                    let rest = size_bytes.saturating_sub(at).min(left);
                    self.leave_hole(rest);
                    if rest == left {
                        return Ok(());
                    }
                    return self.move_data(goal.map(|_| left - rest));
                }
                Err(_) => return self.move_data(goal.map(|_| left)),
            }
        }
    }

    /// Passes over a hole. The target gets it only once data behind it has arrived, or the end is
    /// known: a method that is refused at the first data must have touched nothing (invariant 3).
    fn leave_hole(&mut self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        if let Some(tap) = &self.options.tuning.tap {
            tap.show_hole(bytes);
        }
        let start = self.pending_hole.map_or(self.moved_bytes, |hole| hole.start);
        self.hole_bytes += bytes;
        self.skip(bytes);
        self.pending_hole = Some(Hole { start, end: self.moved_bytes });
    }

    /// Makes the hole that was passed over last; takes it back if the move ended right behind it
    /// without having found the end of the source, or its goal.
    fn make_pending_hole(&mut self) -> Result<(), Error> {
        let (Some(hole), Some(base)) = (self.pending_hole.take(), self.target_base) else {
            return Ok(());
        };
        let at_goal = self.options.length_bytes == Some(self.moved_bytes);
        if self.moved_bytes == hole.end && !self.ended && !at_goal {
            self.moved_bytes = hole.start;
            self.hole_bytes -= hole.end - hole.start;
            return Ok(());
        }
        let at = base + hole.start;
        punch(&Port::new(&self.target, Some(at)), at, hole.end - hole.start)
            .map_err(|errno| self.failed(Call::Fallocate, Side::Target, errno))
    }
}

/// A stretch of the move, in bytes from its start.
#[derive(Clone, Copy)]
pub(super) struct Hole {
    start: u64,
    end: u64,
}
