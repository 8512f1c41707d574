//! The schedule of a tour's rounds: all cases at first, and where the time is short only those that matter.

use std::time::{Duration, Instant};

use gush_lab::case::Case;
use gush_lab::model::{Run, Sample};
use gush_lab::report;
use gush_lab::runner::Schedule;

/// Rounds of all cases while there is time, and then of those that the conclusions will be about.
pub struct Narrowing {
    rounds: u32,
    time: Duration,
    cases: usize,
    /// With the cases of this run, and the samples so far.
    run: Run,
    begun: Instant,
    first_round: Option<Instant>,
    /// The round from which on only these cases, named by suite and case, are measured.
    narrowed: Option<(u32, Vec<(String, String)>)>,
}

impl Narrowing {
    /// Of each suite; those of the first rounds choose between them, and the other rounds judge.
    const AHEAD: usize = 2;
    /// Enough for that choice and for an interval.
    const ROUNDS_AHEAD: u32 = 7;

    pub fn new(rounds: u32, time: Duration, cases: usize, run: Run) -> Self {
        Self { rounds, time, cases, run, begun: Instant::now(), first_round: None, narrowed: None }
    }

    /// Is the time too short for one more round of all, and behind it the rounds of those ahead?
    fn is_short(&self, round: u32, ahead: usize, rounds_took: Duration) -> bool {
        let one = rounds_took / (round - 1);
        let share = ahead as f64 / self.cases.max(1) as f64;
        let more = Self::ROUNDS_AHEAD.min(self.rounds).saturating_sub(round);
        self.begun.elapsed() + one + one.mul_f64(share).saturating_mul(more) > self.time
    }

    /// The sentence about the cases left out, if any were.
    pub fn note(&self) -> Option<String> {
        let (round, ahead) = self.narrowed.as_ref()?;
        let (left, cases) = (ahead.len(), self.cases);
        Some(format!(
            "the time was short: from round {round} on only {left} of {cases} cases were measured, which the sentences \
             below are about (gush lab SUITE measures all of a suite)"
        ))
    }
}

impl Schedule for Narrowing {
    fn goes_on(&mut self, round: u32, samples: &[Sample]) -> bool {
        let first_round = *self.first_round.get_or_insert_with(Instant::now);
        if round > 1 && round <= self.rounds && self.narrowed.is_none() {
            self.run.samples = samples.to_vec();
            let mut ahead = report::ahead(std::slice::from_ref(&self.run), Self::AHEAD);
            ahead.sort_unstable();
            ahead.dedup();
            if self.is_short(round, ahead.len(), first_round.elapsed()) && ahead.len() < self.cases
            {
                self.narrowed = Some((round, ahead));
            }
        }
        round <= self.rounds
    }

    fn takes(&self, case: &dyn Case) -> bool {
        let is_ahead =
            |(suite, name): &(String, String)| suite == case.suite() && name == case.name();
        self.narrowed.as_ref().is_none_or(|(_, ahead)| ahead.iter().any(is_ahead))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gush_lab::Error;
    use gush_lab::model::{Described, Measured};
    use gush_lab::probe::Probe;

    struct Named(&'static str);

    impl Case for Named {
        fn suite(&self) -> &str {
            "pipe"
        }

        fn name(&self) -> &str {
            self.0
        }

        fn measure(&self, _: &Probe) -> Result<Measured, Error> {
            Ok(Measured::default())
        }
    }

    /// Speeds in GiB/s, relative to the first; as many samples of each as there are rounds.
    const SPEEDS: [(&str, f64); 5] =
        [("base", 1.0), ("slow", 0.5), ("first", 9.0), ("third", 2.0), ("second", 4.0)];

    fn samples(rounds: u32) -> Vec<Sample> {
        let of = |round| {
            SPEEDS.map(|(case, speed)| Sample {
                suite: "pipe".into(),
                case: case.into(),
                round,
                measured: Measured { gib_per_s: Some(speed), ..Measured::default() },
            })
        };
        (1..=rounds).flat_map(of).collect()
    }

    fn schedule(time: Duration) -> Narrowing {
        let described = |(case, _): &(&str, f64)| Described {
            baseline: (*case != "base").then(|| "base".into()),
            ..Described::new("pipe", case)
        };
        let run = Run { cases: SPEEDS.iter().map(described).collect(), ..Run::default() };
        Narrowing::new(9, time, SPEEDS.len(), run)
    }

    fn taken(schedule: &Narrowing) -> Vec<&'static str> {
        let names = SPEEDS.iter().map(|(case, _)| *case);
        names.filter(|case| schedule.takes(&Named(case))).collect()
    }

    #[test]
    fn a_short_time_is_spent_on_the_cases_ahead() {
        let mut schedule = schedule(Duration::ZERO);
        assert!(schedule.goes_on(1, &[]));
        assert_eq!(taken(&schedule).len(), 5, "everything once");
        assert!(schedule.goes_on(2, &samples(1)));
        assert_eq!(taken(&schedule), ["base", "first", "second"]);
        assert!(schedule.note().unwrap().contains("from round 2 on only 3 of 5 cases"));
        assert!(schedule.goes_on(9, &samples(8)) && !schedule.goes_on(10, &samples(9)));
    }

    #[test]
    fn with_time_enough_every_round_has_all_cases() {
        let mut schedule = schedule(Duration::MAX / 4);
        assert!((1..=9).all(|round| schedule.goes_on(round, &samples(round - 1))));
        assert_eq!((taken(&schedule).len(), schedule.note()), (5, None));
        assert!(!schedule.goes_on(10, &samples(9)));
    }
}
