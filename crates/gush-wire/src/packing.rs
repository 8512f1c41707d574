//! Decides whether compression pays: each stream measures the time per byte with and without it, in
//! turns, and keeps to the faster encoding.
//!
//! A turn is longer than the buffers of the kernel and of ssh, because the time of a write that
//! only fills a buffer says nothing about the line.

/// The first bytes of a turn fill buffers, or find those of the turn before, and are not counted.
const SETTLING_BYTES: u64 = 4 << 20;
/// A turn that tries the other encoding.
const TRIAL_BYTES: u64 = 12 << 20;
/// How long an encoding is kept before the other is tried again; doubled after each trial that was
/// slower.
const PATIENCE_BYTES: std::ops::RangeInclusive<u64> = 64 << 20..=2 << 30;

/// The least speed-up for which data is compressed: a smaller one is not worth the processor time.
const LEAST_GAIN: f64 = 1.05;

/// How data is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Plain,
    Packed,
}

/// What was sent in a turn, and the time it took.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    /// Bytes of files, settling ones included.
    data_bytes: u64,
    counted_bytes: u64,
    pack_ns: u64,
    /// The other side's work is part of it, where the line waits for that.
    write_ns: u64,
}

impl Turn {
    fn spent_ns(&self) -> u64 {
        self.pack_ns + self.write_ns
    }

    fn cost_ns_per_byte(&self) -> f64 {
        self.spent_ns() as f64 / self.counted_bytes.max(1) as f64
    }
}

/// The turns of one stream.
#[derive(Debug)]
pub(crate) struct Turns {
    encoding: Encoding,
    turn: Turn,
    turn_bytes: u64,
    patience_bytes: u64,
    /// In a trial: what the other encoding costs.
    other_cost: Option<f64>,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            encoding: Encoding::Packed,
            turn: Turn::default(),
            turn_bytes: TRIAL_BYTES,
            patience_bytes: *PATIENCE_BYTES.start(),
            other_cost: None,
        }
    }
}

impl Turns {
    /// The encoding of the next data.
    pub fn encoding(&mut self) -> Encoding {
        // A trial that has cost too much already is over.
        let is_too_dear = self
            .other_cost
            .is_some_and(|other| self.turn.spent_ns() as f64 > other * TRIAL_BYTES as f64);
        if self.turn.data_bytes >= self.turn_bytes || is_too_dear {
            self.end_turn();
        }
        self.encoding
    }

    fn end_turn(&mut self) {
        let turn = std::mem::take(&mut self.turn);
        let (cost, is_packed) = (turn.cost_ns_per_byte(), self.encoding == Encoding::Packed);
        self.turn_bytes = match self.other_cost.take() {
            Some(other) => {
                let (least, most) = (*PATIENCE_BYTES.start(), *PATIENCE_BYTES.end());
                let is_dearer = match is_packed {
                    true => cost * LEAST_GAIN >= other,
                    false => cost > other * LEAST_GAIN,
                };
                self.patience_bytes =
                    if is_dearer { (self.patience_bytes * 2).min(most) } else { least };
                if is_dearer {
                    self.switch();
                }
                self.patience_bytes
            }
            None => {
                self.other_cost = Some(cost);
                self.switch();
                TRIAL_BYTES
            }
        };
    }

    fn switch(&mut self) {
        self.encoding = match self.encoding {
            Encoding::Plain => Encoding::Packed,
            Encoding::Packed => Encoding::Plain,
        };
    }

    fn is_settling(&self) -> bool {
        self.turn.data_bytes <= SETTLING_BYTES
    }

    /// Data of a file is sent, after it was compressed for so long.
    pub fn sent(&mut self, data_bytes: u64, pack_ns: u64) {
        self.turn.data_bytes += data_bytes;
        if !self.is_settling() {
            self.turn.counted_bytes += data_bytes;
            self.turn.pack_ns += pack_ns;
        }
    }

    /// A write to the stream has taken so long.
    pub fn wrote(&mut self, write_ns: u64) {
        if !self.is_settling() {
            self.turn.write_ns += write_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME_BYTES: u64 = 4 << 20;

    /// Sends so much by a line of this speed, with compression of this speed and ratio. Returns the
    /// part of the data that was compressed.
    fn packed_part(turns: &mut Turns, line_mib: u64, pack_mib: u64, ratio: u64) -> f64 {
        const FRAMES: u64 = 1024;
        let ns = |bytes: u64, mib: u64| bytes * 1_000_000_000 / (mib << 20);
        let mut packed = 0;
        // What the buffers hold drains while data is compressed.
        let mut buffered_ns = 0_u64;
        for _ in 0..FRAMES {
            let (pack_ns, line_bytes) = match turns.encoding() {
                Encoding::Plain => (0, FRAME_BYTES),
                Encoding::Packed => {
                    packed += 1;
                    (ns(FRAME_BYTES, pack_mib), FRAME_BYTES / ratio)
                }
            };
            turns.sent(FRAME_BYTES, pack_ns);
            buffered_ns = buffered_ns.saturating_sub(pack_ns) + ns(line_bytes, line_mib);
            let write_ns = buffered_ns.saturating_sub(ns(FRAME_BYTES, line_mib));
            buffered_ns -= write_ns;
            turns.wrote(write_ns);
        }
        packed as f64 / FRAMES as f64
    }

    #[test]
    fn compression_is_kept_where_it_is_faster_than_the_line() {
        for (line_mib, pack_mib, ratio) in
            [(10, 300, 3), (119, 300, 3), (119, 300, 10), (250, 300, 2)]
        {
            let part = packed_part(&mut Turns::default(), line_mib, pack_mib, ratio);
            assert!(part > 0.95, "{line_mib} MiB/s, ratio {ratio}: {part}");
        }
    }

    #[test]
    fn a_fast_line_and_data_without_a_pattern_are_sent_plain() {
        for (line_mib, pack_mib, ratio) in [(2000, 300, 3), (400, 300, 10), (119, 1000, 1)] {
            let part = packed_part(&mut Turns::default(), line_mib, pack_mib, ratio);
            assert!(part < 0.05, "{line_mib} MiB/s, ratio {ratio}: {part}");
        }
    }

    #[test]
    fn a_line_that_becomes_slower_and_data_of_another_kind_are_noticed() {
        let mut turns = Turns::default();
        assert!(packed_part(&mut turns, 2000, 300, 3) < 0.1);
        assert!(packed_part(&mut turns, 10, 300, 3) > 0.4);
        assert!(packed_part(&mut turns, 10, 300, 3) > 0.95);
        assert!(packed_part(&mut turns, 119, 1000, 1) < 0.2);
    }

    #[test]
    fn a_receiver_that_takes_long_to_unpack_is_no_slow_line() {
        let (mut turns, mut packed) = (Turns::default(), 0);
        for _ in 0..256 {
            let (pack_ns, write_ns) = match turns.encoding() {
                Encoding::Plain => (0, 2_000_000),
                Encoding::Packed => (10_000_000, 10_000_000),
            };
            packed += i32::from(pack_ns > 0);
            turns.sent(FRAME_BYTES, pack_ns);
            turns.wrote(write_ns);
        }
        assert!(packed < 16, "{packed}");
    }
}
