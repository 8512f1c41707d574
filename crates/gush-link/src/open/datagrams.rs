//! Sockets of datagrams that are not connected: a receiver that restarts misses only what is sent
//! meanwhile, where a connected socket fails at the answer of its host (ECONNREFUSED, udp(7)). And
//! those that were not connected when the first datagrams came.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use gush_net::{Conduit, Facts, Layer};
use nix::sys::socket::MsgFlags;
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrAny, SocketType, recvfrom, send, sendto,
};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::time::Sleep;

use super::ancillary::{self, Fact};
use super::connect::{self, internet_socket, set_socket, socket, unix_address};
use super::error::{OpenError, Step};
use super::gate::Gate;
use super::keeper::Made;
use super::permissions::Permissions;
use super::resolve::{Lookup, resolve};
use super::throttle::Throttle;
use super::{End, Peer, listen, multicast, publish, route, sockopts};
use crate::address::{Local, Opt, OptionSet, Remote, UnixName};
use crate::watch::watch;

/// Errors of one datagram sent by UDP, which say nothing about the next. The failure is reported at
/// the end.
const PASSING: [Errno; 8] = [
    Errno::MSGSIZE,
    Errno::CONNREFUSED,
    Errno::HOSTUNREACH,
    Errno::NETUNREACH,
    Errno::NETDOWN,
    Errno::HOSTDOWN,
    Errno::NOBUFS,
    Errno::PERM,
];

/// The pause before another attempt at a Unix socket whose queue is full: there is no event for
/// when it has room, unless it is connected (unix(7)).
const FULL_PAUSE: Duration = Duration::from_millis(2);

/// Whose datagrams are read.
enum Senders {
    All,
    Only(SocketAddrAny),
    Within(Box<Gate>),
    /// The first sender of a port: what others sent before it was known is dropped.
    First(Box<First>),
}

impl Senders {
    fn admit(&mut self, sender: Option<SocketAddrAny>) -> bool {
        let peer = |sender: Option<SocketAddrAny>| {
            let sender = sender.and_then(|sender| SocketAddr::try_from(sender).ok());
            let unknown = || Peer::Other("a sender without an address".into());
            sender.map_or_else(unknown, Peer::from)
        };
        match self {
            Self::All => true,
            Self::Only(wanted) => sender.as_ref() == Some(wanted),
            Self::Within(gate) => !gate.refuses(&peer(sender)),
            Self::First(first) => first.admit(&peer(sender)),
        }
    }
}

/// What the socket holds of others than its first sender, from before it was connected.
struct First {
    peer: Peer,
    gate: Gate,
    /// Those that the gate would let in, until they are reported.
    dropped: u64,
}

impl First {
    fn admit(&mut self, sender: &Peer) -> bool {
        let is_first = *sender == self.peer;
        if !is_first && !self.gate.refuses(sender) {
            self.dropped += 1;
        }
        is_first
    }

    fn report(&mut self) {
        let count = std::mem::take(&mut self.dropped);
        let (peer, address) = (&self.peer, &self.gate.address);
        match count {
            0 => {}
            1 => tracing::warn!("{address}: a datagram dropped, which is not from {peer}"),
            _ => {
                tracing::warn!("{address}: {count} datagrams dropped, which are not from {peer}");
            }
        }
    }
}

impl Drop for First {
    fn drop(&mut self) {
        self.report();
    }
}

/// What options say of the datagrams, beyond their way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ends {
    /// Does an empty datagram end the data read?
    pub is_read: bool,
    /// Is an empty datagram sent after the data written?
    is_written: bool,
    /// Is what the kernel reports logged?
    has_facts: bool,
}

impl Ends {
    pub fn of(options: &OptionSet) -> Self {
        Self {
            is_read: options.is_on(Opt::NullEof),
            is_written: options.is_on(Opt::ShutNull),
            has_facts: options.is_on(Opt::Ancillary),
        }
    }
}

