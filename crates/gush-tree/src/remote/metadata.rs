//! All that a copy keeps of an entry but its data, as values that fit into a message.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{self, FileType, OFlags, Stat};
use rustix::io::{self, Errno, retry_on_intr};
use xxhash_rust::xxh3::xxh3_64;

use super::owners::Account;
use super::partial::this_boot;
use crate::error::Error;
use crate::file::pin;
use crate::links;
use crate::metadata::Handle;
use crate::new_directory::DIRECTORY;
use crate::options::{Label, ModeRule, Preserve, Xattrs};
use crate::place::{Place, REPLACED, kind, same_file, still};
use crate::xattr::{self, Attributes};

/// An entry's kind, mode, owner, times, size, attributes and link text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct EntryMetadata {
    /// `st_mode`: kind and permission bits.
    pub mode: u32,
    /// The user's number.
    pub user: u32,
    /// The group's number.
    pub group: u32,
    /// The user's name; empty if there is none, or numbers are kept.
    pub user_name: String,
    /// The group's name, as [`user_name`](Self::user_name).
    pub group_name: String,
    /// The time of the last access: seconds, and nanoseconds.
    pub accessed: (i64, u32),
    /// The time of the last modification: seconds, and nanoseconds.
    pub modified: (i64, u32),
    /// The size of a regular file.
    pub size_bytes: u64,
    /// The number of the device that a special file is.
    pub device: u64,
    /// Extended attributes and access control lists: names and values. A list names users and
    /// groups by the numbers of the source's machine.
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
    /// The text of a symbolic link; empty for other kinds.
    pub link_text: Vec<u8>,
    /// What names the entry among all of a machine until it is started again; 0 is unknown.
    pub identity: u64,
}

/// A hash of boot, device and inode: that of a file of another machine is another one.
pub(crate) fn identity(stat: &Stat) -> u64 {
    let boot = this_boot().to_le_bytes();
    xxh3_64(&[&boot[..], &stat.st_dev.to_le_bytes(), &stat.st_ino.to_le_bytes()].concat())
}

/// The [identities](EntryMetadata::identity) of a directory and of those above it, up to the root,
/// as far as they can be looked at.
#[must_use]
pub fn lineage(dir: BorrowedFd<'_>) -> Vec<u64> {
    let mut found = Vec::new();
    let _ = climb(dir, &mut found);
    found
}

/// As [`lineage`], added to `found`.
pub(crate) fn climb(dir: BorrowedFd<'_>, found: &mut Vec<u64>) -> io::Result<()> {
    let [here, above] = [".", ".."].map(Path::new);
    let mut at = Place::below(dir, here, here).open(DIRECTORY, fs::Mode::empty())?;
    loop {
        let id = identity(&retry_on_intr(|| fs::fstat(&at))?);
        // The root is the one above itself.
        if found.last() == Some(&id) {
            return Ok(());
        }
        found.push(id);
        at = Place::below(at.as_fd(), above, above).open(DIRECTORY, fs::Mode::empty())?;
    }
}

/// Opens an entry that a walk has found: a regular file for reading, any other, or all for a
/// [`EntryMetadata`] alone, by `O_PATH`, which needs no right to read it.
///
/// # Errors
/// When it cannot be opened, or another file has the name by now.
pub fn open_found(
    dir: BorrowedFd<'_>,
    name: &OsStr,
    stat: &Stat,
    shown: &Path,
    reads: bool,
) -> Result<OwnedFd, Error> {
    let place = Place::below(dir, Path::new(name), shown);
    if !reads {
        return pin(place, false, REPLACED, |found| same_file(found, stat)).map(|(fd, _)| fd);
    }
    let opened = match kind(stat) {
        FileType::RegularFile => {
            place.open_regular(OFlags::RDONLY | OFlags::NOFOLLOW, fs::Mode::empty())
        }
        _ => place.pin(false),
    };
    let fd = opened.map_err(|errno| match errno {
        // A symbolic link has the name.
        Errno::LOOP => Error::refusal(shown, REPLACED),
        errno => Error::os(shown, "cannot open {} for reading", errno),
    })?;
    still(&fd, stat, shown)?;
    Ok(fd)
}

impl EntryMetadata {
    /// Reads what `preserve` asks for of an open entry. Attributes that cannot be read are
    /// warnings, as many as the effort for attributes asks for.
    ///
    /// # Errors
    /// Where the text of a symbolic link, or an attribute that is required, cannot be read.
    pub fn of(
        fd: BorrowedFd<'_>,
        stat: &Stat,
        preserve: &Preserve,
        shown: &Path,
        warn: &mut dyn FnMut(Error),
    ) -> Result<Self, Error> {
        let is_link = kind(stat) == FileType::Symlink;
        // A directory or file may be open or pinned, and the path under /proc serves both.
        let handle = match kind(stat) {
            FileType::RegularFile => Handle::Open(fd),
            _ => Handle::Pinned { fd, is_link },
        };
        let name = |account: Account, number| match preserve.keeps_names() {
            true => account.name(number),
            false => String::new(),
        };
        let mut metadata = Self {
            mode: stat.st_mode,
            user: stat.st_uid,
            group: stat.st_gid,
            user_name: name(Account::User, stat.st_uid),
            group_name: name(Account::Group, stat.st_gid),
            accessed: (stat.st_atime, stat.st_atime_nsec as u32),
            modified: (stat.st_mtime, stat.st_mtime_nsec as u32),
            size_bytes: match kind(stat) {
                FileType::RegularFile => u64::try_from(stat.st_size).unwrap_or(0),
                _ => 0,
            },
            device: stat.st_rdev,
            attributes: Vec::new(),
            link_text: Vec::new(),
            identity: identity(stat),
        };
        if is_link {
            let text = links::text(&Place::below(fd, Path::new(""), shown))?;
            metadata.link_text = text.into_bytes();
        }
        let read = match metadata.read_attributes(&handle.holder(), preserve, is_link) {
            // It is held by O_PATH.
            Err(Errno::BADF) => {
                let handle = Handle::Pinned { fd, is_link };
                metadata.read_attributes(&handle.holder(), preserve, is_link)
            }
            read => read,
        };
        if let Err(errno) = read {
            let error = Error::os(shown, "listing attributes of {}", errno);
            match preserve.xattrs {
                Xattrs::Require => return Err(error),
                Xattrs::Warn => warn(error),
                Xattrs::Leave | Xattrs::Try => {}
            }
        }
        Ok(metadata)
    }

