//! The environment of a program: the variables of its client.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv6Addr};
use std::os::unix::ffi::OsStringExt;
use std::process::Command;

use super::{Client, Peer, ancillary};
use crate::address::UnixName;
use crate::tls;

/// Variables of the service manager for this process only (sd_listen_fds(3)).
const NOT_FOR_CHILDREN: [&str; 3] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];

/// The version of socat whose variables programs get, and whose command line is understood.
pub const SOCAT_VERSION: &str = "1.8.0.3";

/// The names of the variables that programs get for some clients: the fields of a certificate, and
/// what `ancillary` reports of a datagram.
///
/// ```
/// assert!(gush_link::open::variables_of_some().any(|name| name == "SOCAT_IP_TTL"));
/// ```
pub fn variables_of_some() -> impl Iterator<Item = String> {
    let certificate = tls::variables(None).into_iter().map(|(name, _)| name);
    certificate.chain(ancillary::VARIABLES.map(str::to_owned))
}

/// Sets the variables that socat sets: under socat's names in socat's form, and without the prefix
/// as they are.
pub(super) fn set(command: &mut Command, client: Option<&Client>, is_once: bool) {
    for variable in NOT_FOR_CHILDREN {
        command.env_remove(variable);
    }
    let own = std::process::id().to_string();
    command.env("SOCAT_VERSION", SOCAT_VERSION).env("SOCAT_PPID", &own);
    // socat has a process for each client, whose number names files and ends that client alone.
    match is_once {
        true => command.env("SOCAT_PID", own),
        false => command.env_remove("SOCAT_PID"),
    };
    let Some(Client { peer, local, is_mapped, agreed, facts }) = client else { return };
    let mut set = |name: String, value: Option<OsString>| {
        // An inherited one is another client's.
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    };
    for (name, value) in tls::variables(agreed.as_ref()) {
        // A certificate may hold any byte, and no variable a zero.
        set(name, value.filter(|value| !value.contains('\0')).map(Into::into));
    }
    for name in ancillary::VARIABLES {
        let fact = facts.iter().find(|fact| fact.variable == name);
        set(name.to_owned(), fact.map(|fact| fact.value.clone().into()));
    }
    let seen = |ip| match ip {
        IpAddr::V4(ip) if *is_mapped => ip.to_ipv6_mapped().into(),
        ip => ip,
    };
    for (start, of) in [("PEER", Some(peer)), ("SOCK", local.as_ref())] {
        let ip = of.and_then(Peer::ip);
        let own = ip.map(|ip| ip.to_string().into());
        set(format!("{start}ADDR"), own.or_else(|| unix_name(of?, "@")));
        let socats = match of {
            Some(Peer::Unix { name: None, .. }) => Some("<anon>".into()),
            _ => ip.map(|ip| as_socat(seen(ip)).into()).or_else(|| unix_name(of?, "\\0")),
        };
        set(format!("SOCAT_{start}ADDR"), socats);
        for prefix in ["", "SOCAT_"] {
            let port = match of {
                Some(Peer::Ip(address)) => Some(address.port().to_string().into()),
                _ => None,
            };
            set(format!("{prefix}{start}PORT"), port);
        }
    }
}

/// All eight groups of IPv6 in brackets (sockaddr_inet6_info in socat's sysutils.c).
pub(super) fn as_socat(ip: IpAddr) -> String {
    let groups = |ip: Ipv6Addr| ip.segments().map(|group| format!("{group:04x}")).join(":");
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{}]", groups(ip)),
    }
}

/// The name of a Unix socket; `abstract_start` begins one outside of the file system.
fn unix_name(peer: &Peer, abstract_start: &str) -> Option<OsString> {
    match peer {
        Peer::Unix { name: Some(UnixName::Path(path)), .. } => Some(path.clone().into()),
        Peer::Unix { name: Some(UnixName::Abstract(name)), .. } => {
            // No variable holds a zero byte.
            let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
            Some(OsString::from_vec([abstract_start.as_bytes(), name].concat()))
        }
        _ => None,
    }
}
