//! Messages in the form of socat's, which scripts search: `2026/11/28 18:38:04 socat[1] E text`.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use gush_process::LocalTime;

/// The starts of messages, and socat's letters for them.
const LEVELS: &[(&str, char)] =
    &[("error: ", 'E'), ("warning: ", 'W'), ("note: ", 'N'), ("info: ", 'N'), ("debug: ", 'I')];

/// The starts of messages about clients, and socat's words.
const CONNECTED: &[(&str, &str)] = &[
    ("connected id=", "accepting connection"),
    ("connected by UDP id=", "accepting UDP connection"),
    ("connected by a datagram id=", "receiving packet"),
];

pub fn line(text: &str) -> String {
    stamped(text, false)
}

/// With microseconds, as for `-lu`.
pub fn precise_line(text: &str) -> String {
    stamped(text, true)
}

/// Scripts cut the port out of the message of a listener, and the client out of that of a
/// connection.
fn as_said_by_socat(text: &str) -> Cow<'_, str> {
    if let Some((local, address)) =
        text.strip_prefix("listening on ").and_then(|rest| rest.split_once(" for "))
        && let Some(local) = socket(local)
    {
        let waits = match address.split(':').next() {
            Some(keyword) if keyword.ends_with("-recvfrom") => "receiving on",
            Some(keyword) if keyword.starts_with("udp") => "listening on UDP",
            _ => "listening on",
        };
        return format!("{waits} {local}").into();
    }
    let found = CONNECTED.iter().find_map(|&(ours, said)| Some((said, text.strip_prefix(ours)?)));
    if let Some((said, rest)) = found
        && let Some((id, client)) = rest.split_once(" client=")
    {
        let client = match client {
            // By a path it may be a server that this link has connected to.
            _ if client == "unix" || client.starts_with("unix (") => {
                Some("AF=1 \"<anon>\"".to_owned())
            }
            _ => client.parse().ok().map(internet),
        };
        if let Some(client) = client {
            return format!("{said} from {client} (id={id})").into();
        }
    }
    text.into()
}

/// A local address in the form of sockaddr_info in socat's sysutils.c.
fn socket(local: &str) -> Option<String> {
    if let Some(name) = local.strip_prefix("unix:") {
        return Some(match name.strip_prefix('@') {
            Some(name) => format!(r#"AF=1 "\0{name}""#),
            None => format!("AF=1 \"{name}\""),
        });
    }
    local.parse().ok().map(internet)
}

fn internet(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => format!("AF=2 {address}"),
        SocketAddr::V6(address) => {
            let parts = address.ip().segments().map(|part| format!("{part:04x}")).join(":");
            format!("AF=10 [{parts}]:{}", address.port())
        }
    }
}

fn stamped(text: &str, is_precise: bool) -> String {
    let level =
        LEVELS.iter().find_map(|&(start, letter)| Some((letter, text.strip_prefix(start)?)));
    let (letter, text) = level.unwrap_or(('E', text));
    let text = as_said_by_socat(text);
    let time = time(SystemTime::now(), is_precise);
    format!("{time} socat[{}] {letter} {text}", std::process::id())
}

/// The local time in socat's form, with microseconds if `is_precise`.
pub fn time(at: SystemTime, is_precise: bool) -> String {
    let time = gush_process::local_time(at).unwrap_or_default();
    let LocalTime { year, month, day, hour, minute, second } = time;
    let part = match at.duration_since(UNIX_EPOCH) {
        Ok(since) if is_precise => format!(".{:06}", since.subsec_micros()),
        _ => String::new(),
    };
    format!("{year}/{month:02}/{day:02} {hour:02}:{minute:02}:{second:02}{part}")
}
