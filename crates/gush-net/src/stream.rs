//! Streams without a descriptor that a conduit owns, such as those of TLS.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use gush::Side;
use rustix::io::ioctl_fionread;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::conduit::Conduit;

/// The bytes that may be in the buffers of a stream beside those in the socket: a few records of TLS, each of at most 16 KiB
/// (RFC 8446, 5.1).
const STREAM_BYTES: u64 = 64 << 10;

/// A stream over a socket, such as one of TLS, with facts that a [`Conduit`](crate::Conduit) cannot learn from the bytes.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
/// use std::os::fd::{AsFd, BorrowedFd};
/// use std::pin::Pin;
/// use std::task::{Context, Poll};
/// use gush_net::{Conduit, Layer};
/// use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
/// use tokio::net::UnixStream;
///
/// struct Plain(UnixStream);
///
/// impl AsyncRead for Plain {
///     fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
///         Pin::new(&mut self.0).poll_read(cx, room)
///     }
/// }
/// # impl AsyncWrite for Plain {
/// #     fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
/// #         Pin::new(&mut self.0).poll_write(cx, bytes)
/// #     }
/// #     fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
/// #         Pin::new(&mut self.0).poll_flush(cx)
/// #     }
/// #     fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
/// #         Pin::new(&mut self.0).poll_shutdown(cx)
/// #     }
/// # }
/// // `impl AsyncWrite for Plain` likewise.
/// impl Layer for Plain {
///     fn socket(&self) -> Option<BorrowedFd<'_>> {
///         Some(self.0.as_fd())
///     }
/// }
///
/// let conduit = Conduit::of_layer(Plain(UnixStream::pair()?.0));
/// assert!(conduit.stream_socket().is_some() && conduit.end_bytes() == 0);
/// # Ok(()) }
/// ```
pub trait Layer: AsyncRead + AsyncWrite + Send + Sync + Unpin + 'static {
    /// The stream socket under this stream.
    fn socket(&self) -> Option<BorrowedFd<'_>>;

    /// The descriptor that this stream writes at last ([`Conduit::write_fd`](crate::Conduit::write_fd)): that all who could read have
    /// gone is told there, also of a pipe or a terminal.
    fn write_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The socket under this stream, of a stream or of datagrams, whose pending error ([`Conduit::error_socket`](crate::Conduit::error_socket))
    /// fails the relay also while nobody reads or writes.
    fn error_socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket()
    }

    /// How many bytes of the socket have carried the end of the data, such as a close_notify of TLS: 0 until the end was sent. A
    /// peer that does not acknowledge them has all the data.
    fn end_bytes(&self) -> u64 {
        0
    }

    /// Is the transport below without an end of data, as UDP ([`Conduit::is_endless`](crate::Conduit::is_endless))?
    fn is_endless(&self) -> bool {
        false
    }

    /// Does each read of the stream give a message of its own, or each write make one ([`Conduit::keeps_bounds`](crate::Conduit::keeps_bounds))?
    fn keeps_bounds(&self, _: Side) -> bool {
        false
    }

    /// May a read wait although the socket has an error ([`Conduit::misses_errors`](crate::Conduit::misses_errors))?
    fn misses_errors(&self) -> bool {
        self.is_endless()
    }

    /// Do reads tell of the peer's end and of a reset ([`Conduit::hears_its_peer`](crate::Conduit::hears_its_peer))? Not if
    /// the data may end before the peer's.
    fn hears_its_peer(&self) -> bool {
        true
    }

    /// Does closing this stream hang up the other side of a pseudo-terminal
    /// ([`Conduit::is_terminal_master`](crate::Conduit::is_terminal_master))?
    fn is_terminal_master(&self) -> bool {
        false
    }

    /// Reads bytes that the peer sends to nobody, once the data goes the other way only: as `poll_read`, which a layer may refuse
    /// by then.
    fn poll_read_back(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_read(cx, buf)
    }

    /// Says the end of the data if not said yet, before the connection is closed. As `poll_shutdown`, which a layer
    /// may use for less.
    fn poll_part(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_shutdown(cx)
    }
}

/// A stream that a [`Conduit`](crate::Conduit) owns, and the directions in use.
pub(crate) struct Stream {
    pub(crate) both: Box<dyn Both>,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

/// A stream for both directions, perhaps over a socket.
pub(crate) trait Both: Send + Sync {
    fn reader(&mut self) -> &mut (dyn AsyncRead + Unpin);
    fn writer(&mut self) -> &mut (dyn AsyncWrite + Unpin);

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The sockets that are read and written, where these are two.
    fn sockets(&self) -> [Option<BorrowedFd<'_>>; 2] {
        [self.socket(), None]
    }

    /// The descriptor that is written at last, where it is known.
    fn write_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The socket whose pending error is one of this side.
    fn error_socket(&self, _: Side) -> Option<BorrowedFd<'_>> {
        self.socket()
    }

    fn end_bytes(&self) -> u64 {
        0
    }

    fn is_endless(&self) -> bool {
        false
    }

    fn keeps_bounds(&self, _: Side) -> bool {
        false
    }

    fn misses_errors(&self) -> bool {
        false
    }

    fn hears_its_peer(&self) -> bool {
        true
    }

    fn is_terminal_master(&self) -> bool {
        false
    }

    /// Has the stream a peer that says an end, too?
    fn is_connection(&self) -> bool {
        true
    }

