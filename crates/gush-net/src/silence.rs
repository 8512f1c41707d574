//! The limit on how long nothing may move.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// A timer that a busy relay never touches: when it fires, the last activity decides.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    seen: u64,
    since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Silence {
    /// Ready when `activity` has not changed for as long as `limit`.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        activity: u64,
        limit: Option<Duration>,
    ) -> Poll<()> {
        let Some(limit) = limit else { return Poll::Pending };
        let since = match self.since {
            Some(since) if activity == self.seen => since,
            _ => Instant::now(),
        };
        (self.seen, self.since) = (activity, Some(since));
        // A limit beyond the clock is none.
        let Some(end) = since.checked_add(limit) else { return Poll::Pending };
        // One timer for the whole silence: moving it at every message would cost as much as the message.
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
        // A shorter limit holds from now on; a longer one is seen to when the timer fires.
        if timer.deadline() > end {
            timer.as_mut().reset(end);
        }
        loop {
            ready!(timer.as_mut().poll(cx));
            // Fired early, because bytes have moved since it was set: it is set anew.
            if timer.deadline() >= end {
                return Poll::Ready(());
            }
            timer.as_mut().reset(end);
        }
    }

    /// Counts from now, without regard to earlier moves.
    pub(crate) fn restart(&mut self) {
        self.since = None;
        // It belongs to the runtime of the last run, which may be gone.
        self.timer = None;
    }
}
