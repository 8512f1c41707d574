//! How to wait until a descriptor can be read or written.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::{self, Errno};

use crate::port::Side;
use crate::sys;

/// How a blocking move waits while neither side can go on.
///
/// ```
/// use std::time::Duration;
/// let wait = gush::Wait::Hybrid(Duration::from_micros(20));
/// assert_ne!(wait, gush::Wait::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// Poll for 50 µs, yielding to other programs, then sleep in poll(2). Looks that find nothing,
    /// or are prolonged by other programs, become rarer, down to one in 64 waits. Two programs that
    /// splice through one pipe wait for each other hundreds of times a GiB, and each sleep costs a
    /// wake-up on another processor.
    ///
    /// Between two pipes of 1 MiB or more, a [`Mover`](crate::Mover) also rests for 50 µs after
    /// several quick steps of less than 128 KiB, so that the next step moves more.
    #[default]
    Auto,
    /// Sleep in poll(2): no processor time while idle.
    Block,
    /// Ask again at once, for ever: lowest latency, one whole processor.
    Spin,
    /// Spin for so long, then sleep: a peer about to act is met without a wake-up.
    Hybrid(Duration),
}

/// How long [`Wait::Auto`] looks before sleeping.
const LOOK: Duration = Duration::from_micros(50);

/// A longer look let another program run for a whole turn, and counts as one that found nothing: on
/// a busy machine a sleeper is served before a program that yields.
const LONG_LOOK: Duration = Duration::from_micros(200);

/// How many waits at most follow each other without a look.
const MOST_SKIPPED: u32 = 63;

/// How long a wait may last before a watched move asks observer and canceller again (invariant 7).
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// The longest wait: a slice where somebody is to be asked in between.
pub(crate) fn longest(is_watched: bool) -> Option<Duration> {
    is_watched.then_some(SLICE)
}

/// How long to pause after so many waits in a row ended by POLLERR alone: a message in a socket's
/// error queue that nobody takes ends every wait at once.
fn pause_after(errors: u32) -> Duration {
    // The first ones cost nothing: mostly the next call takes the error.
    SLICE.min(Duration::from_micros(1 << errors.min(20)) - Duration::from_micros(1))
}

/// How the wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The descriptor can go on, or a signal came: try again.
    Ready,
    /// Nothing happened within the slice.
    NotYet,
}

/// poll(2) without waiting: which of `events` are there, an error, or a hang-up.
///
/// # Errors
/// The error of poll(2).
pub fn poll_now(fd: &impl AsFd, events: PollFlags) -> std::io::Result<PollFlags> {
    Ok(sys::pipe::poll_now(fd.as_fd(), events)?)
}

/// One move's way of waiting, and the lesson of past looks.
#[derive(Debug)]
pub(crate) struct Waiter {
    wait: Wait,
    /// Waits until the next look.
    skip: u32,
    /// Waits that are skipped when the next look finds nothing: 1, 3, 7, ...
    next_skip: u32,
    /// [`LONG_LOOK`], or the time of a test that no machine is too busy for.
    long_look: Duration,
    /// Waits in a row that POLLERR alone has ended.
    errors: u32,
}

impl Waiter {
    pub(crate) fn new(wait: Wait) -> Self {
        Self { wait, skip: 0, next_skip: 1, long_look: LONG_LOOK, errors: 0 }
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
        let woken = self.wait_for_any(fds, slice);
        let events = fds.iter().map(PollFd::revents).filter(|events| !events.is_empty());
        let mut events = events.peekable();
        if events.peek().is_some() && events.all(|events| events == PollFlags::ERR) {
            // poll(2) always reports POLLERR, so only a pause keeps the loop from taking a
            // processor.
            std::thread::sleep(pause_after(self.errors));
            self.errors = self.errors.saturating_add(1);
        } else {
            self.errors = 0;
        }
        woken
    }

