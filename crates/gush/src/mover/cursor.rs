//! The state of a move: bytes dealt with, offsets, and the descriptors' own positions.

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::ends::Ends;
use super::request::Request;
use crate::error::Error;
use crate::fault::Fault;
use crate::method::{Pair, Traits};
use crate::port::Side;
use crate::sys::{self, Call};

/// Where one side began.
#[derive(Clone, Copy)]
struct Origin {
    /// The offset in bytes, where the side has offsets.
    base: Option<u64>,
    /// The user gave the offset; the descriptor's own position is not to move.
    is_named: bool,
}

/// How far a move has come.
///
/// Everything before the cursor has arrived or is a hole; no byte after it counts.
pub(super) struct Cursor {
    source: Origin,
    target: Origin,
    pub(super) moved_bytes: u64,
    /// Of the bytes moved, those that are a hole of the target.
    pub(super) hole_bytes: u64,
    /// The end of the source was seen: a `read` answered 0.
    pub(super) ended: bool,
    /// The descriptors' own positions are not where the cursor is.
    pub(super) positions_lag: bool,
    /// The source's own position was moved by asking for holes, though an offset was given.
    source_disturbed: bool,
    /// As many bytes are asked for.
    length_bytes: Option<u64>,
}

impl Cursor {
    /// At the beginning of a move.
    ///
    /// # Errors
    /// If an offset was given for a descriptor without, or one beyond the kernel's largest.
    pub(super) fn of(request: &Request<'_>, ends: &Ends<'_>) -> Result<Self, Error> {
        let origin =
            |offset: Option<u64>, has_offsets: bool, position: Option<u64>, side| match offset {
                Some(_) if !has_offsets => Err(Error::no_offset(side)),
                // The kernel's offsets are signed. Smaller ones leave room for any count of bytes.
                Some(offset) if i64::try_from(offset).is_err() => {
                    Err(Error::failed(Fault { call: Call::Lseek, side, errno: Errno::INVAL }))
                }
                Some(_) => Ok(Origin { base: offset, is_named: true }),
                // A position that cannot be set is no base: the descriptor keeps count.
                None => Ok(Origin { base: position.filter(|_| has_offsets), is_named: false }),
            };
        let Ends { source, target } = ends;
        let (from, to) = (request.source_offset, request.target_offset);
        Ok(Self {
            source: origin(from, source.has_offsets(), source.position(), Side::Source)?,
            target: origin(to, target.takes_offsets(), target.position(), Side::Target)?,
            moved_bytes: 0,
            hole_bytes: 0,
            ended: false,
            positions_lag: false,
            source_disturbed: false,
            length_bytes: request.length_bytes,
        })
    }

    /// No more than so many bytes are to move.
    pub(super) fn limit(&mut self, length_bytes: u64) {
        self.length_bytes = Some(length_bytes);
    }

    pub(super) fn length_bytes(&self) -> Option<u64> {
        self.length_bytes
    }

    /// Where each side began, if the side has offsets.
    pub(super) fn bases(&self) -> (Option<u64>, Option<u64>) {
        (self.source.base, self.target.base)
    }

    pub(super) fn source_at(&self) -> Option<u64> {
        self.source.base.map(|base| base + self.moved_bytes)
    }

    pub(super) fn target_at(&self) -> Option<u64> {
        self.target.base.map(|base| base + self.moved_bytes)
    }

    /// How many bytes are to be expected from the beginning on, if the source or the user says.
    pub(super) fn expected_bytes(&self, ends: &Ends<'_>) -> Option<u64> {
        let in_file = self.source.base.map(|base| ends.source.size_bytes().saturating_sub(base));
        match (in_file, self.length_bytes) {
            // A length may go beyond the file: only what is there can be expected.
            (Some(file), Some(length)) => Some(file.min(length)),
            (file, length) => file.or(length),
        }
    }

    /// Bytes between here and the goal, by the source's size.
    pub(super) fn known_left_bytes(&self, ends: &Ends<'_>, goal: Option<u64>) -> u64 {
        let expected = self.expected_bytes(ends).unwrap_or(0);
        goal.map_or(expected, |goal| goal.min(expected)).saturating_sub(self.moved_bytes)
    }

    /// Is there nothing left to do before the goal?
    pub(super) fn is_at(&self, goal: Option<u64>) -> bool {
        self.ended || goal.is_some_and(|goal| self.moved_bytes >= goal)
    }

    /// Marks bytes as dealt with that no descriptor's own position knows of.
    pub(super) fn skip(&mut self, bytes: u64) {
        self.moved_bytes += bytes;
        self.positions_lag = true;
    }

    /// Goes back to where the move stood before: bytes after that count as not moved.
    pub(super) fn go_back(&mut self, moved_bytes: u64) {
        self.moved_bytes = moved_bytes;
        // The end may have been met within the piece that is moved once more.
        self.ended = false;
        self.positions_lag = true;
    }

