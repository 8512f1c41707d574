//! The setup of a technique for a move: sizes, and who looks at the bytes.

use crate::inspectors::Inspectors;
use crate::tuning::Tuning;

/// The sizes and switches of one attempt: as the user asked, else the technique's own.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    buffer_bytes: Option<usize>,
    pipe_bytes: Option<usize>,
    /// The user named the pipe's size, and answers for that.
    pub(crate) pipe_is_named: bool,
    pub(crate) buffer_is_named: bool,
    pub(crate) makes_holes: bool,
    /// The move has a rate limit.
    pub(crate) is_limited: bool,
    pub(crate) inspectors: Option<Inspectors>,
}

impl Setup {
    pub(crate) fn of(tuning: &Tuning) -> Self {
        let (buffer, pipe) = (tuning.get_buffer_bytes(), tuning.get_pipe_bytes());
        Self {
            buffer_bytes: buffer,
            pipe_bytes: pipe,
            pipe_is_named: pipe.is_some(),
            buffer_is_named: buffer.is_some(),
            makes_holes: false,
            is_limited: false,
            inspectors: None,
        }
    }

    /// The same, with buffers of at most `most_bytes` where `default_bytes` are usual.
    pub(crate) fn sharing(&self, default_bytes: usize, most_bytes: usize) -> Self {
        let buffer_bytes = self.buffer_or(default_bytes).min(most_bytes);
        Self { buffer_bytes: Some(buffer_bytes), ..self.clone() }
    }

    pub(crate) fn buffer_or(&self, default_bytes: usize) -> usize {
        self.buffer_bytes.unwrap_or(default_bytes)
    }

    pub(crate) fn pipe_or(&self, default_bytes: usize) -> usize {
        self.pipe_bytes.unwrap_or(default_bytes)
    }
}
