//! The hostile reader: keeps pieces aside by reference, lets the writer go on, and looks at them
//! then.
//!
//! This is what `tee`, `pv` or a proxy with splice(2) do, only slower: nothing here breaks a rule.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::thread;
use std::time::Duration;

use gush::Errno;
use rustix::event::PollFlags;
use rustix::pipe::{PipeFlags, SpliceFlags};

use super::options::ReadOptions;
use super::pattern::Checker;
use super::read::failed;
use super::waiting;
use crate::Error;

/// As large as is permitted to everybody.
const PRIVATE_BYTES: usize = 1 << 20;
/// So many pipes hold more than all buffers of a writer together: two of 2 MiB, where the writer's
/// pipe has 1 MiB.
const PIPES: usize = 6;
/// Time for the writer to fill the free room.
const WAIT: Duration = Duration::from_millis(5);

pub(super) struct Hold<'a> {
    options: &'a ReadOptions,
    from: BorrowedFd<'a>,
    /// The two ends of each private pipe.
    private: Vec<(OwnedFd, OwnedFd)>,
    checker: Checker,
    taken: u64,
    ended: bool,
}

impl<'a> Hold<'a> {
    pub(super) fn new(options: &'a ReadOptions, from: BorrowedFd<'a>) -> Result<Self, Error> {
        let private = (0..PIPES).map(|_| private_pipe()).collect::<Result<_, _>>()?;
        let checker = Checker::new(options.shared.pattern);
        Ok(Self { options, from, private, checker, taken: 0, ended: false })
    }

    pub(super) fn run(&mut self) -> Result<u64, Error> {
        let private = std::mem::take(&mut self.private);
        while !self.ended && self.taken < self.options.bytes() {
            let mut held = Vec::new();
            for (_, into) in &private {
                held.push(self.take_until_full(into)?);
            }
            // Time for the writer to write its buffers again, if it is one that does.
            thread::sleep(WAIT);
            for ((out, _), held) in private.iter().zip(held) {
                self.look_at(out, held)?;
            }
        }
        Ok(self.taken)
    }

    /// Fills a private pipe, and answers the number of bytes taken.
    fn take_until_full(&mut self, into: &OwnedFd) -> Result<u64, Error> {
        let mut held = 0;
        while !self.ended && self.taken < self.options.bytes() {
            let left = usize::try_from(self.options.bytes() - self.taken).unwrap_or(usize::MAX);
            match self.take(into, left) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(got) => {
                    held += got as u64;
                    self.taken += got as u64;
                }
                Err(Errno::INTR) => {}
                // "Nothing there" or "no room here": with room left it is the former.
                Err(Errno::AGAIN) => {
                    let room = gush::poll_now(into, PollFlags::OUT)
                        .map_err(|error| failed("poll", self.taken, error))?;
                    if held > 0 && room.is_empty() {
                        break;
                    }
                    waiting::sleep(self.from, PollFlags::IN)
                        .map_err(|errno| failed("poll", self.taken, errno))?;
                }
                Err(errno) => return Err(failed("splice", self.taken, errno)),
            }
        }
        Ok(held)
    }

    fn take(&self, into: &OwnedFd, most: usize) -> Result<usize, Errno> {
        rustix::pipe::splice(self.from, None, into, None, most, SpliceFlags::NONBLOCK)
    }

    fn look_at(&mut self, out: &OwnedFd, mut held: u64) -> Result<(), Error> {
        let mut buf = vec![0; 64 << 10];
        while held > 0 {
            let most = usize::try_from(held).unwrap_or(usize::MAX).min(buf.len());
            match rustix::io::read(out, &mut buf[..most]) {
                Ok(got) => {
                    self.checker.check(&buf[..got])?;
                    held -= got as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed("read", self.taken, errno)),
            }
        }
        Ok(())
    }
}

/// A private pipe; where the kernel refuses to enlarge it, the reader holds fewer pages.
fn private_pipe() -> Result<(OwnedFd, OwnedFd), Error> {
    let ends = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
        .map_err(|errno| Error::failed("no private pipe to hold bytes in", errno))?;
    // A smaller pipe holds less, and finds an unsound writer later or not at all.
    let _ = rustix::pipe::fcntl_setpipe_size(&ends.1, PRIVATE_BYTES);
    Ok(ends)
}
