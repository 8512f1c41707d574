//! A tap: one direction of one end, with the readiness of its descriptor.
//!
//! A tap clears its readiness only by an attempt that answered `EAGAIN`, made between reading the
//! readiness and clearing it, as tokio's `try_io` does: an edge that comes in between is not lost.

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use gush::flow::Stance;
use gush::{Errno, Kind, Port};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionread;
use rustix::net::sockopt;
use rustix::termios::{LocalModes, OutputModes};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

use crate::conduit::{self, Descriptor};

/// What is known of a descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub(crate) stance: Stance,
    /// Of a file, when it was looked at.
    pub(crate) size_bytes: u64,
}

/// The descriptor, and who tells when it is ready.
#[derive(Debug)]
enum Watch<'a> {
    Tcp(&'a TcpStream),
    Unix(&'a UnixStream),
    Lent(&'a Descriptor),
    /// One that is closed when its direction ends.
    Slot(&'a mut Option<Descriptor>),
    /// A file.
    Always(BorrowedFd<'a>),
}

/// Over when a socket has an error.
pub(crate) type Failing<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// One direction of one end.
#[derive(Debug)]
pub struct Tap<'a> {
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
        let stance = shape.stance.at(at);
        Ok(Self { watch: Watch::Always(fd), shape: Shape { stance, ..shape } })
    }

    pub(crate) fn kind(&self) -> Kind {
        self.shape.stance.kind()
    }

    /// Has it no end of data, as UDP?
    pub(crate) fn is_endless(&self) -> bool {
        self.kind() == Kind::Datagram && !self.shape.stance.ends_at_zero()
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

    /// Takes the error that a socket has, if it has one (SO_ERROR, socket(7)).
    pub(crate) fn take_error(&self) -> Option<Errno> {
        let asked = || match sockopt::socket_error(self.fd()) {
            Ok(Err(errno)) | Err(errno) => Ok(errno),
            Ok(Ok(())) => Err(Errno::AGAIN),
        };
        self.attempt(Interest::ERROR, asked).ok()
    }

    /// Is there something to be read, or the end, whatever readiness was told?
    pub(crate) fn is_readable(&self) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.fd(), PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().contains(PollFlags::IN)
    }

    /// How many bytes have come, and wait to be read. A file has received nothing.
    pub(crate) fn unread_bytes(&self) -> u64 {
        match self.kind() {
            Kind::File | Kind::Block => 0,
            _ => ioctl_fionread(self.fd()).unwrap_or(0),
        }
    }

    #[inline]
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        match &self.watch {
            Watch::Tcp(stream) => stream.as_fd(),
            Watch::Unix(stream) => stream.as_fd(),
            Watch::Lent(descriptor) => descriptor.fd(),
            Watch::Slot(slot) => slot.as_ref().expect("nothing is written after its end").fd(),
            Watch::Always(fd) => *fd,
        }
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
        // What tokio answers for "not ready" has no number.
        answer.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))
    }

    /// Waits for the next edge, if the last attempt answered `EAGAIN`.
    pub(crate) fn poll_ready(
        &self,
        cx: &mut Context<'_>,
        interest: Interest,
    ) -> Poll<io::Result<()>> {
        let reads = interest.is_readable();
        let registered = match &self.watch {
            Watch::Tcp(stream) if reads => return stream.poll_read_ready(cx),
            Watch::Tcp(stream) => return stream.poll_write_ready(cx),
            Watch::Unix(stream) if reads => return stream.poll_read_ready(cx),
            Watch::Unix(stream) => return stream.poll_write_ready(cx),
            Watch::Lent(descriptor) => descriptor.registered(),
            Watch::Slot(slot) => slot.as_ref().and_then(Descriptor::registered),
            Watch::Always(_) => None,
        };
        let Some(registered) = registered else { return Poll::Ready(Ok(())) };
        let guard = if reads {
            ready!(registered.poll_read_ready(cx))
        } else {
            ready!(registered.poll_write_ready(cx))
        };
        Poll::Ready(guard.map(drop))
    }

    /// Passes on the end of the data; `said_bytes` counts the bytes that say so, where bytes do.
    ///
    /// # Errors
    /// `EAGAIN` while there is no room for these bytes: once there is, call this again with the same count.
    pub(crate) fn finish(&mut self, said_bytes: &mut usize) -> io::Result<()> {
        match self.kind() {
            Kind::Stream => conduit::shut(self.fd()),
            Kind::Datagram if self.shape.stance.ends_at_zero() => conduit::shut(self.fd()),
            Kind::Terminal if self.shape.stance.is_master() => self.end_of_file(said_bytes),
            // A socket that may not be asked for its type, or something else without a name.
            Kind::Other => match conduit::shut(self.fd()) {
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
        }
    }

    /// What a user would type: the slave's reader then sees an end of file (termios(3), VEOF).
    ///
    /// Twice where lines are kept: behind a line without an end the first only ends the line. A terminal that changes
    /// nothing has no such character: it would be one more byte of data.
    fn end_of_file(&self, said_bytes: &mut usize) -> io::Result<()> {
        const EOT: u8 = 4;
        // Of a pseudo-terminal's master these are the slave's (pty_common_install in drivers/tty/pty.c links the two).
        let settings = rustix::termios::tcgetattr(self.fd())?;
        let keeps_lines = settings.local_modes.contains(LocalModes::ICANON);
        if !keeps_lines && !settings.output_modes.contains(OutputModes::OPOST) {
            tracing::warn!(
                "a raw terminal cannot pass on that no more comes; -t TIME ends it, and pipes instead of pty can"
            );
            return Ok(());
        }
        let saying: &[u8] = if keeps_lines { &[EOT, EOT] } else { &[EOT] };
        while let Some(rest) = saying.get(*said_bytes..).filter(|rest| !rest.is_empty()) {
            let write = || Port::of(&self.fd()).and_then(|mut port| port.write(rest));
            match self.attempt(Interest::WRITABLE, write) {
                Ok(written_bytes) => *said_bytes += written_bytes,
                Err(Errno::INTR) => {}
                // The slave has gone.
                Err(Errno::IO) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Closes a descriptor that was only written.
    fn close(&mut self) {
        if let Watch::Slot(slot) = &mut self.watch {
            **slot = None;
        }
    }
}

fn try_io<T>(
    descriptor: &Descriptor,
    interest: Interest,
    made: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    match descriptor.registered() {
        Some(registered) => registered.try_io(interest, |_| made()),
        None => made(),
    }
}

/// tokio's own streams are non-blocking.
fn stream_shape() -> Shape {
    Shape { stance: Stance::known(Kind::Stream, true), size_bytes: 0 }
}
