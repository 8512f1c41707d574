//! A peer's end of the link: the descriptors, and TLS over them for a peer of TLS.

use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionread, retry_on_intr};
use rustix::net::{Shutdown, SocketAddrAny, getpeername, getsockname, shutdown, sockopt};

use crate::PATIENCE;
use crate::common::link::eventually;
use crate::common::tls::Session;
use crate::script::Saw;

/// Written while a process is started: between fork and exec the child holds every socket of this
/// program, so that a close has no effect until then.
pub static FORKING: RwLock<()> = RwLock::new(());

pub struct Port {
    read: Option<OwnedFd>,
    write: Option<OwnedFd>,
    session: Option<Box<Session>>,
    /// Is there no end of data, so that reading to the end means until the link is over?
    pub endless: bool,
}

/// The result of an attempt to read.
pub enum Heard {
    Bytes(usize),
    /// Nothing now.
    Nothing,
    Last(Saw),
}

impl Port {
    pub fn new(read: Option<OwnedFd>, write: Option<OwnedFd>) -> Self {
        Self { read, write, session: None, endless: false }
    }

    pub fn of_two_way(fd: OwnedFd) -> Self {
        let write = fd.try_clone().unwrap();
        Self::new(Some(fd), Some(write))
    }

    /// TLS over a socket; the handshake is done.
    pub fn secured(socket: OwnedFd, session: Session) -> Self {
        Self { session: Some(Box::new(session)), ..Self::of_two_way(socket) }
    }

    pub fn endless(self) -> Self {
        Self { endless: true, ..self }
    }

