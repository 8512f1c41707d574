//! `crnl` and `cr`: lines that end otherwise on one side, as socat converts them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use gush_net::Conduit;
use tokio::io::AsyncWrite;

/// How lines end at the conduit. At the other side they end by a line feed.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineEnd {
    /// Written for a line feed.
    written: &'static [u8],
    /// The byte that replaces a carriage return read.
    carriage_return: Option<u8>,
}

/// A carriage return and a line feed; every carriage return that is read is left out, alone or not,
/// as by socat.
pub(super) const CRNL: LineEnd = LineEnd { written: b"\r\n", carriage_return: None };
/// A carriage return.
pub(super) const CR: LineEnd = LineEnd { written: b"\r", carriage_return: Some(b'\n') };

/// So many bytes are converted at once.
const PIECE_BYTES: usize = 16 << 10;

/// Converts the line ends of a conduit.
pub(super) struct Lines {
    end: LineEnd,
    /// Converted, and written up to `written_bytes`.
    pending: Vec<u8>,
    written_bytes: usize,
}

impl Lines {
    pub fn new(end: LineEnd) -> Self {
        Self { end, pending: Vec::new(), written_bytes: 0 }
    }

    /// Converts what was read, in place. How many bytes are kept?
    pub fn keep(&self, read: &mut [u8]) -> usize {
        let mut kept_bytes = 0;
        for at in 0..read.len() {
            let byte = if read[at] == b'\r' { self.end.carriage_return } else { Some(read[at]) };
            if let Some(byte) = byte {
                read[kept_bytes] = byte;
                kept_bytes += 1;
            }
        }
        kept_bytes
    }

    pub fn poll_write(
        &mut self,
        conduit: &mut Conduit,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_drain(conduit, cx))?;
        if bytes.is_empty() {
            // An empty datagram.
            return Pin::new(conduit).poll_write(cx, bytes);
        }
        // A datagram stays one.
        let piece_bytes = if conduit.facts().write_messages { usize::MAX } else { PIECE_BYTES };
        let piece = &bytes[..bytes.len().min(piece_bytes)];
        for &byte in piece {
            match byte {
                b'\n' => self.pending.extend_from_slice(self.end.written),
                _ => self.pending.push(byte),
            }
        }
        // Bytes without room now are written before the next piece, or by a flush.
        match self.poll_drain(conduit, cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(piece.len())),
        }
    }

    /// Writes everything that is converted.
    pub fn poll_drain(
        &mut self,
        conduit: &mut Conduit,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.written_bytes < self.pending.len() {
            let rest = &self.pending[self.written_bytes..];
            match ready!(Pin::new(&mut *conduit).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                bytes => self.written_bytes += bytes,
            }
        }
        // An idle connection keeps no buffer.
        (self.pending, self.written_bytes) = (Vec::new(), 0);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::io::AsyncReadExt;

    use super::super::{Shape, around};
    use super::*;

    /// All carriage returns are left out, so that no byte ends the reading.
    #[tokio::test]
    async fn others_have_their_turn_while_carriage_returns_come_without_an_end() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&vec![b'\r'; 16 << 20]).expect("room");
        file.rewind().expect("a file");
        let shape = Shape { lines: Some(Lines::new(CRNL)), ..Shape::default() };
        let mut lines = around(Conduit::new(file.into()).expect("an end"), shape);
        let turns = Arc::new(AtomicU32::new(0));
        let other = tokio::spawn({
            let turns = Arc::clone(&turns);
            async move {
                loop {
                    turns.fetch_add(1, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                }
            }
        });
        let mut room = [0; 4096];
        assert_eq!(lines.read(&mut room).await.expect("no error"), 0);
        other.abort();
        assert!(turns.load(Ordering::Relaxed) > 10);
    }
}