    fn poll_read_back(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(self.reader()).poll_read(cx, buf)
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.writer()).poll_shutdown(cx)
    }

    /// How many bytes at most have come and wait to be read; none where nobody knows.
    fn received_bytes(&self) -> Option<u64> {
        let came = self.socket().map(ioctl_fionread)?;
        // The socket's bytes, and as many as the layer may have read ahead.
        came.ok().map(|bytes| bytes + STREAM_BYTES)
    }

    /// Are there bytes that nobody has taken yet, as far as can be known without taking them?
    fn has_more(&self) -> bool {
        self.socket().is_some_and(|socket| ioctl_fionread(socket).is_ok_and(|bytes| bytes > 0))
    }
}

impl Stream {
    pub(crate) fn alone<S>(stream: S) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        Self { both: Box::new(Alone(Mutex::new(stream))), reads: true, writes: true }
    }

    pub(crate) fn over<S>(stream: S, socket: fn(&S) -> Option<BorrowedFd<'_>>) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + Sync + Unpin + 'static,
    {
        Self::layer(Over { stream, socket })
    }

    pub(crate) fn layer(layer: impl Layer) -> Self {
        Self { both: Box::new(Layered(layer)), reads: true, writes: true }
    }

    /// One conduit is read, the other is written.
    pub(crate) fn apart(source: Conduit, target: Conduit) -> Self {
        Self { both: Box::new(Apart { source, target }), reads: true, writes: true }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { both, reads, writes } = self;
        f.debug_struct("Stream")
            .field("socket", &both.socket())
            .field("reads", reads)
            .field("writes", writes)
            .finish()
    }
}

/// Never locked: the lock makes a conduit `Sync` whose stream is not.
struct Alone<S>(Mutex<S>);

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Both for Alone<S> {
    fn reader(&mut self) -> &mut (dyn AsyncRead + Unpin) {
        // Never locked: the Mutex only makes the stream Sync, and `&mut self` needs no lock.
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn writer(&mut self) -> &mut (dyn AsyncWrite + Unpin) {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Layered<L>(L);

impl<L: Layer> Both for Layered<L> {
    fn reader(&mut self) -> &mut (dyn AsyncRead + Unpin) {
        &mut self.0
    }

    fn writer(&mut self) -> &mut (dyn AsyncWrite + Unpin) {
        &mut self.0
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.0.socket()
    }

    fn write_fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.write_fd()
    }

    fn error_socket(&self, _: Side) -> Option<BorrowedFd<'_>> {
        self.0.error_socket()
    }

    fn end_bytes(&self) -> u64 {
        self.0.end_bytes()
    }

    fn is_endless(&self) -> bool {
        self.0.is_endless()
    }

    fn keeps_bounds(&self, side: Side) -> bool {
        self.0.keeps_bounds(side)
    }

    fn misses_errors(&self) -> bool {
        self.0.misses_errors()
    }

    fn hears_its_peer(&self) -> bool {
        self.0.hears_its_peer()
    }

    fn is_terminal_master(&self) -> bool {
        self.0.is_terminal_master()
    }

    /// Around a pipe, a terminal or a file there is nothing to be read back.
    fn is_connection(&self) -> bool {
        self.0.socket().is_some()
    }

    fn poll_read_back(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read_back(cx, buf)
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_part(cx)
    }
}

/// A stream with a function that names the stream's socket.
struct Over<S> {
    stream: S,
    socket: fn(&S) -> Option<BorrowedFd<'_>>,
}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin + 'static> Layer for Over<S> {
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        (self.socket)(&self.stream)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Over<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Over<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

struct Apart {
    source: Conduit,
    target: Conduit,
}

impl Both for Apart {
    fn reader(&mut self) -> &mut (dyn AsyncRead + Unpin) {
        &mut self.source
    }

    fn writer(&mut self) -> &mut (dyn AsyncWrite + Unpin) {
        &mut self.target
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.target.stream_socket()
    }

    fn sockets(&self) -> [Option<BorrowedFd<'_>>; 2] {
        [self.source.stream_socket(), self.target.stream_socket()]
    }

    fn write_fd(&self) -> Option<BorrowedFd<'_>> {
        self.target.write_fd()
    }

    fn error_socket(&self, side: Side) -> Option<BorrowedFd<'_>> {
        match side {
            Side::Source => self.source.error_socket(),
            Side::Target => self.target.error_socket(),
        }
    }

    fn end_bytes(&self) -> u64 {
        self.target.end_bytes()
    }

    fn is_endless(&self) -> bool {
        self.target.is_endless()
    }

    fn keeps_bounds(&self, side: Side) -> bool {
        match side {
            Side::Source => self.source.keeps_bounds(side),
            Side::Target => self.target.keeps_bounds(side),
        }
    }

    fn misses_errors(&self) -> bool {
        self.source.misses_errors()
    }

    fn hears_its_peer(&self) -> bool {
        false
    }

    fn is_terminal_master(&self) -> bool {
        self.target.is_terminal_master()
    }

    fn is_connection(&self) -> bool {
        self.target.is_connection()
    }

    fn poll_read_back(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.target.poll_read_back(cx, buf)
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The peers are told one beside the other: one that cannot be told must not keep the other waiting.
        let (source, target) = (self.source.poll_part(cx), self.target.poll_part(cx));
        if source.is_ready() { target } else { source }
    }

    /// The part that is read is the source; bytes at the socket that is written do not count.
    fn received_bytes(&self) -> Option<u64> {
        self.source.received_bytes()
    }

    fn has_more(&self) -> bool {
        self.source.has_more()
    }
}