    /// Goes back by so many bytes of a hole that could not be made.
    pub(super) fn go_back_by(&mut self, bytes: u64) {
        let bytes = bytes.min(self.moved_bytes);
        self.hole_bytes = self.hole_bytes.saturating_sub(bytes);
        self.go_back(self.moved_bytes - bytes);
    }

    /// The rest up to the goal, with offsets where the method or the user names them.
    ///
    /// # Errors
    /// That of lseek(2), where the descriptors' own positions had to follow.
    pub(super) fn pair<'a>(
        &mut self,
        ends: &Ends<'a>,
        traits: Traits,
        makes_holes: bool,
        goal: Option<u64>,
    ) -> Result<Pair<'a>, Error> {
        // Odd pieces of a file with O_DIRECT go through another description with its own position.
        let source_named = self.source.is_named
            || traits.needs_source_offset
            || self.source.base.is_some() && ends.source.is_direct();
        // Holes are made at offsets.
        let target_named = self.target.is_named
            || traits.needs_target_offset
            || makes_holes
            || self.target.base.is_some()
                && ends.target.is_direct()
                && !traits.needs_own_target_position;
        // A descriptor's own position must be where the move is before a call uses it.
        if !(source_named && target_named) {
            self.catch_up(ends)?;
        }
        Ok(Pair {
            source: ends.source,
            target: ends.target,
            source_at: self.source_at().filter(|_| source_named),
            target_at: self.target_at().filter(|_| target_named),
            length_bytes: goal.map(|goal| goal.saturating_sub(self.moved_bytes)),
            expected_bytes: self.source.base.map(|_| self.known_left_bytes(ends, goal)),
        })
    }

    /// The pair with both offsets named.
    pub(super) fn pair_at_offsets<'a>(
        &mut self,
        ends: &Ends<'a>,
        goal: Option<u64>,
    ) -> Result<Pair<'a>, Error> {
        let both =
            Traits { needs_source_offset: true, needs_target_offset: true, ..Traits::default() };
        self.pair(ends, both, true, goal)
    }

    /// Brings the descriptors' own positions, where the user gave no offset, to the cursor.
    ///
    /// # Errors
    /// That of lseek(2).
    pub(super) fn catch_up(&mut self, ends: &Ends<'_>) -> Result<(), Error> {
        if !self.positions_lag {
            return Ok(());
        }
        for (side, origin) in [(Side::Source, self.source), (Side::Target, self.target)] {
            // A named offset promises that the position stays where the caller left it.
            let (false, Some(base)) = (origin.is_named, origin.base) else { continue };
            sys::file::seek(ends.fd(side), SeekFrom::Start(base + self.moved_bytes))
                .map_err(|errno| self.failed(Call::Lseek, side, errno))?;
        }
        self.positions_lag = false;
        Ok(())
    }

    /// The position of a source whose offset was given is put back.
    ///
    /// # Errors
    /// That of lseek(2).
    pub(super) fn put_back_source(&mut self, ends: &Ends<'_>) -> Result<(), Error> {
        if let (true, Some(position)) = (self.source_disturbed, ends.source.position()) {
            sys::file::seek(ends.source.fd(), SeekFrom::Start(position))
                .map_err(|errno| self.failed(Call::Lseek, Side::Source, errno))?;
        }
        Ok(())
    }

    /// Asks where data or a hole begins; that moves the source's own position.
    pub(super) fn seek_source(&mut self, ends: &Ends<'_>, to: SeekFrom) -> Result<u64, Errno> {
        self.positions_lag = true;
        // SEEK_DATA moves the position, also of a source whose position is none of our business.
        self.source_disturbed = self.source.is_named;
        sys::file::seek(ends.source.fd(), to)
    }

    /// The error of a call, after the bytes that have arrived.
    pub(super) fn failed(&self, call: Call, side: Side, errno: Errno) -> Error {
        self.after(Fault { call, side, errno }, 0)
    }

    /// The error of a call that leaves so many bytes undelivered.
    pub(super) fn after(&self, fault: Fault, in_flight_bytes: u64) -> Error {
        self.halted(Error::failed(fault), in_flight_bytes)
    }

    /// An error with its counts. A source with offsets still has the bytes in flight.
    pub(super) fn halted(&self, error: Error, in_flight_bytes: u64) -> Error {
        error.after(self.moved_bytes, self.lost(in_flight_bytes))
    }

    /// The error after the bytes that have arrived by now.
    pub(super) fn recounted(&self, error: Error) -> Error {
        let in_flight_bytes = error.in_flight_bytes();
        error.after(self.moved_bytes, in_flight_bytes)
    }

    /// Of bytes taken and not delivered, those that the source has no more.
    pub(super) fn lost(&self, in_flight_bytes: u64) -> u64 {
        // A file still has the bytes that were taken and not delivered; a stream has lost them.
        if self.source_at().is_some() { 0 } else { in_flight_bytes }
    }
}
