//! Accepting: who may come, and what happens at the limit of descriptors.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ipnet::IpNet;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketFlags, SocketType, sockopt};
use rustix::process::{Resource, getrlimit};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::End;
use super::error::OpenError;
use super::keeper::Made;
use super::peer::Peer;
use crate::address::Options;
use crate::conduit::Conduit;
use crate::watch::watch;

/// Descriptors that serving one client may take: its own, those of the other end, and pipes.
const SPARE: u64 = 8;

/// The longest pause between two looks whether descriptors are free again.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// A socket that waits for peers.
///
/// It may be made anywhere; it registers with the tokio runtime that first accepts. Dropped, it removes the Unix
/// socket that it made.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    kind: SocketType,
    ranges: Vec<IpNet>,
    strangers: Arc<AtomicU64>,
    address: String,
    /// Accepted, and waiting for room.
    waiting: Option<(OwnedFd, Peer)>,
    /// Only to be dropped.
    _made: Option<Made>,
}

#[derive(Debug)]
enum Socket {
    Waiting(OwnedFd),
    Registered(AsyncFd<OwnedFd>),
    /// A UDP socket is its first peer's.
    Given,
}

impl Listener {
    pub(super) fn new(
        fd: OwnedFd,
        options: &Options,
        made: Option<Made>,
    ) -> Result<Self, OpenError> {
        let kind = sockopt::socket_type(&fd).map_err(|errno| OpenError::new("listen", errno))?;
        Ok(Self {
            socket: Socket::Waiting(fd),
            kind,
            ranges: options.ranges().to_vec(),
            strangers: Arc::default(),
            address: String::new(),
            waiting: None,
            _made: made,
        })
    }

    pub(super) fn at(mut self, address: String) -> Self {
        self.address = address;
        self
    }

    /// The address that it was opened by.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Where it really listens: port 0 has become a number.
    ///
    /// # Errors
    /// What getsockname(2) answers.
    pub fn local(&self) -> io::Result<Peer> {
        let fd = self.fd().ok_or(Errno::BADF)?;
        let address = rustix::net::getsockname(fd)?;
        Ok(match SocketAddr::try_from(address.clone()) {
            Ok(ip) => Peer::Ip(ip),
            Err(_) => Peer::of_socket(Some(address), fd),
        })
    }

    /// How many peers came from outside `range=` and were closed at once.
    #[must_use]
    pub fn strangers(&self) -> u64 {
        self.strangers.load(Ordering::Relaxed)
    }

    /// Counts strangers there from now on, where others can read it while it accepts.
    pub(crate) fn count_strangers_in(&mut self, counter: &Arc<AtomicU64>) {
        self.strangers = Arc::clone(counter);
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.socket {
            Socket::Waiting(fd) => Some(fd.as_fd()),
            Socket::Registered(fd) => Some(fd.get_ref().as_fd()),
            Socket::Given => None,
        }
    }

    /// The next peer.
    ///
    /// Peers from outside `range=` are closed at once and counted. At the limit of descriptors it waits until some
    /// are free: the next peers stay in the kernel's queue. It may be cancelled: nobody is lost.
    ///
    /// # Errors
    /// What accept(2) answers beyond what passes by itself; a UDP socket that has its peer already.
    pub async fn accept(&mut self) -> Result<End, OpenError> {
        let accepted = match self.kind {
            SocketType::DGRAM => self.first_sender().await,
            _ => self.stream().await,
        };
        accepted.map_err(|error| error.at(&self.address))
    }

    /// Registered here and now, not where it was made.
    fn registered(&mut self) -> Result<&AsyncFd<OwnedFd>, OpenError> {
        self.socket = match std::mem::replace(&mut self.socket, Socket::Given) {
            Socket::Waiting(fd) => watch(fd, Interest::READABLE)
                .map(Socket::Registered)
                .map_err(|error| OpenError::new("accept", error))?,
            socket => socket,
        };
        match &self.socket {
            Socket::Registered(fd) => Ok(fd),
            _ => Err(OpenError::said("accept", "this UDP socket has its peer already")),
        }
    }

    async fn stream(&mut self) -> Result<End, OpenError> {
        if self.waiting.is_none() {
            self.waiting = Some(self.next_client().await?);
        }
        if let Some((client, _)) = &self.waiting {
            wait_for_room(client).await;
        }
        let Some((client, peer)) = self.waiting.take() else {
            return Err(OpenError::said("accept", "nobody is there"));
        };
        let conduit = Conduit::new(client).map_err(|error| OpenError::new("accept", error))?;
        Ok(End::new(conduit, peer))
    }

