//! Parses the argument after a keyword's colon.

use std::ffi::OsString;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::error::{Fault, fault};
use super::parts::{
    Bind, Command, Family, Inherited, Local, Nothing, Remote, Standard, Through, UnixName, Vsock,
};
use super::scan::unquoted;
use super::value::number;
use crate::kind::{Form, Kind};

/// The length of `sun_path` without the zero byte of a path or an abstract name (unix(7)).
const UNIX_NAME_BYTES: usize = 107;

/// The argument of an address: the text after the keyword's colon.
#[derive(Debug, Clone)]
pub(crate) struct Argument<'a> {
    /// The whole address.
    pub text: &'a str,
    /// The range of the argument in the text; empty if there is none.
    pub piece: Range<usize>,
    pub kind: Kind,
    pub form: Form,
}

impl Argument<'_> {
    pub fn is_empty(&self) -> bool {
        self.piece.is_empty()
    }

    fn as_str(&self) -> &str {
        &self.text[self.piece.clone()]
    }

    pub fn fault<T>(&self, message: impl Into<String>) -> Result<T, Fault> {
        fault(self.piece.clone(), message)
    }

    fn family(&self) -> Option<Family> {
        match self.form {
            Form::V4 => Some(Family::V4),
            Form::V6 => Some(Family::V6),
            _ => None,
        }
    }

    /// `CID:PORT`, or a port alone if there is a default CID.
    pub fn vsock(&self, any: Option<u32>) -> Result<Vsock, Fault> {
        let text = &self.text[self.piece.clone()];
        let (cid, port) = match (text.split_once(':'), any) {
            (Some((cid, port)), _) => (number(cid), number(port)),
            (None, any) => (any, number(text)),
        };
        match (cid, port) {
            (Some(cid), Some(port)) => Ok(Vsock { cid, port }),
            _ => fault(
                self.piece.clone(),
                "the number of a machine and of a port are needed, such as 2:1024 for the host",
            ),
        }
    }

    pub fn nothing(&self) -> Result<Nothing, Fault> {
        match self.is_empty() {
            true => Ok(Nothing),
            false => self.fault(format!("{} takes nothing after its colon", self.kind.name())),
        }
    }

    pub fn standard(&self) -> Result<Standard, Fault> {
        self.nothing()?;
        Ok(match self.form {
            Form::Input => Standard::Input,
            Form::Output => Standard::Output,
            _ => Standard::Both,
        })
    }

    pub fn path(&self) -> Result<PathBuf, Fault> {
        let bytes = unquoted(self.text, self.piece.clone())?;
        match bytes.contains(&0) {
            _ if bytes.is_empty() => self.fault("a path is missing here"),
            true => self.fault("a path cannot hold a zero byte"),
            false => Ok(PathBuf::from(OsString::from_vec(bytes))),
        }
    }

    pub fn descriptor(&self) -> Result<i32, Fault> {
        number(self.as_str()).map_or_else(|| self.fault("no number of a descriptor, such as 3"), Ok)
    }

    pub fn inherited(&self) -> Result<Inherited, Fault> {
        match String::from_utf8(unquoted(self.text, self.piece.clone())?) {
            Ok(name) if name.is_empty() => {
                self.fault("a descriptor's number or name is missing here")
            }
            Ok(name) if name.bytes().all(|byte| byte.is_ascii_digit()) => number(&name)
                .map_or_else(
                    || self.fault("no number of a descriptor, such as 3"),
                    |n| Ok(Inherited::Number(n)),
                ),
            Ok(name) => Ok(Inherited::Name(name)),
            Err(_) => self.fault("a descriptor's name is text"),
        }
    }

    pub fn command(&self) -> Result<Command, Fault> {
        let command = Command(self.as_str().to_owned());
        match shlex::split(&command.line()) {
            None => self.fault("a shell would find a quote that is never closed in this command"),
            Some(_) if self.as_str().contains('\0') => {
                self.fault("a command cannot hold a zero byte")
            }
            Some(words) if words.first().is_none_or(String::is_empty) => {
                self.fault("a command is missing here")
            }
            Some(_) => Ok(command),
        }
    }

    pub fn unix_name(&self) -> Result<UnixName, Fault> {
        let bytes = unquoted(self.text, self.piece.clone())?;
        let name = match bytes.strip_prefix(b"@") {
            _ if self.form == Form::Abstract => UnixName::Abstract(bytes),
            Some(name) => UnixName::Abstract(name.to_owned()),
            None => UnixName::Path(self.path()?),
        };
        let bytes = match &name {
            UnixName::Path(path) => path.as_os_str().len(),
            UnixName::Abstract(name) => name.len(),
        };
        match bytes {
            0 => self.fault("a socket's name is missing here"),
            1..=UNIX_NAME_BYTES => Ok(name),
            _ => self.fault(format!(
                "{bytes} bytes: the kernel takes at most {UNIX_NAME_BYTES}; change to the directory and name it shorter"
            )),
        }
    }

    pub fn remote(&self) -> Result<Remote, Fault> {
        remote(self.text, &self.piece, self.family())
    }

    /// `PROXY:PORT:HOST:PORT`; either host may be an IPv6 address in brackets.
    pub fn through(&self) -> Result<Through, Fault> {
        // Colons within brackets belong to an IPv6 address.
        let mut depth = 0;
        let mut colons = self.as_str().bytes().enumerate().filter_map(|(at, byte)| {
            match byte {
                b'[' => depth += 1,
                b']' => depth -= 1,
                _ => {}
            }
            (byte == b':' && depth == 0).then_some(self.piece.start + at)
        });
        // The proxy has one colon before its port; the next one begins the target.
        let Some(middle) = colons.nth(1) else {
            return self
                .fault("a proxy and a target are needed, such as localhost:1080:example.org:80");
        };
        let proxy = remote(self.text, &(self.piece.start..middle), None)?;
        let target = middle + 1..self.piece.end;
        let Remote { host, port, .. } = remote(self.text, &target, None)?;
        match number(&port) {
            // The protocols of proxies carry a number only.
            Some(port) => Ok(Through { proxy, host, port }),
            None => fault(target, "the target's port must be a number"),
        }
    }

    pub fn local(&self) -> Result<Local, Fault> {
        let (text, family) = (self.text, self.family());
        let (host, port) = host_and_port(text, &self.piece)?;
        let host = match host {
            // An empty host and `*`, as in other programs, are every local address.
            Some(host) if !matches!(&text[host.clone()], "" | "*") => {
                Some(self::host(text, &host, family)?)
            }
            _ => None,
        };
        Ok(Local { family, host, port: self::port(text, &port)? })
    }
}

