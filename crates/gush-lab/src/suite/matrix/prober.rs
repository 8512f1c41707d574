//! Makes each attempt on a thread of its own: one that does not end is an outcome like any other.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};

use super::attempt::{attempt, moved};
use super::source::Workshop;
use super::{Aim, Attempt, Kind, Method, Outcome};
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
    dirs: HashMap<Kind, PathBuf>,
    /// None while an attempt has it, and after an attempt that did not end.
    workshop: Option<Workshop>,
}

impl Prober {
    /// With the directories for files of each kind.
    pub fn new(dirs: HashMap<Kind, PathBuf>) -> Self {
        Self { dirs, workshop: None }
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
        let limit = match aim {
            Aim::Verify => VERIFY_LIMIT,
            // Slow is no failure: a pseudo-terminal moves some MiB a second.
            Aim::Speed(bytes) => VERIFY_LIMIT + Duration::from_secs(bytes / LEAST_SPEED),
        };
        let workshop = self.workshop.take();
        let mut workshop = workshop.unwrap_or_else(|| Workshop::new(self.dirs.clone()));
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
