//! Connecting: TCP, Unix and UDP sockets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::time::Duration;

use gush_net::Conduit;
use gush_text::Doing;
use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{
    AddressFamily, Protocol, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, ipproto,
    socket_with, sockopt,
};
use tokio::io::Interest;

use super::error::{OpenError, Step};
use super::resolve::{Lookup, in_numbers, resolve};
use super::{End, Peer, datagrams, netns, race, sockopts};
use crate::address::{Bind, Opt, OptionSet, Remote, UnixName};
use crate::watch::watch;

pub(crate) async fn tcp(remote: &Remote, options: &OptionSet) -> Result<End, OpenError> {
    internet(remote, options, SocketType::STREAM).await
}

pub(crate) async fn udp(remote: &Remote, options: &OptionSet) -> Result<End, OpenError> {
    internet(remote, options, SocketType::DGRAM).await
}

pub(crate) async fn unix(name: &UnixName, options: &OptionSet) -> Result<End, OpenError> {
    unix_of(unix_type(options), name, options).await
}

pub(super) fn unix_type(options: &OptionSet) -> SocketType {
    match options.is_on(Opt::SeqPacket) {
        true => SocketType::SEQPACKET,
        false => SocketType::STREAM,
    }
}

/// A Unix socket of any type: the kernel names none before the connection.
pub(crate) async fn unix_client(name: &UnixName, options: &OptionSet) -> Result<End, OpenError> {
    for kind in [SocketType::STREAM, SocketType::SEQPACKET] {
        match unix_of(kind, name, options).await {
            Err(error) if error.errno() == Some(libc::EPROTOTYPE) => {}
            // Abstract names are looked up by type, and another is like none (unix_find_abstract in
            // net/unix/af_unix.c).
            Err(error) if error.errno() == Some(libc::ECONNREFUSED) && is_abstract(name) => {
                if kind == SocketType::SEQPACKET && !has_datagrams(name) {
                    return Err(error);
                }
            }
            answer => return answer,
        }
    }
    datagrams::sendto_unix(name, options)
}

fn is_abstract(name: &UnixName) -> bool {
    matches!(name, UnixName::Abstract(_))
}

/// Is there a socket of datagrams with this name?
fn has_datagrams(name: &UnixName) -> bool {
    let probe = || {
        let socket = socket(AddressFamily::UNIX, SocketType::DGRAM)?;
        rustix::net::connect(&socket, &unix_address(name)?)
    };
    probe().is_ok()
}

async fn unix_of(kind: SocketType, name: &UnixName, options: &OptionSet) -> Result<End, OpenError> {
    let retried = options.has(Opt::Retry);
    let fail = |error: io::Error| {
        let hint = match error.raw_os_error() {
            // An abstract name exists only while a server listens (unix(7)).
            Some(libc::ECONNREFUSED) if is_abstract(name) => None,
            Some(libc::ECONNREFUSED) if is_directory(name) => {
                Some("this is a directory; name the socket in it")
            }
            Some(libc::ECONNREFUSED) if is_no_socket(name) => {
                Some("this is not a socket; for a file or device, use file:PATH")
            }
            Some(libc::ECONNREFUSED) => Some("the socket has no listener; start the server"),
            Some(libc::ENOENT) if retried => Some("start the server first"),
            Some(libc::ENOENT) => Some("start the server first, or wait for it with retry=N"),
            Some(libc::EACCES) => Some("connecting needs permission to write to the socket"),
            Some(libc::EPROTOTYPE) => {
                Some("it is a socket of datagrams or packets: unix-client connects to any")
            }
            Some(libc::EAGAIN) if retried => {
                Some("its queue is full: the server accepts too slowly")
            }
            Some(libc::EAGAIN) => {
                Some("its queue is full: the server accepts too slowly; wait with retry=N")
            }
            _ => None,
        };
        let by_errno = self::hint(&error, retried);
        // A server changes the mode of its socket after it has bound it.
        let is_denied = error.raw_os_error() == Some(libc::EACCES);
        let error = OpenError::new("connect", error);
        let passes = is_denied || error.passes();
        error.passing(passes).hinted_by(hint.or(by_errno.as_deref()))
    };
    let address = unix_address(name).map_err(|errno| fail(errno.into()))?;
    let fd = socket(AddressFamily::UNIX, kind).map_err(|errno| fail(errno.into()))?;
    set_socket(&fd, options)?;
    let named = datagrams::named(&fd, options)?;
    let fd =
        connect_queued(fd, &address, options.duration(Opt::ConnectTimeout)).await.map_err(fail)?;
    let peer = Peer::of_socket(Some(address.as_any()), &fd);
    let conduit = Conduit::new(fd).step("connect")?;
    let mut end = End::new(conduit, peer);
    end.keeper.keep(named.and_then(|made| made.unless_kept(options)));
    Ok(end)
}

