//! An end that other clients use, too (`shared`): what is read from one client is written as a
//! whole, and no end of data is passed on.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use gush_net::{Conduit, Facts};
use tokio::io::AsyncWrite;
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::Shape;

/// Whose turn it is to write.
pub(crate) type WriteTurn = Arc<Mutex<()>>;

/// One of the clients.
pub(super) struct OneOfMany {
    turn: WriteTurn,
    /// Held until the piece that was begun is written.
    held: Option<OwnedMutexGuard<()>>,
    waiting: Option<Pin<Box<dyn Future<Output = OwnedMutexGuard<()>> + Send + Sync>>>,
    left_bytes: usize,
}

impl OneOfMany {
    pub(super) fn with(turn: WriteTurn) -> Self {
        Self { turn, held: None, waiting: None, left_bytes: 0 }
    }

    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<OwnedMutexGuard<()>> {
        if self.waiting.is_none() {
            match Arc::clone(&self.turn).try_lock_owned() {
                Ok(held) => return Poll::Ready(held),
                Err(_) => self.waiting = Some(Box::pin(Arc::clone(&self.turn).lock_owned())),
            }
        }
        let held = self.waiting.as_mut().map_or(Poll::Pending, |waiting| waiting.as_mut().poll(cx));
        if held.is_ready() {
            self.waiting = None;
        }
        held
    }
}

impl Shape for OneOfMany {
    fn poll_write(
        &mut self,
        conduit: Pin<&mut Conduit>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.held.is_none() {
            self.held = Some(ready!(self.poll_turn(cx)));
            self.left_bytes = bytes.len();
        }
        let written = ready!(conduit.poll_write(cx, bytes));
        self.left_bytes = self.left_bytes.saturating_sub(*written.as_ref().unwrap_or(&usize::MAX));
        if self.left_bytes == 0 {
            self.held = None;
        }
        Poll::Ready(written)
    }

    /// The other clients go on.
    fn poll_shutdown(
        &mut self,
        conduit: Pin<&mut Conduit>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        conduit.poll_flush(cx)
    }

    /// Neither waited for nor reset, drained nor hung up at the end of one client.
    fn facts<'a>(&self, facts: Facts<'a>) -> Facts<'a> {
        Facts { socket: None, connected: false, hangs_up: false, ..facts }
    }
}
