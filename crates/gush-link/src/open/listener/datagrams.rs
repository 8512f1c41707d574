//! The peers of UDP ports: the first sender, or with `fork` each sender.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use gush_net::Conduit;
use nix::sys::socket::MsgFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, socketpair};

use super::{Listener, Socket};
use crate::open::ancillary::Fact;
use crate::open::descriptors::{EXHAUSTED, pause_after, until_free};
use crate::open::error::Step;
use crate::open::flows::{DATAGRAM_BYTES, Flows};
use crate::open::route::Route;
use crate::open::{End, OpenError, Peer, datagrams};

impl Listener {
    /// Accepts the next sender, with its own flow.
    pub(super) async fn next_sender(&mut self) -> Result<End, OpenError> {
        // Before the sorting task takes the socket.
        if let Socket::Waiting(_) = &self.socket {
            self.name = self.local().ok();
        }
        self.socket = match std::mem::replace(&mut self.socket, Socket::Given) {
            Socket::Waiting(fd) => {
                let gate = self.gate.clone();
                let single = self.has_single_datagrams;
                let takes_empty = !self.drops_empty();
                let (short, counts) = (Arc::clone(&self.short), Arc::clone(&self.gate.counts));
                let admits = move |sender, bytes| {
                    (takes_empty || bytes > 0) && !gate.refuses(&Peer::from(sender))
                };
                let flows = Flows::start(fd, single, admits, short, counts, self.has_facts);
                Socket::Sorted(flows.step("receive")?)
            }
            socket => socket,
        };
        let Socket::Sorted(flows) = &mut self.socket else {
            return Err(OpenError::said("receive", "the port is no longer read"));
        };
        let mut failures = 0;
        let next = loop {
            let error = match flows.next().await {
                Ok(next) => break next,
                Err(error) => error,
            };
            let errno = Errno::from_io_error(&error).filter(|errno| EXHAUSTED.contains(errno));
            let errno = errno.ok_or(error).step("receive")?;
            // A flow takes two; the flag makes the sorting task evict idle flows meanwhile.
            self.short.store(true, Ordering::Relaxed);
            until_free(2, &self.gate.counts.waits).await;
            failures += 1;
            pause_after(failures, "receive", errno, &self.gate.address).await;
            self.short.store(false, Ordering::Relaxed);
        };
        let Some((fd, route, served, facts)) = next else {
            return Err(OpenError::said("receive", "the port is no longer read"));
        };
        let mut end = match self.has_single_datagrams {
            true => End::new(Conduit::new(fd).step("receive")?, Peer::from(route.sender)),
            false => datagrams::connected_end(fd, Peer::from(route.sender), self.ends)?,
        };
        end.keeper.served = Some(served);
        end.rare().facts = logged(facts);
        end.rare().local = local_of(route, self.name.as_ref());
        Ok(end)
    }

    /// Accepts the first sender.
    pub(super) async fn first_of_datagrams(&mut self) -> Result<End, OpenError> {
        // Before the peer gets the socket.
        let name = self.local().ok();
        let (fd, route, facts) = self.first_peer().await?;
        let mut end = match self.has_single_datagrams {
            true => first_datagram(fd, route)?,
            false => self.first_sender(fd, route)?,
        };
        end.rare().facts = logged(facts);
        end.rare().local = local_of(route, name.as_ref());
        Ok(end)
    }

    /// Accepts the next datagram of a Unix socket, whose queue makes its senders wait.
    pub(super) async fn next_datagram(&mut self) -> Result<End, OpenError> {
        let drops_empty = self.drops_empty();
        let mut failures = 0;
        let (datagram, sender) = loop {
            let fd = self.socket.registered()?;
            let mut ready = fd.readable().await.step("receive")?;
            let peek = RecvFlags::PEEK | RecvFlags::TRUNC;
            let length = rustix::net::recv(fd.get_ref(), &mut [0; 1][..], peek);
            let mut datagram = vec![0; length.map_or(0, |(_, bytes)| bytes)];
            match rustix::net::recvfrom(fd.get_ref(), &mut datagram[..], RecvFlags::empty()) {
                // An empty datagram has nothing to pass on.
                Ok((_, 0, _)) if drops_empty => {}
                Ok((_, _, sender)) => break (datagram, sender),
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(OpenError::new("receive", errno)),
            }
        };
        let sender = sender.filter(|sender| Peer::of_name(sender).is_some());
        let name = sender.as_ref().and_then(Peer::of_name);
        let peer = Peer::Unix { name, process: None };
        let fd = self.socket.registered()?.get_ref();
        let source = loop {
            match held(&datagram) {
                Ok(source) => break source,
                Err(error) => {
                    let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                    if !EXHAUSTED.contains(&errno) {
                        return Err(OpenError::new("receive", errno));
                    }
                    until_free(2, &self.gate.counts.waits).await;
                    failures += 1;
                    pause_after(failures, "receive", errno, &self.gate.address).await;
                }
            }
        };
        let target = datagrams::answers(fd, sender, &peer)?;
        let mut end = End::new(Conduit::joined(source, target), peer);
        end.rare().local = self.local().ok();
        Ok(end)
    }

