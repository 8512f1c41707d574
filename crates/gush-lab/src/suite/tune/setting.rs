//! One answer to the question how to move: a method, with sizes.

use std::fmt;

use gush::{Choice, MethodName, Mover, Tuning};

/// A method with sizes; absent values are left to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    method: MethodName,
    buffer_bytes: Option<usize>,
    /// Bytes of the pipes on the way.
    pipe_bytes: Option<usize>,
    /// Threads for one file.
    threads: Option<usize>,
}

impl Setting {
    pub(super) const fn of(method: MethodName) -> Self {
        Self { method, buffer_bytes: None, pipe_bytes: None, threads: None }
    }

    pub(super) const fn buffer(self, bytes: usize) -> Self {
        Self { buffer_bytes: Some(bytes), ..self }
    }

    pub(super) const fn pipe(self, bytes: usize) -> Self {
        Self { pipe_bytes: Some(bytes), ..self }
    }

    pub(super) const fn threads(self, threads: usize) -> Self {
        Self { threads: Some(threads), ..self }
    }

    /// The move with this setting instead of the plan's choice.
    pub(super) fn apply<'a>(&self, mover: Mover<'a>, mut tuning: Tuning) -> Mover<'a> {
        if let Some(bytes) = self.buffer_bytes {
            tuning = tuning.buffer_bytes(bytes);
        }
        if let Some(bytes) = self.pipe_bytes {
            tuning = tuning.pipe_bytes(bytes);
        }
        let threads = self.threads.unwrap_or(0);
        mover.method(Choice::Only(self.method)).threads(threads).tuning(tuning)
    }
}

/// As a part of a case's name: `splice+pipe=64K`.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.method)?;
        for (what, bytes) in [("buffer", self.buffer_bytes), ("pipe", self.pipe_bytes)] {
            if let Some(bytes) = bytes {
                write!(f, "+{what}={}", gush_text::typed_bytes(bytes as u64))?;
            }
        }
        self.threads.map_or(Ok(()), |threads| write!(f, "+threads={threads}"))
    }
}
