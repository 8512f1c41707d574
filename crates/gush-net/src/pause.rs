//! A pause before a call is repeated on a descriptor that epoll does not take.
//!
//! epoll(7) refuses files, and devices without a poll operation, which poll(2) reports as ready.
//! Some answer `EAGAIN` all the same, such as /dev/hwrng without entropy (rng_dev_read in
//! drivers/char/hw_random/core.c). Repeating the read at once would take a whole processor.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

/// The resolution of tokio's timers.
const PAUSE: Duration = Duration::from_millis(1);

/// Whether the last call answered `EAGAIN`, and the pause since then.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    refused: AtomicBool,
    sleep: Mutex<Option<Pin<Box<Sleep>>>>,
}

impl Pause {
    /// A call has answered `EAGAIN`.
    pub(crate) fn begin(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }

    /// Ready at once, unless the last call answered `EAGAIN`.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.refused.load(Ordering::Relaxed) {
            return Poll::Ready(());
        }
        // Two directions may share the descriptor.
        let mut pause = self.sleep.lock().unwrap_or_else(PoisonError::into_inner);
        ready!(pause.get_or_insert_with(|| Box::pin(sleep(PAUSE))).as_mut().poll(cx));
        *pause = None;
        self.refused.store(false, Ordering::Relaxed);
        Poll::Ready(())
    }
}
