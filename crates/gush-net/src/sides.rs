//! The ends of a running relay, and the two sides of a direction for one poll.

use std::io;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use gush::flow::{Fds, PortState};
use gush::{Errno, Side};
use rustix::io::ioctl_fionread;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

use crate::half::{Half, Halves};
use crate::layer::{Facts, Layer};
use crate::tap::{self, EndOfData, Failing, Tap};

/// The bytes that may be in the buffers of a stream, added to those in its socket: a few records of
/// TLS, each of at most 16 KiB (RFC 8446, 5.1).
const STREAM_BYTES: u64 = 64 << 10;
/// The bytes that may have come to a stream without a socket: more than a socket's receive buffer
/// holds by default (the third figure of tcp_rmem is 6 MiB, tcp(7)).
const UNKNOWN_BYTES: u64 = 8 << 20;

/// An end of a relay, opened for as long as the relay runs.
pub(crate) type Opened<'a, E> = Halves<Half<Tap<'a>, Stream<'a, E>>>;

/// A stream without a descriptor.
pub(crate) enum Stream<'a, E: ?Sized> {
    Layer(&'a mut Box<dyn Layer>),
    /// The end itself.
    Any(&'a mut E),
}

impl<E: ?Sized> Stream<'_, E> {
    fn facts(&self) -> Facts<'_> {
        match self {
            Stream::Layer(layer) => layer.facts(),
            Stream::Any(_) => Facts::over(None),
        }
    }
}

/// A side of a direction as it is between two polls.
pub(crate) struct View<'p, 'a> {
    /// None of a stream.
    pub(crate) tap: Option<&'p Tap<'a>>,
    pub(crate) facts: Facts<'p>,
}

impl<'a, E: ?Sized> Opened<'a, E> {
    #[inline]
    pub(crate) fn view(&self, side: Side) -> Option<View<'_, 'a>> {
        let (tap, facts) = match self.get(side)? {
            Half::Fd(tap) => (Some(tap), tap.facts()),
            Half::Stream(stream) => (None, stream.facts()),
        };
        // Two descriptors may be two peers: reading from one says nothing about the other.
        let hears_peer = facts.hears_peer && matches!(self, Halves::Joint(_));
        Some(View { tap, facts: Facts { hears_peer, ..facts } })
    }

    pub(crate) fn source(&mut self) -> Option<Source<'_, 'a>>
    where
        E: AsyncRead + Unpin,
    {
        Some(match self.get_mut(Side::Source)? {
            Half::Fd(tap) => Half::Fd(tap),
            Half::Stream(stream) => {
                let Facts { read_messages, endless, .. } = stream.facts();
                let state = in_memory(read_messages, endless);
                match stream {
                    Stream::Layer(layer) => Half::Stream((*layer, state)),
                    Stream::Any(end) => Half::Stream((end, state)),
                }
            }
        })
    }

    pub(crate) fn target(&mut self) -> Option<Target<'_, 'a>>
    where
        E: AsyncWrite + Unpin,
    {
        Some(match self.get_mut(Side::Target)? {
            Half::Fd(tap) => Half::Fd(tap),
            Half::Stream(stream) => {
                let Facts { write_messages, write_empty, .. } = stream.facts();
                let state = in_memory(write_messages, write_empty);
                match stream {
                    Stream::Layer(layer) => Half::Stream((*layer, state)),
                    Stream::Any(end) => Half::Stream((end, state)),
                }
            }
        })
    }
}

fn in_memory(keeps_messages: bool, has_empty: bool) -> PortState {
    match keeps_messages {
        true => PortState::in_memory_of_messages(has_empty),
        false => PortState::in_memory(),
    }
}

impl<'a> View<'_, 'a> {
    /// Resolves when the side has an error while no call is made there.
    pub(crate) fn failing(&self) -> Option<Failing<'a>> {
        match self.tap {
            Some(tap) => tap.failing(),
            None => self.facts.error_socket.and_then(tap::failing_socket),
        }
    }

    /// Takes the pending error of the side, if there is one (SO_ERROR, socket(7)).
    pub(crate) fn take_error(&self) -> Option<Errno> {
        match self.tap {
            Some(tap) => tap.take_error(),
            None => self.facts.error_socket.and_then(tap::socket_error),
        }
    }

    /// Are there bytes to be taken, as far as this can be known without taking them?
    pub(crate) fn has_more(&self) -> bool {
        match self.tap {
            Some(tap) => tap.has_more(),
            None => self.socket_bytes().is_some_and(|bytes| bytes > 0),
        }
    }

    /// At most so many bytes have come and wait to be read.
    pub(crate) fn received_bytes(&self) -> u64 {
        match self.tap {
            Some(tap) => tap.unread_bytes(),
            // The socket's bytes, and as many as the layer may have read ahead.
            None => self.socket_bytes().map_or(UNKNOWN_BYTES, |bytes| bytes + STREAM_BYTES),
        }
    }

    fn socket_bytes(&self) -> Option<u64> {
        ioctl_fionread(self.facts.socket?).ok()
    }

    /// The written bytes that the reader has not taken, as far as the kernel counts them.
    pub(crate) fn untaken_bytes(&self) -> u64 {
        let fd = self.facts.write_fd.or(self.facts.socket);
        fd.and_then(|fd| gush::untaken_bytes(&fd)).unwrap_or(0)
    }
}

