//! Making listeners: TCP, Unix, UDP and inherited ones.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::Path;

use gush_text::Doing;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, sockopt};

use super::connect::{
    internet_socket, keepalive_hint, set_socket, set_stream, socket, unix_address, unix_type,
};
use super::error::{OpenError, Step};
use super::keeper::Made;
use super::listener::Listener;
use super::permissions::Permissions;
use super::publish::{self, Hidden};
use super::resolve::{Lookup, resolve};
use super::{OpenOptions, Peer, datagrams, holder, inherit, multicast, sockopts};
use crate::address::{Family, Inherited, Local, Opt, OptionSet, UnixName};

/// The kernel caps it at net.core.somaxconn (listen(2)).
pub(super) const BACKLOG: u32 = 4096;

pub(crate) async fn tcp(
    local: &Local,
    options: &OptionSet,
    how: &OpenOptions,
) -> Result<Listener, OpenError> {
    if let Some(fd) = how.listener()? {
        return Listener::new(fd, options, None);
    }
    let fd = internet(local, options, SocketType::STREAM).await?;
    listen(&fd, options)?;
    Listener::new(fd, options, None)
}

pub(crate) async fn udp(local: &Local, options: &OptionSet) -> Result<Listener, OpenError> {
    Listener::new(internet(local, options, SocketType::DGRAM).await?, options, None)
}

pub(crate) async fn unix(
    name: &UnixName,
    options: &OptionSet,
    how: &OpenOptions,
) -> Result<Listener, OpenError> {
    if let Some(fd) = how.listener()? {
        let UnixName::Path(path) = name else { return Listener::new(fd, options, None) };
        let made = Made::if_removed(path, path, options);
        let made = made.step("take over")?;
        let listener = Listener::new(fd, options, made.map(Made::of_another))?;
        return Ok(listener.known_as(Peer::Unix { name: Some(name.clone()), process: None }));
    }
    let fd = socket(AddressFamily::UNIX, unix_type(options)).step("bind")?;
    set_socket(&fd, options)?;
    match name {
        UnixName::Abstract(_) => {
            let address = unix_address(name).step("bind")?;
            rustix::net::bind(&fd, &address).map_err(|errno| {
                let error = OpenError::new("bind", errno).doing(Doing::Listening);
                match errno {
                    Errno::ADDRINUSE => {
                        error.hinted("another server has this name; `ss -xlp` shows which")
                    }
                    _ => error,
                }
            })?;
            listen(&fd, options)?;
            Listener::new(fd, options, None)
        }
        UnixName::Path(path) => {
            let unlink = options.is_on(Opt::Unlink);
            publish::check(path, unlink)?;
            let made = at_path(&fd, path, options, unlink)?;
            let listener = Listener::new(fd, options, made)?;
            Ok(listener.known_as(Peer::Unix { name: Some(name.clone()), process: None }))
        }
    }
}

/// The file of a Unix socket that is bound later gets the socket's mode, less the umask (unix_bind
/// in net/unix/af_unix.c), so that it never has more than requested.
pub(super) fn set_mode(fd: &OwnedFd, mode: u32) -> Result<(), OpenError> {
    rustix::fs::fchmod(fd, Mode::from_raw_mode(mode)).step("set the mode")
}

/// A socket of packets at `path`, for this user alone; a dead one there is replaced.
pub(crate) fn private_listener(path: &Path) -> Result<(OwnedFd, Option<Made>), OpenError> {
    let fd = socket(AddressFamily::UNIX, SocketType::SEQPACKET).step("bind")?;
    publish::check(path, true)?;
    set_mode(&fd, 0o600)?;
    let made = at_path(&fd, path, &OptionSet::default(), true)?;
    Ok((fd, made))
}

/// The name of a socket that another process has made, to be removed by this one once it owns it.
pub(crate) fn keep_name(path: &Path) -> io::Result<Option<Made>> {
    Ok(Made::if_removed(path, path, &OptionSet::default())?.map(Made::of_another))
}

fn at_path(
    fd: &OwnedFd,
    path: &Path,
    options: &OptionSet,
    unlink: bool,
) -> Result<Option<Made>, OpenError> {
    let permissions = Permissions::of(options, 0o777)?;
    if let Some(mode) = permissions.mode() {
        set_mode(fd, mode)?;
    }
    let hidden = Hidden::bind(fd, path)?;
    hidden.give(&permissions)?;
    listen(fd, options)?;
    let made = Made::if_removed(path, hidden.path(), options).step("bind")?;
    hidden.publish(path, |path| publish::check(path, unlink))?;
    Ok(made)
}

/// A Unix socket where each datagram is a peer's only one.
pub(crate) fn unix_datagrams(name: &UnixName, options: &OptionSet) -> Result<Listener, OpenError> {
    let (fd, made) = datagrams::receiver(name, options)?;
    let listener = Listener::new(fd, options, made)?.of_datagrams();
    Ok(listener.known_as(Peer::Unix { name: Some(name.clone()), process: None }))
}

