//! `-l -S`: lines are counted before they are delivered, so that no byte behind the last of them passes.

use std::time::Duration;

use gush::{Errno, Limiter, Port, Rate, Side};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{SeekFrom, seek};

use super::account::Account;
use super::inputs::Input;
use super::moving::{Halt, Moving};

const BUFFER_BYTES: usize = 128 << 10;

/// How long at most nobody looks whether the transfer is to end.
const SLICE: Duration = Duration::from_millis(50);

/// Moves at most `most_lines`.
///
/// # Errors
/// What failed, on which side.
pub fn lines(moving: &Moving<'_>, input: &Input, most_lines: u64) -> Result<(), Halt> {
    let separator = moving.options.separator();
    let halted = |side| move |errno| Halt::by(side, errno);
    let mut source = Port::of(input).map_err(halted(Side::Source))?;
    let mut target = Port::of(&moving.output).map_err(halted(Side::Target))?;
    let mut pace = Pace { account: &moving.account, limiter: None };
    let mut buffer = vec![0; moving.options.buffer_size.unwrap_or(BUFFER_BYTES).min(4 << 20)];
    let mut left_lines = most_lines;
    while left_lines > 0 {
        let most = pace.allowance(buffer.len())?;
        let read = |source: &mut Port<'_>| source.read(&mut buffer[..most]);
        let got = unless_cancelled(&moving.account, &mut source, PollFlags::IN, input, read)
            .map_err(halted(Side::Source))?;
        if got == 0 {
            return Ok(());
        }
        let ends = memchr::memchr_iter(separator, &buffer[..got]);
        let last = usize::try_from(left_lines - 1).unwrap_or(usize::MAX);
        let taken = { ends }.nth(last).map_or(got, |end| end + 1);
        if taken < got {
            // What was read too much goes back, where the input has a position.
            let too_much = i64::try_from(got - taken).unwrap_or(0);
            let _ = seek(input, SeekFrom::Current(-too_much));
        }
        let mut done = 0;
        while done < taken {
            let rest = &buffer[done..taken];
            let write = |target: &mut Port<'_>| target.write(rest);
            let put = unless_cancelled(
                &moving.account,
                &mut target,
                PollFlags::OUT,
                &moving.output,
                write,
            );
            let put = put.map_err(|errno| Halt {
                lost_bytes: (taken - done) as u64,
                ..Halt::by(Side::Target, errno)
            })?;
            let delivered = &buffer[done..done + put];
            left_lines -= memchr::memchr_iter(separator, delivered).count() as u64;
            moving.account.observed.show(delivered);
            moving.account.set_bytes(moving.account.bytes() + put as u64);
            pace.spend(put);
            done += put;
        }
    }
    Ok(())
}

/// Calls again until the call neither waits nor is interrupted; `ECANCELED` once the transfer is to end.
fn unless_cancelled<T>(
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
                let _ = poll(&mut [PollFd::new(fd, events)], slice.as_ref());
            }
            Err(Errno::INTR) => {}
            answer => return answer,
        }
    }
}

/// The rate limit, as the engine has it.
struct Pace<'a> {
    account: &'a Account,
    limiter: Option<(Rate, Limiter)>,
}

impl Pace<'_> {
    /// Waits until bytes may pass; answers how many of `wanted`.
    fn allowance(&mut self, wanted: usize) -> Result<usize, Halt> {
        loop {
            let rate = self.account.throttle.get();
            if self.limiter.as_ref().map(|(rate, _)| *rate) != rate {
                self.limiter = rate.map(|rate| (rate, Limiter::new(rate)));
            }
            let Some((_, limiter)) = &mut self.limiter else { return Ok(wanted) };
            match limiter.allowance() {
                Ok(bytes) => return Ok(usize::try_from(bytes).unwrap_or(wanted).clamp(1, wanted)),
                Err(pause) => std::thread::sleep(pause.min(SLICE)),
            }
            if self.account.cancel.is_cancelled() {
                return Err(Halt::by(Side::Source, Errno::CANCELED));
            }
        }
    }

    fn spend(&mut self, bytes: usize) {
        if let Some((_, limiter)) = &mut self.limiter {
            limiter.spend(bytes as u64);
        }
    }
}
