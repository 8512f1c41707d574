//! A stream of TLS as an end of a relay.

use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use gush_net::{Conduit, Facts, Layer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsStream;

use super::error;

/// The most bytes of a record's data (RFC 8446, 5.1).
const RECORD_BYTES: usize = 16 << 10;

/// The stream over the socket of the conduit that it was made of.
pub(super) fn conduit(stream: TlsStream<Counted>) -> Conduit {
    Conduit::of_layer(Secured { stream, data_bytes: None, failed: None })
}

/// A conduit that counts the bytes written to it.
pub(super) struct Counted {
    pub conduit: Conduit,
    written_bytes: u64,
}

impl Counted {
    pub fn new(conduit: Conduit) -> Self {
        Self { conduit, written_bytes: 0 }
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.conduit).poll_read(cx, room)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written_bytes = ready!(Pin::new(&mut self.conduit).poll_write(cx, bytes))?;
        self.written_bytes += written_bytes as u64;
        Poll::Ready(Ok(written_bytes))
    }

    /// The last flight of a handshake is two records, which rustls writes in one call.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written_bytes = ready!(Pin::new(&mut self.conduit).poll_write_vectored(cx, pieces))?;
        self.written_bytes += written_bytes as u64;
        Poll::Ready(Ok(written_bytes))
    }

    fn is_write_vectored(&self) -> bool {
        self.conduit.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.conduit).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.conduit).poll_shutdown(cx)
    }
}

struct Secured {
    stream: TlsStream<Counted>,
    /// How many bytes had been written to the socket before the end of the data.
    data_bytes: Option<u64>,
    /// The error to return once all decrypted data is read.
    failed: Option<io::Error>,
}

impl Secured {
    /// The bytes decrypted and not read.
    fn decrypted(&mut self) -> rustls::Reader<'_> {
        match &mut self.stream {
            TlsStream::Client(client) => client.get_mut().1.reader(),
            TlsStream::Server(server) => server.get_mut().1.reader(),
        }
    }

    fn written_bytes(&self) -> u64 {
        self.stream.get_ref().0.written_bytes
    }
}

impl Layer for Secured {
    /// A peer that has closed answers a close_notify by a reset, although all data has arrived.
    fn facts(&self) -> Facts<'_> {
        let end_bytes = self.data_bytes.map_or(0, |data_bytes| self.written_bytes() - data_bytes);
        let inner = self.stream.get_ref().0.conduit.facts();
        Facts { end_bytes, ..Facts::over(inner.socket) }
    }
}

impl AsyncRead for Secured {
    /// Valid records are read before the failure of a later one that arrived with them.
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let failed = match self.failed.take() {
            Some(failed) => failed,
            None => match ready!(Pin::new(&mut self.stream).poll_read(cx, room)) {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(error) => error::of_stream(error),
            },
        };
        match self.decrypted().read(room.initialize_unfilled()) {
            Ok(read_bytes @ 1..) => {
                room.advance(read_bytes);
                self.failed = Some(failed);
                Poll::Ready(Ok(()))
            }
            _ => Poll::Ready(Err(failed)),
        }
    }
}

impl AsyncWrite for Secured {
    /// One record at a time, so that it is known how many bytes were delivered if the socket fails.
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let record = &bytes[..bytes.len().min(RECORD_BYTES)];
        Poll::Ready(
            ready!(Pin::new(&mut self.stream).poll_write(cx, record)).map_err(error::of_stream),
        )
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(ready!(Pin::new(&mut self.stream).poll_flush(cx)).map_err(error::of_stream))
    }

    /// Sends a close_notify after all data, then the socket's own end.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.data_bytes.is_none() {
            ready!(self.as_mut().poll_flush(cx))?;
            self.data_bytes = Some(self.written_bytes());
        }
        Poll::Ready(ready!(Pin::new(&mut self.stream).poll_shutdown(cx)).map_err(error::of_stream))
    }
}
