//! How many threads to use, by how long each operation waits.
//!
//! A thread that sleeps in a call, for a disk or a server, leaves its processor to others. Where
//! operations mostly sleep, more threads than processors are worth it: so many that the processors
//! are busy again. Each thread of a tree has a [`Meter`], which compares its processor time with
//! the clock about once a millisecond, and a large file is measured in parts; one [`Pace`] for all
//! threads decides.
//!
//! Processor time is a price, which other programs or a meter pay. More threads are kept where they
//! are faster by a fifth at least, and multiply the processor time by the speed and `DOUBT` at
//! most: what is measured is short. To go on alone by mistake doubles the time of a copy on ext4; a
//! second thread by mistake costs a fifth more processor time.

use std::mem;
use std::time::{Duration, Instant};

use crate::sys::thread::{Usage, usage};

/// What one thread did between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Operations that have ended.
    pub done: u32,
    /// How long all of them took.
    pub wall: Duration,
    /// The thread's processor time.
    pub busy: Duration,
    /// How often the thread went to sleep. A thread that was preempted has not slept: a busy
    /// machine is no slow file system.
    pub sleeps: u64,
    /// How many threads there might be meanwhile.
    pub threads: usize,
}

/// Measures one thread.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    since: Instant,
    used: Usage,
    done: u32,
    every: u32,
    a_millisecond: u32,
    threads: usize,
}

impl Meter {
    /// A look costs about a microsecond: looks are no more frequent than this, ...
    const SHORTEST: Duration = Duration::from_millis(1);
    /// ... and no rarer than this, unless one operation takes longer.
    const LONGEST: Duration = Duration::from_millis(4);
    const MOST_BETWEEN_LOOKS: u32 = 64;

    /// Begins now. The first operation is looked at by itself: it may be a slow one.
    #[must_use]
    pub fn start(threads: usize) -> Self {
        let used = usage().unwrap_or_default();
        Self { since: Instant::now(), used, done: 0, every: 1, a_millisecond: u32::MAX, threads }
    }

    /// Forgets what has passed since the last look, when the thread had nothing to do.
    pub fn restart(&mut self, threads: usize) {
        let Self { every, a_millisecond, .. } = *self;
        *self = Self { every, a_millisecond, ..Self::start(threads) };
    }

    /// An operation has ended. Returns what has passed since the last look, if another one was due.
    pub fn passed(&mut self) -> Option<Sample> {
        self.done += 1;
        if self.done < self.every {
            return None;
        }
        let (now, used) = (Instant::now(), usage().ok()?);
        let sample = Sample {
            done: self.done,
            wall: now.duration_since(self.since),
            busy: used.busy.saturating_sub(self.used.busy),
            sleeps: used.sleeps.saturating_sub(self.used.sleeps),
            threads: self.threads,
        };
        let a_millisecond =
            u128::from(self.done) * Self::SHORTEST.as_nanos() / sample.wall.as_nanos().max(1);
        self.a_millisecond = u32::try_from(a_millisecond).unwrap_or(u32::MAX).max(1);
        if sample.wall < Self::SHORTEST {
            self.every = (self.every * 2).min(Self::MOST_BETWEEN_LOOKS);
        } else if sample.wall > Self::LONGEST {
            self.every = (self.every / 2).max(1);
        }
        (self.since, self.used, self.done) = (now, used, 0);
        Some(sample)
    }

    /// How many threads there may be from now on.
    pub fn set_threads(&mut self, threads: usize) {
        self.threads = threads;
    }

    /// So many operations, at least one, took a millisecond when the thread was last looked at.
    #[must_use]
    pub fn operations_a_millisecond(&self) -> usize {
        self.a_millisecond as usize
    }
}

/// What the threads did before there were more of them.
#[derive(Clone, Copy, Debug)]
struct Before {
    threads: usize,
    per_second: f64,
    /// Processor seconds for each operation.
    cost: f64,
}

