//! The reader: takes bytes out of the pipe, counts them, and says how fast they came.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::fs::OFlags;
use rustix::pipe::SpliceFlags;

use super::options::ReadOptions;
use super::pattern::{Checker, Pattern};
use super::{Waiting, ends, hold, memory, waiting};
use crate::{Error, affinity, once};

const NAME: &str = "standard input";

/// The reader's measurement.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    pub bytes: u64,
    /// From the moment when the first byte was there.
    pub elapsed: Duration,
    /// Bytes asked for in one call.
    pub buffer_bytes: usize,
    /// The pipe's size at the end; none where the input was no pipe.
    pub pipe_bytes: Option<usize>,
}

impl Reading {
    /// The speed, in GiB/s; 0 when nothing came.
    pub fn gib_per_s(&self) -> f64 {
        once::gib_per_s(self.bytes, self.elapsed.as_secs_f64()).unwrap_or(0.0)
    }

    /// A sentence about bytes that never came, if the writer ended before `wanted_bytes`.
    pub fn cut_short(&self, wanted_bytes: u64) -> Option<String> {
        let (bytes, wanted) = (size(self.bytes), size(wanted_bytes));
        (self.bytes < wanted_bytes).then(|| format!("the writer ended after {bytes} of {wanted}"))
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gib_per_s = self.gib_per_s();
        // A slow pipe still shows two digits.
        let decimals = if gib_per_s < 1.0 { 3 } else { 1 };
        write!(
            f,
            "{gib_per_s:.decimals$}GiB/s, {} buffer, {} iterations ({} piped)",
            size(self.buffer_bytes as u64),
            self.bytes / self.buffer_bytes.max(1) as u64,
            size(self.bytes)
        )
    }
}

/// As the original prints a size, without a space.
fn size(bytes: u64) -> String {
    gush_text::exact_bytes(bytes).replace(' ', "")
}

/// Takes bytes out of `from` until there are enough or the writer is gone.
///
/// Notices that are no failures go to `say`.
pub fn read(
    options: &ReadOptions,
    from: &impl AsFd,
    say: &mut dyn FnMut(&str),
) -> Result<Reading, Error> {
    options.check()?;
    let from = from.as_fd();
    let is_pipe = ends::is_pipe(from, NAME)?;
    if rustix::termios::isatty(from) {
        return Err(Error::refused(
            "standard input is a terminal: connect the two, gush pipe write | gush pipe read",
        ));
    }
    if !is_pipe && (options.splice || options.hold) {
        return Err(ends::no_pipe(NAME, "--splice and --hold take pages out of one"));
    }
    match options.shared.pipe_size {
        Some(_) if !is_pipe => return Err(ends::no_pipe(NAME, "--pipe-size is the size of one")),
        Some(pipe_bytes) => drop(ends::size(from, pipe_bytes, say)?),
        None => {}
    }
    let take_all = intake(options, from)?;
    // The clock begins with the first byte: how long the writer takes to start is not its speed.
    waiting::sleep(from, PollFlags::IN).map_err(|errno| Error::failed("poll failed", errno))?;
    let start = Instant::now();
    let bytes = take_all()?;
    let elapsed = start.elapsed();
    let pipe_bytes = rustix::pipe::fcntl_getpipe_size(from).ok().filter(|_| is_pipe);
    Ok(Reading { bytes, elapsed, buffer_bytes: options.buffer_bytes(), pipe_bytes })
}

/// Takes all bytes.
type Intake<'a> = Box<dyn FnOnce() -> Result<u64, Error> + 'a>;

/// Where the bytes go, made ready before the clock starts.
fn intake<'a>(options: &'a ReadOptions, from: BorrowedFd<'a>) -> Result<Intake<'a>, Error> {
    if options.hold {
        let mut hold = hold::Hold::new(options, from)?;
        return Ok(Box::new(move || hold.run()));
    }
    if options.splice {
        let null = File::options().write(true).open("/dev/null");
        let null = null.map_err(|error| Error::failed("cannot open /dev/null", error))?;
        return Ok(Box::new(move || splice_all(options, from, null.as_fd())));
    }
    let mut pages = memory::allocate(options.buffer_bytes(), &options.shared, Pattern::Constant)?;
    let waiting = options.shared.waiting().unwrap_or_default();
    let own = ends::unsleeping(from, NAME, OFlags::RDONLY, waiting)?;
    Ok(Box::new(move || read_all(options, own.as_ref().map_or(from, AsFd::as_fd), &mut pages)))
}

fn read_all(
    options: &ReadOptions,
    from: BorrowedFd<'_>,
    pages: &mut gush::Pages,
) -> Result<u64, Error> {
    let mut checker = options.verify.then(|| Checker::new(options.shared.pattern));
    let waiting = options.shared.waiting().unwrap_or_default();
    let mut taken = 0;
    while taken < options.bytes() {
        let most = most(options, taken);
        let buf = &mut pages.as_mut_slice()[..most];
        let got = waiting
            .until_done(from, PollFlags::IN, || rustix::io::read(from, &mut *buf))
            .map_err(|errno| failed("read", taken, errno))?;
        // The end: no writer has the pipe any more.
        if got == 0 {
            break;
        }
        if let Some(checker) = &mut checker {
            checker.check(&buf[..got])?;
        }
        taken += got as u64;
    }
    Ok(taken)
}

fn splice_all(
    options: &ReadOptions,
    from: BorrowedFd<'_>,
    null: BorrowedFd<'_>,
) -> Result<u64, Error> {
    let mut flags = SpliceFlags::empty();
    // As the published reader passes it; the kernel ignores the flag (splice(2)).
    flags.set(SpliceFlags::MOVE, options.gift);
    let mut waiting = options.shared.waiting().unwrap_or_default();
    // Asked after the first byte, when the writer has made the pipe as large as it will be.
    let paged_bytes = rustix::pipe::fcntl_getpipe_size(from).unwrap_or(usize::MAX);
    let may_spin =
        options.shared.waiting().is_none() && affinity::allowed().is_ok_and(|all| all.len() > 1);
    let mut taken = 0;
    while taken < options.bytes() {
        let most = most(options, taken);
        flags.set(SpliceFlags::NONBLOCK, waiting.is_non_blocking());
        let got = waiting
            .until_done(from, PollFlags::IN, || {
                rustix::pipe::splice(from, None, null, None, most, flags)
            })
            .map_err(|errno| failed("splice", taken, errno))?;
        // More than the pipe has room for in slots of a page: only a writer that passes pages on
        // fills slots so, and such a writer is back before a sleeping reader would be awake
        // (bench/RESULTS.md).
        if may_spin && got > paged_bytes {
            waiting = Waiting::Hybrid;
        }
        // read(2) returns 0 when the pipe is empty and has no writer (pipe(7)).
        if got == 0 {
            break;
        }
        taken += got as u64;
    }
    Ok(taken)
}

fn most(options: &ReadOptions, taken: u64) -> usize {
    usize::try_from(options.bytes() - taken).unwrap_or(usize::MAX).min(options.buffer_bytes())
}

pub(super) fn failed(call: &str, taken: u64, error: impl Into<io::Error>) -> Error {
    Error::failed(format!("{call} failed after {taken} bytes"), error)
}
