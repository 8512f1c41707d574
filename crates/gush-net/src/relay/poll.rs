//! One poll of a relay: both directions, the errors of idle sides, time limits, and the result.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use gush::Side;
use tokio::task::coop;

use super::Relay;
use crate::call::Failure;
use crate::counts::Direction;
use crate::drive::{Driver, PassedEnd};
use crate::ends::Ends;
use crate::error::{EndReason, Error, Totals};
use crate::sides::Target;
use crate::tap::{Failing, Tap};

/// After a failure: how long a target may keep the last bytes of the other direction waiting.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// For each direction and side: resolves when that side fails while no call is made there. Kept
/// between polls, because a registration made anew would forget its waker.
pub(super) type Watches<'a> = Option<Box<[[Option<Failing<'a>>; 2]; 2]>>;

impl Relay {
    pub(super) fn poll<'a>(
        &mut self,
        cx: &mut Context<'_>,
        ends: &mut impl Ends<'a>,
        watches: &mut Watches<'a>,
    ) -> Poll<Result<Totals, Error>> {
        // Also of a direction that is not polled any more: its last pause is no pause of this poll.
        self.drivers.iter_mut().for_each(Driver::begin_poll);
        let had_failed = self.failed.is_some();
        let forward = self.poll_direction(Direction::Forward, cx, ends);
        let back = self.poll_direction(Direction::Back, cx, ends);
        // Both were polled, so that neither direction waits for the other's turn.
        if forward.is_ready() && back.is_ready() {
            return Poll::Ready(self.result(EndReason::Closed, ends));
        }
        if self.options.watch_errors {
            self.poll_watches(cx, ends, watches);
        }
        // Without a bound a peer that goes on sending would keep a failed relay for ever.
        if let Some(failed) = self.failed.as_ref().map(|failed| failed.0) {
            let opposite = failed.opposite();
            // epoll's report may be older, and a poll may have ended early to give others their
            // turn or for the rate limit: so the kernel is asked, once.
            if !self.driver(opposite).is_bounded() {
                let source = ends.view(opposite, Side::Source);
                let received_bytes = source.map_or(0, |source| source.received_bytes());
                self.driver(opposite).take_at_most(received_bytes);
            }
            if !self.waits_after_failure {
                let other = if failed == Direction::Forward { back } else { forward };
                // Out of budget even bytes at hand have to wait, and the task is woken again. A
                // flush may never end.
                let has_turn = coop::has_budget_remaining();
                let driver = self.driver(opposite);
                let goes_on =
                    other.is_pending() && (!has_turn || !(driver.waits() || driver.is_unflushed()));
                return match had_failed && !goes_on {
                    true => Poll::Ready(self.result(EndReason::Closed, ends)),
                    // Woken by the failure, or by a direction that has more to do.
                    false => Poll::Pending,
                };
            }
        }
        let ended_directions = self.drivers.iter().filter(|driver| driver.is_done()).count();
        // Silence before an end does not count after it, and our own pauses are no silence of the
        // ends.
        if std::mem::replace(&mut self.ended_directions, ended_directions) != ended_directions
            || self.drivers.iter().any(Driver::is_throttled)
        {
            self.silence = None;
        }
        let one_ended = ended_directions > 0;
        let (limit, ended) = match (self.options.idle, self.options.linger) {
            // Last words have a time of their own: the user's idle limit may be hours, or none.
            _ if self.failed.is_some() => (Some(LAST_WORDS), EndReason::Closed),
            // The shorter one: lingering must not prolong an idle limit.
            (idle, Some(linger)) if one_ended && idle.is_none_or(|idle| linger < idle) => {
                (Some(linger), EndReason::Lingered)
            }
            (idle, _) => (idle, EndReason::Idle),
        };
        let Some(limit) = limit else { return Poll::Pending };
        let activity = self.drivers.iter().map(Driver::activity).sum();
        let untaken = |direction| {
            let target = ends.view(direction, Side::Target);
            target.map_or(0, |target| target.untaken_bytes())
        };
        loop {
            let silence = self.silence.get_or_insert_default();
            ready!(silence.poll(cx, activity, limit, || Direction::ALL.map(untaken)));
            if !(self.options.patient && self.is_stuck(ends)) {
                return Poll::Ready(self.result(ended, ends));
            }
            self.silence = None;
        }
    }

    /// Ready when nothing more will go in this direction.
    fn poll_direction<'a>(
        &mut self,
        direction: Direction,
        cx: &mut Context<'_>,
        ends: &mut impl Ends<'a>,
    ) -> Poll<()> {
        let end = self.passed_end(direction, ends);
        let Some(mut sides) = ends.sides(direction) else { return Poll::Ready(()) };
        // Nothing more is taken, but a stream's own buffer may hold bytes that count as delivered.
        if self.gives_up(direction) {
            return self.poll_last_flush(direction, cx, &mut sides.target);
        }
        let driver = &mut self.drivers[direction as usize];
        if driver.is_done() {
            return Poll::Ready(());
        }
        match driver.poll(cx, &mut sides, &self.options, end) {
            Poll::Ready(Ok(())) => Poll::Ready(()),
            Poll::Ready(Err(failure)) => {
                self.fail(cx, direction, failure);
                self.poll_last_flush(direction, cx, &mut sides.target)
            }
            // Out of budget a stream of tokio is "not ready" even with bytes at hand.
            Poll::Pending if self.failed.is_some() && !coop::has_budget_remaining() => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Pending
                if self.failed.is_some() && driver.has_had_its_last_words(&sides.source) =>
            {
                Poll::Ready(())
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn passed_end<'a>(&self, direction: Direction, ends: &impl Ends<'a>) -> PassedEnd {
        // After a failure the source's end may be none: the failed call took the socket's error
        // (SO_ERROR), and a read returns 0 now. A one-way copy leaves its target open.
        if self.failed.is_some() || !ends.passes_ends() {
            return PassedEnd::Not;
        }
        let opposite = &self.drivers[direction.opposite() as usize];
        // Unread bytes would make close(2) send a reset: the target itself must have sent its end.
        let closes = self.options.close_sends_last_fin
            && opposite.is_done_properly()
            && reads_the_target_of(direction, ends);
        if closes { PassedEnd::LeftToClose } else { PassedEnd::Sent }
    }

    /// Of a direction that has given up: bytes that the target's stream still keeps count as
    /// delivered, and are flushed unless the target is the side that failed.
    fn poll_last_flush(
        &mut self,
        direction: Direction,
        cx: &mut Context<'_>,
        target: &mut Target<'_, '_>,
    ) -> Poll<()> {
        match self.failed.as_deref() {
            Some((failed, failure))
                if *failed == direction && failure.side() != Some(Side::Target) =>
            {
                self.driver(direction).poll_flush(cx, target)
            }
            _ => Poll::Ready(()),
        }
    }

    /// A direction that waits for the source makes no call, and would not notice a reset of the
    /// target unless the other direction reads from there; nor does an error make a datagram socket
    /// readable.
    fn poll_watches<'a>(
        &mut self,
        cx: &mut Context<'_>,
        ends: &impl Ends<'a>,
        watches: &mut Watches<'a>,
    ) {
        for direction in Direction::ALL {
            // A direction that moves meets errors by its own calls.
            if self.failed.is_some() || !self.driver(direction).waits_for_source() {
                continue;
            }
            let opposite_goes_on = !self.driver(direction.opposite()).is_done();
            let target_is_read = opposite_goes_on && reads_the_target_of(direction, ends);
            for side in [Side::Source, Side::Target] {
                let Some(view) = ends.view(direction, side) else { continue };
                let watched = match side {
                    Side::Source => view.facts.misses_errors,
                    Side::Target => !target_is_read,
                };
                if !watched {
                    continue;
                }
                let watches = watches.get_or_insert_default();
                let watch = &mut watches[direction as usize][side as usize];
                if watch.is_none() {
                    *watch = view.failing();
                }
                let Some(failing) = watch else { continue };
                if failing.as_mut().poll(cx).is_pending() {
                    continue;
                }
                *watch = None;
                // Bytes that have come already are moved first, and meet the error by themselves.
                let source = ends.view(direction, Side::Source).and_then(|source| source.tap);
                if side == Side::Target && source.is_some_and(Tap::is_readable) {
                    continue;
                }
                match view.take_error() {
                    Some(errno) => {
                        let failure = self.driver(direction).take_error(side, errno);
                        self.fail(cx, direction, failure);
                    }
                    // Another process has taken the error.
                    None => cx.waker().wake_by_ref(),
                }
            }
        }
    }

    fn fail(&mut self, cx: &mut Context<'_>, direction: Direction, failure: Failure) {
        // The first failure is reported; the second is mostly its consequence.
        self.failed.get_or_insert_with(|| Box::new((direction, failure)));
        self.silence = None;
        // The other direction is polled once more, and gives up or has its last words.
        cx.waker().wake_by_ref();
    }

    /// Has this direction failed, or has the other, on the end that this one writes to?
    fn gives_up(&self, direction: Direction) -> bool {
        match self.failed.as_deref() {
            None => false,
            // A target that failed reads no more, and may still have sent bytes that the other end
            // wants.
            Some((failed, failure)) => *failed == direction || failure.side() != Some(Side::Target),
        }
    }

    /// Do bytes wait for a reader that takes none?
    fn is_stuck<'a>(&self, ends: &impl Ends<'a>) -> bool {
        Direction::ALL.into_iter().any(|direction| {
            let driver = &self.drivers[direction as usize];
            // A method that holds nothing in flight leaves bytes that are stuck at their source.
            let has_some = || {
                driver.in_flight_bytes() > 0
                    || driver.is_unflushed()
                    || has(direction, ends)
                        && ends.view(direction, Side::Source).is_some_and(|view| view.has_more())
            };
            !driver.is_done() && !self.gives_up(direction) && has_some()
        })
    }

    fn result<'a>(&mut self, ended: EndReason, ends: &impl Ends<'a>) -> Result<Totals, Error> {
        let stuck = ended != EndReason::Closed && self.is_stuck(ends);
        // A later run gives up no direction but the abandoned ones.
        self.drivers.iter_mut().for_each(Driver::take_all);
        let [forward, back] = self.drivers.each_ref().map(Driver::passed);
        match self.failed.take().map(|failed| *failed) {
            Some((direction, failure)) => Err(failure.into_error(direction).after(forward, back)),
            None => {
                // A relay cut short by a time limit goes on from there.
                if ended == EndReason::Closed {
                    self.drivers.iter_mut().for_each(Driver::begin_anew);
                }
                Ok(Totals { forward, back, ended, stuck })
            }
        }
    }
}

/// Have both ends what a direction needs?
fn has<'a>(direction: Direction, ends: &impl Ends<'a>) -> bool {
    [Side::Source, Side::Target].into_iter().all(|side| ends.view(direction, side).is_some())
}

/// Does the opposite direction read what a direction's target sends?
fn reads_the_target_of<'a>(direction: Direction, ends: &impl Ends<'a>) -> bool {
    let opposite = direction.opposite();
    let source = ends.view(opposite, Side::Source);
    has(opposite, ends) && source.is_some_and(|source| source.facts.hears_peer)
}
