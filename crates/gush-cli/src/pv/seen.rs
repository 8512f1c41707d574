//! The memory of the bytes that passed: lines counted, the last bytes, the last line, a checksum.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::hash::{Algorithm, Hasher};

/// The longest line that is remembered.
const MOST_LINE_BYTES: usize = 4096;

/// The last bytes and lines.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    last: VecDeque<u8>,
    line: Vec<u8>,
    /// The line that is not ended yet.
    begun: Vec<u8>,
}

impl Seen {
    fn add(&mut self, bytes: &[u8], wanted: &Wanted) {
        // Only the last of a large block: the rest would be pushed out at once.
        let new = &bytes[bytes.len().saturating_sub(wanted.last_bytes)..];
        self.last.extend(new);
        let surplus = self.last.len().saturating_sub(wanted.last_bytes);
        self.last.drain(..surplus);
        if wanted.last_line {
            match memchr::memrchr(wanted.separator, bytes) {
                Some(end) => {
                    let start = memchr::memrchr(wanted.separator, &bytes[..end]);
                    self.line =
                        // The only end in this block ends the line that an earlier block began.
                        if start.is_some() { Vec::new() } else { std::mem::take(&mut self.begun) };
                    extend(&mut self.line, &bytes[start.map_or(0, |start| start + 1)..end]);
                    self.begun.clear();
                    extend(&mut self.begun, &bytes[end + 1..]);
                }
                None => extend(&mut self.begun, bytes),
            }
        }
    }

    /// The last `number` bytes; dots stand for bytes that cannot be shown, and for bytes that there are not yet.
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
    // Input without line ends must not fill the memory.
    let room = MOST_LINE_BYTES.saturating_sub(line.len());
    line.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

fn plain(byte: u8) -> char {
    // Bytes of the data must not steer the terminal.
    if byte.is_ascii_graphic() || byte == b' ' { char::from(byte) } else { '.' }
}

/// The facts to be remembered.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub lines: bool,
    /// The byte that ends a line.
    pub separator: u8,
    pub last_bytes: usize,
    pub last_line: bool,
    pub checksum: Option<Algorithm>,
}

/// Shown the bytes in passing, asked by the display.
#[derive(Debug)]
pub struct Observed {
    wanted: Wanted,
    lines: AtomicU64,
    seen: Mutex<Seen>,
    hasher: Option<Mutex<Hasher>>,
}

impl Observed {
    pub fn new(wanted: Wanted) -> Self {
        let hasher = wanted.checksum.map(|algorithm| Mutex::new(algorithm.start()));
        Self { wanted, lines: AtomicU64::new(0), seen: Mutex::default(), hasher }
    }

    /// The byte that ends a line.
    pub fn separator(&self) -> u8 {
        self.wanted.separator
    }

    /// Must the bytes be seen at all?
    pub fn is_needed(&self) -> bool {
        self.wanted.lines || self.has_memory() || self.hasher.is_some()
    }

    fn has_memory(&self) -> bool {
        self.wanted.last_bytes > 0 || self.wanted.last_line
    }

    pub fn show(&self, bytes: &[u8]) {
        let lines = if self.wanted.lines { self.count(bytes) } else { 0 };
        self.show_counted(bytes, lines);
    }

    /// The lines that end in `bytes`.
    pub fn count(&self, bytes: &[u8]) -> u64 {
        memchr::memchr_iter(self.wanted.separator, bytes).count() as u64
    }

    /// Shows bytes whose lines were counted already.
    pub fn show_counted(&self, bytes: &[u8], lines: u64) {
        // Relaxed: the display reads a number, and nothing else depends on it.
        self.lines.fetch_add(lines, Ordering::Relaxed);
        if self.has_memory() {
            self.seen.lock().unwrap_or_else(PoisonError::into_inner).add(bytes, &self.wanted);
        }
        if let Some(hasher) = &self.hasher {
            hasher.lock().unwrap_or_else(PoisonError::into_inner).add(bytes);
        }
    }

    /// The checksum so far, with the algorithm's name.
    pub fn checksum(&self) -> Option<(Algorithm, String)> {
        let hasher = self.hasher.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        Some((self.wanted.checksum?, hasher.text()))
    }

    /// Lines that have ended.
    pub fn lines(&self) -> u64 {
        self.lines.load(Ordering::Relaxed)
    }

    pub fn seen(&self) -> Seen {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn observed(pieces: &[&[u8]]) -> Observed {
        let wanted = Wanted {
            lines: true,
            separator: b'\n',
            last_bytes: 5,
            last_line: true,
            checksum: Some(Algorithm::Xxh3),
        };
        let observed = Observed::new(wanted);
        pieces.iter().for_each(|piece| observed.show(piece));
        observed
    }

    #[test]
    fn the_last_bytes_and_lines_are_remembered() {
        let observed = observed(&[b"one\ntw", b"o", b"\nthr", b"ee"]);
        let seen = observed.seen();
        assert_eq!(observed.lines(), 2);
        assert_eq!((seen.last(4), seen.last(7)), ("hree".to_owned(), "..three".to_owned()));
        assert_eq!(seen.last_line(5), "two  ");
        assert_eq!(seen.last_line(2), "tw");
    }

    #[test]
    fn what_is_no_plain_letter_is_a_dot() {
        assert_eq!(observed(&[b"a\x1b\n\xffb"]).seen().last(6), ".a...b");
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(text in proptest::collection::vec(0_u8..12, 0..200), cut in 0_usize..200) {
            let cut = cut.min(text.len());
            let whole = observed(&[&text]);
            let parts = observed(&[&text[..cut], &text[cut..]]);
            prop_assert_eq!(whole.lines(), parts.lines());
            prop_assert_eq!(whole.checksum(), parts.checksum());
            prop_assert_eq!(whole.seen().last(5), parts.seen().last(5));
            prop_assert_eq!(whole.seen().last_line(50), parts.seen().last_line(50));
        }
    }
}
