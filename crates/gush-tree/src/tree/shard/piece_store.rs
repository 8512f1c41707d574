//! Large files in pieces: the ranks copy a file's pieces together, and rank 0 puts the file in
//! place.
//!
//! The rank that owns a large file announces it in the ranks' state, and any rank copies pieces
//! that it claims (`claims.rs`, `piece_copier.rs`). The pieces come together in a file of the
//! state. A symbolic link there leads to this file, and is named by a fingerprint of the path and
//! of the source's size and times: a source that changes is another file. The name of the file of
//! pieces ends with a random number, and is part of each line that a journal has of a piece. A line
//! thus counts for the file that got the bytes, and for no later one. Rank 0 removes the link and
//! then places the file, if the journals have all of its pieces, and else copies the file whole.

use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

use super::claims::{self, Claims};
use super::division::Division;
use super::partition::Announced;
use crate::data;
use crate::error::Error;
use crate::events::Events;
use crate::job::Job;
use crate::metadata;
use crate::open;
use crate::options::{CopyOptions, Make, Reflink};
use crate::place::{Place, kind};
use crate::tree::journal::{self, Journal};

/// The beginning of the names of such files.
pub(super) const PREFIX: &str = "parts-";

/// Smaller files are one rank's.
const WORTH_DIVIDING_BYTES: u64 = 64 << 20;

/// The least of a piece, and the most pieces of a file.
const LEAST_PIECE_BYTES: u64 = 16 << 20;
const MOST_PIECES: u64 = 1024;

/// The pieces that ranks copy together.
#[derive(Debug)]
pub(super) struct PieceStore<'a> {
    pub(super) division: Division,
    /// The directory of state.
    dir: BorrowedFd<'a>,
    shown: &'a Path,
    journal: &'a Journal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) number: u64,
    pub(super) at_bytes: u64,
    pub(super) len_bytes: u64,
}

/// The pieces of a file of this size: whole MiB, but for the last one.
pub(super) fn pieces(file_bytes: u64) -> impl ExactSizeIterator<Item = Piece> {
    const MIB: u64 = 1 << 20;
    // Every rank reckons alone, so the division depends on the file's size and on nothing else.
    let len_bytes = file_bytes.div_ceil(MOST_PIECES).next_multiple_of(MIB).max(LEAST_PIECE_BYTES);
    (0..file_bytes.div_ceil(len_bytes) as usize).map(move |number| {
        let number = number as u64;
        let at_bytes = number * len_bytes;
        Piece { number, at_bytes, len_bytes: len_bytes.min(file_bytes - at_bytes) }
    })
}

pub(super) fn size_of(source: &Stat) -> u64 {
    u64::try_from(source.st_size).unwrap_or(0)
}

/// Do ranks with these options copy files in pieces? A clone shares blocks of whole files, a source
/// is watched by one process, and sendfile(2) takes no offset of the target.
pub(super) fn are_made(options: &CopyOptions) -> bool {
    options.data
        && options.make == Make::Copy
        && !options.dry_run
        && !options.stable
        && options.moving.reflink != Reflink::Always
        && data::takes_offsets(options)
}

/// Is a file copied in pieces, if nothing is at the target? A name among several is linked.
pub(super) fn is_divided(options: &CopyOptions, source: &Stat) -> bool {
    are_made(options)
        // A file with several names belongs to the rank that links them.
        && !(options.preserve.links && source.st_nlink > 1)
        && kind(source) == FileType::RegularFile
        && size_of(source) >= WORTH_DIVIDING_BYTES
}

impl<'a> PieceStore<'a> {
    pub(super) fn new(
        division: Division,
        dir: BorrowedFd<'a>,
        shown: &'a Path,
        journal: &'a Journal,
    ) -> Self {
        Self { division, dir, shown, journal }
    }

    pub(super) fn link(path: &Path, source: &Stat) -> PathBuf {
        PathBuf::from(format!("{PREFIX}{:032x}", journal::divided(path, source)))
    }

