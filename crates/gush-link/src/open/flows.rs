//! UDP listeners that serve every sender: each sender has a flow, with a socket pair between the flow and its
//! relay.
//!
//! One task reads the port and sorts datagrams by their senders. A flow's relay has one end of the pair,
//! which keeps the boundaries of datagrams. A task of the flow reads the other end and sends the relay's
//! answers. The alternative, a connected socket for each sender, would take datagrams of others between its
//! bind(2) and its connect(2).

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, socketpair,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use crate::watch::watch;

/// The most flows that wait to be served. Datagrams of further senders are dropped, as are those for a full
/// queue.
const WAITING: usize = 64;

/// How often ended flows are removed.
const LOOK: Duration = Duration::from_secs(1);

/// The largest datagram (udp(7)).
pub(super) const DATAGRAM_BYTES: usize = 1 << 16;

/// A new flow: a socket with the sender's first datagram, and the sender.
pub(super) type NewFlow = (OwnedFd, SocketAddr);

/// The flows of a port. Flows already served go on when this value is dropped.
#[derive(Debug)]
pub(super) struct Flows {
    coming: mpsc::Receiver<NewFlow>,
}

impl Flows {
    /// Starts to read `socket`; `admits` decides whose datagrams are taken. With `single` each datagram is a flow.
    pub fn start(
        socket: OwnedFd,
        single: bool,
        admits: impl FnMut(SocketAddr) -> bool + Send + 'static,
    ) -> io::Result<Self> {
        let socket = Arc::new(watch(socket, Interest::READABLE | Interest::WRITABLE)?);
        let (tell, coming) = mpsc::channel(WAITING);
        tokio::spawn(sort(socket, single, admits, tell));
        Ok(Self { coming })
    }

    /// The next sender.
    pub async fn next(&mut self) -> Option<NewFlow> {
        self.coming.recv().await
    }
}

/// Our end of a flow.
type Near = AsyncFd<OwnedFd>;

/// The work of the reading task, over when nobody wants new flows and no flow is left.
async fn sort(
    socket: Arc<AsyncFd<OwnedFd>>,
    single: bool,
    mut admits: impl FnMut(SocketAddr) -> bool + Send,
    tell: mpsc::Sender<NewFlow>,
) {
    let mut flows: HashMap<SocketAddr, Flow> = HashMap::new();
    let mut buffer = vec![0; DATAGRAM_BYTES];
    // A clock, because flows end without a message, and a port with much traffic is never silent for long.
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let read = tokio::select! {
            read = receive(&socket, &mut buffer) => read,
            () = tell.closed(), if flows.is_empty() => return,
            _ = looks.tick(), if !flows.is_empty() => {
                flows.retain(|_, flow| !flow.has_ended());
                continue;
            }
        };
        let (count, sender) = match read {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!("a UDP port cannot be read: {error}");
                return;
            }
        };
        let datagram = &buffer[..count];
        if let Some(flow) = flows.get(&sender) {
            if flow.passes(datagram) {
                continue;
            }
            flows.remove(&sender);
        }
        if tell.is_closed() || !admits(sender) {
            continue;
        }
        let Ok(place) = tell.try_reserve() else { continue };
        match Flow::begin(&socket, sender) {
            Ok((flow, far)) => {
                flow.passes(datagram);
                if single {
                    // The flow's own task holds what its answers need.
                    flow.has_all();
                } else {
                    flows.insert(sender, flow);
                }
                place.send((far, sender));
            }
            Err(error) => tracing::debug!("{sender}: no flow can begin: {error}"),
        }
    }
}

/// A sender's flow, for as long as its task holds our end.
#[derive(Debug)]
struct Flow {
    near: Weak<Near>,
}

impl Flow {
    fn begin(socket: &Arc<AsyncFd<OwnedFd>>, peer: SocketAddr) -> io::Result<(Self, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (near, far) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let near = Arc::new(watch(near, Interest::READABLE | Interest::WRITABLE)?);
        let flow = Self { near: Arc::downgrade(&near) };
        tokio::spawn(answer(near, Arc::clone(socket), peer));
        Ok((flow, far))
    }

    fn has_ended(&self) -> bool {
        self.near.strong_count() == 0
    }

    /// Gives a datagram to the relay; `false` if the flow has ended. A datagram without room is dropped, as
    /// UDP does. Of an empty one the relay finds that it is no end, as the socket is still open, and drops it.
    fn passes(&self, datagram: &[u8]) -> bool {
        let Some(near) = self.near.upgrade() else { return false };
        !matches!(
            rustix::net::send(near.get_ref(), datagram, SendFlags::NOSIGNAL),
            Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN)
        )
    }

    /// No datagram follows: the relay sees the end of data.
    fn has_all(&self) {
        if let Some(near) = self.near.upgrade() {
            let _ = rustix::net::shutdown(near.get_ref(), Shutdown::Write);
        }
    }
}

/// Sends the relay's answers until the relay has ended. Our end is closed with this task: a flow that has ended keeps no
/// descriptor.
async fn answer(near: Arc<Near>, socket: Arc<AsyncFd<OwnedFd>>, peer: SocketAddr) {
    let mut buffer = vec![0; DATAGRAM_BYTES];
    while let Ok(count @ 1..) = take(&near, &mut buffer).await {
        if let Err(error) = send(&socket, &buffer[..count], peer).await {
            tracing::debug!("{peer}: a datagram cannot be sent: {error}");
        }
    }
}

async fn receive(socket: &AsyncFd<OwnedFd>, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
    loop {
        let mut ready = socket.readable().await?;
        match rustix::net::recvfrom(socket.get_ref(), &mut *buffer, RecvFlags::empty()) {
            Ok((_, count, Some(sender))) => {
                if let Ok(sender) = SocketAddr::try_from(sender) {
                    return Ok((count, sender));
                }
            }
            Ok(_) | Err(Errno::CONNREFUSED | Errno::INTR) => tokio::task::yield_now().await,
            Err(Errno::AGAIN) => ready.clear_ready(),
            Err(errno) => return Err(errno.into()),
        }
    }
}

async fn take(near: &AsyncFd<OwnedFd>, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        let mut ready = near.readable().await?;
        match rustix::net::recv(near.get_ref(), &mut *buffer, RecvFlags::empty()) {
            Ok((_, count)) => return Ok(count),
            Err(Errno::AGAIN) => ready.clear_ready(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

async fn send(socket: &AsyncFd<OwnedFd>, datagram: &[u8], peer: SocketAddr) -> io::Result<()> {
    loop {
        let mut ready = socket.writable().await?;
        match rustix::net::sendto(socket.get_ref(), datagram, SendFlags::NOSIGNAL, &peer) {
            Ok(_) => return Ok(()),
            Err(Errno::AGAIN) => ready.clear_ready(),
            // ECONNREFUSED is about an earlier datagram.
            Err(Errno::INTR | Errno::CONNREFUSED) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}