    /// Writes some bytes, once the descriptor takes any; none where nothing is written here.
    pub fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        let Some(write) = &self.write else { return Ok(0) };
        wait(write.as_fd(), PollFlags::OUT);
        match &mut self.session {
            None => rustix::io::write(write, bytes),
            Some(session) => session.write(write.as_fd(), bytes).map_err(|error| errno(&error)),
        }
    }

    pub fn can_send(&self) -> bool {
        self.write.is_some()
    }

    /// Sends the bytes that TLS has kept.
    pub fn flush(&mut self) -> Result<(), Errno> {
        let (Some(session), Some(write)) = (&mut self.session, &self.write) else { return Ok(()) };
        loop {
            match session.flush(write.as_fd()).map_err(|error| errno(&error)) {
                Err(Errno::AGAIN | Errno::INTR) => wait(write.as_fd(), PollFlags::OUT),
                answer => return answer,
            }
        }
    }

    /// Ends the peer's data.
    pub fn end(&mut self) {
        self.say_end();
        self.cut();
    }

    /// Ends the connection's data without a word of TLS.
    pub fn cut(&mut self) {
        let Some(write) = self.write.take() else { return };
        match shutdown(&write, Shutdown::Write) {
            // A pipe, say, is closed; a socket may have been reset.
            Ok(()) | Err(Errno::NOTSOCK | Errno::NOTCONN) => {}
            Err(errno) => panic!("shutdown: {errno}"),
        }
    }

    /// Sends bytes that are no record of TLS: a header of type 0 (RFC 8446, 5.1).
    pub fn garble(&mut self) {
        let Some(write) = &self.write else { return };
        assert_eq!(rustix::io::write(write, &[0; 64]), Ok(64));
    }

    /// Closes both directions. Over TCP the link's kernel knows by then: a reset may be on its way
    /// for a moment.
    pub fn close(&mut self) {
        self.say_end();
        let connection = self.read.as_ref().and_then(connection);
        {
            let _none_starts = FORKING.read().unwrap_or_else(PoisonError::into_inner);
            drop((self.read.take(), self.write.take()));
        }
        if let Some([us, link]) = connection {
            eventually("the close is known", || !is_established(link, us));
        }
    }

    /// Makes close(2) reset the connection (SO_LINGER, socket(7)).
    pub fn reset(&mut self) {
        let socket = self.read.as_ref().or(self.write.as_ref());
        sockopt::set_socket_linger(socket.unwrap(), Some(Duration::ZERO)).unwrap();
        drop((self.read.take(), self.write.take()));
    }

    /// Sends the close_notify of TLS; a peer that has gone does not receive the close_notify.
    pub fn say_end(&mut self) {
        let (Some(session), Some(write)) = (&mut self.session, &self.write) else { return };
        while let Err(error) = session.finish(write.as_fd()) {
            match errno(&error) {
                Errno::AGAIN | Errno::INTR => wait(write.as_fd(), PollFlags::OUT),
                Errno::PIPE | Errno::CONNRESET => return,
                errno => panic!("close_notify: {errno}"),
            }
        }
    }

    pub fn can_hear(&self) -> bool {
        self.read.is_some()
    }

    /// Is there anything to be read, or an end?
    pub fn has_something(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let Some(read) = &self.read else { return false };
        poll(&mut [PollFd::new(read, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
    }

    /// Reads some bytes, once there are any.
    pub fn hear(&mut self, room: &mut [u8]) -> Heard {
        let Some(read) = &self.read else { return Heard::Last(Saw::Nothing) };
        let Some(session) = &mut self.session else {
            wait(read.as_fd(), PollFlags::IN);
            return match rustix::io::read(read, room) {
                Ok(0) => Heard::Last(Saw::End),
                Ok(count) => Heard::Bytes(count),
                Err(Errno::INTR | Errno::AGAIN) => Heard::Nothing,
                // Nobody is at the terminal any more.
                Err(Errno::IO) => Heard::Last(Saw::End),
                Err(Errno::CONNRESET) => Heard::Last(Saw::Reset),
                Err(errno) => panic!("read: {errno}"),
            };
        };
        match session.read(read.as_fd(), room) {
            Ok(0) => {
                // The socket's own end, or a failure after it, follows.
                wait(read.as_fd(), PollFlags::IN);
                assert!(matches!(rustix::io::read(read, room), Ok(0) | Err(Errno::CONNRESET)));
                Heard::Last(Saw::End)
            }
            Ok(count) => Heard::Bytes(count),
            Err(error) => match (error.kind(), errno(&error)) {
                (ErrorKind::WouldBlock | ErrorKind::Interrupted, _) => {
                    wait(read.as_fd(), PollFlags::IN);
                    Heard::Nothing
                }
                (_, Errno::CONNRESET) => Heard::Last(Saw::Reset),
                (ErrorKind::UnexpectedEof | ErrorKind::InvalidData, _) => Heard::Last(Saw::Cut),
                _ => panic!("read: {error}"),
            },
        }
    }

    /// How many bytes have come to the descriptor and were not read.
    pub fn unread_bytes(&self) -> usize {
        self.read.as_ref().map_or(0, |read| ioctl_fionread(read).unwrap() as usize)
    }
}

/// The ports of a connection over TCP: ours and the link's.
fn connection(socket: &OwnedFd) -> Option<[u16; 2]> {
    let [us, link] = [getsockname(socket).ok()?, getpeername(socket).ok()??];
    let port = |address: SocketAddrAny| Some(SocketAddr::try_from(address).ok()?.port());
    Some([port(us)?, port(link)?])
}

/// Is a socket of this machine connected, with no end and no reset received (proc_net_tcp.rst of
/// the kernel: state 1)?
fn is_established(local: u16, remote: u16) -> bool {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let row = format!(" 0100007F:{local:04X} 0100007F:{remote:04X} 01 ");
    table.lines().any(|line| line.contains(&row))
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::PROTO)
}

fn wait(fd: BorrowedFd<'_>, flags: PollFlags) {
    let limit = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    let mut fds = [PollFd::from_borrowed_fd(fd, flags)];
    let ready = retry_on_intr(|| poll(&mut fds, Some(&limit))).unwrap();
    assert!(ready > 0, "nothing came, and no end, for {PATIENCE:?}");
}
