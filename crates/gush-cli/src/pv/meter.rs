//! Counts over time: the current rate, the average over a window, the time left.

use std::collections::VecDeque;
use std::time::Duration;

/// The state of a transfer at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Bytes or lines transferred.
    pub count: u64,
    /// The total, if known.
    pub expected: Option<u64>,
    pub elapsed: Duration,
    /// Per second, since the previous reading; over the whole time at the end.
    pub rate: f64,
    /// Per second, over the window; over the whole time at the end.
    pub average: f64,
    /// The highest rate of all readings.
    pub most_rate: f64,
    /// The position of a bar that swings.
    pub swing: u32,
    /// This is the last reading.
    pub ended: bool,
}

impl Reading {
    /// The share of the expected amount, in percent, up to [`MOST_PERCENT`].
    pub fn percent(&self) -> Option<f64> {
        let expected = self.expected?;
        Some((self.count as f64 * 100.0 / expected as f64).min(MOST_PERCENT))
    }

    /// The time left at the average rate, if it can be known.
    pub fn left(&self) -> Option<Duration> {
        // 100,000 hours, the maximum in pv.
        const MOST: Duration = Duration::from_secs(360_000_000);
        let left = self.expected?.saturating_sub(self.count);
        match left {
            0 => Some(Duration::ZERO),
            _ if self.average <= 0.0 => None,
            _ => Some(
                Duration::try_from_secs_f64(left as f64 / self.average).unwrap_or(MOST).min(MOST),
            ),
        }
    }
}

/// The maximum in pv.
const MOST_PERCENT: f64 = 100_000.0;
/// Avoids dividing by zero.
const SHORTEST: Duration = Duration::from_micros(1);
/// The shortest part of an interval with a separate rate, as in pv.
const SHORTEST_PART: Duration = Duration::from_millis(10);
/// The most readings that the average looks back on.
const MOST_KEPT: usize = 600;
/// How far the sparkline looks back.
const ROW: Duration = Duration::from_secs(60);
/// The columns of the sparkline.
pub const SPANS: usize = 20;

#[derive(Clone, Debug)]
pub struct Meter {
    pub window: Duration,
    /// The count at the start.
    first: u64,
    /// Times and counts, the oldest first; never empty.
    kept: VecDeque<(Duration, u64)>,
    /// Rates of the last minute, with their times.
    row: VecDeque<(Duration, f64)>,
    swing: u32,
    statistics: Statistics,
}

/// The rates of all readings, per second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Statistics {
    /// The last rate, which may still grow by a part too short for a separate rate.
    last: Option<f64>,
    number: u64,
    least: f64,
    most: f64,
    sum: f64,
    squares: f64,
}

impl Meter {
    /// A meter of a transfer that has already reached the count `first`.
    pub fn new(window: Duration, first: u64) -> Self {
        Self {
            window,
            first,
            kept: VecDeque::from([(Duration::ZERO, first)]),
            row: VecDeque::new(),
            swing: 0,
            statistics: Statistics::default(),
        }
    }

    /// A reading of `count` after `elapsed`.
    pub fn read(&mut self, count: u64, elapsed: Duration, expected: Option<u64>) -> Reading {
        let (last_elapsed, last_count) = *self.kept.back().unwrap_or(&(Duration::ZERO, 0));
        let rate =
            per_second(count.saturating_sub(last_count), elapsed.saturating_sub(last_elapsed));
        if count != last_count {
            self.swing = (self.swing + 2) % 200;
        }
        self.statistics.add(rate);
        self.row.push_back((elapsed, rate));
        while self.row.front().is_some_and(|(then, _)| elapsed.saturating_sub(*then) > ROW) {
            self.row.pop_front();
        }
        self.kept.push_back((elapsed, count));
        // Keep one reading from before the window, where the window begins.
        while self.kept.len() > 2
            && (elapsed.saturating_sub(self.kept[1].0) >= self.window
                || self.kept.len() > MOST_KEPT)
        {
            self.kept.pop_front();
        }
        let (then, before) = self.kept[0];
        let average = per_second(count.saturating_sub(before), elapsed.saturating_sub(then));
        Reading { rate, average, ..self.reading(count, elapsed, expected) }
    }

