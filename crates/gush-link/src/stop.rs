//! Ending a link from outside: gracefully, then at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

/// What a link does. Ordered: a later phase is never left for an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LinkPhase {
    Serving,
    Draining,
    /// The drain limit is over: connections still open are cut.
    Cutting,
    Ending,
}

/// Ends a link from another thread. All clones end the same link.
///
/// ```
/// use gush_link::{Link, Settings, Stop};
/// let stop = Stop::new();
/// stop.end();
/// let link = Link::new("null:".parse()?, "null:".parse()?, Settings::default())?;
/// assert_eq!(link.run(&stop)?.connections, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Stop {
    state: watch::Sender<LinkPhase>,
    /// When draining, or the end, was first requested.
    since: Arc<OnceLock<Instant>>,
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}

impl Stop {
    /// Not requested yet: the link goes on.
    #[must_use]
    pub fn new() -> Self {
        Self { state: watch::Sender::new(LinkPhase::Serving), since: Arc::default() }
    }

    /// Accepts no new clients. Connected clients may finish within
    /// [`Settings::drain`](crate::Settings::drain).
    pub fn drain(&self) {
        self.advance(LinkPhase::Draining);
    }

    /// Ends every connection at once.
    pub fn end(&self) {
        self.advance(LinkPhase::Ending);
    }

    /// Ends the connections unfinished at the drain limit.
    pub(crate) fn cut(&self) {
        self.advance(LinkPhase::Cutting);
    }

    /// Was [`drain`](Self::drain) or [`end`](Self::end) called?
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        *self.state.borrow() > LinkPhase::Serving
    }

    fn advance(&self, state: LinkPhase) {
        // The first request counts: a second SIGTERM must not restart the drain limit.
        self.since.get_or_init(Instant::now);
        self.state.send_if_modified(|now| {
            let advances = state > *now;
            *now = state.max(*now);
            advances
        });
    }

    /// Was [`end`](Self::end) called?
    #[must_use]
    pub fn is_ending(&self) -> bool {
        *self.state.borrow() == LinkPhase::Ending
    }

    /// Was the end requested, or has the drain limit passed? Then nothing more is waited for.
    pub(crate) fn is_over(&self, limit: Duration) -> bool {
        self.is_ending() || self.since.get().is_some_and(|since| since.elapsed() >= limit)
    }

    /// Resolves when draining or the end is requested.
    pub(crate) async fn draining(&self) {
        self.reached(LinkPhase::Draining).await;
    }

    /// Resolves when the connections are to end: on request, or at the drain limit.
    pub(crate) async fn cancelled(&self) {
        self.reached(LinkPhase::Cutting).await;
    }

    async fn reached(&self, state: LinkPhase) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.state.subscribe().wait_for(|now| *now >= state).await;
    }
}

/// [`Stop::cancelled`] for the connections of one thread. The [`Stop`] itself has locks and
/// counters that all threads share, which a short connection would pay for.
#[derive(Debug, Default)]
pub(crate) struct Cancellation {
    is_cancelled: AtomicBool,
    notify: Notify,
}

impl Cancellation {
    /// Follows `stop` in a task of the current runtime.
    pub(crate) fn of(stop: &Stop) -> Arc<Self> {
        let cancellation = Arc::new(Self::default());
        let (stop, followed) = (stop.clone(), Arc::clone(&cancellation));
        tokio::spawn(async move {
            stop.cancelled().await;
            followed.is_cancelled.store(true, Ordering::Release);
            followed.notify.notify_waiters();
        });
        cancellation
    }

    pub(crate) async fn cancelled(&self) {
        // Registered before the check: a notification in between is not lost.
        let notified = self.notify.notified();
        if !self.is_cancelled.load(Ordering::Acquire) {
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::task::yield_now;

    use super::*;

    /// Long enough for every task of this thread to see a new state.
    async fn a_while() {
        for _ in 0..10 {
            yield_now().await;
        }
    }

    #[test]
    fn a_drain_after_an_end_changes_nothing_and_the_first_request_counts() {
        let stop = Stop::new();
        let (none, hour) = (Duration::ZERO, Duration::from_secs(3600));
        assert!(!stop.is_wanted() && !stop.is_over(none));
        stop.drain();
        assert!(stop.is_wanted() && !stop.is_ending());
        assert!(stop.is_over(none) && !stop.is_over(hour));
        stop.end();
        stop.drain();
        assert!(stop.is_ending() && stop.is_over(hour));
    }

    #[test]
    fn the_end_reaches_tasks_that_wait_already_and_those_that_wait_later() {
        crate::workers::runtime().expect("a runtime").block_on(async {
            for end in [Stop::end, Stop::cut] {
                let stop = Stop::new();
                let cancellation = Cancellation::of(&stop);
                let mut waits = pin!(cancellation.cancelled());
                stop.drain();
                tokio::select! {
                    biased;
                    () = waits.as_mut() => panic!("draining is no end"),
                    () = a_while() => {}
                }
                end(&stop);
                waits.await;
                for late in [&cancellation, &Cancellation::of(&stop)] {
                    let mut late = pin!(late.cancelled());
                    tokio::select! {
                        biased;
                        () = late.as_mut() => {}
                        () = a_while() => panic!("a later task never sees the end"),
                    }
                }
            }
        });
    }
}