/// Connecting to a file is refused as connecting to a dead socket is (connect(2)).
fn is_no_socket(name: &UnixName) -> bool {
    let UnixName::Path(path) = name else { return false };
    path.metadata().is_ok_and(|found| !found.file_type().is_socket())
}

fn is_directory(name: &UnixName) -> bool {
    matches!(name, UnixName::Path(path) if path.is_dir())
}

pub(crate) fn unix_address(name: &UnixName) -> Result<SocketAddrUnix, Errno> {
    match name {
        UnixName::Path(path) => SocketAddrUnix::new(path),
        UnixName::Abstract(name) => SocketAddrUnix::new_abstract_name(name),
    }
}

/// The address of the host that answers first.
async fn internet(
    remote: &Remote,
    options: &OptionSet,
    kind: SocketType,
) -> Result<End, OpenError> {
    let datagrams = kind == SocketType::DGRAM;
    if let Some(address) = in_numbers(&remote.host, &remote.port) {
        let locals = local_addresses(options, datagrams).await?;
        return one(address, &locals, options, kind).await;
    }
    let name = Lookup {
        family: remote.family,
        host: Some(remote.host.clone()),
        port: remote.port.clone(),
        datagrams,
        local: false,
    };
    let addresses = resolve(name).await?;
    let locals = local_addresses(options, datagrams).await?;
    let preferred = options.preferred();
    // Two sockets cannot have one port.
    let may_overlap = preferred.is_none() && locals.iter().all(|local| local.port() == 0);
    let attempts = race::in_order(addresses, preferred).into_iter().map(|address| {
        let locals = &locals;
        Box::pin(async move { one(address, locals, options, kind).await }) as _
    });
    race::first(attempts, may_overlap).await.map_err(|failures| {
        let failure = failures.into_iter().fold(None, |before, error| Some(joined(before, error)));
        failure.unwrap_or_else(|| OpenError::said("resolve", "the name has no address"))
    })
}

/// Adds the failure of an earlier address.
fn joined(before: Option<OpenError>, error: OpenError) -> OpenError {
    match before {
        Some(before) => {
            let why = before.io_error().map(ToString::to_string).unwrap_or_default();
            let passes = before.passes() || error.passes();
            let step = format!("{}: {why}; {}", before.step(), error.step());
            error.step_is(step).passing(passes)
        }
        None => error,
    }
}

pub(super) async fn local_addresses(
    options: &OptionSet,
    datagrams: bool,
) -> Result<Vec<SocketAddr>, OpenError> {
    let Some(text) = options.bind() else {
        return Ok(Vec::new());
    };
    let Bind { host, port } = Bind::read(text).map_err(|why| OpenError::said("bind", why))?;
    let port = port.unwrap_or_else(|| "0".to_owned());
    let any = host.is_none();
    let mut found = resolve(Lookup { family: None, host, port, datagrams, local: true }).await?;
    // A port alone: the version of the other end decides which of the two is used.
    if any {
        found.sort_by_key(SocketAddr::is_ipv4);
    }
    Ok(found)
}

