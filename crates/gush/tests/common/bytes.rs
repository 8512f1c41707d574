//! Bytes and numbers that look random and can be had again.

/// A small generator of reproducible numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        // The remainder prefers small numbers a little, which does no harm here.
        usize::try_from(self.roll() % bound.max(1) as u64).expect("below a usize")
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// The largest prime below 1 MiB: no two places that are blocks or buffers apart show the same
/// bytes. Longer noise is copied from its first period, since a debug build makes 200 MB a second.
const NOISE_PERIOD: usize = 1_048_573;

/// `len` bytes without any zero byte, so that a hole or a lost byte always shows.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    let mut bytes = Vec::with_capacity(len + NOISE_PERIOD);
    while bytes.len() < len.min(NOISE_PERIOD) {
        // A set bit in each byte, which therefore is never zero.
        bytes.extend_from_slice(&(dice.roll() | u64::from_ne_bytes([1; 8])).to_le_bytes());
    }
    bytes.truncate(NOISE_PERIOD);
    while bytes.len() < len {
        bytes.extend_from_within(..NOISE_PERIOD);
    }
    bytes.truncate(len);
    bytes
}
