//! An io_uring with its own buffers: reads into a buffer, writes from a buffer, completions by
//! slot.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, opcode, types};
use rustix::io::{self, Errno};

use super::Call;
use super::seam::{plain, sized, waiting};
use crate::pages::Pages;

/// One finished operation: the slot whose buffer was used, and the answer.
pub(crate) type Done = (usize, io::Result<usize>);

/// A ring with buffers; at most one operation a slot is under way.
pub(crate) struct Ring {
    ring: IoUring,
    buffers: Vec<Pages>,
    under_way: usize,
    refused: VecDeque<Done>,
}

impl Ring {
    /// # Errors
    /// `ENOSYS`, or `EPERM` where a filter or `kernel.io_uring_disabled` forbids rings; `ENOMEM`.
    pub(crate) fn new(slots: usize, buffer_bytes: usize) -> io::Result<Self> {
        let entries = u32::try_from(slots).map_err(|_| Errno::INVAL)?;
        let ring =
            plain(Call::IoUringSetup, || IoUring::new(entries).map_err(|error| errno(&error)))?;
        let buffers = (0..slots).map(|_| Pages::new(buffer_bytes)).collect::<io::Result<_>>()?;
        Ok(Self { ring, buffers, under_way: 0, refused: VecDeque::new() })
    }

    pub(crate) fn buffer_bytes(&self) -> usize {
        self.buffers[0].len_bytes()
    }

    /// Starts reading into `into` of a slot's buffer, from the file's offset `at`.
    pub(crate) fn read(&mut self, slot: usize, fd: BorrowedFd<'_>, at: u64, into: Range<usize>) {
        // Asked before the submission: a fault can only be injected before a call has begun.
        let verdict = sized(Call::UringRead, into.len(), Ok);
        self.begin(slot, verdict, |len, buffer| {
            let start = buffer[into].as_mut_ptr();
            opcode::Read::new(types::Fd(fd.as_raw_fd()), start, len).offset(at).build()
        });
    }

    /// Starts writing `from` of a slot's buffer to the file's offset `at`.
    pub(crate) fn write(&mut self, slot: usize, fd: BorrowedFd<'_>, at: u64, from: Range<usize>) {
        let verdict = sized(Call::UringWrite, from.len(), Ok);
        self.begin(slot, verdict, |len, buffer| {
            let start = buffer[from].as_ptr();
            opcode::Write::new(types::Fd(fd.as_raw_fd()), start, len).offset(at).build()
        });
    }

    fn begin(
        &mut self,
        slot: usize,
        verdict: io::Result<usize>,
        entry: impl FnOnce(u32, &mut [u8]) -> io_uring::squeue::Entry,
    ) {
        let len = match verdict {
            Ok(len) => u32::try_from(len).unwrap_or(u32::MAX),
            // Queued like a completion, so that the caller has one place where answers come from.
            Err(errno) => return self.refused.push_back((slot, Err(errno))),
        };
        let entry = entry(len, self.buffers[slot].as_mut_slice()).user_data(slot as u64);
        // SAFETY: the buffer lives in `self`, whose drop waits for every operation; the caller
        // keeps one operation a slot, so nobody else touches the buffer until its completion is
        // taken.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        match pushed {
            Ok(()) => self.under_way += 1,
            // Cannot happen with one operation a slot; an answer is better than an operation that
            // is waited for in vain.
            Err(_) => self.refused.push_back((slot, Err(Errno::BUSY))),
        }
    }

    /// The next finished operation, waiting for one if need be; `None` when none is under way.
    ///
    /// # Errors
    /// The error of `io_uring_enter(2)`; operations under way stay so.
    pub(crate) fn next(&mut self) -> io::Result<Option<Done>> {
        if let Some(done) = self.refused.pop_front() {
            return Ok(Some(done));
        }
        while self.under_way > 0 {
            let done = self.ring.completion().next();
            if let Some(done) = done {
                self.under_way -= 1;
                let slot = usize::try_from(done.user_data()).map_err(|_| Errno::INVAL)?;
                let answer = usize::try_from(done.result())
                    // A completion carries a negative errno (io_uring_enter(2)).
                    .map_err(|_| Errno::from_raw_os_error(-done.result()));
                return Ok(Some((slot, answer)));
            }
            match waiting(Call::IoUringEnter, || {
                self.ring.submit_and_wait(1).map_err(|e| errno(&e))
            }) {
                // EINTR ends the wait alone: the operations stay under way.
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The kernel may still write into the buffers: they must outlive every operation.
        while self.under_way > 0 {
            match plain(Call::IoUringEnter, || self.ring.submit_and_wait(1).map_err(|e| errno(&e)))
            {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => {
                    // Without an answer the buffers cannot be freed safely, and are leaked.
                    self.buffers.drain(..).for_each(std::mem::forget);
                    return;
                }
            }
            while self.ring.completion().next().is_some() {
                self.under_way -= 1;
            }
        }
    }
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::Ring;

    #[test]
    fn a_dropped_ring_waits_for_the_read_that_is_under_way() {
        let mut ring = match Ring::new(2, 4096) {
            Ok(ring) => ring,
            Err(errno) => return gush_test::not_applicable(&format!("io_uring: {errno}")),
        };
        let zeros = std::fs::File::open("/dev/zero").expect("zeros");
        let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
        let twin = reader.try_clone().expect("a descriptor");
        ring.read(0, twin.as_fd(), 0, 0..4096);
        ring.read(1, zeros.as_fd(), 0, 0..4096);
        let done = ring.next().expect("an answer");
        assert_eq!(done, Some((1, Ok(4096))), "the other read is under way");
        let is_written = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                // A moment for the drop to begin; the test passes, too, if the moment was too
                // short.
                thread::sleep(Duration::from_millis(100));
                is_written.store(true, Ordering::Release);
                writer.write_all(b"late").expect("a reader");
            });
            drop(ring);
            assert!(is_written.load(Ordering::Acquire), "the buffer is free while it is read into");
        });
        drop((writer, twin));
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).expect("bytes");
        assert!(rest.is_empty(), "the read under way has taken the bytes");
    }
}