/// A socket that sends to `to`, or to the peer that it is connected to, and reads what `senders`
/// send.
struct Datagrams {
    socket: AsyncFd<OwnedFd>,
    /// Read before, until it is empty: the socket to which the first sender has written.
    earlier: Option<OwnedFd>,
    to: Option<SocketAddrAny>,
    senders: Senders,
    ends: Ends,
    /// For messages.
    peer: Peer,
    /// Of datagrams that this machine could not send.
    unsent: Arc<AtomicU64>,
    warnings: Throttle,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Datagrams {
    fn new(socket: OwnedFd, senders: Senders, peer: &Peer, ends: Ends) -> Result<Self, OpenError> {
        Ok(Self {
            socket: watch(socket, Interest::READABLE | Interest::WRITABLE).step("open")?,
            earlier: None,
            to: None,
            senders,
            ends,
            peer: peer.clone(),
            unsent: Arc::default(),
            warnings: Throttle::default(),
            pause: None,
        })
    }

    fn is_internet(&self) -> bool {
        matches!(self.peer, Peer::Ip(_))
    }

    /// Is the error that of one datagram? That of a connected socket may be the peer's.
    fn passes(&self, errno: Errno) -> bool {
        self.is_internet() && self.to.is_some() && PASSING.contains(&errno)
    }

    fn is_lost(&mut self, errno: Errno) {
        self.unsent.fetch_add(1, Ordering::Relaxed);
        if let Some(suppressed) = self.warnings.passes(Instant::now()) {
            let error = gush_text::os_text(&errno.into());
            tracing::warn!("{}: a datagram cannot be sent: {error}{suppressed}", self.peer);
        }
    }
}

impl AsyncRead for Datagrams {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            let mut ready = match &this.earlier {
                Some(_) => None,
                None => Some(ready!(this.socket.poll_read_ready(cx))?),
            };
            let socket = this.earlier.as_ref().unwrap_or(this.socket.get_ref());
            let room = buf.initialize_unfilled();
            let room_bytes = room.len();
            match received(socket, room, this.ends.has_facts) {
                Ok((_, sender, _)) if !this.senders.admit(sender.clone()) => {}
                Ok((bytes, ..)) if bytes > room_bytes => {
                    return Poll::Ready(Err(Errno::MSGSIZE.into()));
                }
                Ok((bytes, _, facts)) => {
                    facts.iter().for_each(Fact::log);
                    buf.advance(bytes);
                    return Poll::Ready(Ok(()));
                }
                Err(Errno::AGAIN) => match &mut ready {
                    Some(ready) => {
                        ready.clear_ready();
                        if let Senders::First(first) = &mut this.senders {
                            first.report();
                        }
                    }
                    None => this.earlier = None,
                },
                Err(Errno::INTR) => {}
                // A router could not forward an earlier datagram; later ones are fragmented.
                Err(Errno::MSGSIZE) => {}
                Err(Errno::CONNREFUSED) if this.to.is_some() => {}
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
        }
    }
}

impl AsyncWrite for Datagrams {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        datagram: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        loop {
            if let Some(pause) = &mut this.pause {
                ready!(pause.as_mut().poll(cx));
                this.pause = None;
            }
            let mut ready = ready!(this.socket.poll_write_ready(cx))?;
            let send = || match &this.to {
                Some(to) => sendto(ready.get_inner(), datagram, SendFlags::NOSIGNAL, to),
                None => send(ready.get_inner(), datagram, SendFlags::NOSIGNAL),
            };
            // The first EMSGSIZE of a connected socket may be about an earlier datagram.
            let sent = match send() {
                Err(Errno::MSGSIZE) if this.to.is_none() => send(),
                sent => sent,
            };
            match sent {
                Ok(bytes) => return Poll::Ready(Ok(bytes)),
                Err(Errno::AGAIN) if !this.is_internet() => {
                    this.pause = Some(Box::pin(tokio::time::sleep(FULL_PAUSE)));
                }
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                Err(errno) if this.passes(errno) => {
                    this.is_lost(errno);
                    return Poll::Ready(Ok(datagram.len()));
                }
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.ends.is_written {
            ready!(self.as_mut().poll_write(cx, &[]))?;
            self.ends.is_written = false;
        }
        Poll::Ready(Ok(()))
    }
}

/// The length of a datagram, its sender, and what the kernel reports where that `is_wanted`.
fn received(
    socket: &OwnedFd,
    room: &mut [u8],
    is_wanted: bool,
) -> Result<(usize, Option<SocketAddrAny>, Vec<Fact>), Errno> {
    // With MSG_TRUNC the result is the datagram's length, not that of the buffer.
    if !is_wanted {
        let (_, bytes, sender) = recvfrom(socket, room, RecvFlags::TRUNC)?;
        return Ok((bytes, sender, Vec::new()));
    }
    ancillary::receive(socket.as_fd(), room, MsgFlags::MSG_TRUNC, |message| {
        let sender = message.address.as_ref().and_then(route::internet);
        (message.bytes, sender.map(Into::into), ancillary::facts(message))
    })
}

impl Layer for Datagrams {
    fn facts(&self) -> Facts<'_> {
        // Of a socket that is connected, as without this layer.
        let connected = self.to.is_none().then(|| self.socket.get_ref().as_fd());
        Facts {
            error_socket: connected,
            misses_errors: connected.is_some(),
            endless: !self.ends.is_read,
            read_messages: true,
            write_messages: true,
            write_empty: !self.ends.is_written,
            hears_peer: false,
            ..Facts::over(None)
        }
    }
}

