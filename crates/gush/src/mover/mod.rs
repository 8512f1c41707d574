//! Runs a plan: step, wait, observe, fall back, prove the end.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::str::FromStr;

use crate::error::Error;
use crate::method::{MethodName, UnknownMethod};
use crate::plan::Refusals;
use crate::profile::Profile;
use crate::progress::{Control, Progress, Rate};
use crate::report::Report;
use crate::tuning::Tuning;
use crate::wait::Wait;

mod choose;
mod drive;
mod end;
mod holes;
mod job;
mod parallel;
mod place;
mod space;
mod watched;

/// Which method moves the bytes.
///
/// ```
/// use gush::{Choice, MethodName};
/// assert_eq!("auto".parse(), Ok(Choice::Auto));
/// assert_eq!("splice".parse(), Ok(Choice::Only(MethodName::Splice)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The plan's table, with falling back.
    #[default]
    Auto,
    /// This one or none (invariant 6).
    Only(MethodName),
}

impl FromStr for Choice {
    type Err = UnknownMethod;

    fn from_str(text: &str) -> Result<Self, UnknownMethod> {
        if text == "auto" { Ok(Choice::Auto) } else { text.parse().map(Choice::Only) }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Auto => f.pad("auto"),
            Choice::Only(name) => name.fmt(f),
        }
    }
}

/// What becomes of holes and of blocks of zeros, from file to file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Holes {
    /// A sparse source stays sparse; a source whose report of its holes cannot be believed is read,
    /// and its zero blocks become holes.
    #[default]
    Keep,
    /// Every block of zeros becomes a hole.
    Make,
    /// Every byte is written.
    Fill,
}

pub(crate) type Observer<'a> = &'a mut dyn FnMut(&Progress) -> Control;

/// Moves bytes from one descriptor to another.
///
/// Without offsets it behaves as a loop of `read` and `write`: it starts at both descriptors' own
/// positions, and leaves them behind the last byte moved, also when it fails. With an offset that
/// descriptor's position is neither used nor changed.
///
/// ```
/// use gush::{Choice, Control, MethodName, Mover};
/// use std::io::Write;
///
/// let mut source = tempfile::tempfile()?;
/// source.write_all(b"hello, world")?;
/// let target = tempfile::tempfile()?;
/// let mut seen = 0;
/// let report = Mover::new(&source, &target)
///     .method(Choice::Only(MethodName::ReadWrite))
///     .source_offset_bytes(7)
///     .length_bytes(5)
///     .observe(&mut |progress| {
///         seen = progress.bytes;
///         Control::Continue
///     })
///     .run()?;
/// assert_eq!((report.bytes, seen), (5, 5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Mover<'a> {
    source: BorrowedFd<'a>,
    target: BorrowedFd<'a>,
    choice: Choice,
    excluded: &'a [MethodName],
    isolated: bool,
    length_bytes: Option<u64>,
    source_offset: Option<u64>,
    target_offset: Option<u64>,
    holes: Holes,
    threads: usize,
    tuning: Tuning,
    wait: Option<Wait>,
    profile: Option<&'a Profile>,
    rate: Option<Rate>,
    observer: Option<Observer<'a>>,
    digest: bool,
    refusals: Option<&'a Refusals>,
}

impl<'a> Mover<'a> {
    /// The most transfers that work on one file at once; their buffers share the engine's 16 MiB.
    pub const MOST_THREADS: usize = 64;

    /// A move of everything from `source` to `target`, by the plan's choice.
    pub fn new(source: &'a impl AsFd, target: &'a impl AsFd) -> Self {
        Self {
            source: source.as_fd(),
            target: target.as_fd(),
            choice: Choice::Auto,
            excluded: &[],
            isolated: false,
            length_bytes: None,
            source_offset: None,
            target_offset: None,
            holes: Holes::Keep,
            threads: 0,
            tuning: Tuning::default(),
            wait: None,
            profile: None,
            rate: None,
            observer: None,
            digest: false,
            refusals: None,
        }
    }

    /// The method to use; one that is named is used or refused, never replaced.
    #[must_use]
    pub fn method(mut self, choice: Choice) -> Self {
        self.choice = choice;
        self
    }

    /// Methods that the plan may not pick.
    #[must_use]
    pub fn exclude(mut self, methods: &'a [MethodName]) -> Self {
        self.excluded = methods;
        self
    }

    /// Whether to exclude methods that share the source's pages with whoever reads the target, so
    /// that no later write to the source file can show in what was already sent.
    #[must_use]
    pub fn isolated(mut self, yes: bool) -> Self {
        self.isolated = yes;
        self
    }

