//! A name in an open directory, and the system calls on this name.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use gush_text::fd_path;
use rustix::fs::{
    self, AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat, StatxFlags,
};
use rustix::io::{self, Errno, retry_on_intr};

use crate::beneath;
use crate::error::Error;
use crate::tree::journal::Journal;

/// A file's present or future place: a name below a directory, and the path as the user wrote it.
///
/// System calls go through the directory's descriptor, so renaming the directory meanwhile changes
/// nothing. Messages show [`shown`](Self::shown).
///
/// ```
/// use std::path::Path;
/// let place = gush_tree::Place::here(Path::new("notes.txt"));
/// assert_eq!(place.shown, Path::new("notes.txt"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The directory that a relative `name` starts from.
    pub dir: BorrowedFd<'a>,
    /// The name, relative to `dir` unless absolute.
    pub name: &'a Path,
    /// The path as the user wrote it.
    pub shown: &'a Path,
    /// In a tree: what a symbolic link with this name may not lead out of.
    pub(crate) bounds: Option<Bounds<'a>>,
    /// In the target of a copy with a journal: it has the mark of this copy's temporary names.
    pub(crate) journal: Option<&'a Journal>,
}

/// The root of a tree, and the path from there to one entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds<'a> {
    pub(crate) root: BorrowedFd<'a>,
    pub(crate) path: &'a Path,
}

impl Bounds<'_> {
    /// Opens the entry and follows its links, as long as none of them leads out of the root.
    fn open(&self, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        // The kernel answers EAGAIN where a rename anywhere leaves it in doubt about `..`
        // (openat2(2)).
        const MOST_TRIES: usize = 1000;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let mut tries = 0;
        loop {
            match retry_on_intr(|| fs::openat2(self.root, self.path, flags, mode, resolve)) {
                Err(Errno::AGAIN) if tries < MOST_TRIES => tries += 1,
                // Before Linux 5.6, or denied by a filter on calls. A true refusal comes again.
                Err(Errno::NOSYS | Errno::PERM | Errno::ACCESS) => {
                    return beneath::open(self.root, self.path, flags, mode);
                }
                other => return other,
            }
        }
    }
}

/// A file's identity under all its names: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileId {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl FileId {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }
}

pub(crate) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// The id of the mount that a name is reached by, from Linux 5.8 on.
pub(crate) fn mount_of(
    dir: BorrowedFd<'_>,
    name: impl rustix::path::Arg + Copy,
    flags: AtFlags,
) -> Option<u64> {
    let look = || fs::statx(dir, name, flags, StatxFlags::MNT_ID);
    let found = retry_on_intr(look).ok()?;
    // Kernels before 5.8 leave the field 0, and say so by the mask.
    (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id)
}

/// A new file can have the number of one that was removed, and another kind.
pub(crate) fn same_file(a: &Stat, b: &Stat) -> bool {
    FileId::of(a) == FileId::of(b) && kind(a) == kind(b)
}

/// The refusal of an entry of the source that is not the one looked at before.
pub(crate) const REPLACED: &str = "skipping file {}, as it was replaced while being copied";

/// fstat(2) of an open file, which messages show by this path.
pub(crate) fn stat_of(fd: impl AsFd, shown: &Path) -> Result<Stat, Error> {
    retry_on_intr(|| fs::fstat(&fd)).map_err(|errno| Error::os(shown, "cannot stat {}", errno))
}

/// As [`stat_of`], of an entry of the source that was `expected` by a look at its name.
pub(crate) fn still(fd: impl AsFd, expected: &Stat, shown: &Path) -> Result<Stat, Error> {
    let stat = stat_of(fd, shown)?;
    match same_file(&stat, expected) {
        true => Ok(stat),
        false => Err(Error::refusal(shown, REPLACED)),
    }
}

