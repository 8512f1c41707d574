//! Hints for the user when a target cannot be written, removed or renamed.

use std::borrow::Cow;

use rustix::fs::{self, Access, AtFlags, Mode, Statx, StatxAttributes, StatxFlags};
use rustix::io::{self, Errno, retry_on_intr};
use rustix::process;

use crate::error::Error;
use crate::place::Place;
use crate::quote;

/// The error of a target that cannot be removed or renamed.
pub(crate) fn not_changed(
    place: &Place<'_>,
    what: impl Into<Cow<'static, str>>,
    errno: Errno,
) -> Error {
    let error = Error::os(place.shown, what, errno);
    let remedy = match errno {
        // unlink(2) and rename(2) act on a link, not on the file behind it.
        Errno::PERM => about(place, AtFlags::SYMLINK_NOFOLLOW).ok().and_then(|file| flag(&file)),
        _ => None,
    };
    match remedy {
        Some(remedy) => error.hinting(remedy),
        None => error,
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
        _ => error,
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
    let parent = Place { name: place.parent(), ..*place };
    let (access, user) = (Access::WRITE_OK | Access::EXEC_OK, process::geteuid());
    let may_change =
        retry_on_intr(|| fs::accessat(parent.dir, parent.name, access, AtFlags::EACCESS)).is_ok();
    let directory = parent.stat(true).ok()?;
    let is_sticky = Mode::from_raw_mode(directory.st_mode).contains(Mode::SVTX);
    let owns = [directory.st_uid, file.stx_uid].contains(&user.as_raw());
    (may_change && (!is_sticky || owns || user.is_root())).then_some("-f replaces it")
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
