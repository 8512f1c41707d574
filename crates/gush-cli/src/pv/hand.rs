//! Moving by hand, where a command needs more than the engine's moves: waiting, and the rate limit.

use std::time::Duration;

use gush::{Errno, Limiter, Port, Side};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::account::Account;
use super::moving::Halt;

pub const BUFFER_BYTES: usize = 128 << 10;

/// How long at most nobody looks whether the transfer is to end.
const SLICE: Duration = Duration::from_millis(50);

/// Calls again until the call neither waits nor is interrupted: for a read, or for bytes that can be read again.
///
/// # Errors
/// That of the call; `ECANCELED` once the transfer is to end.
pub fn unless_cancelled<T>(
    account: &Account,
    port: &mut Port<'_>,
    events: PollFlags,
    fd: &impl std::os::fd::AsFd,
    mut call: impl FnMut(&mut Port<'_>) -> rustix::io::Result<T>,
) -> rustix::io::Result<T> {
    loop {
        if account.cancel.is_cancelled() {
            return Err(Errno::CANCELED);
        }
        match call(port) {
            Err(Errno::AGAIN) => {
                let slice = Timespec::try_from(SLICE).ok();
                // An error of poll(2) needs no answer here: the call is made again, and meets the cause itself.
                let _ = poll(&mut [PollFd::new(fd, events)], slice.as_ref());
            }
            Err(Errno::INTR) => {}
            answer => return answer,
        }
    }
}

/// As [`unless_cancelled`], for bytes that can be read from nowhere again: those that the target takes at once arrive also
/// once the transfer is to end.
///
/// # Errors
/// As [`unless_cancelled`].
pub fn delivered(
    account: &Account,
    port: &mut Port<'_>,
    fd: &impl std::os::fd::AsFd,
    bytes: &[u8],
) -> rustix::io::Result<usize> {
    match port.write(bytes) {
        Err(Errno::AGAIN | Errno::INTR) => {
            unless_cancelled(account, port, PollFlags::OUT, fd, |port| port.write(bytes))
        }
        answer => answer,
    }
}

/// The rate limit, as the engine takes the limit.
#[derive(Debug)]
pub struct Pace<'a> {
    account: &'a Account,
    limiter: Option<Limiter>,
}

impl<'a> Pace<'a> {
    pub fn of(account: &'a Account) -> Self {
        Self { account, limiter: None }
    }

    /// Waits until bytes may pass, or lines where the account counts them; answers how many of `wanted`.
    ///
    /// # Errors
    /// `ECANCELED` once the transfer is to end.
    pub fn allowance(&mut self, wanted: usize) -> Result<usize, Halt> {
        loop {
            Limiter::follow(&mut self.limiter, self.account.throttle.get());
            let Some(limiter) = &mut self.limiter else {
                self.account.set_limited(false);
                return Ok(wanted);
            };
            let allowance = limiter.allowance();
            self.account.set_limited(allowance.is_err());
            match allowance {
                Ok(number) => {
                    return Ok(usize::try_from(number).unwrap_or(wanted).clamp(1, wanted));
                }
                Err(pause) => {
                    limiter.begin_sleep();
                    std::thread::sleep(pause.min(SLICE));
                }
            }
            if self.account.cancel.is_cancelled() {
                return Err(Halt::by(Side::Source, Errno::CANCELED));
            }
        }
    }

    /// So many bytes or lines have passed.
    pub fn spend(&mut self, number: usize) {
        if let Some(limiter) = &mut self.limiter {
            limiter.spend(number as u64);
        }
    }
}
