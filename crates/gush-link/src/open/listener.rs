//! Accepts peers: clients of a stream, or the senders of datagrams.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gush_net::Conduit;
use nix::sys::socket::MsgFlags;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrAny, SocketFlags, SocketType, ipproto,
    socketpair, sockopt,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::JoinHandle;

use super::End;
use super::descriptors::{
    SPARE, WANTING, descriptor_limit, pause_after, until_free, wait_for_room,
};
use super::error::OpenError;
use super::flows::{self, DATAGRAM_BYTES, Flows};
use super::gate::{Gate, ListenerCounts};
use super::keeper::Made;
use super::peer::Peer;
use super::route::Route;
use crate::address::{Opt, Options};
use crate::tls::Tls;
use crate::watch::watch;

/// A socket that waits for peers.
///
/// It may be made outside a runtime, and registers with the tokio runtime that first accepts. A dropped
/// listener removes the Unix socket made for it.
#[derive(Debug)]
pub struct Listener {
    /// Held only to be dropped, and first: a name in the file system always has a server.
    _made: Option<Made>,
    socket: Socket,
    kind: SocketType,
    /// An inherited socket of streams may be one of SCTP, say.
    is_tcp: bool,
    /// Do clients inherit from an inherited socket that close(2) waits, or resets the connection (SO_LINGER, socket(7))?
    lingers: bool,
    /// Has the socket no O_NONBLOCK? It is another process's then, whose flags are not changed.
    is_blocking: bool,
    /// An accept4(2) under way on a thread that may wait, of a blocking socket.
    accepting: Option<JoinHandle<Accepted>>,
    gate: Gate,
    /// The limit of descriptors, if nobody in this process changes the limit.
    limit: Option<u64>,
    /// Is every sender of datagrams a peer of its own?
    has_flows: bool,
    /// Is every datagram the beginning and the end of a peer's data?
    has_single_datagrams: bool,
    /// Are places short for want of descriptors?
    short: Arc<AtomicBool>,
    /// The name that clients know, if the socket has another one.
    name: Option<Peer>,
    /// What each client has to agree on with us.
    handshake: Option<Arc<Tls>>,
    /// An accepted client that waits for room.
    waiting: Option<(OwnedFd, Peer)>,
}

/// accept4(2) sets both at once: a program started in between inherits nothing.
const ACCEPTED: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

type Accepted = Result<(OwnedFd, Option<SocketAddrAny>), Errno>;

#[derive(Debug)]
enum Socket {
    Waiting(OwnedFd),
    Registered(AsyncFd<OwnedFd>),
    /// Each sender is a peer.
    Sorted(Flows),
    /// The UDP socket belongs to the first peer now.
    Given,
}

impl Socket {
    /// The socket, registered with the runtime that accepts.
    fn registered(&mut self) -> Result<&AsyncFd<OwnedFd>, OpenError> {
        *self = match std::mem::replace(self, Socket::Given) {
            // Registered as late as this, since the listener may have been made outside a runtime.
            Socket::Waiting(fd) => watch(fd, Interest::READABLE)
                .map(Socket::Registered)
                .map_err(|error| OpenError::new("accept", error))?,
            socket => socket,
        };
        match self {
            Socket::Registered(fd) => Ok(fd),
            _ => Err(OpenError::said("accept", "this UDP socket has its peer already")),
        }
    }
}

impl Listener {
    pub(crate) fn new(
        fd: OwnedFd,
        options: &Options,
        made: Option<Made>,
    ) -> Result<Self, OpenError> {
        // An inherited socket may be of any type: the type decides how a peer is accepted.
        let kind = sockopt::socket_type(&fd).map_err(|errno| OpenError::new("listen", errno))?;
        let is_tcp = sockopt::socket_protocol(&fd) == Ok(Some(ipproto::TCP));
        if kind == SocketType::DGRAM {
            Route::ask_for_locals(&fd);
        }
        let lingers = is_tcp && sockopt::socket_linger(&fd).is_ok_and(|linger| linger.is_some());
        Ok(Self {
            socket: Socket::Waiting(fd),
            kind,
            is_tcp,
            lingers,
            is_blocking: false,
            accepting: None,
            gate: Gate::of(options.ranges()),
            limit: None,
            has_flows: kind == SocketType::DGRAM && options.is_on(Opt::Fork),
            has_single_datagrams: false,
            short: Arc::default(),
            name: None,
            handshake: None,
            waiting: None,
            _made: made,
        })
    }

