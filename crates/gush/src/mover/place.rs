//! Where a move stands: offsets, and the descriptors' own positions.

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::job::Job;
use crate::error::Error;
use crate::fault::Fault;
use crate::method::{Pair, Traits};
use crate::port::Side;
use crate::sys::{self, Call};

impl<'a> Job<'a> {
    /// The pair as it stands now, with offsets named where the method or the user names them.
    pub(super) fn pair(&mut self, traits: Traits, goal: Option<u64>) -> Result<Pair<'a>, Error> {
        let source_named = self.options.source_offset.is_some() || traits.needs_source_offset;
        // Holes are made at offsets.
        let target_named = self.options.target_offset.is_some()
            || traits.needs_target_offset
            || self.options.tuning.make_holes;
        if !(source_named && target_named) {
            self.catch_up_positions()?;
        }
        Ok(Pair {
            source: self.source,
            target: self.target,
            source_at: self.source_at().filter(|_| source_named),
            target_at: self.target_at().filter(|_| target_named),
            length_bytes: goal.map(|goal| goal - self.moved_bytes),
        })
    }

    pub(super) fn source_at(&self) -> Option<u64> {
        self.source_base.map(|base| base + self.moved_bytes)
    }

    pub(super) fn target_at(&self) -> Option<u64> {
        self.target_base.map(|base| base + self.moved_bytes)
    }

    /// The pair as it stands now, with both offsets named.
    pub(super) fn pair_with_offsets(&mut self, goal: Option<u64>) -> Result<Pair<'a>, Error> {
        let both =
            Traits { needs_source_offset: true, needs_target_offset: true, ..Traits::default() };
        self.pair(both, goal)
    }

    /// Marks bytes as dealt with that no descriptor's own position knows of.
    pub(super) fn skip(&mut self, bytes: u64) {
        self.moved_bytes += bytes;
        self.positions_lag = true;
    }

    /// Brings the descriptors' own positions, where they are what the user gave, to where we stand.
    pub(super) fn catch_up_positions(&mut self) -> Result<(), Error> {
        if !self.positions_lag {
            return Ok(());
        }
        let own = [
            (
                self.source.fd(),
                self.source_at().filter(|_| self.options.source_offset.is_none()),
                Side::Source,
            ),
            (
                self.target.fd(),
                self.target_at().filter(|_| self.options.target_offset.is_none()),
                Side::Target,
            ),
        ];
        for (fd, at, side) in own {
            let Some(at) = at else { continue };
            sys::file::seek(fd, SeekFrom::Start(at)).map_err(|errno| {
                Error::failed(Fault { call: Call::Lseek, side, errno }).after(self.moved_bytes, 0)
            })?;
        }
        self.positions_lag = false;
        Ok(())
    }

    /// Asks where data or a hole begins; that moves the descriptor's own position.
    pub(super) fn seek_source(&mut self, to: SeekFrom) -> Result<u64, Errno> {
        self.positions_lag = true;
        self.source_disturbed = self.options.source_offset.is_some();
        sys::file::seek(self.source.fd(), to)
    }
}
