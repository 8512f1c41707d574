//! The first copies of files with several names, in few bytes each, since a tree may have millions
//! of them.
//!
//! A record has some fifteen bytes besides its name. Records follow each other in pieces of memory
//! of one size, so that room for more moves none of them, and a table finds them by device and
//! inode of the source. A directory is a record, too, once for all first copies in it: the
//! directory's own value with its descriptors goes when the directory is complete.

use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZero;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::job::Target;
use crate::place::{FileId, Place};
use crate::tree::Dir;
use crate::tree::dir::Pair;
use crate::tree::held::Step;

const PIECE_BYTES: usize = 64 << 10;
/// A slot of the table: the place of a record, in fewer bytes than a `u64`. No memory has room for
/// 2^40 bytes of records.
type Slot = [u8; 5];
const FREE: Slot = [0; 5];
const FEWEST_SLOTS: usize = 64;

/// Where a record is. A directory's is before those of all that is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RecordAt(NonZero<u64>);

/// One first copy, or the directory of some.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record<'r> {
    /// The copy.
    pub(crate) file: FileId,
    /// Of a copy: it is itself a symbolic link. Of a directory: a symbolic link led there.
    pub(crate) is_link: bool,
    /// The directory in a tree; `None` is the directory that the operands are copied to.
    pub(crate) above: Option<RecordAt>,
    pub(crate) name: &'r Path,
    /// The name as the user wrote it, where no directory is above.
    shown: &'r Path,
}

#[derive(Debug, Default)]
pub(crate) struct FirstCopies {
    pieces: Vec<Vec<u8>>,
    /// By the hash of the source, with linear probing.
    slots: Vec<Slot>,
    copies: usize,
    /// Records name a device by its number here.
    devices: Vec<u64>,
    /// Keyed at random: a file system of somebody else chooses the inodes.
    hasher: RandomState,
}

impl FirstCopies {
    /// Adds the first copy of a source.
    pub(crate) fn add(&mut self, source: FileId, target: Target<'_>, file: FileId, is_link: bool) {
        let Place { name, shown, .. } = target.place;
        let above = target.dir.and_then(|dir| self.directory(dir, shown));
        let mut bytes = Vec::new();
        self.put_file(source, &mut bytes);
        self.put(&Record { file, is_link, above, name, shown }, &mut bytes);
        let at = self.keep(&bytes);
        if (self.copies + 1) * 4 > self.slots.len() * 3 {
            self.double();
        }
        self.enter(source, at);
        self.copies += 1;
    }

    /// The first copy of a source.
    pub(crate) fn get(&self, source: FileId) -> Option<RecordAt> {
        let mut slot = self.first_slot(source)?;
        // Ends: a quarter of the slots is free.
        while let Some(at) = record_at(self.slots[slot]) {
            let (known, copy) = self.copy(at);
            if known == source {
                return Some(copy);
            }
            slot = (slot + 1) % self.slots.len();
        }
        None
    }

