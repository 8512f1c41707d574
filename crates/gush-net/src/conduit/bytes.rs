//! A conduit read and written as a stream of tokio, by a layer around it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use gush::{Errno, Side};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::coop;

use super::{Conduit, Half};

/// Of descriptors by calls that never wait. As the streams of tokio, a descriptor gives other tasks
/// their turn: a layer may read for long without a byte for its own reader.
impl AsyncRead for Conduit {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let conduit = self.get_mut();
        if let Some(Half::Stream(layer)) = conduit.0.get_mut(Side::Source) {
            return Pin::new(layer).poll_read(cx, buf);
        }
        let turn = ready!(coop::poll_proceed(cx));
        let Some(tap) = conduit.reader()? else { return Poll::Ready(Err(Errno::BADF.into())) };
        let read_bytes = ready!(tap.poll_read(cx, buf.initialize_unfilled()))?;
        turn.made_progress();
        buf.advance(read_bytes);
        Poll::Ready(Ok(()))
    }
}

/// Writing keeps no bytes back on descriptors, and ends as [`Conduit::finish`] does.
impl AsyncWrite for Conduit {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let conduit = self.get_mut();
        if let Some(Half::Stream(layer)) = conduit.0.get_mut(Side::Target) {
            return Pin::new(layer).poll_write(cx, bytes);
        }
        match conduit.writer()? {
            Some(tap) => tap.poll_write(cx, bytes),
            None => Poll::Ready(Err(Errno::BADF.into())),
        }
    }

    /// Short pieces leave together: rustls tries only once to write the alert of a failed
    /// handshake, which is two records.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        const TOGETHER_BYTES: usize = 1 << 10;

        let mut filled = pieces.iter().filter(|piece| !piece.is_empty());
        let (first, second) = (filled.next(), filled.next());
        let first = first.map_or(&[][..], |piece| piece);
        // Copying a long piece would cost more than its call.
        if second.is_none() || first.len() >= TOGETHER_BYTES {
            return self.poll_write(cx, first);
        }
        // On the stack, without an allocation.
        let mut together = [0; TOGETHER_BYTES];
        let mut end = 0;
        for piece in pieces {
            let part_bytes = piece.len().min(TOGETHER_BYTES - end);
            together[end..end + part_bytes].copy_from_slice(&piece[..part_bytes]);
            end += part_bytes;
        }
        self.poll_write(cx, &together[..end])
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut().0.get_mut(Side::Target) {
            Some(Half::Stream(layer)) => Pin::new(layer).poll_flush(cx),
            _ => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let conduit = self.get_mut();
        if let Some(Half::Stream(layer)) = conduit.0.get_mut(Side::Target) {
            return Pin::new(layer).poll_shutdown(cx);
        }
        match conduit.writer()? {
            Some(mut tap) => tap.poll_finish(cx, &mut 0).map_ok(drop),
            None => Poll::Ready(Ok(())),
        }
    }
}
