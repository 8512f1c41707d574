//! The rate limit: bytes a second, changeable while moves run.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A limit in bytes a second, never 0.
///
/// ```
/// let rate = gush::Rate::bytes_per_second(1_000_000).unwrap();
/// assert_eq!(rate.get(), 1_000_000);
/// assert!(gush::Rate::bytes_per_second(0).is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(std::num::NonZeroU64);

impl Rate {
    /// A rate, unless the number is 0.
    #[must_use]
    pub fn bytes_per_second(bytes: u64) -> Option<Self> {
        std::num::NonZeroU64::new(bytes).map(Self)
    }

    /// Bytes a second.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

/// A rate that can be changed while moves are [throttled by](crate::Mover::throttled_by) that rate; a clone is the same rate.
///
/// ```
/// let throttle = gush::Throttle::new(gush::Rate::bytes_per_second(1000));
/// throttle.clone().set(None);
/// assert_eq!(throttle.get(), None);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Throttle(Arc<Hold>);

#[derive(Debug, Default)]
struct Hold {
    /// 0 is no rate, and stands for none.
    rate: AtomicU64,
    holds: AtomicBool,
}

impl Throttle {
    /// A rate to begin with; none means as fast as possible.
    #[must_use]
    pub fn new(rate: Option<Rate>) -> Self {
        let throttle = Self::default();
        throttle.set(rate);
        throttle
    }

    /// Changes the rate. A move follows within 50 ms.
    pub fn set(&self, rate: Option<Rate>) {
        // Nothing else is passed on with the number.
        self.0.rate.store(rate.map_or(0, Rate::get), Ordering::Relaxed);
    }

    /// The rate now.
    #[must_use]
    pub fn get(&self) -> Option<Rate> {
        Rate::bytes_per_second(self.0.rate.load(Ordering::Relaxed))
    }

    /// Does the rate hold a move back now? The side that a move waits for otherwise is the source or the target.
    ///
    /// ```
    /// use gush::{Cancel, Mover, Rate, Throttle};
    ///
    /// let (zeros, null) = (std::fs::File::open("/dev/zero")?, std::fs::File::create("/dev/null")?);
    /// let (throttle, cancel) = (Throttle::new(Rate::bytes_per_second(1)), Cancel::new());
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| Mover::new(&zeros, &null).throttled_by(&throttle).cancelled_by(&cancel).run());
    ///     while !throttle.holds() {
    ///         std::thread::yield_now();
    ///     }
    ///     cancel.cancel();
    /// });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn holds(&self) -> bool {
        self.0.holds.load(Ordering::Relaxed)
    }

    fn set_holds(&self, holds: bool) {
        self.0.holds.store(holds, Ordering::Relaxed);
    }
}

/// A rate that several moves share, one after the other or at the same time: [together](crate::Mover::sharing) they stay below it.
///
/// ```
/// let shared = gush::SharedRate::new(gush::Rate::bytes_per_second(1000).unwrap());
/// assert!(format!("{shared:?}").contains("1000"));
/// ```
#[derive(Debug)]
pub struct SharedRate(Mutex<Limiter>);

impl SharedRate {
    /// A rate of which nothing is saved up.
    #[must_use]
    pub fn new(rate: Rate) -> Self {
        Self(Mutex::new(Limiter::new(rate)))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Limiter) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The rate of one move: fixed, changeable, shared, the lowest of these, or none.
#[derive(Debug)]
pub(crate) struct Brake<'a> {
    fixed: Option<Rate>,
    throttle: Option<&'a Throttle>,
    limiter: Option<Limiter>,
    shared: Option<&'a SharedRate>,
}

impl<'a> Brake<'a> {
    pub(crate) fn new(
        fixed: Option<Rate>,
        throttle: Option<&'a Throttle>,
        shared: Option<&'a SharedRate>,
    ) -> Self {
        let mut brake = Self { fixed, throttle, limiter: None, shared };
        brake.follow();
        brake
    }

