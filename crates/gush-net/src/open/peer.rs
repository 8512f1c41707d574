//! Who is at the other end.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::path::PathBuf;

use rustix::net::{SocketAddrAny, SocketAddrUnix, sockopt};

use crate::address::UnixName;

/// Who is at the other end of a conduit, as logs and PROXY headers tell it.
///
/// ```
/// use gush_net::open::Peer;
/// // A listener for both versions of the protocol sees IPv4 peers behind a prefix; nobody else should.
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
        /// The name that it is bound to; a client seldom has one.
        name: Option<UnixName>,
        /// The process that connected or listens, where the kernel tells (SO_PEERCRED, unix(7)).
        process: Option<i32>,
    },
    /// Anything else: the address that was opened.
    Other(String),
}

impl Peer {
    /// Its Internet address.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Ip(address) => Some(address.ip()),
            _ => None,
        }
    }

    pub(super) fn of_socket(address: Option<SocketAddrAny>, fd: impl AsFd) -> Self {
        if let Some(Ok(ip)) = address.clone().map(SocketAddr::try_from) {
            return Self::from(ip);
        }
        let name = address.and_then(|address| SocketAddrUnix::try_from(address).ok());
        let process = sockopt::socket_peercred(fd)
            .ok()
            .map(|credentials| credentials.pid.as_raw_nonzero().get());
        Self::Unix { name: name.and_then(|name| unix_name(&name)), process }
    }
}

pub(super) fn unix_name(address: &SocketAddrUnix) -> Option<UnixName> {
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
