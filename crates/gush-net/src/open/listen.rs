//! Making listeners: TCP, Unix, UDP and inherited ones.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, sockopt};

use super::connect::{set_buffers, set_stream, socket, unix_address};
use super::error::OpenError;
use super::keeper::Made;
use super::listener::Listener;
use super::resolve::{Name, resolve};
use super::{holder, inherit};
use crate::address::{Family, Inherited, Local, Opt, Options, UnixName};

/// What the kernel caps at net.core.somaxconn (listen(2)): as many as it allows.
const BACKLOG: u32 = 4096;

pub(super) async fn tcp(local: &Local, options: &Options) -> Result<Listener, OpenError> {
    let fd = internet(local, options, SocketType::STREAM).await?;
    listen(&fd, options)?;
    Listener::new(fd, options, None)
}

pub(super) async fn udp(local: &Local, options: &Options) -> Result<Listener, OpenError> {
    Listener::new(internet(local, options, SocketType::DGRAM).await?, options, None)
}

pub(super) async fn unix(name: &UnixName, options: &Options) -> Result<Listener, OpenError> {
    let fd = socket(AddressFamily::UNIX, SocketType::STREAM)
        .map_err(|errno| OpenError::new("bind", errno))?;
    set_buffers(&fd, options).map_err(|errno| OpenError::new("bind", errno))?;
    if let (UnixName::Path(_), Some(mode)) = (name, options.mode()) {
        // The file takes the permissions of its socket, less the umask (unix_bind in net/unix/af_unix.c): it never
        // has more than asked for, not even for a moment.
        rustix::fs::fchmod(&fd, Mode::from_raw_mode(mode))
            .map_err(|errno| OpenError::new("set the mode", errno))?;
    }
    bind_unix(&fd, name, options)?;
    let made = match name {
        UnixName::Path(path) => {
            if let Some(mode) = options.mode() {
                widen(path, mode).map_err(|error| OpenError::new("set the mode", error))?;
            }
            Made::if_removed(path, options).map_err(|error| OpenError::new("bind", error))?
        }
        UnixName::Abstract(_) => None,
    };
    listen(&fd, options)?;
    Listener::new(fd, options, made)
}

pub(super) fn inherited(which: &Inherited, options: &Options) -> Result<Listener, OpenError> {
    let fd = inherit::listening(which)?;
    let is_stream = sockopt::socket_type(&fd) == Ok(SocketType::STREAM);
    if !is_stream || sockopt::socket_acceptconn(&fd) != Ok(true) {
        return Err(OpenError::said("take over", "this descriptor is no listening stream socket")
            .hinted("for one that is connected, say fd:N"));
    }
    let is_internet = sockopt::socket_domain(&fd).is_ok_and(|domain| domain != AddressFamily::UNIX);
    if !is_internet && !options.ranges().is_empty() {
        return Err(OpenError::said(
            "take over",
            "range= is for the Internet, and this is a Unix socket",
        ));
    }
    let set = || {
        set_buffers(&fd, options)?;
        if is_internet { set_stream(&fd, options) } else { Ok(()) }
    };
    set().map_err(|errno| OpenError::new("take over", errno))?;
    rustix::io::ioctl_fionbio(&fd, true).map_err(|errno| OpenError::new("take over", errno))?;
    Listener::new(fd, options, None)
}

