//! The entries of a directory of the target.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{self, AtFlags, FileType, RawDir, Stat};
use rustix::io::{self, Errno, retry_on_intr};

use crate::place::kind;
use crate::tree::batch::LISTED_BYTES;
use crate::tree::held;

/// Reads the names of a directory to their end.
///
/// # Errors
/// Also where only the last of the names could not be read.
pub(crate) fn can_list(dir: BorrowedFd<'_>) -> io::Result<()> {
    entries(dir).map(|_| ())
}

fn look(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<Stat> {
    retry_on_intr(|| fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW))
}

/// Has the directory an entry with this name?
pub(crate) fn has(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<bool> {
    match look(dir, name) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

pub(super) struct TargetEntry {
    pub(super) name: CString,
    pub(super) is_directory: bool,
}

impl TargetEntry {
    pub(super) fn name(&self) -> &OsStr {
        OsStr::from_bytes(self.name.to_bytes())
    }
}

/// Entries close together, since a directory may have a million: of each the name, a NUL, and its
/// kind, which is never 0. They are taken from the end, and what was taken is still known.
#[derive(Default)]
pub(super) struct Entries {
    bytes: Vec<u8>,
    /// The end of those that are left.
    end: usize,
    /// The end of the one taken last.
    last_end: usize,
}

impl Entries {
    const DIRECTORY: u8 = b'd';
    const OTHER: u8 = b'-';
    /// Of an entry that was taken, and is still in its directory.
    const STAYS: u8 = b's';

    pub(super) fn push(&mut self, name: &CStr, is_directory: bool) {
        self.bytes.extend(name.to_bytes_with_nul());
        self.bytes.push(if is_directory { Self::DIRECTORY } else { Self::OTHER });
        self.end = self.bytes.len();
    }

    /// The entry that ends here: where it begins, its name and kind.
    fn before(&self, end: usize) -> Option<(usize, &[u8], u8)> {
        let [name @ .., _nul, kind] = self.bytes.get(..end)? else { return None };
        // After the kind of the entry before, which follows a NUL.
        let from = name.iter().rposition(|&byte| byte == 0).map_or(0, |nul| nul + 2);
        Some((from, &name[from..], *kind))
    }

    pub(super) fn pop(&mut self) -> Option<TargetEntry> {
        let (from, name, kind) = self.before(self.end)?;
        let entry =
            TargetEntry { name: CString::new(name).ok()?, is_directory: kind == Self::DIRECTORY };
        (self.last_end, self.end) = (self.end, from);
        Some(entry)
    }

    /// The entry taken last is not removed.
    pub(super) fn last_stays(&mut self) {
        if let Some(kind) = self.bytes[..self.last_end].last_mut() {
            *kind = Self::STAYS;
        }
    }

    /// The names of those that were taken, but for those that stay.
    pub(super) fn gone(&self) -> impl Iterator<Item = &OsStr> {
        let mut end = self.bytes.len();
        let taken = std::iter::from_fn(move || {
            let (from, name, kind) = self.before(end).filter(|_| end > self.end)?;
            end = from;
            Some((OsStr::from_bytes(name), kind))
        });
        taken.filter(|(_, kind)| *kind != Self::STAYS).map(|(name, _)| name)
    }
}

/// The entries of a directory, by a new descriptor: the position of this one stays.
pub(super) fn entries(dir: BorrowedFd<'_>) -> io::Result<Entries> {
    let own = held::enter(dir, c".")?;
    let mut listed = Vec::with_capacity(LISTED_BYTES);
    let mut list = RawDir::new(&own, listed.spare_capacity_mut());
    let mut entries = Entries::default();
    while let Some(entry) = list.next() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let is_directory = match entry.file_type() {
            FileType::Unknown => {
                // Some file systems return no types (readdir(3)).
                look(dir, name).is_ok_and(|stat| kind(&stat) == FileType::Directory)
            }
            known => known == FileType::Directory,
        };
        entries.push(name, is_directory);
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_out_last_in_first_out_and_unchanged() {
        let long = CString::new(vec![b'n'; 255]).unwrap();
        let names = [(c"a", true), (c"\xff d", false), (&long, true), (c"-", false)];
        let mut entries = Entries::default();
        names.iter().for_each(|(name, is_directory)| entries.push(name, *is_directory));
        for (name, is_directory) in names.iter().rev() {
            let entry = entries.pop().unwrap();
            assert_eq!((entry.name.as_c_str(), entry.is_directory), (*name, *is_directory));
        }
        assert!(entries.pop().is_none());
    }
}
