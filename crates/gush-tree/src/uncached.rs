//! Copies that leave the page cache as it was (`--no-cache`).

use std::io;
use std::mem;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use gush::page_cache;
use rustix::fs;
use rustix::io::{Errno, retry_on_intr};
use rustix::param::page_size;

/// A part of a file of which some pages were cached and some not is divided down to this size.
const SMALLEST_BYTES: u64 = 64 << 10;
/// The part of a large file that is written to the disk while the next one is copied.
const WINDOW_BYTES: u64 = 8 << 20;

/// A file to be read, with the ranges of which the cache held nothing before. Dropping it takes
/// these away again.
pub(crate) struct AsItWas<'f> {
    file: BorrowedFd<'f>,
    absent: Vec<Range<u64>>,
}

impl<'f> AsItWas<'f> {
    pub(crate) fn look(file: BorrowedFd<'f>) -> Self {
        // Where the kernel cannot say, as before Linux 6.5, everything goes. The pages of a file
        // that the caller could not write are others' business (`can_do_cachestat` of
        // mm/filemap.c): none goes.
        let cached = |at, len| match page_cache::cached_pages(&file, at, len) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::PERM) => u64::MAX,
            answer => answer.unwrap_or(0),
        };
        let mut absent: Vec<Range<u64>> = Vec::new();
        let mut waiting = Vec::new();
        let mut end = 0;
        // Of most files everything is cached, or nothing: one call is enough.
        let whole = cached(0, 0);
        if whole > 0 {
            let size_bytes = retry_on_intr(|| fs::fstat(file))
                .map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
            end = size_bytes.checked_next_power_of_two().unwrap_or(1 << 63).max(SMALLEST_BYTES);
            waiting.push(0..end);
        }
        while let Some(range) = waiting.pop() {
            let len = range.end - range.start;
            match cached(range.start, len) {
                0 => match absent.last_mut() {
                    Some(last) if last.end == range.start => last.end = range.end,
                    _ => absent.push(range),
                },
                pages
                    if pages.saturating_mul(page_size() as u64) >= len || len <= SMALLEST_BYTES => {
                }
                _ => {
                    let middle = range.start + len / 2;
                    waiting.push(middle..range.end);
                    waiting.push(range.start..middle);
                }
            }
        }
        // The file may grow; where the kernel does not say, this is unknown, too.
        if whole != u64::MAX {
            absent.push(end..u64::MAX);
        }
        Self { file, absent }
    }

    /// Takes away what was not there before, within a range.
    fn restore(&self, within: &Range<u64>) {
        for absent in &self.absent {
            let (from, to) = (absent.start.max(within.start), absent.end.min(within.end));
            if from < to {
                // A length of 0 means "to the end". Advice that the kernel does not take costs
                // nothing but memory.
                let len = if to == u64::MAX { 0 } else { to - from };
                let _ = page_cache::drop_clean(&self.file, from, len);
            }
        }
    }
}

impl Drop for AsItWas<'_> {
    fn drop(&mut self) {
        self.restore(&(0..u64::MAX));
    }
}

/// Two files while bytes pass from one to the other.
pub(crate) struct Passing<'f> {
    source: AsItWas<'f>,
    target: BorrowedFd<'f>,
    /// On the way to the disk, and still in the cache.
    writing: Range<u64>,
    /// What was copied from here on is still in the cache, too.
    from: u64,
    at_bytes: u64,
    /// What was copied did not reach the disk.
    failed: Option<Errno>,
}

impl<'f> Passing<'f> {
    pub(crate) fn begin(source: BorrowedFd<'f>, target: BorrowedFd<'f>, at_bytes: u64) -> Self {
        let from = at_bytes - at_bytes % WINDOW_BYTES;
        let source = AsItWas::look(source);
        Self { source, target, writing: from..from, from, at_bytes, failed: None }
    }

    /// So many bytes are copied, by one thread; `false` once some of them did not reach the disk.
    pub(crate) fn passed(&mut self, bytes: u64) -> bool {
        let to = self.at_bytes + bytes;
        let to = to - to % WINDOW_BYTES;
        if to > self.from {
            self.source.restore(&(self.from..to));
            // The disk has work while the window before is waited for.
            let begun = page_cache::start_write(&self.target, self.from, to - self.from);
            self.note_loss(begun);
            let written = mem::replace(&mut self.writing, self.from..to);
            if !written.is_empty() {
                self.write_and_drop(written.start, written.end - written.start);
            }
            self.from = to;
        }
        self.failed.is_none()
    }

    fn write_and_drop(&mut self, at_bytes: u64, len_bytes: u64) {
        let done = page_cache::write_and_drop(&self.target, at_bytes, len_bytes);
        self.note_loss(done);
    }

    /// A loss of bytes must be reported here: no later call need report it again, as where ext4 has
    /// no block for pages and drops these (`mpage_map_and_submit_extent` of fs/ext4/inode.c). Other
    /// errors only mean that the target has no such pages (sync_file_range(2)).
    fn note_loss(&mut self, done: io::Result<()>) {
        let lost = done.err().and_then(|error| Errno::from_io_error(&error));
        let lost = lost.filter(|errno| matches!(*errno, Errno::IO | Errno::NOSPC | Errno::DQUOT));
        self.failed = self.failed.or(lost);
    }

    /// Why some of what was copied so far did not reach the disk, if so.
    pub(crate) fn failed(&self) -> Option<Errno> {
        self.failed
    }

    /// Takes the rest away. Returns why some of what was copied did not reach the disk, if so.
    pub(crate) fn end(mut self) -> Option<Errno> {
        self.write_and_drop(0, 0);
        self.failed
    }
}
