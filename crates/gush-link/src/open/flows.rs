//! UDP listeners that serve every sender: each sender has a flow, with a socket pair between the flow and its
//! relay.
//!
//! One task reads the port and sorts datagrams by their senders. A flow's relay has one end of the pair, a socket of
//! datagrams as UDP is one. A task of the flow reads the other end and sends the relay's
//! answers. The alternative, a connected socket for each sender, would take datagrams of others between its
//! bind(2) and its connect(2).
//!
//! A sender who waits for a place has no descriptor yet. Where places are short for want of descriptors, the flow that has
//! been silent longest makes room.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::socket::MsgFlags;
use rustix::event::PollFlags;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, socketpair,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::gate::ListenerCounts;
use super::route::Route;
use super::throttle::Throttle;
use crate::watch::watch;

/// The most senders that wait to be served. Datagrams of further ones are dropped, as are those for a full queue.
const WAITING: usize = 64;

/// The most datagrams that wait with their sender: as many as a socket of the pair holds (max_dgram_qlen, unix(7)).
const WAITING_DATAGRAMS: usize = 10;

/// The most bytes of datagrams behind the first that wait with all senders together: 64 times ten of the largest would be 41 MB.
const WAITING_BYTES: usize = 1 << 20;

/// How long a new sender waits for a place in that queue. Meanwhile the port's socket keeps what comes.
const PATIENCE: Duration = Duration::from_millis(50);

/// The interval of looks for flows that have ended, or shall make room.
const LOOK: Duration = Duration::from_millis(250);

/// A flow that has been silent for so long may make room for another.
const SILENCE: Duration = Duration::from_millis(500);

/// The pause before another look at a socket whose error the relay has not taken yet.
const ERROR_LOOK: Duration = Duration::from_millis(10);

/// The largest datagram (udp(7)).
pub(super) const DATAGRAM_BYTES: usize = 1 << 16;

/// A flow begun: the relay's socket, the route of the sender, and what lives as long as the relay.
pub(super) type NewFlow = (OwnedFd, Route, Served);

/// The flows of a port. Flows already served go on when this value is dropped.
#[derive(Debug)]
pub(super) struct Flows {
    port: Arc<Port>,
    single: bool,
    coming: mpsc::Receiver<(Route, Vec<u8>)>,
    /// Taken, and without descriptors so far.
    next: Option<(Route, Vec<u8>)>,
}

/// What the relay's side of a flow holds until the connection is over.
#[derive(Debug)]
pub(crate) struct Served {
    /// Tells by its end that no more answers come.
    _over: oneshot::Sender<()>,
    room: Arc<Notify>,
}

impl Served {
    /// Over when the flow has to make room for another sender.
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
}

/// Those whose datagrams come, by their addresses and ours.
#[derive(Debug, Default)]
struct Senders {
    by_route: HashMap<Route, Sender>,
    /// Of all datagrams in `Sender::Waiting`.
    waiting_bytes: usize,
}

/// Somebody whose datagrams come.
#[derive(Debug)]
enum Sender {
    /// The datagrams behind the first.
    Waiting(Vec<Vec<u8>>),
    Served(Flow),
}

impl Flows {
    /// Starts to read `socket`; `admits` decides whose datagrams are taken. With `single` each datagram is a flow. While
    /// places are `short`, flows make room. Datagrams without room are counted in `dropped`.
    pub fn start(
        socket: OwnedFd,
        single: bool,
        admits: impl FnMut(SocketAddr) -> bool + Send + 'static,
        short: Arc<AtomicBool>,
        counts: Arc<ListenerCounts>,
    ) -> io::Result<Self> {
        // One registration for both: epoll takes a descriptor once.
        let socket = watch(socket, Interest::READABLE | Interest::WRITABLE)?;
        let port = Arc::new(Port { socket, senders: Mutex::default(), counts });
        let (tell, coming) = mpsc::channel(WAITING);
        tokio::spawn(sort(Arc::clone(&port), single, admits, tell, short));
        Ok(Self { port, single, coming, next: None })
    }

    /// Begins the flow of the next sender; `None` when the port is not read any more.
    ///
    /// # Errors
    /// The error of socketpair(2): the sender is the next one again.
    pub async fn next(&mut self) -> io::Result<Option<NewFlow>> {
        if self.next.is_none() {
            self.next = self.coming.recv().await;
        }
        let Some((route, first)) = &self.next else { return Ok(None) };
        let (flow, far, served) = Flow::begin(&self.port, *route, self.single)?;
        self.port.gives(&flow, first);
        let route = *route;
        self.next = None;
        if self.single {
            flow.has_all();
            return Ok(Some((far, route, served)));
        }
        let mut senders = self.port.senders();
        for datagram in senders.take_waiting(route) {
            self.port.gives(&flow, &datagram);
        }
        senders.by_route.insert(route, Sender::Served(flow));
        Ok(Some((far, route, served)))
    }
}

