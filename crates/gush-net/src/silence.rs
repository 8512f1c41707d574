//! The limit on how long nothing may move, and other limits that a timer alone must not decide.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::error::Elapsed;
use tokio::time::{Instant, Sleep, timeout};

/// How long events may still come once a timer has fired. A process that was stopped sees the timer
/// first: SIGCONT ends epoll_wait(2) with EINTR (signal(7)), and the next call reports what came.
const LAST_TRY: Duration = Duration::from_millis(10);
/// The part of the limit after which the untaken bytes are first looked at: an earlier look would
/// wake busy relays too often, a later one would keep relays with dead readers longer.
const FIRST_LOOK: u32 = 4;

/// Awaits `work`, at most for `limit`, as [`tokio::time::timeout`] does; but an event that came
/// within the limit counts, also if the process was stopped (SIGSTOP) until after it.
///
/// # Errors
/// `work` did not complete in time.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use std::{future::pending, time::Duration};
/// let limit = Duration::from_millis(1);
/// assert_eq!(gush_net::within(limit, async { 7 }).await, Ok(7));
/// assert!(gush_net::within(limit, pending::<()>()).await.is_err());
/// # }
/// ```
pub async fn within<F: Future>(limit: Duration, work: F) -> Result<F::Output, Elapsed> {
    let mut work = std::pin::pin!(work);
    if let Ok(done) = timeout(limit, work.as_mut()).await {
        return Ok(done);
    }
    timeout(LAST_TRY, work).await
}

/// The written bytes that the reader of each direction has not taken.
pub(crate) type Untaken = [u64; 2];