/// Connects to one address.
async fn one(
    address: SocketAddr,
    locals: &[SocketAddr],
    options: &OptionSet,
    kind: SocketType,
) -> Result<End, OpenError> {
    let fail = |errno: Errno| failure(address, errno.into(), options);
    // After a failed connect(2) the state of a socket is unspecified (connect(2)).
    let mut fd = internet_socket(&address, kind, options)?.map_err(fail)?;
    set_socket(&fd, options)?;
    if kind == SocketType::STREAM {
        set_stream(&fd, options)
            .map_err(|errno| fail(errno).hinted_by(keepalive_hint(errno, options)))?;
    }
    sockopts::set(&fd, address.is_ipv4(), options)?;
    bind(&fd, address, locals, options)?;
    if !begin_connect(&fd, &address).map_err(fail)? {
        let limit = options.duration(Opt::ConnectTimeout).unwrap_or(CONNECT_LIMIT);
        fd = connected(fd, limit).await.map_err(|error| failure(address, error, options))?;
    }
    // Unless the user wants it.
    if !locals.contains(&address) {
        not_to_itself(&fd).map_err(fail)?;
    }
    let peer = Peer::from(address);
    match kind {
        SocketType::STREAM => Ok(End::new(Conduit::of_connected_tcp(fd), peer)),
        _ => datagrams::connected_end(fd, peer, datagrams::Ends::of(options)),
    }
}

fn failure(address: SocketAddr, error: io::Error, options: &OptionSet) -> OpenError {
    let hint = hint(&error, options.has(Opt::Retry));
    OpenError::new(format!("connect to {address}"), error).hinted_by(hint.as_deref())
}

/// Binds the socket, if the options say so: to one of `locals`, and to a port that only root may
/// have.
pub(super) fn bind(
    fd: &OwnedFd,
    to: SocketAddr,
    locals: &[SocketAddr],
    options: &OptionSet,
) -> Result<(), OpenError> {
    let is_low = options.is_on(Opt::LowPort);
    let any: IpAddr = match to.is_ipv4() {
        true => Ipv4Addr::UNSPECIFIED.into(),
        false => Ipv6Addr::UNSPECIFIED.into(),
    };
    let mut local = match locals.iter().find(|local| local.is_ipv4() == to.is_ipv4()) {
        Some(local) => *local,
        None if locals.is_empty() && is_low => SocketAddr::new(any, 0),
        None if locals.is_empty() => return Ok(()),
        None => {
            let why = format!(
                "{to} cannot be reached from {}, which is of another version of the protocol",
                locals[0]
            );
            return Err(OpenError::said("bind", why));
        }
    };
    let fail = |local: SocketAddr| {
        move |errno: Errno| {
            OpenError::new(format!("bind to {local}"), errno).doing(Doing::Listening)
        }
    };
    if options.is_on(Opt::ReuseAddr) {
        sockopt::set_socket_reuseaddr(fd, true).map_err(fail(local))?;
    }
    let ports = if is_low && local.port() == 0 { LOW_PORTS } else { local.port()..=local.port() };
    let mut answer = Ok(());
    // From the last one, as by rresvport(3).
    for port in ports.rev() {
        local.set_port(port);
        answer = rustix::net::bind(fd, &local);
        if answer != Err(Errno::ADDRINUSE) {
            break;
        }
    }
    answer.map_err(fail(local))
}

/// Ports that only root binds, and that no service has (rresvport(3)).
const LOW_PORTS: RangeInclusive<u16> = 640..=1023;

