//! The peer of an end.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::path::PathBuf;

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use rustix::net::{SocketAddrAny, SocketAddrUnix};

use crate::address::UnixName;

/// The peer at the other end of a conduit, as shown in logs and PROXY headers.
///
/// ```
/// use gush_link::open::Peer;
/// // A listener for both versions of the protocol sees IPv4 peers as mapped addresses.
/// let peer = Peer::from("[::ffff:192.0.2.1]:4000".parse::<std::net::SocketAddr>().unwrap());
/// assert_eq!(peer.to_string(), "192.0.2.1:4000");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Peer {
    /// A socket of the Internet.
    Ip(SocketAddr),
    /// A Unix socket.
    Unix {
        /// The name of the socket; a client seldom has one.
        name: Option<UnixName>,
        /// The process that connected or listens, if known (SO_PEERCRED, unix(7)).
        process: Option<i32>,
    },
    /// Any other peer, by the opened address.
    Other(String),
}

impl Peer {
    /// The peer's Internet address.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Ip(address) => Some(address.ip()),
            _ => None,
        }
    }

    /// The name of a Unix socket's address, if it has one.
    pub(super) fn of_name(address: &SocketAddrAny) -> Option<UnixName> {
        unix_name(&SocketAddrUnix::try_from(address.clone()).ok()?)
    }

    pub(crate) fn of_socket(address: Option<SocketAddrAny>, fd: impl AsFd) -> Self {
        if let Some(Ok(ip)) = address.clone().map(SocketAddr::try_from) {
            return Self::from(ip);
        }
        let name = address.and_then(|address| SocketAddrUnix::try_from(address).ok());
        // 0 is a process outside this PID namespace, or none.
        let process = getsockopt(&fd, PeerCredentials)
            .ok()
            .map(|credentials| credentials.pid())
            .filter(|&number| number > 0);
        Self::Unix { name: name.and_then(|name| unix_name(&name)), process }
    }
}

pub(crate) fn unix_name(address: &SocketAddrUnix) -> Option<UnixName> {
    use std::os::unix::ffi::OsStringExt;
    if let Some(name) = address.abstract_name().filter(|name| !name.is_empty()) {
        return Some(UnixName::Abstract(name.to_vec()));
    }
    let path = address.path_bytes()?;
    let path = path.split(|&byte| byte == 0).next().unwrap_or_default().to_vec();
    (!path.is_empty()).then(|| UnixName::Path(PathBuf::from(std::ffi::OsString::from_vec(path))))
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(SocketAddr::new(address.ip().to_canonical(), address.port()))
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => write!(f, "{address}"),
            Self::Unix { name: Some(name), .. } => write!(f, "unix:{name}"),
            Self::Unix { process: Some(process), .. } => write!(f, "unix (process {process})"),
            Self::Unix { .. } => f.write_str("unix"),
            Self::Other(name) => f.write_str(name),
        }
    }
}