impl Before {
    /// How many times the cost of then; none where the clock showed no processor time.
    fn price(&self, cost: f64) -> f64 {
        if self.cost > 0.0 { cost / self.cost } else { 0.0 }
    }
}

/// Decides how many threads there may be.
#[derive(Debug)]
pub struct Pace {
    fewest: usize,
    /// So many are never asleep at the same time: the processors.
    awake: usize,
    most: usize,
    threads: usize,
    sum: Sample,
    samples: usize,
    /// Set when the number has risen.
    before: Option<Before>,
    /// Looks to be taken before the number may rise again, and after the next rise in vain.
    rest: u32,
    next_rest: u32,
}

impl Pace {
    /// A thread that sleeps for less than two thirds of its time is left a processor.
    const SLEEPING: u32 = 3;
    /// Sleeps an operation. The lock of a directory, for which threads wait in turn, makes a
    /// thread sleep once a file at most; a server has to be asked for the name and for the bytes.
    const SLEEPS: u64 = 2;

    /// Between `fewest`, the number of processors, and `most` threads.
    #[must_use]
    pub fn new(fewest: usize, most: usize) -> Self {
        Self {
            fewest,
            awake: fewest,
            most: most.max(fewest),
            threads: fewest,
            sum: Sample::default(),
            samples: 0,
            before: None,
            rest: 0,
            next_rest: 16,
        }
    }

    /// From one thread on: as many as there are processors are tried, or up to `most` where the one
    /// sleeps.
    #[must_use]
    pub fn rising(processors: usize, most: usize) -> Self {
        Self { awake: processors.min(most), ..Self::new(1, most) }
    }

    /// Always as many.
    #[must_use]
    pub fn fixed(threads: usize) -> Self {
        Self::new(threads, threads)
    }

    /// How many threads there may be now.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// May the number change?
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        self.fewest == self.most
    }

    /// There are no more threads to be had than these.
    pub fn limit(&mut self, threads: usize) {
        *self = Self::fixed(threads);
    }

    /// Takes a sample of one of `working` threads, and returns how many there may be from now on.
    pub fn learn(&mut self, sample: &Sample, working: usize) -> usize {
        // What was begun with another number of threads shows neither.
        if sample.threads == self.threads {
            self.sum.done += sample.done;
            self.sum.wall += sample.wall;
            self.sum.busy += sample.busy;
            self.sum.sleeps += sample.sleeps;
            self.samples += 1;
            // As many as one of each thread.
            if self.samples >= working {
                self.decide(working);
            }
        }
        self.threads
    }

    /// Takes one sample of all `working` threads, whose times are the sums of theirs.
    pub fn learn_all(&mut self, sample: &Sample, working: usize) -> usize {
        self.sum = *sample;
        self.decide(working);
        self.threads
    }

    fn decide(&mut self, working: usize) {
        self.samples = 0;
        let sum = mem::take(&mut self.sum);
        let done = f64::from(sum.done);
        let per_second = done * working as f64 / sum.wall.as_secs_f64().max(1e-9);
        let cost = sum.busy.as_secs_f64() / done;
        if let Some(before) = self.before.take() {
            let speed = per_second / before.per_second;
            if !pays(speed, before.price(cost)) {
                self.threads = before.threads;
                self.rest_longer();
                return;
            }
            // Something is full: operations wait for each other, not for latency.
            if speed * 2.0 < working as f64 / before.threads as f64 {
                self.rest_longer();
            }
        }
        let wanted = self.wanted(&sum);
        if wanted <= self.threads / 2 {
            self.threads = wanted;
        } else if wanted >= self.threads * 2 {
            if self.rest > 0 {
                self.rest -= 1;
                return;
            }
            self.before = Some(Before { threads: self.threads, per_second, cost });
            self.threads = wanted;
        }
    }

    fn rest_longer(&mut self) {
        self.rest = self.next_rest;
        self.next_rest = self.next_rest.saturating_mul(2);
    }

    /// So many threads that those awake at any time are as many as the processors.
    fn wanted(&self, sum: &Sample) -> usize {
        if !Self::mostly_sleeps(sum) {
            return self.awake;
        }
        let threads = self.awake as u128 * sum.wall.as_nanos() / sum.busy.as_nanos().max(1);
        usize::try_from(threads).unwrap_or(usize::MAX).clamp(self.awake, self.most)
    }

    /// Is there so much sleep that more threads than processors are worth it?
    #[must_use]
    pub fn mostly_sleeps(sum: &Sample) -> bool {
        sum.sleeps >= Self::SLEEPS * u64::from(sum.done) && sum.wall >= sum.busy * Self::SLEEPING
    }
}