/// A timer that is not moved at each activity: when it fires, the last activity decides.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    seen: u64,
    since: Option<Instant>,
    /// The least at any look since the last activity, as other processes may write to the same
    /// pipe.
    untaken: Option<Untaken>,
    /// Set once the limit is over: until then events may still come.
    last_try: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Silence {
    /// Ready when `activity` has not changed for `limit`, and the `untaken` bytes have not become
    /// fewer: a reader that takes some is alive, although there is no room for more yet.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        activity: u64,
        limit: Duration,
        untaken: impl Fn() -> Untaken,
    ) -> Poll<()> {
        if activity != self.seen || self.since.is_none() {
            (self.seen, self.untaken, self.last_try) = (activity, None, None);
            self.since = Some(Instant::now());
        }
        loop {
            let since = *self.since.get_or_insert_with(Instant::now);
            // A limit beyond the clock is none.
            let Some(end) = since.checked_add(limit) else { return Poll::Pending };
            let due = match (self.untaken, self.last_try) {
                (None, _) => since + limit / FIRST_LOOK,
                (_, Some(last_try)) => last_try,
                (Some(_), None) => end,
            };
            // Moving the timer at every message would cost as much as the message.
            let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
            // A shorter limit holds from now on; a longer one once the timer fires.
            if timer.deadline() > due {
                timer.as_mut().reset(due);
            }
            ready!(timer.as_mut().poll(cx));
            // Bytes have moved since the timer was set.
            if timer.deadline() < due {
                timer.as_mut().reset(due);
                continue;
            }
            let (now, left) = (Instant::now(), untaken());
            let late = now.saturating_duration_since(due);
            let before = self.untaken;
            let least = before.map_or(left, |[a, b]| [a.min(left[0]), b.min(left[1])]);
            self.untaken = Some(least);
            match before {
                // The process was stopped, perhaps with its peers, as in a paused container. Every
                // timer of tokio is up to a millisecond late.
                _ if late > LAST_TRY.max(limit / FIRST_LOOK) => {
                    (self.since, self.last_try) = (Some(now), None)
                }
                // When the last of these bytes was taken is unknown.
                None if left != [0; 2] => self.since = Some(now),
                None => {}
                Some(before) if before != least => {
                    (self.since, self.last_try) = (Some(now), None);
                }
                Some(_) if self.last_try.is_some() => return Poll::Ready(()),
                Some(_) => self.last_try = Some(now + LAST_TRY),
            }
        }
    }

    /// As if nothing had moved for `quiet` since `activity`.
    pub(crate) fn after(activity: u64, quiet: Duration) -> Self {
        Self { seen: activity, since: Instant::now().checked_sub(quiet), ..Self::default() }
    }

    /// How long nothing has moved.
    pub(crate) fn lasts(&self) -> Duration {
        self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Waker;

    use tokio::time::advance;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(8);

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_is_left_soon_after_the_limit() {
        // Of bytes that are there at the first look, the last may have been taken just before.
        for (untaken, least) in [([0, 0], LIMIT), ([0, 7], LIMIT + LIMIT / FIRST_LOOK)] {
            let (mut silence, begun) = (Silence::default(), Instant::now());
            poll_fn(|cx| silence.poll(cx, 1, LIMIT, || untaken)).await;
            let waited = begun.elapsed();
            assert!((least..least + 2 * LAST_TRY).contains(&waited), "{untaken:?}: {waited:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_before_the_last_activity_says_nothing() {
        let (mut silence, mut cx) = (Silence::default(), Context::from_waker(Waker::noop()));
        let mut is_over = |activity| silence.poll(&mut cx, activity, LIMIT, || [0, 7]).is_ready();
        assert!(!is_over(1));
        advance(LIMIT / FIRST_LOOK).await;
        assert!(!is_over(1), "the first look");
        assert!(!is_over(2));
        for wait in [LIMIT / FIRST_LOOK, LIMIT - LIMIT / FIRST_LOOK, LAST_TRY] {
            advance(wait).await;
            assert!(!is_over(2), "as many bytes again, of which some may have been taken");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_shorter_limit_holds_at_once() {
        let (mut silence, begun) = (Silence::default(), Instant::now());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(silence.poll(&mut cx, 1, 100 * LIMIT, || [0; 2]).is_pending());
        poll_fn(|cx| silence.poll(cx, 1, LIMIT, || [0; 2])).await;
        assert!(begun.elapsed() < LIMIT + 2 * LAST_TRY, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_a_stop_is_no_silence() {
        let (mut silence, mut cx) = (Silence::default(), Context::from_waker(Waker::noop()));
        let mut is_over = || silence.poll(&mut cx, 1, LIMIT, || [0; 2]).is_ready();
        assert!(!is_over());
        advance(LIMIT / 2).await;
        assert!(!is_over());
        // Nobody polls meanwhile.
        advance(9 * LIMIT).await;
        assert!(!is_over(), "the process was stopped");
        advance(LIMIT).await;
        assert!(!is_over(), "events may still come");
        advance(LAST_TRY).await;
        assert!(is_over());
    }

    /// With the real clock, whose timers are late.
    #[tokio::test]
    async fn a_limit_below_the_clocks_millisecond_ends_too() {
        let limit = Duration::from_micros(2);
        let mut silence = Silence::default();
        let silent = poll_fn(|cx| silence.poll(cx, 1, limit, || [0; 2]));
        assert!(timeout(Duration::from_secs(20), silent).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_a_stop_before_the_first_look_is_no_silence() {
        let (mut silence, mut cx) = (Silence::default(), Context::from_waker(Waker::noop()));
        let mut is_over = || silence.poll(&mut cx, 1, LIMIT, || [0; 2]).is_ready();
        assert!(!is_over());
        // Nobody polls meanwhile.
        advance(LIMIT).await;
        assert!(!is_over(), "the process was stopped");
        advance(LAST_TRY).await;
        assert!(!is_over(), "the peers may have been stopped, too");
    }

    /// FIONREAD of a file, or of a pipe with other writers, counts what others write.
    #[tokio::test(start_paused = true)]
    async fn what_others_write_is_no_reader() {
        let (mut silence, begun) = (Silence::default(), Instant::now());
        let untaken = || [begun.elapsed().as_millis() as u64, 0];
        poll_fn(|cx| silence.poll(cx, 1, LIMIT, untaken)).await;
        assert!(begun.elapsed() < 2 * LIMIT);
    }
}
