//! Files that a command reads or writes. Whether a file can be written is checked before the work
//! begins, and whether it was is checked at the end.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use gush_text::quote;
use rustix::fs::{FileType, Stat};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

/// An open operand: a file, or standard input.
#[derive(Debug)]
pub struct Operand(Option<File>);

impl Operand {
    /// Opens `name`; `-` is standard input.
    ///
    /// # Errors
    /// That of open(2); `EBADF` for a closed standard descriptor.
    pub fn open(name: &OsStr) -> io::Result<Self> {
        if name != "-" {
            return open(name, File::options().read(true)).map(|file| Self(Some(file)));
        }
        if gush_process::was_closed(0) { Err(Errno::BADF.into()) } else { Ok(Self(None)) }
    }
}

impl AsFd for Operand {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_ref().map_or(rustix::stdio::stdin(), AsFd::as_fd)
    }
}

/// Whether both are one regular file.
pub fn is_same_file(one: &Stat, other: &Stat) -> bool {
    FileType::from_raw_mode(one.st_mode) == FileType::RegularFile
        && (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// Opens `path` as `how` says.
///
/// # Errors
/// That of open(2), and `EBADF` if `path` means a standard descriptor that was closed: the bytes
/// would go to /dev/null.
pub fn open(path: impl AsRef<Path>, how: &OpenOptions) -> io::Result<File> {
    match gush_process::closed_at(&path) {
        Some(_) => Err(Errno::BADF.into()),
        None => how.open(path),
    }
}

/// Closes a file, for errors that only close(2) reports, such as a full quota on NFS.
///
/// # Errors
/// That of close(2).
pub fn close(file: impl Into<OwnedFd>) -> io::Result<()> {
    nix::unistd::close(file.into()).map_err(Into::into)
}

/// Closes a duplicate of `fd`, for the same errors; `fd` stays open. Without a free descriptor,
/// nothing is reported.
///
/// # Errors
/// That of close(2).
pub fn close_twin(fd: impl AsFd) -> io::Result<()> {
    fcntl_dupfd_cloexec(fd, 0).map_or(Ok(()), close)
}

/// Can text be written to `path`, as far as is known without writing?
///
/// # Errors
/// A sentence: the path means a closed standard descriptor, or is a directory.
pub fn takes_text(path: &Path) -> Result<(), String> {
    let shown = quote::if_needed(path);
    if let Some(number) = gush_process::closed_at(path) {
        let name = ["input", "output", "error"][number];
        return Err(format!("{shown}: standard {name} is closed: name a file"));
    }
    if path.is_dir() {
        return Err(format!("{shown} is a directory: name a file"));
    }
    Ok(())
}

/// As [`takes_text`], for a file whose directory must exist.
///
/// # Errors
/// As [`takes_text`].
pub fn takes_text_in_its_directory(path: &Path) -> Result<(), String> {
    takes_text(path)?;
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() && !dir.is_dir() => {
            let (shown, dir) = (quote::if_needed(path), quote::if_needed(dir));
            Err(format!("{shown} cannot be written: {dir} is not a directory"))
        }
        _ => Ok(()),
    }
}
