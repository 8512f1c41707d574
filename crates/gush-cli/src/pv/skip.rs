//! `-E`: zeros in the place of bytes that cannot be read.

use std::ffi::OsStr;
use std::fs::File;

use gush::{Errno, Side};
use rustix::fs::{SeekFrom, seek};

use super::inputs::{self, Input};
use super::moving::{Halt, Moving, shown};
use super::options::Options;
use super::status::Status;

/// Bytes skipped at a failure, up to the next multiple of as many.
const BLOCK_BYTES: u64 = 512;

/// The failures of one input so far.
#[derive(Debug)]
pub struct Skips {
    block_bytes: u64,
    number: u64,
}

impl Skips {
    pub fn new(options: &Options) -> Self {
        let asked = options.error_skip_block.and_then(|bytes| u64::try_from(bytes).ok());
        Self { block_bytes: asked.unwrap_or(BLOCK_BYTES), number: 0 }
    }

    /// Writes zeros for the block that failed, and puts the input behind that block. Answers whether the input can
    /// be gone on with: a directory cannot, a pipe has no position, and not everything is skipped.
    pub fn skip(
        &mut self,
        moving: &mut Moving<'_>,
        name: &OsStr,
        input: &Input,
        halt: &Halt,
    ) -> bool {
        let may_skip = moving.options.skip_errors > 0
            && halt.errno.is_some_and(|errno| !matches!(errno, Errno::ISDIR | Errno::BADF));
        let Some(left_bytes) = inputs::left_bytes(input).filter(|&left| may_skip && left > 0)
        else {
            return false;
        };
        let Ok(position) = rustix::fs::tell(input) else { return false };
        // A bad sector is a block of the device: behind its boundary reading may go on.
        let to_boundary = self.block_bytes - position % self.block_bytes;
        let skipped_bytes = to_boundary.min(left_bytes);
        let next = position + skipped_bytes;
        // From a file, so that zeros take the same way as data: counted, paced and checked.
        let Ok(zeros) = File::open("/dev/zero") else { return false };
        // Before anything is written: zeros without the step forward would be read over again.
        if seek(input, SeekFrom::Start(next)).is_err() {
            return false;
        }
        moving.status.add(Status::TRANSFER);
        self.number += 1;
        let (file, cause) = (shown(name), &halt.cause);
        match moving.options.skip_errors {
            1 => moving.say(format_args!(
                "{file}: skipped past read error: {position} - {next} ({skipped_bytes} B): {cause}"
            )),
            _ if self.number == 1 => {
                moving.say(format_args!(
                    "{file}: read errors are skipped, the first at {position}: {cause}"
                ));
            }
            _ => {}
        }
        match moving.pass(&zeros, Some(skipped_bytes)) {
            Ok(_) => true,
            // The next round meets the same failure at the output.
            Err(halt) => halt.side == Side::Target,
        }
    }
}