    pub(crate) fn record(&self, at: RecordAt) -> Record<'_> {
        let mut bytes = self.bytes(at);
        let (file, word) = (self.take_file(&mut bytes), take_number(&mut bytes));
        let above = NonZero::new(word >> 1).map(RecordAt);
        let name = take_path(&mut bytes);
        let shown = if above.is_none() { take_path(&mut bytes) } else { name };
        Record { file, is_link: word & 1 == 1, above, name, shown }
    }

    /// The name of a copy or directory as the user wrote it.
    pub(crate) fn shown(&self, at: RecordAt) -> PathBuf {
        let mut record = self.record(at);
        let mut below = Vec::new();
        while let Some(above) = record.above {
            below.push(record.name);
            record = self.record(above);
        }
        let mut shown = record.shown.to_path_buf();
        shown.extend(below.into_iter().rev());
        shown
    }

    /// The way to the directory `to`: the nearest directory above, or this one, that is above
    /// `from` as well and holds its descriptors, and the steps down from there, the last one first.
    pub(crate) fn way(
        &self,
        mut to: Option<RecordAt>,
        mut from: Option<&Arc<Dir>>,
    ) -> (Option<Arc<Pair>>, Vec<Step>) {
        let mut steps = Vec::new();
        while let Some(at) = to {
            // Up to the first one recorded no later: none below can be above `at`.
            while let Some(dir) = from
                && dir.recorded.get().is_none_or(|&recorded| recorded > at)
            {
                from = dir.above.as_ref();
            }
            if let Some(dir) = from
                && dir.recorded.get() == Some(&at)
                && let Some(pair) = dir.if_held()
            {
                return (Some(pair), steps);
            }
            let Record { file, is_link, above, name, .. } = self.record(at);
            steps.push(Step { name: name.as_os_str().into(), follow: is_link, expected: file });
            to = above;
        }
        (None, steps)
    }

    /// The record of a directory, and of those above. `shown` is the name of an entry, as the user
    /// wrote it.
    fn directory(&mut self, dir: &Arc<Dir>, shown: &Path) -> Option<RecordAt> {
        let (mut unknown, mut above, mut next) = (Vec::new(), None, Some(dir));
        while let Some(dir) = next {
            above = dir.recorded.get().copied();
            if above.is_some() {
                break;
            }
            unknown.push(dir);
            next = dir.above.as_ref();
        }
        let names = unknown.len();
        for (depth, dir) in unknown.into_iter().rev().enumerate() {
            let shown = shown.ancestors().nth(names - depth).unwrap_or(shown);
            let (file, is_link) = (FileId::of(&dir.stat), dir.is_link);
            let mut bytes = Vec::new();
            self.put(
                &Record { file, is_link, above, name: Path::new(&dir.name), shown },
                &mut bytes,
            );
            above = Some(*dir.recorded.get_or_init(|| self.keep(&bytes)));
        }
        above
    }

    fn put(&mut self, record: &Record<'_>, bytes: &mut Vec<u8>) {
        let Record { file, is_link, above, name, shown } = *record;
        self.put_file(file, bytes);
        let above = above.map_or(0, |RecordAt(at)| at.get());
        put_number(above << 1 | u64::from(is_link), bytes);
        put_path(name, bytes);
        if above == 0 {
            put_path(shown, bytes);
        }
    }

    fn put_file(&mut self, file: FileId, bytes: &mut Vec<u8>) {
        let known = self.devices.iter().position(|&device| device == file.device);
        let number = known.unwrap_or_else(|| {
            self.devices.push(file.device);
            self.devices.len() - 1
        });
        put_number(number as u64, bytes);
        put_number(file.inode, bytes);
    }

    fn take_file(&self, bytes: &mut &[u8]) -> FileId {
        let device = self.devices[take_number(bytes) as usize];
        FileId { device, inode: take_number(bytes) }
    }

    fn keep(&mut self, record: &[u8]) -> RecordAt {
        let has_room = |piece: &Vec<u8>| piece.len() + record.len() <= PIECE_BYTES;
        if !self.pieces.last().is_some_and(has_room) {
            let mut piece = Vec::with_capacity(PIECE_BYTES.max(1 + record.len()));
            // No record is at 0, which means none.
            piece.push(0);
            self.pieces.push(piece);
        }
        let number = self.pieces.len() - 1;
        let piece = &mut self.pieces[number];
        let at = number * PIECE_BYTES + piece.len();
        piece.extend_from_slice(record);
        RecordAt(NonZero::new(at as u64).expect("no piece begins with a record"))
    }

    /// All from a record to the end of its piece.
    fn bytes(&self, RecordAt(at): RecordAt) -> &[u8] {
        let at = at.get() as usize;
        &self.pieces[at / PIECE_BYTES][at % PIECE_BYTES..]
    }

    /// A slot's record: the source, and the place of the rest.
    fn copy(&self, at: RecordAt) -> (FileId, RecordAt) {
        let mut bytes = self.bytes(at);
        let before = bytes.len();
        let source = self.take_file(&mut bytes);
        let read_bytes = (before - bytes.len()) as u64;
        (source, RecordAt(at.0.saturating_add(read_bytes)))
    }

    fn first_slot(&self, source: FileId) -> Option<usize> {
        // The number of slots is a power of two.
        let last = self.slots.len().checked_sub(1)?;
        Some(self.hasher.hash_one(source) as usize & last)
    }

    fn enter(&mut self, source: FileId, RecordAt(at): RecordAt) {
        let Some(mut slot) = self.first_slot(source) else { return };
        while self.slots[slot] != FREE {
            slot = (slot + 1) % self.slots.len();
        }
        self.slots[slot].copy_from_slice(&at.get().to_le_bytes()[..size_of::<Slot>()]);
    }

    fn double(&mut self) {
        let more = (self.slots.len() * 2).max(FEWEST_SLOTS);
        let slots = std::mem::replace(&mut self.slots, vec![FREE; more]);
        for at in slots.into_iter().filter_map(record_at) {
            self.enter(self.copy(at).0, at);
        }
    }
}

