//! Ending a link from outside: politely, then at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

/// How a link shall end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wish {
    GoOn,
    Drain,
    Cut,
    End,
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
    wish: watch::Sender<Wish>,
    /// When draining, or the end, was first wanted.
    since: Arc<OnceLock<Instant>>,
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}

impl Stop {
    /// A stop not wanted yet: the link goes on.
    #[must_use]
    pub fn new() -> Self {
        Self { wish: watch::Sender::new(Wish::GoOn), since: Arc::default() }
    }

    /// Accepts no new client. Connected clients may finish within
    /// [`Settings::drain`](crate::Settings::drain).
    pub fn drain(&self) {
        self.want(Wish::Drain);
    }

    /// Ends every connection at once.
    pub fn end(&self) {
        self.want(Wish::End);
    }

    /// Ends the connections unfinished at the drain limit.
    pub(crate) fn cut(&self) {
        self.want(Wish::Cut);
    }

    /// Was [`drain`](Self::drain) or [`end`](Self::end) called?
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        *self.wish.borrow() > Wish::GoOn
    }

    fn want(&self, wish: Wish) {
        // The first wish counts: a second SIGTERM must not give the drain its time anew.
        self.since.get_or_init(Instant::now);
        self.wish.send_if_modified(|now| {
            let sooner = wish > *now;
            // Wishes only grow: a drain after an end would let clients in again.
            *now = wish.max(*now);
            sooner
        });
    }

    /// Was [`end`](Self::end) called?
    #[must_use]
    pub fn is_ending(&self) -> bool {
        *self.wish.borrow() == Wish::End
    }

    /// Is the end wanted, or has draining been wanted for `limit`? Then nothing more is waited for.
    pub(crate) fn is_over(&self, limit: Duration) -> bool {
        self.is_ending() || self.since.get().is_some_and(|since| since.elapsed() >= limit)
    }

    /// Waits until draining or the end is wanted.
    pub(crate) async fn draining(&self) {
        self.reached(Wish::Drain).await;
    }

    /// Waits until the end is wanted, or the connections are cut.
    pub(crate) async fn ending(&self) {
        self.reached(Wish::Cut).await;
    }

    async fn reached(&self, wish: Wish) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.wish.subscribe().wait_for(|now| *now >= wish).await;
    }
}

/// The end of a link as the connections of one thread wait for it. To ask the [`Stop`] itself takes locks and counters that all
/// threads share, and a short connection pays for each of them.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    is_reached: AtomicBool,
    told: Notify,
}

impl Ending {
    /// The end by `stop`, told on the runtime of the calling thread.
    pub(crate) fn of(stop: &Stop) -> Arc<Self> {
        let ending = Arc::new(Self::default());
        let (stop, watched) = (stop.clone(), Arc::clone(&ending));
        tokio::spawn(async move {
            stop.ending().await;
            watched.is_reached.store(true, Ordering::Release);
            watched.told.notify_waiters();
        });
        ending
    }

    /// Waits until the end is wanted, or the connections are cut.
    pub(crate) async fn reached(&self) {
        // Made before the look: an end told in between is not missed.
        let told = self.told.notified();
        if !self.is_reached.load(Ordering::Acquire) {
            told.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::task::yield_now;

    use super::*;

    /// Long enough for every task of this thread to see a wish.
    async fn a_while() {
        for _ in 0..10 {
            yield_now().await;
        }
    }

    #[test]
    fn the_soonest_wish_stays_and_the_first_one_counts() {
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
    fn the_end_is_heard_by_who_waits_and_by_who_comes_later() {
        crate::workers::runtime().expect("a runtime").block_on(async {
            for end in [Stop::end, Stop::cut] {
                let stop = Stop::new();
                let ending = Ending::of(&stop);
                let mut waits = pin!(ending.reached());
                stop.drain();
                tokio::select! {
                    biased;
                    () = waits.as_mut() => panic!("draining is no end"),
                    () = a_while() => {}
                }
                end(&stop);
                waits.await;
                for late in [&ending, &Ending::of(&stop)] {
                    let mut late = pin!(late.reached());
                    tokio::select! {
                        biased;
                        () = late.as_mut() => {}
                        () = a_while() => panic!("who comes later never hears"),
                    }
                }
            }
        });
    }
}
