//! A copy of a stream into a file.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::OFlags;
use tracing::error;

/// A file that gets a copy of what passes. Bytes then go through memory, not by splice.
///
/// ```
/// use gush_net::link::Tee;
/// let dir = tempfile::tempdir()?;
/// let path = dir.path().join("log");
/// Tee::append_to(&path)?.write(b"passed");
/// assert_eq!(std::fs::read(&path)?, b"passed");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Tee {
    path: PathBuf,
    file: File,
    failed: Mutex<Option<io::Error>>,
}

impl Tee {
    /// Copies are added at the end of the file at `path`, which is made if it is missing.
    ///
    /// # Errors
    /// What open(2) answers, or a sentence where the path is a FIFO that nobody reads.
    pub fn append_to(path: &Path) -> io::Result<Self> {
        // Without the flag, opening a FIFO would wait for its reader (fifo(7)), and nobody would know.
        let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
        let file = File::options().append(true).create(true).custom_flags(nonblocking).open(path);
        let file = file.map_err(|error| match error.raw_os_error() {
            Some(libc::ENXIO) => io::Error::other(
                "nobody reads this FIFO, or serves this socket: start its reader first",
            ),
            _ => error,
        })?;
        let flags = rustix::fs::fcntl_getfl(&file)?;
        rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
        Ok(Self { path: path.to_owned(), file, failed: Mutex::new(None) })
    }

    /// Adds `bytes`. After a failure, which is logged, no more are added: the link goes on.
    pub fn write(&self, bytes: &[u8]) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.is_none()
            && let Err(error) = (&self.file).write_all(bytes)
        {
            error!(path = %self.path.display(), %error, "the copy ends here, the link goes on");
            *failed = Some(error);
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// What ended the copy early, if something did.
    pub(super) fn failure(&self) -> Option<String> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.as_ref().map(|error| format!("{}: write: {error}", self.path.display()))
    }
}
