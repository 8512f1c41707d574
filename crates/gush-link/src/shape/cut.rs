//! `-b` with `--graceful`: what a datagram has beyond the size is dropped, as recv(2) drops it for
//! socat.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use gush_net::Conduit;
use tokio::io::ReadBuf;

use super::{Shape, poll_read_some};

/// No datagram that is read is longer than this.
pub(super) struct Cut {
    pub most_bytes: usize,
}

impl Shape for Cut {
    fn poll_read(
        &mut self,
        conduit: Pin<&mut Conduit>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let most = buf.filled().len() + self.most_bytes;
        ready!(poll_read_some(conduit, cx, buf))?;
        buf.set_filled(buf.filled().len().min(most));
        Poll::Ready(Ok(()))
    }
}