    fn wait_for_any(
        &mut self,
        fds: &mut [PollFd<'_>],
        slice: Option<Duration>,
    ) -> io::Result<Woken> {
        let most = |look: Duration| slice.map_or(look, |slice| look.min(slice));
        match self.wait {
            Wait::Block => block(fds, slice),
            // No poll(2): the caller's next call is the question itself.
            Wait::Spin => Ok(Woken::Ready),
            // The processor is kept: the user has asked for latency, and pays for it.
            Wait::Hybrid(spin) => match look(fds, most(spin), std::hint::spin_loop)? {
                Woken::Ready => Ok(Woken::Ready),
                Woken::NotYet => block(fds, slice),
            },
            // Yields: on a machine with few processors the peer may need this one.
            Wait::Auto => match self.look_now_and_then(fds, most(LOOK), std::thread::yield_now)? {
                Woken::Ready => Ok(Woken::Ready),
                Woken::NotYet => block(fds, slice),
            },
        }
    }

    fn look_now_and_then(
        &mut self,
        fds: &mut [PollFd<'_>],
        limit: Duration,
        pause: impl FnMut(),
    ) -> io::Result<Woken> {
        // Skipped waits sleep at once, which costs no more than a program without looks.
        if self.skip > 0 {
            self.skip -= 1;
            return Ok(Woken::NotYet);
        }
        let began = Instant::now();
        let woken = look(fds, limit, pause)?;
        if woken == Woken::Ready && began.elapsed() < self.long_look {
            self.next_skip = 1;
        } else {
            self.skip = self.next_skip;
            // Doubled, so that a slow peer costs a look in 64 waits, and bounded, to find one that
            // is fast.
            self.next_skip = (self.next_skip * 2 + 1).min(MOST_SKIPPED);
        }
        Ok(woken)
    }
}

/// Polls once, then again until `limit`, with `pause` in between; at least twice unless `limit` is
/// 0, however late this thread was meanwhile.
fn look(fds: &mut [PollFd<'_>], limit: Duration, mut pause: impl FnMut()) -> io::Result<Woken> {
    let began = Instant::now();
    let mut has_time = !limit.is_zero();
    // Asked before the clock is looked at: a thread that lost its turn still gets its answer.
    while block(fds, Some(Duration::ZERO))? == Woken::NotYet {
        if !has_time {
            return Ok(Woken::NotYet);
        }
        pause();
        has_time = began.elapsed() < limit;
    }
    Ok(Woken::Ready)
}

fn block(fds: &mut [PollFd<'_>], slice: Option<Duration>) -> io::Result<Woken> {
    let timeout = slice.map(|slice| Timespec {
        // A longer wait than the kernel can count is for ever, and no error.
        tv_sec: i64::try_from(slice.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: slice.subsec_nanos().into(),
    });
    match sys::pipe::poll(fds, timeout.as_ref()) {
        Ok(0) => Ok(Woken::NotYet),
        // A signal may have been sent to stop the move: the caller looks, and waits again if not.
        Ok(_) | Err(Errno::INTR) => Ok(Woken::Ready),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags};

    use super::{LONG_LOOK, LOOK, MOST_SKIPPED, Wait, Waiter, Woken, pause_after};
    use crate::port::Side;

    const SLICE: Duration = Duration::from_micros(100);

    /// Takes no look for a long one, however busy the machine is.
    fn patient() -> Waiter {
        Waiter { long_look: Duration::MAX, ..Waiter::new(Wait::Auto) }
    }

    /// A slow peer costs a look in 64 waits, and a peer found there is looked for again.
    #[test]
    fn looks_that_find_nothing_are_made_ever_more_rarely() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let mut waiter = patient();
        let wait = |waiter: &mut Waiter| waiter.for_side(reader.as_fd(), Side::Source, Some(SLICE));
        for skipped in [1, 3, 7, 15, 31, 63, MOST_SKIPPED] {
            assert_eq!(wait(&mut waiter), Ok(Woken::NotYet));
            assert_eq!(waiter.skip, skipped, "after a look that found nothing");
            for left in (0..skipped).rev() {
                assert_eq!(wait(&mut waiter), Ok(Woken::NotYet));
                assert_eq!(waiter.skip, left);
            }
        }

        rustix::io::write(&writer, b"x").expect("a byte");
        assert_eq!(wait(&mut waiter), Ok(Woken::Ready));
        assert_eq!(waiter.skip, 0, "it was found by a look");
        rustix::io::read(&reader, &mut [0]).expect("the byte");
        assert_eq!(wait(&mut waiter), Ok(Woken::NotYet));
        assert_eq!(waiter.skip, 1, "a look that found something makes the others frequent again");
    }

    /// Two programs wait for each other hundreds of times a GiB: a vain look saves no sleep.
    #[test]
    fn a_peer_that_acts_during_the_look_is_found_by_it() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let mut fds = [PollFd::new(&reader, PollFlags::IN)];
        let mut pauses = 0;
        let act = || {
            pauses += 1;
            rustix::io::write(&writer, b"x").expect("a byte");
        };
        let mut waiter = patient();
        assert_eq!(waiter.look_now_and_then(&mut fds, LOOK, act), Ok(Woken::Ready));
        assert_eq!((pauses, waiter.skip), (1, 0), "it was found by the look");
    }

    /// The pause simulates a turn of another program, which the scheduler lets go first.
    #[test]
    fn a_look_that_other_programs_prolong_makes_looks_rarer() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let mut fds = [PollFd::new(&reader, PollFlags::IN)];
        let another_turn = || {
            std::thread::sleep(LONG_LOOK);
            rustix::io::write(&writer, b"x").expect("a byte");
        };
        let mut waiter = Waiter::new(Wait::Auto);
        assert_eq!(waiter.look_now_and_then(&mut fds, LOOK, another_turn), Ok(Woken::Ready));
        assert_eq!(waiter.skip, 1, "the next wait sleeps at once");
    }

    #[test]
    fn waits_that_an_error_alone_ends_become_pauses() {
        assert_eq!(pause_after(0), Duration::ZERO, "the error of a pipe without a reader");
        assert!((1..40).all(|errors| pause_after(errors) >= pause_after(errors - 1)));
        assert_eq!(pause_after(u32::MAX), super::SLICE);

        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut waiter = Waiter::new(Wait::Block);
        for errors in 1..4 {
            assert_eq!(waiter.for_side(writer.as_fd(), Side::Source, None), Ok(Woken::Ready));
            assert_eq!(waiter.errors, errors);
        }
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        assert_eq!(waiter.for_side(reader.as_fd(), Side::Source, Some(SLICE)), Ok(Woken::NotYet));
        assert_eq!(waiter.errors, 0);
    }

    #[test]
    fn a_look_ends_with_the_slice() {
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        for wait in [Wait::Auto, Wait::Block, Wait::Hybrid(Duration::from_secs(3600))] {
            let woken = Waiter::new(wait).for_side(reader.as_fd(), Side::Source, Some(SLICE));
            assert_eq!(woken, Ok(Woken::NotYet), "{wait:?}");
        }
    }
}