/// How far a measurement may be from what it measures. Of ten on ext4, where two threads are 1.9
/// times as fast for the same cost, two showed 1.33 for 1.38 and 1.23 for 1.59.
const DOUBT: f64 = 1.3;

/// Are threads worth their price that multiply the speed and the cost by so much?
fn pays(speed: f64, cost: f64) -> bool {
    speed >= 1.2 && cost <= speed * DOUBT
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(done: u32, wall_us: u64, busy_us: u64, sleeps: u64) -> Sample {
        let [wall, busy] = [wall_us, busy_us].map(Duration::from_micros);
        Sample { done, wall, busy, sleeps, threads: 0 }
    }

    /// The number of threads after each of the samples, of which all threads see one.
    fn threads(pace: &mut Pace, samples: &[Sample]) -> Vec<usize> {
        let learn = |&sample: &Sample| {
            let threads = pace.threads();
            for _ in 0..threads {
                pace.learn(&Sample { threads, ..sample }, threads);
            }
            pace.threads()
        };
        samples.iter().map(learn).collect()
    }

    #[test]
    fn threads_follow_the_share_of_the_time_that_is_slept() {
        for (about, fewest, sample, expected) in [
            ("memory", 2, sample(64, 1_300, 1_250, 0), 2),
            ("a busy machine, where a thread waits for a processor", 2, sample(1, 4_000, 40, 0), 2),
            (
                "a directory's lock, held by a thread without a processor",
                2,
                sample(1, 4_000, 40, 1),
                2,
            ),
            ("a fast disk", 4, sample(16, 1_200, 900, 32), 4),
            ("a server at 0.2 ms", 2, sample(1, 1_200, 100, 4), 24),
            ("a server at 1 ms", 2, sample(1, 4_400, 200, 4), 44),
            ("a server at 10 ms", 2, sample(1, 40_400, 200, 4), 64),
            ("one processor", 1, sample(1, 4_400, 400, 4), 11),
            (
                "more processors than threads are allowed otherwise",
                96,
                sample(1, 4_400, 200, 4),
                96,
            ),
            ("no processor time that the clock shows", 2, sample(1, 4_400, 0, 4), 64),
        ] {
            assert_eq!(threads(&mut Pace::new(fewest, 64), &[sample]), [expected], "{about}");
        }
    }

    #[test]
    fn a_rise_that_gains_nothing_is_undone_and_tried_again_later() {
        let mut pace = Pace::new(2, 64);
        let slow = sample(1, 4_000, 400, 4);
        // With ten times the threads each operation takes ten times as long.
        let queued = sample(1, 40_000, 400, 4);
        assert_eq!(threads(&mut pace, &[slow, queued]), [20, 2]);
        assert_eq!(threads(&mut pace, &[slow; 16]), [2; 16]);
        assert_eq!(threads(&mut pace, &[slow, queued]), [20, 2]);
        assert_eq!(threads(&mut pace, &[slow; 32]), [2; 32]);
        assert_eq!(threads(&mut pace, &[slow]), [20]);
    }

    #[test]
    fn a_rise_that_gains_less_than_half_of_its_threads_is_the_last_for_a_while() {
        let mut pace = Pace::new(2, 64);
        let (slow, full) = (sample(1, 4_000, 500, 4), sample(1, 12_000, 500, 4));
        assert_eq!(threads(&mut pace, &[slow]), [16]);
        assert_eq!(threads(&mut pace, &[full; 16]), [16; 16]);
        assert_eq!(threads(&mut pace, &[full]), [48]);
    }

    #[test]
    fn threads_whose_price_no_clock_shows_are_judged_by_their_speed() {
        let mut pace = Pace::new(2, 64);
        let (slow, queued) = (sample(1, 4_000, 0, 4), sample(1, 400_000, 0, 4));
        assert_eq!(threads(&mut pace, &[slow, slow]), [64, 64]);
        assert_eq!(threads(&mut Pace::new(2, 64), &[slow, queued]), [64, 2]);
    }

    #[test]
    fn threads_become_fewer_where_operations_no_longer_sleep() {
        let mut pace = Pace::new(2, 64);
        let (slow, fast) = (sample(1, 4_000, 200, 4), sample(64, 1_300, 1_250, 0));
        assert_eq!(threads(&mut pace, &[slow, slow, fast]), [40, 40, 2]);
    }

    #[test]
    fn a_second_thread_is_kept_where_it_gains_what_it_costs() {
        for (about, alone, together, threads) in [
            ("ext4", (4_000, 4_000), (2 * 2_700, 5_000), 2),
            ("tmpfs", (4_000, 4_000), (2 * 3_700, 7_400), 1),
            ("ext4 in a bad moment", (4_000, 4_000), (2 * 3_250, 6_350), 2),
            ("a quarter faster, at twice the price", (4_000, 4_000), (2 * 3_200, 8_000), 1),
            ("not faster, at no price", (4_000, 4_000), (2 * 4_000, 4_000), 1),
            ("a server", (40_000, 400), (64 * 700, 400), 64),
            ("a server that serves one after the other", (40_000, 400), (64 * 40_000, 400), 1),
        ] {
            let mut pace = Pace::rising(2, 64);
            let of = |(wall_us, busy_us)| {
                let sleeps = if wall_us > 2 * busy_us { 64 } else { 0 };
                sample(8, wall_us, busy_us, sleeps)
            };
            let rise = pace.learn_all(&of(alone), 1);
            assert!(rise > 1, "{about}");
            assert_eq!(pace.learn_all(&of(together), rise), threads, "{about}");
        }
    }

    #[test]
    fn samples_of_another_number_of_threads_count_for_nothing() {
        let mut pace = Pace::new(2, 64);
        let slow = sample(1, 4_000, 200, 4);
        assert_eq!(pace.learn(&Sample { threads: 2, ..slow }, 1), 40);
        for _ in 0..100 {
            assert_eq!(pace.learn(&Sample { threads: 2, ..sample(64, 1_300, 1_250, 0) }, 1), 40);
        }
        let mut fixed = Pace::fixed(2);
        assert_eq!(threads(&mut fixed, &[slow, slow]), [2, 2]);
    }

    #[test]
    fn a_meter_looks_at_the_first_operation_and_then_about_once_a_millisecond() {
        let mut meter = Meter::start(2);
        assert_eq!(meter.passed().map(|sample| (sample.done, sample.threads)), Some((1, 2)));
        let looks: Vec<u32> =
            (0..100_000).filter_map(|_| meter.passed()).map(|sample| sample.done).collect();
        assert!(looks.len() < 10_000 && looks.iter().all(|&done| done <= 64), "{}", looks.len());
        meter.restart(2);
        std::thread::sleep(Duration::from_millis(5));
        let sample = std::iter::from_fn(|| Some(meter.passed())).flatten().next().unwrap();
        assert!(sample.sleeps >= 1 && sample.busy < sample.wall, "{sample:?}");
    }
}
