//! The five ways of writing.

use std::io::Write as _;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use gush::pipe::{Reservoir, Technique as Sound, Writer};
use gush::{Errno, Lent, Pages};
use rustix::event::PollFlags;
use rustix::fs::OFlags;

use super::options::{Shared, Technique, WriteOptions};
use super::pattern::{CONSTANT, Pattern};
use super::waiting::Waiting;
use super::{ends, memory, unsound};
use crate::Error;

/// Writes by the technique asked for, and counts in `sent_bytes` the bytes that went into the pipe.
pub(super) fn run(
    options: &WriteOptions,
    to: BorrowedFd<'_>,
    sent_bytes: &mut u64,
) -> Result<(), Error> {
    let mut job = Job { options, waiting: options.waiting(), to, sent_bytes };
    match options.technique() {
        Technique::Write => job.by_write(),
        Technique::Vmsplice => job.by_vmsplice(),
        Technique::Fresh => job.by_fresh(),
        Technique::Socket => job.by_socket(),
        Technique::Reservoir => job.by_reservoir(),
    }
}

struct Job<'a> {
    options: &'a WriteOptions,
    waiting: Waiting,
    to: BorrowedFd<'a>,
    sent_bytes: &'a mut u64,
}

impl<'a> Job<'a> {
    /// How much of a buffer of `len_bytes` is still to be sent; 0 at the end.
    fn next_bytes(&self, len_bytes: usize) -> usize {
        let left = self.options.bytes.map_or(u64::MAX, |bytes| bytes - *self.sent_bytes);
        usize::try_from(left).unwrap_or(usize::MAX).min(len_bytes)
    }

    fn changes(&self) -> bool {
        self.options.shared.pattern != Pattern::Constant
    }

    fn allocate(&self) -> Result<Pages, Error> {
        let Shared { pattern, .. } = self.options.shared;
        memory::allocate(self.options.buffer_bytes(), &self.options.shared, pattern)
    }

    fn until_room<T>(&self, call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
        self.waiting.until_done(self.to, PollFlags::OUT, call)
    }

    fn by_write(&mut self) -> Result<(), Error> {
        let options = self.options;
        let own = ends::unsleeping(self.to, "standard output", OFlags::WRONLY, self.waiting)?;
        let to = own.as_ref().map_or(self.to, AsFd::as_fd);
        let mut pages = self.allocate()?;
        loop {
            let len = self.next_bytes(options.buffer_bytes());
            if len == 0 {
                return Ok(());
            }
            if self.changes() {
                options.shared.pattern.fill(*self.sent_bytes, &mut pages.as_mut_slice()[..len]);
            }
            let mut rest = &pages.as_slice()[..len];
            while !rest.is_empty() {
                let put = self
                    .waiting
                    .until_done(to, PollFlags::OUT, || rustix::io::write(to, rest))
                    .map_err(|errno| self.failed("write", errno))?;
                // Counted at once, so that a failure can say how far it came.
                *self.sent_bytes += put as u64;
                rest = &rest[put..];
            }
        }
    }

    /// Two buffers in turn: once the second buffer is wholly written into the pipe, which holds
    /// half a buffer, the first has left the pipe.
    ///
    /// That is enough for a reader that copies, and for no other.
    fn by_vmsplice(&mut self) -> Result<(), Error> {
        let options = self.options;
        let half = options.buffer_bytes() / 2;
        let mut memory = vec![Some(self.allocate()?.lend())];
        let turns = if options.same_buffer {
            [(0, 0..half), (0, half..2 * half)]
        } else {
            // Two buffers in turn: while the reader takes one, the other is written.
            memory.push(Some(self.allocate()?.lend()));
            [(0, 0..options.buffer_bytes()), (1, 0..options.buffer_bytes())]
        };
        for (index, range) in turns.into_iter().cycle() {
            let len = self.next_bytes(range.len());
            let Some(mut lent) = memory[index].take().filter(|_| len > 0) else { break };
            let range = range.start..range.start + len;
            if self.changes() {
                let at = *self.sent_bytes;
                let part = range.clone();
                lent = unsound::refill(lent, |bytes| {
                    options.shared.pattern.fill(at, &mut bytes[part])
                });
            }
            self.lend_all(&lent, range)?;
            memory[index] = Some(lent);
        }
        Ok(())
    }

