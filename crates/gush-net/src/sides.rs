//! The two sides of a direction, each a descriptor or a stream without one.

use std::io;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use gush::flow::{Fds, PortState};
use gush::{Errno, Side};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

use crate::stream::Stream;
use crate::tap::{self, EndOfData, Failing, Tap};

/// The bytes that may have come to a stream that names no socket: more than a socket's receive buffer holds by default (the third
/// figure of tcp_rmem is 6 MiB, tcp(7)).
const UNKNOWN_BYTES: u64 = 8 << 20;

/// An end of a relay, opened for as long as the relay runs.
pub(crate) enum Opened<'a, E: ?Sized> {
    /// One descriptor, read and written.
    Joint(Tap<'a>),
    /// One to read and one to write, as far as there are any.
    Apart(Box<[Option<Tap<'a>>; 2]>),
    /// A conduit's stream.
    Stream(&'a mut Stream),
    /// The end itself, a stream without a descriptor as far as is known.
    Any(&'a mut E),
}

impl<'a, E: AsyncRead + Unpin + ?Sized> Opened<'a, E> {
    /// The source of bytes.
    pub(crate) fn source(&mut self) -> Option<Source<'_, 'a>> {
        match self {
            Opened::Joint(tap) => Some(Source::Tap(tap)),
            Opened::Apart(taps) => taps[0].as_mut().map(Source::Tap),
            Opened::Stream(stream) => stream.reads.then(|| {
                let keeps_bounds = stream.both.keeps_bounds(Side::Source);
                Source::Stream(stream.both.reader(), keeps_bounds)
            }),
            Opened::Any(end) => Some(Source::Stream(end, false)),
        }
    }
}

impl<'a, E: AsyncWrite + Unpin + ?Sized> Opened<'a, E> {
    /// The target of bytes.
    pub(crate) fn target(&mut self) -> Option<Target<'_, 'a>> {
        match self {
            Opened::Joint(tap) => Some(Target::Tap(tap)),
            Opened::Apart(taps) => taps[1].as_mut().map(Target::Tap),
            Opened::Stream(stream) => stream.writes.then(|| {
                let keeps_bounds = stream.both.keeps_bounds(Side::Target);
                Target::Stream(stream.both.writer(), keeps_bounds)
            }),
            Opened::Any(end) => Some(Target::Stream(end, false)),
        }
    }
}

impl<'a, E: ?Sized> Opened<'a, E> {
    pub(crate) fn reads(&self) -> bool {
        match self {
            Opened::Joint(_) | Opened::Any(_) => true,
            Opened::Apart(taps) => taps[0].is_some(),
            Opened::Stream(stream) => stream.reads,
        }
    }

    pub(crate) fn writes(&self) -> bool {
        match self {
            Opened::Joint(_) | Opened::Any(_) => true,
            Opened::Apart(taps) => taps[1].is_some(),
            Opened::Stream(stream) => stream.writes,
        }
    }

    /// The descriptor that is read.
    pub(crate) fn read_tap(&self) -> Option<&Tap<'a>> {
        match self {
            Opened::Joint(tap) => Some(tap),
            Opened::Apart(taps) => taps[0].as_ref(),
            Opened::Stream(_) | Opened::Any(_) => None,
        }
    }

    /// The descriptor that is written.
    pub(crate) fn write_tap(&self) -> Option<&Tap<'a>> {
        match self {
            Opened::Joint(tap) => Some(tap),
            Opened::Apart(taps) => taps[1].as_ref(),
            Opened::Stream(_) | Opened::Any(_) => None,
        }
    }

    /// May a read wait although there is an error ([`Conduit::misses_errors`](crate::Conduit::misses_errors))?
    pub(crate) fn misses_errors(&self) -> bool {
        match self {
            Opened::Stream(stream) => stream.both.misses_errors(),
            _ => self.read_tap().is_some_and(Tap::is_endless),
        }
    }

    /// Do reads tell of the peer that is written to ([`Conduit::hears_its_peer`](crate::Conduit::hears_its_peer))?
    pub(crate) fn hears_its_peer(&self) -> bool {
        match self {
            Opened::Joint(_) | Opened::Any(_) => true,
            // Two descriptors may be two peers: reading one says nothing about the other.
            Opened::Apart(_) => false,
            Opened::Stream(stream) => stream.both.hears_its_peer(),
        }
    }

    fn tap(&self, side: Side) -> Option<&Tap<'a>> {
        match side {
            Side::Source => self.read_tap(),
            Side::Target => self.write_tap(),
        }
    }

    /// A future that tells that the descriptor of a side, or the socket under its stream, has failed while nobody makes a call there.
    pub(crate) fn failing(&self, side: Side) -> Option<Failing<'a>> {
        match self {
            Opened::Stream(stream) => stream.both.error_socket(side).and_then(tap::failing_socket),
            _ => self.tap(side)?.failing(),
        }
    }

    /// Takes the error that this descriptor or socket has, if any (SO_ERROR, socket(7)).
    pub(crate) fn take_error(&self, side: Side) -> Option<Errno> {
        match self {
            Opened::Stream(stream) => stream.both.error_socket(side).and_then(tap::socket_error),
            _ => self.tap(side)?.take_error(),
        }
    }

    /// Are there bytes that nobody has taken yet, as far as can be known without taking them?
    pub(crate) fn has_more(&self) -> bool {
        match self {
            Opened::Stream(stream) => stream.both.has_more(),
            _ => self.read_tap().is_some_and(Tap::has_more),
        }
    }

    /// The written bytes that the reader has not taken, as far as the kernel counts them.
    pub(crate) fn untaken_bytes(&self) -> u64 {
        let fd = match self {
            Opened::Stream(stream) => stream.both.write_fd().or_else(|| stream.both.socket()),
            _ => self.write_tap().and_then(Tap::open_fd),
        };
        fd.and_then(|fd| gush::untaken_bytes(&fd)).unwrap_or(0)
    }

    /// At most so many bytes have come by now, and wait to be read.
    pub(crate) fn received_bytes(&self) -> u64 {
        match self {
            Opened::Stream(stream) => stream.both.received_bytes().unwrap_or(UNKNOWN_BYTES),
            // Anybody's stream cannot be asked how much it holds; a bound is needed all the same.
            Opened::Any(_) => UNKNOWN_BYTES,
            _ => self.read_tap().map_or(0, Tap::unread_bytes),
        }
    }
}

