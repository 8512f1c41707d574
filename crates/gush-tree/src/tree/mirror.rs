//! Removing from the target what the source lacks.
//!
//! Everything is done by descriptors, one name at a time, without following links: no swap of a name leads a removal out
//! of the target's tree. A name is removed only if the source's directory, listed to its end, answers ENOENT for it, or if
//! a source that can be read takes its place. Mounts are told apart by their ids: a bind mount has the device of its origin.

use std::collections::HashSet;
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use gush::Doing;
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, RawDir, Stat};
use rustix::io::{self, Errno, retry_on_intr};

use super::dir::Pair;
use super::shown::Shown;
use crate::error::Error;
use crate::place::{FileId, Place, kind, mount_of};
use crate::{quote, rehearsal};

const LISTED_BYTES: usize = 32 << 10;

/// The limits of a mirror: the mount that the target is in, and the source.
#[derive(Debug)]
pub(crate) struct Limits {
    device: u64,
    /// `None` if the kernel does not tell.
    mount: Option<u64>,
    /// The source and the directories above it.
    source: HashSet<FileId>,
}

impl Limits {
    pub(crate) fn new(target: BorrowedFd<'_>, stat: &Stat, source: HashSet<FileId>) -> Self {
        Self { device: stat.st_dev, mount: mount(target), source }
    }

    pub(crate) fn holds_source(&self, directory: &Stat) -> bool {
        self.source.contains(&FileId::of(directory))
    }

    /// May entries of this directory be removed?
    fn check(&self, dir: BorrowedFd<'_>, stat: &Stat) -> Result<(), Reason> {
        if self.holds_source(stat) {
            return Err(Reason::Source);
        }
        // A volume of btrfs has the mount of the one above, and a device of its own.
        if stat.st_dev != self.device {
            return Err(Reason::Mounted);
        }
        match (self.mount, mount(dir)) {
            (Some(root), Some(here)) if root == here => Ok(()),
            (Some(_), Some(_)) => Err(Reason::Mounted),
            // Nothing is removed on a guess: a bind mount may lead to files outside the target.
            _ => Err(Reason::Unknown),
        }
    }
}

/// The mount that an open directory was reached by.
fn mount(dir: BorrowedFd<'_>) -> Option<u64> {
    mount_of(dir, c"", AtFlags::EMPTY_PATH)
}

/// Why an entry stays.
enum Reason {
    /// The kernel's answer, and the remedy.
    Os(Errno, Option<&'static str>),
    Mounted,
    Source,
    Unknown,
}

impl From<Errno> for Reason {
    fn from(errno: Errno) -> Self {
        Self::Os(errno, gush::remedy(Doing::Removing, errno))
    }
}

impl Reason {
    /// The error of `entry`, whose removal ended at the directory `at`.
    fn error(&self, entry: &Path, at: &Path) -> Error {
        let text = match self {
            Self::Os(errno, remedy) => {
                let error = Error::os(at, "cannot remove", *errno);
                return match remedy {
                    Some(remedy) => error.hinting(*remedy),
                    None => error,
                };
            }
            Self::Mounted => "is in another mount or volume than the target, and is left as it is",
            Self::Source => "is the source or holds the source",
            Self::Unknown => "may be a mount: this kernel tells no mount ids (Linux 5.8 does)",
        };
        Error::refusal(entry, format!("cannot remove: {} {text}", quote::always(at)))
    }
}

/// Removes what one directory of the target has and the source lacks.
pub(crate) struct Mirror<'a> {
    pub(crate) pair: &'a Pair,
    pub(crate) limits: &'a Limits,
    /// The target's directory is the source, or below it.
    pub(crate) is_in_source: bool,
    pub(crate) is_dry: bool,
    /// Hears, in a dry run, of a directory that cannot be listed, which the copy removes if it is empty.
    pub(crate) doubts: &'a dyn Fn(&Path),
    /// Is the entry with this path below the root, perhaps a directory, left as it is?
    pub(crate) is_protected: &'a dyn Fn(&Path, bool) -> bool,
    /// Is nothing more to be removed?
    pub(crate) is_stopped: &'a dyn Fn() -> bool,
}

