//! Inspects the bytes that pass: counts lines, keeps the last bytes and line, computes a checksum.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use gush::Unpoisoned;

use super::hash::{Algorithm, Hasher};

/// The longest line that is kept.
const MOST_LINE_BYTES: usize = 4096;

/// The last bytes and the last line.
#[derive(Clone, Debug, Default)]
pub struct Tail {
    last: VecDeque<u8>,
    line: Vec<u8>,
    /// The current line, which has not ended.
    begun: Vec<u8>,
}

impl Tail {
    fn add(&mut self, bytes: &[u8], wanted: &Inspect) {
        // Only the end of a large block: the rest would be dropped at once.
        let new = &bytes[bytes.len().saturating_sub(wanted.last_bytes)..];
        self.last.extend(new);
        let surplus = self.last.len().saturating_sub(wanted.last_bytes);
        self.last.drain(..surplus);
        if wanted.last_line {
            match memchr::memrchr(wanted.separator, bytes) {
                Some(end) => {
                    let start = memchr::memrchr(wanted.separator, &bytes[..end]);
                    self.line =
                        // The only line end here ends a line that began in an earlier block.
                        if start.is_some() { Vec::new() } else { std::mem::take(&mut self.begun) };
                    extend(&mut self.line, &bytes[start.map_or(0, |start| start + 1)..end]);
                    self.begun.clear();
                    extend(&mut self.begun, &bytes[end + 1..]);
                }
                None => extend(&mut self.begun, bytes),
            }
        }
    }

    /// The last `number` bytes; dots replace missing and unprintable ones.
    pub fn last(&self, number: usize) -> String {
        let skipped = self.last.len().saturating_sub(number);
        let missing = number.saturating_sub(self.last.len());
        ".".repeat(missing)
            + &self.last.iter().skip(skipped).map(|byte| plain(*byte)).collect::<String>()
    }

    /// The last line in exactly `columns`.
    pub fn last_line(&self, columns: usize) -> String {
        let text: String = self.line.iter().take(columns).map(|byte| plain(*byte)).collect();
        format!("{text:columns$}")
    }
}

fn extend(line: &mut Vec<u8>, bytes: &[u8]) {
    // Input without line ends must not fill memory.
    let room = MOST_LINE_BYTES.saturating_sub(line.len());
    line.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

fn plain(byte: u8) -> char {
    // Data must not control the terminal.
    if byte.is_ascii_graphic() || byte == b' ' { char::from(byte) } else { '.' }
}

/// What to keep of the bytes.
#[derive(Clone, Debug, Default)]
pub struct Inspect {
    pub lines: bool,
    /// The byte that ends a line.
    pub separator: u8,
    pub last_bytes: usize,
    pub last_line: bool,
    pub checksum: Option<Algorithm>,
}

/// Inspects the bytes for the display.
#[derive(Debug)]
pub struct Inspector {
    pub wanted: Inspect,
    lines: AtomicU64,
    tail: Mutex<Tail>,
    hasher: Option<Mutex<Hasher>>,
}

impl Inspector {
    pub fn new(wanted: Inspect) -> Self {
        let hasher = wanted.checksum.map(|algorithm| Mutex::new(algorithm.start()));
        Self { wanted, lines: AtomicU64::new(0), tail: Mutex::default(), hasher }
    }

    /// Whether the bytes have to be inspected at all.
    pub fn is_needed(&self) -> bool {
        self.wanted.lines || self.keeps_tail() || self.hasher.is_some()
    }

    fn keeps_tail(&self) -> bool {
        self.wanted.last_bytes > 0 || self.wanted.last_line
    }

    pub fn inspect(&self, bytes: &[u8]) {
        let lines = if self.wanted.lines { self.count(bytes) } else { 0 };
        self.inspect_counted(bytes, lines);
    }

    /// The lines that end in `bytes`.
    pub fn count(&self, bytes: &[u8]) -> u64 {
        memchr::memchr_iter(self.wanted.separator, bytes).count() as u64
    }

    /// Inspects bytes whose lines were counted already.
    pub fn inspect_counted(&self, bytes: &[u8], lines: u64) {
        // Relaxed: nothing else depends on the number.
        self.lines.fetch_add(lines, Ordering::Relaxed);
        if self.keeps_tail() {
            self.tail.lock().unpoisoned().add(bytes, &self.wanted);
        }
        if let Some(hasher) = &self.hasher {
            hasher.lock().unpoisoned().add(bytes);
        }
    }

    /// The checksum so far, with the algorithm's name.
    pub fn checksum(&self) -> Option<(Algorithm, String)> {
        let hasher = self.hasher.as_ref()?.lock().unpoisoned();
        Some((self.wanted.checksum?, hasher.text()))
    }

    /// Lines that have ended.
    pub fn lines(&self) -> u64 {
        self.lines.load(Ordering::Relaxed)
    }

    pub fn tail(&self) -> Tail {
        self.tail.lock().unpoisoned().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn inspector(pieces: &[&[u8]]) -> Inspector {
        let wanted = Inspect {
            lines: true,
            separator: b'\n',
            last_bytes: 5,
            last_line: true,
            checksum: Some(Algorithm::Xxh3),
        };
        let inspector = Inspector::new(wanted);
        pieces.iter().for_each(|piece| inspector.inspect(piece));
        inspector
    }

    #[test]
    fn the_last_bytes_and_lines_are_remembered() {
        let inspector = inspector(&[b"one\ntw", b"o", b"\nthr", b"ee"]);
        let tail = inspector.tail();
        assert_eq!(inspector.lines(), 2);
        assert_eq!((tail.last(4), tail.last(7)), ("hree".to_owned(), "..three".to_owned()));
        assert_eq!(tail.last_line(5), "two  ");
        assert_eq!(tail.last_line(2), "tw");
    }

    #[test]
    fn what_is_no_plain_letter_is_a_dot() {
        assert_eq!(inspector(&[b"a\x1b\n\xffb"]).tail().last(6), ".a...b");
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(text in proptest::collection::vec(0_u8..12, 0..200), cut in 0_usize..200) {
            let cut = cut.min(text.len());
            let whole = inspector(&[&text]);
            let parts = inspector(&[&text[..cut], &text[cut..]]);
            prop_assert_eq!(whole.lines(), parts.lines());
            prop_assert_eq!(whole.checksum(), parts.checksum());
            prop_assert_eq!(whole.tail().last(5), parts.tail().last(5));
            prop_assert_eq!(whole.tail().last_line(50), parts.tail().last_line(50));
        }
    }
}