    /// Brings the limiter to the rate of now.
    fn follow(&mut self) {
        let changeable = self.throttle.and_then(Throttle::get);
        let rates = [self.fixed, changeable].into_iter().flatten();
        Limiter::follow(&mut self.limiter, rates.min_by_key(|rate| rate.get()));
    }

    /// How many bytes may move now, `u64::MAX` without a rate.
    ///
    /// # Errors
    /// When none may: how long to sleep until some may.
    pub(crate) fn allowance(&mut self) -> Result<u64, Duration> {
        self.follow();
        let allowance = self.limiter.as_mut().map_or(Ok(u64::MAX), Limiter::allowance);
        if let Some(throttle) = self.throttle {
            throttle.set_holds(allowance.is_err());
        }
        let Some(shared) = self.shared else { return allowance };
        match (allowance, shared.with(Limiter::allowance)) {
            (Ok(own_bytes), Ok(shared_bytes)) => Ok(own_bytes.min(shared_bytes)),
            (own, shared) => Err(own.err().max(shared.err()).unwrap_or_default()),
        }
    }

    /// The move sleeps until its refusal ends.
    pub(crate) fn begin_sleep(&mut self) {
        if let Some(shared) = self.shared {
            shared.with(Limiter::begin_sleep);
        }
        if let Some(limiter) = &mut self.limiter {
            limiter.begin_sleep();
        }
    }

    pub(crate) fn spend(&mut self, bytes: u64) {
        if let Some(shared) = self.shared {
            // Another move may have been allowed the same bytes: whoever is next waits for both.
            shared.with(|limiter| limiter.spend(bytes));
        }
        if let Some(limiter) = &mut self.limiter {
            limiter.spend(bytes);
        }
    }
}

/// A token bucket for a twentieth of a second: no bursts after a pause. Bytes go in portions of an eighth of the bucket,
/// every 6 ms. A caller that [sleeps](Self::begin_sleep) as long as a refusal says, and wakes late because other programs had the
/// processor, gets the bytes of that delay, too.
///
/// ```
/// let mut limiter = gush::Limiter::new(gush::Rate::bytes_per_second(1000).unwrap());
/// let wait = limiter.allowance().unwrap_err();
/// assert!(wait <= std::time::Duration::from_millis(7), "an eighth of what a twentieth gives");
/// ```
#[derive(Debug)]
pub struct Limiter {
    rate: Rate,
    tokens: f64,
    filled: Instant,
    /// When the refusal that was last given ends.
    refused_until: Option<Instant>,
    /// When the sleep that the caller has begun is to end.
    due: Option<Instant>,
    /// So many tokens more than the bucket holds may be there, of sleeps that lasted too long.
    surplus: f64,
}

impl Limiter {
    /// An empty bucket.
    #[must_use]
    pub fn new(rate: Rate) -> Self {
        Self::begun_at(rate, Instant::now())
    }

    fn begun_at(rate: Rate, now: Instant) -> Self {
        Self { rate, tokens: 0.0, filled: now, refused_until: None, due: None, surplus: 0.0 }
    }

    /// Brings a limiter to the rate of now, or takes it away where there is none. Bytes that moved beyond the old rate stay
    /// owed, and the time since the last portion counts.
    ///
    /// ```
    /// use gush::{Limiter, Rate};
    /// let mut limiter = None;
    /// Limiter::follow(&mut limiter, Rate::bytes_per_second(1000));
    /// limiter.as_mut().unwrap().spend(5000);
    /// Limiter::follow(&mut limiter, Rate::bytes_per_second(1001));
    /// let wait = limiter.as_mut().unwrap().allowance().unwrap_err();
    /// assert!(wait > std::time::Duration::from_secs(4));
    /// ```
    pub fn follow(limiter: &mut Option<Self>, rate: Option<Rate>) {
        match (limiter.as_mut(), rate) {
            (Some(limiter), Some(rate)) => limiter.change_at(Instant::now(), rate),
            _ => *limiter = rate.map(Self::new),
        }
    }

    fn change_at(&mut self, now: Instant, rate: Rate) {
        if rate != self.rate {
            self.fill(now);
            // The pause that was told was one at the old rate.
            (self.rate, self.refused_until, self.due) = (rate, None, None);
        }
    }

