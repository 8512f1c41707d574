//! Ctrl-C: who asks the interpreter whether a signal came, and how often.

use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// Half of what Python users take for "at once"; the engine asks as often.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// A call of the engine asks far more often than anybody presses a key, and each question waits for
/// the interpreter.
const LEAST: Duration = Duration::from_millis(40);

/// Asks the interpreter now and then.
#[derive(Debug)]
pub(crate) struct Asker(Instant);

impl Asker {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }

    /// Runs `ask` with the interpreter, after the handlers of the signals that came, if it is time
    /// again.
    ///
    /// # Errors
    /// The exception of a handler, such as `KeyboardInterrupt`, or of `ask`.
    pub(crate) fn ask(&mut self, ask: impl FnOnce(Python<'_>) -> PyResult<()>) -> PyResult<()> {
        if self.0.elapsed() < LEAST {
            return Ok(());
        }
        let answer = Python::attach(|py| {
            py.check_signals()?;
            ask(py)
        });
        self.0 = Instant::now();
        answer
    }
}
