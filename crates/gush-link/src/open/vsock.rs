//! Connections between virtual machines and their host (vsock(7)).

use std::io;
use std::os::fd::OwnedFd;

use gush_net::Conduit;
use socket2::{Domain, SockAddr, Socket, Type};

use super::connect::{CONNECT_LIMIT, connected};
use super::error::OpenError;
use super::listen::BACKLOG;
use super::listener::Listener;
use super::{End, OpenOptions, Peer};
use crate::address::{Opt, OptionSet, Vsock};

fn socket() -> io::Result<Socket> {
    Socket::new(Domain::VSOCK, Type::STREAM.nonblocking().cloexec(), None)
}

fn failed(step: &str, error: io::Error) -> OpenError {
    let hint = match error.raw_os_error() {
        Some(libc::EAFNOSUPPORT) => {
            "this kernel has no vsock: load vhost_vsock on a host, vmw_vsock_virtio_transport in a guest"
        }
        Some(libc::ENODEV) => {
            "the host is CID 2, a guest has the CID that it was started with, and 1 needs the module vsock_loopback"
        }
        Some(libc::ECONNRESET) => "nothing listens on this port there",
        Some(libc::ETIMEDOUT) => "no machine of this CID answers",
        Some(libc::EADDRINUSE) => "another program has this port",
        Some(libc::EACCES) => "ports below 1024 are for root, or CAP_NET_BIND_SERVICE",
        _ => return OpenError::new(step, error),
    };
    OpenError::new(step, error).hinted(hint)
}

fn name(place: Vsock) -> Peer {
    Peer::Other(format!("vsock:{}:{}", place.cid, place.port))
}

pub(crate) async fn connect(place: Vsock, options: &OptionSet) -> Result<End, OpenError> {
    let fail = |error| failed("connect", error);
    let socket = socket().map_err(fail)?;
    let waits = match socket.connect(&SockAddr::vsock(place.cid, place.port)) {
        Ok(()) => false,
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => true,
        Err(error) => return Err(fail(error)),
    };
    let mut fd = OwnedFd::from(socket);
    if waits {
        let limit = options.duration(Opt::ConnectTimeout).unwrap_or(CONNECT_LIMIT);
        fd = connected(fd, limit).await.map_err(fail)?;
    }
    Ok(End::new(Conduit::of_stream_socket(fd), name(place)))
}

pub(crate) fn listen(
    place: Vsock,
    options: &OptionSet,
    how: &OpenOptions,
) -> Result<Listener, OpenError> {
    if let Some(fd) = how.listener()? {
        return Ok(Listener::new(fd, options, None)?.known_as(name(place)));
    }
    let backlog = options.count(Opt::Backlog).unwrap_or(BACKLOG);
    let listening = || {
        let socket = socket()?;
        socket.bind(&SockAddr::vsock(place.cid, place.port))?;
        socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
        Ok(socket)
    };
    let socket = listening().map_err(|error| failed("listen", error))?;
    Ok(Listener::new(socket.into(), options, None)?.known_as(name(place)))
}
