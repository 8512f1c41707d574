//! UDP listeners with `fork`: each sender has a flow.
//!
//! One task reads the port and sorts datagrams by sender. A socket pair connects each flow to its
//! relay, whose answers another task sends. The alternative, a connected socket for each sender,
//! would receive datagrams of others between bind(2) and connect(2).
//!
//! A sender that waits to be served has no descriptor yet. If descriptors are short, the flows that
//! have been silent longest are evicted.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gush::Unpoisoned;
use nix::sys::socket::MsgFlags;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, socketpair,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::ancillary::Fact;
use super::gate::ListenerCounts;
use super::route::Route;
use super::throttle::Throttle;
use crate::watch::watch;

/// The most senders that wait to be served. Datagrams of others are dropped.
const WAITING: usize = 64;

/// The most datagrams that wait with their sender, as in a Unix socket (max_dgram_qlen, unix(7)).
const WAITING_DATAGRAMS: usize = 10;

/// The most bytes that wait with all senders, besides first datagrams: 64 times ten of the largest
/// would be 41 MB.
const WAITING_BYTES: usize = 1 << 20;

/// How long a new sender waits for a place in that queue, while the port's socket keeps what comes.
const QUEUE_TIMEOUT: Duration = Duration::from_millis(50);

/// The interval of checks for flows that have ended, or are to be evicted.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// A flow that has been silent for this long may be evicted.
const EVICTABLE: Duration = Duration::from_millis(500);

/// The largest datagram (udp(7)).
pub(super) const DATAGRAM_BYTES: usize = 1 << 16;

/// A new flow: the relay's socket, the route of the sender, what the relay holds, and the facts
/// about the first datagram.
pub(super) type NewFlow = (OwnedFd, Route, Served, Vec<Fact>);

/// The flows of a port. Flows that are served go on when this is dropped.
#[derive(Debug)]
pub(super) struct Flows {
    port: Arc<Port>,
    single: bool,
    coming: mpsc::Receiver<FirstDatagram>,
    /// Received, but without descriptors so far.
    next: Option<FirstDatagram>,
}

/// The first datagram of a flow.
#[derive(Debug)]
struct FirstDatagram {
    route: Route,
    datagram: Vec<u8>,
    /// What the kernel reports of it, if the port asks for that.
    facts: Vec<Fact>,
}

/// What the relay's side of a flow holds until the connection is over.
#[derive(Debug)]
pub(crate) struct Served {
    /// Closes when no more answers come.
    _over: oneshot::Sender<()>,
    room: Arc<Notify>,
}

impl Served {
    /// Resolves when the flow is evicted.
    pub fn makes_room(&self) -> impl Future<Output = ()> + use<> {
        let room = Arc::clone(&self.room);
        async move { room.notified().await }
    }
}

#[derive(Debug)]
struct Port {
    socket: AsyncFd<OwnedFd>,
    senders: Mutex<Senders>,
    counts: Arc<ListenerCounts>,
    has_facts: bool,
}

/// By the sender's address and ours.
#[derive(Debug, Default)]
struct Senders {
    by_route: HashMap<Route, Sender>,
    /// Of all `Sender::Waiting`.
    waiting_bytes: usize,
}

#[derive(Debug)]
enum Sender {
    /// The datagrams after the first.
    Waiting(Vec<Vec<u8>>),
    Served(Flow),
}

impl Flows {
    /// Starts to read `socket`; `admits` filters new senders by the length of their first
    /// datagrams. With `single` each datagram is a flow. While `short` is true, silent flows are
    /// evicted.
    pub fn start(
        socket: OwnedFd,
        single: bool,
        admits: impl FnMut(SocketAddr, usize) -> bool + Send + 'static,
        short: Arc<AtomicBool>,
        counts: Arc<ListenerCounts>,
        has_facts: bool,
    ) -> io::Result<Self> {
        // epoll accepts a descriptor once, so one registration serves both.
        let socket = watch(socket, Interest::READABLE | Interest::WRITABLE)?;
        let port = Arc::new(Port { socket, senders: Mutex::default(), counts, has_facts });
        let (new, coming) = mpsc::channel(WAITING);
        tokio::spawn(sort(Arc::clone(&port), single, admits, new, short));
        Ok(Self { port, single, coming, next: None })
    }

