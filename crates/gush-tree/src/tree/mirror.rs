//! Removing from the target what the source lacks.
//!
//! Everything is done by descriptors, one name at a time, without following links: no swap of a name leads a removal out
//! of the target's tree. A name is removed only if the source's directory answers ENOENT for it.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, RawDir, Stat};
use rustix::io::{self, Errno, retry_on_intr};

use super::dir::Pair;
use super::shown::Shown;
use crate::error::Error;
use crate::place::{FileId, Place, kind};

const LISTED_BYTES: usize = 32 << 10;

/// Removes what one directory of the target has and the source lacks.
pub(crate) struct Mirror<'a> {
    pub(crate) pair: &'a Pair,
    /// The device of the target's tree: nothing mounted below is touched.
    pub(crate) device: u64,
    /// Links of the source are followed.
    pub(crate) follow: bool,
    /// A link of the target to a directory counts as this directory.
    pub(crate) keeps_links: bool,
    pub(crate) is_dry: bool,
    /// Is the entry with this path below the root, perhaps a directory, left as it is?
    pub(crate) is_protected: &'a dyn Fn(&Path, bool) -> bool,
}

/// The outcome of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Removed {
    Wholly,
    /// Something protected is left.
    InPart,
}

impl Mirror<'_> {
    /// Removes all that is to go. `tell` hears of each entry of this directory that was removed, or could not be.
    pub(crate) fn run(&self, target: &mut Shown, mut tell: impl FnMut(&Path, Result<(), Error>)) {
        let entries = match entries(self.pair.target()) {
            Ok(entries) => entries,
            Err(errno) => {
                return tell(target.path(), Err(Error::os(target.path(), "cannot list", errno)));
            }
        };
        for entry in entries {
            let before = target.push(entry.name());
            match self.goes(&entry.name) {
                Ok(Some(is_directory)) => {
                    let entry = Entry { is_directory, ..entry };
                    let told = target.path().to_path_buf();
                    match self.remove(entry, target) {
                        Ok(Removed::Wholly) => tell(&told, Ok(())),
                        Ok(Removed::InPart) => {}
                        Err(errno) => tell(&told, Err(Error::os(&told, "cannot remove", errno))),
                    }
                }
                Ok(None) => {}
                Err(errno) => {
                    let what = "not removed: cannot look for it in the source";
                    tell(target.path(), Err(Error::os(target.path(), what, errno)));
                }
            }
            target.back_to(before);
        }
    }

    /// Removes an entry, a directory with all that is in it but for the protected. One directory is open at a time, at any
    /// depth; the way back is `..`, which must be the directory it was. `path` is the entry's.
    fn remove(&self, entry: Entry, path: &mut Shown) -> io::Result<Removed> {
        let dir = self.pair.target();
        if (self.is_protected)(path.below_root(), entry.is_directory) {
            return Ok(Removed::InPart);
        }
        if !entry.is_directory {
            return self.unlink(dir, &entry.name, AtFlags::empty()).map(|()| Removed::Wholly);
        }
        let mut at = enter(dir, &entry.name)?;
        let mut levels = vec![self.level(at.as_fd(), entry)?];
        loop {
            let Some(level) = levels.last_mut() else { return Ok(Removed::Wholly) };
            if let Some(next) = level.left.pop() {
                let before = path.push(next.name());
                if (self.is_protected)(path.below_root(), next.is_directory) {
                    level.removed = Removed::InPart;
                    path.back_to(before);
                } else if next.is_directory {
                    let below = enter(at.as_fd(), &next.name)?;
                    levels.push(self.level(below.as_fd(), next)?);
                    at = below;
                } else {
                    self.unlink(at.as_fd(), &next.name, AtFlags::empty())?;
                    path.back_to(before);
                }
                continue;
            }
            let (name, removed) = (level.entry.name.clone(), level.removed);
            path.pop(level.entry.name());
            levels.pop();
            let Some(above) = levels.last_mut() else {
                if removed == Removed::Wholly {
                    self.unlink(dir, &name, AtFlags::REMOVEDIR)?;
                }
                return Ok(removed);
            };
            let up = enter(at.as_fd(), c"..")?;
            if FileId::of(&retry_on_intr(|| fs::fstat(&up))?) != above.id {
                return Err(Errno::STALE);
            }
            match removed {
                Removed::Wholly => self.unlink(up.as_fd(), &name, AtFlags::REMOVEDIR)?,
                Removed::InPart => above.removed = Removed::InPart,
            }
            at = up;
        }
    }

    fn unlink(&self, at: BorrowedFd<'_>, name: &CStr, flags: AtFlags) -> io::Result<()> {
        if self.is_dry {
            return Ok(());
        }
        match retry_on_intr(|| fs::unlinkat(at, name, flags)) {
            // Somebody else was faster.
            Err(Errno::NOENT) => Ok(()),
            other => other,
        }
    }

    fn level(&self, dir: BorrowedFd<'_>, entry: Entry) -> io::Result<Level> {
        let stat = retry_on_intr(|| fs::fstat(dir))?;
        if stat.st_dev != self.device {
            return Err(Errno::XDEV);
        }
        let (id, left) = (FileId::of(&stat), entries(dir)?);
        Ok(Level { entry, id, left, removed: Removed::Wholly })
    }

    /// Is the entry to go, and is it a directory? A directory in the place of another file goes, too, and so does a file
    /// in the place of a directory.
    fn goes(&self, name: &CStr) -> io::Result<Option<bool>> {
        let here = match look(self.pair.target(), name, false) {
            Err(Errno::NOENT) => return Ok(None),
            other => other?,
        };
        let is_directory = |stat: &Stat| kind(stat) == FileType::Directory;
        let there = match look(self.pair.source(), name, self.follow) {
            // A link to nothing is there all the same.
            Err(Errno::NOENT) => match look(self.pair.source(), name, false) {
                Err(Errno::NOENT) => return Ok(Some(is_directory(&here))),
                other => other?,
            },
            other => other?,
        };
        if is_directory(&here) == is_directory(&there) {
            return Ok(None);
        }
        let counts_as_directory = self.keeps_links
            && look(self.pair.target(), name, true).is_ok_and(|end| is_directory(&end));
        Ok((!counts_as_directory).then_some(is_directory(&here)))
    }
}