/// The remedy. A user that has `retried` is not advised to retry.
fn hint(error: &io::Error, retried: bool) -> Option<String> {
    let errno = Errno::from_io_error(error)?;
    let remedy = gush_text::remedy(Doing::Connecting, errno)?;
    let wait = match errno {
        _ if retried => "",
        Errno::CONNREFUSED | Errno::NETUNREACH => ", or wait for it with retry=N",
        Errno::HOSTUNREACH => "; retry=N waits for it",
        _ => "",
    };
    Some(format!("{remedy}{wait}"))
}

/// The limits of options that the kernel refuses (tcp_sock_set_keepidle_locked in net/ipv4/tcp.c).
pub(crate) fn keepalive_hint(errno: Errno, options: &OptionSet) -> Option<&'static str> {
    let probes = [Opt::KeepIdle, Opt::KeepInterval, Opt::KeepCount, Opt::UserTimeout];
    let is_it = errno == Errno::INVAL && probes.iter().any(|&option| options.has(option));
    is_it.then_some(
        "keepidle and keepintvl go from 1 s to 32767 s, keepcnt to 127, user-timeout to 24 days",
    )
}

pub(crate) fn socket(family: AddressFamily, kind: SocketType) -> Result<OwnedFd, Errno> {
    socket_of(family, kind, None)
}

fn socket_of(
    family: AddressFamily,
    kind: SocketType,
    protocol: Option<Protocol>,
) -> Result<OwnedFd, Errno> {
    socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, protocol)
}

/// A socket of the version of IP of `address`, with the protocol and in the namespace that the
/// options say.
pub(super) fn internet_socket(
    address: &SocketAddr,
    kind: SocketType,
    options: &OptionSet,
) -> Result<Result<OwnedFd, Errno>, OpenError> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let make = || socket_of(family, kind, options.is_on(Opt::UdpLite).then_some(ipproto::UDPLITE));
    match options.text(Opt::NetNs) {
        Some(name) => netns::within(name, make),
        None => Ok(make()),
    }
}

/// A socket of datagrams with the protocol of `other`, of the version of IP of `address`.
pub(super) fn socket_like(other: impl AsFd, address: &SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    socket_of(family, SocketType::DGRAM, sockopt::socket_protocol(other)?)
}

/// Sets what every socket has: buffers, and options by their numbers.
pub(crate) fn set_socket(fd: &OwnedFd, options: &OptionSet) -> Result<(), OpenError> {
    let failed = |what: String| move |errno: Errno| OpenError::new(format!("set {what}"), errno);
    type Set = fn(&OwnedFd, usize) -> Result<(), Errno>;
    let buffers: [(Opt, Set); 2] = [
        (Opt::SendBuffer, |fd, bytes| sockopt::set_socket_send_buffer_size(fd, bytes)),
        (Opt::ReceiveBuffer, |fd, bytes| sockopt::set_socket_recv_buffer_size(fd, bytes)),
    ];
    for (option, set) in buffers {
        let Some(bytes) = options.size_bytes(option) else { continue };
        // An int for the kernel, which caps it at net.core.wmem_max or rmem_max (socket(7)).
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(i32::MAX as usize);
        set(fd, bytes).map_err(failed(option.name().to_owned()))?;
    }
    options.socket_options().iter().try_for_each(|one| {
        let set = gush::set_socket_option(fd, one.level, one.name, &one.value);
        set.map_err(|errno| {
            let remedy = sockopts::remedy(Opt::SocketOption, errno);
            failed(format!("setsockopt={one}"))(errno).hinted_by(remedy)
        })
    })
}

