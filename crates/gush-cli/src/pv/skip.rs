//! `-E`: zeros in the place of bytes that cannot be read.

use std::ffi::OsStr;
use std::fs::File;

use gush::{Errno, Side};
use rustix::fs::{SeekFrom, seek};

use super::args::PvArgs;
use super::inputs;
use super::moving::{MoveError, Moving, shown};
use super::status::Status;
use crate::files::Operand;

/// The failures of one input so far.
#[derive(Debug)]
pub struct Skips {
    /// The size of `--error-skip-block`.
    asked_bytes: Option<u64>,
    number: u64,
    /// Consecutive failures, and the offset after the last of them.
    in_a_row: u32,
    next: u64,
}

impl Skips {
    pub fn new(options: &PvArgs) -> Self {
        let asked = options.error_skip_block.and_then(|bytes| u64::try_from(bytes).ok());
        Self { asked_bytes: asked, number: 0, in_a_row: 0, next: 0 }
    }

    /// Bytes to skip, up to the next multiple of that. As in pv: few at first, so that no readable
    /// byte is lost.
    fn block_bytes(&self) -> u64 {
        self.asked_bytes.unwrap_or(match self.in_a_row {
            0..5 => 1,
            5..10 => 2,
            row @ 10..20 => 1 << (row - 10),
            _ => 512,
        })
    }

    /// Writes zeros for the block that failed, and seeks after it. Returns whether reading can go
    /// on: not in a directory, a pipe, or without `-E`.
    pub fn skip(
        &mut self,
        moving: &mut Moving<'_>,
        name: &OsStr,
        input: &Operand,
        error: &MoveError,
    ) -> bool {
        let may_skip = moving.options.skip_errors > 0
            && error.errno.is_some_and(|errno| !matches!(errno, Errno::ISDIR | Errno::BADF));
        let Some(left_bytes) = inputs::left_bytes(input).filter(|&left| may_skip && left > 0)
        else {
            return false;
        };
        let Ok(position) = rustix::fs::tell(input) else { return false };
        // A bad sector is a block of the device: reading may succeed after its boundary.
        let is_in_row = self.in_a_row > 0 && position == self.next;
        self.in_a_row = if is_in_row { self.in_a_row.saturating_add(1) } else { 1 };
        let block_bytes = self.block_bytes();
        let to_boundary = block_bytes - position % block_bytes;
        let skipped_bytes = to_boundary.min(left_bytes);
        let next = position + skipped_bytes;
        // From a file, so that zeros are counted, limited and hashed as data.
        let Ok(zeros) = File::open("/dev/zero") else { return false };
        // Before anything is written: zeros without the seek would be written again.
        if seek(input, SeekFrom::Start(next)).is_err() {
            return false;
        }
        self.next = next;
        moving.status.add(Status::TRANSFER);
        self.number += 1;
        let (file, cause) = (shown(name), &error.cause);
        match moving.options.skip_errors {
            1 => moving.say(format_args!(
                "{file}: skipped past read error: {position} - {next} ({skipped_bytes} B): {cause}"
            )),
            _ if self.number == 1 => {
                moving.say(format_args!(
                    "{file}: skipping read errors, the first at {position}: {cause}"
                ));
            }
            _ => {}
        }
        match moving.pass(&zeros, Some(skipped_bytes)) {
            Ok(_) => true,
            // The next round meets the same error at the output.
            Err(error) => error.side == Side::Target,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_skip_more_and_more_as_in_pv() {
        let block = |in_a_row, asked_bytes| {
            Skips { asked_bytes, number: 0, in_a_row, next: 0 }.block_bytes()
        };
        let blocks: Vec<u64> = (1..=21).map(|row| block(row, None)).collect();
        let few = [1, 1, 1, 1, 2, 2, 2, 2, 2];
        let more = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 512, 512];
        assert_eq!(blocks, [&few[..], &more].concat());
        assert_eq!(block(1, Some(4096)), 4096);
    }
}
