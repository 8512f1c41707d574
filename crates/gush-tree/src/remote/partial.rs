//! A large file whose copy may be interrupted and resumed.
//!
//! The data goes into `.NAME.gush-partial`, which only this user can open, and one process at a
//! time writes to. Where the data will end begin the marks of 8 bytes, one a range, and then a
//! footer that names the source by a fingerprint of all that shows a change of it.
//!
//! A mark is written after the bytes of its range. It is a hash of source, range, and boot: after a
//! kill the page cache has both or the bytes alone. What the disk has after a power failure may be
//! the mark alone, and so the marks of another boot count for nothing. Those written after
//! fdatasync(2) have no boot, and always count.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::ops::{Range, RangeInclusive};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, OnceLock};

use gush::Unpoisoned;
use rustix::fs::{self, FallocateFlags, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};
use xxhash_rust::xxh3::xxh3_64;

use crate::atomic::{Resting, Staged};
use crate::error::Error;
use crate::exclusive;
use crate::place::Place;
use crate::state_path::{NAME_MAX_BYTES, hidden_name};
use crate::tree::journal::Fingerprint;

/// The end of such a name, after the file's.
const SUFFIX: &str = ".gush-partial";
/// A smaller file is sent again, and a larger one fits on no disk.
const WORTH_RESUMING_BYTES: RangeInclusive<u64> = (4 << 20) + 1..=1 << 62;
/// The least of a range, and the most ranges of a file.
const LEAST_RANGE_BYTES: u64 = 256 << 10;
const MOST_RANGES: u64 = 1 << 20;

const MAGIC: [u8; 16] = *b"gush-partial-1\n\0";
const MARK_BYTES: u64 = 8;
const FOOTER_BYTES: u64 = 48;

/// What a range has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Missing,
    Arrived,
    Synced,
}

/// A file with the ranges that have arrived.
#[derive(Debug)]
pub(super) struct Partial {
    file: File,
    name: PathBuf,
    source: Fingerprint,
    boot: Fingerprint,
    size_bytes: u64,
    range_bytes: u64,
    ranges: Mutex<Ranges>,
}

#[derive(Debug)]
struct Ranges {
    marks: Vec<Mark>,
    /// How many bytes of a range have arrived that is not complete.
    begun: HashMap<usize, u64>,
}

/// The name of a boot of this machine; `None` where /proc does not show it, as with its option
/// `subset=pid`.
fn named_boot() -> Option<Fingerprint> {
    static BOOT: OnceLock<Option<Fingerprint>> = OnceLock::new();
    *BOOT.get_or_init(|| {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Fingerprint::from_str_radix(&id.trim().replace('-', ""), 16).ok()
    })
}

/// A boot of this machine. Where it has no name, no other process is of the same one.
pub(super) fn this_boot() -> Fingerprint {
    static UNNAMED: LazyLock<Fingerprint> = LazyLock::new(|| RandomState::new().hash_one(0).into());
    named_boot().unwrap_or(*UNNAMED)
}

/// Can another process find out whether it sees the same files?
#[must_use]
pub fn shares_identities() -> bool {
    named_boot().is_some()
}

pub(super) fn is_worth_resuming(size_bytes: u64) -> bool {
    WORTH_RESUMING_BYTES.contains(&size_bytes)
}

pub(super) fn range_bytes(size_bytes: u64) -> u64 {
    size_bytes.div_ceil(MOST_RANGES).next_power_of_two().max(LEAST_RANGE_BYTES)
}

/// The name under which parts of a file with this name are kept, in the same directory.
#[must_use]
pub fn partial_name(name: &OsStr) -> OsString {
    hidden_name(name, SUFFIX)
}

pub(super) fn looks_like_one(name: &OsStr) -> bool {
    name.as_encoded_bytes().ends_with(SUFFIX.as_bytes())
}

fn name_for(target: &Place<'_>) -> PathBuf {
    target.sibling(&partial_name(target.name.file_name().unwrap_or_default()))
}

/// The footer of a file that belongs to this source.
fn footer(source: Fingerprint, size_bytes: u64) -> Vec<u8> {
    let mut footer = [&MAGIC[..], &source.to_le_bytes(), &size_bytes.to_le_bytes()].concat();
    footer.extend(xxh3_64(&footer).to_le_bytes());
    footer
}

/// Is this a file that a copy has begun, of whatever source?
fn is_partial(file: &File, stat: &Stat) -> io::Result<bool> {
    let length_bytes = u64::try_from(stat.st_size).unwrap_or(0);
    let mut found = [0; FOOTER_BYTES as usize];
    match length_bytes.checked_sub(FOOTER_BYTES) {
        Some(at_bytes) => file.read_exact_at(&mut found, at_bytes)?,
        None => return Ok(length_bytes == 0),
    }
    let (head, check) = found.split_at(found.len() - 8);
    // A kill before the footer leaves zeros.
    let is_blank = found.iter().all(|byte| *byte == 0);
    Ok(is_blank || head.starts_with(&MAGIC) && xxh3_64(head).to_le_bytes() == check)
}

