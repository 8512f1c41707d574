//! The messages of a handover: JSON, each in a packet of a Unix socket with its descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use gush_net::{ConduitPart, RelayState};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, recvmsg, sendmsg, shutdown,
};
use serde::{Deserialize, Serialize};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::timeout;

use crate::connection::Directions;
use crate::watch::watch;

/// Changes with every change of the messages that an older process would misread.
pub(super) const VERSION: u32 = 5;
/// How long either process waits for the other's next message: longer than the running link waits
/// for its relays to stop.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the running link, all of whose relays stand still, waits for the new process.
pub(super) const PAUSED: Duration = Duration::from_secs(3);
/// How long a new process waits for its turn while another one takes over.
const TURN: Duration = Duration::from_secs(60);
/// The largest packet. A socket's send buffer has 208 KiB by default (net.core.wmem_default).
const PACKET_BYTES: usize = 128 << 10;
/// The most connections that are named in a message: each has two descriptors of each end.
pub(super) const GROUP: usize = 48;
/// The most bytes of the names of a connection, so that a group of them fits a packet.
pub(super) const NAME_BYTES: usize = 1 << 10;
/// The most states of a message, each of less than 640 bytes.
pub(super) const STATES: usize = PACKET_BYTES / 640;
/// The most descriptors of a message. The kernel takes 253 (`SCM_MAX_FD`, unix(7)).
pub(super) const DESCRIPTORS: usize = 252;
/// The most bytes in flight in memory, of one direction.
pub(super) const HAND_BYTES: usize = 1 << 20;

/// A new process starts with `Hello`, which stays as it is in all versions.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Message {
    Hello(Hello),
    /// With a reason for the user.
    Refused(String),
    /// With the listener of this protocol, that of the clients, and that of the metrics, if they
    /// are served at the place named here; then a pipe, which has a byte once the running link has
    /// given the handover up, and no writer once it has ended.
    Listeners {
        metrics: Option<String>,
        /// How many descriptors the running link has open.
        descriptors: u64,
    },
    /// The new process has all that it opens itself.
    Ready,
    /// With the descriptors of each connection: of the first end, and of the second.
    Known(Vec<Known>),
    /// With the descriptors of the pipes with bytes in flight; packets with the bytes in memory
    /// follow.
    States(Vec<ConnectionState>),
    /// No more states come: other known connections stay. The numbers of new clients come after
    /// this one.
    All {
        last_id: u64,
    },
    /// These connections, the listeners and the names of their sockets belong to the new process.
    Taken,
}

/// What does not change of a connection, which is the running link's.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Known {
    pub id: u64,
    pub client: String,
    pub other: String,
    pub age: Duration,
    pub directions: Directions,
    /// Of both ends.
    pub parts: [Vec<ConduitPart>; 2],
}

/// The rest of a known connection, once its relay is paused.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ConnectionState {
    pub id: u64,
    pub relay: RelayState,
    /// The bytes in memory, forward and back.
    pub hand_bytes: [usize; 2],
}

/// The version of the messages, and the addresses: another command line gets nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Hello {
    pub version: u32,
    pub first: String,
    pub second: String,
}

/// One of the two ends of a handover. Its calls can be cancelled between two packets.
#[derive(Debug)]
pub(super) struct Wire {
    /// Dropped before the socket.
    pub giving_up: Option<GivingUp>,
    socket: AsyncFd<OwnedFd>,
    room: Vec<u8>,
    /// How long a message may take.
    pub patience: Duration,
}

/// Dropped, tells the new process that this one has not been killed.
#[derive(Debug)]
pub(super) struct GivingUp {
    pub writes: OwnedFd,
    /// Without a reader there would be a SIGPIPE.
    pub _reads: OwnedFd,
}

impl Drop for GivingUp {
    fn drop(&mut self) {
        // The pipe is empty, and has a reader.
        let _ = rustix::io::write(&self.writes, b"!");
    }
}