    fn lend_all(&mut self, lent: &Lent, range: Range<usize>) -> Result<(), Error> {
        let sleeps = !self.waiting.is_non_blocking();
        let gift = self.options.gift;
        let mut rest = range;
        while !rest.is_empty() {
            let put = self
                .until_room(|| {
                    if sleeps {
                        lent.splice_into_waiting(self.to, rest.clone(), gift)
                    } else {
                        lent.splice_into(self.to, rest.clone(), gift)
                    }
                })
                .map_err(|errno| self.failed("vmsplice", errno))?;
            *self.sent_bytes += put as u64;
            rest.start += put;
        }
        Ok(())
    }

    /// A writer of the engine; the pipe size that the engine chose is put back to the size asked
    /// for.
    fn engine_writer(&self, technique: Sound) -> Result<Writer<BorrowedFd<'a>>, Error> {
        let writer = Writer::with(self.to, technique).map_err(|refused| {
            let what =
                format!("{} cannot be used here: use --technique write", self.options.technique());
            Error::failed(what, refused.errno)
        })?;
        if let Some(pipe_bytes) = self.options.shared.pipe_size {
            ends::size(self.to, pipe_bytes, &mut |_| ())?;
        }
        Ok(writer.wait(self.waiting.of_engine()))
    }

    fn by_fresh(&mut self) -> Result<(), Error> {
        let mut writer = self.engine_writer(Sound::Fresh)?;
        let mut to_check = self.options.shared.check_huge_page;
        loop {
            let mut buffer = writer.buffer().map_err(|errno| self.failed("mmap", errno))?;
            let len = self.next_bytes(buffer.len());
            if len == 0 {
                return Ok(());
            }
            self.options.shared.pattern.fill(*self.sent_bytes, &mut buffer[..len]);
            // Checked on the first filled buffer: an untouched one has no pages to look at.
            if std::mem::take(&mut to_check) {
                memory::check_huge(buffer.as_ref())?;
            }
            writer.commit(buffer, len).map_err(|errno| self.failed("vmsplice", errno))?;
            *self.sent_bytes += len as u64;
        }
    }

    fn by_socket(&mut self) -> Result<(), Error> {
        let options = self.options;
        let mut writer = self.engine_writer(Sound::Socket)?;
        let mut pages = self.allocate()?;
        loop {
            let len = self.next_bytes(options.buffer_bytes());
            if len == 0 {
                return writer.flush().map_err(|error| Error::failed("splice failed", error));
            }
            let bytes = &mut pages.as_mut_slice()[..len];
            if self.changes() {
                options.shared.pattern.fill(*self.sent_bytes, bytes);
            }
            writer.write_all(bytes).map_err(|error| Error::failed("splice failed", error))?;
            *self.sent_bytes += len as u64;
        }
    }

    fn by_reservoir(&mut self) -> Result<(), Error> {
        let pipe_bytes = rustix::pipe::fcntl_getpipe_size(self.to)
            .map_err(|errno| self.failed("fcntl", errno))?;
        let mut reservoir = Reservoir::of(&[CONSTANT], pipe_bytes).map_err(|errno| {
            let why = match errno {
                Errno::PERM | Errno::ACCESS | Errno::NOSYS | Errno::OPNOTSUPP => {
                    "tee is denied or missing here, and reservoir needs it: use --technique write"
                }
                _ => "a reservoir cannot be filled here: use --technique write",
            };
            Error::failed(why, errno)
        })?;
        // tee(2) never sleeps here, so sleeping is done in poll(2).
        let waiting = match self.waiting {
            Waiting::Block => Waiting::Poll,
            other => other,
        };
        loop {
            let len = self.next_bytes(usize::MAX);
            if len == 0 {
                return Ok(());
            }
            let poured = waiting
                .until_done(self.to, PollFlags::OUT, || reservoir.pour(&self.to, len))
                .map_err(|errno| self.failed("tee", errno))?;
            *self.sent_bytes += poured as u64;
        }
    }

    fn failed(&self, call: &str, errno: Errno) -> Error {
        Error::failed(format!("{call} failed after {} bytes", self.sent_bytes), errno)
    }
}
