//! Hints for the user when a target cannot be written, removed or renamed.

use std::borrow::Cow;

use rustix::fs::{self, AtFlags, Mode, Statx, StatxAttributes, StatxFlags};
use rustix::io::{self, Errno, retry_on_intr};
use rustix::process;

use crate::error::Error;
use crate::place::Place;
use crate::{quote, rehearsal};

/// The error of a target that cannot be removed or renamed.
pub(crate) fn not_changed(
    place: &Place<'_>,
    what: impl Into<Cow<'static, str>>,
    errno: Errno,
) -> Error {
    let error = Error::os(place.shown, what, errno);
    match flag_in_the_way(place, errno) {
        Some(remedy) => error.hinting(remedy),
        None => error,
    }
}

fn flag_in_the_way(place: &Place<'_>, errno: Errno) -> Option<&'static str> {
    match errno {
        // unlink(2) and rename(2) act on a link, not on the file behind it.
        Errno::PERM => {
            let of_file = about(place, AtFlags::SYMLINK_NOFOLLOW).ok().and_then(|file| flag(&file));
            of_file.or_else(|| keeps_names(place).then_some(NAMES_STAY))
        }
        _ => None,
    }
}

/// The error of a target that cannot be made.
pub(crate) fn not_made(
    place: &Place<'_>,
    what: impl Into<Cow<'static, str>>,
    errno: Errno,
) -> Error {
    let error = Error::os(place.shown, what, errno);
    let above = Place { name: place.parent(), ..*place };
    // mkdir(2) refuses the name of a symbolic link that leads nowhere.
    let lacks_directory = || matches!(above.stat(false), Err(Errno::NOENT));
    match place.shown.parent() {
        Some(shown) if errno == Errno::NOENT && lacks_directory() => {
            error.hinting(format!("mkdir -p {} makes the directory", quote::always(shown)))
        }
        // A name that a rename was to give away.
        _ => match flag_in_the_way(place, errno) {
            Some(remedy) => error.hinting(remedy),
            None => error,
        },
    }
}

/// The error of a target in a tree that is a symbolic link out of this tree.
pub(crate) fn out_of_bounds(place: &Place<'_>) -> Error {
    Error::refusal(place.shown, "not written through a symbolic link out of the target's tree")
        .hinting("--remove-destination replaces the link, --no-confine follows it")
}

/// A hint for a file that cannot be opened for writing; `-f` only if `-f` could remove the file.
pub(crate) fn for_writing(place: &Place<'_>) -> Option<&'static str> {
    let file = about(place, AtFlags::empty()).ok()?;
    if let Some(remedy) = flag(&file) {
        return Some(remedy);
    }
    rehearsal::may_be_removed(place).is_ok().then_some("-f replaces it")
}

const NAMES_STAY: &str =
    "the directory is append-only, and keeps each name: chattr -a removes this attribute";

/// Does the directory keep each name that is made there, by the attribute `a` of chattr(1)?
pub(crate) fn keeps_names(place: &Place<'_>) -> bool {
    let directory = Place { name: place.parent(), ..*place };
    // A kernel without statx(2) tells no attributes.
    about(&directory, AtFlags::empty())
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::APPEND))
}

/// Does the directory or an attribute of the file keep the name, where the directory may be written?
pub(crate) fn is_kept(place: &Place<'_>) -> io::Result<bool> {
    let file = place.stat(false)?;
    let directory = Place { name: place.parent(), ..*place }.stat(true)?;
    let user = process::geteuid();
    let is_sticky = Mode::from_raw_mode(directory.st_mode).contains(Mode::SVTX);
    let owns = [directory.st_uid, file.st_uid].contains(&user.as_raw()) || user.is_root();
    // A kernel without statx(2) tells no attributes.
    let has_flag =
        || about(place, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|file| flag(&file).is_some());
    Ok(is_sticky && !owns || has_flag())
}

/// The hint for a file with an attribute of chattr(1) against which even root cannot write.
fn flag(file: &Statx) -> Option<&'static str> {
    const REMEDIES: [(StatxAttributes, &str); 2] = [
        (StatxAttributes::IMMUTABLE, "the file is immutable: chattr -i removes this attribute"),
        (StatxAttributes::APPEND, "the file is append-only: chattr -a removes this attribute"),
    ];
    let set = |(flag, _): &&(StatxAttributes, &str)| file.stx_attributes.contains(*flag);
    REMEDIES.iter().find(set).map(|(_, remedy)| *remedy)
}

fn about(place: &Place<'_>, flags: AtFlags) -> io::Result<Statx> {
    retry_on_intr(|| fs::statx(place.dir, place.name, flags, StatxFlags::BASIC_STATS))
}
