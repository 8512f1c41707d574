//! The target's space and size, and the source's read-ahead, before the bytes come.

use std::os::fd::BorrowedFd;

use rustix::fs::FallocateFlags;
use rustix::io;

use super::job::Job;
use crate::error::Error;
use crate::kernel::is_refusal;
use crate::port::Side;
use crate::sys::{self, Call};
use crate::tuning::{Advice, Space};

/// A target whose end may lie behind what has arrived, until it is trimmed.
pub(super) struct OpenEnd<'fd> {
    fd: BorrowedFd<'fd>,
    before_bytes: u64,
}

impl<'fd> OpenEnd<'fd> {
    /// Remembers the size that the target has now.
    pub(super) fn of(fd: BorrowedFd<'fd>) -> io::Result<Self> {
        sys::file::size_bytes(fd).map(|before_bytes| Self { fd, before_bytes })
    }

    /// Makes the file reach `at + len` bytes, with its space (fallocate(2)).
    ///
    /// # Errors
    /// fallocate's; the file then has the size it had.
    pub(super) fn reserve(&self, at: u64, len: u64) -> io::Result<()> {
        sys::file::fallocate(self.fd, FallocateFlags::empty(), at, len).inspect_err(|_| {
            // ext4 may have got half-way; the error of the reservation is the one that counts.
            if sys::file::size_bytes(self.fd) != Ok(self.before_bytes) {
                let _ = sys::file::ftruncate(self.fd, self.before_bytes);
            }
        })
    }

    /// Cuts off what lies behind the last byte that arrived, if any did, but nothing that was there
    /// before.
    pub(super) fn trim(self, arrived_end: Option<u64>) -> io::Result<()> {
        let end = arrived_end.unwrap_or(0).max(self.before_bytes);
        match sys::file::size_bytes(self.fd) {
            Ok(size_bytes) if size_bytes <= end => Ok(()),
            // Where the size cannot be told, too: `end` is not below the size that was told before.
            _ => sys::file::ftruncate(self.fd, end),
        }
    }
}

impl Job<'_> {
    pub(super) fn advise(&self) {
        use rustix::fs::Advice as Kernels;
        let advice = match self.options.tuning.advice {
            Advice::None => return,
            Advice::Sequential => Kernels::Sequential,
            Advice::WillNeed => Kernels::WillNeed,
            Advice::Random => Kernels::Random,
        };
        // Advice only: a descriptor that takes none (ESPIPE) is read all the same.
        let length = self.options.length_bytes.unwrap_or(0);
        let _ = sys::file::fadvise(self.source.fd(), self.source_base.unwrap_or(0), length, advice);
    }

    /// Reserves the target's space without changing its size; a file system that cannot is excused,
    /// a full one only if reserving was no more than a wish.
    pub(super) fn preallocate(&mut self) -> Result<(), Error> {
        let (Some(at), Some(length)) = (self.target_base, self.expected_bytes()) else {
            return Ok(());
        };
        if self.options.tuning.space == Space::AsWritten || length == 0 || !self.are_both_files() {
            return Ok(());
        }
        let fd = self.target.fd();
        let answer = sys::file::fallocate(fd, FallocateFlags::KEEP_SIZE, at, length);
        self.reserved = true;
        match answer {
            Err(errno) if !is_refusal(errno) && self.options.tuning.space == Space::Reserve => {
                Err(self.failed(Call::Fallocate, Side::Target, errno))
            }
            // What it got hold of before it failed is given back: the copy may do with less.
            Err(_) => self.give_back(),
            Ok(()) => Ok(()),
        }
    }

    /// Frees blocks behind the target's end: truncating to the present size does (ext4, xfs).
    pub(super) fn give_back(&mut self) -> Result<(), Error> {
        self.reserved = false;
        let size_bytes = sys::file::size_bytes(self.target.fd())
            .map_err(|errno| self.failed(Call::Fstat, Side::Target, errno))?;
        sys::file::ftruncate(self.target.fd(), size_bytes)
            .map_err(|errno| self.failed(Call::Ftruncate, Side::Target, errno))
    }
}
