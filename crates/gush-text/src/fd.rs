//! Descriptors as paths.

use std::os::fd::RawFd;

/// The path by which calls that take only paths reach the open file of a descriptor (proc(5)).
/// Opening it makes a new open file description.
///
/// ```
/// use std::os::fd::AsRawFd;
/// let dir = std::fs::File::open("/")?;
/// assert!(std::path::Path::new(&gush_text::fd_path(dir.as_raw_fd())).is_dir());
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
pub fn fd_path(fd: RawFd) -> String {
    format!("/proc/self/fd/{fd}")
}
