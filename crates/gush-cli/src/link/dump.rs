//! Dumps the bytes that pass to standard error, in socat's format (`-v`, `-x`).
//!
//! Each delivered piece is a block: a line with direction, time, length and the offsets of the
//! first and last byte, then the bytes: as text (`-v`), in hexadecimal (`-x`), or both in columns.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use gush::Unpoisoned;
use gush_link::Observe;
use gush_net::Direction;

use super::messages::Messages;
use super::socat_log;

/// How long a connection waits for the reader of standard error, before it goes on without the
/// dump.
const STALL_TIMEOUT: Duration = Duration::from_secs(1);

/// The bytes on a line of both columns.
const COLUMN_BYTES: usize = 16;

/// `None` if neither format is chosen.
pub fn observe(text: bool, hexadecimal: bool, messages: &Messages) -> Option<Observe> {
    let form = match (text, hexadecimal) {
        (false, false) => return None,
        (true, false) => as_text,
        (false, true) => as_hexadecimal,
        (true, true) => as_both,
    };
    let screen = Arc::new(Screen { messages: messages.clone(), state: Mutex::default() });
    Some(Arc::new(move |_| {
        let screen = Arc::clone(&screen);
        // Only one direction writes each of them.
        let shown_bytes = [AtomicU64::new(0), AtomicU64::new(0)];
        Box::new(move |way, bytes| {
            let length_bytes = bytes.len() as u64;
            // Relaxed: no other memory depends on these numbers.
            let from = shown_bytes[way as usize].fetch_add(length_bytes, Ordering::Relaxed);
            let mut block = head(way, SystemTime::now(), from, length_bytes);
            form(bytes, &mut block);
            screen.show(&block, length_bytes);
        })
    }))
}

fn head(way: Direction, at: SystemTime, from: u64, length_bytes: u64) -> String {
    let sign = match way {
        Direction::Forward => '>',
        Direction::Back => '<',
    };
    let time = socat_log::time(at, true);
    // socat's last offset is inclusive.
    let to = (from + length_bytes).saturating_sub(1);
    format!("{sign} {time}  length={length_bytes} from={from} to={to}\n")
}

/// Escaped as in C, except for tabs and line feeds; a dot for each other unprintable byte.
fn as_text(bytes: &[u8], block: &mut String) {
    for &byte in bytes {
        match byte {
            b'\n' | b'\t' => block.push(char::from(byte)),
            b'\r' => block.push_str("\\r"),
            b'\\' => block.push_str("\\\\"),
            0x07 => block.push_str("\\a"),
            0x08 => block.push_str("\\b"),
            0x0b => block.push_str("\\v"),
            0x0c => block.push_str("\\f"),
            // A peer must not control the user's terminal.
            _ => block.push(visible(byte)),
        }
    }
}

fn as_hexadecimal(bytes: &[u8], block: &mut String) {
    push_digits(bytes, block);
    block.push('\n');
}

/// Lines of the data, of at most [`COLUMN_BYTES`] bytes: digits, then printable characters.
fn as_both(bytes: &[u8], block: &mut String) {
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        for part in line.chunks(COLUMN_BYTES) {
            push_digits(part, block);
            let missing = COLUMN_BYTES - part.len();
            // Writing into a `String` cannot fail.
            let _ = write!(block, "{:width$}", "", width = 3 * missing + 2);
            block.extend(part.iter().map(|&byte| visible(byte)));
            block.push('\n');
        }
    }
    block.push_str("--\n");
}

fn push_digits(bytes: &[u8], block: &mut String) {
    for byte in bytes {
        let _ = write!(block, " {byte:02x}");
    }
}

fn visible(byte: u8) -> char {
    if byte.is_ascii_graphic() || byte == b' ' { char::from(byte) } else { '.' }
}

/// A dump waits for room only for a while: the thread's other clients wait too.
struct Screen {
    messages: Messages,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Has the reader kept a block waiting for [`STALL_TIMEOUT`]? The next ones do not wait until
    /// the reader reads again.
    stalled: bool,
    missed_bytes: u64,
}

impl Screen {
    /// Shows a block of `length_bytes` bytes of data, unless the reader stalls.
    fn show(&self, block: &str, length_bytes: u64) {
        let mut state = self.state.lock().unpoisoned();
        // Only the first block waits: a missing reader must not cost a second for each.
        let timeout = if state.stalled { Duration::ZERO } else { STALL_TIMEOUT };
        let missed_bytes = state.missed_bytes;
        let text = match missed_bytes {
            0 => Cow::Borrowed(block),
            _ => Cow::Owned(format!(
                "\n{missed_bytes} bytes are not shown: standard error was not read\n{block}"
            )),
        };
        state.stalled = !self.messages.push(text.as_bytes(), timeout);
        state.missed_bytes = if state.stalled { missed_bytes + length_bytes } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(form: fn(&[u8], &mut String), bytes: &[u8]) -> String {
        let mut block = String::new();
        form(bytes, &mut block);
        block
    }

    #[test]
    fn a_head_has_the_direction_the_time_and_the_offsets() {
        let at = SystemTime::UNIX_EPOCH + Duration::new(1_795_347_709, 728_236_123);
        let line = "> 2026/11/22 11:41:49.728236  length=19 from=5 to=23\n";
        assert_eq!(head(Direction::Forward, at, 5, 19), line);
        assert!(head(Direction::Back, at, 0, 1).starts_with("< 2026"));
    }

    #[test]
    fn text_is_escaped_as_in_c_and_never_moves_a_cursor() {
        assert_eq!(
            shown(as_text, b"a\tb\r\n\\\x07\x08\x0b\x0c\x1b\xff\0"),
            "a\tb\\r\n\\\\\\a\\b\\v\\f..."
        );
    }

    #[test]
    fn columns_are_as_wide_as_sixteen_bytes() {
        let lines = format!(" 61 0d 0a{}a..\n--\n", " ".repeat(41));
        assert_eq!(shown(as_both, b"a\r\n"), lines);
        assert_eq!(shown(as_both, b"").as_str(), "--\n");
        let two = shown(as_both, &[b'x'; 17]);
        assert_eq!(two.lines().map(str::len).collect::<Vec<_>>(), [66, 51, 2]);
    }
}