    /// Connects the socket to the sender, whose datagram is left to read. From here on the kernel
    /// delivers only this peer's datagrams; those of others came before.
    fn first_sender(&self, fd: OwnedFd, route: Route) -> Result<End, OpenError> {
        let (socket, earlier) = match connected(&fd, route)? {
            Some(own) => (own, Some(fd)),
            None => (fd, None),
        };
        datagrams::first_sender(socket, earlier, route.sender.into(), &self.gate, self.ends)
    }

    /// Has an empty datagram nothing to pass on?
    fn drops_empty(&self) -> bool {
        self.has_single_datagrams && !self.ends.is_read
    }

    /// Waits for the first datagram of a sender within `range=`, and leaves it in the socket's
    /// queue.
    async fn first_peer(&mut self) -> Result<(OwnedFd, Route, Vec<Fact>), OpenError> {
        let drops_empty = self.drops_empty();
        let (has_facts, mut facts) = (self.has_facts, Vec::new());
        let route = loop {
            let fd = self.socket.registered()?;
            let mut ready = fd.readable().await.step("receive")?;
            let mut nothing = [0; 1];
            let wanted = has_facts.then_some(&mut facts);
            match Route::receive(fd.get_ref().as_fd(), &mut nothing, MsgFlags::MSG_PEEK, wanted) {
                Ok((bytes, Some(route))) => {
                    let is_dropped = bytes == 0 && drops_empty;
                    if !is_dropped && !self.gate.refuses(&Peer::from(route.sender)) {
                        break route;
                    }
                    let fd = self.socket.registered()?;
                    rustix::net::recv(fd.get_ref(), &mut nothing, RecvFlags::empty())
                        .step("receive")?;
                    tokio::task::yield_now().await;
                }
                Ok(_) => return Err(OpenError::new("receive", Errno::AFNOSUPPORT)),
                Err(Errno::AGAIN) => ready.clear_ready(),
                // ECONNREFUSED is about an earlier answer.
                Err(Errno::CONNREFUSED | Errno::INTR) => tokio::task::yield_now().await,
                Err(errno) => return Err(OpenError::new("receive", errno)),
            }
        };
        let Socket::Registered(fd) = std::mem::replace(&mut self.socket, Socket::Given) else {
            return Err(OpenError::new("receive", Errno::BADF));
        };
        Ok((fd.into_inner(), route, facts))
    }
}

/// The address that the sender has written to, at a port of this `name`.
fn local_of(route: Route, name: Option<&Peer>) -> Option<Peer> {
    match (name, route.local) {
        (Some(Peer::Ip(name)), Some(local)) => {
            Some(Peer::from(SocketAddr::new(local, name.port())))
        }
        (name, _) => name.cloned(),
    }
}

/// The facts of a datagram, once they are logged.
fn logged(facts: Vec<Fact>) -> Vec<Fact> {
    facts.iter().for_each(Fact::log);
    facts
}

/// Connects a socket to the sender of a datagram. Returns another socket, connected instead, if
/// only that one answers from the address that the sender has written to.
fn connected(fd: &OwnedFd, route: Route) -> Result<Option<OwnedFd>, OpenError> {
    let connected = match route.is_lost_by_connecting(fd.as_fd()) {
        true => route.second_socket(fd).map(Some),
        false => rustix::net::connect(fd, &route.sender).map(|()| None),
    };
    connected.map_err(|errno| OpenError::new(format!("connect to {}", route.sender), errno))
}

/// A peer with a single datagram, whose answers go to the sender.
fn first_datagram(fd: OwnedFd, route: Route) -> Result<End, OpenError> {
    let mut datagram = vec![0; DATAGRAM_BYTES];
    let (_, count) =
        rustix::net::recv(&fd, &mut datagram[..], RecvFlags::empty()).step("receive")?;
    let fd = connected(&fd, route)?.unwrap_or(fd);
    let source = held(&datagram[..count]).step("receive")?;
    let target = Conduit::new(fd).step("receive")?;
    Ok(End::new(Conduit::joined(source, target), Peer::from(route.sender)))
}

/// A socket with the datagram and the end after it.
fn held(datagram: &[u8]) -> io::Result<Conduit> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // SEQPACKET keeps the datagram whole and, unlike DGRAM, has an end of data.
    let (near, far) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    rustix::net::send(&near, datagram, SendFlags::NOSIGNAL)?;
    Conduit::new(far)
}
