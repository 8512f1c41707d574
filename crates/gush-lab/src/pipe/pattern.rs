//! Bytes whose value follows from their place in the stream, so that any piece can be checked
//! alone.

use std::fmt;

use clap::ValueEnum;

/// The bytes that the writer writes and the reader expects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Pattern {
    /// `X`, for ever.
    #[default]
    Constant,
    /// The number of each 8 bytes, little-endian.
    Counter,
}

/// The byte of [`Pattern::Constant`].
pub(super) const CONSTANT: u8 = b'X';
const WORD_BYTES: u64 = 8;

impl Pattern {
    /// Fills `bytes` with the part of the stream that begins at byte `at`.
    pub fn fill(self, at: u64, bytes: &mut [u8]) {
        match self {
            Self::Constant => bytes.fill(CONSTANT),
            Self::Counter => count(at, bytes),
        }
    }

    /// The place in `bytes`, which were found `at` bytes into the stream, of the first wrong one.
    pub fn first_wrong(self, at: u64, bytes: &[u8]) -> Option<usize> {
        let mut expected = [0; 4096];
        for (index, piece) in bytes.chunks(expected.len()).enumerate() {
            let start = index * expected.len();
            let expected = &mut expected[..piece.len()];
            self.fill(at + start as u64, expected);
            if expected != piece {
                let wrong = expected.iter().zip(piece).position(|(a, b)| a != b);
                return wrong.map(|offset| start + offset);
            }
        }
        None
    }
}

fn count(at: u64, bytes: &mut [u8]) {
    let mut index = at / WORD_BYTES;
    let skip = (at % WORD_BYTES) as usize;
    let mut rest = bytes;
    if skip > 0 {
        let len = (WORD_BYTES as usize - skip).min(rest.len());
        let (head, tail) = rest.split_at_mut(len);
        head.copy_from_slice(&index.to_le_bytes()[skip..skip + len]);
        rest = tail;
        index += 1;
    }
    for piece in rest.chunks_mut(WORD_BYTES as usize) {
        piece.copy_from_slice(&index.to_le_bytes()[..piece.len()]);
        index += 1;
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().expect("none is hidden").get_name())
    }
}

/// Bytes arrived that were never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("corrupted: byte {at_bytes} of the stream is not what was written there: {}", why(*.looks_like))]
pub struct Corruption {
    /// The offset of the first wrong byte in the stream, in bytes.
    pub at_bytes: u64,
    /// Another pattern that the bytes fit.
    pub looks_like: Option<Pattern>,
}

fn why(looks_like: Option<Pattern>) -> String {
    match looks_like {
        Some(pattern) => {
            format!("it is what --pattern {pattern} has there: give both ends the same pattern")
        }
        None => "the writer sends something else, or its memory was written again while the bytes were still on their way".to_owned(),
    }
}

/// Checks a stream piece by piece.
#[derive(Clone, Debug)]
pub struct Checker {
    pattern: Pattern,
    at_bytes: u64,
}

impl Checker {
    /// One at the beginning.
    pub fn new(pattern: Pattern) -> Self {
        Self { pattern, at_bytes: 0 }
    }

    /// Compares the next bytes.
    pub fn check(&mut self, bytes: &[u8]) -> Result<(), Corruption> {
        let wrong = self.pattern.first_wrong(self.at_bytes, bytes);
        let at_bytes = self.at_bytes;
        self.at_bytes += bytes.len() as u64;
        match wrong {
            Some(offset) => {
                let fits = |pattern: &Pattern| pattern.first_wrong(at_bytes, bytes).is_none();
                let looks_like = Pattern::value_variants().iter().copied().find(fits);
                Err(Corruption { at_bytes: at_bytes + offset as u64, looks_like })
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_fill_as_the_whole_does(at in 0_u64..1 << 40, cuts in proptest::collection::vec(0_usize..100, 1..20)) {
            for &pattern in Pattern::value_variants() {
                let mut whole = vec![0; cuts.iter().sum()];
                pattern.fill(at, &mut whole);
                let mut pieces = Vec::new();
                for &len in &cuts {
                    let mut piece = vec![0; len];
                    pattern.fill(at + pieces.len() as u64, &mut piece);
                    pieces.extend(piece);
                }
                prop_assert_eq!(&pieces, &whole);
                prop_assert_eq!(pattern.first_wrong(at, &whole), None);
            }
        }

        #[test]
        fn one_flipped_bit_is_found_where_it_is(at in 0_u64..1 << 40, len in 1_usize..20_000, place in any::<prop::sample::Index>(), bit in 0_u8..8) {
            for &pattern in Pattern::value_variants() {
                let mut bytes = vec![0; len];
                pattern.fill(at, &mut bytes);
                let place = place.index(len);
                bytes[place] ^= 1 << bit;
                prop_assert_eq!(pattern.first_wrong(at, &bytes), Some(place));
            }
        }
    }
}
