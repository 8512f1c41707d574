//! `-l` by reading and writing: with `-S` or `-L` lines are counted before they are delivered, so that no byte behind the last of
//! them passes. Without either nothing limits the lines, until `-R` gives a rate.

use gush::{Port, Side};
use rustix::event::PollFlags;
use rustix::fs::{SeekFrom, seek};

use super::hand::{BUFFER_BYTES, Intake, allowance, delivered, unless_cancelled};
use super::inputs::Input;
use super::moving::{Halt, Moving};

/// Moves at most `most_lines`, and no more a second than the rate limit says in lines.
///
/// # Errors
/// The failed call, and the side.
pub fn lines(moving: &Moving<'_>, input: &Input, most_lines: u64) -> Result<(), Halt> {
    let halted = |side| move |errno| Halt::by(side, errno);
    let mut target = Port::of(&moving.output).map_err(halted(Side::Target))?;
    let buffer_bytes = moving.options.buffer_size.unwrap_or(BUFFER_BYTES).min(4 << 20);
    let mut source = Intake::of(input, buffer_bytes).map_err(halted(Side::Source))?;
    let mut left_lines = most_lines;
    while left_lines > 0 {
        let read = || source.read(buffer_bytes);
        let got = unless_cancelled(&moving.account, PollFlags::IN, input, read)
            .map_err(halted(Side::Source))?;
        if got == 0 {
            return Ok(());
        }
        let mut done = 0;
        let mut outcome = Ok(());
        // Every byte before `done` is delivered, and its lines are no longer among `left_lines`.
        while done < got && left_lines > 0 {
            let now = usize::try_from(left_lines).unwrap_or(usize::MAX);
            let now = match allowance(&moving.account, now) {
                Ok(now) => now,
                Err(halt) => {
                    outcome = Err(halt);
                    break;
                }
            };
            let rest = &source.taken(got)[done..];
            // A line has a byte at least: where so many may pass, no end has to be looked for.
            let lines = match now < rest.len() {
                true => &rest[..end_of(rest, now, moving.options.separator())],
                false => rest,
            };
            let account = &moving.account;
            let put = match delivered(account, &mut target, &moving.output, lines) {
                Ok(put) => put,
                Err(errno) => {
                    outcome = Err(Halt::by(Side::Target, errno));
                    break;
                }
            };
            // Counted in the bytes that were delivered: a write may take less than it was given.
            let ended = account.observed.count(&lines[..put]);
            left_lines -= ended;
            account.observed.show_counted(&lines[..put], ended);
            account.set_bytes(account.bytes() + put as u64);
            account.rate.spend(ended);
            done += put;
        }
        if done < got {
            // Bytes that were not delivered go back, where the input has a position; elsewhere a halt has lost them.
            let too_much = i64::try_from(got - done).unwrap_or(0);
            if seek(input, SeekFrom::Current(-too_much)).is_err() {
                let lost_bytes = (got - done) as u64;
                outcome = outcome.map_err(|halt| Halt { lost_bytes, ..halt });
            }
        }
        outcome?;
    }
    Ok(())
}

/// The end of the line number `most` in `bytes`, or of all bytes where fewer lines end there.
fn end_of(bytes: &[u8], most: usize, separator: u8) -> usize {
    let mut ends = memchr::memchr_iter(separator, bytes);
    ends.nth(most.saturating_sub(1)).map_or(bytes.len(), |end| end + 1)
}