/// The outcome of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removed {
    Wholly,
    /// Something protected is left.
    InPart,
}

impl Mirror<'_> {
    /// Removes all that is to go. `tell` hears of each entry of this directory that was removed, or could not be.
    pub(crate) fn run(&self, target: &mut Shown, mut tell: impl FnMut(&Path, Result<(), Error>)) {
        let mut entries = match entries(self.pair.target()) {
            Ok(entries) => entries,
            Err(errno) => {
                return tell(target.path(), Err(Error::os(target.path(), "cannot list", errno)));
            }
        };
        while let Some(entry) = entries.pop() {
            if (self.is_stopped)() {
                return;
            }
            let before = target.push(entry.name());
            match self.goes(&entry.name) {
                Ok(true) => {
                    let told = target.path().to_path_buf();
                    match self.remove_entry(entry, target) {
                        Ok(Removed::Wholly) => tell(&told, Ok(())),
                        Ok(Removed::InPart) => {}
                        Err(error) => tell(&told, Err(error)),
                    }
                }
                Ok(false) => {}
                Err(errno) => {
                    let what = "not removed: cannot look for it in the source";
                    tell(target.path(), Err(Error::os(target.path(), what, errno)));
                }
            }
            target.back_to(before);
        }
    }

    /// Removes the entry with this name, whose path is set, for a source of another kind.
    pub(crate) fn replace(
        &self,
        name: &OsStr,
        is_directory: bool,
        path: &mut Shown,
    ) -> Result<Removed, Error> {
        let name = CString::new(name.as_bytes())
            .map_err(|_| Error::os(path.path(), "cannot remove", Errno::INVAL))?;
        self.remove_entry(Entry { name, is_directory }, path)
    }

    fn remove_entry(&self, entry: Entry, path: &mut Shown) -> Result<Removed, Error> {
        let told = path.path().to_path_buf();
        // A name that the filters leave out of the source is left alone in the target as well.
        if (self.is_protected)(path.below_root(), entry.is_directory) {
            return Ok(Removed::InPart);
        }
        let above = || told.parent().map_or_else(PathBuf::new, Path::to_path_buf);
        self.check().map_err(|reason| reason.error(&told, &above()))?;
        self.remove(entry, path).map_err(|reason| reason.error(&told, path.path()))
    }

    fn check(&self) -> Result<(), Reason> {
        if self.is_in_source {
            return Err(Reason::Source);
        }
        let dir = self.pair.target();
        self.limits.check(dir, &retry_on_intr(|| fs::fstat(dir))?)
    }

    /// Removes an entry, a directory with all that is in it but for the protected. One directory is open at a time, at any
    /// depth; the way back is `..`, which must be the directory it was. `path` is the entry's.
    fn remove(&self, entry: Entry, path: &mut Shown) -> Result<Removed, Reason> {
        let dir = self.pair.target();
        if !entry.is_directory {
            return self.unlink(dir, &entry.name, AtFlags::empty()).map(|()| Removed::Wholly);
        }
        let Some((mut at, level)) = self.go_down(dir, entry, path)? else {
            return Ok(Removed::Wholly);
        };
        // A list in place of recursion, and one descriptor: a tree of any depth can be removed.
        let mut levels = vec![level];
        loop {
            let Some(level) = levels.last_mut() else { return Ok(Removed::Wholly) };
            if (self.is_stopped)() {
                return Ok(Removed::InPart);
            }
            if let Some(next) = level.left.pop() {
                let before = path.push(next.name());
                if (self.is_protected)(path.below_root(), next.is_directory) {
                    level.removed = Removed::InPart;
                    path.back_to(before);
                } else if next.is_directory {
                    match self.go_down(at.as_fd(), next, path)? {
                        Some((below, level)) => {
                            levels.push(level);
                            at = below;
                        }
                        None => path.back_to(before),
                    }
                } else {
                    self.unlink(at.as_fd(), &next.name, AtFlags::empty())?;
                    path.back_to(before);
                }
                continue;
            }
            let (name, removed) = (level.entry.name.clone(), level.removed);
            levels.pop();
            let Some(above) = levels.last_mut() else {
                if removed == Removed::Wholly {
                    self.unlink(dir, &name, AtFlags::REMOVEDIR)?;
                }
                return Ok(removed);
            };
            // Back by `..`, checked below: a directory that was moved away leads elsewhere.
            let up = enter(at.as_fd(), c"..")?;
            if FileId::of(&retry_on_intr(|| fs::fstat(&up))?) != above.id {
                return Err(Errno::STALE.into());
            }
            match removed {
                Removed::Wholly => self.unlink(up.as_fd(), &name, AtFlags::REMOVEDIR)?,
                Removed::InPart => above.removed = Removed::InPart,
            }
            // Only now: until then the path names the entry of an error.
            path.pop(OsStr::from_bytes(name.to_bytes()));
            at = up;
        }
    }

    /// Opens and lists a directory. `None` if it was empty and is gone: rmdir(2), as of GNU rm, asks for no right to the directory itself.
    fn go_down(
        &self,
        above: BorrowedFd<'_>,
        entry: Entry,
        path: &Shown,
    ) -> Result<Option<(OwnedFd, Level)>, Reason> {
        let name = entry.name.clone();
        let opened = enter(above, &name).map_err(Reason::from);
        let listed = opened.and_then(|fd| self.level(fd.as_fd(), entry).map(|level| (fd, level)));
        match listed {
            Ok(level) => Ok(Some(level)),
            Err(Reason::Os(errno @ (Errno::ACCESS | Errno::PERM), _)) => {
                let held = open_directory(above, &name, OFlags::PATH)?;
                self.limits.check(held.as_fd(), &retry_on_intr(|| fs::fstat(&held))?)?;
                // That the directory cannot be emptied is the reason.
                let cannot_be_emptied = |_| Reason::from(errno);
                self.unlink(above, &name, AtFlags::REMOVEDIR).map_err(cannot_be_emptied)?;
                if self.is_dry {
                    (self.doubts)(path.path());
                }
                Ok(None)
            }
            Err(reason) => Err(reason),
        }
    }

    fn unlink(&self, at: BorrowedFd<'_>, name: &CStr, flags: AtFlags) -> Result<(), Reason> {
        let path = Path::new(OsStr::from_bytes(name.to_bytes()));
        let removed = match self.is_dry {
            true => rehearsal::may_be_removed(&Place::below(at, path, path)),
            false => retry_on_intr(|| fs::unlinkat(at, name, flags)),
        };
        match removed {
            // Somebody else was faster.
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(Reason::Os(errno, gush::remedy_at(at, path, Doing::Removing, errno))),
        }
    }

    fn level(&self, dir: BorrowedFd<'_>, entry: Entry) -> Result<Level, Reason> {
        let stat = retry_on_intr(|| fs::fstat(dir))?;
        self.limits.check(dir, &stat)?;
        let (id, left) = (FileId::of(&stat), entries(dir)?);
        Ok(Level { entry, id, left, removed: Removed::Wholly })
    }

    /// Does the source lack the name? A link to nothing is there all the same.
    fn goes(&self, name: &CStr) -> io::Result<bool> {
        match look(self.pair.source(), name) {
            Ok(_) => Ok(false),
            // Looked at again: somebody may have removed the name since the listing.
            Err(Errno::NOENT) => match look(self.pair.target(), name) {
                Err(Errno::NOENT) => Ok(false),
                other => other.map(|_| true),
            },
            Err(errno) => Err(errno),
        }
    }
}

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

