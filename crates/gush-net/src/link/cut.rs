//! Files that are cut while they are sent: their end comes early, which a reader cannot tell from the true one.

use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, fstat};

use super::record::Failure;
use crate::Passed;

/// A regular file as it was before it was sent.
pub(super) struct Whole {
    size_bytes: u64,
    left_bytes: u64,
}

impl Whole {
    /// What is to be read from `source`; none where it is no regular file.
    pub fn of(source: Option<BorrowedFd<'_>>) -> Option<Self> {
        let source = source?;
        let size_bytes = size_bytes(source)?;
        let position = rustix::fs::tell(source).ok()?;
        Some(Self { size_bytes, left_bytes: size_bytes.saturating_sub(position) })
    }

    /// What went wrong if less has `passed` because `source` became shorter. A size that lied from the start, as in
    /// /sys, has not changed.
    pub fn check(
        &self,
        source: Option<BorrowedFd<'_>>,
        passed: &Passed,
        name: &str,
    ) -> Result<(), Failure> {
        let now_bytes = source.and_then(size_bytes);
        if passed.bytes >= self.left_bytes || now_bytes.is_none_or(|now| now >= self.size_bytes) {
            return Ok(());
        }
        let what = format!(
            "{name}: the file shrank while it was sent: {} bytes of {} passed (send it again)",
            passed.bytes, self.left_bytes
        );
        Err(Failure::new(what, None))
    }
}

fn size_bytes(fd: BorrowedFd<'_>) -> Option<u64> {
    let found = fstat(fd).ok()?;
    FileType::from_raw_mode(found.st_mode)
        .is_file()
        .then(|| u64::try_from(found.st_size).unwrap_or(0))
}