    /// Starts the flow of the next sender; `None` if the port is no longer read.
    ///
    /// # Errors
    /// The error of socketpair(2), after which the same sender is next.
    pub async fn next(&mut self) -> io::Result<Option<NewFlow>> {
        if self.next.is_none() {
            self.next = self.coming.recv().await;
        }
        let Some(FirstDatagram { route, datagram, .. }) = &self.next else { return Ok(None) };
        let (flow, far, served) = Flow::begin(&self.port, *route, self.single)?;
        self.port.gives(&flow, datagram);
        let route = *route;
        let facts = self.next.take().map(|first| first.facts).unwrap_or_default();
        if self.single {
            flow.has_all();
            return Ok(Some((far, route, served, facts)));
        }
        let mut senders = self.port.senders.lock().unpoisoned();
        for datagram in senders.take_waiting(route) {
            self.port.gives(&flow, &datagram);
        }
        senders.by_route.insert(route, Sender::Served(flow));
        Ok(Some((far, route, served, facts)))
    }
}

impl Senders {
    /// Removes a waiting sender, and returns its datagrams.
    fn take_waiting(&mut self, route: Route) -> Vec<Vec<u8>> {
        let Some(Sender::Waiting(more)) = self.by_route.remove(&route) else {
            return Vec::new();
        };
        self.waiting_bytes -= more.iter().map(Vec::len).sum::<usize>();
        more
    }
}

impl Port {
    /// Gives `datagram` to a flow; `false` if the flow has ended.
    fn gives(&self, flow: &Flow, datagram: &[u8]) -> bool {
        match flow.passes(datagram) {
            Passing::Passed => true,
            // UDP may lose datagrams, and waiting would delay all senders.
            Passing::NoRoom => {
                self.drops();
                true
            }
            Passing::Ended => false,
        }
    }

