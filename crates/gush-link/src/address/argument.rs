//! Parses and displays the argument after a keyword's colon.

use std::ffi::OsString;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::Address;
use super::error::{Fault, fault};
use super::parse::is_path;
use super::parts::{
    Bind, Command, Family, Inherited, Local, Nothing, Remote, Standard, Through, UnixName, Vsock,
    quoted_path,
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

    fn fault<T>(&self, message: impl Into<String>) -> Result<T, Fault> {
        fault(self.piece.clone(), message)
    }

    fn family(&self) -> Option<Family> {
        match self.form {
            Form::V4 => Some(Family::V4),
            Form::V6 => Some(Family::V6),
            _ => None,
        }
    }
}

/// A type of argument: how it is parsed, and displayed in an address of a kind.
pub(crate) trait ArgumentValue: Sized {
    /// Parses the argument. Several addresses have no keyword, and so none.
    fn read(argument: &Argument<'_>) -> Result<Self, Fault> {
        argument.fault("several addresses are needed")
    }

    /// Writes the address without options.
    fn show(&self, kind: Kind, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// The version of IP and the host, if it names such.
    fn internet(&self) -> Option<(Option<Family>, Option<&str>)> {
        None
    }

    /// The port to which `bind=` may add a host.
    fn local_mut(&mut self) -> Option<&mut Local> {
        None
    }
}

/// The keyword of a kind for one version of IP: `tcp4-listen`.
fn keyword(kind: Kind, family: Option<Family>) -> String {
    let digit = match family {
        None => "",
        Some(Family::V4) => "4",
        Some(Family::V6) => "6",
    };
    let (protocol, role) = kind.name().split_at(kind.name().find('-').unwrap_or(kind.name().len()));
    format!("{protocol}{digit}{role}")
}

impl ArgumentValue for Nothing {
    fn read(argument: &Argument<'_>) -> Result<Self, Fault> {
        match argument.is_empty() {
            true => Ok(Nothing),
            false => {
                argument.fault(format!("{} takes nothing after its colon", argument.kind.name()))
            }
        }
    }

    fn show(&self, kind: Kind, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(kind.grammar())
    }
}

impl ArgumentValue for Standard {
    fn read(argument: &Argument<'_>) -> Result<Self, Fault> {
        Nothing::read(argument)?;
        Ok(match argument.form {
            Form::Input => Standard::Input,
            Form::Output => Standard::Output,
            _ => Standard::Both,
        })
    }

    fn show(&self, _: Kind, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Both => "-",
            Self::Input => "stdin",
            Self::Output => "stdout",
        })
    }
}

impl ArgumentValue for PathBuf {
    fn read(argument: &Argument<'_>) -> Result<Self, Fault> {
        let bytes = unquoted(argument.text, argument.piece.clone())?;
        match bytes.contains(&0) {
            _ if bytes.is_empty() => argument.fault("a path is missing here"),
            true => argument.fault("a path cannot hold a zero byte"),
            false => Ok(PathBuf::from(OsString::from_vec(bytes))),
        }
    }

    fn show(&self, kind: Kind, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = quoted_path(self);
        match kind {
            Kind::Path if is_path(&text) => f.write_str(&text),
            Kind::Path => write!(f, "gopen:{text}"),
            _ => write!(f, "{}:{text}", kind.name()),
        }
    }
}

impl ArgumentValue for Option<PathBuf> {
    fn read(argument: &Argument<'_>) -> Result<Self, Fault> {
        (!argument.is_empty()).then(|| PathBuf::read(argument)).transpose()
    }

    fn show(&self, kind: Kind, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Some(path) => path.show(kind, f),
            None => write!(f, "{}:", kind.name()),
        }
    }
}

impl ArgumentValue for i32 {
    fn read(argument: &Argument<'_>) -> Result<Self, Fault> {
        let read = number(argument.as_str());
        read.map_or_else(|| argument.fault("expected a descriptor number, such as 3"), Ok)
    }

    fn show(&self, kind: Kind, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{self}", kind.name())
    }
}

impl ArgumentValue for Inherited {
    fn read(argument: &Argument<'_>) -> Result<Self, Fault> {
        match String::from_utf8(unquoted(argument.text, argument.piece.clone())?) {
            Ok(name) if name.is_empty() => {
                argument.fault("a descriptor's number or name is missing here")
            }
            Ok(name) if name.bytes().all(|byte| byte.is_ascii_digit()) => {
                i32::read(argument).map(Self::Number)
            }
            Ok(name) => Ok(Self::Name(name)),
            Err(_) => argument.fault("a descriptor's name is text"),
        }
    }

    fn show(&self, kind: Kind, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{self}", kind.name())
    }
}

impl ArgumentValue for Command {
    fn read(argument: &Argument<'_>) -> Result<Self, Fault> {
        let command = Command(argument.as_str().to_owned());
        match shlex::split(&command.line()) {
            None => {
                argument.fault("a shell would find a quote that is never closed in this command")
            }
            Some(_) if argument.as_str().contains('\0') => {
                argument.fault("a command cannot hold a zero byte")
            }
            Some(words) if words.first().is_none_or(String::is_empty) => {
                argument.fault("a command is missing here")
            }
            Some(_) => Ok(command),
        }
    }

    fn show(&self, kind: Kind, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", kind.name(), self.as_written())
    }
}

