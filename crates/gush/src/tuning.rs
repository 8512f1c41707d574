//! The user's settings of a method: sizes, advice, space.

/// The read-ahead advice given for the source before reading (posix_fadvise(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// None: the kernel's own read-ahead.
    #[default]
    None,
    /// `POSIX_FADV_SEQUENTIAL`: twice the read-ahead window.
    Sequential,
    /// `POSIX_FADV_WILLNEED`: start reading the range now.
    WillNeed,
    /// `POSIX_FADV_RANDOM`: no read-ahead.
    Random,
}

/// The target's space, before any content comes (fallocate(2) with `FALLOC_FL_KEEP_SIZE`).
///
/// ```
/// use gush::{Mover, Space, Tuning};
/// let (source, target) = (tempfile::tempfile()?, tempfile::tempfile()?);
/// source.set_len(1 << 20)?;
/// let reserving = Tuning::default().space(Space::Reserve);
/// let report = Mover::new(&source, &target).tuning(reserving).run()?;
/// assert_eq!((report.bytes, target.metadata()?.len()), (1 << 20, 1 << 20));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Space {
    /// Found as needed.
    #[default]
    AsWritten,
    /// Reserved where possible: writing is faster on ext4, a full disk shows later.
    TryReserve,
    /// Reserved, or the move fails: a full disk shows before the copy.
    Reserve,
}

/// Sizes and switches; the plan or the method has a default for each.
///
/// ```
/// let tuning = gush::Tuning::default().buffer_bytes(1 << 20).space(gush::Space::Reserve);
/// assert_eq!(tuning.get_buffer_bytes(), Some(1 << 20));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuning {
    buffer_bytes: Option<usize>,
    pipe_bytes: Option<usize>,
    pub(crate) advice: Advice,
    pub(crate) space: Space,
}

impl Default for Tuning {
    fn default() -> Self {
        Self { buffer_bytes: None, pipe_bytes: None, advice: Advice::None, space: Space::AsWritten }
    }
}

impl Tuning {
    /// The most bytes of one buffer or window; with the workers' share this keeps the engine
    /// within 16 MiB (invariant 8).
    pub const MOST_BUFFER_BYTES: usize = 4 << 20;

    /// Bytes of one buffer or mapped window, between 1 and [`Self::MOST_BUFFER_BYTES`].
    ///
    /// ```
    /// use gush::Tuning;
    /// let tuning = Tuning::default().buffer_bytes(usize::MAX);
    /// assert_eq!(tuning.get_buffer_bytes(), Some(Tuning::MOST_BUFFER_BYTES));
    /// ```
    #[must_use]
    pub fn buffer_bytes(mut self, bytes: usize) -> Self {
        // Clamped, not refused: the bound on memory holds for every caller (invariant 8).
        self.buffer_bytes = Some(bytes.clamp(1, Self::MOST_BUFFER_BYTES));
        self
    }

    /// Bytes asked for a private pipe, or for a pipe at either side, which stays as large. No pipe
    /// is made smaller: 1 leaves both sides alone.
    #[must_use]
    pub fn pipe_bytes(mut self, bytes: usize) -> Self {
        self.pipe_bytes = Some(bytes);
        self
    }

    /// Read-ahead advice for the source.
    #[must_use]
    pub fn advice(mut self, advice: Advice) -> Self {
        self.advice = advice;
        self
    }

    /// How the target's space is had before the copy.
    #[must_use]
    pub fn space(mut self, space: Space) -> Self {
        self.space = space;
        self
    }

    /// The buffer size asked for, in bytes.
    #[must_use]
    pub fn get_buffer_bytes(&self) -> Option<usize> {
        self.buffer_bytes
    }

    /// The pipe size asked for, in bytes.
    #[must_use]
    pub fn get_pipe_bytes(&self) -> Option<usize> {
        self.pipe_bytes
    }
}