/// Where the bytes of a direction come from, for one poll.
pub(crate) type Source<'p, 'a> =
    Half<&'p mut Tap<'a>, (&'p mut (dyn AsyncRead + Unpin + 'p), PortState)>;
/// Where they go, for one poll.
pub(crate) type Target<'p, 'a> =
    Half<&'p mut Tap<'a>, (&'p mut (dyn AsyncWrite + Unpin + 'p), PortState)>;

impl<'a, S> Half<&mut Tap<'a>, (S, PortState)> {
    pub(crate) fn tap(&self) -> Option<&Tap<'a>> {
        match self {
            Half::Fd(tap) => Some(tap),
            Half::Stream(_) => None,
        }
    }

    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.tap().map(Tap::fd)
    }

    pub(crate) fn state(&self) -> PortState {
        match self {
            Half::Fd(tap) => tap.state(),
            Half::Stream((_, state)) => *state,
        }
    }
}

impl Target<'_, '_> {
    /// Sends on the bytes that a stream keeps; a descriptor keeps nothing.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Half::Fd(_) => Poll::Ready(Ok(())),
            Half::Stream((stream, _)) => Pin::new(stream).poll_flush(cx),
        }
    }

    /// Passes on the end of the data; `eof_bytes` counts the bytes written for it, where bytes are.
    pub(crate) fn poll_finish(
        &mut self,
        cx: &mut Context<'_>,
        eof_bytes: &mut u8,
    ) -> Poll<io::Result<EndOfData>> {
        match self {
            Half::Fd(tap) => tap.poll_finish(cx, eof_bytes),
            Half::Stream((stream, _)) => match ready!(Pin::new(stream).poll_shutdown(cx)) {
                // The peer is gone already, and needs no end.
                Err(error) if error.kind() != io::ErrorKind::NotConnected => {
                    Poll::Ready(Err(error))
                }
                _ => Poll::Ready(Ok(EndOfData::Sent)),
            },
        }
    }
}

/// Both sides of a direction, for one poll.
pub(crate) struct Sides<'p, 'a> {
    pub(crate) source: Source<'p, 'a>,
    pub(crate) target: Target<'p, 'a>,
}

impl<'a> Sides<'_, 'a> {
    /// The descriptors that a call between the sides is made on.
    pub(crate) fn fds(&self) -> Fds<'_> {
        match (self.source.fd(), self.target.fd()) {
            (Some(source), Some(target)) => Fds { source, target },
            (Some(fd), None) | (None, Some(fd)) => Fds::one(fd),
            (None, None) => unreachable!("between two streams a flow only reads and writes"),
        }
    }

    /// The descriptor of a side, with the readiness that its calls need.
    fn tap(&self, side: Side) -> (Option<&Tap<'a>>, Interest) {
        match side {
            Side::Source => (self.source.tap(), Interest::READABLE),
            Side::Target => (self.target.tap(), Interest::WRITABLE),
        }
    }

    /// Waits for the next edge, if the last attempt answered `EAGAIN`. A stream is always asked.
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>, side: Side) -> Poll<io::Result<()>> {
        match self.tap(side) {
            (Some(tap), interest) => tap.poll_ready(cx, interest),
            (None, _) => Poll::Ready(Ok(())),
        }
    }

    /// Makes a call that concerns a side, unless the descriptor is known not to be ready.
    pub(crate) fn attempt<T>(
        &self,
        side: Side,
        call: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        match self.tap(side) {
            (Some(tap), interest) => tap.attempt(interest, call),
            (None, _) => call(),
        }
    }
}

/// Reads from a stream; 0 bytes are the end.
pub(crate) fn poll_read(
    stream: &mut (dyn AsyncRead + Unpin),
    cx: &mut Context<'_>,
    room: &mut [u8],
) -> Poll<io::Result<usize>> {
    let mut buf = ReadBuf::new(room);
    ready!(Pin::new(stream).poll_read(cx, &mut buf))?;
    Poll::Ready(Ok(buf.filled().len()))
}

/// Writes to a stream; a stream that takes no byte never will.
pub(crate) fn poll_write(
    stream: &mut (dyn AsyncWrite + Unpin),
    cx: &mut Context<'_>,
    bytes: &[u8],
) -> Poll<io::Result<usize>> {
    let written_bytes = ready!(Pin::new(stream).poll_write(cx, bytes))?;
    Poll::Ready(match written_bytes {
        // As in std: asked again, such a stream would answer 0 for ever.
        0 if !bytes.is_empty() => Err(io::ErrorKind::WriteZero.into()),
        // A wrong count would break the account of the flow.
        more if more > bytes.len() => {
            Err(io::Error::other("the stream reports more bytes written than it was given"))
        }
        written_bytes => Ok(written_bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers every call in a way that the trait's contract forbids.
    struct Liar;

    impl AsyncWrite for Liar {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len() + 1))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn a_stream_that_reports_more_than_it_was_given_is_an_error() {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let Poll::Ready(answer) = poll_write(&mut Liar, &mut cx, b"abc") else {
            panic!("it answers at once");
        };
        assert!(answer.unwrap_err().to_string().contains("more bytes written than"));
    }
}
