//! Large files in pieces: each rank copies the pieces that are its own, and rank 0 gives the file its place.
//!
//! The pieces come together in a file of the ranks' state, whose name is a fingerprint of the path and of the source's size and times:
//! a source that changes is another file. A piece counts once the journal of its rank says so. Rank 0 places a file only if the
//! journals have all of its pieces, and else copies the file whole.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{self, FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

use super::journal::{self, Fingerprint, Journal};
use super::shard::Shard;
use crate::data;
use crate::error::Error;
use crate::events::Events;
use crate::file::Job;
use crate::metadata;
use crate::open;
use crate::options::{Make, Options, Reflink};
use crate::place::{Place, kind};

/// The beginning of the names of such files.
pub(super) const PREFIX: &str = "parts-";

/// Smaller files are one rank's.
const WORTH_DIVIDING_BYTES: u64 = 64 << 20;

/// The least of a piece, and the most pieces of a file.
const LEAST_PIECE_BYTES: u64 = 16 << 20;
const MOST_PIECES: u64 = 1024;

/// The pieces that ranks copy together.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) shard: Shard,
    /// The directory of state.
    dir: BorrowedFd<'a>,
    shown: &'a Path,
    journal: &'a Journal,
    /// The pieces that the journals of all ranks have; empty before the shares are done.
    done: HashSet<Fingerprint>,
}

/// One piece: its number, where it begins, and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    number: u64,
    pub(crate) at_bytes: u64,
    pub(crate) len_bytes: u64,
}

/// The pieces of a file of this size: whole MiB, but for the last one.
fn pieces(file_bytes: u64) -> impl Iterator<Item = Piece> {
    const MIB: u64 = 1 << 20;
    let len_bytes = file_bytes.div_ceil(MOST_PIECES).next_multiple_of(MIB).max(LEAST_PIECE_BYTES);
    (0..file_bytes.div_ceil(len_bytes)).map(move |number| {
        let at_bytes = number * len_bytes;
        Piece { number, at_bytes, len_bytes: len_bytes.min(file_bytes - at_bytes) }
    })
}

fn size_of(source: &Stat) -> u64 {
    u64::try_from(source.st_size).unwrap_or(0)
}

/// Is a file copied in pieces, if nothing is at the target? A name among several is linked, a clone shares blocks of whole files, and a
/// source is watched by one process.
pub(super) fn is_divided(options: &Options, source: &Stat) -> bool {
    options.data
        && options.make == Make::Copy
        && !options.dry_run
        && !options.stable
        && options.moving.reflink != Reflink::Always
        && !(options.preserve.links && source.st_nlink > 1)
        && kind(source) == FileType::RegularFile
        && size_of(source) >= WORTH_DIVIDING_BYTES
}

impl<'a> Parts<'a> {
    pub(super) fn new(
        shard: Shard,
        (dir, shown): (BorrowedFd<'a>, &'a Path),
        journal: &'a Journal,
        done: HashSet<Fingerprint>,
    ) -> Self {
        Self { shard, dir, shown, journal, done }
    }

    fn name(path: &Path, source: &Stat) -> PathBuf {
        PathBuf::from(format!("{PREFIX}{:032x}", journal::piece(path, source, u64::MAX)))
    }

    /// The bytes of the pieces that are this rank's.
    pub(super) fn own_bytes(&self, path: &Path, source: &Stat) -> u64 {
        self.own(path, source).map(|piece| piece.len_bytes).sum()
    }

    fn own(&self, path: &Path, source: &Stat) -> impl Iterator<Item = Piece> {
        let owns = move |piece: &Piece| self.shard.takes_piece(path, piece.number);
        pieces(size_of(source)).filter(owns)
    }

    /// Copies this rank's pieces of the file with this path below the tree's root.
    pub(crate) fn copy_own(
        &self,
        job: &Job<'_>,
        path: &Path,
        events: &mut dyn Events,
    ) -> Result<(), Error> {
        let name = Self::name(path, &job.source_stat);
        let place = Place::below(self.dir, &name, job.target.shown);
        let (source, source_stat) = open::source(job)?;
        for piece in self.own(path, &source_stat) {
            let done = journal::piece(path, &job.source_stat, piece.number);
            // Without the file, a line of the journal is about one that was removed.
            if self.journal.is_done(done) && place.stat(false).is_ok() {
                continue;
            }
            let target = self.open(job, &place)?;
            data::move_piece(job, (source.as_fd(), target.as_fd()), piece, events)?;
            if job.options.sync {
                retry_on_intr(|| fs::fdatasync(&target))
                    .map_err(|errno| Error::os(job.target.shown, "cannot sync", errno))?;
            }
            // A network file system tells of a failed write at the close.
            open::close(job, target)?;
            self.journal.add_done(done)?;
        }
        Ok(())
    }

    fn open(&self, job: &Job<'_>, place: &Place<'_>) -> Result<OwnedFd, Error> {
        let (bits, _) = metadata::creation_bits(&job.options.preserve, job.source_stat.st_mode);
        // The ranks write to one file, which a source without write permission makes unwritable for all but the first.
        let mode = Mode::from_bits_retain(bits | 0o200);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW;
        place
            .open(flags, mode)
            .map_err(|errno| Error::os(self.shown, "cannot make the file of pieces in", errno))
    }

    /// The file of all pieces, if the journals have every one of them.
    pub(crate) fn whole(&self, path: &Path, source: &Stat) -> Option<PathBuf> {
        let has = |piece: Piece| self.done.contains(&journal::piece(path, source, piece.number));
        let name = Self::name(path, source);
        let is_there = || Place::below(self.dir, &name, self.shown).stat(false).is_ok();
        (pieces(size_of(source)).all(has) && is_there()).then_some(name)
    }

    /// The place of such a file.
    pub(crate) fn place<'p>(&self, name: &'p Path, shown: &'p Path) -> Place<'p>
    where
        'a: 'p,
    {
        Place::below(self.dir, name, shown)
    }
}

/// Opens the whole file of pieces for the last steps of a copy; `None` where it is on another file system than the target.
pub(crate) fn adopt(pieces: &Place<'_>, target: &Place<'_>) -> Result<Option<OwnedFd>, Errno> {
    let fd = pieces.open(OFlags::RDWR | OFlags::NOFOLLOW, Mode::empty())?;
    let here = retry_on_intr(|| fs::fstat(&fd))?;
    let there = Place { name: target.parent(), ..*target }.stat(true)?;
    Ok((here.st_dev == there.st_dev).then_some(fd))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_file_once() {
        for bytes in
            [1, 16 << 20, (16 << 20) + 1, 64 << 20, (1 << 40) + 12_345, u64::from(u32::MAX)]
        {
            let mut at_bytes = 0;
            let mut count = 0;
            for piece in pieces(bytes) {
                assert_eq!((piece.at_bytes, piece.number), (at_bytes, count));
                assert!(piece.len_bytes > 0 && piece.at_bytes % (1 << 20) == 0);
                at_bytes += piece.len_bytes;
                count += 1;
            }
            assert_eq!(at_bytes, bytes);
            assert!(count <= MOST_PIECES, "{bytes}: {count}");
        }
    }
}
