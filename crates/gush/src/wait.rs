//! How to wait until a descriptor can be read or written.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::{self, Errno};

use crate::port::Side;
use crate::sys;

/// What a blocking move does while neither side can go on.
///
/// ```
/// use std::time::Duration;
/// let wait = gush::Wait::Hybrid(Duration::from_micros(20));
/// assert_ne!(wait, gush::Wait::Block);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// Sleep in poll(2): no processor time while idle.
    #[default]
    Block,
    /// Ask again at once, for ever: lowest latency, one whole processor.
    Spin,
    /// Spin for so long, then sleep: a peer that is about to act is met without a wake-up.
    Hybrid(Duration),
}

/// How the wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The descriptor can go on, or a signal came: try again.
    Ready,
    /// Nothing happened within the slice.
    NotYet,
}

impl Wait {
    /// Waits for `fd`, at most `slice` long if one is given.
    pub(crate) fn for_side(
        self,
        fd: BorrowedFd<'_>,
        side: Side,
        slice: Option<Duration>,
    ) -> io::Result<Woken> {
        let events = match side {
            Side::Source => PollFlags::IN,
            Side::Target => PollFlags::OUT,
        };
        match self {
            Wait::Block => block(fd, events, slice),
            Wait::Spin => Ok(Woken::Ready),
            Wait::Hybrid(spin) => {
                let spin = slice.map_or(spin, |slice| spin.min(slice));
                let start = Instant::now();
                while start.elapsed() < spin {
                    if sys::pipe::is_ready(fd, events)? {
                        return Ok(Woken::Ready);
                    }
                    std::hint::spin_loop();
                }
                block(fd, events, slice)
            }
        }
    }
}

fn block(fd: BorrowedFd<'_>, events: PollFlags, slice: Option<Duration>) -> io::Result<Woken> {
    let timeout = slice.map(|slice| Timespec {
        tv_sec: i64::try_from(slice.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: slice.subsec_nanos().into(),
    });
    let mut fds = [PollFd::from_borrowed_fd(fd, events)];
    match sys::pipe::poll(&mut fds, timeout.as_ref()) {
        Ok(0) => Ok(Woken::NotYet),
        Ok(_) | Err(Errno::INTR) => Ok(Woken::Ready),
        Err(errno) => Err(errno),
    }
}
