//! The textbooks' loops: each runs until the call returns 0, one call more than the engine makes,
//! which the published tables count.

use std::fs::File;
use std::io;

use rustix::fs::{copy_file_range, sendfile};
use rustix::pipe::{SpliceFlags, pipe, splice};

use super::ways::Textbook;
use crate::foreign;

/// The most that the kernel moves in one call (`MAX_RW_COUNT`, `include/linux/fs.h`).
const MOST_BYTES: usize = 0x7fff_f000;

/// Copies all of `source` to `target`, at most `piece_bytes` a call; answers the bytes.
pub(super) fn copy(
    textbook: Textbook,
    source: &File,
    target: &File,
    piece_bytes: Option<usize>,
) -> io::Result<u64> {
    let piece_bytes = piece_bytes.unwrap_or(MOST_BYTES);
    match textbook {
        Textbook::Sendfile => until_0(|| sendfile(target, source, None, piece_bytes)),
        Textbook::Splice => through_a_pipe(source, target, piece_bytes),
        Textbook::CopyFileRange => {
            until_0(|| copy_file_range(source, None, target, None, piece_bytes))
        }
        Textbook::Mappings => foreign::copy_by_whole_mappings(source, target),
    }
}

fn until_0(mut call: impl FnMut() -> rustix::io::Result<usize>) -> io::Result<u64> {
    let mut bytes = 0;
    loop {
        match call()? {
            0 => return Ok(bytes),
            moved => bytes += moved as u64,
        }
    }
}

fn through_a_pipe(source: &File, target: &File, piece_bytes: usize) -> io::Result<u64> {
    let (from, to) = pipe()?;
    until_0(|| {
        let taken = splice(source, None, &to, None, piece_bytes, SpliceFlags::MOVE)?;
        let mut left = taken;
        while left > 0 {
            match splice(&from, None, target, None, left, SpliceFlags::MOVE)? {
                // Something is in the pipe and the target takes none of it: it never will.
                0 => return Err(rustix::io::Errno::IO),
                given => left -= given,
            }
        }
        Ok(taken)
    })
}
