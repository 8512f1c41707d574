//! The PROXY protocol: a header by which a proxy names the client, as text (version 1) or binary
//! (version 2): <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>.
//!
//! Only proxies may reach a port that accepts headers, because the receiver trusts them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Duration;

use gush_text::with_unit;
use ppp::{v1, v2};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::Interest;

use crate::address::UnixName;
use crate::open::Peer;
use crate::watch::watch;

/// The longest header of version 1, its line end included.
const V1_BYTES: usize = 107;
/// The bytes that every header of version 2 begins with, the length field included.
const V2_FIXED_BYTES: usize = 16;
/// Addresses take at most 216 bytes; the rest is for TLVs, which are skipped.
const V2_BYTES: usize = 4096;

/// The limit on receiving and on sending a header.
pub(crate) const HEADER_LIMIT: Duration = Duration::from_secs(5);

/// The version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

/// Where a connection comes from, and the address that it was made to.
///
/// ```
/// use gush_link::open::Peer;
/// use gush_link::proxy::{Header, Version};
/// let (client, server) = (Peer::Ip("192.0.2.1:4000".parse()?), Peer::Ip("192.0.2.9:80".parse()?));
/// let header = Header::new(Some(client), Some(server));
/// assert_eq!(header.bytes(Version::V1), b"PROXY TCP4 192.0.2.1 192.0.2.9 4000 80\r\n");
/// assert_eq!(Header::read(&header.bytes(Version::V2))?, Some((header, 28)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The client. `None` if the proxy itself connects (LOCAL) or does not know (UNKNOWN).
    pub source: Option<Peer>,
    /// The address connected to.
    pub destination: Option<Peer>,
}

/// Why a connection has no valid header.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// The bytes are no header.
    #[error("the PROXY header is malformed: {0}")]
    Malformed(String),
    /// The connection ended before the end of the header.
    #[error("the connection ended within the PROXY header, after {0} bytes")]
    Ended(usize),
    /// The header did not come in time.
    #[error("no PROXY header came within {}", with_unit(*.0))]
    Late(Duration),
    /// The socket failed.
    #[error("the PROXY header cannot be received: {0}")]
    Io(#[from] io::Error),
}

impl From<Errno> for ProxyError {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

impl Header {
    /// A header with two addresses of one kind: of the Internet, or of Unix sockets. Others cannot
    /// be expressed, and are left out.
    #[must_use]
    pub fn new(source: Option<Peer>, destination: Option<Peer>) -> Self {
        let are_alike = matches!(
            (&source, &destination),
            (Some(Peer::Ip(_)), Some(Peer::Ip(_)))
                | (Some(Peer::Unix { .. }), Some(Peer::Unix { .. }))
        );
        if are_alike {
            Self { source, destination }
        } else {
            Self { source: None, destination: None }
        }
    }

    /// The header as bytes to send.
    #[must_use]
    pub fn bytes(&self, version: Version) -> Vec<u8> {
        match version {
            Version::V1 => self.text().into_bytes(),
            Version::V2 => self.binary(),
        }
    }

    fn ips(&self) -> Option<(SocketAddr, SocketAddr)> {
        match (&self.source, &self.destination) {
            (Some(Peer::Ip(source)), Some(Peer::Ip(destination))) => {
                Some(of_one_family(*source, *destination))
            }
            _ => None,
        }
    }

    fn text(&self) -> String {
        match self.ips() {
            Some((source, destination)) => {
                let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
                let (from, to) = (source.ip(), destination.ip());
                format!("PROXY {family} {from} {to} {} {}\r\n", source.port(), destination.port())
            }
            None => "PROXY UNKNOWN\r\n".to_owned(),
        }
    }

    fn binary(&self) -> Vec<u8> {
        let addresses = match (self.ips(), &self.source, &self.destination) {
            (Some(ips), ..) => v2::Addresses::from(ips),
            (
                None,
                Some(Peer::Unix { name: source, .. }),
                Some(Peer::Unix { name: destination, .. }),
            ) => {
                v2::Unix::new(unix_field(source.as_ref()), unix_field(destination.as_ref())).into()
            }
            _ => v2::Addresses::Unspecified,
        };
        let protocol = match addresses {
            v2::Addresses::Unspecified => v2::Protocol::Unspecified,
            _ => v2::Protocol::Stream,
        };
        // LOCAL would mean that the proxy itself connects, as for a health check.
        let command = v2::Version::Two | v2::Command::Proxy;
        // It fails only on TLVs that are too long, and there are none.
        v2::Builder::with_addresses(command, protocol, addresses).build().unwrap_or_default()
    }