    fn drops(&self) {
        self.counts.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes ended flows, and waiting senders if the port is closed to new ones. Are any left?
    fn has_flows(&self, is_closed: bool) -> bool {
        let mut senders = self.senders.lock().unpoisoned();
        senders.by_route.retain(|_, sender| match sender {
            Sender::Waiting(_) => !is_closed,
            Sender::Served(flow) => !flow.has_ended(),
        });
        if is_closed {
            senders.waiting_bytes = 0;
        }
        !senders.by_route.is_empty()
    }

    /// Evicts as many flows as senders wait, the longest silent first.
    fn evict(&self) {
        let senders = self.senders.lock().unpoisoned();
        let (mut silent, mut waiting) = (Vec::new(), 0);
        for sender in senders.by_route.values() {
            match sender {
                Sender::Waiting(_) => waiting += 1,
                Sender::Served(flow) => silent.push((flow.silence(), flow)),
            }
        }
        silent.retain(|(silence, _)| *silence >= EVICTABLE);
        silent.sort_by_key(|(silence, _)| std::cmp::Reverse(*silence));
        silent.iter().take(waiting).for_each(|(_, flow)| flow.room.notify_one());
    }

    /// Gives a datagram to the flow of its sender, if there is one.
    fn passes(&self, route: Route, datagram: &[u8]) -> bool {
        let mut senders = self.senders.lock().unpoisoned();
        let Senders { by_route, waiting_bytes } = &mut *senders;
        match by_route.get_mut(&route) {
            None => return false,
            Some(Sender::Waiting(more)) => {
                // The first one is in the channel.
                if more.len() + 1 < WAITING_DATAGRAMS
                    && *waiting_bytes + datagram.len() <= WAITING_BYTES
                {
                    *waiting_bytes += datagram.len();
                    more.push(datagram.to_vec());
                } else {
                    self.drops();
                }
                return true;
            }
            Some(Sender::Served(flow)) if self.gives(flow, datagram) => return true,
            Some(Sender::Served(_)) => {}
        }
        // Its flow has ended: the sender is a new one.
        by_route.remove(&route);
        false
    }
}

/// Reads the port until no new flows are wanted and none is left.
async fn sort(
    port: Arc<Port>,
    single: bool,
    mut admits: impl FnMut(SocketAddr, usize) -> bool + Send,
    new: mpsc::Sender<FirstDatagram>,
    short: Arc<AtomicBool>,
) {
    let mut buffer = vec![0; DATAGRAM_BYTES];
    // By a clock, because flows end without a message.
    let mut looks = interval(CHECK_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut has_flows = false;
    // Only while senders are served in time: waiting for a place delays all flows.
    let mut is_taken = true;
    let mut warnings = Throttle::default();
    loop {
        let read = tokio::select! {
            read = receive(&port, &mut buffer) => read,
            // While there are flows the port is still read for them.
            () = new.closed(), if !has_flows => return,
            _ = looks.tick(), if has_flows => {
                has_flows = port.has_flows(new.is_closed());
                if short.load(Ordering::Relaxed) {
                    port.evict();
                }
                continue;
            }
        };
        let (count, route, facts) = match read {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!("a UDP port cannot be read: {error}");
                return;
            }
        };
        let datagram = &buffer[..count];
        if port.passes(route, datagram) || new.is_closed() || !admits(route.sender, count) {
            continue;
        }
        let place = match new.try_reserve() {
            Ok(place) => Some(place),
            Err(_) if is_taken => {
                timeout(QUEUE_TIMEOUT, new.reserve()).await.ok().and_then(Result::ok)
            }
            Err(_) => None,
        };
        is_taken = place.is_some();
        let Some(place) = place else {
            port.drops();
            if let Some(suppressed) = warnings.passes(Instant::now()) {
                let sender = route.sender;
                tracing::warn!(
                    "{WAITING} senders wait for a place: dropped a datagram from {sender}{suppressed}"
                );
            }
            continue;
        };
        if !single {
            // First, since its next datagram may come before it is served.
            port.senders.lock().unpoisoned().by_route.insert(route, Sender::Waiting(Vec::new()));
            has_flows = true;
        }
        place.send(FirstDatagram { route, datagram: datagram.to_vec(), facts });
    }
}

/// What became of a datagram for a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passing {
    Passed,
    /// The queue is full.
    NoRoom,
    Ended,
}

/// A sender's flow, for as long as its task holds our end.
#[derive(Debug)]
struct Flow {
    near: std::sync::Weak<Near>,
    room: Arc<Notify>,
}

/// Our end of a flow.
#[derive(Debug)]
struct Near {
    socket: AsyncFd<OwnedFd>,
    /// When a datagram last passed, in either direction.
    passed: Mutex<Instant>,
}

impl Near {
    fn has_passed(&self) {
        *self.passed.lock().unpoisoned() = Instant::now();
    }
}

impl Flow {
    /// An empty datagram is no end; the relay drops its [`Served`] when no more answers come.
    fn begin(port: &Arc<Port>, route: Route, single: bool) -> io::Result<(Self, OwnedFd, Served)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // A single datagram is followed by an end of data, which SOCK_DGRAM does not have.
        let kind = if single { SocketType::SEQPACKET } else { SocketType::DGRAM };
        let (near, far) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
        let socket = watch(near, Interest::READABLE | Interest::WRITABLE)?;
        let near = Arc::new(Near { socket, passed: Mutex::new(Instant::now()) });
        let room = Arc::new(Notify::new());
        let flow = Self { near: Arc::downgrade(&near), room: Arc::clone(&room) };
        let (over, is_over) = oneshot::channel();
        // A separate task: a full socket must not delay the sorting.
        tokio::spawn(answer(near, Arc::clone(port), route, is_over, single));
        Ok((flow, far, Served { _over: over, room }))
    }

    fn has_ended(&self) -> bool {
        self.near.strong_count() == 0
    }

    fn silence(&self) -> Duration {
        // An ended flow has no descriptors to give up.
        let Some(near) = self.near.upgrade() else { return Duration::ZERO };
        near.passed.lock().unpoisoned().elapsed()
    }

    /// Gives a datagram to the relay.
    fn passes(&self, datagram: &[u8]) -> Passing {
        let Some(near) = self.near.upgrade() else { return Passing::Ended };
        near.has_passed();
        match rustix::net::send(near.socket.get_ref(), datagram, SendFlags::NOSIGNAL) {
            Ok(_) => Passing::Passed,
            // The relay's end is closed.
            Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN | Errno::CONNREFUSED) => {
                Passing::Ended
            }
            Err(_) => Passing::NoRoom,
        }
    }

    /// Ends the data of the relay.
    fn has_all(&self) {
        if let Some(near) = self.near.upgrade() {
            let _ = rustix::net::shutdown(near.socket.get_ref(), Shutdown::Write);
        }
    }
}

