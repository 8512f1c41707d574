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
pub(super) fn conduit(stream: TlsStream<Conduit>) -> Conduit {
    Conduit::of_layer(Secured { stream, end: None, end_bytes: 0, failed: None })
}

struct Secured {
    stream: TlsStream<Conduit>,
    /// The close_notify, once all data is written to the socket.
    end: Option<Vec<u8>>,
    /// How many bytes of it are written.
    end_bytes: usize,
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

    /// Takes the close_notify out of the session, which makes no second one.
    fn close_notify(&mut self) -> io::Result<Vec<u8>> {
        let mut record = Vec::new();
        self.stream.get_mut().1.send_close_notify();
        match &mut self.stream {
            TlsStream::Client(client) => client.get_mut().1.write_tls(&mut record)?,
            TlsStream::Server(server) => server.get_mut().1.write_tls(&mut record)?,
        };
        Ok(record)
    }
}

impl Layer for Secured {
    /// A peer that has closed answers a close_notify by a reset, although all data has arrived.
    fn facts(&self) -> Facts<'_> {
        let inner = self.stream.get_ref().0.facts();
        Facts { end_bytes: self.end_bytes as u64, ..Facts::over(inner.socket) }
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
        if self.end.is_none() {
            ready!(self.as_mut().poll_flush(cx))?;
            self.end = Some(self.close_notify()?);
        }
        let Self { stream, end, end_bytes, .. } = &mut *self;
        while let Some(rest @ [_, ..]) = end.as_ref().and_then(|end| end.get(*end_bytes..)) {
            *end_bytes += ready!(Pin::new(&mut *stream.get_mut().0).poll_write(cx, rest))?;
        }
        Poll::Ready(ready!(Pin::new(&mut self.stream).poll_shutdown(cx)).map_err(error::of_stream))
    }
}
