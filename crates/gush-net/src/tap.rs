//! A tap: one direction of one end, with the descriptor's readiness.
//!
//! A tap clears the readiness only by an attempt that answered `EAGAIN`, made between reading the
//! readiness and clearing it, as tokio's `try_io` does: an edge that comes in between is not lost.

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use gush::flow::PortState;
use gush::{Errno, Kind};
use rustix::event::PollFlags;
use rustix::io::ioctl_fionread;
use rustix::net::sockopt;
use rustix::termios::{LocalModes, OutputModes};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

use crate::conduit;
use crate::descriptor::{self, Descriptor};
use crate::half::Half;
use crate::layer::Facts;

/// The most calls of one poll on a descriptor that is ready and answers otherwise, as at an urgent
/// byte.
const ATTEMPTS: u32 = 4;

/// The descriptor, and the source of the readiness.
#[derive(Debug)]
enum Watch<'a> {
    Tcp(&'a TcpStream),
    Unix(&'a UnixStream),
    Lent(&'a Descriptor),
    /// A descriptor that is closed when the direction ends. Boxed as the next, because most ends
    /// are one socket.
    Slot(Box<(&'a mut Option<conduit::Half>, PortState)>),
    /// A file.
    Always(Box<(BorrowedFd<'a>, PortState)>),
}

/// Was the end of the data passed on?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndOfData {
    Sent,
    /// The target has no sign for it.
    Unsent,
}

/// Resolves when a socket has an error.
pub(crate) type Failing<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// One direction of one end.
#[derive(Debug)]
pub(crate) struct Tap<'a> {
    watch: Watch<'a>,
}

impl<'a> Tap<'a> {
    pub(crate) fn tcp(stream: &'a TcpStream) -> Self {
        Self { watch: Watch::Tcp(stream) }
    }

    pub(crate) fn unix(stream: &'a UnixStream) -> Self {
        Self { watch: Watch::Unix(stream) }
    }

    pub(crate) fn lent(descriptor: &'a Descriptor) -> Self {
        Self { watch: Watch::Lent(descriptor) }
    }

    /// A slot that holds a descriptor, which the end of the data closes.
    pub(crate) fn slot(slot: &'a mut Option<conduit::Half>) -> Option<Self> {
        let Some(Half::Fd(descriptor)) = slot else { return None };
        let state = descriptor.state();
        Some(Self { watch: Watch::Slot(Box::new((slot, state))) })
    }

    /// A file, from or to an offset in bytes.
    pub(crate) fn file(fd: BorrowedFd<'a>, at: u64) -> io::Result<Self> {
        Ok(Self { watch: Watch::Always(Box::new((fd, PortState::of(&fd)?.at(at)))) })
    }

    pub(crate) fn state(&self) -> PortState {
        match &self.watch {
            Watch::Tcp(_) | Watch::Unix(_) => nonblocking_stream(),
            Watch::Lent(descriptor) => descriptor.state(),
            Watch::Slot(slot) => slot.1,
            Watch::Always(file) => file.1,
        }
    }

    fn kind(&self) -> Kind {
        self.state().kind()
    }

    #[inline]
    pub(crate) fn facts(&self) -> Facts<'_> {
        descriptor::facts(self.open_fd(), &self.state())
    }

    fn descriptor(&self) -> Option<&Descriptor> {
        match &self.watch {
            Watch::Lent(descriptor) => Some(descriptor),
            Watch::Slot(slot) => match &*slot.0 {
                Some(Half::Fd(descriptor)) => Some(descriptor),
                _ => None,
            },
            _ => None,
        }
    }

    /// Resolves when a socket that is neither read nor written now has an error; none for anything
    /// else.
    pub(crate) fn failing(&self) -> Option<Failing<'a>> {
        match &self.watch {
            Watch::Tcp(stream) => {
                let stream: &'a TcpStream = stream;
                Some(Box::pin(async { drop(stream.ready(Interest::ERROR).await) }))
            }
            Watch::Unix(stream) => {
                let stream: &'a UnixStream = stream;
                Some(Box::pin(async { drop(stream.ready(Interest::ERROR).await) }))
            }
            Watch::Lent(descriptor) if matches!(self.kind(), Kind::Stream | Kind::Datagram) => {
                let registered = descriptor.registered()?;
                Some(Box::pin(async { drop(registered.ready(Interest::ERROR).await) }))
            }
            _ => None,
        }
    }

    /// Takes the pending error of a socket, if there is one (SO_ERROR, socket(7)).
    pub(crate) fn take_error(&self) -> Option<Errno> {
        let asked = || socket_error(self.fd()).ok_or(Errno::AGAIN);
        self.attempt(Interest::ERROR, asked).ok()
    }

    /// Can something be read now, or the end? The kernel is asked, whatever epoll has reported.
    pub(crate) fn is_readable(&self) -> bool {
        gush::poll_now(&self.fd(), PollFlags::IN).is_ok_and(|now| now.contains(PollFlags::IN))
    }

    /// Are there bytes to be taken? A file always counts as having some.
    pub(crate) fn has_more(&self) -> bool {
        matches!(self.kind(), Kind::File | Kind::Block) || self.unread_bytes() > 0
    }

    /// The bytes that have come and wait to be read. A file has received nothing.
    pub(crate) fn unread_bytes(&self) -> u64 {
        match self.kind() {
            // FIONREAD of a file counts the bytes up to its end, which no peer sent.
            Kind::File | Kind::Block => 0,
            _ => ioctl_fionread(self.fd()).unwrap_or(0),
        }
    }

    #[inline]
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.open_fd().expect("nothing is written after its end")
    }

    /// The descriptor, unless the end of the data has closed it.
    #[inline]
    pub(crate) fn open_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(match &self.watch {
            Watch::Tcp(stream) => stream.as_fd(),
            Watch::Unix(stream) => stream.as_fd(),
            Watch::Always(file) => file.0,
            Watch::Lent(_) | Watch::Slot(_) => self.descriptor()?.fd(),
        })
    }

    /// Makes one call, unless the descriptor is known not to be ready.
    pub(crate) fn attempt<T>(
        &self,
        interest: Interest,
        call: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let made = || call().map_err(io::Error::from);
        let answer = match (&self.watch, self.descriptor()) {
            (Watch::Tcp(stream), _) => stream.try_io(interest, made),
            (Watch::Unix(stream), _) => stream.try_io(interest, made),
            (_, Some(descriptor)) => descriptor.try_io(interest, made),
            (_, None) => made(),
        };
        // Tokio's answer for "not ready" has no number.
        answer.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))
    }

    /// Makes one call that reads at most `most` bytes, unless the descriptor is known to have none.
    /// If a shorter read proves that there are no more, the next attempt waits for an edge.
    pub(crate) fn attempt_read(
        &self,
        most: usize,
        call: impl FnOnce() -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let Some(descriptor) = self.descriptor() else {
            return self.attempt(Interest::READABLE, call);
        };
        let mut last = None;
        let answer = self.attempt(Interest::READABLE, || match call() {
            Ok(bytes) if (1..most).contains(&bytes) && descriptor.has_nothing_urgent() => {
                last = Some(bytes);
                Err(Errno::AGAIN)
            }
            answer => answer,
        });
        last.map_or(answer, Ok)
    }

    /// May urgent bytes have come that epoll has not reported?
    pub(crate) fn may_be_urgent(&self) -> bool {
        !self.descriptor().is_some_and(Descriptor::has_nothing_urgent)
    }

    /// Is this a TCP socket, and known to have no layer above TCP in the kernel?
    pub(crate) fn is_bare_tcp(&self) -> bool {
        self.descriptor().is_some_and(Descriptor::is_tcp)
    }

    /// Had the peer of a TCP socket ended its data when epoll last reported
    /// ([`Descriptor::has_ended`])?
    pub(crate) fn has_ended(&self, cx: &mut Context<'_>) -> bool {
        self.descriptor().is_some_and(|descriptor| descriptor.has_ended(cx))
    }

    /// Leaves the end of the data to close(2) on a TCP socket known to have no layer above TCP in
    /// the kernel, and that no other process has.
    pub(crate) fn owes_end(&self) -> bool {
        let tcp = self.descriptor().filter(|tcp| tcp.is_tcp() && !tcp.is_shared());
        tcp.inspect(|descriptor| descriptor.owe_end()).is_some()
    }

    /// Waits for the next edge, if the last attempt answered `EAGAIN`.
    pub(crate) fn poll_ready(
        &self,
        cx: &mut Context<'_>,
        interest: Interest,
    ) -> Poll<io::Result<()>> {
        let reads = interest.is_readable();
        match &self.watch {
            Watch::Tcp(stream) if reads => return stream.poll_read_ready(cx),
            Watch::Tcp(stream) => return stream.poll_write_ready(cx),
            Watch::Unix(stream) if reads => return stream.poll_read_ready(cx),
            Watch::Unix(stream) => return stream.poll_write_ready(cx),
            _ => {}
        }
        let Some(descriptor) = self.descriptor() else { return Poll::Ready(Ok(())) };
        let Some(registered) = descriptor.registered() else {
            // A descriptor that epoll does not take is asked again after a pause.
            return descriptor.pause().map_or(Poll::Ready(()), |pause| pause.poll(cx)).map(Ok);
        };
        let guard = if reads {
            ready!(registered.poll_read_ready(cx))
        } else {
            ready!(registered.poll_write_ready(cx))
        };
        Poll::Ready(guard.map(drop))
    }

    /// Reads once; 0 bytes are the end, or an empty datagram.
    pub(crate) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut port = self.state().port(self.fd());
        let most = room.len();
        self.poll_call(cx, Interest::READABLE, || self.attempt_read(most, || port.read(room)))
    }

    /// Writes as much as there is room for.
    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut port = self.state().port(self.fd());
        let interest = Interest::WRITABLE;
        self.poll_call(cx, interest, || self.attempt(interest, || port.write(bytes)))
    }

    /// Repeats an attempt until it answers something else than `EAGAIN`.
    fn poll_call(
        &self,
        cx: &mut Context<'_>,
        interest: Interest,
        mut attempt: impl FnMut() -> Result<usize, Errno>,
    ) -> Poll<io::Result<usize>> {
        for _ in 0..ATTEMPTS {
            match attempt() {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => ready!(self.poll_ready(cx, interest))?,
                answer => return Poll::Ready(Ok(answer?)),
            }
        }
        // No event is due: this only gives other tasks their turn.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Passes on the end of the data, once there is room for the bytes that say so.
    ///
    /// # Errors
    /// As [`Tap::finish`].
    pub(crate) fn poll_finish(
        &mut self,
        cx: &mut Context<'_>,
        eof_bytes: &mut u8,
    ) -> Poll<io::Result<EndOfData>> {
        loop {
            match self.finish(eof_bytes) {
                Err(io) if io.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.poll_ready(cx, Interest::WRITABLE))?;
                }
                answer => return Poll::Ready(answer),
            }
        }
    }

    /// Passes on the end of the data; `eof_bytes` counts the bytes written for it, where bytes are.
    ///
    /// # Errors
    /// `EAGAIN` while there is no room for these bytes; call this again with the same count.
    pub(crate) fn finish(&mut self, eof_bytes: &mut u8) -> io::Result<EndOfData> {
        let ended = match self.kind() {
            // Closing a master hangs up the terminal: its readers would lose what they have not
            // read.
            Kind::Terminal if self.state().is_master() => return self.end_of_file(eof_bytes),
            // Not closed: the other direction still reads from the same socket.
            Kind::Stream => descriptor::shut(self.fd()),
            Kind::Datagram if self.state().ends_at_zero() => descriptor::shut(self.fd()),
            // A socket that may not be asked for its type, or something else without a name.
            Kind::Other => match descriptor::shut(self.fd()) {
                Err(error) if error.raw_os_error() == Some(Errno::NOTSOCK.raw_os_error()) => {
                    self.close();
                    Ok(())
                }
                answer => answer,
            },
            _ => {
                self.close();
                Ok(())
            }
        };
        ended.map(|()| EndOfData::Sent)
    }

    /// Writes the character that a user would type for an end of file (termios(3), VEOF).
    ///
    /// In canonical mode twice: after an incomplete line the first only ends the line. In a raw
    /// terminal the character would be one more byte of data.
    fn end_of_file(&self, eof_bytes: &mut u8) -> io::Result<EndOfData> {
        // Ctrl-D, the usual VEOF (termios(3)).
        const EOT: u8 = 4;
        // Of a pseudo-terminal's master these are the slave's (pty_common_install in
        // drivers/tty/pty.c links the two).
        let settings = rustix::termios::tcgetattr(self.fd())?;
        let keeps_lines = settings.local_modes.contains(LocalModes::ICANON);
        if !keeps_lines && !settings.output_modes.contains(OutputModes::OPOST) {
            return Ok(EndOfData::Unsent);
        }
        let characters: &[u8] = if keeps_lines { &[EOT, EOT] } else { &[EOT] };
        while let Some(rest) =
            characters.get(usize::from(*eof_bytes)..).filter(|rest| !rest.is_empty())
        {
            let write = || self.state().port(self.fd()).write(rest);
            match self.attempt(Interest::WRITABLE, write) {
                Ok(written_bytes) => *eof_bytes += written_bytes as u8,
                Err(Errno::INTR) => {}
                // The slave is closed.
                Err(Errno::IO) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(EndOfData::Sent)
    }

    /// Closes a descriptor that was only written.
    fn close(&mut self) {
        if let Watch::Slot(slot) = &mut self.watch {
            *slot.0 = None;
        }
    }
}

/// The error that a socket has, which is taken by asking (SO_ERROR, socket(7)). EMSGSIZE is none: a
/// router could not forward an earlier datagram, and later ones are sent in fragments
/// (`__udp4_lib_err` of net/ipv4/udp.c).
pub(crate) fn socket_error(socket: BorrowedFd<'_>) -> Option<Errno> {
    match sockopt::socket_error(socket) {
        Ok(Err(Errno::MSGSIZE)) => None,
        Ok(Err(errno)) | Err(errno) => Some(errno),
        Ok(Ok(())) => None,
    }
}

/// Resolves when the socket under a stream has an error. The stream has registered the socket
/// itself, and epoll takes a socket a second time only under another number (EEXIST, epoll_ctl(2));
/// if there is no descriptor for that, the error is met by the next call.
pub(crate) fn failing_socket<'a>(socket: BorrowedFd<'_>) -> Option<Failing<'a>> {
    let copy = socket.try_clone_to_owned().ok()?;
    let watched = descriptor::watched(copy, Interest::ERROR).ok()?;
    Some(Box::pin(async move { drop(watched.ready(Interest::ERROR).await) }))
}

/// The state of a stream socket that is non-blocking, as tokio's own are.
pub(crate) fn nonblocking_stream() -> PortState {
    PortState::known(Kind::Stream, true)
}