/// Both sides of a direction, for one poll.
pub(crate) struct Sides<'p, 'a, 'b> {
    pub(crate) source: Source<'p, 'a>,
    pub(crate) target: Target<'p, 'b>,
}

impl Sides<'_, '_, '_> {
    /// The descriptors that a call between the sides is made on.
    pub(crate) fn fds(&self) -> Fds<'_> {
        match (self.source.fd(), self.target.fd()) {
            (Some(source), Some(target)) => Fds { source, target },
            (Some(fd), None) | (None, Some(fd)) => Fds::one(fd),
            (None, None) => unreachable!("between two streams a flow only reads and writes"),
        }
    }
}

/// Where the bytes of a direction come from, for one poll.
pub(crate) enum Source<'p, 'a> {
    Tap(&'p mut Tap<'a>),
    /// And whether each read gives a message of its own.
    Stream(&'p mut (dyn AsyncRead + Unpin), bool),
}

impl<'a> Source<'_, 'a> {
    pub(crate) fn state(&self) -> PortState {
        match self {
            Source::Tap(tap) => tap.shape.state,
            Source::Stream(_, keeps_bounds) => in_memory(*keeps_bounds),
        }
    }

    pub(crate) fn is_stream(&self) -> bool {
        matches!(self, Source::Stream(..))
    }

    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Source::Tap(tap) => Some(tap.fd()),
            Source::Stream(..) => None,
        }
    }

    /// May urgent bytes have come that nobody has told of?
    pub(crate) fn may_be_urgent(&self) -> bool {
        match self {
            Source::Tap(tap) => tap.may_be_urgent(),
            Source::Stream(..) => true,
        }
    }

    /// Are the bytes of a read that got less than it asked for the last ones, as far as is known?
    pub(crate) fn has_ended(&self, cx: &mut Context<'_>) -> bool {
        match self {
            Source::Tap(tap) => tap.has_ended(cx),
            Source::Stream(..) => false,
        }
    }

    /// Waits for the next edge, if the last attempt answered `EAGAIN`. A stream is always asked.
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Source::Tap(tap) => tap.poll_ready(cx, Interest::READABLE),
            Source::Stream(..) => Poll::Ready(Ok(())),
        }
    }

    /// How many bytes are known to have come.
    pub(crate) fn unread_bytes(&self) -> u64 {
        match self {
            Source::Tap(tap) => tap.unread_bytes(),
            Source::Stream(..) => 0,
        }
    }

    /// Makes a call that concerns this side, unless the descriptor is known not to be ready.
    pub(crate) fn attempt<T>(&self, call: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        match self {
            Source::Tap(tap) => tap.attempt(Interest::READABLE, call),
            Source::Stream(..) => call(),
        }
    }

    /// The same for a call that reads `most` bytes at most.
    pub(crate) fn attempt_read(
        &self,
        most: usize,
        call: impl FnOnce() -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        match self {
            Source::Tap(tap) => tap.attempt_read(most, call),
            Source::Stream(..) => call(),
        }
    }
}