impl Wire {
    /// Of a socket with O_NONBLOCK.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        let socket = watch(socket, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self { giving_up: None, socket, room: vec![0; PACKET_BYTES], patience: PATIENCE })
    }

    /// Is the other process the same user's? For root it has to be root's: what comes from it is
    /// believed.
    pub fn is_own_users(&self) -> io::Result<bool> {
        let credentials = getsockopt(self.socket.get_ref(), PeerCredentials)?;
        Ok(credentials.uid() == rustix::process::geteuid().as_raw())
    }

    /// From here on the other process cannot send: [`receive`](Self::receive) returns what it has
    /// sent already (`unix_dgram_sendmsg` of net/unix/af_unix.c).
    pub fn stop_receiving(&self) -> io::Result<()> {
        Ok(shutdown(self.socket.get_ref(), Shutdown::Read)?)
    }

    /// Waits until the kernel takes the next message at once.
    pub async fn has_room(&self) -> io::Result<()> {
        let look = |socket: &OwnedFd| {
            let mut polled = [PollFd::new(socket, PollFlags::OUT)];
            match retry_on_intr(|| poll(&mut polled, Some(&Timespec::default())))? {
                0 => Err(io::ErrorKind::WouldBlock.into()),
                _ => Ok(()),
            }
        };
        in_time(self.patience, self.socket.async_io(Interest::WRITABLE, look)).await
    }

    pub async fn send(&self, message: &Message, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.send_packet(&serde_json::to_vec(message)?, descriptors).await
    }

    /// Sends bytes, which [`receive_bytes`](Self::receive_bytes) returns.
    pub async fn send_bytes(&self, bytes: &[u8]) -> io::Result<()> {
        for packet in bytes.chunks(PACKET_BYTES) {
            self.send_packet(packet, &[]).await?;
        }
        Ok(())
    }

    /// Sent is what the kernel has queued: then this function returns without another wait.
    async fn send_packet(&self, packet: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        if packet.len() > PACKET_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a message is too long"));
        }
        let send = |socket: &OwnedFd| {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            let rights = SendAncillaryMessage::ScmRights(descriptors);
            if !descriptors.is_empty() && !ancillary.push(rights) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let packet = [IoSlice::new(packet)];
            retry_on_intr(|| sendmsg(socket, &packet, &mut ancillary, SendFlags::NOSIGNAL))?;
            Ok(())
        };
        in_time(self.patience, self.socket.async_io(Interest::WRITABLE, send)).await
    }

    pub async fn receive(&mut self) -> io::Result<(Message, Vec<OwnedFd>)> {
        self.receive_within(self.patience).await
    }

    /// The answer of the running link, which may be handing over to another process.
    pub async fn receive_first(&mut self) -> io::Result<(Message, Vec<OwnedFd>)> {
        self.receive_within(TURN).await
    }

    async fn receive_within(&mut self, limit: Duration) -> io::Result<(Message, Vec<OwnedFd>)> {
        let (bytes, descriptors) = self.receive_packet(limit).await?;
        let message = serde_json::from_slice(&self.room[..bytes]).map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidData, "a message of another protocol")
        })?;
        Ok((message, descriptors))
    }

    pub async fn receive_bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        if count > HAND_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut all = Vec::new();
        while all.len() < count {
            let (bytes, _) = self.receive_packet(self.patience).await?;
            all.extend_from_slice(&self.room[..bytes]);
        }
        if all.len() == count { Ok(all) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    async fn receive_packet(&mut self, limit: Duration) -> io::Result<(usize, Vec<OwnedFd>)> {
        let Self { socket, room, .. } = self;
        let receive = |socket: &OwnedFd| {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let received = {
                let mut packet = [IoSliceMut::new(room)];
                let flags = RecvFlags::CMSG_CLOEXEC;
                retry_on_intr(|| recvmsg(socket, &mut packet, &mut ancillary, flags))?
            };
            let descriptors = ancillary.drain().filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
                _ => None,
            });
            let descriptors: Vec<OwnedFd> = descriptors.flatten().collect();
            // The kernel drops descriptors beyond the limit of this process (unix(7)).
            if received.flags.contains(ReturnFlags::CTRUNC) {
                return Err(Errno::MFILE.into());
            }
            if received.bytes == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the other process is gone",
                ));
            }
            Ok((received.bytes, descriptors))
        };
        in_time(limit, socket.async_io(Interest::READABLE, receive)).await
    }
}

async fn in_time<T>(limit: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the other process does not answer");
    timeout(limit, work).await.map_err(late)?
}

/// The result of `work`, unless `stop` resolves first.
pub(super) async fn unless<T>(
    stop: impl Future<Output = ()>,
    work: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    tokio::select! {
        biased;
        () = stop => Err(io::Error::new(io::ErrorKind::Interrupted, "ended by a signal")),
        done = work => done,
    }
}

/// Has the other process closed its socket?
pub(super) fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// The error of a message that is not the one due.
pub(super) fn unexpected(message: &Message) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("unexpected message: {message:?}"))
}

#[cfg(test)]
mod tests {
    use gush_net::DirectionState;

    use super::*;

    fn bytes(direction: DirectionState, bytes: u64) -> usize {
        let directions = [direction.clone(), direction];
        let quiet = Duration::new(bytes, 999_999_999);
        let relay = RelayState { directions, quiet };
        let state = ConnectionState { id: bytes, relay, hand_bytes: [HAND_BYTES; 2] };
        serde_json::to_vec(&state).expect("JSON").len() + ",".len()
    }

    #[test]
    fn the_states_of_a_message_fit_a_packet() {
        let all = u64::MAX;
        let direction = DirectionState {
            delivered_bytes: all,
            by_method: [all; 3],
            piped_bytes: all,
            through_memory: true,
            is_at_end: true,
            has_seen_end: true,
            is_done: true,
            ..DirectionState::default()
        };
        let message = serde_json::to_vec(&Message::States(Vec::new())).expect("JSON").len();
        let fits = message + STATES * bytes(direction, all);
        assert!(fits <= PACKET_BYTES, "{fits}");
    }

    #[test]
    fn what_a_connection_lacks_is_not_sent() {
        let bytes = bytes(DirectionState::default(), 1000);
        assert!(bytes <= 160, "{bytes}");
    }
}
