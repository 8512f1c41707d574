//! Streams that a conduit owns, such as those of TLS, and what is known of an end apart from its
//! bytes.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What is known of an end of a relay apart from its bytes.
///
/// A [`Layer`] starts from the facts of the stream below it and changes those that differ:
/// `Facts { endless: true, ..self.inner.facts() }`, or `..Facts::over(socket)`.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The stream socket of the end, or the one under its stream.
    pub socket: Option<BorrowedFd<'a>>,
    /// The descriptor that is written last. Once all readers are gone it reports an error, also if
    /// it is a pipe or a terminal.
    pub write_fd: Option<BorrowedFd<'a>>,
    /// The socket, of a stream or of datagrams, whose pending error (SO_ERROR, socket(7)) is one of
    /// the end, such as a datagram refused by ICMP (udp(7)).
    pub error_socket: Option<BorrowedFd<'a>>,
    /// The bytes of the socket that carried the end of the data, such as a close_notify of TLS; 0
    /// until the end was sent. A peer that does not acknowledge them has all the data.
    pub end_bytes: u64,
    /// The data has no end, as in UDP: a read of 0 bytes is an empty message.
    pub endless: bool,
    /// Each read returns one message, and needs room for a whole one.
    pub read_messages: bool,
    /// Each write makes one message.
    pub write_messages: bool,
    /// An empty message can be written, and is no end.
    pub write_empty: bool,
    /// A read may wait although `error_socket` has an error: no error makes a datagram socket
    /// readable.
    pub misses_errors: bool,
    /// Reads report the end and the reset of the peer that is written to. They do not if one
    /// descriptor is read and another written, or if the data may end before the peer's.
    pub hears_peer: bool,
    /// Closing the end hangs up the other side, as closing the master of a pseudo-terminal does.
    pub hangs_up: bool,
    /// What is written goes to a connection, whose peer ends its data, too.
    pub connected: bool,
}

impl<'a> Facts<'a> {
    /// The facts of a stream over `socket`.
    #[must_use]
    pub fn over(socket: Option<BorrowedFd<'a>>) -> Self {
        Self {
            socket,
            write_fd: None,
            error_socket: socket,
            end_bytes: 0,
            endless: false,
            read_messages: false,
            write_messages: false,
            write_empty: false,
            misses_errors: false,
            hears_peer: true,
            hangs_up: false,
            connected: socket.is_some(),
        }
    }

    /// Of an end that reads from one half and writes to the other.
    pub(crate) fn of_two(read: Option<Self>, write: Option<Self>) -> Self {
        let apart = match (read, write) {
            (Some(read), Some(write)) => Self {
                endless: read.endless,
                read_messages: read.read_messages,
                misses_errors: read.misses_errors,
                ..write
            },
            (Some(read), None) => {
                Self { write_fd: None, write_messages: false, connected: false, ..read }
            }
            (None, Some(write)) => Self { read_messages: false, misses_errors: false, ..write },
            (None, None) => Self::over(None),
        };
        Self { hears_peer: false, ..apart }
    }
}

/// A stream over a socket, such as one of TLS, with facts that a [`Conduit`](crate::Conduit) cannot
/// learn from the bytes.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
/// use std::os::fd::AsFd;
/// use std::pin::Pin;
/// use std::task::{Context, Poll};
/// use gush_net::{Conduit, Facts, Layer};
/// use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
/// use tokio::net::UnixStream;
///
/// struct Plain(UnixStream);
///
/// impl AsyncRead for Plain {
///     fn poll_read(
///         mut self: Pin<&mut Self>,
///         cx: &mut Context<'_>,
///         buf: &mut ReadBuf<'_>,
///     ) -> Poll<std::io::Result<()>> {
///         Pin::new(&mut self.0).poll_read(cx, buf)
///     }
/// }
/// # impl AsyncWrite for Plain {
/// #     fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8])
/// #         -> Poll<std::io::Result<usize>> { Pin::new(&mut self.0).poll_write(cx, bytes) }
/// #     fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>)
/// #         -> Poll<std::io::Result<()>> { Pin::new(&mut self.0).poll_flush(cx) }
/// #     fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>)
/// #         -> Poll<std::io::Result<()>> { Pin::new(&mut self.0).poll_shutdown(cx) }
/// # }
/// // `impl AsyncWrite for Plain` likewise.
/// impl Layer for Plain {
///     fn facts(&self) -> Facts<'_> {
///         Facts::over(Some(self.0.as_fd()))
///     }
/// }
///
/// let conduit = Conduit::of_layer(Plain(UnixStream::pair()?.0));
/// assert!(conduit.facts().socket.is_some());
/// # Ok(()) }
/// ```
pub trait Layer: AsyncRead + AsyncWrite + Send + Sync + Unpin + 'static {
    /// What is known of this stream now.
    fn facts(&self) -> Facts<'_>;

    /// Reads bytes that the peer sends although the data goes the other way only. By then a layer
    /// may refuse `poll_read`.
    fn poll_read_back(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_read(cx, buf)
    }

    /// Sends the end of the data, if it is not sent yet, before the connection is closed. A layer
    /// may use `poll_shutdown` for less.
    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_shutdown(cx)
    }
}

impl fmt::Debug for dyn Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Layer").field(&self.facts()).finish()
    }
}

/// A stream of which nothing is known. The mutex is never locked: it makes the stream `Sync`.
pub(crate) struct Alone<S>(pub(crate) Mutex<S>);

impl<S: Unpin> Alone<S> {
    fn stream(&mut self) -> Pin<&mut S> {
        Pin::new(self.0.get_mut().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Layer for Alone<S> {
    fn facts(&self) -> Facts<'_> {
        Facts { connected: true, ..Facts::over(None) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Alone<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream().poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Alone<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }
}