/// Opens the directory that holds the last name of a path, one name after the other, whose links
/// `flags` may refuse; `None` is `root` itself. One directory is open at a time: a path may be
/// longer than PATH_MAX, and have more directories than a process has descriptors.
///
/// # Errors
/// Those of openat(2).
pub fn open_above(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<Option<OwnedFd>> {
    let mut above: Option<OwnedFd> = None;
    for name in path.parent().into_iter().flatten() {
        let from = above.as_ref().map_or(root, AsFd::as_fd);
        let place = Place::below(from, Path::new(name), path);
        above = Some(place.open(OFlags::PATH | OFlags::DIRECTORY | flags, Mode::empty())?);
    }
    Ok(above)
}

impl<'a> Place<'a> {
    /// A path that starts from the current directory, or from the root.
    #[must_use]
    pub fn here(path: &'a Path) -> Self {
        Self::below(CWD, path, path)
    }

    /// A name below an open directory.
    ///
    /// ```
    /// use std::{fs::File, os::fd::AsFd, path::Path};
    /// use gush_tree::Place;
    ///
    /// let etc = File::open("/etc")?;
    /// let place = Place::below(etc.as_fd(), Path::new("passwd"), Path::new("/etc/passwd"));
    /// assert_eq!(place.name, Path::new("passwd"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn below(dir: BorrowedFd<'a>, name: &'a Path, shown: &'a Path) -> Self {
        Self { dir, name, shown, bounds: None, journal: None }
    }

    pub(crate) fn stat(&self, follow: bool) -> io::Result<Stat> {
        let look = |flags| retry_on_intr(|| fs::statat(self.dir, self.name, flags));
        match self.bounds.filter(|_| follow) {
            // Most names are no links, and one call less for each of them counts in a tree.
            Some(bounds) => match look(AtFlags::SYMLINK_NOFOLLOW)? {
                link if kind(&link) == FileType::Symlink => {
                    let end = bounds.open(OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
                    retry_on_intr(|| fs::fstat(&end))
                }
                found => Ok(found),
            },
            None if follow => look(AtFlags::empty()),
            None => look(AtFlags::SYMLINK_NOFOLLOW),
        }
    }

    /// As [`stat`](Self::stat), with the error that the user reads.
    pub(crate) fn look(&self, follow: bool) -> Result<Stat, Error> {
        self.stat(follow).map_err(|errno| Error::os(self.shown, "cannot stat {}", errno))
    }

    /// What has the name, if anything has.
    pub(crate) fn find(&self, follow: bool) -> Result<Option<Stat>, Error> {
        let found = match self.stat(follow) {
            Err(Errno::NOENT) => return Ok(None),
            found => found,
        };
        found.map(Some).map_err(|errno| Error::os(self.shown, "cannot stat {}", errno))
    }

    pub(crate) fn open(&self, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
        let open = |flags| retry_on_intr(|| fs::openat(self.dir, self.name, flags, mode));
        match self.bounds.filter(|_| !flags.contains(OFlags::NOFOLLOW)) {
            // O_PATH with O_NOFOLLOW opens a link itself. With O_PATH openat2(2) refuses
            // O_NOCTTY, which open(2) passes over.
            Some(bounds) if flags.contains(OFlags::PATH) => {
                bounds.open(flags - OFlags::NOCTTY, mode)
            }
            // Most names are no links. Of one, O_DIRECTORY says that it is no directory.
            Some(bounds) => match open(flags | OFlags::NOFOLLOW) {
                Err(Errno::LOOP) => bounds.open(flags, mode),
                Err(Errno::NOTDIR) if flags.contains(OFlags::DIRECTORY) => bounds.open(flags, mode),
                opened => opened,
            },
            None => open(flags),
        }
    }

    /// Opens a file that should be a regular one, without waiting for the other side of a FIFO that
    /// took the name. A lease of another process (fcntl(2), F_SETLEASE) is waited for, as by
    /// open(2) without O_NONBLOCK.
    ///
    /// # Errors
    /// EAGAIN for a file under a lease where /proc is not mounted.
    pub(crate) fn open_regular(&self, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        match self.open(flags | OFlags::NONBLOCK, mode) {
            Err(Errno::AGAIN) => self.open_leased(flags),
            opened => opened,
        }
    }

    /// Opens a regular file and waits for its lease. The file is pinned and known to be regular
    /// before anything can wait: by its name, a FIFO may have come meanwhile.
    fn open_leased(&self, flags: OFlags) -> io::Result<OwnedFd> {
        let pinned = self.open(OFlags::PATH | (flags & OFlags::NOFOLLOW), Mode::empty())?;
        if kind(&retry_on_intr(|| fs::fstat(&pinned))?) != FileType::RegularFile {
            return Err(Errno::AGAIN);
        }
        let path = proc_path(pinned.as_fd());
        // The path under /proc is itself a link.
        let flags = (flags - OFlags::NOFOLLOW - OFlags::CREATE) | OFlags::CLOEXEC;
        match retry_on_intr(|| fs::openat(CWD, &path, flags, Mode::empty())) {
            Err(Errno::NOENT) => Err(Errno::AGAIN),
            opened => opened,
        }
    }

    pub(crate) fn unlink(&self) -> io::Result<()> {
        retry_on_intr(|| fs::unlinkat(self.dir, self.name, AtFlags::empty()))
    }

    /// Renames onto another name below the same directory.
    pub(crate) fn rename_to(&self, name: &Path) -> io::Result<()> {
        retry_on_intr(|| fs::renameat(self.dir, self.name, self.dir, name))
    }

    /// Renames to a free name in this directory; never replaces a file that appears there.
    pub(crate) fn rename_to_new(&self, name: &Path) -> io::Result<()> {
        self.move_to_new(&Place { name, ..*self })
    }

    /// As [`rename_to_new`](Self::rename_to_new), in another directory of the same file system.
    pub(crate) fn move_to_new(&self, new: &Place<'_>) -> io::Result<()> {
        let rename =
            || fs::renameat_with(self.dir, self.name, new.dir, new.name, RenameFlags::NOREPLACE);
        match retry_on_intr(rename) {
            // NFS, and FUSE file systems without support for RENAME_NOREPLACE (rename(2)).
            Err(Errno::INVAL | Errno::NOSYS) => self.link_then_unlink(new),
            other => other,
        }
    }

    /// link(2) fails if the name is taken, as RENAME_NOREPLACE does.
    fn link_then_unlink(&self, new: &Place<'_>) -> io::Result<()> {
        let link = || fs::linkat(self.dir, self.name, new.dir, new.name, AtFlags::empty());
        let renamed = match retry_on_intr(link) {
            Ok(()) => match self.unlink() {
                // Another process removed the old name first: the new name may be the file's last.
                Err(Errno::NOENT) => return Ok(()),
                unlinked => unlinked,
            },
            // No hard links here: an empty file reserves the name, and the rename replaces it.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK) => {
                new.open(OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, Mode::empty())?;
                retry_on_intr(|| fs::renameat(self.dir, self.name, new.dir, new.name))
            }
            Err(errno) => return Err(errno),
        };
        if renamed.is_err() {
            let _ = new.unlink();
        }
        renamed
    }

    /// Opens the entry, or with `follow` the file at the end of its links, with O_PATH.
    pub(crate) fn pin(&self, follow: bool) -> io::Result<OwnedFd> {
        let flags = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        self.open(OFlags::PATH | flags, Mode::empty())
    }

    /// A name in the same directory. The last component must exist.
    pub(crate) fn sibling(&self, name: &OsStr) -> PathBuf {
        self.name.with_file_name(name)
    }

    /// The name of the directory that holds the last component.
    pub(crate) fn parent(&self) -> &'a Path {
        match self.name.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }

    /// Does the name end in a slash, as only a directory's can?
    pub(crate) fn must_be_directory(&self) -> bool {
        self.name.as_os_str().as_bytes().ends_with(b"/")
    }

    pub(crate) fn open_parent(&self) -> io::Result<OwnedFd> {
        Place::below(self.dir, self.parent(), self.shown)
            .open(OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
    }

    /// Are the two places spellings of one directory entry?
    pub(crate) fn is_same_entry(&self, other: &Place<'_>) -> bool {
        let parent_id = |place: &Place<'_>| -> Result<FileId, Errno> {
            let parent = Place::below(place.dir, place.parent(), place.shown);
            parent.stat(true).map(|stat| FileId::of(&stat))
        };
        self.name.file_name() == other.name.file_name()
            && matches!((parent_id(self), parent_id(other)), (Ok(a), Ok(b)) if a == b)
    }
}

/// The `/proc` path of a descriptor: by this path, calls that take only paths reach exactly this
/// file.
pub(crate) fn proc_path(fd: BorrowedFd<'_>) -> String {
    fd_path(fd.as_raw_fd())
}
