//! UDP listeners that serve every sender: a flow for each, with a socket pair between it and its relay.
//!
//! One task reads the port and sorts datagrams by their senders. A flow's relay has one end of a pair, which keeps
//! the boundaries of datagrams; a task of the flow sends what comes out of the other. A connected socket for each
//! sender would take datagrams of others between its bind(2) and its connect(2).

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, socketpair,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

use crate::watch::watch;

/// Flows that wait to be served; datagrams of further senders are dropped, as those are that find a full queue.
const WAITING: usize = 64;

/// How often flows that have ended are let go of.
const LOOK: Duration = Duration::from_secs(1);

/// The largest datagram (udp(7)).
const DATAGRAM_BYTES: usize = 1 << 16;

/// A sender's first datagram has come, and waits in this socket.
pub(super) type NewFlow = (OwnedFd, SocketAddr);

/// The flows of a port. Those that are served go on when this is dropped.
#[derive(Debug)]
pub(super) struct Flows {
    coming: mpsc::Receiver<NewFlow>,
}

impl Flows {
    /// Reads `socket` from now on; `admits` says whose datagrams are taken.
    pub fn start(
        socket: OwnedFd,
        admits: impl FnMut(SocketAddr) -> bool + Send + 'static,
    ) -> io::Result<Self> {
        let socket = Arc::new(watch(socket, Interest::READABLE | Interest::WRITABLE)?);
        let (tell, coming) = mpsc::channel(WAITING);
        tokio::spawn(sort(socket, admits, tell));
        Ok(Self { coming })
    }

    /// The next sender.
    pub async fn next(&mut self) -> Option<NewFlow> {
        self.coming.recv().await
    }
}

/// Our end of a flow. Its task holds another reference until the flow has ended.
type Near = Arc<AsyncFd<OwnedFd>>;

/// The work of the reading task: over when nobody wants new flows and none is left.
async fn sort(
    socket: Arc<AsyncFd<OwnedFd>>,
    mut admits: impl FnMut(SocketAddr) -> bool + Send,
    tell: mpsc::Sender<NewFlow>,
) {
    let mut flows: HashMap<SocketAddr, Flow> = HashMap::new();
    let mut buffer = vec![0; DATAGRAM_BYTES];
    loop {
        let read = tokio::select! {
            read = receive(&socket, &mut buffer) => read,
            () = tell.closed(), if flows.is_empty() => return,
            // Looked at now and then, for the flows end by themselves.
            () = tokio::time::sleep(LOOK), if !flows.is_empty() => {
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
                flows.insert(sender, flow);
                place.send((far, sender));
            }
            Err(error) => tracing::debug!("{sender}: no flow can begin: {error}"),
        }
    }
}

#[derive(Debug)]
struct Flow {
    near: Near,
    answers: tokio::task::JoinHandle<()>,
}

impl Flow {
    fn begin(socket: &Arc<AsyncFd<OwnedFd>>, peer: SocketAddr) -> io::Result<(Self, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (near, far) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let near = Arc::new(watch(near, Interest::READABLE | Interest::WRITABLE)?);
        let answers = tokio::spawn(answer(Arc::clone(&near), Arc::clone(socket), peer));
        Ok((Self { near, answers }, far))
    }

    fn has_ended(&self) -> bool {
        self.answers.is_finished()
    }

    /// Gives a datagram to the relay, unless the flow has ended. One that finds no room is dropped, as UDP does; so
    /// is an empty one, which would be the end here.
    fn passes(&self, datagram: &[u8]) -> bool {
        if self.has_ended() {
            return false;
        }
        datagram.is_empty()
            || !matches!(
                rustix::net::send(self.near.get_ref(), datagram, SendFlags::NOSIGNAL),
                Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN)
            )
    }
}

/// Sends what the relay answers, until the relay has ended.
async fn answer(near: Near, socket: Arc<AsyncFd<OwnedFd>>, peer: SocketAddr) {
    let mut buffer = vec![0; DATAGRAM_BYTES];
    while let Ok(count @ 1..) = take(&near, &mut buffer).await {
        if let Err(error) = send(&socket, &buffer[..count], peer).await {
            tracing::debug!("{peer}: a datagram cannot be sent: {error}");
        }
    }
    // The relay sees the end of the flow.
    let _ = rustix::net::shutdown(near.get_ref(), Shutdown::Both);
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
            // The second is about an earlier datagram.
            Err(Errno::INTR | Errno::CONNREFUSED) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}