    /// Parses a header at the start of `bytes`. Returns the header and its length in bytes, or
    /// `None` if more bytes are needed.
    ///
    /// # Errors
    /// [`ProxyError::Malformed`].
    pub fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, ProxyError> {
        let begins = |prefix: &[u8]| {
            let common = prefix.len().min(bytes.len());
            prefix[..common] == bytes[..common]
        };
        if begins(v2::PROTOCOL_PREFIX) {
            Self::read_binary(bytes)
        } else if begins(b"PROXY ") {
            Self::read_text(bytes)
        } else {
            Err(ProxyError::Malformed("it begins with neither version's signature".into()))
        }
    }

    fn read_text(bytes: &[u8]) -> Result<Option<(Self, usize)>, ProxyError> {
        let longest = &bytes[..bytes.len().min(V1_BYTES)];
        let Some(end) = longest.iter().position(|&byte| byte == b'\n') else {
            return match bytes.len() {
                0..V1_BYTES => Ok(None),
                _ => Err(ProxyError::Malformed(format!(
                    "its line does not end within {V1_BYTES} bytes"
                ))),
            };
        };
        let line = &bytes[..=end];
        // The crate would blame the last port.
        if !line.ends_with(b"\r\n") {
            return Err(ProxyError::Malformed("its line does not end in CR LF".into()));
        }
        // The crate accepts a port with a plus sign.
        if line.contains(&b'+') {
            return Err(ProxyError::Malformed("a port is not a number".into()));
        }
        let header = v1::Header::try_from(line).map_err(malformed)?;
        let ip = |ip: IpAddr, port| Some(Peer::from(SocketAddr::new(ip, port)));
        let (source, destination) = match header.addresses {
            v1::Addresses::Unknown => (None, None),
            v1::Addresses::Tcp4(both) => (
                ip(both.source_address.into(), both.source_port),
                ip(both.destination_address.into(), both.destination_port),
            ),
            v1::Addresses::Tcp6(both) => (
                ip(both.source_address.into(), both.source_port),
                ip(both.destination_address.into(), both.destination_port),
            ),
        };
        Ok(Some((Self { source, destination }, line.len())))
    }

    fn read_binary(bytes: &[u8]) -> Result<Option<(Self, usize)>, ProxyError> {
        let whole = v2_bytes(bytes);
        // The length field may be up to 64 KiB.
        if let Some(whole) = whole.filter(|whole| *whole > V2_BYTES) {
            return Err(ProxyError::Malformed(format!(
                "{whole} bytes, more than the {V2_BYTES} that are taken"
            )));
        }
        // The addresses of a LOCAL header are to be ignored, even their family, which the crate
        // checks.
        if bytes.get(12) == Some(&(v2::Version::Two | v2::Command::Local)) {
            let unknown = Self { source: None, destination: None };
            return Ok(whole.filter(|whole| *whole <= bytes.len()).map(|whole| (unknown, whole)));
        }
        let header = match v2::Header::try_from(bytes) {
            Ok(header) => header,
            Err(v2::ParseError::Incomplete(_) | v2::ParseError::Partial(..)) => return Ok(None),
            Err(error) => return Err(malformed(error)),
        };
        let ip = |ip: IpAddr, port| Some(Peer::from(SocketAddr::new(ip, port)));
        let unix = |field: &[u8; 108]| Some(Peer::Unix { name: unix_name(field), process: None });
        let (source, destination) = match &header.addresses {
            v2::Addresses::Unspecified => (None, None),
            v2::Addresses::IPv4(both) => (
                ip(both.source_address.into(), both.source_port),
                ip(both.destination_address.into(), both.destination_port),
            ),
            v2::Addresses::IPv6(both) => (
                ip(both.source_address.into(), both.source_port),
                ip(both.destination_address.into(), both.destination_port),
            ),
            v2::Addresses::Unix(both) => (unix(&both.source), unix(&both.destination)),
        };
        Ok(Some((Self { source, destination }, header.len())))
    }
}

fn malformed(error: impl std::fmt::Display) -> ProxyError {
    // Escaped: the message may quote the peer's bytes, and reach a terminal.
    ProxyError::Malformed(error.to_string().escape_debug().to_string())
}

/// A header has one family: if the two differ, both become IPv6.
fn of_one_family(one: SocketAddr, other: SocketAddr) -> (SocketAddr, SocketAddr) {
    let mapped = |address: SocketAddr| match address.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        IpAddr::V6(_) => address,
    };
    if one.is_ipv4() == other.is_ipv4() { (one, other) } else { (mapped(one), mapped(other)) }
}