    fn read_attributes(
        &mut self,
        holder: &xattr::Holder<'_>,
        preserve: &Preserve,
        is_link: bool,
    ) -> io::Result<()> {
        let keeps_mode = preserve.mode == ModeRule::Keep && !is_link;
        let with_label = preserve.label != Label::Leave;
        if preserve.xattrs == Xattrs::Leave && !keeps_mode && !with_label {
            return Ok(());
        }
        let names = match holder.list() {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
            names => names?,
        };
        let mut failed = Ok(());
        for name in names {
            let is_wanted = match name.as_c_str() {
                list if list == xattr::ACL || list == xattr::DEFAULT_ACL => keeps_mode,
                label if label == xattr::LABEL => with_label || preserve.xattrs != Xattrs::Leave,
                name => preserve.xattrs != Xattrs::Leave && xattr::is_copied(name, true),
            };
            match holder.get(&name) {
                _ if !is_wanted => {}
                Ok(value) => self.attributes.push((name.into_bytes(), value)),
                // Removed after the listing.
                Err(Errno::NODATA) => {}
                Err(errno) => failed = Err(errno),
            }
        }
        failed
    }

    /// The kind of the entry.
    #[must_use]
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    /// As a `stat` of the file would be on this machine. The fields that no copy keeps are those of
    /// `other`.
    pub(super) fn stat(&self, preserve: &Preserve, other: &Stat) -> Stat {
        let mut stat = *other;
        stat.st_mode = self.mode;
        (stat.st_uid, stat.st_gid) = (self.user, self.group);
        if preserve.keeps_names() {
            stat.st_uid = Account::User.number(self.user, &self.user_name);
            stat.st_gid = Account::Group.number(self.group, &self.group_name);
        }
        stat.st_size = i64::try_from(self.size_bytes).unwrap_or(i64::MAX);
        stat.st_rdev = self.device;
        (stat.st_atime, stat.st_atime_nsec) = (self.accessed.0, self.accessed.1 as _);
        (stat.st_mtime, stat.st_mtime_nsec) = (self.modified.0, self.modified.1 as _);
        stat
    }
}

impl Attributes for EntryMetadata {
    fn list(&self) -> io::Result<Vec<CString>> {
        Ok(self.attributes.iter().filter_map(|(name, _)| CString::new(&name[..]).ok()).collect())
    }

    fn get(&self, name: &CStr) -> io::Result<Vec<u8>> {
        let found = self.attributes.iter().find(|(own, _)| own == name.to_bytes());
        found.map(|(_, value)| value.clone()).ok_or(Errno::NODATA)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_took_the_name_of_a_file_is_not_opened_for_it() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        std::fs::create_dir(dir.path().join("directory")).unwrap();
        symlink("file", dir.path().join("link")).unwrap();
        let held = Place::here(dir.path()).pin(false).unwrap();
        let look = |name: &str| Place::here(&dir.path().join(name)).stat(false).unwrap();
        for name in ["directory", "link"] {
            // A new file can get the number of one that was removed.
            let mut stat = look("file");
            stat.st_ino = look(name).st_ino;
            let opened = open_found(held.as_fd(), name.as_ref(), &stat, name.as_ref(), true);
            let said = opened.unwrap_err().to_string();
            assert_eq!(
                said,
                format!("skipping file '{name}', as it was replaced while being copied")
            );
        }
    }

    #[test]
    fn owners_have_names_unless_numbers_are_kept() {
        let root = Place::here(Path::new("/"));
        let (mut stat, fd) = (root.stat(true).unwrap(), root.pin(false).unwrap());
        let Some(number) = (1..1000).find(|&number| !Account::User.name(number).is_empty()) else {
            return gush_test::skipped("no system account but root");
        };
        (stat.st_uid, stat.st_gid) = (number, 4_000_000_000);
        let by_name = Preserve { owner: true, ..Preserve::default() };
        let by_number = Preserve { numeric_ids: true, ..by_name };
        let of = |preserve: &Preserve| {
            EntryMetadata::of(fd.as_fd(), &stat, preserve, root.shown, &mut |_| ()).unwrap()
        };
        let names = |metadata: EntryMetadata| [metadata.user_name, metadata.group_name];
        assert_eq!(names(of(&by_name)), [Account::User.name(number), String::new()]);
        assert_eq!(names(of(&by_number)), [String::new(), String::new()]);
        assert_eq!(names(of(&Preserve::default())), [String::new(), String::new()]);
        // On the other machine the user has another number.
        let metadata = EntryMetadata { user: number + 3_000_000_000, ..of(&by_name) };
        let owner = |preserve| {
            let stat = metadata.stat(preserve, &stat);
            (stat.st_uid, stat.st_gid)
        };
        assert_eq!(owner(&by_name), (number, 4_000_000_000));
        assert_eq!(owner(&by_number), (number + 3_000_000_000, 4_000_000_000));
    }
}
