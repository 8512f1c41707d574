//! Moving the data of a sparse file, and leaving its holes as holes.

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::job::Job;
use super::{Choice, Holes};
use crate::error::Error;
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
        Ok(false)
    }

    /// Reads everything, and leaves zero blocks out; a method that was named moves them as data.
    pub(super) fn move_and_look_for_holes(&mut self) -> Result<(), Error> {
        if self.options.holes == Holes::Keep {
            if self.keep_whole()? {
                return Ok(());
            }
            if let Choice::Only(name) = self.options.choice
                && name != MethodName::ReadWrite
            {
                return self.move_data(self.options.length_bytes);
            }
        }
        self.options.tuning.make_holes = true;
        self.move_data(self.options.length_bytes)
    }

    /// Walks the source by SEEK_DATA and SEEK_HOLE (lseek(2)): data moves, holes are passed over.
    pub(super) fn move_around_holes(&mut self) -> Result<(), Error> {
        if self.keep_whole()? {
            return Ok(());
        }
        let goal = self.options.length_bytes;
        loop {
            let Some(at) = self.source_at() else { return Ok(()) };
            let left = goal.map_or(u64::MAX, |goal| goal - self.moved_bytes);
            if self.ended || left == 0 {
                return Ok(());
            }
            match self.seek_source(SeekFrom::Data(at)) {
                Ok(data) if data > at => self.leave_hole((data - at).min(left))?,
                Ok(_) => {
                    let hole = self.seek_source(SeekFrom::Hole(at)).unwrap_or(u64::MAX);
                    self.move_data(Some(hole.saturating_sub(at).max(1).min(left)))?;
                }
                // No data from here on: the rest of the file is one hole.
                Err(Errno::NXIO) => {
                    let size = sys::file::fstat(self.source.fd())
                        .map_err(|errno| self.failed(Call::Fstat, Side::Source, errno))?
                        .st_size;
                    let rest = u64::try_from(size).unwrap_or(0).saturating_sub(at).min(left);
                    self.leave_hole(rest)?;
                    return if rest == left {
                        Ok(())
                    } else {
                        self.move_data(goal.map(|_| left - rest))
                    };
                }
                Err(_) => return self.move_data(goal.map(|_| left)),
            }
        }
    }

    fn leave_hole(&mut self, bytes: u64) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        if let Some(at) = self.target_at() {
            let target = Port::new(&self.target, Some(at));
            punch(&target, at, bytes)
                .map_err(|errno| self.failed(Call::Fallocate, Side::Target, errno))?;
        }
        if let Some(tap) = &self.options.tuning.tap {
            tap.show_hole(bytes);
        }
        self.hole_bytes += bytes;
        self.skip(bytes);
        Ok(())
    }
}
