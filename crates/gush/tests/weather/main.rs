//! Bad weather: files that change while they are copied, full disks, readers that go away.

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod changing;
mod holes;
mod mounts;
mod odd_ends;
mod sharing;

use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use gush::MethodName;

/// The methods that move plain files on one ext4 or tmpfs.
pub fn file_methods() -> impl Iterator<Item = MethodName> {
    MethodName::ALL.iter().copied().filter(|&name| name != MethodName::Reflink)
}

/// A temporary file with this content, at position 0.
pub fn file_of(content: &[u8]) -> OwnedFd {
    let file = tempfile::tempfile().expect("a file");
    file.write_all_at(content, 0).expect("its content");
    file.into()
}