/// Sends the relay's answers until the relay has ended, then closes our end.
async fn answer(
    near: Arc<Near>,
    port: Arc<Port>,
    route: Route,
    mut is_over: oneshot::Receiver<()>,
    single: bool,
) {
    let mut is_last = false;
    let mut buffer = vec![0; DATAGRAM_BYTES];
    loop {
        let taken = match is_last {
            // Readiness may be reported after the end: the queue is read until it is empty.
            true => recv(near.socket.get_ref(), &mut buffer),
            false => tokio::select! {
                taken = near.socket.async_io(Interest::READABLE, |near| recv(near, &mut buffer)) => {
                    taken
                }
                _ = &mut is_over => {
                    is_last = true;
                    continue;
                }
            },
        };
        // From SOCK_SEQPACKET 0 bytes are the end.
        let Ok(count) = taken else { return };
        if count == 0 && single {
            return;
        }
        near.has_passed();
        if let Err(error) = send(&port.socket, &buffer[..count], route).await {
            // UDP promises no arrival, and the next datagram may arrive.
            tracing::debug!("{}: a datagram cannot be sent: {error}", route.sender);
        }
    }
}

async fn receive(port: &Port, buffer: &mut [u8]) -> io::Result<(usize, Route, Vec<Fact>)> {
    let mut facts = Vec::new();
    loop {
        let mut ready = port.socket.readable().await?;
        let socket = port.socket.get_ref().as_fd();
        let wanted = port.has_facts.then_some(&mut facts);
        match Route::receive(socket, buffer, MsgFlags::empty(), wanted) {
            Ok((count, Some(route))) => return Ok((count, route, facts)),
            // ECONNREFUSED is about an earlier answer.
            Ok(_) | Err(Errno::CONNREFUSED | Errno::INTR) => tokio::task::yield_now().await,
            Err(Errno::AGAIN) => ready.clear_ready(),
            Err(errno) => return Err(errno.into()),
        }
    }
}

pub(super) fn recv(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    let received = retry_on_intr(|| rustix::net::recv(socket, &mut *buffer, RecvFlags::empty()));
    Ok(received.map(|(_, count)| count)?)
}

async fn send(socket: &AsyncFd<OwnedFd>, datagram: &[u8], route: Route) -> io::Result<()> {
    let send = |socket: &OwnedFd| loop {
        match route.answer(socket.as_fd(), datagram) {
            // ECONNREFUSED is about an earlier datagram.
            Err(Errno::INTR | Errno::CONNREFUSED) => {}
            answer => return Ok(answer?),
        }
    };
    socket.async_io(Interest::WRITABLE, send).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_that_is_served_waits_no_longer() {
        let route = |port| Route { sender: ([127, 0, 0, 1], port).into(), local: None };
        let mut senders = Senders { waiting_bytes: 12, ..Senders::default() };
        for (port, datagram) in [(1, vec![0; 5]), (2, vec![0; 7])] {
            senders.by_route.insert(route(port), Sender::Waiting(vec![datagram]));
        }
        assert_eq!(senders.take_waiting(route(1)), [vec![0; 5]]);
        assert_eq!((senders.waiting_bytes, senders.by_route.len()), (7, 1));
    }
}