pub(crate) fn inherited(which: &Inherited, options: &OptionSet) -> Result<Listener, OpenError> {
    let fd = inherit::listening(which)?;
    let is_stream = sockopt::socket_type(&fd) == Ok(SocketType::STREAM);
    if !is_stream || sockopt::socket_acceptconn(&fd) != Ok(true) {
        return Err(OpenError::said(
            "take over",
            "this descriptor is not a listening stream socket",
        )
        .hinted("for one that is connected, say fd:N"));
    }
    let is_internet = sockopt::socket_domain(&fd).is_ok_and(|domain| domain != AddressFamily::UNIX);
    if !is_internet && !options.ranges().is_empty() {
        return Err(OpenError::said(
            "take over",
            "range= is for the Internet, and this is a Unix socket",
        ));
    }
    // Before listen(2): a receive buffer sets the window scale of the handshake (tcp(7)).
    set_socket(&fd, options)?;
    if is_internet {
        set_stream(&fd, options).map_err(|errno| {
            OpenError::new("take over", errno).hinted_by(keepalive_hint(errno, options))
        })?;
    }
    let flags = rustix::fs::fcntl_getfl(&fd).step("take over")?;
    let listener = Listener::new(fd, options, None)?;
    // The flag belongs to all processes that have the listener.
    Ok(if flags.contains(OFlags::NONBLOCK) { listener } else { listener.blocking() })
}

fn listen(fd: &OwnedFd, options: &OptionSet) -> Result<(), OpenError> {
    let backlog = options.count(Opt::Backlog).unwrap_or(BACKLOG);
    let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
    rustix::net::listen(fd, backlog).map_err(|errno| in_use(OpenError::new("listen", errno), fd))
}

fn in_use(error: OpenError, fd: &OwnedFd) -> OpenError {
    let local =
        rustix::net::getsockname(fd).ok().and_then(|address| SocketAddr::try_from(address).ok());
    match (error.errno(), local) {
        (Some(libc::EADDRINUSE), Some(local)) => {
            error.hinted(holder::of_port(local.port(), SocketType::STREAM))
        }
        _ => error,
    }
}

/// The first of the addresses that this machine has. If another program holds it, the next one is
/// not tried: clients would reach that program.
pub(super) async fn internet(
    local: &Local,
    options: &OptionSet,
    kind: SocketType,
) -> Result<OwnedFd, OpenError> {
    let mut failure = None;
    for address in addresses(local, kind).await? {
        match bound(address, local, options, kind) {
            Ok(fd) => {
                if kind == SocketType::DGRAM {
                    multicast::set(&fd, options)?;
                }
                return Ok(fd);
            }
            // One version of the protocol may be off.
            Err(error) if error.is_unknown_here() => failure = failure.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    Err(failure.unwrap_or_else(|| OpenError::said("resolve", "the name has no address")))
}

/// Without a host: every address of both versions, or of IPv4 alone where the machine has no other.
async fn addresses(local: &Local, kind: SocketType) -> Result<Vec<SocketAddr>, OpenError> {
    let datagrams = kind == SocketType::DGRAM;
    let name = Lookup {
        family: local.family,
        host: local.host.clone(),
        port: local.port.clone(),
        datagrams,
        local: true,
    };
    if local.host.is_some() {
        let mut found = resolve(name).await?;
        // Clients try all addresses of a name, but some take `localhost` for 127.0.0.1 only.
        found.sort_by_key(SocketAddr::is_ipv6);
        return Ok(found);
    }
    let port = match local.port.parse() {
        Ok(port) => port,
        Err(_) => resolve(name).await?.first().map_or(0, SocketAddr::port),
    };
    let (v6, v4) = (IpAddr::from(Ipv6Addr::UNSPECIFIED), IpAddr::from(Ipv4Addr::UNSPECIFIED));
    let ips = match local.family {
        // An IPv6 socket serves both versions, if the machine has IPv6.
        None => vec![v6, v4],
        Some(Family::V4) => vec![v4],
        Some(Family::V6) => vec![v6],
    };
    Ok(ips.into_iter().map(|ip| SocketAddr::new(ip, port)).collect())
}

fn bound(
    address: SocketAddr,
    local: &Local,
    options: &OptionSet,
    kind: SocketType,
) -> Result<OwnedFd, OpenError> {
    let fail = |errno| bind_failure(errno, address, options, kind);
    let fd = internet_socket(&address, kind, options)?.map_err(fail)?;
    sockopts::set(&fd, address.is_ipv4(), options)?;
    set_socket(&fd, options)?;
    let make = || {
        // On UDP any process could bind the port and take the datagrams (socket(7)).
        let reuse = options.flag(Opt::ReuseAddr).unwrap_or(kind == SocketType::STREAM);
        if reuse {
            sockopt::set_socket_reuseaddr(&fd, true)?;
        }
        if address.is_ipv6() {
            // A named address must not serve IPv4 as well.
            let only = options.is_on(Opt::Ipv6Only)
                || local.host.is_some() && !address.ip().is_unspecified();
            sockopt::set_ipv6_v6only(&fd, only)?;
        }
        if kind == SocketType::STREAM {
            // Accepted sockets inherit these options (sk_clone in net/core/sock.c).
            set_stream(&fd, options)?;
        }
        rustix::net::bind(&fd, &address)
    };
    make().map_err(fail)?;
    Ok(fd)
}

fn bind_failure(
    errno: Errno,
    address: SocketAddr,
    options: &OptionSet,
    kind: SocketType,
) -> OpenError {
    let error = OpenError::new(format!("bind to {address}"), errno)
        .hinted_by(keepalive_hint(errno, options));
    match errno {
        Errno::ADDRINUSE => error.hinted(holder::of_port(address.port(), kind)),
        _ => error.doing(Doing::Listening),
    }
}
