//! Accepts peers: clients of stream sockets, here, senders of datagrams, and peers that are called.

mod calls;
mod datagrams;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gush_net::Conduit;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{Shutdown, SocketAddrAny, SocketFlags, SocketType, ipproto, shutdown, sockopt};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::JoinHandle;

use super::datagrams::Ends;
use super::descriptors::{
    EXHAUSTED, SPARE, descriptor_limit, pause_after, until_free, wait_for_room,
};
use super::error::{OpenError, Step};
use super::flows::Flows;
use super::gate::{Gate, ListenerCounts};
use super::keeper::Made;
use super::peer::Peer;
use super::route::Route;
use super::{End, OpenOptions, Rare};
use crate::address::{Address, Opt, OptionSet};
use crate::tls::Tls;
use crate::watch::watch;
use calls::Calls;

/// A socket that waits for peers.
///
/// It may be made outside a runtime, and registers with the tokio runtime that first accepts. A
/// dropped listener removes the Unix socket made for it.
#[derive(Debug)]
pub struct Listener {
    /// Dropped first: a name in the file system always has a server.
    made: Option<Made>,
    /// The file of `lockfile=`.
    lock_file: Option<Made>,
    socket: Socket,
    kind: SocketType,
    /// An inherited stream socket may be of SCTP, say.
    is_tcp: bool,
    /// Has an inherited socket SO_LINGER, which accepted sockets copy (socket(7))?
    lingers: bool,
    /// Has an inherited socket no O_NONBLOCK? The flag belongs to all processes that have the
    /// socket.
    is_blocking: bool,
    /// An accept4(2) of a blocking socket, running on a thread.
    accepting: Option<JoinHandle<Accepted>>,
    gate: Gate,
    /// The limit on descriptors, if this process no longer changes it.
    limit: Option<u64>,
    /// Is every sender of datagrams a peer?
    has_flows: bool,
    /// Is every datagram all of a peer's data?
    has_single_datagrams: bool,
    /// Does the kernel report of each datagram?
    has_facts: bool,
    /// What empty datagrams mean.
    ends: Ends,
    /// Are places short for want of descriptors?
    short: Arc<AtomicBool>,
    /// The name that clients use, if it is not the socket's own.
    name: Option<Peer>,
    handshake: Option<Arc<Tls>>,
    /// An accepted client that waits for descriptors.
    waiting: Option<(OwnedFd, Peer)>,
}

/// accept4(2) sets both at once: a program started in between inherits nothing.
const ACCEPTED: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

type Accepted = Result<(OwnedFd, Option<SocketAddrAny>), Errno>;

#[derive(Debug)]
enum Socket {
    Waiting(OwnedFd),
    Registered(AsyncFd<OwnedFd>),
    /// A task sorts the datagrams by sender.
    Sorted(Flows),
    Calls(Box<Calls>),
    /// The UDP socket belongs to the first peer now.
    Given,
}

