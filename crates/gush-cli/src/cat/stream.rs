//! Text from one descriptor to another: read, format, write. A finished line is written before the source is
//! waited for.

use std::io;
use std::os::fd::BorrowedFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

use gush::{Kind, Pages, Port};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::param::page_size;

use super::text::Formatter;

/// Formatted bytes are written once there are so many, or when the source has no more for now.
const ENOUGH_BYTES: usize = 128 << 10;

/// The end that failed, with the OS error.
#[derive(Debug)]
pub enum End {
    Source(io::Error),
    Target(io::Error),
}

/// The target, the bytes waiting to be written, and their rate limit.
pub struct Output<'fd> {
    fd: BorrowedFd<'fd>,
    waiting: Vec<u8>,
    pace: Option<Pace>,
    delivered_bytes: u64,
}

struct Pace {
    bytes_per_second: u64,
    next: Instant,
}

impl<'fd> Output<'fd> {
    pub fn new(fd: BorrowedFd<'fd>, limit_bytes_per_second: Option<u64>) -> Self {
        Self {
            fd,
            waiting: Vec::with_capacity(ENOUGH_BYTES + ENOUGH_BYTES / 4),
            pace: limit_bytes_per_second
                .map(|bytes_per_second| Pace { bytes_per_second, next: Instant::now() }),
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
    /// The OS error of write(2). Interrupted writes are repeated, and full non-blocking targets are waited
    /// for.
    pub fn finish(&mut self, formatter: &mut Formatter) -> io::Result<()> {
        formatter.finish(&mut self.waiting);
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut done_bytes = 0;
        while done_bytes < self.waiting.len() {
            let rest = &self.waiting[done_bytes..];
            let allowed_bytes =
                self.pace.as_ref().map_or(rest.len(), |pace| pace.allow(rest.len()));
            match rustix::io::write(self.fd, &rest[..allowed_bytes]) {
                // As the engine takes it: asked again, the target would answer 0 for ever.
                Ok(0) => return Err(Errno::IO.into()),
                Ok(written_bytes) => {
                    done_bytes += written_bytes;
                    self.delivered_bytes += written_bytes as u64;
                    if let Some(pace) = &mut self.pace {
                        pace.passed(written_bytes);
                    }
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

impl Pace {
    /// Waits until bytes may pass. Returns how many of `wanted_bytes` may: at most those of a twentieth of a
    /// second.
    fn allow(&self, wanted_bytes: usize) -> usize {
        // Slept before and not after the write: the last bytes wait for nobody.
        sleep(self.next.saturating_duration_since(Instant::now()));
        // A twentieth of a second at a time, so that the rate is even.
        let share_bytes = usize::try_from(self.bytes_per_second / 20).unwrap_or(usize::MAX);
        wanted_bytes.min(share_bytes.max(1))
    }

    /// Counts bytes that passed. Time in which the source was idle is not made up for: no burst follows a
    /// pause.
    fn passed(&mut self, bytes: usize) {
        let taken = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        self.next = self.next.max(Instant::now()) + taken;
    }
}

/// Formats all of `source` into `output`.
///
/// # Errors
/// The end that failed. Bytes formatted before a failure of the source are still written. Read are `buffer_bytes` at a time; a longer buffer takes the
/// place of `buffer` for a longer datagram.
pub fn format(
    source: BorrowedFd<'_>,
    formatter: &mut Formatter,
    output: &mut Output<'_>,
    buffer: &mut Pages,
    buffer_bytes: usize,
) -> Result<(), End> {
    let failed = |errno: Errno| End::Source(errno.into());
    let mut port = Port::of(&source).map_err(failed)?;
    // The kernel drops the rest of a packet (O_DIRECT of pipe(2)), a page at most, that a read has cut.
    let buffer_bytes = match port.kind() {
        Kind::Pipe => buffer_bytes.max(page_size()),
        _ => buffer_bytes,
    };
    if buffer.len_bytes() < buffer_bytes {
        *buffer = Pages::new(buffer_bytes).map_err(failed)?;
    }
    loop {
        // A finished line is shown before a wait, and small ones are collected while more is at hand.
        if !output.waiting.is_empty() && !is_ready(source) {
            output.flush().map_err(End::Target)?;
        }
        let read = match port.kind() {
            Kind::Datagram => port.read_whole(buffer, usize::MAX),
            // As a plain read, but up to the largest offset.
            Kind::File | Kind::Block => port.read(&mut buffer.as_mut_slice()[..buffer_bytes]),
            // A plain read waits by itself, which saves a call.
            _ => rustix::io::read(source, &mut buffer.as_mut_slice()[..buffer_bytes]),
        };
        let read_bytes = match read {
            Ok(0) => return output.flush().map_err(End::Target),
            Ok(read_bytes) => read_bytes,
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => {
                wait(source, PollFlags::IN).map_err(End::Source)?;
                continue;
            }
            Err(errno) => {
                // What was read before the failure is shown, as GNU cat does.
                output.flush().map_err(End::Target)?;
                return Err(End::Source(errno.into()));
            }
        };
        let mut used_bytes = 0;
        while used_bytes < read_bytes {
            let rest = &buffer.as_slice()[used_bytes..read_bytes];
            used_bytes += formatter.feed(rest, &mut output.waiting, ENOUGH_BYTES);
            if output.waiting.len() >= ENOUGH_BYTES {
                output.flush().map_err(End::Target)?;
            }
        }
    }
}

/// Would a read return at once, with data, the end, or an error?
fn is_ready(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut fds, Some(&at_once)), Ok(1..))
}

fn wait(fd: BorrowedFd<'_>, events: PollFlags) -> io::Result<()> {
    match poll(&mut [PollFd::from_borrowed_fd(fd, events)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
