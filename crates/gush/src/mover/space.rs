//! The target's space and size, and the source's read-ahead, before the bytes come.

use std::os::fd::BorrowedFd;

use rustix::fs::FallocateFlags;
use rustix::io;

use super::drive::Move;
use crate::error::Error;
use crate::kernel::is_refusal;
use crate::port::Side;
use crate::sys::{self, Call};
use crate::tuning::{Advice, Space};

/// A target whose end may lie past the arrived bytes, until the trimming.
pub(super) struct OpenEnd<'fd> {
    fd: BorrowedFd<'fd>,
    before_bytes: u64,
}

impl<'fd> OpenEnd<'fd> {
    /// Remembers the target's present size.
    pub(super) fn of(fd: BorrowedFd<'fd>) -> io::Result<Self> {
        sys::file::size_bytes(fd).map(|before_bytes| Self { fd, before_bytes })
    }

    /// Makes the file reach `at + len` bytes, with space (fallocate(2)).
    ///
    /// # Errors
    /// fallocate's; the file then has the old size.
    pub(super) fn reserve(&self, at: u64, len: u64) -> io::Result<()> {
        // Blocks, not only a size: a store into a mapped hole on a full disk would raise SIGBUS.
        sys::file::fallocate(self.fd, FallocateFlags::empty(), at, len).inspect_err(|_| {
            // ext4 may have got half-way; the error of the reservation is the one that counts.
            if sys::file::size_bytes(self.fd) != Ok(self.before_bytes) {
                let _ = sys::file::ftruncate(self.fd, self.before_bytes);
            }
        })
    }

    /// Cuts off the bytes after the last that arrived, if any arrived, but no bytes that were there
    /// before.
    pub(super) fn trim(&self, arrived_end: Option<u64>) -> io::Result<()> {
        // Never below the size of before: that part is the caller's.
        let end = arrived_end.unwrap_or(0).max(self.before_bytes);
        match sys::file::size_bytes(self.fd) {
            // Somebody else may have cut the file meanwhile, and growing it again would add zeros.
            Ok(size_bytes) if size_bytes <= end => Ok(()),
            // Also if the size is unknown: `end` is not below the size known before.
            _ => sys::file::ftruncate(self.fd, end),
        }
    }
}

/// The undoing of blocks and size of the target when the move ends.
#[derive(Default)]
pub(super) struct Loose {
    /// Blocks were reserved past the target's end.
    pub(super) reserved: bool,
    /// The source became shorter, and bytes from past the new end may lie past the target's.
    pub(super) overshot: bool,
}

impl Move<'_> {
    pub(super) fn advise(&self) {
        use rustix::fs::Advice as Kernels;
        let advice = match self.request.tuning.advice {
            Advice::None => return,
            Advice::Sequential => Kernels::Sequential,
            Advice::WillNeed => Kernels::WillNeed,
            Advice::Random => Kernels::Random,
        };
        // Advice only: a descriptor that takes none (ESPIPE) is read all the same.
        let length = self.cursor.length_bytes().unwrap_or(0);
        let from = self.cursor.bases().0.unwrap_or(0);
        let _ = sys::file::fadvise(self.ends.source.fd(), from, length, advice);
    }

    /// Reserves the target's space without changing the size; a file system that cannot is excused,
    /// a full one only if reserving was no more than a wish.
    pub(super) fn preallocate(&mut self) -> Result<(), Error> {
        let (Some(at), Some(length)) =
            (self.cursor.bases().1, self.cursor.expected_bytes(&self.ends))
        else {
            return Ok(());
        };
        let space = self.request.tuning.space;
        // fallocate(2) refuses a length of 0 (EINVAL).
        if space == Space::AsWritten || length == 0 || !self.ends.are_both_files() {
            return Ok(());
        }
        let fd = self.ends.target.fd();
        // KEEP_SIZE: a size ahead of the bytes would show zeros to readers and after a crash.
        let answer = sys::file::fallocate(fd, FallocateFlags::KEEP_SIZE, at, length);
        // Noted before the answer is looked at: a failed call may have got hold of a part.
        self.loose.reserved = true;
        match answer {
            Err(errno) if !is_refusal(errno) && space == Space::Reserve => {
                Err(self.cursor.failed(Call::Fallocate, Side::Target, errno))
            }
            // What it got hold of before it failed is given back: the copy may do with less.
            Err(_) => self.give_back(),
            Ok(()) => Ok(()),
        }
    }

    /// Frees blocks past the target's end: truncating to the present size does (ext4, xfs).
    fn give_back(&mut self) -> Result<(), Error> {
        self.loose.reserved = false;
        let fd = self.ends.target.fd();
        let size_bytes = sys::file::size_bytes(fd)
            .map_err(|errno| self.cursor.failed(Call::Fstat, Side::Target, errno))?;
        // Cutting at the present size frees the blocks after it (ftruncate(2)).
        sys::file::ftruncate(fd, size_bytes)
            .map_err(|errno| self.cursor.failed(Call::Ftruncate, Side::Target, errno))
    }

    /// After the last step, and after a failure: positions after the last byte moved, and a target
    /// that ends there after a hole at the end. Positions are put right also where the end is not.
    pub(super) fn settle(&mut self) -> Result<(), Error> {
        let end = self.settle_end();
        let source = self.cursor.put_back_source(&self.ends);
        let caught_up = self.cursor.catch_up(&self.ends);
        end.and(source).and(caught_up)
    }

    /// # Errors
    /// Where the target's end stays in front of a hole: the hole then counts as not moved.
    fn settle_end(&mut self) -> Result<(), Error> {
        let expected_bytes = self.cursor.expected_bytes(&self.ends);
        if self.loose.reserved && Some(self.cursor.moved_bytes) != expected_bytes {
            self.give_back()?;
        }
        if (self.cursor.hole_bytes > 0 || self.loose.overshot)
            && let Some(end) = self.cursor.target_at()
        {
            let fd = self.ends.target.fd();
            let size_bytes = sys::file::size_bytes(fd)
                .map_err(|errno| self.cursor.failed(Call::Fstat, Side::Target, errno))?;
            // A hole at the end has no byte to be written, so only a size makes it.
            if (size_bytes < end || (self.loose.overshot && size_bytes > end))
                && let Err(errno) = sys::file::ftruncate(fd, end)
            {
                // A sealed file, or one at its largest size, takes no hole at the end.
                self.cursor.go_back_by(end.saturating_sub(size_bytes));
                return Err(self.cursor.failed(Call::Ftruncate, Side::Target, errno));
            }
        }
        Ok(())
    }
}
