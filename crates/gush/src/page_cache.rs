//! The page cache: what of a file is held there, and how to take it away.
//!
//! For programs that read and write large files once, and leave other programs' pages in memory.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::Advice;

use crate::sys;

/// How many pages of this range the page cache holds; a length of 0 means "to the end".
///
/// # Errors
/// cachestat(2)'s: ENOSYS before Linux 6.5, EPERM for a file neither owned nor writable.
pub fn cached_pages(file: &impl AsFd, at_bytes: u64, len_bytes: u64) -> io::Result<u64> {
    Ok(sys::file::cachestat(file.as_fd(), at_bytes, len_bytes)?)
}

/// Takes the clean pages of a range out of the page cache. A length of 0 means "to the end".
///
/// # Errors
/// That of posix_fadvise(2).
pub fn drop_clean(file: &impl AsFd, at_bytes: u64, len_bytes: u64) -> io::Result<()> {
    Ok(sys::file::fadvise(file.as_fd(), at_bytes, len_bytes, Advice::DontNeed)?)
}

/// Begins to write a range to the disk; a length of 0 means "to the end".
///
/// # Errors
/// Those of sync_file_range(2). Most failed writes are reported by [`write_and_drop`] only, others
/// only here.
pub fn start_write(file: &impl AsFd, at_bytes: u64, len_bytes: u64) -> io::Result<()> {
    Ok(sys::file::start_write_out(file.as_fd(), at_bytes, len_bytes)?)
}

/// Writes a range to the disk, waits, and drops it from the page cache; a length of 0 means "to the
/// end". The file's metadata may still be missing on disk: this is no fsync(2).
///
/// # Errors
/// Those of sync_file_range(2), failed writes among them, and of posix_fadvise(2).
pub fn write_and_drop(file: &impl AsFd, at_bytes: u64, len_bytes: u64) -> io::Result<()> {
    sys::file::write_out(file.as_fd(), at_bytes, len_bytes)?;
    // Dirty pages are not dropped (posix_fadvise(2)).
    drop_clean(file, at_bytes, len_bytes)
}
