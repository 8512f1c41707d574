//! The rate limit: bytes a second, changeable while moves run.

use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::locked::Unpoisoned;

/// A limit in bytes a second, or none yet (the default). A clone is the same limit: moves with
/// clones of a rate stay below it together, and all of them follow a change within 50 ms.
///
/// A [`Mover`](crate::Mover::limit) obeys it; a program with a loop of its own asks for an
/// [allowance](Self::allowance), and [spends](Self::spend) what moved.
///
/// ```
/// use gush::Rate;
///
/// let rate = Rate::bytes_per_second(1000).unwrap();
/// let wait = rate.allowance().unwrap_err();
/// assert!(wait <= std::time::Duration::from_millis(7), "an eighth of what a twentieth gives");
/// rate.clone().set(0);
/// assert_eq!((rate.get(), rate.allowance()), (None, Ok(u64::MAX)));
/// assert!(Rate::bytes_per_second(0).is_none());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Rate(Arc<Mutex<Limit>>);

#[derive(Debug, Default)]
struct Limit {
    bucket: Option<Bucket>,
    holds: bool,
}

impl Rate {
    /// A rate, unless the number is 0.
    #[must_use]
    pub fn bytes_per_second(bytes: u64) -> Option<Self> {
        let rate = Self::default();
        rate.set(bytes);
        (bytes > 0).then_some(rate)
    }

    /// A limit with the same number, which shares nothing with this one.
    #[must_use]
    pub fn separate(&self) -> Self {
        let separate = Self::default();
        separate.set(self.get().unwrap_or(0));
        separate
    }

    /// Changes the rate, in bytes a second; 0 lifts the limit. Bytes that moved beyond the old rate
    /// stay owed, and the time since the last portion counts.
    pub fn set(&self, bytes_per_second: u64) {
        self.limit().set_at(Instant::now(), bytes_per_second);
    }

    /// Bytes a second, if there is a limit.
    #[must_use]
    pub fn get(&self) -> Option<u64> {
        self.limit().bucket.as_ref().map(|bucket| bucket.rate.get())
    }

    /// Did the last question for an allowance find none? A move waits for its source or target
    /// otherwise.
    ///
    /// ```
    /// use gush::{Cancel, Mover, Rate};
    ///
    /// let (zeros, null) = (std::fs::File::open("/dev/zero")?, std::fs::File::create("/dev/null")?);
    /// let (rate, cancel) = (Rate::bytes_per_second(1).unwrap(), Cancel::new());
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| Mover::new(&zeros, &null).limit(rate.clone()).cancelled_by(&cancel).run());
    ///     while !rate.holds() {
    ///         std::thread::yield_now();
    ///     }
    ///     cancel.cancel();
    /// });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn holds(&self) -> bool {
        self.limit().holds
    }

    /// How many bytes may move now, `u64::MAX` without a limit.
    ///
    /// # Errors
    /// When none may: how long to sleep until some may.
    pub fn allowance(&self) -> Result<u64, Duration> {
        let mut limit = self.limit();
        let bucket = limit.bucket.as_mut();
        let allowance = bucket.map_or(Ok(u64::MAX), |bucket| bucket.allowance_at(Instant::now()));
        limit.holds = allowance.is_err();
        allowance
    }

    /// The caller sleeps now until the refusal ends. If it wakes late, the bytes of the delay may
    /// move, too, those of a second at most. Without this call the time after a refusal is a pause
    /// of the caller's own, as a wait for one of its ends is.
    pub fn begin_sleep(&self) {
        if let Some(bucket) = &mut self.limit().bucket {
            bucket.begin_sleep();
        }
    }

    /// Counts moved bytes; more than were allowed are made up for.
    pub fn spend(&self, bytes: u64) {
        if let Some(bucket) = &mut self.limit().bucket {
            bucket.spend(bytes);
        }
    }

    fn limit(&self) -> MutexGuard<'_, Limit> {
        self.0.lock().unpoisoned()
    }
}

impl Limit {
    fn set_at(&mut self, now: Instant, bytes_per_second: u64) {
        match (&mut self.bucket, NonZeroU64::new(bytes_per_second)) {
            (Some(bucket), Some(rate)) => bucket.change_at(now, rate),
            (bucket, rate) => *bucket = rate.map(|rate| Bucket::begun_at(rate, now)),
        }
    }
}

/// A token bucket for a twentieth of a second: no bursts after a pause. Bytes go in portions of an
/// eighth of the bucket, every 6 ms.
#[derive(Debug)]
struct Bucket {
    rate: NonZeroU64,
    tokens: f64,
    filled: Instant,
    /// When the refusal that was last given ends.
    refused_until: Option<Instant>,
    /// When the sleep that the caller has begun is to end.
    due: Option<Instant>,
    /// So many tokens more than the bucket holds may be there, of sleeps that lasted too long.
    surplus: f64,
}