impl Socket {
    /// Registers the socket with the current runtime, unless it is registered already.
    fn registered(&mut self) -> Result<&AsyncFd<OwnedFd>, OpenError> {
        *self = match std::mem::replace(self, Socket::Given) {
            // As late as this, since the listener may have been made outside a runtime.
            Socket::Waiting(fd) => {
                watch(fd, Interest::READABLE).map(Socket::Registered).step("accept")?
            }
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
        options: &OptionSet,
        made: Option<Made>,
    ) -> Result<Self, OpenError> {
        // An inherited socket may be of any type: the type decides how a peer is accepted.
        let kind = sockopt::socket_type(&fd).step("listen")?;
        let is_tcp = sockopt::socket_protocol(&fd) == Ok(Some(ipproto::TCP));
        if kind == SocketType::DGRAM {
            Route::ask_for_locals(&fd);
        }
        let lingers = is_tcp && sockopt::socket_linger(&fd).is_ok_and(|linger| linger.is_some());
        Ok(Self {
            is_tcp,
            lingers,
            has_flows: kind == SocketType::DGRAM && options.is_on(Opt::Fork),
            has_facts: options.is_on(Opt::Ancillary),
            ends: Ends::of(options),
            made,
            ..Self::of(Socket::Waiting(fd), kind, Gate::of(options))
        })
    }

    /// Connects to each peer, after the one before.
    pub(crate) fn calling(address: &Address, how: &OpenOptions) -> Self {
        let calls = Box::new(Calls::new(address, how));
        Self::of(Socket::Calls(calls), SocketType::STREAM, Gate::default())
            .at(address.locator().to_string())
    }

    fn of(socket: Socket, kind: SocketType, gate: Gate) -> Self {
        Self {
            socket,
            kind,
            is_tcp: false,
            lingers: false,
            is_blocking: false,
            accepting: None,
            gate,
            limit: None,
            has_flows: false,
            has_single_datagrams: false,
            has_facts: false,
            ends: Ends::default(),
            short: Arc::default(),
            name: None,
            handshake: None,
            waiting: None,
            made: None,
            lock_file: None,
        }
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

    /// Asserts that this process no longer changes the limit on descriptors. The kernel is then
    /// queried only once half of them are used.
    pub(crate) fn limit_stays(&mut self) {
        self.limit = Some(descriptor_limit());
    }

    /// A copy of the socket's descriptor.
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.fd().ok_or(Errno::BADF)?.try_clone_to_owned()
    }

    /// Removes this file with the listener.
    pub(super) fn keep(&mut self, lock_file: Option<Made>) {
        self.lock_file = lock_file;
    }

    /// Removes that file with this end.
    pub(crate) fn give_lock_file(&mut self, end: &mut End) {
        end.keeper.keep(self.lock_file.take());
    }

    /// Removes the name of a socket that another process has made, from now on.
    pub(crate) fn own_name(&mut self) {
        self.made.iter_mut().for_each(Made::own);
    }

    /// Leaves the socket's name to another process.
    pub(crate) fn keep_name(&mut self) {
        if let Some(made) = self.made.take() {
            made.keep();
        }
    }

    /// Has a client been accepted that the next [`accept`](Self::accept) returns?
    pub(crate) fn has_client(&self) -> bool {
        self.waiting.is_some()
    }

    /// Resets a client that waits for descriptors, as the kernel does with those in the queue.
    pub(crate) fn close(self) {
        let Some((client, peer)) = &self.waiting else { return };
        let address = &self.gate.address;
        tracing::warn!(
            "{address}: {peer} is given up: no descriptor was free for its other end \
             (ulimit -n raises the limit)"
        );
        let _ = sockopt::set_socket_linger(client, Some(Duration::ZERO));
    }

    fn is_unix(&self) -> bool {
        matches!(self.name, Some(Peer::Unix { .. }))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.socket {
            Socket::Waiting(fd) => Some(fd.as_fd()),
            Socket::Registered(fd) => Some(fd.get_ref().as_fd()),
            Socket::Sorted(_) | Socket::Calls(_) | Socket::Given => None,
        }
    }

    /// Waits for the next peer.
    ///
    /// Peers from outside `range=` are closed at once and counted. At the limit of descriptors the
    /// call waits until some are free, and the next peers stay in the kernel's queue. The call may
    /// be cancelled without losing a peer.
    ///
    /// # Errors
    /// The lasting errors of accept(2). An error if a UDP socket already has its peer.
    pub async fn accept(&mut self) -> Result<End, OpenError> {
        if let Socket::Calls(calls) = &mut self.socket {
            return calls.next().await;
        }
        let accepted = match self.kind {
            SocketType::DGRAM if self.is_unix() => self.next_datagram().await,
            SocketType::DGRAM if self.has_flows => self.next_sender().await,
            SocketType::DGRAM => self.first_of_datagrams().await,
            _ => self.stream().await,
        };
        accepted.map_err(|error| error.at(&self.gate.address))
    }

    async fn stream(&mut self) -> Result<End, OpenError> {
        // Kept in the listener: a cancelled call does not lose the client.
        if self.waiting.is_none() {
            self.waiting = Some(self.next_client().await?);
        }
        self.admitted().await
    }

    /// The accepted client, once there are descriptors for its other end.
    pub(crate) async fn admitted(&mut self) -> Result<End, OpenError> {
        if let Some((client, _)) = &self.waiting {
            // The kernel assigns the lowest free number, so a high one means that many are in use.
            let number = u64::try_from(client.as_raw_fd()).unwrap_or(0);
            // Far below the limit no call is made for each client.
            if self.limit.is_none_or(|limit| number + SPARE >= limit / 2) {
                wait_for_room(number, &self.gate.counts.waits).await;
            }
        }
        let Some((client, peer)) = self.waiting.take() else {
            return Err(OpenError::said("accept", "no client"));
        };
        if self.lingers {
            // Not on the listener: clients that connected before already have a copy.
            sockopt::set_socket_linger(&client, None).step("accept")?;
        }
        let conduit = match self.kind {
            SocketType::STREAM if self.is_tcp => Conduit::of_accepted_tcp(client),
            SocketType::STREAM => Conduit::of_stream_socket(client),
            _ => Conduit::new(client).step("accept")?,
        };
        let mut end = End::new(conduit, peer);
        if self.handshake.is_some() || self.name.is_some() {
            let (handshake, local) = (self.handshake.clone(), self.name.clone());
            *end.rare() = Rare { handshake, local, ..Rare::default() };
        }
        Ok(end)
    }

    async fn next_client(&mut self) -> Result<(OwnedFd, Peer), OpenError> {
        let mut failures = 0;
        loop {
            let fd = self.socket.registered()?;
            let mut ready = fd.readable().await.step("accept")?;
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
                    end(&client);
                    failures = 0;
                    // Connected clients have their turn even in a flood of refused ones.
                    tokio::task::yield_now().await;
                }
                // A Unix socket that was shut down.
                Err(Errno::AGAIN) if ready.ready().is_read_closed() => {
                    return Err(OpenError::new("accept", Errno::INVAL));
                }
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(errno) if EXHAUSTED.contains(&errno) => {
                    // Not cleared: the client is still queued, and no new edge comes for it.
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

    /// The same socket for another thread; `None` for datagrams and blocking sockets, or without a
    /// free descriptor. This listener keeps the name in the file system, and has to outlive the
    /// other.
    pub(crate) fn try_clone(&self) -> Option<Self> {
        let is_sharable = self.kind != SocketType::DGRAM && !self.is_blocking;
        let fd = self.fd().filter(|_| is_sharable)?;
        Some(Self {
            made: None,
            lock_file: None,
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

    /// Accepts a client of a stream for which `place` returns a place;
    /// [`admitted`](Self::admitted) returns it. Other clients, and failures to accept, are left to
    /// the listener that this is a [`try_clone`](Self::try_clone) of. `None` once the socket fails
    /// for good. May be cancelled.
    pub(crate) async fn accept_if<P>(&mut self, place: impl Fn() -> Option<P>) -> Option<P> {
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
                end(&client);
                tokio::task::yield_now().await;
                continue;
            }
            self.waiting = Some((client, peer));
            return Some(place);
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
            // The runtime remembers readiness until it is cleared.
            if gush::poll_now(socket, PollFlags::IN).is_ok_and(|now| now.is_empty()) {
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

/// Errors of accept(2) after which another call may succeed.
fn passes(errno: Errno) -> bool {
    errno == Errno::AGAIN || EXHAUSTED.contains(&errno) || is_the_peers(errno)
}

/// Errors of the connection about to be accepted, not of the listener (accept(2)).
fn is_the_peers(errno: Errno) -> bool {
    // Linux passes errors of the new connection on through accept(2), whose page asks to treat them
    // as "try again".
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

/// Ends the data of a client that is refused: close(2) alone would reset one that has sent some.
fn end(client: &OwnedFd) {
    let _ = shutdown(client, Shutdown::Both);
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