/// Where they go, for one poll.
pub(crate) enum Target<'p, 'a> {
    Tap(&'p mut Tap<'a>),
    /// And whether each write is a message of its own.
    Stream(&'p mut (dyn AsyncWrite + Unpin), bool),
}

impl<'a> Target<'_, 'a> {
    pub(crate) fn state(&self) -> PortState {
        match self {
            Target::Tap(tap) => tap.shape.state,
            Target::Stream(_, keeps_bounds) => in_memory(*keeps_bounds),
        }
    }

    pub(crate) fn is_stream(&self) -> bool {
        matches!(self, Target::Stream(..))
    }

    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Target::Tap(tap) => Some(tap.fd()),
            Target::Stream(..) => None,
        }
    }

    /// Waits for the next edge, if the last attempt answered `EAGAIN`. A stream is always asked.
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Target::Tap(tap) => tap.poll_ready(cx, Interest::WRITABLE),
            Target::Stream(..) => Poll::Ready(Ok(())),
        }
    }

    /// Makes a call that concerns this side, unless the descriptor is known not to be ready.
    pub(crate) fn attempt<T>(&self, call: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        match self {
            Target::Tap(tap) => tap.attempt(Interest::WRITABLE, call),
            Target::Stream(..) => call(),
        }
    }

    /// Do bytes that wait for more (MSG_MORE) leave with an end passed on by shutdown(2)? Those of TCP itself do (`tcp_send_fin` of
    /// net/ipv4/tcp_output.c). With TLS in the kernel they stay in an open record (`tls_sw_sendmsg` of net/tls/tls_sw.c), behind
    /// which the end goes out first: they would be lost.
    pub(crate) fn sends_kept_bytes_with_the_end(&self) -> bool {
        matches!(self, Target::Tap(tap) if tap.is_bare_tcp())
    }

    /// Leaves the end of the data to close(2), where that says so ([`Tap::owes_end`]).
    pub(crate) fn owes_end(&self) -> bool {
        matches!(self, Target::Tap(tap) if tap.owes_end())
    }

    /// Sends the bytes that a TCP socket keeps for an end that does not follow.
    pub(crate) fn send_kept(&self) {
        if let Some(fd) = self.fd() {
            // Best effort: the bytes leave by themselves a little later.
            let _ = gush::send_kept(&fd);
        }
    }

    /// Sends on the bytes that a stream keeps; a descriptor keeps nothing.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Target::Tap(_) => Poll::Ready(Ok(())),
            Target::Stream(stream, _) => Pin::new(stream).poll_flush(cx),
        }
    }

    /// Passes on the end of the data; `said_bytes` counts the bytes that say so, where bytes do.
    pub(crate) fn poll_finish(
        &mut self,
        cx: &mut Context<'_>,
        said_bytes: &mut usize,
    ) -> Poll<io::Result<EndOfData>> {
        match self {
            Target::Tap(tap) => tap.poll_finish(cx, said_bytes),
            Target::Stream(stream, _) => match ready!(Pin::new(stream).poll_shutdown(cx)) {
                // The peer has gone already: nobody is left to be told.
                Err(error) if error.kind() != io::ErrorKind::NotConnected => {
                    Poll::Ready(Err(error))
                }
                _ => Poll::Ready(Ok(EndOfData::Told)),
            },
        }
    }
}

fn in_memory(keeps_bounds: bool) -> PortState {
    if keeps_bounds { PortState::in_memory_of_messages() } else { PortState::in_memory() }
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

/// Writes to a stream; some of the bytes at least, as a stream that takes none never will.
pub(crate) fn poll_write(
    stream: &mut (dyn AsyncWrite + Unpin),
    cx: &mut Context<'_>,
    bytes: &[u8],
) -> Poll<io::Result<usize>> {
    let written_bytes = ready!(Pin::new(stream).poll_write(cx, bytes))?;
    Poll::Ready(match written_bytes {
        // As in std: asked again, such a stream would answer 0 for ever.
        0 if !bytes.is_empty() => Err(io::ErrorKind::WriteZero.into()),
        // A wrong count would break the account of the flow, so it is an error here.
        more if more > bytes.len() => {
            Err(io::Error::other("the stream says that it took more bytes than it was given"))
        }
        taken => Ok(taken),
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
    fn a_stream_that_took_more_than_it_was_given_is_not_believed() {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let Poll::Ready(answer) = poll_write(&mut Liar, &mut cx, b"abc") else {
            panic!("it answers at once");
        };
        assert!(answer.unwrap_err().to_string().contains("more bytes than it was given"));
    }
}
