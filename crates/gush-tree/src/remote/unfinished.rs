//! A regular file of the target while its data arrives: under no name, a temporary one, or that of
//! a partial file, with which another copy goes on.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;

use gush::Unpoisoned;
use rustix::fs::{self, FileType, Mode};
use rustix::io::{Errno, retry_on_intr};

use super::comparing::refuse_irreplaceable;
use super::folder::Folder;
use super::metadata::EntryMetadata;
use super::partial::{self, Partial, partial_name};
use crate::atomic::{Resting, Staged};
use crate::data;
use crate::error::Error;
use crate::events::Events;
use crate::metadata::{self, Handle, Transfer};
use crate::open;
use crate::options::CopyOptions;
use crate::place::{Place, kind, stat_of};
use crate::tree::journal;

/// The permission bits of a file that gets others when it is whole.
const CLOSED: u32 = 0o600;

/// A file that gets its data, then its attributes, and its name last. Dropped before, it leaves
/// nothing but a partial file that can be resumed.
#[derive(Debug)]
pub struct UnfinishedFile {
    folder: Arc<Folder>,
    name: OsString,
    metadata: EntryMetadata,
    provisional_bits: u32,
    /// `None` once it has its name.
    file: Option<Unnamed>,
}

#[derive(Debug)]
enum Unnamed {
    Staged(Resting),
    Partial(Partial),
}

