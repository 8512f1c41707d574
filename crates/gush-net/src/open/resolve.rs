//! From names to addresses of the Internet.

use std::io;
use std::net::{IpAddr, SocketAddr};

use dns_lookup::{AddrInfoHints, LookupErrorKind, getaddrinfo};

use super::error::OpenError;
use crate::address::Family;

/// What is looked up.
#[derive(Debug, Clone)]
pub(super) struct Name {
    pub family: Option<Family>,
    /// `None` is every local address.
    pub host: Option<String>,
    pub port: String,
    pub datagrams: bool,
    /// To listen there, not to connect.
    pub local: bool,
}

/// Every address of the name, in the order that the system prefers (getaddrinfo(3), gai.conf(5)).
pub(super) async fn resolve(name: Name) -> Result<Vec<SocketAddr>, OpenError> {
    if let Some(address) = literal(&name) {
        return Ok(vec![address]);
    }
    let shown = match &name.host {
        Some(host) => format!("resolve {host}"),
        None => format!("resolve port {}", name.port),
    };
    // The C library waits for the network, so it gets a thread.
    let answer = tokio::task::spawn_blocking(move || look_up(&name)).await;
    let answer =
        answer.unwrap_or_else(|stopped| Err(OpenError::said("resolve", stopped.to_string())));
    answer.map_err(|error| error.step_is(shown))
}

/// Numbers need no thread.
fn literal(name: &Name) -> Option<SocketAddr> {
    let port = name.port.parse().ok()?;
    let ip: IpAddr = name.host.as_deref()?.parse().ok()?;
    Some(SocketAddr::new(ip, port))
}

fn look_up(name: &Name) -> Result<Vec<SocketAddr>, OpenError> {
    let hints = AddrInfoHints {
        flags: if name.local { libc::AI_PASSIVE } else { 0 },
        address: match name.family {
            None => libc::AF_UNSPEC,
            Some(Family::V4) => libc::AF_INET,
            Some(Family::V6) => libc::AF_INET6,
        },
        socktype: if name.datagrams { libc::SOCK_DGRAM } else { libc::SOCK_STREAM },
        protocol: 0,
    };
    let found = getaddrinfo(name.host.as_deref(), Some(&name.port), Some(hints)).map_err(|error| {
        let kind = error.kind();
        let passes = matches!(kind, LookupErrorKind::NoName | LookupErrorKind::Again | LookupErrorKind::Fail);
        match kind {
            LookupErrorKind::NoName => OpenError::said("", "no such host is known")
                .hinted("check the spelling; the hosts of this machine are in /etc/hosts, others need a name server"),
            LookupErrorKind::Again => OpenError::said("", "the name servers do not answer")
                .hinted("check the network and /etc/resolv.conf, or write the address in numbers"),
            LookupErrorKind::Service => OpenError::said("", format!("no service is called {}", name.port))
                .hinted("write the port as a number, or add the service to /etc/services"),
            _ => OpenError::new("", io::Error::from(error)),
        }
        .passing(passes)
    })?;
    let mut addresses = Vec::new();
    for info in found.flatten() {
        if !addresses.contains(&info.sockaddr) {
            addresses.push(info.sockaddr);
        }
    }
    if addresses.is_empty() {
        return Err(OpenError::said("", "the name has no address"));
    }
    Ok(addresses)
}
