//! Files that are cut while they are sent: their end comes early, which a reader cannot tell from the true one.

use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, fstat};

/// A regular file, noted before the file is sent from the present position on.
#[derive(Debug)]
pub(crate) struct Whole {
    size_bytes: u64,
    left_bytes: u64,
}

impl Whole {
    /// The rest of `source`, if `source` is a regular file.
    pub(crate) fn of(source: BorrowedFd<'_>) -> Option<Self> {
        let size_bytes = size_bytes(source)?;
        // Bytes before the position are not to be sent, and so not missed.
        let position = rustix::fs::tell(source).ok()?;
        Some(Self { size_bytes, left_bytes: size_bytes.saturating_sub(position) })
    }

    /// How many bytes were to come, if fewer have `passed` because `source` became shorter. A size that lied from the
    /// start, as in /sys, has not changed.
    pub(crate) fn is_cut(&self, source: BorrowedFd<'_>, passed_bytes: u64) -> Option<u64> {
        let shrank = size_bytes(source).is_some_and(|now| now < self.size_bytes);
        // A file that is shorter now and was sent whole before is no failure.
        (shrank && passed_bytes < self.left_bytes).then_some(self.left_bytes)
    }
}

fn size_bytes(fd: BorrowedFd<'_>) -> Option<u64> {
    let found = fstat(fd).ok()?;
    FileType::from_raw_mode(found.st_mode)
        .is_file()
        .then(|| u64::try_from(found.st_size).unwrap_or(0))
}
