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
/// assert_ne!(wait, gush::Wait::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// While the peer answers within a tenth of a millisecond, look for it for half of that time, and let
    /// other programs run between two looks; otherwise sleep in poll(2). Two programs that splice through
    /// one pipe wait for each other hundreds of times a GiB, and each sleep costs a wake-up on another
    /// processor, which a virtual machine pays dearly for.
    #[default]
    Auto,
    /// Sleep in poll(2): no processor time while idle.
    Block,
    /// Ask again at once, for ever: lowest latency, one whole processor.
    Spin,
    /// Spin for so long, then sleep: a peer that is about to act is met without a wake-up.
    Hybrid(Duration),
}

/// How long [`Wait::Auto`] looks before it sleeps.
const LOOK: Duration = Duration::from_micros(50);

/// A wait that lasted longer than this says that the next one is not worth a look.
const SHORT: Duration = Duration::from_micros(100);

/// How long a wait may last before a watched move asks its observer and its canceller again (invariant 7).
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// How the wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The descriptor can go on, or a signal came: try again.
    Ready,
    /// Nothing happened within the slice.
    NotYet,
}

/// One move's way of waiting, and what its last wait taught it.
#[derive(Debug)]
pub(crate) struct Waiter {
    wait: Wait,
    was_short: bool,
}

impl Waiter {
    pub(crate) fn new(wait: Wait) -> Self {
        Self { wait, was_short: true }
    }

    pub(crate) fn way(&self) -> Wait {
        self.wait
    }

    /// Waits for `fd`, at most `slice` long if one is given.
    pub(crate) fn for_side(
        &mut self,
        fd: BorrowedFd<'_>,
        side: Side,
        slice: Option<Duration>,
    ) -> io::Result<Woken> {
        let events = match side {
            Side::Source => PollFlags::IN,
            Side::Target => PollFlags::OUT,
        };
        self.for_any(&mut [PollFd::from_borrowed_fd(fd, events)], slice)
    }

    /// Waits until poll(2) has an answer for one of `fds`, at most `slice` long if one is given.
    pub(crate) fn for_any(
        &mut self,
        fds: &mut [PollFd<'_>],
        slice: Option<Duration>,
    ) -> io::Result<Woken> {
        let most = |look: Duration| slice.map_or(look, |slice| look.min(slice));
        match self.wait {
            Wait::Block => block(fds, slice),
            Wait::Spin => Ok(Woken::Ready),
            Wait::Hybrid(spin) => match look(fds, most(spin), std::hint::spin_loop)? {
                Woken::Ready => Ok(Woken::Ready),
                Woken::NotYet => block(fds, slice),
            },
            Wait::Auto => {
                let began = Instant::now();
                if self.was_short && look(fds, most(LOOK), std::thread::yield_now)? == Woken::Ready
                {
                    return Ok(Woken::Ready);
                }
                let woken = block(fds, slice);
                self.was_short = began.elapsed() <= SHORT;
                woken
            }
        }
    }
}

/// Asks again and again for as long as `limit`, with `pause` between two questions.
fn look(fds: &mut [PollFd<'_>], limit: Duration, pause: fn()) -> io::Result<Woken> {
    let began = Instant::now();
    while began.elapsed() < limit {
        if block(fds, Some(Duration::ZERO))? == Woken::Ready {
            return Ok(Woken::Ready);
        }
        pause();
    }
    Ok(Woken::NotYet)
}

fn block(fds: &mut [PollFd<'_>], slice: Option<Duration>) -> io::Result<Woken> {
    let timeout = slice.map(|slice| Timespec {
        tv_sec: i64::try_from(slice.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: slice.subsec_nanos().into(),
    });
    match sys::pipe::poll(fds, timeout.as_ref()) {
        Ok(0) => Ok(Woken::NotYet),
        Ok(_) | Err(Errno::INTR) => Ok(Woken::Ready),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::time::Duration;

    use super::{SHORT, Wait, Waiter, Woken};
    use crate::port::Side;

    /// A slow peer costs no looks, and a quick one is looked for again.
    #[test]
    fn a_wait_is_begun_with_a_look_only_while_the_waits_are_short() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let mut waiter = Waiter::new(Wait::Auto);
        assert!(waiter.was_short, "the first wait is worth a look");

        let woken = waiter.for_side(reader.as_fd(), Side::Source, Some(SHORT * 20));
        assert_eq!(woken, Ok(Woken::NotYet));
        assert!(!waiter.was_short, "a wait of {:?} was long", SHORT * 20);

        rustix::io::write(&writer, b"x").expect("a byte");
        // A wait that is over at once is short, unless the scheduler made it long.
        while !waiter.was_short {
            assert_eq!(waiter.for_side(reader.as_fd(), Side::Source, None), Ok(Woken::Ready));
        }
    }

    #[test]
    fn a_look_ends_with_the_slice() {
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        for wait in [Wait::Auto, Wait::Block, Wait::Hybrid(Duration::from_secs(3600))] {
            let woken = Waiter::new(wait).for_side(reader.as_fd(), Side::Source, Some(SHORT));
            assert_eq!(woken, Ok(Woken::NotYet), "{wait:?}");
        }
    }
}