/// An end that sends: what it could not send is known after its conduit.
fn end(
    fd: OwnedFd,
    to: Option<SocketAddrAny>,
    senders: Senders,
    peer: Peer,
    options: &OptionSet,
) -> Result<End, OpenError> {
    let layer = Datagrams { to, ..Datagrams::new(fd, senders, &peer, Ends::of(options))? };
    let unsent = Arc::clone(&layer.unsent);
    let mut end = End::new(Conduit::of_layer(layer), peer);
    end.keeper.unsent = Some(unsent);
    Ok(end)
}

/// Sends to one peer, and reads what it sends.
pub(crate) async fn sendto_udp(remote: &Remote, options: &OptionSet) -> Result<End, OpenError> {
    let (fd, to) = unconnected(remote, options).await?;
    let peer = Peer::from(to);
    end(fd, Some(to.into()), Senders::Only(to.into()), peer, options)
}

/// Sends to one address, perhaps of many receivers, and reads what anyone sends.
pub(crate) async fn datagram_udp(remote: &Remote, options: &OptionSet) -> Result<End, OpenError> {
    let (fd, to) = unconnected(remote, options).await?;
    let peer = Peer::from(to);
    end(fd, Some(to.into()), Senders::Within(Box::new(Gate::of(options))), peer, options)
}

/// The conduit of a connected socket, where the options say that empty datagrams mean an end.
fn connected(fd: OwnedFd, peer: &Peer, ends: Ends) -> Result<Conduit, OpenError> {
    match ends.is_read || ends.is_written {
        true => Datagrams::new(fd, Senders::All, peer, ends).map(Conduit::of_layer),
        false => Conduit::new(fd).step("connect"),
    }
}

/// An end of [`connected`].
pub(super) fn connected_end(fd: OwnedFd, peer: Peer, ends: Ends) -> Result<End, OpenError> {
    Ok(ending(connected(fd, &peer, ends)?, peer, ends))
}

/// The first sender of a port, by the `socket` that is connected to it: what it has written
/// `earlier` to another one comes first.
pub(super) fn first_sender(
    socket: OwnedFd,
    earlier: Option<OwnedFd>,
    peer: Peer,
    gate: &Gate,
    ends: Ends,
) -> Result<End, OpenError> {
    let senders =
        Senders::First(Box::new(First { peer: peer.clone(), gate: gate.clone(), dropped: 0 }));
    let layer = Datagrams { earlier, ..Datagrams::new(socket, senders, &peer, ends)? };
    Ok(ending(Conduit::of_layer(layer), peer, ends))
}

/// An end of which the data read may end.
fn ending(conduit: Conduit, peer: Peer, ends: Ends) -> End {
    let mut end = End::new(conduit, peer);
    end.origin.is_endless = ends.is_read && !ends.is_written;
    end
}

/// Reads what anyone sends to a port.
pub(crate) async fn recv_udp(local: &Local, options: &OptionSet) -> Result<End, OpenError> {
    let fd = listen::internet(local, options, SocketType::DGRAM).await?;
    let bound = rustix::net::getsockname(&fd).ok().and_then(|name| SocketAddr::try_from(name).ok());
    let peer = bound.map_or_else(|| Peer::Other("udp-recv".into()), Peer::from);
    tracing::info!("receiving at {peer}");
    let senders = Senders::Within(Box::new(Gate::of(options)));
    let layer = Datagrams::new(fd, senders, &peer, Ends::of(options))?;
    Ok(End::new(Conduit::of_layer(layer).read_only(), peer))
}

/// A socket that may send to `remote`.
async fn unconnected(
    remote: &Remote,
    options: &OptionSet,
) -> Result<(OwnedFd, SocketAddr), OpenError> {
    let name = Lookup {
        family: remote.family,
        host: Some(remote.host.clone()),
        port: remote.port.clone(),
        datagrams: true,
        local: false,
    };
    let addresses = resolve(name).await?;
    let locals = connect::local_addresses(options, true).await?;
    let fits = |to: &&SocketAddr| {
        locals.is_empty() || locals.iter().any(|local| local.is_ipv4() == to.is_ipv4())
    };
    let Some(to) = addresses.iter().find(fits).or(addresses.first()) else {
        return Err(OpenError::said("resolve", "the name has no address"));
    };
    let fd = internet_socket(to, SocketType::DGRAM, options)?.step("open")?;
    set_socket(&fd, options)?;
    sockopts::set(&fd, to.is_ipv4(), options)?;
    multicast::set(&fd, options)?;
    connect::bind(&fd, *to, &locals, options)?;
    Ok((fd, *to))
}

