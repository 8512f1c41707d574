//! Messages in the form of socat's, which scripts search: `2026/11/28 18:38:04 socat[1] E text`.

use std::time::{SystemTime, UNIX_EPOCH};

use gush_process::LocalTime;

/// The starts of messages, and socat's letters for them.
const LEVELS: &[(&str, char)] =
    &[("error: ", 'E'), ("warning: ", 'W'), ("note: ", 'N'), ("info: ", 'N'), ("debug: ", 'I')];

pub fn line(text: &str) -> String {
    stamped(text, false)
}

/// With microseconds, as for `-lu`.
pub fn precise_line(text: &str) -> String {
    stamped(text, true)
}

fn stamped(text: &str, is_precise: bool) -> String {
    let level =
        LEVELS.iter().find_map(|&(start, letter)| Some((letter, text.strip_prefix(start)?)));
    let (letter, text) = level.unwrap_or(('E', text));
    let now = SystemTime::now();
    let time = gush_process::local_time(now).unwrap_or_default();
    let LocalTime { year, month, day, hour, minute, second } = time;
    let part = match now.duration_since(UNIX_EPOCH) {
        Ok(since) if is_precise => format!(".{:06}", since.subsec_micros()),
        _ => String::new(),
    };
    let id = std::process::id();
    format!(
        "{year}/{month:02}/{day:02} {hour:02}:{minute:02}:{second:02}{part} socat[{id}] {letter} {text}"
    )
}