fn look(dir: BorrowedFd<'_>, name: &CStr, follow: bool) -> io::Result<Stat> {
    let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    retry_on_intr(|| fs::statat(dir, name, flags))
}

struct Entry {
    name: CString,
    is_directory: bool,
}

impl Entry {
    fn name(&self) -> &OsStr {
        OsStr::from_bytes(self.name.to_bytes())
    }
}

/// A directory on the way down to what is removed.
struct Level {
    entry: Entry,
    id: FileId,
    left: Vec<Entry>,
    removed: Removed,
}

/// The entries of a directory, by a descriptor of their own: the directory's position stays.
fn entries(dir: BorrowedFd<'_>) -> io::Result<Vec<Entry>> {
    let own = enter(dir, c".")?;
    let mut listed = Vec::with_capacity(LISTED_BYTES);
    let mut list = RawDir::new(&own, listed.spare_capacity_mut());
    let mut entries = Vec::new();
    while let Some(entry) = list.next() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let is_directory = match entry.file_type() {
            FileType::Unknown => {
                look(dir, name, false).is_ok_and(|stat| kind(&stat) == FileType::Directory)
            }
            known => known == FileType::Directory,
        };
        entries.push(Entry { name: name.to_owned(), is_directory });
    }
    Ok(entries)
}

fn enter(above: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let name = Path::new(OsStr::from_bytes(name.to_bytes()));
    Place::below(above, name, name)
        .open(OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW, Mode::empty())
}
