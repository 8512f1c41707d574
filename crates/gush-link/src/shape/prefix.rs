//! `readbytes=` and `escape=`: the data ends after so many bytes, with what follows unread, or
//! before a byte, for terminals that pass every key on.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use gush_net::{Conduit, Facts};
use tokio::io::ReadBuf;

use super::{Shape, poll_read_some};

/// The conduit's data ends once no byte is left to read.
pub(super) struct Prefix {
    left_bytes: u64,
    before: Option<u8>,
}

impl Prefix {
    pub(super) fn after(bytes: u64) -> Self {
        Self { left_bytes: bytes, before: None }
    }

    pub(super) fn before(byte: u8) -> Self {
        Self { left_bytes: u64::MAX, before: Some(byte) }
    }
}

impl Shape for Prefix {
    fn poll_read(
        &mut self,
        conduit: Pin<&mut Conduit>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let most = usize::try_from(self.left_bytes).unwrap_or(usize::MAX);
        let room = match most {
            0 => 0,
            // What a datagram has beyond the end is dropped with it.
            _ if conduit.facts().read_messages => buf.remaining(),
            _ => most.min(buf.remaining()),
        };
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(room));
        if room > 0 {
            ready!(poll_read_some(conduit, cx, &mut part))?;
        }
        let mut read = &part.filled()[..part.filled().len().min(most)];
        self.left_bytes -= read.len() as u64;
        if let Some(at) = read.iter().position(|&byte| Some(byte) == self.before) {
            read = &read[..at];
            self.left_bytes = 0;
        }
        let bytes = read.len();
        buf.advance(bytes);
        Poll::Ready(Ok(()))
    }

    /// The data ends by itself, whatever the peer does.
    fn facts<'a>(&self, facts: Facts<'a>) -> Facts<'a> {
        Facts { endless: false, hears_peer: false, ..facts }
    }
}
