//! A stream with all the difficult behaviour that the trait's contract permits.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Answers every other call only at a second call, moves small pieces, and may keep written bytes
/// until flushed, as TLS does.
#[derive(Debug)]
pub struct Halting<S> {
    inner: S,
    piece_bytes: usize,
    /// Bytes written are kept until there are so many, or until they are flushed.
    keep_bytes: usize,
    kept: Vec<u8>,
    /// Was the last call of this kind put off?
    halted: [bool; 4],
}

impl<S> Halting<S> {
    /// Keeps nothing.
    pub fn new(inner: S, piece_bytes: usize) -> Self {
        Self::keeping(inner, piece_bytes, 0)
    }

    pub fn keeping(inner: S, piece_bytes: usize, keep_bytes: usize) -> Self {
        Self { inner, piece_bytes, keep_bytes, kept: Vec::new(), halted: [false; 4] }
    }

    fn halts(&mut self, call: usize, cx: &mut Context<'_>) -> Poll<()> {
        self.halted[call] = !self.halted[call];
        if self.halted[call] {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}

impl<S: AsyncWrite + Unpin> Halting<S> {
    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.kept.is_empty() {
            let sent = ready!(Pin::new(&mut self.inner).poll_write(cx, &self.kept))?;
            self.kept.drain(..sent);
        }
        Pin::new(&mut self.inner).poll_flush(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Halting<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.halts(0, cx));
        let mut room = vec![0; self.piece_bytes.min(buf.remaining())];
        let mut piece = ReadBuf::new(&mut room);
        let answer = ready!(Pin::new(&mut self.inner).poll_read(cx, &mut piece));
        buf.put_slice(piece.filled());
        Poll::Ready(answer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Halting<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.halts(1, cx));
        let piece = &bytes[..bytes.len().min(self.piece_bytes)];
        if self.keep_bytes == 0 {
            return Pin::new(&mut self.inner).poll_write(cx, piece);
        }
        if self.kept.len() + piece.len() > self.keep_bytes {
            ready!(self.poll_sent(cx))?;
        }
        self.kept.extend_from_slice(piece);
        Poll::Ready(Ok(piece.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.halts(2, cx));
        self.poll_sent(cx)
    }

    /// Bytes that were kept and not flushed are lost, as the contract permits.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.halts(3, cx));
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
