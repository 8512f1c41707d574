//! `-O`: blocks of zeros become holes of the output, for every kind of input.

use gush::{Errno, Port, Side};
use rustix::event::PollFlags;
use rustix::fs::{SeekFrom, fstat, ftruncate, seek};

use super::moving::{MoveError, Moving};
use super::rw::{BUFFER_BYTES, Reader, allowance, unless_cancelled, write_some};
use crate::files::Operand;

/// The smallest block that file systems commonly allocate.
const BLOCK_BYTES: usize = 4096;

/// Moves everything, or at most `most_bytes`, into a file. Zeros over old content are written.
///
/// # Errors
/// The failed call, and the side.
pub fn pass(
    moving: &Moving<'_>,
    input: &Operand,
    most_bytes: Option<u64>,
) -> Result<(), MoveError> {
    let failed = |side| move |errno| MoveError::by(side, errno);
    let at_target = failed(Side::Target);
    let (state, output) = (&moving.state, &moving.output);
    let mut target = Port::of(output).map_err(at_target)?;
    let old_bytes = u64::try_from(fstat(output).map_err(at_target)?.st_size).unwrap_or(0);
    let mut at_bytes = rustix::fs::tell(output).map_err(at_target)?;
    let buffer_bytes = moving.options.buffer_size.unwrap_or(BUFFER_BYTES).min(4 << 20);
    let mut source = Reader::of(input, buffer_bytes).map_err(failed(Side::Source))?;
    let mut left_bytes = most_bytes.unwrap_or(u64::MAX);
    while left_bytes > 0 {
        let wanted = usize::try_from(left_bytes).unwrap_or(usize::MAX).min(buffer_bytes);
        let most = allowance(state, wanted)?;
        let read = || match source.port.next_datagram_bytes() {
            // As the engine, if a datagram is longer than the rest.
            Some(Ok(bytes)) if bytes as u64 > left_bytes => Err(Errno::MSGSIZE),
            _ => source.read(most),
        };
        let got =
            unless_cancelled(state, PollFlags::IN, input, read).map_err(failed(Side::Source))?;
        if got == 0 {
            break;
        }
        let mut done = 0;
        while done < got {
            let run = first_run(&source.taken(got)[done..], at_bytes);
            let is_hole = run.is_hole && at_bytes >= old_bytes;
            let bytes = &source.taken(got)[done..done + run.bytes];
            let put = match is_hole {
                true => seek(output, SeekFrom::Current(run.bytes as i64)).map(|_| run.bytes),
                false => write_some(state, &mut target, output, bytes),
            };
            let put = put.map_err(|errno| MoveError {
                lost_bytes: (got - done) as u64,
                ..MoveError::by(Side::Target, errno)
            })?;
            state.inspector.inspect(&bytes[..put]);
            state.set_bytes(state.bytes() + put as u64);
            state.rate.spend(put as u64);
            (done, at_bytes) = (done + put, at_bytes + put as u64);
        }
        left_bytes -= got as u64;
    }
    // A hole at the end does not extend the file.
    let size = u64::try_from(fstat(output).map_err(at_target)?.st_size).unwrap_or(0);
    if size < at_bytes { ftruncate(output, at_bytes).map_err(at_target) } else { Ok(()) }
}

/// Bytes that are all in blocks of zeros, or all in other blocks.
#[derive(Debug, PartialEq, Eq)]
struct Run {
    bytes: usize,
    is_hole: bool,
}

/// The first run of `bytes`, which go to the offset `at_bytes`. Of a block at either end only the
/// bytes given here count.
fn first_run(bytes: &[u8], at_bytes: u64) -> Run {
    let into_block = usize::try_from(at_bytes % BLOCK_BYTES as u64).unwrap_or(0);
    let (head, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES - into_block));
    let is_zero = |block: &[u8]| block.iter().all(|byte| *byte == 0);
    let is_hole = is_zero(head);
    let alike = rest.chunks(BLOCK_BYTES).take_while(|block| is_zero(block) == is_hole);
    Run { bytes: head.len() + alike.map(<[u8]>::len).sum::<usize>(), is_hole }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_with_a_block_of_the_target() {
        let run = |bytes, is_hole| Run { bytes, is_hole };
        let mut bytes = vec![0; 3 * BLOCK_BYTES + 5];
        assert_eq!(first_run(&bytes, 0), run(bytes.len(), true));
        assert_eq!(first_run(&bytes[..7], 4095), run(7, true));
        bytes[BLOCK_BYTES] = 1;
        assert_eq!(first_run(&bytes, 8192), run(BLOCK_BYTES, true));
        assert_eq!(first_run(&bytes, 1), run(BLOCK_BYTES - 1, true));
        assert_eq!(first_run(&bytes[BLOCK_BYTES - 1..], 1), run(BLOCK_BYTES - 1, false));
        assert_eq!(first_run(&bytes[BLOCK_BYTES..], 0), run(BLOCK_BYTES, false));
    }
}
