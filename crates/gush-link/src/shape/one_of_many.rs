//! An end that other clients use, too (`shared`): what is read from one client is written as a
//! whole, and no end of data is passed on.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use gush_net::Conduit;
use tokio::io::AsyncWrite;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// Whose turn it is to write.
pub(crate) type WriteTurn = Arc<Mutex<()>>;

type Waiting = Pin<Box<dyn Future<Output = OwnedMutexGuard<()>> + Send + Sync>>;

/// One of the clients.
pub(super) struct OneOfMany {
    turn: WriteTurn,
    /// Held until the piece that was begun is written.
    held: Option<OwnedMutexGuard<()>>,
    waiting: Option<Waiting>,
    left_bytes: usize,
}

impl OneOfMany {
    pub(super) fn with(turn: WriteTurn) -> Self {
        Self { turn, held: None, waiting: None, left_bytes: 0 }
    }

    pub(super) fn poll_write(
        &mut self,
        conduit: &mut Conduit,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.held.is_none() {
            let lock = || -> Waiting { Box::pin(Arc::clone(&self.turn).lock_owned()) };
            self.held = Some(ready!(self.waiting.get_or_insert_with(lock).as_mut().poll(cx)));
            self.waiting = None;
            self.left_bytes = bytes.len();
        }
        let written = ready!(Pin::new(conduit).poll_write(cx, bytes));
        self.left_bytes = self.left_bytes.saturating_sub(*written.as_ref().unwrap_or(&usize::MAX));
        if self.left_bytes == 0 {
            self.held = None;
        }
        Poll::Ready(written)
    }
}