    /// How many bytes may move now.
    ///
    /// # Errors
    /// When none may: how long to sleep until some may.
    pub fn allowance(&mut self) -> Result<u64, Duration> {
        self.allowance_at(Instant::now())
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

    /// The caller sleeps now until the refusal ends. Wakes it late, the bytes of the delay may move, too, those of a second at
    /// most. Without this call the time after a refusal is a pause of the caller's own, as a wait for one of its ends is.
    pub fn begin_sleep(&mut self) {
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

    /// Counts moved bytes; more than were allowed are made up for.
    pub fn spend(&mut self, bytes: u64) {
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

/// The longest sleep that is made up for: a process that was stopped is to send no burst of minutes when it goes on. Beside busy
/// programs sleeps of 6 ms were seen to last 0.9 s.
const MOST_LATE: Duration = Duration::from_secs(1);

/// The longest pause that is told, so that callers may add the pause to any clock. Whoever asks again is told to pause again.
const LONGEST_PAUSE: Duration = Duration::from_secs(365 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_brake_follows_the_throttle_and_the_lower_rate_counts() {
        let throttle = Throttle::default();
        let mut brake = Brake::new(None, Some(&throttle), None);
        assert_eq!(brake.allowance(), Ok(u64::MAX));
        assert!(!throttle.holds());
        throttle.set(Rate::bytes_per_second(1));
        assert!(brake.allowance().is_err() && throttle.holds());
        throttle.set(None);
        assert_eq!((brake.allowance(), throttle.holds()), (Ok(u64::MAX), false));
        let fixed = Rate::bytes_per_second(2);
        for (changed, counts) in [(None, 2), (Some(1), 1), (Some(3), 2)] {
            throttle.set(changed.and_then(Rate::bytes_per_second));
            let brake = Brake::new(fixed, Some(&throttle), None);
            assert_eq!(brake.limiter.map(|limiter| limiter.rate.get()), Some(counts));
        }
    }

    /// A limiter of 1,000 bytes a second, whose bucket holds 50, and the time at which it begins.
    fn thousand_a_second() -> (Limiter, Instant) {
        let now = Instant::now();
        (Limiter::begun_at(Rate::bytes_per_second(1000).unwrap(), now), now)
    }

    #[test]
    fn the_limiter_starts_empty_and_never_saves_up_a_burst() {
        let (mut limiter, mut now) = thousand_a_second();
        now += limiter.allowance_at(now).unwrap_err();
        assert_eq!(limiter.allowance_at(now), Ok(6), "an eighth of the bucket");
        limiter.spend(6);
        limiter.spend(44);
        // Nothing was refused, so the caller waited this second for one of its ends.
        assert_eq!(limiter.allowance_at(now + Duration::from_secs(1)), Ok(50));
        limiter.spend(50);
        assert!(limiter.allowance_at(now + Duration::from_secs(1)).is_err());
    }

    /// Sleeps until the refusal ends, and this much longer; the time then.
    fn oversleep(limiter: &mut Limiter, now: Instant, late: Duration) -> Instant {
        let pause = limiter.allowance_at(now).unwrap_err();
        limiter.begin_sleep();
        now + pause + late
    }

    #[test]
    fn a_refusal_that_nobody_sleeps_through_saves_nothing_up() {
        let (mut limiter, now) = thousand_a_second();
        assert!(limiter.allowance_at(now).is_err());
        // The caller waits for one of its ends meanwhile.
        assert_eq!(limiter.allowance_at(now + Duration::from_secs(3)), Ok(50));
    }

    #[test]
    fn a_caller_that_wakes_late_from_a_refusal_keeps_the_rate() {
        let (mut limiter, began) = thousand_a_second();
        let (mut now, mut moved_bytes) = (began, 0);
        for _ in 0..100 {
            match limiter.allowance_at(now) {
                Ok(bytes) => {
                    limiter.spend(bytes);
                    moved_bytes += bytes;
                }
                Err(_) => now = oversleep(&mut limiter, now, Duration::from_millis(200)),
            }
        }
        let expected_bytes = now.duration_since(began).as_millis();
        let lost_bytes = expected_bytes - u128::from(moved_bytes);
        assert!(expected_bytes > 10_000 && lost_bytes <= 207, "{lost_bytes} of {expected_bytes}");
    }

    #[test]
    fn the_bytes_of_a_delay_stay_until_they_are_spent_and_do_not_come_back() {
        let (mut limiter, mut now) = thousand_a_second();
        now = oversleep(&mut limiter, now, Duration::from_millis(200));
        let allowed_bytes = limiter.allowance_at(now).unwrap();
        assert!((205..=207).contains(&allowed_bytes), "{allowed_bytes}");
        limiter.spend(60);
        assert_eq!(limiter.allowance_at(now), Ok(allowed_bytes - 60));
        limiter.spend(allowed_bytes - 60);
        assert_eq!(limiter.allowance_at(now + Duration::from_secs(1)), Ok(50));
    }

    #[test]
    fn a_process_that_was_stopped_for_long_makes_up_for_a_second() {
        let (mut limiter, mut now) = thousand_a_second();
        for _ in 0..2 {
            now = oversleep(&mut limiter, now, Duration::from_secs(3600));
            let allowed_bytes = limiter.allowance_at(now).unwrap();
            assert!((1000..=1050).contains(&allowed_bytes), "{allowed_bytes}");
            limiter.spend(allowed_bytes);
        }
    }

    #[test]
    fn a_rate_that_changes_all_the_time_lets_bytes_move() {
        let (mut limiter, mut now) = thousand_a_second();
        let mut moved_bytes = 0;
        for nth in 0..1000 {
            now += Duration::from_millis(2);
            limiter.change_at(now, Rate::bytes_per_second(1000 + nth % 2).unwrap());
            if let Ok(bytes) = limiter.allowance_at(now) {
                limiter.spend(bytes);
                moved_bytes += bytes;
            }
        }
        assert!((1980..=2002).contains(&moved_bytes), "{moved_bytes} bytes in two seconds");
    }

    #[test]
    fn a_new_rate_forgives_no_debt() {
        let (mut limiter, now) = thousand_a_second();
        limiter.spend(60_000);
        limiter.change_at(now, Rate::bytes_per_second(2000).unwrap());
        let pause = limiter.allowance_at(now).unwrap_err();
        assert!(pause >= Duration::from_secs(30), "{pause:?}");
        limiter.change_at(now, Rate::bytes_per_second(2000).unwrap());
        limiter.begin_sleep();
        limiter.change_at(now, Rate::bytes_per_second(2000).unwrap());
        assert!(limiter.due.is_some(), "the same rate is no change");
    }

    /// A caller may look again before the pause is over, as one does that sleeps in slices.
    #[test]
    fn a_look_before_the_end_of_a_refusal_is_no_delay() {
        let (mut limiter, mut now) = thousand_a_second();
        limiter.spend(1000);
        while let Err(pause) = limiter.allowance_at(now) {
            limiter.begin_sleep();
            now += pause.min(Duration::from_millis(50));
        }
        let allowed_bytes = limiter.allowance_at(now).unwrap();
        assert!(allowed_bytes <= 7, "{allowed_bytes}");
    }

    #[test]
    fn a_debt_that_no_clock_reaches_is_a_long_pause() {
        // The first two debts are longer than any `Duration`, and the last one is a `Duration` that no clock reaches.
        for bytes_per_second in [1, 2, 4] {
            let now = Instant::now();
            let rate = Rate::bytes_per_second(bytes_per_second).unwrap();
            let mut limiter = Limiter::begun_at(rate, now);
            limiter.spend(u64::MAX);
            limiter.spend(u64::MAX);
            let pause = limiter.allowance_at(now).unwrap_err();
            assert!(now.checked_add(pause).is_some(), "a clock reaches the end of {pause:?}");
            limiter.begin_sleep();
            assert!(limiter.allowance_at(now + pause).is_err(), "the debt stays");
        }
    }
}