    /// The most bytes to move; without it, all up to the end of the source.
    #[must_use]
    pub fn length_bytes(mut self, bytes: u64) -> Self {
        self.length_bytes = Some(bytes);
        self
    }

    /// The offset in the source to start from, in bytes.
    #[must_use]
    pub fn source_offset_bytes(mut self, bytes: u64) -> Self {
        self.source_offset = Some(bytes);
        self
    }

    /// The offset in the target to write to, in bytes.
    #[must_use]
    pub fn target_offset_bytes(mut self, bytes: u64) -> Self {
        self.target_offset = Some(bytes);
        self
    }

    /// What becomes of holes.
    #[must_use]
    pub fn holes(mut self, holes: Holes) -> Self {
        self.holes = holes;
        self
    }

    /// How many threads may share one large file; 0 (the default) means one a processor, at most 4.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.min(Self::MOST_THREADS);
        self
    }

    /// Sizes, advice and space.
    #[must_use]
    pub fn tuning(mut self, tuning: Tuning) -> Self {
        self.tuning = tuning;
        self
    }

    /// How to wait while neither side can go on; [`Wait::Block`] unless a profile knows better.
    #[must_use]
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = Some(wait);
        self
    }

    /// The user's measured profile: it reorders what the plan permits, and sets sizes, threads and
    /// spinning where nothing else was asked for. A named method is used as if there were none.
    #[must_use]
    pub fn profile(mut self, profile: &'a Profile) -> Self {
        self.profile = Some(profile);
        self
    }

    /// The most bytes a second, without bursts.
    #[must_use]
    pub fn limit(mut self, rate: Rate) -> Self {
        self.rate = Some(rate);
        self
    }

    /// Whom to tell of progress, at least ten times a second; its answer may stop the move.
    #[must_use]
    pub fn observe(mut self, observer: &'a mut dyn FnMut(&Progress) -> Control) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Whether to hash what passes (blake3); the plan then only picks methods that see the bytes.
    #[must_use]
    pub fn digest(mut self, yes: bool) -> Self {
        self.digest = yes;
        self
    }

    /// A memory of refusals to share with other moves.
    #[must_use]
    pub fn remember(mut self, refusals: &'a Refusals) -> Self {
        self.refusals = Some(refusals);
        self
    }

    /// Moves the bytes, waiting as needed.
    ///
    /// # Errors
    /// The call that failed, on which side, and how many bytes had arrived ([`Error`]); the refusal
    /// of a method that was named; the observer's stop. What was taken from the source is delivered
    /// first, or counted in the error (invariant 1).
    pub fn run(mut self) -> Result<Report, Error> {
        if self.observer.is_none() {
            return job::Job::new(self)?.run();
        }
        let unheld = watched::Unheld::new(self.target);
        job::Job::new(self.towards(unheld.target()))?.run()
    }

    /// The same move, for as long as another descriptor of the target lives.
    fn towards<'b>(&'b mut self, target: BorrowedFd<'b>) -> Mover<'b> {
        Mover {
            source: self.source,
            target,
            choice: self.choice,
            excluded: self.excluded,
            isolated: self.isolated,
            length_bytes: self.length_bytes,
            source_offset: self.source_offset,
            target_offset: self.target_offset,
            holes: self.holes,
            threads: self.threads,
            tuning: self.tuning.clone(),
            wait: self.wait,
            profile: self.profile,
            rate: self.rate,
            observer: match &mut self.observer {
                Some(observer) => Some(&mut **observer),
                None => None,
            },
            digest: self.digest,
            refusals: self.refusals,
        }
    }
}

impl fmt::Debug for Mover<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mover")
            .field("source", &self.source)
            .field("target", &self.target)
            .field("choice", &self.choice)
            .finish_non_exhaustive()
    }
}

/// Moves everything from `source` to `target`, from both positions to the end of the source.
///
/// # Errors
/// As [`Mover::run`].
///
/// ```
/// use std::io::{Read, Seek, Write};
/// let mut source = tempfile::tempfile()?;
/// source.write_all(b"abc")?;
/// source.rewind()?;
/// let mut target = tempfile::tempfile()?;
/// assert_eq!(gush::copy(&source, &target)?.bytes, 3);
/// target.rewind()?;
/// let mut text = String::new();
/// target.read_to_string(&mut text)?;
/// assert_eq!(text, "abc");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn copy(source: &impl AsFd, target: &impl AsFd) -> Result<Report, Error> {
    Mover::new(source, target).run()
}
