//! `-l` by reading and writing: with `-S` or `-L` lines are counted before they are delivered, so
//! that no byte after the last one passes. `-R` can set a limit at any time.

use gush::{Port, Side};
use rustix::event::PollFlags;
use rustix::fs::{SeekFrom, seek};

use super::moving::{MoveError, Moving};
use super::rw::{BUFFER_BYTES, Reader, allowance, unless_cancelled, write_some};
use crate::files::Operand;

/// Moves at most `most_lines`, within the rate limit in lines per second.
///
/// # Errors
/// The failed call, and the side.
pub fn pass(moving: &Moving<'_>, input: &Operand, most_lines: u64) -> Result<(), MoveError> {
    let failed = |side| move |errno| MoveError::by(side, errno);
    let mut target = Port::of(&moving.output).map_err(failed(Side::Target))?;
    let buffer_bytes = moving.options.buffer_size.unwrap_or(BUFFER_BYTES).min(4 << 20);
    let mut source = Reader::of(input, buffer_bytes).map_err(failed(Side::Source))?;
    let mut left_lines = most_lines;
    while left_lines > 0 {
        let read = || source.read(buffer_bytes);
        let got = unless_cancelled(&moving.state, PollFlags::IN, input, read)
            .map_err(failed(Side::Source))?;
        if got == 0 {
            return Ok(());
        }
        let mut done = 0;
        let mut outcome = Ok(());
        // Every byte before `done` is delivered, and its lines are subtracted from `left_lines`.
        while done < got && left_lines > 0 {
            let now = usize::try_from(left_lines).unwrap_or(usize::MAX);
            let now = match allowance(&moving.state, now) {
                Ok(now) => now,
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            };
            let rest = &source.taken(got)[done..];
            // A line has at least one byte: if that many may pass, no line end has to be found.
            let lines = match now < rest.len() {
                true => &rest[..end_of(rest, now, moving.state.inspector.wanted.separator)],
                false => rest,
            };
            let state = &moving.state;
            let put = match write_some(state, &mut target, &moving.output, lines) {
                Ok(put) => put,
                Err(errno) => {
                    outcome = Err(MoveError::by(Side::Target, errno));
                    break;
                }
            };
            // Counted in the delivered bytes: a write may be short.
            let ended = state.inspector.count(&lines[..put]);
            left_lines -= ended;
            state.inspector.inspect_counted(&lines[..put], ended);
            state.set_bytes(state.bytes() + put as u64);
            state.rate.spend(ended);
            done += put;
        }
        if done < got {
            // Seek back over undelivered bytes; without a position they are lost on failure.
            let too_much = i64::try_from(got - done).unwrap_or(0);
            if seek(input, SeekFrom::Current(-too_much)).is_err() {
                let lost_bytes = (got - done) as u64;
                outcome = outcome.map_err(|error| MoveError { lost_bytes, ..error });
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