impl Bucket {
    /// An empty bucket.
    fn begun_at(rate: NonZeroU64, now: Instant) -> Self {
        Self { rate, tokens: 0.0, filled: now, refused_until: None, due: None, surplus: 0.0 }
    }

    fn change_at(&mut self, now: Instant, rate: NonZeroU64) {
        if rate != self.rate {
            self.fill(now);
            // The refusal was one at the old rate.
            (self.rate, self.refused_until, self.due) = (rate, None, None);
        }
    }

    fn allowance_at(&mut self, now: Instant) -> Result<u64, Duration> {
        self.fill(now);
        self.refused_until = None;
        let worth_moving = (self.burst() / 8.0).max(1.0);
        if self.tokens >= worth_moving {
            return Ok(self.tokens as u64);
        }
        let pause_seconds = (worth_moving - self.tokens) / self.per_second();
        let pause = Duration::try_from_secs_f64(pause_seconds).unwrap_or(LONGEST_PAUSE);
        let pause = pause.min(LONGEST_PAUSE);
        self.refused_until = now.checked_add(pause);
        Err(pause)
    }

    fn begin_sleep(&mut self) {
        self.due = self.refused_until;
    }

    /// Adds the tokens of the time since the last call.
    fn fill(&mut self, now: Instant) {
        // A refusal leaves no surplus, so this one is of one delay.
        let late = self.due.take().map_or(Duration::ZERO, |due| now.saturating_duration_since(due));
        self.surplus += late.min(MOST_LATE).as_secs_f64() * self.per_second();
        self.tokens += now.duration_since(self.filled).as_secs_f64() * self.per_second();
        self.tokens = self.tokens.min(self.burst() + self.surplus);
        self.keep_surplus();
        self.filled = now;
    }

    fn spend(&mut self, bytes: u64) {
        self.tokens -= bytes as f64;
        self.keep_surplus();
    }

    fn per_second(&self) -> f64 {
        self.rate.get() as f64
    }

    /// The size of the bucket.
    fn burst(&self) -> f64 {
        (self.per_second() / 20.0).max(1.0)
    }

    /// A surplus that is used up does not come back.
    fn keep_surplus(&mut self) {
        self.surplus = self.surplus.min((self.tokens - self.burst()).max(0.0));
    }
}

/// The longest sleep that is made up for: a stopped process sends no burst of minutes when it goes
/// on. On a busy machine sleeps of 6 ms were seen to last 0.9 s.
const MOST_LATE: Duration = Duration::from_secs(1);

