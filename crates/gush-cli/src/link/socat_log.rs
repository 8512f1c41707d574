//! Messages in the form of socat's, which scripts search: `2026/11/28 18:38:04 socat[1] E text`.

use std::borrow::Cow;
use std::net::SocketAddr;
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

/// Scripts cut the port out of the message of a listener.
fn as_said_by_socat(text: &str) -> Cow<'_, str> {
    let listener = text.strip_prefix("listening on ").and_then(|rest| rest.split_once(" for "));
    let Some((local, address)) = listener else { return text.into() };
    let kind = if address.starts_with("udp") { "UDP " } else { "" };
    match local.parse() {
        Ok(SocketAddr::V4(local)) => format!("listening on {kind}AF=2 {local}").into(),
        Ok(SocketAddr::V6(local)) => {
            let parts = local.ip().segments().map(|part| format!("{part:04x}")).join(":");
            format!("listening on {kind}AF=10 [{parts}]:{}", local.port()).into()
        }
        Err(_) => text.into(),
    }
}

fn stamped(text: &str, is_precise: bool) -> String {
    let level =
        LEVELS.iter().find_map(|&(start, letter)| Some((letter, text.strip_prefix(start)?)));
    let (letter, text) = level.unwrap_or(('E', text));
    let text = as_said_by_socat(text);
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