    /// The last reading: both rates are over the whole time.
    pub fn end(&mut self, count: u64, elapsed: Duration, expected: Option<u64>) -> Reading {
        self.add_last_part(count, elapsed);
        let rate = per_second(count.saturating_sub(self.first), elapsed);
        // As in pv, which uses the rate of the whole time here.
        if rate > 0.0 {
            self.swing = (self.swing + 2) % 200;
        }
        Reading { rate, average: rate, ended: true, ..self.reading(count, elapsed, expected) }
    }

    /// Adds the time after the last reading to the statistics: separately, or to the last interval.
    fn add_last_part(&mut self, count: u64, elapsed: Duration) {
        let last = self.kept.len() - 1;
        let is_short = elapsed.saturating_sub(self.kept[last].0) <= SHORTEST_PART;
        let is_first = self.statistics.last.is_none();
        if is_first && is_short {
            return;
        }
        let is_alone = is_first || !is_short;
        let (then, before) = self.kept[if is_alone { last } else { last - 1 }];
        let rate = per_second(count.saturating_sub(before), elapsed.saturating_sub(then));
        if is_alone {
            self.statistics.add(rate);
        } else {
            self.statistics.last = Some(rate);
        }
    }

    /// A reading without the rates of its moment.
    fn reading(&self, count: u64, elapsed: Duration, expected: Option<u64>) -> Reading {
        let (most_rate, swing) = (self.statistics.highest(), self.swing);
        let (rate, average, ended) = (0.0, 0.0, false);
        Reading { count, expected, elapsed, rate, average, most_rate, swing, ended }
    }

    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// The rates of the last minute in equal spans, the oldest first; each is a mean of readings.
    pub fn row(&self) -> [Option<f64>; SPANS] {
        let now = self.row.back().map_or(Duration::ZERO, |(elapsed, _)| *elapsed);
        let mut sums = [(0.0, 0_u32); SPANS];
        for (then, rate) in &self.row {
            let age = now.saturating_sub(*then).as_secs_f64() / ROW.as_secs_f64();
            let place = ((age * SPANS as f64) as usize).min(SPANS - 1);
            let (sum, number) = &mut sums[SPANS - 1 - place];
            (*sum, *number) = (*sum + rate, *number + 1);
        }
        sums.map(|(sum, number)| (number > 0).then(|| sum / f64::from(number)))
    }
}

fn per_second(count: u64, time: Duration) -> f64 {
    count as f64 / time.max(SHORTEST).as_secs_f64()
}

impl Statistics {
    fn add(&mut self, rate: f64) {
        self.close();
        self.last = Some(rate);
    }

    fn highest(&self) -> f64 {
        self.last.map_or(self.most, |last| last.max(self.most))
    }

    /// Includes the last rate, which is now final.
    fn close(&mut self) {
        let Some(rate) = self.last.take() else { return };
        self.least = if self.number == 0 { rate } else { self.least.min(rate) };
        self.most = self.most.max(rate);
        self.number += 1;
        self.sum += rate;
        self.squares += rate * rate;
    }