impl UnfinishedFile {
    /// Begins the file with this name.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn begin(
        folder: &Arc<Folder>,
        name: &OsStr,
        metadata: EntryMetadata,
        options: &CopyOptions,
    ) -> Result<Self, Error> {
        let (bits, provisional_bits) = metadata::creation_bits(&options.preserve, metadata.mode);
        let mut lacking = 0;
        let file = folder.with(name, |place| {
            if !folder.is_new() {
                let taken = folder.taken.lock().unpoisoned();
                if !taken.contains(&partial_name(name)) {
                    partial::remove_leftover(place);
                }
            }
            // Closed to others until the old file's permissions are on it.
            let first_bits = if has_old(folder, place, &metadata)? { CLOSED } else { bits };
            lacking = bits ^ first_bits;
            Staged::create(*place, Mode::from_bits_retain(first_bits))
                .map(Staged::rest)
                .map_err(|errno| open::cannot_replace(options, place, false, errno))
        })?;
        let (folder, name) = (Arc::clone(folder), name.to_owned());
        let provisional_bits = provisional_bits | lacking;
        let file = Some(Unnamed::Staged(file));
        Ok(Self { folder, name, metadata, provisional_bits, file })
    }

    /// About the memory that [resuming](Self::resume_or_begin) a file of this size takes.
    #[must_use]
    pub fn resuming_bytes(size_bytes: u64) -> usize {
        // A mark, and a count of what has arrived.
        const RANGE_BYTES: usize = 32;
        match partial::is_worth_resuming(size_bytes) {
            true => size_bytes.div_ceil(partial::range_bytes(size_bytes)) as usize * RANGE_BYTES,
            false => 0,
        }
    }

    /// Goes on with the file that an earlier copy has left unfinished, or begins it. `source` is
    /// what shows, besides size and modification time, that the source is the same as then: its
    /// device, inode and change time, say. A file of 4 MiB or less, or whose partial file's name is
    /// taken (`Folder::takes`), is begun as by [`begin`](Self::begin).
    ///
    /// # Errors
    /// When it cannot be made, another copy writes to it, or another file has its name,
    /// `.NAME.gush-partial`.
    pub fn resume_or_begin(
        folder: &Arc<Folder>,
        name: &OsStr,
        metadata: EntryMetadata,
        source: &[u8],
        options: &CopyOptions,
    ) -> Result<Self, Error> {
        let is_taken = folder.taken.lock().unpoisoned().contains(&partial_name(name));
        if is_taken || !partial::is_worth_resuming(metadata.size_bytes) {
            return Self::begin(folder, name, metadata, options);
        }
        let (bits, provisional_bits) = metadata::creation_bits(&options.preserve, metadata.mode);
        let (seconds, nanoseconds) = metadata.modified;
        let source = journal::fingerprint(&[
            b"partial",
            source,
            &metadata.size_bytes.to_le_bytes(),
            &seconds.to_le_bytes(),
            &nanoseconds.to_le_bytes(),
        ]);
        let partial = folder.with(name, |place| {
            has_old(folder, place, &metadata)?;
            Partial::open(place, source, metadata.size_bytes)
        })?;
        let (folder, name) = (Arc::clone(folder), name.to_owned());
        let provisional_bits = provisional_bits | (bits ^ CLOSED);
        let file = Some(Unnamed::Partial(partial));
        Ok(Self { folder, name, metadata, provisional_bits, file })
    }

    fn partial(&self) -> Option<&Partial> {
        match &self.file {
            Some(Unnamed::Partial(partial)) => Some(partial),
            _ => None,
        }
    }

    /// The path of the partial file that would be left, from which another copy goes on.
    #[must_use]
    pub fn shown_partial(&self) -> Option<PathBuf> {
        self.partial().map(|_| self.folder.shown_entry(&partial_name(&self.name)))
    }

    /// The parts of the file that no earlier copy has written, in order, and so far neither this
    /// one.
    #[must_use]
    pub fn missing_ranges(&self) -> Vec<Range<u64>> {
        match self.partial() {
            Some(partial) => partial.missing(),
            None => Some(0..self.metadata.size_bytes)
                .filter(|all| !all.is_empty())
                .into_iter()
                .collect(),
        }
    }

    /// Notes that a part of the file is written, or is a hole. Each byte counts once. A range of
    /// 256 KiB, from a multiple of that, is kept by a kill when all of it is noted; ranges are
    /// longer in a file of more than 256 GiB.
    pub fn has_arrived(&self, part: Range<u64>) {
        if let Some(partial) = self.partial() {
            partial.arrived(part);
        }
    }

    /// Writes what has arrived to the disk: another copy goes on with that after a power failure,
    /// too.
    ///
    /// # Errors
    /// When the disk does not take it.
    pub fn sync(&self) -> Result<(), Error> {
        match self.partial().map(Partial::sync) {
            Some(Err(error)) => Err(Error::io(&self.shown(), "cannot sync {}", error)),
            _ => Ok(()),
        }
    }

    /// Gives up a file whose bytes are wrong: no other copy goes on with it.
    pub fn discard(mut self) {
        if let Some(Unnamed::Partial(partial)) = self.file.take() {
            let _ = self.folder.with(&self.name, |place| {
                let _ = partial.discard(place);
                Ok(())
            });
        }
    }

    /// Where the data goes.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        match self.file.as_ref().expect("an unfinished file has its file until it is finished") {
            Unnamed::Staged(file) => file.as_fd(),
            Unnamed::Partial(partial) => partial.fd(),
        }
    }

    /// The path of the file, as the user wrote the target.
    #[must_use]
    pub fn shown(&self) -> PathBuf {
        self.folder.shown_entry(&self.name)
    }

    /// Ends the file with its size, which it lacks where it ends in a hole. A partial file gets its
    /// size when it is finished.
    ///
    /// # Errors
    /// When the file cannot be cut or extended.
    pub fn set_size(&self) -> Result<(), Error> {
        if self.partial().is_some() {
            return Ok(());
        }
        retry_on_intr(|| fs::ftruncate(self.fd(), self.metadata.size_bytes))
            .map_err(|errno| Error::os(&self.shown(), "failed to extend {}", errno))
    }

    /// Hashes the bytes as storage has them.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn digest(&self) -> Result<gush::Digest, Error> {
        data::digest_as_stored(
            self.fd(),
            self.partial().map(|_| self.metadata.size_bytes),
            &self.shown(),
        )
    }

    /// Gives the file its attributes and then its name, which what is no directory loses to it.
    /// What the options do not set is that of the regular file whose name it gets, unless that has
    /// other names which keep it. `false` if something required could not be set.
    ///
    /// # Errors
    /// When it cannot be completed; then the old file is unchanged.
    pub fn finish(mut self, options: &CopyOptions, events: &mut dyn Events) -> Result<bool, Error> {
        let (folder, name) = (Arc::clone(&self.folder), self.name.clone());
        folder.with(&name, |place| {
            let cannot = |errno| open::cannot_replace(options, place, false, errno);
            if let Some(Unnamed::Partial(partial)) =
                self.file.take_if(|file| matches!(file, Unnamed::Partial(_)))
            {
                let whole = partial.complete(*place).map_err(|errno| match errno {
                    Errno::STALE | Errno::NOENT => Error::refusal(
                        place.shown,
                        "cannot complete {}: its partial file was renamed, replaced or removed",
                    )
                    .hinting("copy it again"),
                    errno => cannot(errno),
                })?;
                self.file = Some(Unnamed::Staged(whole));
            }
            let old = if folder.is_new() { None } else { place.stat(false).ok() };
            let old = old.filter(|old| {
                let is_separate = options.preserve.links || options.promises_equality();
                kind(old) == FileType::RegularFile && !(is_separate && old.st_nlink > 1)
            });
            if let Some(old) = &old {
                metadata::inherit(self.fd(), place, old)?;
            }
            let stat = stat_of(self.fd(), place.shown)?;
            let complete = Transfer {
                provisional_bits: if old.is_some() { 0 } else { self.provisional_bits },
                ..Transfer::between(
                    options,
                    (&self.metadata, &self.metadata.stat(&options.preserve, &stat), place.shown),
                    (Handle::Open(self.fd()), &stat, place.shown),
                    old.is_none(),
                )
            }
            .apply(events);
            if let Some(Unnamed::Staged(file)) = self.file.take() {
                file.wake(*place).commit(true).map_err(cannot)?;
            }
            Ok(complete)
        })
    }
}

