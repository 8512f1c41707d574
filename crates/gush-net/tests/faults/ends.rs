//! The ends of a relay, all of their bytes inside, and their peers.

use std::fs::File;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

use gush::Errno;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, SeekFrom};
use rustix::io::retry_on_intr;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType};

use crate::common::{noise, read_all};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Tcp,
    /// TCP that is known for such, as a link makes its sockets.
    Accepted,
    Connected,
    Unix,
    Seqpacket,
    /// One to read, one to write, as of a child.
    Pipes,
    /// One to read, one to write.
    Files,
}

impl Kind {
    pub const ALL: [Kind; 5] = [Kind::Tcp, Kind::Unix, Kind::Seqpacket, Kind::Pipes, Kind::Files];

    /// From a connected socket to an accepted one the last bytes wait for the end after them
    /// (MSG_MORE).
    pub const OF_LINKS: [(Kind, Kind); 3] = [
        (Kind::Accepted, Kind::Connected),
        (Kind::Accepted, Kind::Pipes),
        (Kind::Unix, Kind::Connected),
    ];
}

/// One end of a relay and its peer, which has sent everything and ended.
pub struct Side {
    pub kind: Kind,
    pub sent: Vec<u8>,
    pub read: OwnedFd,
    /// None where the same descriptor is written.
    pub write: Option<OwnedFd>,
    /// The peer's end, at which the relay's bytes come out.
    peer: OwnedFd,
}

/// A record of a SOCK_SEQPACKET socket.
const MESSAGE_BYTES: usize = 1400;

impl Side {
    pub fn new(kind: Kind, seed: u64, bytes: usize) -> Self {
        let sent = noise(seed, bytes);
        let of_sockets = |near: OwnedFd, far: OwnedFd, piece_bytes: usize| {
            for piece in sent.chunks(piece_bytes) {
                write(&far, piece);
            }
            rustix::net::shutdown(&far, Shutdown::Write).expect("an end");
            (near, None, far)
        };
        let (read, write, peer) = match kind {
            Kind::Tcp | Kind::Accepted | Kind::Connected => {
                let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
                let far = TcpStream::connect(listener.local_addr().expect("one")).expect("a peer");
                let near = listener.accept().expect("a client").0;
                near.set_nonblocking(kind != Kind::Tcp).expect("a socket");
                of_sockets(near.into(), far.into(), bytes)
            }
            Kind::Unix | Kind::Seqpacket => {
                let (kind, piece_bytes) = match kind {
                    Kind::Unix => (SocketType::STREAM, bytes),
                    _ => (SocketType::SEQPACKET, MESSAGE_BYTES),
                };
                let flags = SocketFlags::CLOEXEC;
                let pair = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None);
                let (near, far) = pair.expect("a pair");
                of_sockets(near, far, piece_bytes)
            }
            Kind::Pipes => {
                let ((reader, mut feeder), (taker, writer)) =
                    (std::io::pipe().expect("a pipe"), std::io::pipe().expect("a pipe"));
                feeder.write_all(&sent).expect("room");
                (reader.into(), Some(writer.into()), taker.into())
            }
            Kind::Files => {
                let [mut from, to] = [(); 2].map(|()| tempfile::tempfile().expect("a file"));
                from.write_all(&sent).expect("room");
                rustix::fs::seek(&from, SeekFrom::Start(0)).expect("a position");
                let peer = to.try_clone().expect("dup");
                (from.into(), Some(to.into()), peer.into())
            }
        };
        Self { kind, sent, read, write, peer }
    }

    /// The sent bytes that a plain reader still gets.
    pub fn left(&self) -> Vec<u8> {
        match self.kind {
            Kind::Files => {
                let position = rustix::fs::seek(&self.read, SeekFrom::Current(0));
                read_all(&self.read)[position.expect("a position") as usize..].to_vec()
            }
            _ => drain(&self.read).0,
        }
    }

    /// The bytes that the peer gets, and whether an end follows them; a file's reader always does.
    pub fn arrived(self) -> (Vec<u8>, bool) {
        // Neither the relay nor this test holds a pipe's writing end any more.
        drop(self.write);
        match self.kind {
            Kind::Files => (read_all(&self.peer), true),
            Kind::Pipes => {
                await_hangup(&self.peer);
                drain(&self.peer)
            }
            _ => drain(&self.peer),
        }
    }
}

fn write(fd: &OwnedFd, piece: &[u8]) {
    let put = rustix::io::write(fd, piece).expect("room");
    assert_eq!(put, piece.len(), "room");
}

/// Waits until nobody can write a pipe any more: a program that a concurrent test starts holds
/// every descriptor of this process between fork(2) and execve(2), and `O_CLOEXEC` closes them only
/// there. `drain` reports a writer that stays.
fn await_hangup(pipe: &OwnedFd) {
    let at_most = Timespec { tv_sec: 10, tv_nsec: 0 };
    // POLLHUP is always reported.
    let mut ends = [PollFd::new(pipe, PollFlags::empty())];
    retry_on_intr(|| poll(&mut ends, Some(&at_most))).expect("poll");
}

/// Everything that is there, and whether the end is there.
fn drain(fd: &impl AsFd) -> (Vec<u8>, bool) {
    let flags = rustix::fs::fcntl_getfl(fd).expect("flags");
    rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK).expect("O_NONBLOCK");
    let (mut all, mut buf) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        match rustix::io::read(fd, &mut buf) {
            Ok(0) => return (all, true),
            Ok(got) => all.extend_from_slice(&buf[..got]),
            Err(Errno::INTR) => {}
            Err(_) => return (all, false),
        }
    }
}

/// The file of a side that has one to read and one to write.
pub fn file(fd: &OwnedFd) -> File {
    File::from(fd.try_clone().expect("dup"))
}
