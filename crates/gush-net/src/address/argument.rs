//! What stands behind a keyword's colon: paths, descriptors, commands, names of sockets, hosts and ports.

use std::ffi::OsString;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::error::{Fault, fault};
use super::kinds::Form;
use super::scan::unquoted;
use super::target::{Bind, Command, Family, Inherited, Local, Remote, Through, UnixName};
use super::value::number;

/// What fits `sun_path` beside the zero byte that ends a path or begins an abstract name (unix(7)).
const UNIX_NAME_BYTES: usize = 107;

pub(super) fn path(text: &str, piece: &Range<usize>) -> Result<PathBuf, Fault> {
    let bytes = unquoted(text, piece.clone())?;
    match bytes.contains(&0) {
        _ if bytes.is_empty() => fault(piece.clone(), "a path is missing here"),
        true => fault(piece.clone(), "a path cannot hold a zero byte"),
        false => Ok(PathBuf::from(OsString::from_vec(bytes))),
    }
}

pub(super) fn descriptor(text: &str) -> Option<i32> {
    number(text)
}

pub(super) fn inherited(text: &str, piece: &Range<usize>) -> Result<Inherited, Fault> {
    let bytes = unquoted(text, piece.clone())?;
    match String::from_utf8(bytes) {
        Ok(name) if name.is_empty() => {
            fault(piece.clone(), "a descriptor's number or name is missing here")
        }
        Ok(name) if name.bytes().all(|byte| byte.is_ascii_digit()) => descriptor(&name)
            .map_or_else(
                || fault(piece.clone(), "no number of a descriptor, such as 3"),
                |n| Ok(Inherited::Number(n)),
            ),
        Ok(name) => Ok(Inherited::Name(name)),
        Err(_) => fault(piece.clone(), "a descriptor's name is text"),
    }
}

pub(super) fn command(text: &str, piece: &Range<usize>) -> Result<Command, Fault> {
    let command = Command(text[piece.clone()].to_owned());
    let words = shlex::split(&command.line());
    match words {
        None => {
            fault(piece.clone(), "a shell would find a quote that is never closed in this command")
        }
        Some(_) if text[piece.clone()].contains('\0') => {
            fault(piece.clone(), "a command cannot hold a zero byte")
        }
        Some(words) if words.first().is_none_or(String::is_empty) => {
            fault(piece.clone(), "a command is missing here")
        }
        Some(_) => Ok(command),
    }
}

pub(super) fn unix_name(text: &str, piece: &Range<usize>, form: Form) -> Result<UnixName, Fault> {
    let bytes = unquoted(text, piece.clone())?;
    let name = match bytes.strip_prefix(b"@") {
        _ if form == Form::Abstract => UnixName::Abstract(bytes),
        Some(name) => UnixName::Abstract(name.to_owned()),
        None => UnixName::Path(path(text, piece)?),
    };
    let bytes = match &name {
        UnixName::Path(path) => path.as_os_str().len(),
        UnixName::Abstract(name) => name.len(),
    };
    match bytes {
        0 => fault(piece.clone(), "a socket's name is missing here"),
        1..=UNIX_NAME_BYTES => Ok(name),
        _ => fault(
            piece.clone(),
            format!(
                "{bytes} bytes: the kernel takes at most {UNIX_NAME_BYTES}; change to the directory and name it shorter"
            ),
        ),
    }
}

pub(super) fn remote(
    text: &str,
    piece: &Range<usize>,
    family: Option<Family>,
) -> Result<Remote, Fault> {
    let (host, port) = host_and_port(text, piece)?;
    let Some(host) = host else {
        return fault(piece.clone(), "a host and a port are needed, such as localhost:80");
    };
    if text[host.clone()].is_empty() {
        return fault(host, "a host is missing before the colon");
    }
    let host = self::host(text, &host, family)?;
    if number::<u16>(&text[port.clone()]) == Some(0) {
        return fault(port, "nothing can be reached at port 0");
    }
    Ok(Remote { family, host, port: self::port(text, &port)? })
}

/// `PROXY:PORT:HOST:PORT`; either host may be an IPv6 address in brackets.
pub(super) fn through(text: &str, piece: &Range<usize>) -> Result<Through, Fault> {
    let mut depth = 0;
    let mut colons = text[piece.clone()].bytes().enumerate().filter_map(|(at, byte)| {
        match byte {
            b'[' => depth += 1,
            b']' => depth -= 1,
            _ => {}
        }
        (byte == b':' && depth == 0).then_some(piece.start + at)
    });
    let Some(middle) = colons.nth(1) else {
        return fault(
            piece.clone(),
            "a proxy and a target are needed, such as localhost:1080:example.org:80",
        );
    };
    let proxy = remote(text, &(piece.start..middle), None)?;
    let target = middle + 1..piece.end;
    let Remote { host, port, .. } = remote(text, &target, None)?;
    match number(&port) {
        Some(port) => Ok(Through { proxy, host, port }),
        None => fault(target, "the proxy is told a number as the target's port"),
    }
}

