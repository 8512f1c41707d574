//! Hints for the user when a target cannot be written, removed or renamed.

use std::borrow::Cow;

use gush_text::{Doing, mkdir_remedy};
use rustix::fs::{self, AtFlags, Mode, Statx, StatxAttributes, StatxFlags};
use rustix::io::{self, Errno, retry_on_intr};
use rustix::process;

use crate::error::Error;
use crate::place::Place;
use crate::rehearsal;

/// The error of a target that cannot be removed or renamed.
pub(crate) fn not_changed(
    place: &Place<'_>,
    what: impl Into<Cow<'static, str>>,
    errno: Errno,
) -> Error {
    hinted(Error::os(place.shown, what, errno), place, Doing::Removing, errno)
}

fn hinted(error: Error, place: &Place<'_>, doing: Doing, errno: Errno) -> Error {
    match gush_text::remedy_at(place.dir, place.name, doing, errno) {
        Some(remedy) => error.hinting(remedy),
        None => error,
    }
}

/// The error of a target that cannot be made, and is no directory.
pub(crate) fn not_made(
    place: &Place<'_>,
    what: impl Into<Cow<'static, str>>,
    errno: Errno,
) -> Error {
    let without_slash = Place { name: place.name.components().as_path(), ..*place };
    let is_lacking = || matches!(without_slash.stat(false), Err(Errno::NOENT));
    match errno {
        // `cp a no/d/` wants the directory d.
        Errno::NOENT | Errno::NOTDIR if place.must_be_directory() && is_lacking() => {
            let remedy = match errno {
                Errno::NOTDIR => format!("it does not exist: {}", mkdir_remedy(place.shown)),
                _ => mkdir_remedy(place.shown),
            };
            Error::os(place.shown, what, errno).hinting(remedy)
        }
        _ => not_made_below(place, what, errno),
    }
}

/// The error of a directory that cannot be made.
pub(crate) fn directory_not_made(place: &Place<'_>, errno: Errno) -> Error {
    not_made_below(place, "cannot create directory {}", errno)
}

fn not_made_below(place: &Place<'_>, what: impl Into<Cow<'static, str>>, errno: Errno) -> Error {
    let error = Error::os(place.shown, what, errno);
    let above = Place { name: place.parent(), ..*place };
    // mkdir(2) refuses the name of a symbolic link that leads nowhere.
    let lacks_directory = || matches!(above.stat(false), Err(Errno::NOENT));
    match place.shown.parent() {
        Some(shown) if errno == Errno::NOENT && lacks_directory() => {
            error.hinting(mkdir_remedy(shown))
        }
        _ => hinted(error, place, Doing::Making, errno),
    }
}

/// The error of a target in a tree that is a symbolic link out of this tree.
pub(crate) fn out_of_bounds(place: &Place<'_>) -> Error {
    Error::refusal(place.shown, "not writing through {}, a symbolic link out of the target's tree")
        .hinting("--remove-destination replaces the link, --no-confine follows it")
}

/// A hint for a file that cannot be opened for writing; `-f` only if `-f` could remove the file.
pub(crate) fn for_writing(place: &Place<'_>, errno: Errno) -> Option<&'static str> {
    let remedy = |errno| gush_text::remedy_at(place.dir, place.name, Doing::Opening, errno);
    let file = about(place, AtFlags::empty()).ok()?;
    match has_attribute(&file) {
        true => remedy(Errno::PERM),
        false if rehearsal::may_be_removed(place).is_ok() => Some("-f replaces it"),
        false => remedy(errno),
    }
}

/// Does the directory keep each name that is made there, by the attribute `a` of chattr(1)?
pub(crate) fn keeps_names(place: &Place<'_>) -> bool {
    let directory = Place { name: place.parent(), ..*place };
    // A kernel without statx(2) reports no attributes.
    about(&directory, AtFlags::empty())
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::APPEND))
}

/// Refuses a name that is to be removed after the copy, in a directory that keeps it.
pub(crate) fn refuse_kept(place: &Place<'_>) -> Result<(), Error> {
    match keeps_names(place) {
        true => Err(not_changed(place, "cannot remove {} after the copy", Errno::PERM)),
        false => Ok(()),
    }
}

/// Does the directory or an attribute of the file keep the name, where the directory may be
/// written?
pub(crate) fn is_kept(place: &Place<'_>) -> io::Result<bool> {
    let file = place.stat(false)?;
    let directory = Place { name: place.parent(), ..*place }.stat(true)?;
    let user = process::geteuid();
    let is_sticky = Mode::from_raw_mode(directory.st_mode).contains(Mode::SVTX);
    let owns = [directory.st_uid, file.st_uid].contains(&user.as_raw()) || user.is_root();
    // A kernel without statx(2) reports no attributes.
    let has_flag =
        || about(place, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|file| has_attribute(&file));
    Ok(is_sticky && !owns || has_flag() || keeps_names(place))
}

/// Is something mounted at the name, a file perhaps?
pub(crate) fn is_mount(place: &Place<'_>) -> bool {
    // A kernel before 5.8 reports no mounts.
    about(place, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Has the file an attribute of chattr(1) against which even root cannot write?
fn has_attribute(file: &Statx) -> bool {
    file.stx_attributes.intersects(StatxAttributes::IMMUTABLE | StatxAttributes::APPEND)
}

fn about(place: &Place<'_>, flags: AtFlags) -> io::Result<Statx> {
    retry_on_intr(|| fs::statx(place.dir, place.name, flags, StatxFlags::BASIC_STATS))
}
