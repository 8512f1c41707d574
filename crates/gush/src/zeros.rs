//! Finding runs of zeros, and leaving them out of a target.

use rustix::fs::FallocateFlags;
use rustix::io::{self, Errno};

use crate::fault::Fault;
use crate::port::Port;
use crate::sys;

/// Runs of zeros are searched in aligned units of this size, the smallest block that file systems
/// commonly allocate; `st_blksize` is the size for fast transfers (stat(2)), 1 MiB on NFS.
pub(crate) const UNIT_BYTES: usize = 4096;

/// The first stretch of a buffer that is all data or all zeros.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Run {
    /// So many bytes to write.
    Data(usize),
    /// So many zeros to leave out.
    Zeros(usize),
}

/// Splits off the first run of bytes that go to offset `at`; only whole units count as zeros, and
/// the parts of units at the buffer's two ends.
pub(crate) fn first_run(bytes: &[u8], at: u64) -> Run {
    // Units are those of the target: a hole in the middle of a block frees nothing.
    let into_unit = usize::try_from(at % UNIT_BYTES as u64).unwrap_or(0);
    let (head, rest) = bytes.split_at(bytes.len().min(UNIT_BYTES - into_unit));
    let zero = is_zero(head);
    let alike = rest.chunks(UNIT_BYTES).take_while(|unit| is_zero(unit) == zero);
    let len = head.len() + alike.map(<[u8]>::len).sum::<usize>();
    if zero { Run::Zeros(len) } else { Run::Data(len) }
}

fn is_zero(bytes: &[u8]) -> bool {
    // Folding over 64-byte pieces lets the compiler use vector registers and still stop early.
    !bytes.is_empty()
        && bytes.chunks(64).all(|piece| piece.iter().fold(0, |bits, byte| bits | byte) == 0)
}

/// So many zeros are shown or written before somebody may end the move (invariant 7).
pub(crate) const PART_BYTES: u64 = 1 << 20;

/// Makes the first of `len` bytes at `at` read as zeros: nothing to do beyond the end of the file,
/// else a hole is punched, or zeros are written where that is impossible. Returns how many.
pub(crate) fn punch(target: &Port<'_>, at: u64, len: u64) -> io::Result<u64> {
    let size_bytes = sys::file::size_bytes(target.fd)?;
    // Past the end there is nothing to punch: a larger size alone makes that hole.
    let inside = len.min(size_bytes.saturating_sub(at));
    if inside == 0 {
        return Ok(len);
    }
    // PUNCH_HOLE is refused without KEEP_SIZE (fallocate(2)).
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match sys::file::fallocate(target.fd, flags, at, inside) {
        // EPERM: a seccomp filter denies fallocate(2); zeros can still be written.
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => {
            write_zeros(target, at, inside.min(PART_BYTES))?;
            Ok(if inside <= PART_BYTES { len } else { PART_BYTES })
        }
        answer => answer.map(|()| len),
    }
}

pub(crate) fn write_zeros(target: &Port<'_>, mut at: u64, mut len: u64) -> io::Result<()> {
    static ZEROS: [u8; 65536] = [0; 65536];
    while len > 0 {
        let part = usize::try_from(len).unwrap_or(usize::MAX).min(ZEROS.len());
        match sys::data::pwrite(target.fd, &ZEROS[..part], at) {
            // Asked again it would answer 0 for ever.
            Ok(0) => return Err(Fault::TOOK_NOTHING),
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
    fn a_run_ends_at_the_next_unit_of_the_target_that_is_different() {
        let mut bytes = vec![0; 3 * UNIT_BYTES];
        assert_eq!(first_run(&bytes, 0), Run::Zeros(3 * UNIT_BYTES));
        assert_eq!(first_run(&bytes, 100), Run::Zeros(3 * UNIT_BYTES));
        bytes[UNIT_BYTES] = 1;
        assert_eq!(first_run(&bytes, 0), Run::Zeros(UNIT_BYTES));
        assert_eq!(first_run(&bytes[UNIT_BYTES..], 0), Run::Data(UNIT_BYTES));
        assert_eq!(first_run(&bytes, 100), Run::Zeros(UNIT_BYTES - 100));
        assert_eq!(first_run(&bytes[UNIT_BYTES - 100..], 0), Run::Data(UNIT_BYTES));
        assert_eq!(first_run(&[0, 0], UNIT_BYTES as u64 - 1), Run::Zeros(2));
        assert_eq!(first_run(&[1, 0], UNIT_BYTES as u64 - 1), Run::Data(1));
    }
}
