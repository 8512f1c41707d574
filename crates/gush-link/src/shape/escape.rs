//! `escape=BYTE`: a byte that ends the data, for terminals that pass every key on.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use gush_net::{Conduit, Facts};
use tokio::io::ReadBuf;

use super::{Shape, poll_read_some};

/// The conduit's data ends before a byte.
pub(super) struct Escape {
    byte: u8,
    is_met: bool,
}

impl Escape {
    pub(super) fn at(byte: u8) -> Self {
        Self { byte, is_met: false }
    }
}

impl Shape for Escape {
    fn poll_read(
        &mut self,
        conduit: Pin<&mut Conduit>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_met {
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        ready!(poll_read_some(conduit, cx, buf))?;
        let met = buf.filled()[before..].iter().position(|&byte| byte == self.byte);
        if let Some(at) = met {
            self.is_met = true;
            buf.set_filled(before + at);
        }
        Poll::Ready(Ok(()))
    }

    /// The data ends by itself, whatever the peer does.
    fn facts<'a>(&self, facts: Facts<'a>) -> Facts<'a> {
        Facts { endless: false, hears_peer: false, ..facts }
    }
}
