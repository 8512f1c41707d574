//! How the two programs wait for each other.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{self, Errno};

/// The way of waiting while the pipe is full or empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Waiting {
    /// Sleeps inside the call.
    #[default]
    Block,
    /// Sleeps in poll(2) before each call.
    Poll,
    /// Calls again at once, for ever.
    Spin,
    /// Asks poll(2) again at once until the pipe is ready, before each call.
    #[value(skip)]
    SpinPoll,
    /// Calls again for some microseconds, then sleeps in poll(2).
    Hybrid,
}

/// About the cost of a wake-up: spinning longer than that saves nothing.
const SPIN: Duration = Duration::from_micros(50);

impl Waiting {
    /// Must the calls be made so that they never sleep?
    pub fn is_non_blocking(self) -> bool {
        matches!(self, Self::Spin | Self::SpinPoll | Self::Hybrid)
    }

    /// The same for the engine's own writers.
    pub(super) fn of_engine(self) -> gush::Wait {
        match self {
            Self::Block | Self::Poll => gush::Wait::Block,
            Self::Spin | Self::SpinPoll => gush::Wait::Spin,
            Self::Hybrid => gush::Wait::Hybrid(SPIN),
        }
    }

    /// Makes `call` until the answer is something other than "again" or "interrupted".
    pub(super) fn until_done<T>(
        self,
        fd: BorrowedFd<'_>,
        events: PollFlags,
        mut call: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        let mut spinning_since = None;
        loop {
            match self {
                Self::Poll => sleep(fd, events)?,
                Self::SpinPoll => {
                    while gush::poll_now(&fd, events).is_ok_and(|now| now.is_empty()) {}
                }
                Self::Block | Self::Spin | Self::Hybrid => {}
            }
            match call() {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if self == Self::Hybrid => {
                    if spinning_since.get_or_insert_with(Instant::now).elapsed() > SPIN {
                        sleep(fd, events)?;
                        spinning_since = None;
                    }
                }
                // Somebody else made the descriptor non-blocking: sleeping is still what was asked
                // for.
                Err(Errno::AGAIN) if self == Self::Block => sleep(fd, events)?,
                Err(Errno::AGAIN) => {}
                answer => return answer,
            }
        }
    }
}

/// Sleeps until one of `events`, an error or the end is there.
pub(super) fn sleep(fd: BorrowedFd<'_>, events: PollFlags) -> io::Result<()> {
    match poll(&mut [PollFd::from_borrowed_fd(fd, events)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}
