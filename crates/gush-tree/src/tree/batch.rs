//! Names of entries, kept close together, and the listing of a part of a directory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{FileType, RawDir};
use rustix::io::{self, Errno};

use super::dir::Pair;
use super::partition::{DirEntry, Owner};
use crate::options::Dereference;

/// What one getdents64(2) may return: some 1,000 entries.
pub(super) const LISTED_BYTES: usize = 32 << 10;
/// A part ends with the call after which so many entries are listed.
const PART_ENTRIES: usize = 512;
/// In a name's length, which takes eight bits: the entry was listed as a regular file; the entry is
/// this walk's.
const IS_REGULAR: u16 = 1 << 15;
const IS_MINE: u16 = 1 << 14;
const FLAGS: u16 = IS_REGULAR | IS_MINE;

/// An entry as its directory lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listed<'a> {
    pub(crate) name: &'a OsStr,
    /// Something else may have the name by now.
    pub(crate) is_regular: bool,
    /// This walk is to copy the entry; otherwise a look at the entry decides.
    pub(crate) is_mine: bool,
}

/// Names taken in the order of adding. A name costs its bytes and two more.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    at: usize,
    left: usize,
}

impl Batch {
    /// One entry.
    pub(crate) fn of(listed: Listed<'_>) -> Self {
        let mut one = Self::default();
        one.add(listed);
        one
    }

    pub(crate) fn add(&mut self, listed: Listed<'_>) {
        let name = listed.name.as_bytes();
        // NAME_MAX is 255, and a record of getdents64(2) has two bytes for its own length.
        let length = u16::try_from(name.len()).unwrap_or(u16::MAX).min(!FLAGS);
        let kind = if listed.is_regular { IS_REGULAR } else { 0 };
        let owner = if listed.is_mine { IS_MINE } else { 0 };
        self.bytes.extend((length | kind | owner).to_ne_bytes());
        self.bytes.extend(&name[..usize::from(length)]);
        self.left += 1;
    }

    pub(crate) fn take(&mut self) -> Option<Listed<'_>> {
        let (length, flags) = self.head(self.at)?;
        let from = self.at + 2;
        self.at = from + length;
        self.left -= 1;
        let name = OsStr::from_bytes(&self.bytes[from..self.at]);
        let (is_regular, is_mine) = (flags & IS_REGULAR != 0, flags & IS_MINE != 0);
        Some(Listed { name, is_regular, is_mine })
    }

    /// The length of the name at an offset, and the flags.
    fn head(&self, at: usize) -> Option<(usize, u16)> {
        let [low, high, ..] = self.bytes[at..] else { return None };
        let head = u16::from_ne_bytes([low, high]);
        Some((usize::from(head & !FLAGS), head & FLAGS))
    }

    /// The same names, beginning with the one after the first `names`. None has been taken yet.
    pub(crate) fn begin_after(&mut self, names: usize) {
        let mut from = 0;
        for _ in 0..names {
            let Some((length, _)) = self.head(from) else { break };
            from += 2 + length;
        }
        // In place: names are kept in one piece of memory, and their order means nothing.
        self.bytes.rotate_left(from);
    }

    /// Takes the second half of what is left away, and the one in the middle: the caller has work
    /// of its own.
    pub(crate) fn split_off_half(&mut self) -> Self {
        let first = self.left / 2;
        let mut at = self.at;
        for _ in 0..first {
            let Some((length, _)) = self.head(at) else { break };
            at += 2 + length;
        }
        let half = Self { bytes: self.bytes.split_off(at), at: 0, left: self.left - first };
        self.left = first;
        half
    }

    pub(crate) fn len(&self) -> usize {
        self.left
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left == 0
    }
}

/// The entries of a part of a directory. Those of unknown type are among the files.
#[derive(Debug, Default)]
pub(crate) struct ListingPart {
    pub(crate) directories: Batch,
    pub(crate) files: Batch,
}

/// May an entry that is listed as of this kind be a directory to enter?
pub(crate) fn may_be_directory(kind: FileType, dereference: Dereference) -> bool {
    match kind {
        FileType::Directory | FileType::Unknown => true,
        FileType::Symlink => dereference == Dereference::Always,
        _ => false,
    }
}

/// How far the listing of a directory has come.
pub(crate) enum Listing {
    /// There may be more.
    More,
    /// All entries were listed.
    Done,
}