    /// Each datagram is a peer's only one.
    pub(crate) fn of_datagrams(self) -> Self {
        Self { has_single_datagrams: true, ..self }
    }

    /// The socket has no O_NONBLOCK.
    pub(crate) fn blocking(self) -> Self {
        Self { is_blocking: true, ..self }
    }

    pub(crate) fn at(mut self, address: String) -> Self {
        self.gate.address = address;
        self
    }

    pub(crate) fn known_as(mut self, name: Peer) -> Self {
        self.name = Some(name);
        self
    }

    /// Every client's end begins with a handshake.
    #[cfg(feature = "tls")]
    pub(crate) fn before(self, handshake: Arc<Tls>) -> Self {
        Self { handshake: Some(handshake), ..self }
    }

    /// The address of the listener, as given.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.gate.address
    }

    /// The actual address: a number in the place of port 0.
    ///
    /// # Errors
    /// The error of getsockname(2).
    pub fn local(&self) -> io::Result<Peer> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        let fd = self.fd().ok_or(Errno::BADF)?;
        let address = rustix::net::getsockname(fd)?;
        Ok(match SocketAddr::try_from(address.clone()) {
            Ok(ip) => Peer::Ip(ip),
            Err(_) => Peer::of_socket(Some(address), fd),
        })
    }

    /// The number of peers from outside `range=`, which were closed at once.
    #[must_use]
    pub fn strangers(&self) -> u64 {
        self.gate.counts.refused.load(Ordering::Relaxed)
    }

    /// Counts in `counts` from now on, which others can read during an accept.
    pub(crate) fn count_in(&mut self, counts: &Arc<ListenerCounts>) {
        self.gate.counts = Arc::clone(counts);
    }

    /// While `short` is true, senders who have been silent for some time make room for others.
    pub(crate) fn makes_room_while(&mut self, short: &Arc<AtomicBool>) {
        self.short = Arc::clone(short);
    }

    /// Promises that this process no longer changes the limit of descriptors. The kernel is then asked for
    /// the limit only once half of the descriptors are used.
    pub(crate) fn limit_stays(&mut self) {
        self.limit = Some(descriptor_limit());
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.socket {
            Socket::Waiting(fd) => Some(fd.as_fd()),
            Socket::Registered(fd) => Some(fd.get_ref().as_fd()),
            Socket::Sorted(_) | Socket::Given => None,
        }
    }

    /// Waits for the next peer.
    ///
    /// Peers from outside `range=` are closed at once and counted. At the limit of descriptors the call waits
    /// until some are free, and the next peers stay in the kernel's queue. The call may be cancelled without
    /// losing a peer.
    ///
    /// # Errors
    /// The lasting errors of accept(2). An error if a UDP socket already has its peer.
    pub async fn accept(&mut self) -> Result<End, OpenError> {
        let accepted = match self.kind {
            SocketType::DGRAM if self.has_flows => self.next_sender().await,
            SocketType::DGRAM => self.first_of_datagrams().await,
            _ => self.stream().await,
        };
        accepted.map_err(|error| error.at(&self.gate.address))
    }

    async fn stream(&mut self) -> Result<End, OpenError> {
        // Kept in the listener: a caller that stops waiting for room does not lose the client.
        if self.waiting.is_none() {
            self.waiting = Some(self.next_client().await?);
        }
        self.admitted().await
    }

    /// The accepted client, once there is room for the client.
    async fn admitted(&mut self) -> Result<End, OpenError> {
        if let Some((client, _)) = &self.waiting {
            // The kernel gives the lowest free number, so a high one tells that many are in use.
            let number = u64::try_from(client.as_raw_fd()).unwrap_or(0);
            // Far below the limit nothing is asked: the limit costs a call for each client.
            if self.limit.is_none_or(|limit| number + SPARE >= limit / 2) {
                wait_for_room(number, &self.gate.counts.waits).await;
            }
        }
        let Some((client, peer)) = self.waiting.take() else {
            return Err(OpenError::said("accept", "nobody is there"));
        };
        if self.lingers {
            // Clients that had connected before have a copy of the option, so changing the listener would be too late.
            sockopt::set_socket_linger(&client, None)
                .map_err(|errno| OpenError::new("accept", errno))?;
        }
        let conduit = match self.kind {
            SocketType::STREAM if self.is_tcp => Conduit::of_accepted_tcp(client),
            SocketType::STREAM => Conduit::of_stream_socket(client),
            _ => Conduit::new(client).map_err(|error| OpenError::new("accept", error))?,
        };
        let mut end = End::new(conduit, peer);
        end.handshake.clone_from(&self.handshake);
        end.local.clone_from(&self.name);
        Ok(end)
    }

    async fn next_client(&mut self) -> Result<(OwnedFd, Peer), OpenError> {
        let mut failures = 0;
        loop {
            let fd = self.socket.registered()?;
            let mut ready = fd.readable().await.map_err(|error| OpenError::new("accept", error))?;
            let accepted = match self.is_blocking {
                false => rustix::net::acceptfrom_with(fd.get_ref(), ACCEPTED),
                true => accept_on_a_thread(fd.get_ref(), &mut self.accepting).await,
            };
            match accepted {
                Ok((client, address)) => {
                    let peer = Peer::of_socket(address, &client);
                    if !self.gate.refuses(&peer) {
                        return Ok((client, peer));
                    }
                    failures = 0;
                    // Clients under way have their turn, even in a flood of strangers.
                    tokio::task::yield_now().await;
                }
                // A Unix socket that was shut down answers so, and tells of its end for ever.
                Err(Errno::AGAIN) if ready.ready().is_read_closed() => {
                    return Err(OpenError::new("accept", Errno::INVAL));
                }
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(errno) if WANTING.contains(&errno) => {
                    // Not cleared: the refused client is still in the queue, and no new edge comes for it.
                    drop(ready);
                    until_free(1, &self.gate.counts.waits).await;
                    failures += 1;
                    pause_after(failures, "accept", errno, &self.gate.address).await;
                }
                Err(errno) if is_the_peers(errno) => {
                    tracing::debug!("a peer went before it was accepted: {errno}");
                    failures += 1;
                    pause_after(failures, "accept", errno, &self.gate.address).await;
                }
                Err(errno) => return Err(OpenError::new("accept", errno)),
            }
        }
    }

    /// The same socket for another thread; `None` for datagrams and blocking sockets, or without a free
    /// descriptor. This listener keeps the name in the file system, and has to outlive the other.
    pub(crate) fn try_clone(&self) -> Option<Self> {
        let is_sharable = self.kind != SocketType::DGRAM && !self.is_blocking;
        let fd = self.fd().filter(|_| is_sharable)?;
        Some(Self {
            _made: None,
            socket: Socket::Waiting(fd.try_clone_to_owned().ok()?),
            gate: self.gate.clone(),
            short: Arc::clone(&self.short),
            name: self.name.clone(),
            handshake: self.handshake.clone(),
            waiting: None,
            accepting: None,
            ..*self
        })
    }

    /// Accepts a client of a stream for which `place` returns a place. Other clients, and failures to
    /// accept, are left to the listener that this is a [`try_clone`](Self::try_clone) of. `None` once
    /// the socket fails for good.
    pub(crate) async fn accept_if<P>(&mut self, place: impl Fn() -> Option<P>) -> Option<(End, P)> {
        loop {
            let fd = self.socket.registered().ok()?;
            let mut ready = fd.readable().await.ok()?;
            // It no longer listens.
            if ready.ready().is_read_closed() {
                return None;
            }
            // Until the next client comes: the other listener accepts this one.
            let Some(place) = place() else {
                ready.clear_ready();
                continue;
            };
            let (client, address) = match rustix::net::acceptfrom_with(fd.get_ref(), ACCEPTED) {
                Ok(accepted) => accepted,
                Err(errno) if passes(errno) => {
                    ready.clear_ready();
                    continue;
                }
                Err(_) => return None,
            };
            let peer = Peer::of_socket(address, &client);
            if self.gate.refuses(&peer) {
                tokio::task::yield_now().await;
                continue;
            }
            self.waiting = Some((client, peer));
            match self.admitted().await {
                Ok(end) => return Some((end, place)),
                Err(error) => {
                    tracing::warn!("{}: an accepted client is given up: {error}", self.gate.address)
                }
            }
        }
    }

    /// The next sender, as a peer with a flow of its own.
    async fn next_sender(&mut self) -> Result<End, OpenError> {
        let fail = |error: io::Error| OpenError::new("receive", error);
        // Asked before the sorting task takes the socket, which answers no questions afterwards.
        if let Socket::Waiting(_) = &self.socket {
            self.name = self.local().ok();
        }
        self.socket = match std::mem::replace(&mut self.socket, Socket::Given) {
            Socket::Waiting(fd) => {
                let gate = self.gate.clone();
                let admits = move |sender| !gate.refuses(&Peer::from(sender));
                let single = self.has_single_datagrams;
                let (short, counts) = (Arc::clone(&self.short), Arc::clone(&self.gate.counts));
                let flows = Flows::start(fd, single, admits, short, counts);
                Socket::Sorted(flows.map_err(fail)?)
            }
            socket => socket,
        };
        let Socket::Sorted(flows) = &mut self.socket else {
            return Err(OpenError::said("receive", "the port is not read any more"));
        };
        let mut failures = 0;
        let next = loop {
            let error = match flows.next().await {
                Ok(next) => break next,
                Err(error) => error,
            };
            let errno = Errno::from_io_error(&error).filter(|errno| WANTING.contains(errno));
            let errno = errno.ok_or(error).map_err(fail)?;
            // A flow takes two descriptors; the flag asks the sorting task to end idle flows meanwhile.
            self.short.store(true, Ordering::Relaxed);
            until_free(2, &self.gate.counts.waits).await;
            failures += 1;
            pause_after(failures, "receive", errno, &self.gate.address).await;
            self.short.store(false, Ordering::Relaxed);
        };
        let Some((fd, route, served)) = next else {
            return Err(OpenError::said("receive", "the port is not read any more"));
        };
        let mut end = End::new(Conduit::new(fd).map_err(fail)?, Peer::from(route.sender));
        end.keeper.served = Some(served);
        end.local = match (&self.name, route.local) {
            (Some(Peer::Ip(name)), Some(local)) => {
                Some(Peer::from(SocketAddr::new(local, name.port())))
            }
            (name, _) => name.clone(),
        };
        Ok(end)
    }

    /// Makes the first sender the peer.
    async fn first_of_datagrams(&mut self) -> Result<End, OpenError> {
        let (fd, route) = self.first_peer().await?;
        match self.has_single_datagrams {
            true => first_datagram(fd, route),
            false => self.first_sender(fd, route),
        }
    }

    /// Connects the socket to the sender, whose datagram is left to read.
    fn first_sender(&mut self, fd: OwnedFd, route: Route) -> Result<End, OpenError> {
        let fail = |errno: Errno| OpenError::new("receive", errno);
        let peer = route.sender;
        // From here on the kernel passes only this peer's datagrams; those of others came before.
        let (fd, mut first) = match connected(&fd, route)? {
            None => (fd, Vec::new()),
            Some(own) => (own, self.drop_what_others_sent(&fd, peer, true).map_err(fail)?),
        };
        first.extend(self.drop_what_others_sent(&fd, peer, false).map_err(fail)?);
        let accepted = || match first.is_empty() {
            true => Conduit::new(fd),
            false => {
                let source = flows::behind(first, fd.try_clone()?)?;
                Ok(Conduit::joined(Conduit::new(source)?, Conduit::new(fd)?))
            }
        };
        let conduit = accepted().map_err(|error: io::Error| OpenError::new("accept", error))?;
        Ok(End::new(conduit, Peer::from(peer)))
    }

    /// Waits for the first datagram of somebody who may come, and leaves it in the socket's queue.
    async fn first_peer(&mut self) -> Result<(OwnedFd, Route), OpenError> {
        let fail = |errno: Errno| OpenError::new("receive", errno);
        let route = loop {
            let fd = self.socket.registered()?;
            let mut ready =
                fd.readable().await.map_err(|error| OpenError::new("receive", error))?;
            let mut nothing = [0; 1];
            // Only a look: an admitted sender's first datagram stays in the queue for the mover.
            match Route::receive(fd.get_ref().as_fd(), &mut nothing, MsgFlags::MSG_PEEK) {
                Ok((_, Some(route))) => {
                    if !self.gate.refuses(&Peer::from(route.sender)) {
                        break route;
                    }
                    let fd = self.socket.registered()?;
                    rustix::net::recv(fd.get_ref(), &mut nothing, RecvFlags::empty())
                        .map_err(fail)?;
                    tokio::task::yield_now().await;
                }
                Ok(_) => return Err(fail(Errno::AFNOSUPPORT)),
                Err(Errno::AGAIN) => ready.clear_ready(),
                // An earlier answer of ours reached nobody.
                Err(Errno::CONNREFUSED | Errno::INTR) => tokio::task::yield_now().await,
                Err(errno) => return Err(fail(errno)),
            }
        };
        let Socket::Registered(fd) = std::mem::replace(&mut self.socket, Socket::Given) else {
            return Err(fail(Errno::BADF));
        };
        Ok((fd.into_inner(), route))
    }

    /// Drops the datagrams of others, which were queued before the socket was connected. The peer's that are taken with
    /// them are the answer: `all`, or those up to the last of another sender, as far as the queue can be peeked through.
    fn drop_what_others_sent(
        &mut self,
        fd: &OwnedFd,
        peer: SocketAddr,
        all: bool,
    ) -> Result<Vec<Vec<u8>>, Errno> {
        let mut nothing = [0; 1];
        // With SO_PEEK_OFF each look goes on behind the last (socket(7)); without it the whole queue is read.
        let looks_through = !all && gush::set_peek_offset(fd, Some(0)).is_ok();
        let mut unwanted = usize::MAX;
        if looks_through {
            let mut seen = 0;
            unwanted = 0;
            while let Some((_, sender)) = received(fd, &mut nothing, RecvFlags::PEEK)? {
                seen += 1;
                // Everything behind the last datagram of another sender may stay where it is.
                unwanted = if sender == Some(peer) { unwanted } else { seen };
            }
            // Left on, it would move every later look of ours too.
            gush::set_peek_offset(fd, None)?;
        }
        let (mut first, mut others) = (Vec::new(), 0);
        // In the usual case nobody else sent anything, and 64 KiB need not be cleared.
        let mut datagram = vec![0; if unwanted > 0 { DATAGRAM_BYTES } else { 0 }];
        for _ in 0..unwanted {
            let Some((count, sender)) = received(fd, &mut datagram, RecvFlags::empty())? else {
                break;
            };
            if sender == Some(peer) {
                first.push(datagram[..count].to_vec());
                continue;
            }
            self.gate.refuses(&sender.map_or(Peer::Other("unknown".into()), Peer::from));
            others += 1;
        }
        if others > 0 {
            tracing::warn!(
                "{}: {others} datagrams dropped, which are not from {peer}",
                self.gate.address
            );
        }
        Ok(first)
    }
}