pub(super) fn local(
    text: &str,
    piece: &Range<usize>,
    family: Option<Family>,
) -> Result<Local, Fault> {
    let (host, port) = host_and_port(text, piece)?;
    let host = match host {
        Some(host) if !matches!(&text[host.clone()], "" | "*") => {
            Some(self::host(text, &host, family)?)
        }
        _ => None,
    };
    Ok(Local { family, host, port: self::port(text, &port)? })
}

/// `HOST:PORT`, `[IPv6]:PORT` or `PORT`.
fn host_and_port(
    text: &str,
    piece: &Range<usize>,
) -> Result<(Option<Range<usize>>, Range<usize>), Fault> {
    let whole = &text[piece.clone()];
    if whole.starts_with('[') {
        let Some(end) = whole.find(']') else {
            return fault(piece.start..piece.start + 1, "this bracket is never closed");
        };
        let after = piece.start + end + 1;
        return match text[after..piece.end].strip_prefix(':') {
            Some(_) => Ok((Some(piece.start..after), after + 1..piece.end)),
            None => fault(after..piece.end, "a colon and a port are needed behind the bracket"),
        };
    }
    let Some(colon) = whole.rfind(':') else {
        return Ok((None, piece.clone()));
    };
    let host = piece.start..piece.start + colon;
    if text[host.clone()].contains(':') {
        return fault(host, "an IPv6 address stands in brackets, such as [::1]:80");
    }
    Ok((Some(host), piece.start + colon + 1..piece.end))
}

/// A name, or an address without its brackets.
fn host(text: &str, piece: &Range<usize>, family: Option<Family>) -> Result<String, Fault> {
    let host = &text[piece.clone()];
    if let Some(inner) = host.strip_prefix('[') {
        let inner = inner.strip_suffix(']').unwrap_or(inner);
        let (address, zone) = inner.split_once('%').unwrap_or((inner, "lo"));
        let is_zone = !zone.is_empty()
            && zone.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        return match address.parse::<Ipv6Addr>() {
            Ok(_) if family == Some(Family::V4) => {
                fault(piece.clone(), "an IPv6 address where IPv4 is asked for")
            }
            Ok(_) if is_zone => Ok(inner.to_owned()),
            _ => fault(piece.clone(), "no IPv6 address stands within the brackets"),
        };
    }
    if let Some((at, c)) =
        host.char_indices().find(|&(_, c)| !c.is_alphanumeric() && !"-_.".contains(c))
    {
        let at = piece.start + at;
        return fault(at..at + c.len_utf8(), "no host name holds this character");
    }
    let is_dotted = host.split('.').count() == 4
        && host.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit());
    match host.parse::<Ipv4Addr>() {
        Ok(_) if family == Some(Family::V6) => {
            fault(piece.clone(), "an IPv4 address where IPv6 is asked for")
        }
        Err(_) if is_dotted => fault(piece.clone(), "no IPv4 address: four numbers up to 255"),
        _ => Ok(host.to_owned()),
    }
}

fn port(text: &str, piece: &Range<usize>) -> Result<String, Fault> {
    let port = &text[piece.clone()];
    if port.is_empty() {
        return fault(
            piece.clone(),
            "a port is missing here: a number up to 65535, or a service name such as http",
        );
    }
    if port.bytes().all(|byte| byte.is_ascii_digit()) {
        return match number::<u16>(port) {
            Some(port) => Ok(port.to_string()),
            None => fault(piece.clone(), "ports end at 65535"),
        };
    }
    let is_service = port.starts_with(|c: char| c.is_ascii_alphanumeric())
        && port.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_+./*".contains(&byte));
    match is_service {
        true => Ok(port.to_owned()),
        false => {
            fault(piece.clone(), "no port: a number up to 65535, or a service name such as http")
        }
    }
}

/// `HOST`, `HOST:PORT` or `:PORT`.
pub(super) fn bind(text: &str) -> Result<Bind, Fault> {
    let all = 0..text.len();
    if text.starts_with('[') && text.ends_with(']') || !text.contains(':') {
        return Ok(Bind { host: Some(host(text, &all, None)?), port: None });
    }
    let (host_part, port_part) = host_and_port(text, &all)?;
    let host = match host_part {
        Some(piece) if !piece.is_empty() => Some(host(text, &piece, None)?),
        _ => None,
    };
    Ok(Bind { host, port: Some(port(text, &port_part)?) })
}

impl Bind {
    /// Reads the value of `bind=`.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence.
    ///
    /// ```
    /// use gush_net::address::Bind;
    /// let bind = Bind::read("[::1]:99").unwrap();
    /// assert_eq!((bind.host.as_deref(), bind.port.as_deref()), (Some("::1"), Some("99")));
    /// ```
    pub fn read(text: &str) -> Result<Self, String> {
        bind(text).map_err(|fault| fault.message)
    }
}