/// The longest pause, so that callers may add it to any clock; the next question gets another.
const LONGEST_PAUSE: Duration = Duration::from_secs(365 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    fn per_second(bytes: u64) -> NonZeroU64 {
        NonZeroU64::new(bytes).expect("not 0")
    }

    #[test]
    fn a_rate_follows_a_change_and_says_whether_it_holds_a_move_back() {
        let rate = Rate::default();
        assert_eq!((rate.allowance(), rate.holds()), (Ok(u64::MAX), false));
        rate.clone().set(1);
        assert!(rate.allowance().is_err() && rate.holds());
        rate.set(0);
        assert_eq!((rate.allowance(), rate.holds()), (Ok(u64::MAX), false));
    }

    #[test]
    fn clones_share_what_they_spend_and_a_separate_rate_does_not() {
        let rate = Rate::bytes_per_second(1000).expect("not 0");
        let separate = rate.separate();
        rate.clone().spend(5000);
        let pause = |rate: &Rate| rate.allowance().expect_err("the bucket is empty");
        assert!(pause(&rate) > Duration::from_secs(4));
        assert!(pause(&separate) < Duration::from_secs(1));
        assert_eq!(separate.get(), Some(1000));
    }

    /// A bucket of 1,000 bytes a second, which holds 50, and the time at which it begins.
    fn thousand_a_second() -> (Bucket, Instant) {
        let now = Instant::now();
        (Bucket::begun_at(per_second(1000), now), now)
    }

    #[test]
    fn the_bucket_starts_empty_and_never_saves_up_a_burst() {
        let (mut bucket, mut now) = thousand_a_second();
        now += bucket.allowance_at(now).unwrap_err();
        assert_eq!(bucket.allowance_at(now), Ok(6), "an eighth of the bucket");
        bucket.spend(6);
        bucket.spend(44);
        // Nothing was refused, so the caller waited this second for one of its ends.
        assert_eq!(bucket.allowance_at(now + Duration::from_secs(1)), Ok(50));
        bucket.spend(50);
        assert!(bucket.allowance_at(now + Duration::from_secs(1)).is_err());
    }

    /// Sleeps until the refusal ends, and this much longer; the time then.
    fn oversleep(bucket: &mut Bucket, now: Instant, late: Duration) -> Instant {
        let pause = bucket.allowance_at(now).unwrap_err();
        bucket.begin_sleep();
        now + pause + late
    }

    #[test]
    fn a_refusal_that_nobody_sleeps_through_saves_nothing_up() {
        let (mut bucket, now) = thousand_a_second();
        assert!(bucket.allowance_at(now).is_err());
        // The caller waits for one of its ends meanwhile.
        assert_eq!(bucket.allowance_at(now + Duration::from_secs(3)), Ok(50));
    }

    #[test]
    fn a_caller_that_wakes_late_from_a_refusal_keeps_the_rate() {
        let (mut bucket, began) = thousand_a_second();
        let (mut now, mut moved_bytes) = (began, 0);
        for _ in 0..100 {
            match bucket.allowance_at(now) {
                Ok(bytes) => {
                    bucket.spend(bytes);
                    moved_bytes += bytes;
                }
                Err(_) => now = oversleep(&mut bucket, now, Duration::from_millis(200)),
            }
        }
        let expected_bytes = now.duration_since(began).as_millis();
        let lost_bytes = expected_bytes - u128::from(moved_bytes);
        assert!(expected_bytes > 10_000 && lost_bytes <= 207, "{lost_bytes} of {expected_bytes}");
    }

    #[test]
    fn the_bytes_of_a_delay_stay_until_they_are_spent_and_do_not_come_back() {
        let (mut bucket, mut now) = thousand_a_second();
        now = oversleep(&mut bucket, now, Duration::from_millis(200));
        let allowed_bytes = bucket.allowance_at(now).unwrap();
        assert!((205..=207).contains(&allowed_bytes), "{allowed_bytes}");
        bucket.spend(60);
        assert_eq!(bucket.allowance_at(now), Ok(allowed_bytes - 60));
        bucket.spend(allowed_bytes - 60);
        assert_eq!(bucket.allowance_at(now + Duration::from_secs(1)), Ok(50));
    }

    #[test]
    fn a_process_that_was_stopped_for_long_makes_up_for_a_second() {
        let (mut bucket, mut now) = thousand_a_second();
        for _ in 0..2 {
            now = oversleep(&mut bucket, now, Duration::from_secs(3600));
            let allowed_bytes = bucket.allowance_at(now).unwrap();
            assert!((1000..=1050).contains(&allowed_bytes), "{allowed_bytes}");
            bucket.spend(allowed_bytes);
        }
    }

    #[test]
    fn a_rate_that_changes_all_the_time_lets_bytes_move() {
        let (mut bucket, mut now) = thousand_a_second();
        let mut moved_bytes = 0;
        for nth in 0..1000 {
            now += Duration::from_millis(2);
            bucket.change_at(now, per_second(1000 + nth % 2));
            if let Ok(bytes) = bucket.allowance_at(now) {
                bucket.spend(bytes);
                moved_bytes += bytes;
            }
        }
        assert!((1980..=2002).contains(&moved_bytes), "{moved_bytes} bytes in two seconds");
    }

    #[test]
    fn a_new_rate_forgives_no_debt() {
        let (mut bucket, now) = thousand_a_second();
        bucket.spend(60_000);
        bucket.change_at(now, per_second(2000));
        let pause = bucket.allowance_at(now).unwrap_err();
        assert!(pause >= Duration::from_secs(30), "{pause:?}");
        bucket.change_at(now, per_second(2000));
        bucket.begin_sleep();
        bucket.change_at(now, per_second(2000));
        assert!(bucket.due.is_some(), "the same rate is no change");
    }

    /// A caller may look again before the pause is over, as one does that sleeps in slices.
    #[test]
    fn a_look_before_the_end_of_a_refusal_is_no_delay() {
        let (mut bucket, mut now) = thousand_a_second();
        bucket.spend(1000);
        while let Err(pause) = bucket.allowance_at(now) {
            bucket.begin_sleep();
            now += pause.min(Duration::from_millis(50));
        }
        let allowed_bytes = bucket.allowance_at(now).unwrap();
        assert!(allowed_bytes <= 7, "{allowed_bytes}");
    }

    #[test]
    fn a_debt_that_no_clock_reaches_is_a_long_pause() {
        // The first two debts are longer than any `Duration`, and the last one is a `Duration` that
        // no clock reaches.
        for bytes_per_second in [1, 2, 4] {
            let now = Instant::now();
            let rate = per_second(bytes_per_second);
            let mut bucket = Bucket::begun_at(rate, now);
            bucket.spend(u64::MAX);
            bucket.spend(u64::MAX);
            let pause = bucket.allowance_at(now).unwrap_err();
            assert!(now.checked_add(pause).is_some(), "a clock reaches the end of {pause:?}");
            bucket.begin_sleep();
            assert!(bucket.allowance_at(now + pause).is_err(), "the debt stays");
        }
    }
}