impl ArgumentValue for UnixName {
    fn read(argument: &Argument<'_>) -> Result<Self, Fault> {
        let bytes = unquoted(argument.text, argument.piece.clone())?;
        let name = match bytes.strip_prefix(b"@") {
            _ if argument.form == Form::Abstract => UnixName::Abstract(bytes),
            Some(name) => UnixName::Abstract(name.to_owned()),
            None => UnixName::Path(PathBuf::read(argument)?),
        };
        let bytes = match &name {
            UnixName::Path(path) => path.as_os_str().len(),
            UnixName::Abstract(name) => name.len(),
        };
        match bytes {
            0 => argument.fault("a socket's name is missing here"),
            1..=UNIX_NAME_BYTES => Ok(name),
            _ => argument.fault(format!(
                "{bytes} bytes: the kernel takes at most {UNIX_NAME_BYTES}; change to the directory and name it shorter"
            )),
        }
    }

    fn show(&self, kind: Kind, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{self}", kind.name())
    }
}

/// `CID:PORT`; a listener's may be a port alone, which accepts any machine.
impl ArgumentValue for Vsock {
    fn read(argument: &Argument<'_>) -> Result<Self, Fault> {
        let (cid, port) = match argument.as_str().split_once(':') {
            Some((cid, port)) => (number(cid), number(port)),
            None => (argument.kind.listens().then_some(Self::ANY), number(argument.as_str())),
        };
        match (cid, port) {
            (Some(cid), Some(port)) => Ok(Self { cid, port }),
            _ => argument.fault(
                "the number of a machine and of a port are needed, such as 2:1024 for the host",
            ),
        }
    }

    fn show(&self, kind: Kind, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cid, port } = self;
        match *cid == Self::ANY && kind.listens() {
            true => write!(f, "{}:{port}", kind.name()),
            false => write!(f, "{}:{cid}:{port}", kind.name()),
        }
    }
}

impl ArgumentValue for Remote {
    fn read(argument: &Argument<'_>) -> Result<Self, Fault> {
        remote(argument.text, &argument.piece, argument.family())
    }

    fn show(&self, kind: Kind, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{self}", keyword(kind, self.family))
    }

    fn internet(&self) -> Option<(Option<Family>, Option<&str>)> {
        Some((self.family, Some(&self.host)))
    }
}

impl ArgumentValue for Local {
    fn read(argument: &Argument<'_>) -> Result<Self, Fault> {
        let (text, family) = (argument.text, argument.family());
        let (host, port) = host_and_port(text, &argument.piece)?;
        let host = match host {
            // An empty host and `*`, as in other programs, are every local address.
            Some(host) if !matches!(&text[host.clone()], "" | "*") => {
                Some(self::host(text, &host, family)?)
            }
            _ => None,
        };
        Ok(Local { family, host, port: self::port(text, &port)? })
    }

    fn show(&self, kind: Kind, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{self}", keyword(kind, self.family))
    }

    fn internet(&self) -> Option<(Option<Family>, Option<&str>)> {
        Some((self.family, self.host.as_deref()))
    }

    fn local_mut(&mut self) -> Option<&mut Local> {
        Some(self)
    }
}

/// `PROXY:PORT:HOST:PORT`; either host may be an IPv6 address in brackets.
impl ArgumentValue for Through {
    fn read(argument: &Argument<'_>) -> Result<Self, Fault> {
        // Colons within brackets belong to an IPv6 address.
        let mut depth = 0;
        let mut colons = argument.as_str().bytes().enumerate().filter_map(|(at, byte)| {
            match byte {
                b'[' => depth += 1,
                b']' => depth -= 1,
                _ => {}
            }
            (byte == b':' && depth == 0).then_some(argument.piece.start + at)
        });
        // The proxy has one colon before its port; the next one begins the destination.
        let Some(middle) = colons.nth(1) else {
            return argument.fault(
                "a proxy and a destination are needed, such as localhost:1080:example.org:80",
            );
        };
        let proxy = remote(argument.text, &(argument.piece.start..middle), None)?;
        let target = middle + 1..argument.piece.end;
        let Remote { host, port, .. } = remote(argument.text, &target, None)?;
        match number(&port) {
            // The protocols of proxies carry a number only.
            Some(port) => Ok(Through { proxy, host, port }),
            None => fault(target, "the destination's port must be a number"),
        }
    }

    fn show(&self, kind: Kind, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{self}", kind.name())
    }
}

impl ArgumentValue for Box<[Address; 2]> {
    fn show(&self, _: Kind, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}!!{}", self[0], self[1])
    }
}

impl ArgumentValue for Vec<Address> {
    fn show(&self, _: Kind, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join("|"))
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
                fault(piece.clone(), "expected an IPv4 address, not IPv6")
            }
            Ok(_) if is_zone => Ok(inner.to_owned()),
            _ => fault(piece.clone(), "expected an IPv6 address within the brackets"),
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
            fault(piece.clone(), "expected an IPv6 address, not IPv4")
        }
        Err(_) if is_dotted => {
            fault(piece.clone(), "expected an IPv4 address: four numbers up to 255")
        }
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
        false => fault(
            piece.clone(),
            "expected a port: a number up to 65535, or a service name such as http",
        ),
    }
}

/// `HOST`, `HOST:PORT` or `:PORT`.
pub(super) fn bind(text: &str, family: Option<Family>) -> Result<Bind, Fault> {
    let all = 0..text.len();
    if text.starts_with('[') && text.ends_with(']') || !text.contains(':') {
        return Ok(Bind { host: Some(host(text, &all, family)?), port: None });
    }
    let (host_part, port_part) = host_and_port(text, &all)?;
    let host = match host_part {
        Some(piece) if !piece.is_empty() => Some(host(text, &piece, family)?),
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
        bind(text, None).map_err(|fault| fault.message)
    }
}
