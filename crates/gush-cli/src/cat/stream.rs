//! Text from one descriptor to another: read, format, write. A finished line is written before a
//! wait for the source.

use std::io;
use std::os::fd::BorrowedFd;
use std::thread::sleep;

use gush::{Kind, Pages, Port, Rate};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::param::page_size;

use super::text::Formatter;

/// Formatted bytes are written once there are this many, or when the source has no more for now.
const ENOUGH_BYTES: usize = 128 << 10;

/// The side that failed, with the OS error.
#[derive(Debug)]
pub enum FailedSide {
    Source(io::Error),
    Target(io::Error),
}

/// The target, the bytes waiting to be written, and their rate limit.
pub struct Output<'fd> {
    fd: BorrowedFd<'fd>,
    waiting: Vec<u8>,
    rate: Rate,
    delivered_bytes: u64,
}

impl<'fd> Output<'fd> {
    pub fn new(fd: BorrowedFd<'fd>, limit_bytes_per_second: Option<u64>) -> Self {
        Self {
            fd,
            waiting: Vec::with_capacity(ENOUGH_BYTES + ENOUGH_BYTES / 4),
            rate: limit_bytes_per_second.and_then(Rate::bytes_per_second).unwrap_or_default(),
            delivered_bytes: 0,
        }
    }

    /// The number of bytes that reached the target.
    pub fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes
    }

    /// Writes the bytes held back by the formatter, and all waiting bytes.
    ///
    /// # Errors
    /// That of write(2), other than EINTR and EAGAIN.
    pub fn finish(&mut self, formatter: &mut Formatter) -> io::Result<()> {
        formatter.finish(&mut self.waiting);
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut done_bytes = 0;
        while done_bytes < self.waiting.len() {
            let rest = &self.waiting[done_bytes..];
            let allowed_bytes = allowance(&self.rate, rest.len());
            match rustix::io::write(self.fd, &rest[..allowed_bytes]) {
                // As in the engine: a retry could return 0 for ever.
                Ok(0) => return Err(Errno::IO.into()),
                Ok(written_bytes) => {
                    done_bytes += written_bytes;
                    self.delivered_bytes += written_bytes as u64;
                    self.rate.spend(written_bytes as u64);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => wait(self.fd, PollFlags::OUT)?,
                Err(errno) => return Err(errno.into()),
            }
        }
        self.waiting.clear();
        Ok(())
    }
}

/// Waits until bytes may pass, and returns how many of `wanted_bytes`.
fn allowance(rate: &Rate, wanted_bytes: usize) -> usize {
    loop {
        match rate.allowance() {
            Ok(bytes) => {
                return usize::try_from(bytes).unwrap_or(wanted_bytes).clamp(1, wanted_bytes);
            }
            Err(pause) => {
                rate.begin_sleep();
                sleep(pause);
            }
        }
    }
}

/// Formats all of `source` into `output`.
///
/// # Errors
/// The side that failed. Bytes formatted before a read error are still written. Reads
/// `buffer_bytes` at a time; `buffer` is replaced for a longer datagram.
pub fn format(
    source: BorrowedFd<'_>,
    formatter: &mut Formatter,
    output: &mut Output<'_>,
    buffer: &mut Pages,
    buffer_bytes: usize,
) -> Result<(), FailedSide> {
    let failed = |errno: Errno| FailedSide::Source(errno.into());
    let mut port = Port::of(&source).map_err(failed)?;
    // A short read drops the rest of a packet (O_DIRECT of pipe(2)), which is at most a page.
    let buffer_bytes = match port.kind() {
        Kind::Pipe => buffer_bytes.max(page_size()),
        _ => buffer_bytes,
    };
    if buffer.len_bytes() < buffer_bytes {
        *buffer = Pages::new(buffer_bytes).map_err(failed)?;
    }
    loop {
        // Write finished lines before a wait; collect small ones while there is more.
        if !output.waiting.is_empty() && !is_ready(source) {
            output.flush().map_err(FailedSide::Target)?;
        }
        let read = match port.kind() {
            Kind::Datagram => port.read_whole(buffer, usize::MAX),
            // As a plain read, but up to the largest offset.
            Kind::File | Kind::Block => port.read(&mut buffer.as_mut_slice()[..buffer_bytes]),
            // A blocking read saves a call.
            _ => rustix::io::read(source, &mut buffer.as_mut_slice()[..buffer_bytes]),
        };
        let read_bytes = match read {
            Ok(0) => return output.flush().map_err(FailedSide::Target),
            Ok(read_bytes) => read_bytes,
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => {
                wait(source, PollFlags::IN).map_err(FailedSide::Source)?;
                continue;
            }
            Err(errno) => {
                // As GNU cat, write what was read before the failure.
                output.flush().map_err(FailedSide::Target)?;
                return Err(FailedSide::Source(errno.into()));
            }
        };
        let mut used_bytes = 0;
        while used_bytes < read_bytes {
            let rest = &buffer.as_slice()[used_bytes..read_bytes];
            used_bytes += formatter.feed(rest, &mut output.waiting, ENOUGH_BYTES);
            if output.waiting.len() >= ENOUGH_BYTES {
                output.flush().map_err(FailedSide::Target)?;
            }
        }
    }
}

/// Whether a read would return at once.
fn is_ready(fd: BorrowedFd<'_>) -> bool {
    gush::poll_now(&fd, PollFlags::IN).is_ok_and(|now| !now.is_empty())
}

fn wait(fd: BorrowedFd<'_>, events: PollFlags) -> io::Result<()> {
    match poll(&mut [PollFd::from_borrowed_fd(fd, events)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
