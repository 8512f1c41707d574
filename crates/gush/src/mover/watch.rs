//! Time: who is asked how often, how much may move before that, how long a wait may last.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::io;

use super::Observer;
use super::gather::{Gather, REST};
use super::request::Request;
use crate::cancel::Cancel;
use crate::flow::Flow;
use crate::method::MethodName;
use crate::port::Side;
use crate::progress::{Control, Pace, Progress};
use crate::rate::Rate;
use crate::wait::{self, SLICE, Wait, Waiter, Woken};

/// The observer, the canceller and the rate of one move.
pub(super) struct Watch<'a> {
    observer: Option<Observer<'a>>,
    cancel: Option<&'a Cancel>,
    rate: Option<Rate>,
    pace: Pace,
    waiter: Waiter,
    gather: Option<Gather>,
    started: Instant,
    asked: Instant,
}

impl<'a> Watch<'a> {
    pub(super) fn new(request: &Request<'a>, observer: Option<Observer<'a>>) -> Self {
        let cancel = request.cancel;
        let now = Instant::now();
        Self {
            // Small steps cost calls, so only a move that somebody looks at or slows down has them.
            pace: Pace::new(observer.is_some() || cancel.is_some() || request.is_limited()),
            observer,
            cancel,
            rate: request.rate.clone(),
            waiter: Waiter::new(request.wait),
            gather: None,
            started: now,
            asked: now,
        }
    }

    /// Does somebody look, or may somebody end the move? Then no wait lasts longer than a slice.
    pub(super) fn is_watched(&self) -> bool {
        self.observer.is_some() || self.cancel.is_some()
    }

    fn slice(&self, is_long: bool) -> Option<Duration> {
        // A first slice ends for everybody, so that an idle move gives its pipe and buffer back.
        wait::longest(!is_long || self.is_watched())
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.is_some_and(Cancel::is_cancelled)
    }

    pub(super) fn canceller(&self) -> Option<&'a Cancel> {
        self.cancel
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// How many bytes may be taken now; 0 where the rate allows none yet.
    pub(super) fn allowance(&mut self) -> u64 {
        let allowed = self.rate.as_ref().map_or(Ok(u64::MAX), Rate::allowance);
        allowed.map_or(0, |bytes| bytes.min(self.pace.budget_bytes()))
    }

    /// Sleeps until the rate allows more, a slice at most.
    pub(super) fn pause(&mut self) {
        if let Some(rate) = &self.rate
            && let Err(pause) = rate.allowance()
        {
            // In slices: a low rate would hold a stop for minutes (invariant 7).
            rate.begin_sleep();
            std::thread::sleep(pause.min(SLICE));
        }
    }

    /// Counts bytes that were taken against the rate.
    pub(super) fn spend(&mut self, taken_bytes: u64) {
        if let Some(rate) = &self.rate {
            rate.spend(taken_bytes);
        }
    }

    /// The time at which a step begins, if somebody wants to know how long the step takes.
    pub(super) fn now(&self) -> Option<Instant> {
        // An unwatched move has no pace to learn, so the clock is not asked.
        self.is_watched().then(Instant::now)
    }

    /// Learns how long the step took that delivered these bytes.
    pub(super) fn learn(&mut self, bytes: u64, began: Option<Instant>) {
        if let Some(began) = began {
            self.pace.learn(bytes, began.elapsed());
        }
    }

    /// From now on rests where that gathers bytes, unless the user has said how to wait.
    pub(super) fn gather_between(&mut self, flow: &Flow) {
        if self.waiter.way() == Wait::Auto {
            self.gather = Gather::between(flow.sides(), Instant::now());
        }
    }

    /// Rests after a short step of a dense stream.
    pub(super) fn gather(&mut self, moved_bytes: u64) {
        if let Some(gather) = &mut self.gather
            && gather.is_due(moved_bytes, Instant::now())
        {
            std::thread::sleep(REST);
        }
    }

    /// Waits for the side, a slice at most; in a long wait only if somebody watches.
    ///
    /// # Errors
    /// That of poll(2).
    pub(super) fn wait_for(
        &mut self,
        fd: BorrowedFd<'_>,
        side: Side,
        is_long: bool,
    ) -> io::Result<Woken> {
        self.waiter.for_side(fd, side, self.slice(is_long))
    }

    /// Was nobody asked for as long as a slice?
    pub(super) fn is_due(&self) -> bool {
        self.asked.elapsed() >= SLICE
    }

    /// Calls the observer, and returns whether the move is to go on.
    pub(super) fn ask(
        &mut self,
        bytes: u64,
        expected_bytes: Option<u64>,
        method: MethodName,
    ) -> Control {
        let Some(observer) = &mut self.observer else { return self.unless_cancelled() };
        let elapsed = self.started.elapsed();
        self.asked = Instant::now();
        match observer(&Progress { bytes, expected_bytes, elapsed, method }) {
            Control::Stop => Control::Stop,
            _ => self.unless_cancelled(),
        }
    }

    fn unless_cancelled(&self) -> Control {
        if self.is_cancelled() { Control::Stop } else { Control::Continue }
    }

    /// Takes the observer out for a while; [`Watch::observe_again`] puts it back.
    pub(super) fn take_observer(&mut self) -> Option<Observer<'a>> {
        self.observer.take()
    }

    pub(super) fn observe_again(&mut self, observer: Option<Observer<'a>>) {
        self.observer = observer;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Within so much a command ends (invariant 7).
    const PROMISED: Duration = Duration::from_millis(100);

    /// A test with a clock would blame a busy machine.
    #[test]
    fn invariant_7_a_watched_wait_takes_half_of_what_is_promised_at_most() {
        let cancel = Cancel::new();
        let mut observer = |_: &Progress| Control::Continue;
        let cancelled = Request { cancel: Some(&cancel), ..Request::default() };
        let watched =
            [Watch::new(&cancelled, None), Watch::new(&Request::default(), Some(&mut observer))];
        for watch in watched {
            for is_long in [false, true] {
                let slice = watch.slice(is_long).expect("a slice");
                assert!(!slice.is_zero() && slice * 2 <= PROMISED, "{slice:?}");
            }
        }
        assert_eq!(Watch::new(&Request::default(), None).slice(true), None, "nobody asks");
    }
}