    async fn next_client(&mut self) -> Result<(OwnedFd, Peer), OpenError> {
        self.registered()?;
        loop {
            let fd = self.registered()?;
            let mut ready = fd.readable().await.map_err(|error| OpenError::new("accept", error))?;
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match rustix::net::acceptfrom_with(fd.get_ref(), flags) {
                Ok((client, address)) => {
                    let peer = Peer::of_socket(address, &client);
                    if !self.is_stranger(&peer) {
                        return Ok((client, peer));
                    }
                }
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    drop(ready);
                    until_free(1).await;
                }
                Err(errno) if is_the_peers(errno) => {
                    tracing::debug!("a peer went before it was accepted: {errno}");
                }
                Err(errno) => return Err(OpenError::new("accept", errno)),
            }
        }
    }

    /// The first sender becomes the peer: the socket is connected to it, and its datagram stays to be read.
    async fn first_sender(&mut self) -> Result<End, OpenError> {
        let fail = |errno: Errno| OpenError::new("receive", errno);
        let peer = loop {
            let fd = self.registered()?;
            let mut ready =
                fd.readable().await.map_err(|error| OpenError::new("receive", error))?;
            let mut nothing = [0; 1];
            match rustix::net::recvfrom(fd.get_ref(), &mut nothing, RecvFlags::PEEK) {
                Ok((.., Some(address))) => {
                    let sender = SocketAddr::try_from(address).map_err(fail)?;
                    if !self.is_stranger(&Peer::from(sender)) {
                        break sender;
                    }
                    let fd = self.registered()?;
                    rustix::net::recv(fd.get_ref(), &mut nothing, RecvFlags::empty())
                        .map_err(fail)?;
                }
                Ok(_) => return Err(fail(Errno::AFNOSUPPORT)),
                Err(Errno::AGAIN) => ready.clear_ready(),
                // An earlier answer of ours reached nobody.
                Err(Errno::CONNREFUSED | Errno::INTR) => {}
                Err(errno) => return Err(fail(errno)),
            }
        };
        let Socket::Registered(fd) = std::mem::replace(&mut self.socket, Socket::Given) else {
            return Err(fail(Errno::BADF));
        };
        let fd = fd.into_inner();
        rustix::net::connect(&fd, &peer)
            .map_err(|errno| OpenError::new(format!("connect to {peer}"), errno))?;
        let conduit = Conduit::new(fd).map_err(|error| OpenError::new("accept", error))?;
        Ok(End::new(conduit, Peer::from(peer)))
    }

    fn is_stranger(&self, peer: &Peer) -> bool {
        let Some(ip) = peer.ip().filter(|_| !self.ranges.is_empty()) else {
            return false;
        };
        let is_stranger = !self.ranges.iter().any(|range| range.contains(&ip));
        if is_stranger {
            self.strangers.fetch_add(1, Ordering::Relaxed);
            tracing::warn!("{}: {peer} refused: outside range=", self.address);
        }
        is_stranger
    }
}

/// Errors of the connection that was about to be accepted, not of the listener (accept(2)).
fn is_the_peers(errno: Errno) -> bool {
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

/// Near the limit a client would be accepted only to fail at its other end; it waits instead.
///
/// The kernel gives the lowest free number, so a low one says that there is room, without a further call.
async fn wait_for_room(client: &OwnedFd) {
    let number = u64::try_from(client.as_raw_fd()).unwrap_or(0);
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if number + SPARE >= limit {
        // A limit this small can never spare as many.
        until_free(SPARE.min(limit / 4).max(1)).await;
    }
}

/// Waits until so many descriptors could be opened. Nothing tells of that, so it looks, ever less often.
async fn until_free(wanted: u64) {
    let mut pause = Duration::from_millis(1);
    let mut is_told = false;
    while !are_free(wanted) {
        if !std::mem::replace(&mut is_told, true) {
            tracing::warn!(
                "the limit of open files is reached: new peers wait (ulimit -n raises it)"
            );
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    if is_told {
        tracing::info!("descriptors are free again");
    }
}

fn are_free(wanted: u64) -> bool {
    let Ok(one) =
        rustix::fs::open("/dev/null", rustix::fs::OFlags::CLOEXEC, rustix::fs::Mode::empty())
    else {
        return false;
    };
    let more: Result<Vec<OwnedFd>, _> =
        (1..wanted).map(|_| rustix::io::fcntl_dupfd_cloexec(&one, 0)).collect();
    more.is_ok()
}
