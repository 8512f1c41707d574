//! Large files in pieces: each rank copies its own pieces, and rank 0 puts the file in place.
//!
//! The pieces come together in a file of the ranks' state. A symbolic link there names the file, and is named by a fingerprint of the
//! path and of the source's size and times: a source that changes is another file. The file's own name ends with a random number, and is
//! part of each line that a journal has of a piece. A line thus counts for the file that got the bytes, and for no later one. Rank 0
//! removes the link and then places the file, if the journals have all of its pieces, and else copies the file whole.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Stat};
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
    after: AfterShares,
}

/// What rank 0 knows once the shares are done.
#[derive(Debug, Default)]
pub(super) struct AfterShares {
    /// The pieces that the journals of all ranks have.
    pub(super) done: HashSet<Fingerprint>,
    /// Some rank has seen a file that is divided.
    pub(super) has_pieces: bool,
}

/// One piece: number, beginning and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    number: u64,
    pub(crate) at_bytes: u64,
    pub(crate) len_bytes: u64,
}

/// The pieces of a file of this size: whole MiB, but for the last one.
fn pieces(file_bytes: u64) -> impl Iterator<Item = Piece> {
    const MIB: u64 = 1 << 20;
    // Every rank reckons alone, so the division depends on the file's size and on nothing else.
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
        // A file with several names belongs to the rank that links them.
        && !(options.preserve.links && source.st_nlink > 1)
        && kind(source) == FileType::RegularFile
        && size_of(source) >= WORTH_DIVIDING_BYTES
}

impl<'a> Parts<'a> {
    pub(super) fn new(
        shard: Shard,
        (dir, shown): (BorrowedFd<'a>, &'a Path),
        journal: &'a Journal,
        after: AfterShares,
    ) -> Self {
        Self { shard, dir, shown, journal, after }
    }

    /// May a file be in no rank's share, because some saw a large file and others a small one?
    pub(super) fn may_miss_files(&self) -> bool {
        self.after.has_pieces
    }

    fn link(path: &Path, source: &Stat) -> PathBuf {
        PathBuf::from(format!("{PREFIX}{:032x}", journal::divided(path, source)))
    }

    /// The name of the file of pieces, which `link` has; `None` where there is no link, or the file is gone.
    fn named(&self, link: &Path) -> Result<Option<PathBuf>, Errno> {
        let name = match fs::readlinkat(self.dir, link, Vec::new()) {
            Ok(name) => PathBuf::from(OsStr::from_bytes(name.to_bytes())),
            Err(Errno::NOENT | Errno::INVAL) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        // Nobody else's link leads to a file outside the state.
        let is_own = name.as_os_str().as_bytes().starts_with(link.as_os_str().as_bytes())
            && name.components().count() == 1;
        match Place::below(self.dir, &name, self.shown).stat(false) {
            Ok(_) if is_own => Ok(Some(name)),
            Ok(_) | Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    fn unlink(&self, name: &Path) -> Result<(), Errno> {
        match retry_on_intr(|| fs::unlinkat(self.dir, name, AtFlags::empty())) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// The file of pieces of `job`, made if no rank has made one yet: first the file, then the link, so that a link without a file is about
    /// one that was removed, with all that the journals say of its pieces.
    fn named_or_made(&self, job: &Job<'_>, link: &Path) -> Result<PathBuf, Errno> {
        loop {
            if let Some(name) = self.named(link)? {
                return Ok(name);
            }
            let number = RandomState::new().hash_one(std::process::id());
            let name = PathBuf::from(format!("{}-{number:016x}", link.display()));
            // The file first, then the link to it: a link always names a file that is there.
            self.open(job, &name, OFlags::CREATE | OFlags::EXCL)?;
            // symlinkat(2) replaces nothing, also on network file systems: one rank wins, and the others take its file.
            match fs::symlinkat(&name, self.dir, link) {
                Ok(()) => return Ok(name),
                Err(errno) => {
                    self.unlink(&name)?;
                    if errno != Errno::EXIST {
                        return Err(errno);
                    }
                }
            }
            if self.named(link)?.is_none() {
                self.unlink(link)?;
            }
        }
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
        let cannot = |errno| Error::os(self.shown, "cannot make the file of pieces in", errno);
        // A rank without a piece makes the file, too: rank 0 learns from that that the file was divided.
        let name = self.named_or_made(job, &Self::link(path, job.source_stat)).map_err(cannot)?;
        let (source, source_stat) = open::source(job)?;
        for piece in self.own(path, &source_stat) {
            let done = journal::piece(&name, piece.number);
            if self.journal.is_done(done) {
                continue;
            }
            let target = self.open(job, &name, OFlags::empty()).map_err(cannot)?;
            data::move_piece(job, (source.as_fd(), target.as_fd()), piece, events)?;
            if job.options.sync {
                // Before the journal says so: a piece that is noted and not on storage would be missing after a crash.
                retry_on_intr(|| fs::fdatasync(&target))
                    .map_err(|errno| Error::os(job.target.shown, "cannot sync", errno))?;
            }
            // A network file system tells of a failed write at the close.
            open::close(job, target)?;
            self.journal.add_done(done)?;
        }
        Ok(())
    }

    fn open(&self, job: &Job<'_>, name: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let (bits, _) = metadata::creation_bits(&job.options.preserve, job.source_stat.st_mode);
        // The ranks write to one file, which a source without write permission makes unwritable for all but the first.
        let mode = Mode::from_bits_retain(bits | 0o200);
        let place = Place::below(self.dir, name, self.shown);
        place.open(OFlags::WRONLY | OFlags::NOFOLLOW | flags, mode)
    }

    /// The file of all pieces, if the journals have every one of them. The file is without a link from then on: it gets its place once.
    pub(crate) fn whole(&self, path: &Path, source: &Stat) -> Option<PathBuf> {
        let link = Self::link(path, source);
        let name = self.named(&link).ok()??;
        let done = &self.after.done;
        let has = |piece: Piece| done.contains(&journal::piece(&name, piece.number));
        let is_whole = pieces(size_of(source)).all(has);
        // The link goes first: a rank started again must not write to a file that is being placed.
        (is_whole && self.unlink(&link).is_ok()).then_some(name)
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
    // A rename between file systems is refused, and the file is then copied whole.
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
