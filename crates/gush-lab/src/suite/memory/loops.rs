//! Reading, writing and copying memory, as fast as one processor can: plain loops that the compiler
//! turns into vector instructions, and the C library's memset(3) and memcpy(3).

use std::hint::black_box;

use gush::Pages;

use crate::Error;

/// The operations on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Every byte is read into a register.
    Read,
    /// Every byte is written (memset).
    Write,
    /// Every byte is copied: read here, written there (memcpy).
    Copy,
}

impl Operation {
    /// The operation's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Copy => "copy",
        }
    }
}

/// Memory of one thread, touched, on huge pages where they come.
pub(super) struct Field {
    operation: Operation,
    memory: Pages,
    /// Where a copy goes.
    other: Option<Pages>,
}

impl Field {
    /// `bytes` in all, rounded up to whole huge pages: a copy is from one half to the other.
    pub(super) fn new(operation: Operation, bytes: usize) -> Result<Self, Error> {
        let make = |bytes| {
            // A kernel without transparent huge pages answers EINVAL.
            let mut pages = Pages::huge(bytes).or_else(|_| Pages::new(bytes)).map_err(|errno| {
                Error::failed(format!("no {bytes} bytes of memory to measure"), errno)
            })?;
            pages.as_mut_slice().fill(1);
            Ok::<_, Error>(pages)
        };
        let half = (operation == Operation::Copy).then_some(bytes / 2);
        let memory = make(half.unwrap_or(bytes))?;
        Ok(Self { operation, memory, other: half.map(make).transpose()? })
    }

    /// Goes over the whole buffer once; answers the bytes read, written or copied.
    pub(super) fn pass(&mut self) -> u64 {
        match (self.operation, &mut self.other) {
            (Operation::Read, _) => drop(black_box(sum(self.memory.as_slice()))),
            (_, None) => fill(self.memory.as_mut_slice()),
            (_, Some(other)) => copy(self.memory.as_slice(), other.as_mut_slice()),
        }
        self.memory.len_bytes() as u64
    }
}

/// Not inlined, so that a disassembler finds the function.
#[inline(never)]
fn sum(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().fold(0, |sum: u64, word| sum.wrapping_add(u64::from_ne_bytes(*word)))
}

#[inline(never)]
fn fill(bytes: &mut [u8]) {
    black_box(&mut *bytes).fill(black_box(7));
}

#[inline(never)]
fn copy(from: &[u8], to: &mut [u8]) {
    black_box(to).copy_from_slice(black_box(from));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_read_written_and_copied() {
        const BYTES: usize = 4 << 20;
        assert_eq!(sum(&[1; 64]), 8 * 0x0101_0101_0101_0101);
        let mut write = Field::new(Operation::Write, BYTES).unwrap();
        assert_eq!(write.pass(), BYTES as u64);
        assert!(write.memory.as_slice().iter().all(|byte| *byte == 7));
        let mut copied = Field::new(Operation::Copy, BYTES).unwrap();
        copied.memory.as_mut_slice().fill(9);
        assert_eq!(copied.pass(), BYTES as u64 / 2);
        assert!(copied.other.unwrap().as_slice().iter().all(|byte| *byte == 9));
    }
}