/// As in `sun_path`: an abstract name begins with a zero byte (unix(7)).
fn unix_field(name: Option<&UnixName>) -> [u8; 108] {
    use std::os::unix::ffi::OsStrExt;
    let mut field = [0; 108];
    let (start, bytes) = match name {
        Some(UnixName::Path(path)) => (0, path.as_os_str().as_bytes()),
        Some(UnixName::Abstract(name)) => (1, name.as_slice()),
        None => (0, [].as_slice()),
    };
    let count = bytes.len().min(field.len() - start);
    field[start..start + count].copy_from_slice(&bytes[..count]);
    field
}

fn unix_name(field: &[u8; 108]) -> Option<UnixName> {
    use std::os::unix::ffi::OsStringExt;
    let (is_abstract, bytes) = match field.split_first() {
        Some((0, rest)) => (true, rest),
        _ => (false, field.as_slice()),
    };
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    match (end, is_abstract) {
        (0, _) => None,
        (_, true) => Some(UnixName::Abstract(bytes[..end].to_vec())),
        (_, false) => {
            Some(UnixName::Path(PathBuf::from(std::ffi::OsString::from_vec(bytes[..end].to_vec()))))
        }
    }
}

/// Receives the header from a connected stream socket, without the bytes after it.
///
/// The descriptor must be non-blocking and not yet registered with the runtime.
///
/// # Errors
/// [`ProxyError`], after which the connection is unusable.
pub async fn accept(socket: BorrowedFd<'_>, limit: Duration) -> Result<Header, ProxyError> {
    gush_net::within(limit, receive(socket)).await.unwrap_or(Err(ProxyError::Late(limit)))
}

async fn receive(socket: BorrowedFd<'_>) -> Result<Header, ProxyError> {
    let mut header = Vec::with_capacity(256);
    // The header has usually arrived; the socket is registered only if not.
    let mut watched = None;
    loop {
        let mut piece = [0; V1_BYTES];
        let wanted = wanted_bytes(&header).min(piece.len());
        let piece = &mut piece[..wanted];
        // Peeked at, to find the end of the line.
        let seen = match rustix::net::recv(socket, &mut *piece, RecvFlags::PEEK) {
            Ok((0, _)) => return Err(ProxyError::Ended(header.len())),
            Ok((seen, _)) => seen,
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => {
                let watched = match &mut watched {
                    Some(watched) => watched,
                    empty => empty.insert(watch(socket, Interest::READABLE)?),
                };
                let mut ready = watched.readable().await?;
                // Data may have come since.
                if matches!(
                    rustix::net::recv(socket, &mut [0_u8; 1][..], RecvFlags::PEEK),
                    Err(Errno::AGAIN)
                ) {
                    ready.clear_ready();
                }
                continue;
            }
            Err(errno) => return Err(errno.into()),
        };
        let known = header.len();
        header.extend_from_slice(&piece[..seen]);
        let answer = Header::read(&header)?;
        let length = answer.as_ref().map_or(header.len(), |(_, length)| *length);
        header.truncate(length);
        // The data after the header stays in the socket, for splice(2).
        take(socket, length - known)?;
        if let Some((header, _)) = answer {
            return Ok(header);
        }
    }
}

/// The length of a whole header of version 2, once its length field has arrived.
fn v2_bytes(header: &[u8]) -> Option<usize> {
    let length = header.get(14..V2_FIXED_BYTES)?;
    Some(V2_FIXED_BYTES + usize::from(u16::from_be_bytes([length[0], length[1]])))
}

/// How many more bytes to peek at.
fn wanted_bytes(header: &[u8]) -> usize {
    match v2_bytes(header) {
        Some(whole) if header.starts_with(v2::PROTOCOL_PREFIX) => {
            whole.saturating_sub(header.len()).max(1)
        }
        // The binary form begins with a carriage return.
        _ if header.first() == Some(&b'P') => V1_BYTES - header.len().min(V1_BYTES - 1),
        _ => V2_FIXED_BYTES.saturating_sub(header.len()).max(1),
    }
}

/// Consumes bytes that were peeked at.
fn take(socket: BorrowedFd<'_>, mut count: usize) -> Result<(), Errno> {
    let mut nowhere = [0; V1_BYTES];
    while count > 0 {
        let piece = count.min(nowhere.len());
        match rustix::net::recv(socket, &mut nowhere[..piece], RecvFlags::empty()) {
            Ok((0, _)) => return Err(Errno::CONNRESET),
            Ok((taken, _)) => count -= taken,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Sends the header over a connected stream socket, before anything else.
///
/// The descriptor must be non-blocking and not yet registered with the runtime.
///
/// # Errors
/// The error of send(2).
pub async fn send(socket: BorrowedFd<'_>, header: &Header, version: Version) -> io::Result<()> {
    let bytes = header.bytes(version);
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        match rustix::net::send(socket, rest, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(sent) => rest = &rest[sent..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                watch(socket, Interest::WRITABLE)?.writable().await?.retain_ready()
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
