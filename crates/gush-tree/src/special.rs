//! Symbolic links, FIFOs, sockets and devices: made anew, or refused, instead of read.

use std::os::fd::OwnedFd;

use rustix::fs::{self, FileType, Mode, Stat};
use rustix::io::{Errno, retry_on_intr};
use rustix::path::Arg;

use crate::error::Error;
use crate::file::pin;
use crate::options::Preserve;
use crate::place::{Place, kind};
use crate::{links, remedy};

/// A symbolic link or special file just made, held by `O_PATH`.
pub(crate) struct Made {
    pub(crate) fd: OwnedFd,
    pub(crate) stat: Stat,
    /// The permission bits still missing.
    pub(crate) withheld: u32,
}

/// Makes a symbolic link with this text, or a special file.
pub(crate) fn make(
    target: &Place<'_>,
    (mode, device): (u32, u64),
    text: impl Arg + Copy,
    preserve: &Preserve,
    may_replace: bool,
) -> Result<Made, Error> {
    let made_kind = FileType::from_raw_mode(mode);
    let withheld = match made_kind {
        FileType::Symlink => 0,
        _ if preserve.owner => mode & 0o077,
        _ => 0,
    };
    let bits = Mode::from_bits_retain(mode & 0o7777 & !withheld);
    let make = |place: &Place<'_>| {
        retry_on_intr(|| match made_kind {
            FileType::Symlink => fs::symlinkat(text, place.dir, place.name),
            _ => fs::mknodat(place.dir, place.name, made_kind, bits, device),
        })
    };
    links::make(target, may_replace, make).map_err(|errno| not_made(target, made_kind, errno))?;
    // The new entry has one name. A file that took this name meanwhile keeps its own metadata.
    let replaced = "got no attributes: another file took the name after the copy";
    let (fd, stat) = pin(*target, false, replaced, |found| {
        (kind(found), found.st_rdev, found.st_nlink) == (made_kind, device, 1)
    })?;
    Ok(Made { fd, stat, withheld })
}

/// # Errors
/// The source is a FIFO, socket or device. The text is that of Python's `shutil`.
pub(crate) fn refuse(source: &Place<'_>, kind: FileType) -> Result<(), Error> {
    let what = match kind {
        FileType::Fifo => "named pipe",
        FileType::Socket => "socket",
        FileType::BlockDevice => "block device",
        FileType::CharacterDevice => "character device",
        _ => return Ok(()),
    };
    let text = format!("`{}` is a {what}", source.shown.display());
    Err(Error::about_both(source.shown, text))
}

/// The error of a symbolic link or special file that cannot be made.
pub(crate) fn not_made(target: &Place<'_>, kind: FileType, errno: Errno) -> Error {
    let what = match kind {
        FileType::Symlink => "cannot create symbolic link {}",
        FileType::Fifo => "cannot create fifo {}",
        FileType::Socket => "cannot create socket {}",
        _ => "cannot create special file {}",
    };
    let error = remedy::not_made(target, what, errno);
    match kind {
        FileType::Symlink => links::hinting_force(error, errno),
        _ => error,
    }
}