/// Sends to one Unix socket, and reads what it sends to `bind=PATH`.
pub(crate) fn sendto_unix(name: &UnixName, options: &OptionSet) -> Result<End, OpenError> {
    let fd = socket(AddressFamily::UNIX, SocketType::DGRAM).step("open")?;
    set_socket(&fd, options)?;
    let made = named(&fd, options)?;
    let to = unix_address(name).step("open")?.as_any();
    let peer = Peer::Unix { name: Some(name.clone()), process: None };
    let mut end = end(fd, Some(to.clone()), Senders::Only(to), peer, options)?;
    end.keeper.keep(made.and_then(|made| made.unless_kept(options)));
    Ok(end)
}

/// Reads what anyone sends to a Unix socket.
pub(crate) fn recv_unix(name: &UnixName, options: &OptionSet) -> Result<End, OpenError> {
    let (fd, made) = receiver(name, options)?;
    let peer = Peer::Unix { name: Some(name.clone()), process: None };
    // As a descriptor: such datagrams may be longer than those of UDP, and are measured.
    let conduit = connected(fd, &peer, Ends::of(options))?.read_only();
    let mut end = End::new(conduit, peer);
    end.keeper.keep(made);
    Ok(end)
}

/// A socket of datagrams with a name.
pub(super) fn receiver(
    name: &UnixName,
    options: &OptionSet,
) -> Result<(OwnedFd, Option<Made>), OpenError> {
    let fd = socket(AddressFamily::UNIX, SocketType::DGRAM).step("bind")?;
    set_socket(&fd, options)?;
    let made = bind_unix(&fd, name, options)?;
    Ok((fd, made.and_then(|made| made.unless_kept(options))))
}

/// Binds a socket that connects, where the options say so.
pub(super) fn named(fd: &OwnedFd, options: &OptionSet) -> Result<Option<Made>, OpenError> {
    if let Some(name) = options.bind() {
        return bind_unix(fd, &UnixName::of_text(name), options);
    }
    let Some(pattern) = options.path(Opt::BindTempName) else { return Ok(None) };
    let pattern = pattern.to_string_lossy();
    loop {
        match bind_unix(fd, &UnixName::of_text(&publish::with_random_end(&pattern)), options) {
            // Others may have taken a name, but not all of so many.
            Err(error)
                if error.errno() == Some(libc::EADDRINUSE) && pattern.ends_with("XXXXXX") => {}
            answer => return answer,
        }
    }
}

/// Binds a socket at once to its name, not to a hidden one before: the peer sees it as the
/// sender's.
fn bind_unix(
    fd: &OwnedFd,
    name: &UnixName,
    options: &OptionSet,
) -> Result<Option<Made>, OpenError> {
    let UnixName::Path(path) = name else {
        rustix::net::bind(fd, &unix_address(name).step("bind")?).step("bind")?;
        return Ok(None);
    };
    let unlink = options.is_on(Opt::Unlink);
    publish::check(path, unlink)?;
    if unlink {
        // Missing, or without a process.
        let _ = std::fs::remove_file(path);
    }
    let permissions = Permissions::of(options, 0o777)?;
    if let Some(mode) = permissions.mode() {
        listen::set_mode(fd, mode)?;
    }
    rustix::net::bind(fd, &unix_address(name).step("bind")?)
        .step("bind")
        .map_err(|error| error.hinted_by(gush_text::missing_directory(path).as_deref()))?;
    permissions.give(path, FileType::Socket)?;
    Made::at(path, path).map(Some).step("bind")
}

/// The answers to the sender of a datagram.
pub(super) fn answers(
    fd: &OwnedFd,
    sender: Option<SocketAddrAny>,
    peer: &Peer,
) -> Result<Conduit, OpenError> {
    let fd = fd.as_fd().try_clone_to_owned().step("receive")?;
    let layer = Datagrams::new(fd, Senders::All, peer, Ends::default())?;
    Ok(Conduit::of_layer(Datagrams { to: sender, ..layer }).write_only())
}