struct Entry {
    name: CString,
    is_directory: bool,
}

impl Entry {
    fn name(&self) -> &OsStr {
        OsStr::from_bytes(self.name.to_bytes())
    }
}

/// Entries close together, since a directory may have a million: of each the name, a NUL, and its kind, which is never 0.
#[derive(Default)]
struct Entries(Vec<u8>);

impl Entries {
    const DIRECTORY: u8 = b'd';
    const OTHER: u8 = b'-';

    fn push(&mut self, name: &CStr, is_directory: bool) {
        self.0.extend(name.to_bytes_with_nul());
        self.0.push(if is_directory { Self::DIRECTORY } else { Self::OTHER });
    }

    fn pop(&mut self) -> Option<Entry> {
        let is_directory = self.0.pop()? == Self::DIRECTORY;
        self.0.pop();
        // Behind the kind of the entry before, which stands behind a NUL.
        let from = self.0.iter().rposition(|&byte| byte == 0).map_or(0, |nul| nul + 2);
        let name = CString::new(self.0.split_off(from)).ok()?;
        Some(Entry { name, is_directory })
    }
}

/// A directory on the way down to what is removed.
struct Level {
    entry: Entry,
    id: FileId,
    left: Entries,
    removed: Removed,
}

/// The entries of a directory, by a descriptor of their own: the directory's position stays.
fn entries(dir: BorrowedFd<'_>) -> io::Result<Entries> {
    // A description of its own: listing moves a position that the copy also uses.
    let own = enter(dir, c".")?;
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
                // Some file systems do not tell kinds in a listing (readdir(3)).
                look(dir, name).is_ok_and(|stat| kind(&stat) == FileType::Directory)
            }
            known => known == FileType::Directory,
        };
        entries.push(name, is_directory);
    }
    Ok(entries)
}

