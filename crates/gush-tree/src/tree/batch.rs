//! Names of entries, kept close together, and the listing of a part of a directory.

use std::ffi::OsStr;
use std::mem;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{FileType, RawDir};
use rustix::io::{self, Errno};

use super::dir::Pair;

/// What one getdents64(2) may return: some 1,000 entries.
const LISTED_BYTES: usize = 32 << 10;
/// A part ends with the call behind which so many entries are listed. A directory with fewer has one part.
const PART_ENTRIES: usize = 512;
/// Files of one task: few enough that threads end together, and enough that the queue's lock costs nothing.
const BATCH_FILES: usize = 64;

/// Names taken in the order of adding. A name costs its bytes and two more.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    at: usize,
    left: usize,
}

impl Batch {
    pub(crate) fn add(&mut self, name: &[u8]) {
        // A record of getdents64(2) has two bytes for its own length, so every name is shorter.
        let length = u16::try_from(name.len()).unwrap_or(u16::MAX);
        self.bytes.extend(length.to_ne_bytes());
        self.bytes.extend(&name[..usize::from(length)]);
        self.left += 1;
    }

    pub(crate) fn take(&mut self) -> Option<&OsStr> {
        let [low, high, rest @ ..] = &self.bytes[self.at..] else { return None };
        let length = usize::from(u16::from_ne_bytes([*low, *high]));
        self.at += 2 + length;
        self.left -= 1;
        Some(OsStr::from_bytes(&rest[..length]))
    }

    pub(crate) fn len(&self) -> usize {
        self.left
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left == 0
    }
}

/// The entries of a part of a directory. What the directory does not tell the type of is among the files.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) directories: Batch,
    /// Full batches of files, for other threads.
    pub(crate) batches: Vec<Batch>,
    pub(crate) files: Batch,
}

/// Is there another part?
pub(crate) enum End {
    More,
    Done,
}

impl Part {
    /// Lists where the last part ended; all that is left if `to_the_end`. `listed` is a buffer.
    pub(crate) fn read(
        &mut self,
        pair: &Pair,
        listed: &mut Vec<u8>,
        in_batches: bool,
        to_the_end: bool,
    ) -> io::Result<End> {
        if !pair.is_readable {
            return Err(Errno::ACCESS);
        }
        listed.reserve(LISTED_BYTES);
        let mut entries = RawDir::new(pair.source(), listed.spare_capacity_mut());
        let mut number = 0;
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            match entry.file_type() {
                _ if matches!(name, b"." | b"..") => continue,
                FileType::Directory => self.directories.add(name),
                _ => self.files.add(name),
            }
            number += 1;
            if in_batches && self.files.len() == BATCH_FILES {
                self.batches.push(mem::take(&mut self.files));
            }
            if !to_the_end && number >= PART_ENTRIES && entries.is_buffer_empty() {
                return Ok(End::More);
            }
        }
        Ok(End::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_out_in_order_and_unchanged() {
        let mut batch = Batch::default();
        let long = vec![b'n'; 255];
        let names = [&b"a"[..], b"\xff\xfe", &long];
        for name in names {
            batch.add(name);
        }
        assert_eq!(batch.len(), 3);
        for name in names {
            assert_eq!(batch.take(), Some(OsStr::from_bytes(name)));
        }
        assert_eq!(batch.take(), None);
        assert!(batch.is_empty());
    }
}
