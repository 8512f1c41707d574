//! A directory held by a descriptor, and the ways from one to another that no swap of a name leads
//! elsewhere.

use std::ffi::{CStr, OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{self, Mode, OFlags, Stat};
use rustix::io::{self, Errno, retry_on_intr};

use crate::error::Error;
use crate::metadata::Handle;
use crate::place::{FileId, Place, REPLACED, same_file, stat_of, still};

/// An open directory.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) fd: OwnedFd,
    /// `false` where it could be held by `O_PATH` alone: its entries cannot be read.
    pub(crate) is_readable: bool,
}

impl AsFd for Held {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Held {
    /// Opens a directory for reading, or by `O_PATH` where reading is not permitted.
    pub(crate) fn open(place: &Place<'_>, follow: bool) -> io::Result<Self> {
        let no_follow = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = OFlags::DIRECTORY | no_follow;
        match place.open(OFlags::RDONLY | flags, Mode::empty()) {
            Ok(fd) => Ok(Self { fd, is_readable: true }),
            Err(Errno::ACCESS | Errno::PERM) => {
                // A directory that cannot be listed may still be entered, and be given attributes.
                let fd = place.open(OFlags::PATH | flags, Mode::empty())?;
                Ok(Self { fd, is_readable: false })
            }
            Err(errno) => Err(errno),
        }
    }

    /// As [`open`](Self::open), of a directory that messages show.
    pub(crate) fn find(place: &Place<'_>, follow: bool) -> Result<(Self, Stat), Error> {
        let held = Self::open(place, follow)
            .map_err(|errno| Error::os(place.shown, "cannot open directory {}", errno))?;
        let stat = stat_of(&held, place.shown)?;
        Ok((held, stat))
    }

    /// Opens a directory of the source that was looked at before.
    pub(super) fn find_same(source: &Place<'_>, stat: &Stat, follow: bool) -> Result<Self, Error> {
        let held = Self::open(source, follow).map_err(|errno| {
            let is_same = || source.stat(follow).is_ok_and(|found| same_file(&found, stat));
            match errno {
                // A file or a symbolic link has the name.
                Errno::NOTDIR | Errno::LOOP if !is_same() => Error::refusal(source.shown, REPLACED),
                errno => Error::os(source.shown, "cannot open directory {}", errno),
            }
        })?;
        still(&held, stat, source.shown)?;
        Ok(held)
    }

    /// Opens the directory that was `expected`, or fails with ESTALE.
    pub(crate) fn again(
        above: impl AsFd,
        name: &OsStr,
        follow: bool,
        expected: FileId,
    ) -> io::Result<Self> {
        let name = Path::new(name);
        let held = Self::open(&Place::below(above.as_fd(), name, name), follow)?;
        let found = retry_on_intr(|| fs::fstat(&held))?;
        match FileId::of(&found) == expected {
            true => Ok(held),
            // Another directory has the name by now: nothing of ours may go there.
            false => Err(Errno::STALE),
        }
    }

    /// Stands for a directory that a dry run does not make: below a character device every lookup
    /// fails with ENOTDIR.
    pub(crate) fn nowhere() -> io::Result<Self> {
        let place = Path::new("/dev/null");
        let fd = Place::here(place).open(OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())?;
        Ok(Self { fd, is_readable: false })
    }

    /// The same directory by a descriptor that no other thread uses, to reach files by.
    pub(super) fn to_reach_files(&self) -> io::Result<Self> {
        let here = Path::new(".");
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let fd = Place::below(self.as_fd(), here, here).open(flags, Mode::empty())?;
        Ok(Self { fd, is_readable: false })
    }

    pub(crate) fn handle(&self) -> Handle<'_> {
        match self.is_readable {
            true => Handle::Open(self.as_fd()),
            false => Handle::Pinned { fd: self.as_fd(), is_link: false },
        }
    }
}

/// Opens a directory for reading, and no link.
pub(super) fn enter(above: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let name = Path::new(OsStr::from_bytes(name.to_bytes()));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    Place::below(above, name, name).open(flags, Mode::empty())
}

/// The directory above, or ESTALE if this one was moved elsewhere.
pub(super) fn up(from: BorrowedFd<'_>, expected: FileId) -> io::Result<OwnedFd> {
    Held::again(from, OsStr::new(".."), false, expected).map(|held| held.fd)
}

/// One step down to the target of a directory.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: OsString,
    pub(crate) follow: bool,
    pub(crate) expected: FileId,
}

/// Opens a directory again from one above it. The last step comes first. `None` is `from` itself.
///
/// # Errors
/// ESTALE if another directory has a name by now.
pub(crate) fn descend(from: BorrowedFd<'_>, steps: &[Step]) -> io::Result<Option<Held>> {
    let mut reached: Option<Held> = None;
    for Step { name, follow, expected } in steps.iter().rev() {
        let above = reached.as_ref().map_or(from, AsFd::as_fd);
        reached = Some(Held::again(above, name, *follow, *expected)?);
    }
    Ok(reached)
}

/// The error about an entry whose directory could not be reopened.
pub(crate) fn lost(shown: &Path, errno: Errno) -> Error {
    match errno {
        Errno::STALE => Error::refusal(
            shown,
            "not copying {}: its directory was moved or replaced while being copied",
        ),
        errno => Error::os(shown, "cannot open the directory of {} again", errno),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_took_the_name_of_a_directory_is_told_as_a_replacement() {
        let dir = tempfile::tempdir().unwrap();
        let [name, elsewhere] = ["name", "elsewhere"].map(|name| dir.path().join(name));
        std::fs::create_dir(&name).unwrap();
        let stat = Place::here(&name).stat(false).unwrap();
        std::fs::rename(&name, &elsewhere).unwrap();
        let said = || Held::find_same(&Place::here(&name), &stat, false).unwrap_err().to_string();
        symlink(&elsewhere, &name).unwrap();
        assert!(said().contains("as it was replaced"), "{}", said());
        std::fs::remove_file(&name).unwrap();
        std::fs::write(&name, "").unwrap();
        assert!(said().contains("as it was replaced"), "{}", said());
    }
}