/// Opens the file of the state for a target, which nobody else may have another name of.
fn open(place: &Place<'_>, flags: OFlags) -> Result<(File, Stat), Error> {
    let is_written =
        || Error::refusal(place.shown, "another copy writes to {}").hinting("wait until it ends");
    let foreign = "no partial file: not a file of this user";
    let (file, stat) = exclusive::open(place, flags, is_written, foreign)?;
    if stat.st_nlink != 1 || !is_partial(&file, &stat).unwrap_or(false) {
        let text = "not writing to {}: no partial file of gush";
        return Err(Error::refusal(place.shown, text).hinting("remove it, or give it another name"));
    }
    Ok((file, stat))
}

/// Removes the partial file that an earlier copy has left of a target, if it is nobody else's.
pub(super) fn remove_leftover(target: &Place<'_>) {
    let name = name_for(target);
    let place = Place { name: &name, ..*target };
    if place.stat(false).is_ok() && open(&place, OFlags::empty()).is_ok() {
        let _ = place.unlink();
    }
}

/// Is this the name of the partial file of one of these names?
pub(super) fn is_of<'n>(
    name: &OsStr,
    has: impl Fn(&[u8]) -> bool,
    all: impl Iterator<Item = &'n OsStr>,
) -> bool {
    let bytes = name.as_encoded_bytes();
    let Some(of) = bytes.strip_suffix(SUFFIX.as_bytes()).and_then(|rest| rest.strip_prefix(b"."))
    else {
        return false;
    };
    // A name that was cut has the greatest length, or that without a part of a character.
    has(of)
        || bytes.len() + 4 > NAME_MAX_BYTES
            && all.into_iter().any(|of| hidden_name(of, SUFFIX) == name)
}

impl Partial {
    /// Goes on with the partial file of a target, or begins one.
    ///
    /// # Errors
    /// When it cannot be opened or made, another copy writes to it, or its name belongs to
    /// something else.
    pub(super) fn open(
        target: &Place<'_>,
        source: Fingerprint,
        size_bytes: u64,
    ) -> Result<Self, Error> {
        Self::open_in(this_boot(), target, source, size_bytes)
    }

