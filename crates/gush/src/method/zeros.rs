//! Finding zero blocks, and leaving them out of a target.

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::{self, Errno};

use crate::port::Port;
use crate::sys;

/// The first stretch of a buffer that is all data or all zero blocks.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Run {
    /// So many bytes to write.
    Data(usize),
    /// So many zeros to leave out.
    Zeros(usize),
}

/// Splits off the first run; only whole blocks of `block_bytes` count as zeros.
pub(super) fn first_run(bytes: &[u8], block_bytes: usize) -> Run {
    let mut blocks = bytes.chunks(block_bytes);
    let is_hole = |block: &[u8]| block.len() == block_bytes && is_zero(block);
    let first = blocks.next().unwrap_or_default();
    let zero = is_hole(first);
    let len = first.len()
        + blocks.take_while(|block| is_hole(block) == zero).map(<[u8]>::len).sum::<usize>();
    if zero { Run::Zeros(len) } else { Run::Data(len) }
}

fn is_zero(bytes: &[u8]) -> bool {
    // Folding over 64-byte pieces lets the compiler use vector registers and still stop early.
    bytes.chunks(64).all(|piece| piece.iter().fold(0, |bits, byte| bits | byte) == 0)
}

/// Moves the target on by `len` bytes without writing; old content there is punched out.
pub(super) fn leave_out(target: &mut Port<'_>, len: usize) -> io::Result<usize> {
    let at = match target.at {
        Some(at) => at,
        None => sys::file::seek(target.fd, SeekFrom::Current(0))?,
    };
    punch(target, at, len as u64)?;
    match &mut target.at {
        Some(at) => *at += len as u64,
        None => drop(sys::file::seek(target.fd, SeekFrom::Start(at + len as u64))?),
    }
    Ok(len)
}

/// Makes `len` bytes at `at` read as zeros: nothing to do beyond the end of the file, else a hole is
/// punched, or zeros are written where the file system cannot.
pub(crate) fn punch(target: &Port<'_>, at: u64, len: u64) -> io::Result<()> {
    let size_bytes = u64::try_from(sys::file::fstat(target.fd)?.st_size).unwrap_or(0);
    let len = len.min(size_bytes.saturating_sub(at));
    if len == 0 {
        return Ok(());
    }
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match sys::file::fallocate(target.fd, flags, at, len) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => write_zeros(target, at, len),
        answer => answer,
    }
}

fn write_zeros(target: &Port<'_>, mut at: u64, mut len: u64) -> io::Result<()> {
    static ZEROS: [u8; 65536] = [0; 65536];
    while len > 0 {
        let part = usize::try_from(len).unwrap_or(usize::MAX).min(ZEROS.len());
        match sys::data::pwrite(target.fd, &ZEROS[..part], at) {
            Ok(put) => (at, len) = (at + put as u64, len - put as u64),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_zero_blocks_are_left_out() {
        assert_eq!(first_run(&[0; 10], 4), Run::Zeros(8));
        assert_eq!(first_run(&[0, 0, 0], 4), Run::Data(3));
        assert_eq!(first_run(&[1, 0, 0, 0, 0, 0, 0, 0], 4), Run::Data(4));
        assert_eq!(first_run(&[1, 0, 0, 0, 0, 0, 0, 1], 4), Run::Data(8));
        assert_eq!(first_run(&[], 4), Run::Data(0));
    }
}
