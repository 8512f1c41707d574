//! `-l -S`: lines are counted before they are delivered, so that no byte behind the last of them passes.

use gush::{Port, Side};
use rustix::event::PollFlags;
use rustix::fs::{SeekFrom, seek};

use super::hand::{BUFFER_BYTES, Pace, unless_cancelled};
use super::inputs::Input;
use super::moving::{Halt, Moving};

/// Moves at most `most_lines`.
///
/// # Errors
/// The failed call, and the side.
pub fn lines(moving: &Moving<'_>, input: &Input, most_lines: u64) -> Result<(), Halt> {
    let separator = moving.options.separator();
    let halted = |side| move |errno| Halt::by(side, errno);
    let mut source = Port::of(input).map_err(halted(Side::Source))?;
    let mut target = Port::of(&moving.output).map_err(halted(Side::Target))?;
    let mut pace = Pace::of(&moving.account);
    let mut buffer = vec![0; moving.options.buffer_size.unwrap_or(BUFFER_BYTES).min(4 << 20)];
    let mut left_lines = most_lines;
    while left_lines > 0 {
        let most = pace.allowance(buffer.len())?;
        let read = |source: &mut Port<'_>| source.read_whole(&mut buffer, most);
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