impl Senders {
    /// The datagrams that wait with the sender of `route`, who is forgotten.
    fn take_waiting(&mut self, route: Route) -> Vec<Vec<u8>> {
        let Some(Sender::Waiting(more)) = self.by_route.remove(&route) else {
            return Vec::new();
        };
        // Given back at once: the bytes of all senders together are bounded.
        self.waiting_bytes -= more.iter().map(Vec::len).sum::<usize>();
        more
    }
}

impl Port {
    fn senders(&self) -> MutexGuard<'_, Senders> {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives `datagram` to a flow; `false` if the flow has ended.
    fn gives(&self, flow: &Flow, datagram: &[u8]) -> bool {
        match flow.passes(datagram) {
            Passing::Passed => true,
            // UDP may lose datagrams, and the kernel's own queue would: a wait here would hold all senders.
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

    /// Forgets ended flows, and waiting ones of a port closed to new senders. Are any left?
    fn has_flows(&self, is_closed: bool) -> bool {
        let mut senders = self.senders();
        senders.by_route.retain(|_, sender| match sender {
            Sender::Waiting(_) => !is_closed,
            Sender::Served(flow) => !flow.has_ended(),
        });
        if is_closed {
            senders.waiting_bytes = 0;
        }
        !senders.by_route.is_empty()
    }

    /// As many flows as there are senders that wait make room, those that have been silent longest.
    fn make_room(&self) {
        let senders = self.senders();
        let (mut silent, mut waiting) = (Vec::new(), 0);
        for sender in senders.by_route.values() {
            match sender {
                Sender::Waiting(_) => waiting += 1,
                Sender::Served(flow) => silent.push((flow.silence(), flow)),
            }
        }
        // A sender in the middle of a conversation is not ended for a new one.
        silent.retain(|(silence, _)| *silence >= SILENCE);
        // The longest silent first: an answer is least likely to be missed there.
        silent.sort_by_key(|(silence, _)| std::cmp::Reverse(*silence));
        silent.iter().take(waiting).for_each(|(_, flow)| flow.room.notify_one());
    }

    /// Gives a datagram to the flow of its sender, if there is one.
    fn passes(&self, route: Route, datagram: &[u8]) -> bool {
        let mut senders = self.senders();
        let Senders { by_route, waiting_bytes } = &mut *senders;
        match by_route.get_mut(&route) {
            None => return false,
            Some(Sender::Waiting(more)) => {
                // One counts already: the first is in the channel.
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
        // Its flow has ended, so that the sender is a new one from here on.
        by_route.remove(&route);
        false
    }
}

/// The work of the reading task, over when nobody wants new flows and no flow is left.
async fn sort(
    port: Arc<Port>,
    single: bool,
    mut admits: impl FnMut(SocketAddr) -> bool + Send,
    tell: mpsc::Sender<(Route, Vec<u8>)>,
    short: Arc<AtomicBool>,
) {
    let mut buffer = vec![0; DATAGRAM_BYTES];
    // A clock, because flows end without a message, and a port with much traffic is never silent for long.
    let mut looks = interval(LOOK);
    // After a busy moment one look is enough: missed ticks would only be made up for.
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut has_flows = false;
    // Whoever takes the senders takes them in time: a wait for one that does not would hold all flows back.
    let mut is_taken = true;
    let mut warnings = Throttle::default();
    loop {
        let read = tokio::select! {
            read = receive(&port.socket, &mut buffer) => read,
            // While flows live the port is still read for them, though no new sender is admitted.
            () = tell.closed(), if !has_flows => return,
            _ = looks.tick(), if has_flows => {
                has_flows = port.has_flows(tell.is_closed());
                if short.load(Ordering::Relaxed) {
                    port.make_room();
                }
                continue;
            }
        };
        let (count, route) = match read {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!("a UDP port cannot be read: {error}");
                return;
            }
        };
        let datagram = &buffer[..count];
        // Known senders first: only a new one has to be admitted.
        if port.passes(route, datagram) || tell.is_closed() || !admits(route.sender) {
            continue;
        }
        let place = match tell.try_reserve() {
            Ok(place) => Some(place),
            Err(_) if is_taken => timeout(PATIENCE, tell.reserve()).await.ok().and_then(Result::ok),
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
            // Before it is told: its next datagram may come before the place is taken.
            port.senders().by_route.insert(route, Sender::Waiting(Vec::new()));
            has_flows = true;
        }
        place.send((route, datagram.to_vec()));
    }
}

/// What became of a datagram for a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passing {
    Passed,
    /// The relay has not taken those before: this one is dropped, as UDP does.
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
        *self.passed.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

impl Flow {
    /// A single datagram has an end behind it, which a socket of SOCK_SEQPACKET tells. On any other flow an empty datagram
    /// is one like all, and the relay says by dropping its [`Served`] that no more answers come.
    fn begin(port: &Arc<Port>, route: Route, single: bool) -> io::Result<(Self, OwnedFd, Served)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // A single datagram has an end behind it, and a pair of SOCK_DGRAM has no way to say so.
        let kind = if single { SocketType::SEQPACKET } else { SocketType::DGRAM };
        let (near, far) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
        let socket = watch(near, Interest::READABLE | Interest::WRITABLE)?;
        let near = Arc::new(Near { socket, passed: Mutex::new(Instant::now()) });
        let room = Arc::new(Notify::new());
        let flow = Self { near: Arc::downgrade(&near), room: Arc::clone(&room) };
        let (over, is_over) = oneshot::channel();
        // A task each: a port that takes nothing holds back one answer, and not the sorting.
        tokio::spawn(answer(near, Arc::clone(port), route, is_over, single));
        Ok((flow, far, Served { _over: over, room }))
    }

    fn has_ended(&self) -> bool {
        self.near.strong_count() == 0
    }

    fn silence(&self) -> Duration {
        // An ended flow makes no room: it has given its descriptors back.
        let Some(near) = self.near.upgrade() else { return Duration::ZERO };
        near.passed.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// Gives a datagram to the relay.
    fn passes(&self, datagram: &[u8]) -> Passing {
        let Some(near) = self.near.upgrade() else { return Passing::Ended };
        near.has_passed();
        match rustix::net::send(near.socket.get_ref(), datagram, SendFlags::NOSIGNAL) {
            Ok(_) => Passing::Passed,
            // The relay's end is closed: all four are answers of a pair without its other half.
            Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN | Errno::CONNREFUSED) => {
                Passing::Ended
            }
            Err(_) => Passing::NoRoom,
        }
    }

    /// No datagram follows: the relay sees the end of data.
    fn has_all(&self) {
        if let Some(near) = self.near.upgrade() {
            let _ = rustix::net::shutdown(near.socket.get_ref(), Shutdown::Write);
        }
    }
}

/// Sends the relay's answers until the relay has ended. Our end is closed with this task: a flow that has ended keeps no
/// descriptor.
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
            // Readiness may be told later than the end: what is there is asked for until there is nothing more.
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
        // From a socket of SOCK_SEQPACKET 0 bytes are the end.
        let Ok(count) = taken else { return };
        if count == 0 && single {
            return;
        }
        near.has_passed();
        if let Err(error) = send(&port.socket, &buffer[..count], route).await {
            // Not a failure: UDP promises no arrival, and the next datagram may find its way.
            tracing::debug!("{}: a datagram cannot be sent: {error}", route.sender);
        }
    }
}