fn remote(text: &str, piece: &Range<usize>, family: Option<Family>) -> Result<Remote, Fault> {
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
            None => fault(after..piece.end, "a colon and a port are needed after the bracket"),
        };
    }
    let Some(colon) = whole.rfind(':') else {
        return Ok((None, piece.clone()));
    };
    let host = piece.start..piece.start + colon;
    if text[host.clone()].contains(':') {
        return fault(host, "an IPv6 address is written in brackets, such as [::1]:80");
    }
    Ok((Some(host), piece.start + colon + 1..piece.end))
}

/// A name, or an address without brackets.
fn host(text: &str, piece: &Range<usize>, family: Option<Family>) -> Result<String, Fault> {
    let host = &text[piece.clone()];
    if let Some(inner) = host.strip_prefix('[') {
        let inner = inner.strip_suffix(']').unwrap_or(inner);
        // The zone of a link-local address (RFC 4007), which the standard parser does not accept.
        let (address, zone) = inner.split_once('%').unwrap_or((inner, "lo"));
        let is_zone = !zone.is_empty()
            && zone.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        return match address.parse::<Ipv6Addr>() {
            Ok(_) if family == Some(Family::V4) => {
                fault(piece.clone(), "an IPv6 address where IPv4 is asked for")
            }
            Ok(_) if is_zone => Ok(inner.to_owned()),
            _ => fault(piece.clone(), "no IPv6 address within the brackets"),
        };
    }
    if let Some((at, c)) =
        host.char_indices().find(|&(_, c)| !c.is_alphanumeric() && !"-_.".contains(c))
    {
        let at = piece.start + at;
        return fault(at..at + c.len_utf8(), "no host name holds this character");
    }
    // A mistyped address, such as 300.1.1.1, would be sent to a name server.
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
            // Normalised, so that 0080 and 80 are one address.
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
    /// The fault, as a sentence.
    ///
    /// ```
    /// use gush_link::address::Bind;
    /// let bind = Bind::read("[::1]:99").unwrap();
    /// assert_eq!((bind.host.as_deref(), bind.port.as_deref()), (Some("::1"), Some("99")));
    /// ```
    pub fn read(text: &str) -> Result<Self, String> {
        bind(text).map_err(|fault| fault.message)
    }
}