    fn open_in(
        boot: Fingerprint,
        target: &Place<'_>,
        source: Fingerprint,
        size_bytes: u64,
    ) -> Result<Self, Error> {
        let name = name_for(target);
        let shown = target.shown.with_file_name(name.file_name().unwrap_or_default());
        let (file, stat) = open(&Place { name: &name, shown: &shown, ..*target }, OFlags::CREATE)?;
        let range_bytes = range_bytes(size_bytes);
        let marks = vec![Mark::Missing; size_bytes.div_ceil(range_bytes) as usize];
        let ranges = Mutex::new(Ranges { marks, begun: HashMap::new() });
        let partial = Self { file, name, source, boot, size_bytes, range_bytes, ranges };
        match partial.go_on(&stat) {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => partial.begin_anew(),
        }
        .map_err(|error| Error::io(&shown, "cannot write {}", error))?;
        Ok(partial)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn mark_at_bytes(&self, number: usize) -> u64 {
        self.size_bytes + MARK_BYTES * number as u64
    }

    fn mark(&self, number: usize, mark: Mark) -> [u8; MARK_BYTES as usize] {
        let boot = match mark {
            Mark::Missing => return [0; MARK_BYTES as usize],
            Mark::Arrived => self.boot,
            Mark::Synced => 0,
        };
        let number = (number as u64).to_le_bytes();
        let of = [&self.source.to_le_bytes()[..], &boot.to_le_bytes(), &number].concat();
        xxh3_64(&of).to_le_bytes()
    }

    /// Reads the marks. `false` if the file is another source's.
    fn go_on(&self, stat: &Stat) -> io::Result<bool> {
        let mut ranges = self.ranges.lock().unpoisoned();
        let footer_at_bytes = self.mark_at_bytes(ranges.marks.len());
        if u64::try_from(stat.st_size) != Ok(footer_at_bytes + FOOTER_BYTES) {
            return Ok(false);
        }
        let mut found = vec![0; (footer_at_bytes + FOOTER_BYTES - self.size_bytes) as usize];
        self.file.read_exact_at(&mut found, self.size_bytes)?;
        if !found.ends_with(&footer(self.source, self.size_bytes)) {
            return Ok(false);
        }
        let found = found.chunks_exact(MARK_BYTES as usize);
        for ((number, mark), found) in ranges.marks.iter_mut().enumerate().zip(found) {
            let mut known = [Mark::Synced, Mark::Arrived].into_iter();
            *mark = known.find(|known| self.mark(number, *known) == found).unwrap_or(Mark::Missing);
        }
        drop(ranges);
        // Holes are not sent: nothing may be left where they are.
        for missing in self.missing() {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let length_bytes = missing.end - missing.start;
            retry_on_intr(|| fs::fallocate(&self.file, flags, missing.start, length_bytes))?;
        }
        Ok(true)
    }

    fn begin_anew(&self) -> io::Result<()> {
        let mut ranges = self.ranges.lock().unpoisoned();
        ranges.marks.fill(Mark::Missing);
        let footer_at_bytes = self.mark_at_bytes(ranges.marks.len());
        self.file.set_len(0)?;
        self.file.set_len(footer_at_bytes + FOOTER_BYTES)?;
        self.file.write_all_at(&footer(self.source, self.size_bytes), footer_at_bytes)
    }

    /// The parts of the file that have not arrived.
    pub(super) fn missing(&self) -> Vec<Range<u64>> {
        let mut missing: Vec<Range<u64>> = Vec::new();
        for (number, mark) in self.ranges.lock().unpoisoned().marks.iter().enumerate() {
            let range = self.range(number);
            match missing.last_mut() {
                _ if *mark != Mark::Missing => {}
                Some(last) if last.end == range.start => last.end = range.end,
                _ => missing.push(range),
            }
        }
        missing
    }

    fn range(&self, number: usize) -> Range<u64> {
        let start = number as u64 * self.range_bytes;
        start..(start + self.range_bytes).min(self.size_bytes)
    }

    /// Bytes, or a hole, have arrived, no byte twice. A mark that cannot be written costs the copy
    /// of its range.
    pub(super) fn arrived(&self, arrived: Range<u64>) {
        let end = arrived.end.min(self.size_bytes);
        let mut at_bytes = arrived.start;
        let mut ranges = self.ranges.lock().unpoisoned();
        while at_bytes < end {
            let number = (at_bytes / self.range_bytes) as usize;
            let range = self.range(number);
            let new_bytes = range.end.min(end) - at_bytes;
            at_bytes += new_bytes;
            let has_bytes = ranges.begun.entry(number).or_default();
            *has_bytes += new_bytes;
            if *has_bytes < range.end - range.start {
                continue;
            }
            ranges.begun.remove(&number);
            self.set(&mut ranges, number, Mark::Arrived);
        }
    }

    fn set(&self, ranges: &mut Ranges, number: usize, mark: Mark) {
        ranges.marks[number] = mark;
        let _ = self.file.write_all_at(&self.mark(number, mark), self.mark_at_bytes(number));
    }

    /// Makes what has arrived so far survive a power failure, once its marks are on the disk too.
    pub(super) fn sync(&self) -> io::Result<()> {
        let arrived: Vec<usize> = {
            let ranges = self.ranges.lock().unpoisoned();
            let arrived = |number: &usize| ranges.marks[*number] == Mark::Arrived;
            (0..ranges.marks.len()).filter(arrived).collect()
        };
        if arrived.is_empty() {
            return Ok(());
        }
        // Others go on meanwhile: their marks are not among these.
        self.file.sync_data()?;
        let mut ranges = self.ranges.lock().unpoisoned();
        arrived.into_iter().for_each(|number| self.set(&mut ranges, number, Mark::Synced));
        Ok(())
    }

    /// Cuts the file to its data, under a temporary name.
    pub(super) fn complete(self, target: Place<'_>) -> Result<Resting, Errno> {
        let staged = Staged::of_named(target, self.file.into(), &self.name)?;
        retry_on_intr(|| fs::ftruncate(staged.fd(), self.size_bytes))?;
        Ok(staged.rest())
    }

    /// Removes the file, whose bytes are not those of the source.
    pub(super) fn discard(self, target: &Place<'_>) -> Result<(), Errno> {
        Place { name: Path::new(&self.name), ..*target }.unlink()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_another_boot_only_what_was_synced_counts() {
        const MIB: u64 = 1 << 20;
        const SIZE_BYTES: u64 = 17 * MIB + 3;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let open = |boot| Partial::open_in(boot, &Place::here(&path), 7, SIZE_BYTES).unwrap();
        let partial = open(1);
        partial.arrived(0..8 * MIB);
        partial.sync().unwrap();
        partial.arrived(8 * MIB..SIZE_BYTES);
        drop(partial);
        assert!(open(1).missing().is_empty());
        let [left] = <[_; 1]>::try_from(open(2).missing()).unwrap();
        assert_eq!(left, 8 * MIB..SIZE_BYTES);
    }

    #[test]
    fn partial_files_are_known_by_their_names() {
        let long = "n".repeat(250);
        let all = ["file", &long].map(OsStr::new);
        let is_known = |name: &OsStr| {
            is_of(
                name,
                |of| all.contains(&OsStr::new(std::str::from_utf8(of).unwrap())),
                all.into_iter(),
            )
        };
        for of in all {
            assert!(is_known(&hidden_name(of, SUFFIX)));
        }
        for name in ["file", ".gush-partial", ".other.gush-partial", "file.gush-partial"] {
            assert!(!is_known(OsStr::new(name)), "{name}");
        }
        assert!(!is_known(&hidden_name(OsStr::new(&"n".repeat(251)), SUFFIX)));
    }
}