pub(crate) fn set_stream(fd: &OwnedFd, options: &OptionSet) -> Result<(), Errno> {
    // On by default: Nagle's algorithm would delay every message once more.
    if options.flag(Opt::NoDelay) != Some(false) {
        sockopt::set_tcp_nodelay(fd, true)?;
    }
    let probes = [Opt::KeepIdle, Opt::KeepInterval, Opt::KeepCount];
    // An interval implies keepalive.
    let said = probes.iter().any(|&option| options.has(option)).then_some(true);
    if let Some(on) = options.flag(Opt::KeepAlive).or(said) {
        sockopt::set_socket_keepalive(fd, on)?;
    }
    if let Some(idle) = options.duration(Opt::KeepIdle) {
        sockopt::set_tcp_keepidle(fd, idle)?;
    }
    if let Some(interval) = options.duration(Opt::KeepInterval) {
        sockopt::set_tcp_keepintvl(fd, interval)?;
    }
    if let Some(count) = options.count(Opt::KeepCount) {
        sockopt::set_tcp_keepcnt(fd, count)?;
    }
    if let Some(timeout) = options.duration(Opt::UserTimeout) {
        let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(fd, timeout_ms)?;
    }
    Ok(())
}

/// The limit on waiting for a Unix server with a full queue, unless `connect-timeout=` sets
/// another.
const QUEUE_LIMIT: Duration = Duration::from_secs(30);

/// The limit on a host's answer, unless `connect-timeout=` sets another. The kernel's is two
/// minutes.
pub(super) const CONNECT_LIMIT: Duration = Duration::from_secs(30);

async fn connect_queued(
    fd: OwnedFd,
    to: &SocketAddrUnix,
    limit: Option<Duration>,
) -> io::Result<OwnedFd> {
    let give_up = tokio::time::Instant::now() + limit.unwrap_or(QUEUE_LIMIT);
    let mut pause = Duration::from_millis(1);
    loop {
        match rustix::net::connect(&fd, to) {
            // The queue is full, and there is no event for when it has room (unix(7)).
            Err(Errno::AGAIN) if tokio::time::Instant::now() < give_up => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_millis(50));
            }
            Err(Errno::INTR) => {}
            answer => return answer.map(|()| fd).map_err(io::Error::from),
        }
    }
}

/// Starts to connect. Is the connection established already?
fn begin_connect(fd: &OwnedFd, to: &impl SocketAddrArg) -> Result<bool, Errno> {
    let connect = || rustix::net::connect(fd, to);
    let answer = match connect() {
        // Within this machine a second call returns the result (`__inet_stream_connect` of
        // net/ipv4/af_inet.c).
        Err(Errno::INPROGRESS | Errno::INTR) => connect(),
        answer => answer,
    };
    match answer {
        Ok(()) => Ok(true),
        Err(Errno::ALREADY | Errno::INPROGRESS | Errno::INTR) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Waits until a connection in progress is established. The descriptor is registered with the
/// runtime only meanwhile.
pub(super) async fn connected(fd: OwnedFd, limit: Duration) -> io::Result<OwnedFd> {
    if !is_writable(&fd)? {
        let waiting = watch(fd.as_fd(), Interest::WRITABLE)?;
        match gush_net::within(limit, waiting.writable()).await {
            Ok(ready) => ready?.retain_ready(),
            Err(_) => return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT)),
        }
    }
    // Writable means finished, and SO_ERROR is the result (connect(2), EINPROGRESS).
    sockopt::socket_error(&fd)??;
    Ok(fd)
}

/// Refuses a socket that is connected to itself, because the kernel has chosen the target's port as
/// the local one (simultaneous open, RFC 9293, 3.5).
fn not_to_itself(fd: &OwnedFd) -> Result<(), Errno> {
    let internet = |address: Option<SocketAddrAny>| SocketAddr::try_from(address?).ok();
    let local = internet(rustix::net::getsockname(fd).ok());
    if local.is_none() || local != internet(rustix::net::getpeername(fd).ok().flatten()) {
        return Ok(());
    }
    // Reset, so that no TIME-WAIT keeps the port from a server that starts now.
    let _ = sockopt::set_socket_linger(fd, Some(Duration::ZERO));
    Err(Errno::CONNREFUSED)
}

fn is_writable(fd: &OwnedFd) -> io::Result<bool> {
    Ok(!gush::poll_now(fd, rustix::event::PollFlags::OUT)?.is_empty())
}