    /// The line of `--stats`, in `unit` per second.
    pub fn line(mut self, unit: &str) -> String {
        self.close();
        if self.number == 0 {
            return "rate not measured".to_owned();
        }
        let number = self.number as f64;
        let mean = self.sum / number;
        let deviation = (self.squares / number - mean * mean).max(0.0).sqrt();
        let (least, most) = (self.least, self.most);
        format!("rate min/avg/max/mdev = {least:.3}/{mean:.3}/{most:.3}/{deviation:.3} {unit}/s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn the_rate_is_that_since_the_last_reading_and_the_average_that_of_the_window() {
        let mut meter = Meter::new(3 * S, 0);
        for (second, count, rate, average) in [
            (1, 100, 100.0, 100.0),
            (2, 100, 0.0, 50.0),
            (3, 400, 300.0, 400.0 / 3.0),
            (4, 400, 0.0, 100.0),
            (5, 400, 0.0, 100.0),
            (6, 400, 0.0, 0.0),
        ] {
            let reading = meter.read(count, second * S, Some(800));
            assert_eq!((reading.rate, reading.average), (rate, average), "second {second}");
            assert_eq!(reading.percent(), Some(count as f64 / 8.0));
        }
        let end = meter.end(800, 8 * S, Some(800));
        assert_eq!((end.rate, end.average, end.left()), (100.0, 100.0, Some(Duration::ZERO)));
    }

    #[test]
    fn the_time_left_is_known_once_something_moves() {
        let mut meter = Meter::new(30 * S, 0);
        assert_eq!(meter.read(0, S, Some(100)).left(), None);
        assert_eq!(meter.read(50, 2 * S, Some(100)).left(), Some(2 * S));
        assert_eq!(meter.read(50, 2 * S, None).left(), None);
        assert_eq!(meter.read(500, 3 * S, Some(100)).left(), Some(Duration::ZERO));
    }

    #[test]
    fn a_bar_swings_only_while_something_moves() {
        let mut meter = Meter::new(S, 0);
        assert_eq!(meter.read(0, S, None).swing, 0);
        assert_eq!(meter.read(1, 2 * S, None).swing, 2);
        assert_eq!(meter.read(1, 3 * S, None).swing, 2);
        assert_eq!(meter.end(1, 4 * S, None).swing, 4);
        assert_eq!(Meter::new(S, 0).end(0, S, None).swing, 0);
    }

    #[test]
    fn what_was_there_before_has_no_rate() {
        let mut meter = Meter::new(S, 1000);
        let reading = meter.read(1500, S, Some(2000));
        assert_eq!((reading.rate, reading.average, reading.percent()), (500.0, 500.0, Some(75.0)));
        assert_eq!(meter.end(2000, 2 * S, Some(2000)).rate, 500.0);
    }

    #[test]
    fn statistics_are_those_of_all_rates() {
        let mut meter = Meter::new(S, 0);
        meter.read(2, S, None);
        meter.read(6, 2 * S, None);
        let line = meter.statistics().line("B");
        assert_eq!(line, "rate min/avg/max/mdev = 2.000/3.000/4.000/1.000 B/s");
        assert_eq!(Meter::new(S, 0).statistics().line("l"), "rate not measured");
        let mut short = Meter::new(S, 0);
        short.end(5, S / 100, None);
        assert_eq!(short.statistics().line("B"), "rate not measured");
    }

    #[test]
    fn statistics_have_the_part_after_the_last_interval() {
        for (end, line) in [
            ((10, 3 * S), "2.000/3.333/4.000/0.943"),
            ((10, 4 * S), "2.000/2.667/4.000/0.943"),
            // Too short for a separate rate: the last interval is that much longer.
            ((10, 2 * S + S / 200), "2.000/4.980/7.960/2.980"),
            ((6, 2 * S), "2.000/3.000/4.000/1.000"),
        ] {
            let mut meter = Meter::new(S, 0);
            meter.read(2, S, None);
            meter.read(6, 2 * S, None);
            meter.end(end.0, end.1, None);
            let expected = format!("rate min/avg/max/mdev = {line} B/s");
            assert_eq!(meter.statistics().line("B"), expected, "{end:?}");
        }
        let mut meter = Meter::new(S, 0);
        meter.end(5, S, None);
        assert_eq!(
            meter.statistics().line("B"),
            "rate min/avg/max/mdev = 5.000/5.000/5.000/0.000 B/s"
        );
    }

    #[test]
    fn the_row_has_a_place_for_each_span_of_the_last_minute() {
        let mut meter = Meter::new(S, 0);
        for second in 1..=9 {
            meter.read(second * 10, second as u32 * S, None);
        }
        meter.read(90, 65 * S, None);
        // Those of the seconds 5 to 8 share a span.
        let row = meter.row();
        assert_eq!((row[0], row[1]), (Some(10.0), Some(10.0)));
        assert_eq!((&row[2..19], row[19]), (&[None; 17][..], Some(0.0)));
    }

    proptest! {
        #[test]
        fn no_counts_and_times_make_nonsense(steps in proptest::collection::vec((0_u64..u64::MAX / 64, 0_u64..1_000_000_000_000), 1..40)) {
            let mut meter = Meter::new(S, 0);
            let (mut count, mut elapsed) = (0_u64, Duration::ZERO);
            for (more, ns) in steps {
                count = count.saturating_add(more);
                elapsed += Duration::from_nanos(ns);
                let reading = meter.read(count, elapsed, Some(u64::MAX));
                prop_assert!(reading.rate >= 0.0 && reading.rate.is_finite());
                prop_assert!(reading.average >= 0.0 && reading.average.is_finite());
                prop_assert!(reading.left().is_none_or(|left| left <= Duration::from_secs(360_000_000)));
            }
        }
    }
}
