//! Data frames compressed by [zstd](https://www.rfc-editor.org/rfc/rfc8878). Each frame is
//! independent of the others: one may be discarded with its file.

use std::{fmt, io};

use zstd::bulk::{Compressor, Decompressor};

use crate::error::{Error, ensure};
use crate::frame::MOST_DATA_BYTES;

/// Compression must save at least an eighth: less does not pay for the decompression.
const LEAST_SAVED: usize = 8;
/// Shorter data is sent uncompressed: zstd's header and tables outweigh the gain.
const LEAST_BYTES: usize = 512;

/// A context of zstd, and memory that is kept from one frame to the next.
struct Kept<C> {
    context: C,
    bytes: Vec<u8>,
}

impl<C> Kept<C> {
    fn new(context: io::Result<C>) -> Result<Self, Error> {
        let context =
            context.map_err(|error| Error::Io { doing: "preparing compression", error })?;
        Ok(Self { context, bytes: Vec::new() })
    }
}

impl<C> fmt::Debug for Kept<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").finish_non_exhaustive()
    }
}

/// Compresses the data of frames.
#[derive(Debug)]
pub struct Packer(Kept<Compressor<'static>>);

impl Packer {
    /// Compresses at zstd's `level`: 1 is fast, 19 small, negative ones faster still.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(level: i32) -> Result<Self, Error> {
        Kept::new(Compressor::new(level)).map(Self)
    }

    /// Returns the compressed data, or `None` if compression does not pay.
    pub fn pack(&mut self, data: &[u8]) -> Option<&[u8]> {
        if data.len() < LEAST_BYTES {
            return None;
        }
        let most = data.len() - data.len() / LEAST_SAVED;
        let Kept { context, bytes } = &mut self.0;
        bytes.clear();
        // zstd gives up where the target is too small.
        bytes.reserve_exact(most);
        let packed = context.compress_to_buffer(data, bytes).ok()?;
        (packed <= most).then_some(&bytes[..])
    }
}

/// Decompresses the data of frames.
#[derive(Debug)]
pub struct Unpacker(Kept<Decompressor<'static>>);

impl Unpacker {
    /// Allocates the memory for one frame.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new() -> Result<Self, Error> {
        Kept::new(Decompressor::new()).map(Self)
    }

    /// Decompresses `packed` to `length` bytes.
    ///
    /// # Errors
    /// When `length` is 0 or more than a frame holds, or the data has another length. No more than
    /// `length` bytes are allocated.
    pub fn unpack(&mut self, packed: &[u8], length: usize) -> Result<&[u8], Error> {
        let is_length = (1..=MOST_DATA_BYTES).contains(&length);
        ensure(is_length, "compressed data has a length that no frame has")?;
        let Kept { context, bytes } = &mut self.0;
        bytes.clear();
        bytes.reserve_exact(length);
        let unpacked = context.decompress_to_buffer(packed, bytes);
        let is_whole = unpacked.is_ok_and(|unpacked| unpacked == length);
        ensure(is_whole, "compressed data cannot be read")?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| b"gush moves bytes "[(at + at / 1000) % 17]).collect()
    }

    /// Bytes without a pattern, from a linear congruential generator.
    fn noise(bytes: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_le_bytes()[7]
        };
        (0..bytes).map(|_| next()).collect()
    }

    #[test]
    fn data_comes_back_from_every_length_of_frame() {
        let (mut packer, mut unpacker) = (Packer::new(3).unwrap(), Unpacker::new().unwrap());
        for length in [LEAST_BYTES, 4096, 4097, 1 << 20, MOST_DATA_BYTES] {
            let data = text(length);
            let packed = packer.pack(&data).expect("text is worth it");
            assert!(packed.len() <= length - length / LEAST_SAVED);
            assert!(unpacker.unpack(packed, length).unwrap() == data, "{length} bytes");
        }
    }

    #[test]
    fn what_saves_too_little_is_sent_as_it_is() {
        let mut packer = Packer::new(3).unwrap();
        for data in [noise(1 << 20), noise(LEAST_BYTES), text(LEAST_BYTES - 1), Vec::new()] {
            assert_eq!(packer.pack(&data), None, "{} bytes", data.len());
        }
        assert!(
            packer.pack(&text(4096)).is_some(),
            "a frame that was given up spoils no later one"
        );
    }

    #[test]
    fn hostile_frames_are_refused_within_the_announced_length() {
        let mut packer = Packer::new(3).unwrap();
        let good = packer.pack(&text(4096)).unwrap().to_vec();
        let bomb = packer.pack(&vec![0; MOST_DATA_BYTES]).unwrap().to_vec();
        let two = [&good[..], &good].concat();
        let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0], &[0; 4][..]].concat();
        // A window of 2 GiB in a frame without a size: magic, no flags, the window's exponent.
        let window = [0x28, 0xb5, 0x2f, 0xfd, 0, 0xa8, 1, 0, 0];
        let cases: [(&str, &[u8], usize); 10] = [
            ("longer than announced", &good, 4095),
            ("shorter than announced", &good, 4097),
            ("a bomb", &bomb, 4096),
            ("cut", &good[..good.len() - 1], 4096),
            ("two frames", &two, 4096),
            ("nothing but a skippable frame", &skippable, 1),
            ("an empty frame with a large window", &window, 1),
            ("nothing", &[], 1),
            ("no length", &good, 0),
            ("a length above that of frames", &bomb, MOST_DATA_BYTES + 1),
        ];
        for (what, packed, length) in cases {
            let mut unpacker = Unpacker::new().unwrap();
            let refused = unpacker.unpack(packed, length);
            assert!(matches!(refused, Err(Error::Protocol(_))), "{what}");
            assert!(unpacker.0.bytes.capacity() <= length.min(MOST_DATA_BYTES), "{what}");
        }
    }

    #[test]
    fn a_frame_after_a_refused_one_is_read() {
        let (mut packer, mut unpacker) = (Packer::new(3).unwrap(), Unpacker::new().unwrap());
        let data = text(4096);
        let packed = packer.pack(&data).unwrap();
        assert!(unpacker.unpack(&packed[..packed.len() / 2], 4096).is_err());
        assert!(unpacker.unpack(packed, 4096).unwrap() == data);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_refused_or_have_the_announced_length(packed: Vec<u8>, length in 1_usize..1 << 16) {
            if let Ok(data) = Unpacker::new().unwrap().unpack(&packed, length) {
                assert_eq!(data.len(), length);
            }
        }
    }
}