/// Connects a socket to the sender of a datagram; the answer is another socket that is connected in
/// its place, where that one alone answers from the address that the sender has written to.
fn connected(fd: &OwnedFd, route: Route) -> Result<Option<OwnedFd>, OpenError> {
    let connected = match route.is_lost_by_connecting(fd.as_fd()) {
        true => route.second_socket(fd).map(Some),
        false => rustix::net::connect(fd, &route.sender).map(|()| None),
    };
    connected.map_err(|errno| OpenError::new(format!("connect to {}", route.sender), errno))
}

/// The first sender becomes the peer with one datagram: a socket pair holds the datagram and its
/// end, and answers go to the sender.
fn first_datagram(fd: OwnedFd, route: Route) -> Result<End, OpenError> {
    let fail = |error: io::Error| OpenError::new("receive", error);
    let mut datagram = vec![0; DATAGRAM_BYTES];
    let (_, count) = rustix::net::recv(&fd, &mut datagram[..], RecvFlags::empty())
        .map_err(|errno| fail(errno.into()))?;
    let fd = connected(&fd, route)?.unwrap_or(fd);
    // The one datagram waits in a socket pair, so that the mover reads it like any other; its close
    // is the end.
    let held = || {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // SEQPACKET, unlike DGRAM, answers 0 at the end, and keeps the datagram whole.
        let (near, far) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        rustix::net::send(&near, &datagram[..count], SendFlags::NOSIGNAL)?;
        Ok(far)
    };
    let far = held().map_err(|errno: Errno| fail(errno.into()))?;
    let (source, target) = (Conduit::new(far).map_err(fail)?, Conduit::new(fd).map_err(fail)?);
    Ok(End::new(Conduit::joined(source, target), Peer::from(route.sender)))
}

