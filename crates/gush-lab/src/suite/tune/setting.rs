//! One answer to the question how to move: a method, with sizes.

use std::fmt;

use gush::{Choice, MethodName, Mover, Space, Tuning};

/// A method with sizes; absent values are left to the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    method: MethodName,
    tuning: Tuning,
    /// Threads for one file.
    threads: Option<usize>,
}

impl Setting {
    pub(super) fn of(method: MethodName) -> Self {
        Self { method, tuning: Tuning::default(), threads: None }
    }

    pub(super) fn tuned(self, tune: impl FnOnce(Tuning) -> Tuning) -> Self {
        Self { tuning: tune(self.tuning), ..self }
    }

    pub(super) fn threads(self, threads: usize) -> Self {
        Self { threads: Some(threads), ..self }
    }

    /// The move with this setting instead of the plan's choice.
    pub(super) fn apply<'a>(&self, mover: Mover<'a>, space: Space) -> Mover<'a> {
        let mover = mover.method(Choice::Only(self.method)).threads(self.threads.unwrap_or(0));
        mover.tuning(self.tuning.clone().space(space))
    }
}

/// As a part of a case's name: `splice+pipe=64K`.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.method)?;
        let (buffer, pipe) = (self.tuning.get_buffer_bytes(), self.tuning.get_pipe_bytes());
        for (what, bytes) in [("buffer", buffer), ("pipe", pipe)] {
            if let Some(bytes) = bytes {
                write!(f, "+{what}={}", gush_text::typed_bytes(bytes as u64))?;
            }
        }
        self.threads.map_or(Ok(()), |threads| write!(f, "+threads={threads}"))
    }
}