fn record_at(slot: Slot) -> Option<RecordAt> {
    let [a, b, c, d, e] = slot;
    NonZero::new(u64::from_le_bytes([a, b, c, d, e, 0, 0, 0])).map(RecordAt)
}

/// Seven bits a byte, the lowest first: inodes and places are small numbers most often.
fn put_number(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_number(bytes: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    while let Some((&byte, rest)) = bytes.split_first() {
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
        shift += 7;
    }
    number
}

fn put_path(path: &Path, bytes: &mut Vec<u8>) {
    let path = path.as_os_str().as_bytes();
    put_number(path.len() as u64, bytes);
    bytes.extend_from_slice(path);
}

fn take_path<'b>(bytes: &mut &'b [u8]) -> &'b Path {
    let length = take_number(bytes) as usize;
    let (path, rest) = bytes.split_at(length);
    *bytes = rest;
    Path::new(OsStr::from_bytes(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operand<'p>(name: &'p Path, shown: &'p Path) -> Target<'p> {
        Target::operand(Place { shown, ..Place::here(name) })
    }

    #[test]
    fn each_first_copy_is_found_again_as_it_was() {
        let mut copies = FirstCopies::default();
        let long = "n".repeat(255);
        let inodes = (0..3_000_u64).chain([u64::from(u32::MAX), u64::MAX]);
        let sources: Vec<_> =
            inodes.flat_map(|inode| [7, u64::MAX].map(|device| FileId { device, inode })).collect();
        let name = |source: &FileId| format!("{}{long}", source.inode);
        for &source in &sources {
            assert_eq!(copies.get(source), None);
            let file = FileId { inode: !source.inode, ..source };
            let (name, shown) = (name(&source), format!("shown/{}", source.inode));
            let target = operand(Path::new(&name), Path::new(&shown));
            copies.add(source, target, file, source.inode % 3 == 0);
        }
        for source in &sources {
            let at = copies.get(*source).expect("a copy");
            let (name, shown) = (name(source), format!("shown/{}", source.inode));
            let file = FileId { inode: !source.inode, ..*source };
            let expected = Record {
                file,
                is_link: source.inode % 3 == 0,
                above: None,
                name: Path::new(&name),
                shown: Path::new(&shown),
            };
            assert_eq!(copies.record(at), expected);
            assert_eq!(copies.shown(at), Path::new(&shown));
        }
        assert_eq!(copies.get(FileId { device: 7, inode: 3_000 }), None);
        assert_eq!(copies.get(FileId { device: 8, inode: 0 }), None);
    }

    #[test]
    fn a_name_larger_than_a_piece_has_a_piece_of_its_own() {
        let mut copies = FirstCopies::default();
        let names = ["a".into(), "b".repeat(3 * PIECE_BYTES), "c".repeat(PIECE_BYTES), "d".into()];
        for (inode, name) in (0..).zip(&names) {
            let file = FileId { device: 1, inode };
            copies.add(file, operand(Path::new(name), Path::new("shown")), file, false);
        }
        for (inode, name) in (0..).zip(&names) {
            let at = copies.get(FileId { device: 1, inode }).expect("a copy");
            assert_eq!(copies.record(at).name, Path::new(name));
        }
    }

    #[test]
    fn numbers_of_all_lengths_come_back() {
        let numbers: Vec<u64> =
            (0..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit]).chain([u64::MAX]).collect();
        let mut bytes = Vec::new();
        numbers.iter().for_each(|&number| put_number(number, &mut bytes));
        let mut left = &bytes[..];
        for number in numbers {
            assert_eq!(take_number(&mut left), number);
        }
        assert!(left.is_empty());
    }
}