/// The next datagram and its sender, or none if there is none now.
fn received(
    fd: &OwnedFd,
    room: &mut [u8],
    flags: RecvFlags,
) -> Result<Option<(usize, Option<SocketAddr>)>, Errno> {
    loop {
        // With MSG_TRUNC the answer is the datagram's length, even in a room of one byte.
        match rustix::net::recvfrom(fd, &mut *room, flags | RecvFlags::TRUNC) {
            Ok((_, count, sender)) => {
                let sender = sender.and_then(|sender| SocketAddr::try_from(sender).ok());
                return Ok(Some((count.min(room.len()), sender)));
            }
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::CONNREFUSED | Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Takes the next client of a blocking socket, without waiting here: accept4(2) has no flag for
/// that, and waits if another process takes the client that poll(2) saw. Then a thread waits for
/// the next client, also after the listener is dropped.
async fn accept_on_a_thread(
    socket: &OwnedFd,
    under_way: &mut Option<JoinHandle<Accepted>>,
) -> Accepted {
    let accepting = match under_way {
        Some(accepting) => accepting,
        None => {
            let mut asked = [PollFd::new(socket, PollFlags::IN)];
            // The runtime remembers readiness until it is told otherwise.
            if poll(&mut asked, Some(&Timespec::default()))? == 0 {
                return Err(Errno::AGAIN);
            }
            let socket = rustix::io::fcntl_dupfd_cloexec(socket, 3)?;
            let accept = move || rustix::net::acceptfrom_with(&socket, ACCEPTED);
            under_way.insert(tokio::task::spawn_blocking(accept))
        }
    };
    let accepted = accepting.await;
    *under_way = None;
    // A runtime that ends takes on no more work.
    accepted.unwrap_or(Err(Errno::INTR))
}

/// Errors of accept(2) behind which another call may succeed.
fn passes(errno: Errno) -> bool {
    errno == Errno::AGAIN || WANTING.contains(&errno) || is_the_peers(errno)
}

/// Errors of the connection about to be accepted, not of the listener (accept(2)).
fn is_the_peers(errno: Errno) -> bool {
    // Linux passes errors of the new connection on through accept(2), whose page asks to treat them as "try again".
    const PEERS: [Errno; 11] = [
        Errno::CONNABORTED,
        Errno::INTR,
        Errno::PERM,
        Errno::PROTO,
        Errno::NETDOWN,
        Errno::NOPROTOOPT,
        Errno::HOSTDOWN,
        Errno::NONET,
        Errno::HOSTUNREACH,
        Errno::OPNOTSUPP,
        Errno::NETUNREACH,
    ];
    PEERS.contains(&errno)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Address;

    #[test]
    fn a_peer_without_an_address_is_outside_every_range() {
        let address: Address = "tcp-listen:1,range=0.0.0.0/0+[::]/0".parse().expect("an address");
        let fd =
            super::super::connect::socket(rustix::net::AddressFamily::INET, SocketType::STREAM)
                .expect("a socket");
        let listener = Listener::new(fd, address.options(), None).expect("a listener");
        assert!(listener.gate.refuses(&Peer::Unix { name: None, process: None }));
        assert!(!listener.gate.refuses(&Peer::Ip("192.0.2.1:1".parse().expect("an address"))));
    }
}
