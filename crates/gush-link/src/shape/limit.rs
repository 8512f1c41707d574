//! `readbytes=`: the data ends after so many bytes, and what follows stays unread.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use gush_net::{Conduit, Facts};
use tokio::io::ReadBuf;

use super::{Shape, poll_read_some};

/// The conduit's data ends once no byte is left to read.
pub(super) struct Limit {
    left_bytes: u64,
}

impl Limit {
    pub(super) fn of(bytes: u64) -> Self {
        Self { left_bytes: bytes }
    }
}

impl Shape for Limit {
    fn poll_read(
        &mut self,
        conduit: Pin<&mut Conduit>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let most = usize::try_from(self.left_bytes).unwrap_or(usize::MAX);
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(most.min(buf.remaining())));
        if part.remaining() > 0 {
            ready!(poll_read_some(conduit, cx, &mut part))?;
        }
        let read = part.filled().len();
        self.left_bytes -= u64::try_from(read).unwrap_or(0);
        buf.advance(read);
        Poll::Ready(Ok(()))
    }

    /// The data ends by itself, whatever the peer does.
    fn facts<'a>(&self, facts: Facts<'a>) -> Facts<'a> {
        Facts { endless: false, hears_peer: false, ..facts }
    }
}