/// Is there a file to be replaced, of which the new one inherits? In a directory just made is none.
fn has_old(folder: &Folder, place: &Place<'_>, metadata: &EntryMetadata) -> Result<bool, Error> {
    if folder.is_new() {
        return Ok(false);
    }
    let Ok(there) = place.stat(false) else { return Ok(false) };
    refuse_irreplaceable(place, &there, metadata.kind()).map(|()| true)
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        if let Some(Unnamed::Staged(file)) = self.file.take() {
            let _ = self.folder.with(&self.name, |place| {
                drop(file.wake(*place));
                Ok(())
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::options::ModeRule;

    #[test]
    fn a_file_that_is_replaced_hands_on_what_the_copy_does_not_set() {
        let dir = tempfile::tempdir().unwrap();
        let [file, other] = ["file", "other"].map(|name| dir.path().join(name));
        let umask = metadata::umask();
        let mut options = CopyOptions::default();
        let mut modes = Vec::new();
        for (keeps_links, mode) in
            [(false, ModeRule::Umask), (true, ModeRule::Umask), (false, ModeRule::Keep)]
        {
            for path in [&file, &other] {
                let _ = std::fs::remove_file(path);
            }
            std::fs::write(&file, "old").unwrap();
            std::fs::set_permissions(&file, PermissionsExt::from_mode(0o604)).unwrap();
            std::fs::hard_link(&file, &other).unwrap();
            (options.preserve.links, options.preserve.mode) = (keeps_links, mode);
            let folder = Folder::base(dir.path()).unwrap();
            let metadata = EntryMetadata { mode: 0o100_750, ..EntryMetadata::default() };
            let unfinished =
                UnfinishedFile::begin(&folder, OsStr::new("file"), metadata, &options).unwrap();
            assert_eq!(fs::fstat(unfinished.fd()).unwrap().st_mode & 0o777, CLOSED);
            assert!(unfinished.finish(&options, &mut ()).unwrap());
            modes.push(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777);
            assert_eq!(std::fs::read(&other).unwrap(), b"old");
        }
        assert_eq!(modes, [0o604, 0o750 & !umask, 0o750]);
    }
}
