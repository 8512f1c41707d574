//! What a dry run says of a copy that would be refused: it looks, opens nothing for writing, and
//! makes nothing.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{self, Access, AtFlags, FileType};
use rustix::io::{self, Errno, retry_on_intr};

use crate::error::Error;
use crate::options::CopyOptions;
use crate::place::Place;
use crate::{open, remedy};

fn may(place: &Place<'_>, access: Access) -> io::Result<()> {
    let ask = |flags| retry_on_intr(|| fs::accessat(place.dir, place.name, access, flags));
    // EACCESS asks for the effective user, who copies.
    match ask(AtFlags::EACCESS) {
        // A filter that does not know faccessat2(2), or an immutable file: faccessat(2) decides.
        Err(Errno::PERM) => ask(AtFlags::empty()),
        // Before Linux 5.8, of another user than the real one.
        Err(Errno::NOSYS) => Ok(()),
        other => other,
    }
}

/// May this directory be listed and changed?
pub(crate) fn may_change(dir: BorrowedFd<'_>) -> bool {
    let here = Path::new(".");
    let all = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    may(&Place::below(dir, here, here), all).is_ok()
}

/// May a name be added to the directory of `target`?
///
/// # Errors
/// ENOENT for a missing directory, ENOTDIR below a file, EACCES, EPERM or EROFS where nothing can
/// be made.
pub(crate) fn may_be_made(target: &Place<'_>) -> io::Result<()> {
    // Nothing has this name, so that the directory that `.` would be in is missing.
    if target.name.as_os_str().as_bytes().ends_with(b"/.") && target.stat(false).is_err() {
        return Err(Errno::NOENT);
    }
    let above = Place { name: target.parent(), ..*target };
    may(&above, Access::WRITE_OK | Access::EXEC_OK)
}

/// May the name `target` be removed, or given to another file?
///
/// # Errors
/// Those of [`may_be_made`], EPERM for another's file in a sticky directory, for an immutable file
/// and in an append-only directory, and EBUSY for a mount.
pub(crate) fn may_be_removed(target: &Place<'_>) -> io::Result<()> {
    may_be_made(target)?;
    match (remedy::is_kept(target)?, remedy::is_mount(target)) {
        (true, _) => Err(Errno::PERM),
        (_, true) => Err(Errno::BUSY),
        _ => Ok(()),
    }
}

/// The name that a dangling link leads to.
fn end_of_dangling(target: &Place<'_>) -> io::Result<PathBuf> {
    // The kernel follows no more (path_resolution(7)).
    const MOST_LINKS: usize = 40;
    let mut end = target.name.to_path_buf();
    for _ in 0..MOST_LINKS {
        let link = Place { name: &end, ..*target };
        match retry_on_intr(|| fs::readlinkat(link.dir, link.name, Vec::new())) {
            Ok(text) => end = link.parent().join(OsStr::from_bytes(text.to_bytes())),
            Err(Errno::NOENT | Errno::INVAL) => return Ok(end),
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::LOOP)
}

/// Refuses a source that could not be read.
pub(crate) fn refuse_unreadable(source: &Place<'_>, source_kind: FileType) -> Result<(), Error> {
    // Failures of a FIFO or device only show in the copy.
    if source_kind != FileType::RegularFile {
        return Ok(());
    }
    may(source, Access::READ_OK)
        .map_err(|errno| open::not_opened(source, "cannot open {} for reading", errno))
}

/// Refuses a target with a free name, or a dangling link there, that could not be made.
/// `cannot_make` has the words of the copy.
pub(crate) fn refuse_new(
    options: &CopyOptions,
    target: &Place<'_>,
    cannot_make: impl Fn(Errno) -> Error,
    is_read: bool,
) -> Result<(), Error> {
    let cannot = |errno| match is_read && options.atomic {
        true => open::cannot_replace(options, target, false, errno),
        false => cannot_make(errno),
    };
    if is_read && open::is_link(target) {
        if options.atomic || !options.through_dangling {
            return Err(open::dangling(target));
        }
        let end = end_of_dangling(target).map_err(cannot)?;
        return may_be_made(&Place { name: &end, ..*target }).map_err(cannot);
    }
    may_be_made(target).map_err(cannot)?;
    match target.must_be_directory() {
        true => Err(cannot(Errno::NOTDIR)),
        false => Ok(()),
    }
}

/// Refuses a file that could not be written in place.
pub(crate) fn refuse_unwritable(target: &Place<'_>) -> Result<(), Error> {
    may(target, Access::WRITE_OK).map_err(|errno| open::cannot_write(target, errno))
}