impl ListingPart {
    /// Lists from where the last part ended; all that is left if `to_the_end`. `listed` is a
    /// buffer. Entries that `owner` answers `Theirs` for are left out.
    pub(super) fn read(
        &mut self,
        pair: &Pair,
        listed: &mut Vec<u8>,
        to_the_end: bool,
        mut owner: impl FnMut(DirEntry<'_>) -> Option<Owner>,
    ) -> io::Result<Listing> {
        if !pair.source.is_readable {
            return Err(Errno::ACCESS);
        }
        listed.reserve(LISTED_BYTES);
        let mut entries = RawDir::new(pair.source(), listed.spare_capacity_mut());
        let mut number = 0;
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let (name, kind) = (OsStr::from_bytes(name), entry.file_type());
            let is_regular = kind == FileType::RegularFile;
            let owner = owner(DirEntry { name, kind, inode: entry.ino() });
            let listed = Listed { name, is_regular, is_mine: owner == Some(Owner::Mine) };
            match owner {
                // Counted all the same, so that parts of a listing have a bounded size.
                Some(Owner::Theirs) => {}
                _ if kind == FileType::Directory => self.directories.add(listed),
                _ => self.files.add(listed),
            }
            number += 1;
            // Only where the buffer is empty: entries inside would be lost, as the kernel does not
            // give them again.
            if !to_the_end && number >= PART_ENTRIES && entries.is_buffer_empty() {
                return Ok(Listing::More);
            }
        }
        Ok(Listing::Done)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn names_come_out_in_order_and_unchanged() {
        let mut batch = Batch::default();
        let long = vec![b'n'; 255];
        let names =
            [(&b"a"[..], true, false), (&b"\xff\xfe"[..], false, true), (&long[..], true, true)];
        let listed = names.map(|(name, is_regular, is_mine)| {
            let name = OsStr::from_bytes(name);
            Listed { name, is_regular, is_mine }
        });
        listed.iter().for_each(|&listed| batch.add(listed));
        assert_eq!(batch.len(), 3);
        for listed in listed {
            assert_eq!(batch.take(), Some(listed));
        }
        assert_eq!(batch.take(), None);
        assert!(batch.is_empty());
    }

    #[test]
    fn halves_have_all_names_once_also_when_some_are_taken() {
        for names in 0..9 {
            let mut batch = Batch::default();
            let listed: Vec<_> =
                (0..names).map(|number| OsString::from("n".repeat(1 + number))).collect();
            for name in &listed {
                batch.add(Listed { name, is_regular: true, is_mine: true });
            }
            let mut taken: Vec<_> =
                batch.take().map(|first| first.name.to_owned()).into_iter().collect();
            let mut half = batch.split_off_half();
            assert!(batch.len() <= half.len() && half.len() <= batch.len() + 1);
            for batch in [&mut batch, &mut half] {
                while let Some(Listed { name, is_regular, .. }) = batch.take() {
                    assert!(is_regular);
                    taken.push(name.to_owned());
                }
                assert!(batch.is_empty());
            }
            assert_eq!(taken, listed);
        }
    }

    #[test]
    fn names_are_all_taken_whichever_comes_first() {
        let names: Vec<String> = (0..10).map(|number| "n".repeat(1 + number)).collect();
        for first in [0, 2, 9] {
            let mut batch = Batch::default();
            for name in &names {
                batch.add(Listed { name: OsStr::new(name), is_regular: false, is_mine: true });
            }
            batch.begin_after(first);
            let taken = || batch.take().map(|listed| listed.name.to_str().unwrap().to_owned());
            let mut taken: Vec<String> = std::iter::from_fn(taken).collect();
            assert_eq!(taken[0], names[first]);
            taken.sort();
            assert_eq!(taken, names);
        }
        Batch::default().begin_after(1);
    }

    #[test]
    fn a_listing_shows_what_may_be_a_directory() {
        use FileType::{Directory, Fifo, RegularFile, Symlink, Unknown};
        for (dereference, links_count) in [(Dereference::Never, false), (Dereference::Always, true)]
        {
            let may_be = [RegularFile, Fifo, Symlink, Unknown, Directory]
                .map(|kind| may_be_directory(kind, dereference));
            assert_eq!(may_be, [false, false, links_count, true, true]);
        }
    }
}