fn enter(above: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    open_directory(above, name, OFlags::RDONLY)
}

fn open_directory(above: BorrowedFd<'_>, name: &CStr, how: OFlags) -> io::Result<OwnedFd> {
    let name = Path::new(OsStr::from_bytes(name.to_bytes()));
    Place::below(above, name, name).open(how | OFlags::DIRECTORY | OFlags::NOFOLLOW, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

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

    /// A stop is heeded between two names of one directory, however much is in there.
    #[test]
    fn a_stop_ends_the_removal_in_the_middle_of_a_directory() {
        const FILES: usize = 20;
        const QUESTIONS_BEFORE_THE_STOP: usize = 5;
        let dir = tempfile::tempdir().unwrap();
        let old = dir.path().join("target/old");
        std::fs::create_dir_all(&old).unwrap();
        std::fs::create_dir(dir.path().join("source")).unwrap();
        (0..FILES).for_each(|file| std::fs::write(old.join(file.to_string()), "").unwrap());
        let open = |name| {
            let path = dir.path().join(name);
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            Place::here(&path).open(flags, Mode::empty()).unwrap()
        };
        let pair = Pair::new((open("source"), true), (open("target"), true));
        let stat = fs::fstat(pair.target()).unwrap();
        let questions = Cell::new(0);
        let mirror = Mirror {
            pair: &pair,
            limits: &Limits::new(pair.target(), &stat, HashSet::new()),
            is_in_source: false,
            is_dry: false,
            doubts: &|_| {},
            is_protected: &|_, _| false,
            is_stopped: &|| questions.replace(questions.get() + 1) >= QUESTIONS_BEFORE_THE_STOP,
        };
        mirror.run(&mut Shown::new(&dir.path().join("target")), |path, result| {
            panic!("told of as removed or not: {}, {result:?}", path.display());
        });
        // One question comes before the directory itself.
        let left = std::fs::read_dir(old).unwrap().count();
        assert_eq!(left, FILES - (QUESTIONS_BEFORE_THE_STOP - 1));
    }
}
