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

use crate::descriptor::{self, Descriptor};

/// The properties of a descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) state: PortState,
    /// Of a file, at the time of the look.
    pub(crate) size_bytes: u64,
}

/// So often a call is made in one poll of a descriptor that is ready and answers otherwise, as at an urgent byte.
const ATTEMPTS: u32 = 4;

/// The descriptor, and the source of the readiness.
#[derive(Debug)]
enum Watch<'a> {
    Tcp(&'a TcpStream),
    Unix(&'a UnixStream),
    Lent(&'a Descriptor),
    /// A descriptor that is closed when the direction ends.
    Slot(&'a mut Option<Descriptor>),
    /// A file.
    Always(BorrowedFd<'a>),
}

/// Does the reader behind a target learn of the end of the data?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndOfData {
    Told,
    /// There is no way to say so.
    Untold,
}

/// Over when a socket has an error.
pub(crate) type Failing<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// One direction of one end.
#[derive(Debug)]
pub(crate) struct Tap<'a> {
    watch: Watch<'a>,
    pub(crate) shape: Shape,
}

impl<'a> Tap<'a> {
    pub(crate) fn tcp(stream: &'a TcpStream) -> Self {
        Self { shape: stream_shape(), watch: Watch::Tcp(stream) }
    }

    pub(crate) fn unix(stream: &'a UnixStream) -> Self {
        Self { shape: stream_shape(), watch: Watch::Unix(stream) }
    }

    pub(crate) fn lent(descriptor: &'a Descriptor) -> Self {
        Self { shape: descriptor.shape(), watch: Watch::Lent(descriptor) }
    }

    /// A slot that holds a descriptor.
    pub(crate) fn slot(slot: &'a mut Option<Descriptor>) -> Option<Self> {
        let shape = slot.as_ref()?.shape();
        Some(Self { shape, watch: Watch::Slot(slot) })
    }

    /// A file, from or to an offset in bytes.
    pub(crate) fn file(fd: BorrowedFd<'a>, at: u64) -> io::Result<Self> {
        let shape = Shape::of(fd)?;
        let state = shape.state.at(at);
        Ok(Self { watch: Watch::Always(fd), shape: Shape { state, ..shape } })
    }

    pub(crate) fn kind(&self) -> Kind {
        self.shape.state.kind()
    }

    /// Has this end no end of data, as UDP has none?
    pub(crate) fn is_endless(&self) -> bool {
        self.kind() == Kind::Datagram && !self.shape.state.ends_at_zero()
    }

    /// Over when a socket that is neither read nor written now has an error; none for anything else.
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

    /// Is there something to be read, or the end, also without a notice of readiness?
    pub(crate) fn is_readable(&self) -> bool {
        gush::poll_now(&self.fd(), PollFlags::IN).is_ok_and(|told| told.contains(PollFlags::IN))
    }

    /// Are there bytes that nobody has taken yet? A file whose position is before the end has some.
    pub(crate) fn has_more(&self) -> bool {
        matches!(self.kind(), Kind::File | Kind::Block) || self.unread_bytes() > 0
    }

    /// How many bytes have come, and wait to be read. A file has received nothing.
    pub(crate) fn unread_bytes(&self) -> u64 {
        match self.kind() {
            // FIONREAD of a file tells the bytes up to its end, which nobody sent.
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
            Watch::Lent(descriptor) => descriptor.fd(),
            Watch::Slot(slot) => slot.as_ref()?.fd(),
            Watch::Always(fd) => *fd,
        })
    }

    /// Makes one call, unless the descriptor is known not to be ready.
    pub(crate) fn attempt<T>(
        &self,
        interest: Interest,
        call: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let made = || call().map_err(io::Error::from);
        let answer = match &self.watch {
            Watch::Tcp(stream) => stream.try_io(interest, made),
            Watch::Unix(stream) => stream.try_io(interest, made),
            Watch::Lent(descriptor) => try_io(descriptor, interest, made),
            Watch::Slot(slot) => match &**slot {
                Some(descriptor) => try_io(descriptor, interest, made),
                None => made(),
            },
            Watch::Always(_) => made(),
        };
        // Tokio's answer for "not ready" has no number.
        answer.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))
    }

    /// Makes one call that reads `most` bytes at most, unless the descriptor is known to have none. Where fewer say that there
    /// are no more, the next attempt waits for an edge.
    pub(crate) fn attempt_read(
        &self,
        most: usize,
        call: impl FnOnce() -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let Watch::Lent(descriptor) = &self.watch else {
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

    /// May urgent bytes have come that nobody has told of?
    pub(crate) fn may_be_urgent(&self) -> bool {
        !matches!(&self.watch, Watch::Lent(descriptor) if descriptor.has_nothing_urgent())
    }

    /// Is this a TCP socket, and known to have no layer above TCP in the kernel?
    pub(crate) fn is_bare_tcp(&self) -> bool {
        matches!(&self.watch, Watch::Lent(descriptor) if descriptor.is_tcp())
    }

    /// Had the peer of a TCP socket ended its data by the last notice ([`Descriptor::has_ended`])?
    pub(crate) fn has_ended(&self, cx: &mut Context<'_>) -> bool {
        matches!(&self.watch, Watch::Lent(descriptor) if descriptor.has_ended(cx))
    }

    /// Leaves the end of the data to close(2), if this is a TCP socket, known to have no layer above TCP in the kernel.
    pub(crate) fn owes_end(&self) -> bool {
        match &self.watch {
            Watch::Lent(descriptor) if descriptor.is_tcp() => {
                descriptor.owe_end();
                true
            }
            _ => false,
        }
    }

    /// Waits for the next edge, if the last attempt answered `EAGAIN`.
    pub(crate) fn poll_ready(
        &self,
        cx: &mut Context<'_>,
        interest: Interest,
    ) -> Poll<io::Result<()>> {
        let reads = interest.is_readable();
        let descriptor = match &self.watch {
            Watch::Tcp(stream) if reads => return stream.poll_read_ready(cx),
            Watch::Tcp(stream) => return stream.poll_write_ready(cx),
            Watch::Unix(stream) if reads => return stream.poll_read_ready(cx),
            Watch::Unix(stream) => return stream.poll_write_ready(cx),
            Watch::Lent(descriptor) => Some(*descriptor),
            Watch::Slot(slot) => slot.as_ref(),
            Watch::Always(_) => None,
        };
        let Some(descriptor) = descriptor else { return Poll::Ready(Ok(())) };
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
        let mut port = self.shape.state.port(self.fd());
        let most = room.len();
        self.poll_call(cx, Interest::READABLE, || self.attempt_read(most, || port.read(room)))
    }

    /// Writes as much as there is room for.
    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut port = self.shape.state.port(self.fd());
        let interest = Interest::WRITABLE;
        self.poll_call(cx, interest, || self.attempt(interest, || port.write(bytes)))
    }

    /// Makes an attempt until the answer is something else than "not now".
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
        // Woken at once: no event is due, and only the other tasks were to have their turn.
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
        said_bytes: &mut usize,
    ) -> Poll<io::Result<EndOfData>> {
        loop {
            match self.finish(said_bytes) {
                Err(io) if io.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.poll_ready(cx, Interest::WRITABLE))?;
                }
                answer => return Poll::Ready(answer),
            }
        }
    }

    /// Passes on the end of the data; `said_bytes` counts the bytes that say so, where bytes do.
    ///
    /// # Errors
    /// `EAGAIN` while there is no room for these bytes: once there is, call this again with the same count.
    pub(crate) fn finish(&mut self, said_bytes: &mut usize) -> io::Result<EndOfData> {
        let ended = match self.kind() {
            // To close a master would hang up the terminal: its readers would lose what they have not read.
            Kind::Terminal if self.shape.state.is_master() => return self.end_of_file(said_bytes),
            // Not closed: the other direction still reads from the same socket.
            Kind::Stream => descriptor::shut(self.fd()),
            Kind::Datagram if self.shape.state.ends_at_zero() => descriptor::shut(self.fd()),
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
        ended.map(|()| EndOfData::Told)
    }

    /// The character that a user would type: the slave's reader then sees an end of file (termios(3), VEOF).
    ///
    /// Twice where lines are kept: behind a line without an end the first only ends the line. A terminal that changes
    /// nothing has no such character: the character would be one more byte of data.
    fn end_of_file(&self, said_bytes: &mut usize) -> io::Result<EndOfData> {
        // Ctrl-D, the usual VEOF (termios(3)).
        const EOT: u8 = 4;
        // Of a pseudo-terminal's master these are the slave's (pty_common_install in drivers/tty/pty.c links the two).
        let settings = rustix::termios::tcgetattr(self.fd())?;
        let keeps_lines = settings.local_modes.contains(LocalModes::ICANON);
        if !keeps_lines && !settings.output_modes.contains(OutputModes::OPOST) {
            return Ok(EndOfData::Untold);
        }
        let saying: &[u8] = if keeps_lines { &[EOT, EOT] } else { &[EOT] };
        while let Some(rest) = saying.get(*said_bytes..).filter(|rest| !rest.is_empty()) {
            let write = || self.shape.state.port(self.fd()).write(rest);
            match self.attempt(Interest::WRITABLE, write) {
                Ok(written_bytes) => *said_bytes += written_bytes,
                Err(Errno::INTR) => {}
                // The slave has gone.
                Err(Errno::IO) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(EndOfData::Told)
    }

    /// Closes a descriptor that was only written.
    fn close(&mut self) {
        if let Watch::Slot(slot) = &mut self.watch {
            **slot = None;
        }
    }
}

/// The error that a socket has, which is taken by asking (SO_ERROR, socket(7)).
pub(crate) fn socket_error(socket: BorrowedFd<'_>) -> Option<Errno> {
    match sockopt::socket_error(socket) {
        Ok(Err(errno)) | Err(errno) => Some(errno),
        Ok(Ok(())) => None,
    }
}

/// Over when the socket under a stream has an error. The stream has registered the socket itself, and epoll takes the same socket a
/// second time under another number only (EEXIST, epoll_ctl(2)): without a descriptor for that, nothing tells.
pub(crate) fn failing_socket<'a>(socket: BorrowedFd<'_>) -> Option<Failing<'a>> {
    let copy = socket.try_clone_to_owned().ok()?;
    let watched = descriptor::watched(copy, Interest::ERROR).ok()?;
    Some(Box::pin(async move { drop(watched.ready(Interest::ERROR).await) }))
}

fn try_io<T>(
    descriptor: &Descriptor,
    interest: Interest,
    made: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    match descriptor.registered() {
        Some(_) if descriptor.takes_hope(interest) => made(),
        Some(registered) => registered.try_io(interest, |_| made()),
        None => {
            // Without epoll nothing tells of readiness: the call itself is the question.
            let answer = made();
            if let (Err(error), Some(pause)) = (&answer, descriptor.pause())
                && error.kind() == io::ErrorKind::WouldBlock
            {
                pause.begin();
            }
            answer
        }
    }
}

/// Of a stream socket that is non-blocking, as tokio's own are.
pub(crate) fn stream_shape() -> Shape {
    Shape { state: PortState::known(Kind::Stream, true), size_bytes: 0 }
}
