//! The messages of a handover: JSON, each in a packet of a Unix socket with its descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use gush_net::{Part, RelayState};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use crate::connection::Directions;

/// Changes with every change of the messages that an older process would misread.
pub(super) const VERSION: u32 = 1;
/// How long either process waits for the other's next message.
const PATIENCE: Duration = Duration::from_secs(5);
/// The largest packet. A socket's send buffer has 208 KiB by default (net.core.wmem_default).
const PACKET_BYTES: usize = 64 << 10;
/// The most descriptors of a message: two of each end, and the ends of two pipes.
const DESCRIPTORS: usize = 8;
/// The most bytes in flight in memory, of one direction.
pub(super) const HAND_BYTES: usize = 1 << 20;

/// A new process starts with `Hello`, which stays as it is in all versions.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Message {
    Hello(Hello),
    /// With a reason for the user.
    Refused(String),
    /// With the listener of this protocol, that of the clients, and that of the metrics, if they
    /// are served at the place named here.
    Listeners {
        metrics: Option<String>,
    },
    /// The new process has all that it opens itself.
    Ready,
    /// With the descriptors of the first end, of the second, and of the pipes with bytes in flight;
    /// packets with the bytes in memory follow.
    Connection(Box<Moved>),
    /// There were so many before.
    Sent {
        connections: usize,
    },
    Taken,
    /// All belongs to the new process.
    Go,
}

/// A connection whose relay stands still.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Moved {
    pub id: u64,
    pub client: String,
    pub other: String,
    pub age: Duration,
    pub directions: Directions,
    /// Of both ends.
    pub parts: [Vec<Part>; 2],
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

/// One of the two ends of a handover. Its calls wait.
#[derive(Debug)]
pub(super) struct Wire {
    socket: OwnedFd,
    room: Vec<u8>,
}

impl Wire {
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        for side in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(&socket, side, Some(PATIENCE))?;
        }
        Ok(Self { socket, room: vec![0; PACKET_BYTES] })
    }

    /// Is the other process the same user's? For root it has to be root's: what comes from it is
    /// believed.
    pub fn is_own_users(&self) -> io::Result<bool> {
        let credentials = getsockopt(&self.socket, PeerCredentials)?;
        Ok(credentials.uid() == rustix::process::geteuid().as_raw())
    }

    /// Waits for the next message as long as the other process lives.
    pub fn wait_for_ever(&self) -> io::Result<()> {
        Ok(set_socket_timeout(&self.socket, Timeout::Recv, None)?)
    }

    pub fn send(&self, message: &Message, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.send_packet(&serde_json::to_vec(message)?, descriptors)
    }

    /// Sends bytes, which [`receive_bytes`](Self::receive_bytes) returns.
    pub fn send_bytes(&self, bytes: &[u8]) -> io::Result<()> {
        bytes.chunks(PACKET_BYTES).try_for_each(|packet| self.send_packet(packet, &[]))
    }

    fn send_packet(&self, packet: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if packet.len() > PACKET_BYTES
            || !descriptors.is_empty()
                && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors))
        {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let packet = [IoSlice::new(packet)];
        let sent =
            retry_on_intr(|| sendmsg(&self.socket, &packet, &mut ancillary, SendFlags::NOSIGNAL));
        sent.map(drop).map_err(late)
    }

    pub fn receive(&mut self) -> io::Result<(Message, Vec<OwnedFd>)> {
        let (bytes, descriptors) = self.receive_packet()?;
        Ok((serde_json::from_slice(&self.room[..bytes])?, descriptors))
    }

    pub fn receive_bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        if count > HAND_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut all = Vec::new();
        while all.len() < count {
            let (bytes, _) = self.receive_packet()?;
            all.extend_from_slice(&self.room[..bytes]);
        }
        if all.len() == count { Ok(all) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    fn receive_packet(&mut self) -> io::Result<(usize, Vec<OwnedFd>)> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = {
            let mut packet = [IoSliceMut::new(&mut self.room)];
            let flags = RecvFlags::CMSG_CLOEXEC;
            retry_on_intr(|| recvmsg(&self.socket, &mut packet, &mut ancillary, flags))
        };
        let received = received.map_err(late)?;
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
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok((received.bytes, descriptors))
    }
}

/// The socket's limit on time answers as a socket that must not wait.
fn late(errno: Errno) -> io::Error {
    match errno {
        Errno::AGAIN => io::ErrorKind::TimedOut.into(),
        errno => errno.into(),
    }
}

/// The error of a message that is not the one due.
pub(super) fn unexpected(message: &Message) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("unexpected message: {message:?}"))
}
