//! Files that are cut while they are sent: a reader cannot distinguish an early end from the true
//! one.

use std::os::fd::BorrowedFd;

use gush::Kind;
use gush::flow::PortState;
use rustix::fs::{FileType, fstat};

/// What a source has to deliver before its end is the true one.
#[derive(Debug)]
pub(crate) struct Whole {
    expected_bytes: u64,
    /// Of a regular file sent to its end, whose size may be wrong from the start, as in /sys: only
    /// a file that has become smaller was cut.
    size_bytes: Option<u64>,
}

impl Whole {
    /// Of `length_bytes` from the source, or of the rest of a regular file.
    pub(crate) fn of(
        fd: BorrowedFd<'_>,
        state: &PortState,
        length_bytes: Option<u64>,
    ) -> Option<Self> {
        if let Some(expected_bytes) = length_bytes {
            return Some(Self { expected_bytes, size_bytes: None });
        }
        if state.kind() != Kind::File {
            return None;
        }
        let size_bytes = size_bytes(fd)?;
        let position = state.offset_bytes().or_else(|| rustix::fs::tell(fd).ok())?;
        let expected_bytes = size_bytes.saturating_sub(position);
        Some(Self { expected_bytes, size_bytes: Some(size_bytes) })
    }

    /// The same, where `taken_bytes` were taken before.
    pub(crate) fn after(self, taken_bytes: u64) -> Self {
        Self { expected_bytes: self.expected_bytes + taken_bytes, ..self }
    }

    /// The expected bytes, if fewer have `passed` because the source was cut.
    pub(crate) fn is_cut(&self, fd: BorrowedFd<'_>, passed_bytes: u64) -> Option<u64> {
        let is_shorter = |before| size_bytes(fd).is_some_and(|now| now < before);
        let is_cut = passed_bytes < self.expected_bytes && self.size_bytes.is_none_or(is_shorter);
        is_cut.then_some(self.expected_bytes)
    }
}

/// The size of a regular file.
fn size_bytes(fd: BorrowedFd<'_>) -> Option<u64> {
    let found = fstat(fd).ok()?;
    let is_file = FileType::from_raw_mode(found.st_mode).is_file();
    is_file.then(|| u64::try_from(found.st_size).unwrap_or(0))
}
