//! Makes each attempt on a thread of its own: one that does not end is an outcome like any other.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};

use super::attempt::{attempt, moved};
use super::source::Workshop;
use super::{Aim, Attempt, Kind, KindPlace, Method, Outcome, places};
use crate::affinity;
use crate::runner::interrupt;

/// Time limit for an attempt that moves a few bytes, also on a busy machine.
const VERIFY_LIMIT: Duration = Duration::from_secs(20);
/// A speed below which nobody waits, in bytes a second.
const LEAST_SPEED: u64 = 4 << 20;
/// How long an interrupt may go unseen.
const SLICE: Duration = Duration::from_millis(50);

/// Makes attempts, one at a time.
#[derive(Debug)]
pub struct Prober {
    places: Vec<KindPlace>,
    /// None while an attempt has it, and after an attempt that did not end.
    workshop: Option<Workshop>,
}

impl Prober {
    /// Finds places for ends of `kinds`.
    pub fn new(kinds: &[Kind]) -> Self {
        Self { places: places::find(kinds), workshop: None }
    }

    /// Where files of each kind lie, or why there are none.
    pub fn places(&self) -> &[KindPlace] {
        &self.places
    }

    /// Tries a method on a pair, on `processors`: the mover's, and that of the far ends.
    pub fn try_out(
        &mut self,
        method: Method,
        source: Kind,
        target: Kind,
        aim: Aim,
        processors: Option<[usize; 2]>,
    ) -> Attempt {
        let is_missing =
            |place: &&KindPlace| place.dir.is_none() && [source, target].contains(&place.kind);
        if let Some(place) = self.places.iter().find(is_missing) {
            return Outcome::Absent { why: place.how.clone() }.into();
        }
        let limit = match aim {
            Aim::Verify => VERIFY_LIMIT,
            // Slow is no failure: a pseudo-terminal moves some MiB a second.
            Aim::Speed(bytes) => VERIFY_LIMIT + Duration::from_secs(bytes / LEAST_SPEED),
        };
        let mut workshop = self.workshop.take().unwrap_or_else(|| {
            let dirs = self.places.iter().filter_map(|at| Some((at.kind, at.dir.clone()?)));
            Workshop::new(dirs.collect())
        });
        let done = within(limit, move || {
            // A far end that is gone is to be an error of a write, not the end of this process.
            let mut signals = SigSet::empty();
            signals.add(Signal::SIGPIPE);
            let _ = signals.thread_block();
            if let Some([near, far]) = processors {
                workshop.processor = Some(far);
                // Unpinned it is slower, not wrong.
                let _ = affinity::pin(near);
            }
            let mover = |from: &_, to: &_, load: &_| moved(method, from, to, load);
            let attempt = attempt(&mut workshop, mover, source, target, aim);
            (attempt, workshop)
        });
        match done {
            Ok((attempt, workshop)) => {
                self.workshop = Some(workshop);
                attempt
            }
            Err(outcome) => outcome.into(),
        }
    }
}

/// The result of `work`, unless it takes longer or the program is interrupted; then its thread is
/// left alone.
fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Outcome> {
    let (sender, receiver) = mpsc::channel();
    let working = thread::spawn(move || sender.send(work()));
    let deadline = Instant::now() + limit;
    loop {
        match receiver.recv_timeout(SLICE) {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Disconnected) => {
                let panicked = working.join().expect_err("it sends a result before it ends");
                std::panic::resume_unwind(panicked)
            }
            Err(RecvTimeoutError::Timeout)
                if Instant::now() < deadline && !interrupt::requested() => {}
            Err(RecvTimeoutError::Timeout) => {
                return Err(Outcome::Hangs { seconds: limit.as_secs() });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_that_hangs_is_an_outcome() {
        let second = Duration::from_secs(1);
        let hangs = within(second, || thread::sleep(Duration::from_secs(60)));
        assert_eq!(hangs, Err(Outcome::Hangs { seconds: 1 }));
        assert_eq!(within(VERIFY_LIMIT, || 7), Ok(7));
    }
}