async fn receive(socket: &AsyncFd<OwnedFd>, buffer: &mut [u8]) -> io::Result<(usize, Route)> {
    loop {
        let mut ready = socket.readable().await?;
        match Route::receive(socket.get_ref().as_fd(), buffer, MsgFlags::empty()) {
            Ok((count, Some(route))) => return Ok((count, route)),
            // ECONNREFUSED tells of an earlier answer that nobody took; this socket serves others as well.
            Ok(_) | Err(Errno::CONNREFUSED | Errno::INTR) => tokio::task::yield_now().await,
            Err(Errno::AGAIN) => ready.clear_ready(),
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn recv(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
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

/// A socket from which `first` come, and then the datagrams of `socket`, which is connected. They are passed on until nobody
/// has the socket any more.
pub(super) fn behind(first: Vec<Vec<u8>>, socket: OwnedFd) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (near, far) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    let near = watch(near, Interest::WRITABLE)?;
    let socket = watch(socket, Interest::READABLE)?;
    tokio::spawn(pass_on(first, socket, near));
    Ok(far)
}

async fn pass_on(
    first: Vec<Vec<u8>>,
    socket: AsyncFd<OwnedFd>,
    near: AsyncFd<OwnedFd>,
) -> io::Result<Infallible> {
    for datagram in &first {
        give(&near, datagram).await?;
    }
    let mut buffer = vec![0; DATAGRAM_BYTES];
    loop {
        let mut ready = socket.readable().await?;
        // An error of the socket is for the relay, which writes there.
        if gush::poll_now(socket.get_ref(), PollFlags::IN)?.contains(PollFlags::ERR) {
            tokio::time::sleep(ERROR_LOOK).await;
            continue;
        }
        match recv(socket.get_ref(), &mut buffer) {
            Ok(count) => give(&near, &buffer[..count]).await?,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(error),
        }
    }
}

async fn give(near: &AsyncFd<OwnedFd>, datagram: &[u8]) -> io::Result<()> {
    let send = |near: &OwnedFd| {
        retry_on_intr(|| rustix::net::send(near, datagram, SendFlags::NOSIGNAL))?;
        Ok(())
    };
    near.async_io(Interest::WRITABLE, send).await
}