fn listen(fd: &OwnedFd, options: &Options) -> Result<(), OpenError> {
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

/// The first of the addresses that can be bound.
async fn internet(
    local: &Local,
    options: &Options,
    kind: SocketType,
) -> Result<OwnedFd, OpenError> {
    let mut failure = None;
    for address in addresses(local, kind).await? {
        match bound(address, local, options, kind) {
            Ok(fd) => return Ok(fd),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    Err(failure.unwrap_or_else(|| OpenError::said("resolve", "the name has no address")))
}

/// Without a host: every address of both versions, or of IPv4 alone where the machine has no other.
async fn addresses(local: &Local, kind: SocketType) -> Result<Vec<SocketAddr>, OpenError> {
    let datagrams = kind == SocketType::DGRAM;
    let name = Name {
        family: local.family,
        host: local.host.clone(),
        port: local.port.clone(),
        datagrams,
        local: true,
    };
    if local.host.is_some() {
        let mut found = resolve(name).await?;
        // A client of a name tries all its addresses, but `localhost` alone is often meant as 127.0.0.1.
        found.sort_by_key(SocketAddr::is_ipv6);
        return Ok(found);
    }
    let port = match local.port.parse() {
        Ok(port) => port,
        Err(_) => resolve(name).await?.first().map_or(0, SocketAddr::port),
    };
    let (v6, v4) = (IpAddr::from(Ipv6Addr::UNSPECIFIED), IpAddr::from(Ipv4Addr::UNSPECIFIED));
    let ips = match local.family {
        None => vec![v6, v4],
        Some(Family::V4) => vec![v4],
        Some(Family::V6) => vec![v6],
    };
    Ok(ips.into_iter().map(|ip| SocketAddr::new(ip, port)).collect())
}

fn bound(
    address: SocketAddr,
    local: &Local,
    options: &Options,
    kind: SocketType,
) -> Result<OwnedFd, OpenError> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let make = || {
        let fd = socket(family, kind)?;
        if options.flag(Opt::ReuseAddr) != Some(false) {
            sockopt::set_socket_reuseaddr(&fd, true)?;
        }
        if address.is_ipv6() {
            let only = options.is_on(Opt::Ipv6Only)
                || local.host.is_some() && !address.ip().is_unspecified();
            sockopt::set_ipv6_v6only(&fd, only)?;
        }
        set_buffers(&fd, options)?;
        if kind == SocketType::STREAM {
            // Accepted sockets are copies of the listener, these options included (sk_clone in net/core/sock.c).
            set_stream(&fd, options)?;
        }
        rustix::net::bind(&fd, &address)?;
        Ok(fd)
    };
    make().map_err(|errno: Errno| {
        let error = OpenError::new(format!("bind to {address}"), errno);
        match errno {
            Errno::ADDRINUSE => error.hinted(holder::of_port(address.port(), kind)),
            Errno::ACCESS => error.hinted(
                "ports below 1024 are for root, or CAP_NET_BIND_SERVICE; \
                 net.ipv4.ip_unprivileged_port_start says where others begin",
            ),
            Errno::ADDRNOTAVAIL => {
                error.hinted("this machine has no such address; `ip address` shows those it has")
            }
            _ => error,
        }
    })
}

fn bind_unix(fd: &OwnedFd, name: &UnixName, options: &Options) -> Result<(), OpenError> {
    let address = unix_address(name).map_err(|errno| OpenError::new("bind", errno))?;
    match (rustix::net::bind(fd, &address), name) {
        (Ok(()), _) => Ok(()),
        (Err(Errno::ADDRINUSE), UnixName::Path(path)) => {
            make_room(path, options)?;
            rustix::net::bind(fd, &address).map_err(|errno| OpenError::new("bind", errno))
        }
        (Err(errno @ Errno::ADDRINUSE), UnixName::Abstract(_)) => {
            Err(OpenError::new("bind", errno)
                .hinted("another server has this name; `ss -xlp` shows which"))
        }
        (Err(Errno::NOENT), UnixName::Path(path)) => Err(OpenError::new("bind", Errno::NOENT)
            .hinted(format!(
                "make the directory {} first",
                path.parent().unwrap_or(path).display()
            ))),
        (Err(errno @ (Errno::ACCESS | Errno::ROFS)), _) => {
            Err(OpenError::new("bind", errno).hinted("the directory must be writable to this user"))
        }
        (Err(errno), _) => Err(OpenError::new("bind", errno)),
    }
}

/// Removes a socket that nobody listens on, if the user allows that.
fn make_room(path: &Path, options: &Options) -> Result<(), OpenError> {
    let in_use = || OpenError::new("bind", Errno::ADDRINUSE);
    if !path.symlink_metadata().is_ok_and(|what| what.file_type().is_socket()) {
        return Err(in_use()
            .passing(false)
            .hinted("something that is no socket has this name; choose another"));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(server) => {
            let process = sockopt::socket_peercred(&server)
                .ok()
                .map(|found| found.pid.as_raw_nonzero().get());
            Err(in_use().hinted(format!("a live server answers there: {}", holder::named(process))))
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            if !options.is_on(Opt::Unlink) {
                return Err(in_use()
                    .hinted("nobody listens there any more: remove the file, or say unlink"));
            }
            std::fs::remove_file(path)
                .map_err(|error| OpenError::new("remove the stale socket", error))
        }
        Err(error) => {
            Err(in_use().hinted(format!("whether a server answers there is not known: {error}")))
        }
    }
}

/// Gives back what the umask took from the mode, before anybody can connect.
fn widen(path: &Path, mode: u32) -> io::Result<()> {
    let what = path.symlink_metadata()?;
    if what.mode() & 0o7777 == mode || !what.file_type().is_socket() {
        return Ok(());
    }
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))
}
