//! `shut-none`: the end of the other side's data is not passed on; the end is closed with the
//! connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use gush_net::{Conduit, Facts};
use tokio::io::AsyncWrite;

use super::Shape;

/// No end is passed to the conduit.
pub(super) struct Unshut;

impl Shape for Unshut {
    fn poll_shutdown(
        &mut self,
        conduit: Pin<&mut Conduit>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        conduit.poll_flush(cx)
    }

    /// A program that is sent no end may read on until the conduit is closed.
    fn facts<'a>(&self, facts: Facts<'a>) -> Facts<'a> {
        Facts { hangs_up: false, ..facts }
    }
}