    /// The error of a state that cannot be read.
    pub(super) fn unreadable(&self, errno: Errno) -> Error {
        Error::os(self.shown, "cannot read {}", errno)
    }

    /// The table of the file of pieces with this name; `None` where there is none that is whole.
    fn claims(&self, name: &Path) -> Result<Option<Claims>, Errno> {
        let table = table_of(name);
        let opened = Claims::open(&self.place(&table, self.shown), |bytes| pieces(bytes).len());
        opened.map_err(|error| errno_of(&error))
    }

    /// The file of pieces that `link` leads to: its name and its table. `None` where there is no
    /// link, or one of the two is gone.
    pub(super) fn named(&self, link: &Path) -> Result<Option<(PathBuf, Claims)>, Errno> {
        let name = match fs::readlinkat(self.dir, link, Vec::new()) {
            Ok(name) => PathBuf::from(OsStr::from_bytes(name.to_bytes())),
            Err(Errno::NOENT | Errno::INVAL) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        // Nobody else's link leads to a file outside the state.
        let is_own = name.as_os_str().as_bytes().starts_with(link.as_os_str().as_bytes())
            && name.components().count() == 1;
        match self.place(&name, self.shown).stat(false) {
            Ok(_) if is_own => Ok(self.claims(&name)?.map(|claims| (name, claims))),
            Ok(_) | Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// The links to files of pieces, as far as they are in the state now.
    pub(super) fn links(&self) -> Result<Vec<PathBuf>, Errno> {
        let is_link = |name: &Path| {
            let rest = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
            rest.is_some_and(|rest| rest.len() == 32)
        };
        let mut names = names(self.dir)?;
        names.retain(|name| is_link(name));
        Ok(names)
    }

    /// The error of a piece that cannot be claimed.
    pub(super) fn unclaimable(&self, error: &io::Error) -> Error {
        Error::os(self.shown, "cannot claim a piece in {}", errno_of(error))
    }

    /// Removes the file of pieces with this name, its table, and the link that leads to them.
    pub(super) fn forget(&self, link: &Path, name: &Path) -> Result<(), Errno> {
        self.unlink(link)?;
        self.unlink(&table_of(name))?;
        self.unlink(name)
    }

    pub(super) fn unlink(&self, name: &Path) -> Result<(), Errno> {
        match retry_on_intr(|| fs::unlinkat(self.dir, name, AtFlags::empty())) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Announces the file of `job`, whose path is below the tree's root: the other ranks may copy
    /// pieces of it. Without effect where it was announced before.
    pub(super) fn announce(&self, job: &Job<'_>, path: &Path) -> Result<(), Error> {
        let cannot = |errno| Error::os(self.shown, "cannot announce a large file in {}", errno);
        let link = Self::link(path, job.source.stat);
        let file_bytes = size_of(job.source.stat);
        // Ends: a rank that makes the link in between has announced the file.
        while self.named(&link).map_err(cannot)?.is_none() {
            // What a link without a file or a table led to was removed, with all that the journals
            // say of its pieces.
            self.unlink(&link).map_err(cannot)?;
            let number = RandomState::new().hash_one(std::process::id());
            let name = PathBuf::from(format!("{}-{number:016x}", link.display()));
            let made = self.open(job, &name, OFlags::CREATE | OFlags::EXCL).map_err(cannot)?;
            // Its full size from the beginning: a rank that ends a piece with a hole would set the
            // size, and cut off what another rank has written after it meanwhile.
            retry_on_intr(|| fs::ftruncate(&made, file_bytes)).map_err(cannot)?;
            let table = table_of(&name);
            let place = self.place(&table, self.shown);
            let made = Claims::create(&place, path, file_bytes, pieces(file_bytes).len());
            made.map_err(|error| {
                Error::io(self.shown, "cannot announce a large file in {}", error)
            })?;
            // Last, so that the others find the file and its table whole. symlinkat(2) replaces
            // nothing, also on network file systems.
            match fs::symlinkat(&name, self.dir, &link) {
                Ok(()) => break,
                Err(errno) => {
                    self.unlink(&name).and_then(|()| self.unlink(&table)).map_err(cannot)?;
                    if errno != Errno::EXIST {
                        return Err(cannot(errno));
                    }
                }
            }
        }
        Ok(())
    }

    /// The files that any rank has announced, by their tables: rank 0 removes a link before the
    /// file has its place.
    pub(super) fn announced(&self) -> Result<Announced, Errno> {
        let mut announced = Announced::default();
        for (_, path) in self.tables()? {
            announced.add(&path);
        }
        Ok(announced)
    }

    /// The names of the files of pieces that have a whole table, each with the path of its file.
    pub(super) fn tables(&self) -> Result<Vec<(PathBuf, PathBuf)>, Errno> {
        let mut tables = Vec::new();
        for table in names(self.dir)? {
            let name = table.to_str().and_then(|name| name.strip_suffix(claims::SUFFIX));
            if let Some(name) = name.filter(|name| name.starts_with(PREFIX))
                && let Some(claims) = self.claims(Path::new(name))?
            {
                tables.push((name.into(), claims.path));
            }
        }
        Ok(tables)
    }

    /// Was this piece of the file of pieces with this name copied before this rank was started
    /// again?
    pub(super) fn has_piece(&self, name: &Path, number: u64) -> bool {
        self.journal.is_done(journal::piece(name, number))
    }

    /// Copies one piece of the source to the file of pieces with this name, and notes it.
    pub(super) fn copy_piece(
        &self,
        job: &Job<'_>,
        source: BorrowedFd<'_>,
        name: &Path,
        piece: Piece,
        events: &mut dyn Events,
    ) -> Result<(), Error> {
        let cannot = |errno| Error::os(self.shown, "cannot open the file of pieces in {}", errno);
        let target = self.open(job, name, OFlags::empty()).map_err(cannot)?;
        let range = piece.at_bytes..piece.at_bytes + piece.len_bytes;
        data::move_range(job, source, target.as_fd(), range, events)?;
        if job.options().sync {
            // Before the journal says so: a piece that is noted and not on storage would be missing
            // after a crash.
            retry_on_intr(|| fs::fdatasync(&target))
                .map_err(|errno| Error::os(job.target.place.shown, "cannot sync {}", errno))?;
        }
        // A network file system reports a failed write at the close.
        open::close(job, target)?;
        self.journal.add_done(journal::piece(name, piece.number))
    }

    fn open(&self, job: &Job<'_>, name: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let (bits, _) = metadata::creation_bits(&job.options().preserve, job.source.stat.st_mode);
        // The ranks write to one file, which a source without write permission makes unwritable for
        // all but the first.
        let mode = Mode::from_bits_retain(bits | 0o200);
        let place = self.place(name, self.shown);
        place.open(OFlags::WRONLY | OFlags::NOFOLLOW | flags, mode)
    }

    /// A name in the directory of state.
    pub(super) fn place<'p>(&'p self, name: &'p Path, shown: &'p Path) -> Place<'p> {
        Place::below(self.dir, name, shown)
    }
}

pub(super) fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

fn table_of(name: &Path) -> PathBuf {
    let mut table = name.as_os_str().to_owned();
    table.push(claims::SUFFIX);
    table.into()
}

/// The link that leads to the file of pieces with this name.
pub(super) fn link_to(name: &Path) -> PathBuf {
    let bytes = name.as_os_str().as_bytes();
    PathBuf::from(OsStr::from_bytes(&bytes[..bytes.len().min(PREFIX.len() + 32)]))
}

/// The names in the directory of state.
pub(super) fn names(dir: BorrowedFd<'_>) -> Result<Vec<PathBuf>, Errno> {
    let entries = Dir::read_from(dir)?.map(|entry| {
        entry.map(|entry| PathBuf::from(OsStr::from_bytes(entry.file_name().to_bytes())))
    });
    entries.collect()
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
