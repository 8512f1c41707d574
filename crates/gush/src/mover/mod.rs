//! A move: the user's options, and the start.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::str::FromStr;

use crate::cancel::Cancel;
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::inspectors::InspectFn;
use crate::method::{MethodName, UnknownMethod};
use crate::plan::Refusals;
use crate::progress::{Control, Progress};
use crate::rate::Rate;
use crate::report::Report;
use crate::tuning::Tuning;
use crate::wait::Wait;

mod account;
mod brief;
mod choice;
mod cursor;
mod drive;
mod ends;
mod extents;
mod gather;
mod holes;
mod parallel;
mod paying;
mod ranges;
mod replace;
mod request;
mod space;
mod unheld;
mod watch;

use brief::Brief;
use drive::Move;
use ends::Ends;
use request::Request;

/// Which method moves the bytes.
///
/// ```
/// use gush::{Choice, MethodName};
/// assert_eq!("auto".parse(), Ok(Choice::Auto));
/// assert_eq!("splice".parse(), Ok(Choice::Only(MethodName::Splice)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
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

/// The treatment of holes and of blocks of zeros, from file to file.
///
/// ```
/// use std::os::unix::fs::MetadataExt;
/// use gush::{Holes, Mover};
///
/// let source = tempfile::tempfile()?;
/// std::os::unix::fs::FileExt::write_all_at(&source, &[0; 1 << 20], 0)?;
/// let target = tempfile::tempfile()?;
/// let report = Mover::new(&source, &target).source_offset_bytes(0).holes(Holes::Make).run()?;
/// assert_eq!((report.bytes, report.hole_bytes), (1 << 20, 1 << 20));
/// assert_eq!(target.metadata()?.blocks(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Holes {
    /// A sparse source stays sparse; a source whose report of holes cannot be believed is read,
    /// and zero blocks become holes.
    #[default]
    Keep,
    /// Every block of zeros becomes a hole.
    Make,
    /// Every byte is written.
    Fill,
}

pub(crate) type Observer<'a> = &'a mut (dyn FnMut(&Progress) -> Control + Send);

/// Moves bytes from one descriptor to another.
///
/// Without offsets a move behaves as a loop of `read` and `write`: from both descriptors' own
/// positions, which are left after the last byte moved, also after a failure. With an offset the
/// descriptor's position is not used, and stays unchanged.
///
/// A pipe without a reader raises SIGPIPE, as with `write`, and so does a socket under splice(2) or
/// sendfile(2). A process that ignores the signal, as Rust's programs do, gets `EPIPE`, and only if
/// bytes would be lost.
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
    /// Both endpoints as the caller knows them.
    endpoints: Option<(Endpoint<'a>, Endpoint<'a>)>,
    request: Request<'a>,
    observer: Option<Observer<'a>>,
}

impl<'a> Mover<'a> {
    /// The most threads for one file at once; their buffers share the engine's 16 MiB.
    pub const MOST_THREADS: usize = 64;

    /// A move of everything from `source` to `target`, by the plan's choice.
    pub fn new(source: &'a impl AsFd, target: &'a impl AsFd) -> Self {
        let (source, target) = (source.as_fd(), target.as_fd());
        Self { source, target, endpoints: None, request: Request::default(), observer: None }
    }

    /// As [`Mover::new`], for ends that were looked at already, and have not changed since.
    ///
    /// ```
    /// use gush::{Endpoint, Mover};
    /// let (source, target) = (std::fs::File::open("/proc/self/exe")?, tempfile::tempfile()?);
    /// let (from, to) = (Endpoint::of(&source)?, Endpoint::of(&target)?);
    /// let report = Mover::between(from, to).run()?;
    /// assert_eq!(report.bytes, source.metadata()?.len());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn between(source: Endpoint<'a>, target: Endpoint<'a>) -> Self {
        let (source_fd, target_fd) = (source.fd(), target.fd());
        Self {
            source: source_fd,
            target: target_fd,
            endpoints: Some((source, target)),
            request: Request::default(),
            observer: None,
        }
    }

    /// The method to use; a named method is used or refused, never replaced.
    #[must_use]
    pub fn method(mut self, choice: Choice) -> Self {
        self.request.choice = choice;
        self
    }

    /// Methods excluded from the plan.
    ///
    /// ```
    /// use gush::{MethodName, Mover};
    /// let (source, target) = (std::fs::File::open("/proc/version")?, tempfile::tempfile()?);
    /// let report = Mover::new(&source, &target).exclude(&[MethodName::Splice]).run()?;
    /// assert!(report.methods.iter().all(|used| used.name != MethodName::Splice));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn exclude(mut self, methods: &'a [MethodName]) -> Self {
        self.request.excluded = methods;
        self
    }

    /// Whether to exclude methods that share the source's pages with the target's readers, so
    /// that no later write to the source file can show in bytes already sent.
    ///
    /// ```
    /// use std::io::Read;
    /// use std::os::unix::fs::FileExt;
    ///
    /// let source = tempfile::tempfile()?;
    /// source.write_all_at(b"as it was", 0)?;
    /// let (mut reader, writer) = std::io::pipe()?;
    /// gush::Mover::new(&source, &writer).isolated(true).run()?;
    /// source.write_all_at(b"CHANGED!!", 0)?;
    /// let mut seen = [0; 9];
    /// reader.read_exact(&mut seen)?;
    /// assert_eq!(&seen, b"as it was");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn isolated(mut self, yes: bool) -> Self {
        self.request.isolated = yes;
        self
    }

    /// The most bytes to move instead of all. A datagram is never cut: one longer than the rest
    /// stays in the socket, and is an error (`EMSGSIZE`).
    #[must_use]
    pub fn length_bytes(mut self, bytes: u64) -> Self {
        self.request.length_bytes = Some(bytes);
        self
    }

    /// The offset in the source to start from, in bytes.
    #[must_use]
    pub fn source_offset_bytes(mut self, bytes: u64) -> Self {
        self.request.source_offset = Some(bytes);
        self
    }

    /// The offset in the target to write to, in bytes.
    ///
    /// ```
    /// use std::os::unix::fs::FileExt;
    /// let (source, target) = (tempfile::tempfile()?, tempfile::tempfile()?);
    /// source.write_all_at(b"new", 0)?;
    /// target.write_all_at(b"the old word", 0)?;
    /// gush::Mover::new(&source, &target).source_offset_bytes(0).target_offset_bytes(4).run()?;
    /// let mut text = [0; 12];
    /// target.read_exact_at(&mut text, 0)?;
    /// assert_eq!(&text, b"the new word");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn target_offset_bytes(mut self, bytes: u64) -> Self {
        self.request.target_offset = Some(bytes);
        self
    }

    /// Whether the target, a file, ends where the move ends, losing old content from the offset on.
    ///
    /// As if truncated before, but a refused named method leaves the target unchanged. A target
    /// with O_APPEND is only added to. Within one file nothing of the source may lie after the
    /// target's offset: that is an overlap, and an error.
    ///
    /// ```
    /// use gush::{Choice, MethodName, Mover};
    ///
    /// let dir = tempfile::tempdir()?;
    /// let old = dir.path().join("old");
    /// std::fs::write(&old, "something longer")?;
    /// let target = std::fs::File::options().write(true).open(&old)?;
    /// let pseudo = std::fs::File::open("/proc/version")?;
    ///
    /// let by_name = Choice::Only(MethodName::Reflink);
    /// assert!(Mover::new(&pseudo, &target).replace(true).method(by_name).run().is_err());
    /// assert_eq!(std::fs::read(&old)?, b"something longer");
    ///
    /// let report = Mover::new(&pseudo, &target).replace(true).length_bytes(5).run()?;
    /// assert_eq!((report.bytes, std::fs::read(&old)?.len()), (5, 5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn replace(mut self, yes: bool) -> Self {
        self.request.replace = yes;
        self
    }

    /// The treatment of holes.
    #[must_use]
    pub fn holes(mut self, holes: Holes) -> Self {
        self.request.holes = holes;
        self
    }

    /// How many threads may share one large file; 0 (the default) means as many as pay: its parts
    /// are measured on one thread and on several, up to 4 or, where they sleep, 64.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.request.threads = threads.min(Self::MOST_THREADS);
        self
    }

    /// Sizes, advice and space.
    #[must_use]
    pub fn tuning(mut self, tuning: Tuning) -> Self {
        self.request.tuning = tuning;
        self
    }

    /// How to wait while neither side can go on; by default [`Wait::Auto`].
    #[must_use]
    pub fn wait(mut self, wait: Wait) -> Self {
        self.request.wait = wait;
        self
    }

    /// The most bytes a second; an unused part is made up for within a twentieth of a second.
    /// Another thread may change the rate during the move, and moves with clones of it stay below
    /// it together.
    ///
    /// ```
    /// use gush::{Mover, Rate};
    /// let (zeros, null) = (std::fs::File::open("/dev/zero")?, std::fs::File::create("/dev/null")?);
    /// let rate = Rate::bytes_per_second(1 << 20).unwrap();
    /// let began = std::time::Instant::now();
    /// std::thread::scope(|scope| {
    ///     for _ in 0..2 {
    ///         let mover = Mover::new(&zeros, &null).length_bytes(256 << 10).limit(rate.clone());
    ///         scope.spawn(|| mover.run());
    ///     }
    /// });
    /// assert!(began.elapsed().as_secs_f64() > 0.4, "half of a second's bytes");
    ///
    /// rate.set(1);
    /// let same = rate.clone();
    /// std::thread::spawn(move || same.set(0));
    /// let report = Mover::new(&zeros, &null).length_bytes(1 << 30).limit(rate).run()?;
    /// assert_eq!(report.bytes, 1 << 30);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn limit(mut self, rate: Rate) -> Self {
        self.request.rate = Some(rate);
        self
    }

    /// The observer is called at least ten times a second, perhaps after each step, and may stop
    /// the move.
    ///
    /// A socket as target is then spliced and sent to only if the socket has O_NONBLOCK, because
    /// both calls would hold the move otherwise: into any other socket the bytes pass through
    /// memory.
    ///
    /// ```
    /// use gush::{Control, Mover};
    /// let (zeros, null) = (std::fs::File::open("/dev/zero")?, std::fs::File::create("/dev/null")?);
    /// let error = Mover::new(&zeros, &null)
    ///     .observe(&mut |seen| if seen.bytes > 1 << 20 { Control::Stop } else { Control::Continue })
    ///     .run()
    ///     .unwrap_err();
    /// assert!(error.is_stopped() && error.delivered_bytes() > 1 << 20);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn observe(mut self, observer: &'a mut (dyn FnMut(&Progress) -> Control + Send)) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Lets another thread end the move. As with an [observer](Mover::observe), bytes pass through
    /// memory into a socket without O_NONBLOCK.
    ///
    /// ```
    /// let cancel = gush::Cancel::new();
    /// cancel.cancel();
    /// let (source, target) = (std::fs::File::open("/dev/zero")?, std::fs::File::create("/dev/null")?);
    /// let outcome = gush::Mover::new(&source, &target).cancelled_by(&cancel).run();
    /// assert!(outcome.unwrap_err().is_cancelled());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn cancelled_by(mut self, cancel: &'a Cancel) -> Self {
        self.request.cancel = Some(cancel);
        self
    }

    /// Whether to hash the bytes (blake3); the plan then only picks methods that see them. A named
    /// method that [sees no bytes](MethodName::sees_bytes) leaves no hash in the report. With the
    /// feature `digest`.
    ///
    /// ```
    /// use std::os::unix::fs::FileExt;
    /// let (source, target) = (tempfile::tempfile()?, tempfile::tempfile()?);
    /// source.write_all_at(b"hashed on the way", 0)?;
    /// let report = gush::Mover::new(&source, &target).digest(true).run()?;
    /// assert_eq!(report.digest, Some(gush::digest_of(&target)?));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "digest")]
    #[must_use]
    pub fn digest(mut self, yes: bool) -> Self {
        self.request.digest = yes;
        self
    }

    /// Shows every delivered byte to `look`, once and in order; holes as zeros. The plan then only
    /// picks methods that see the bytes; a named method shows those that it
    /// [sees](MethodName::sees_bytes).
    ///
    /// The zeros of a hole are shown before the data after it. If the move ends right there, they
    /// may not have been delivered.
    ///
    /// ```
    /// use std::os::unix::fs::FileExt;
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let (source, target) = (tempfile::tempfile()?, tempfile::tempfile()?);
    /// source.write_all_at(b"one\ntwo\n", 0)?;
    /// let lines = Arc::new(AtomicUsize::new(0));
    /// let counted = Arc::clone(&lines);
    /// let look = move |bytes: &[u8]| {
    ///     let found = bytes.iter().filter(|&&byte| byte == b'\n').count();
    ///     counted.fetch_add(found, Ordering::Relaxed);
    /// };
    /// gush::Mover::new(&source, &target).inspect(look).run()?;
    /// assert_eq!(lines.load(Ordering::Relaxed), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn inspect(mut self, look: impl FnMut(&[u8]) + Send + 'static) -> Self {
        self.request.inspector = Some(InspectFn::new(look));
        self
    }

    /// A memory of refusals to share with other moves.
    ///
    /// ```
    /// let refusals = gush::Refusals::default();
    /// for content in ["one file", "and another"] {
    ///     let (source, target) = (tempfile::tempfile()?, tempfile::tempfile()?);
    ///     std::os::unix::fs::FileExt::write_all_at(&source, content.as_bytes(), 0)?;
    ///     let report = gush::Mover::new(&source, &target).remember(&refusals).run()?;
    ///     assert_eq!(report.bytes, content.len() as u64);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn remember(mut self, refusals: &'a Refusals) -> Self {
        self.request.refusals = Some(refusals);
        self
    }

    /// Moves the bytes, waiting as needed.
    ///
    /// # Errors
    /// The failed call, the side, and how many bytes had arrived ([`Error`]); a refused named
    /// method; a stop by the observer or another thread. The bytes taken are delivered first, or
    /// counted in the error (invariant 1).
    pub fn run(self) -> Result<Report, Error> {
        let Self { source, target, endpoints, request, mut observer } = self;
        let is_watched = observer.is_some() || request.cancel.is_some();
        let mut ends = match endpoints {
            Some(endpoints) => Ends::known(endpoints),
            None => Ends::look(source, target),
        }
        .map_err(Error::failed)?;
        let begun = match brief::copy(&request, &ends, observer.as_mut())? {
            Brief::Done(report) => return Ok(report),
            Brief::Begun(used) => Some(used),
            Brief::NotTaken => None,
        };
        let twin = unheld::twin_of(&ends.target);
        if let Some(twin) = &twin {
            ends = Ends::look(source, twin.as_fd()).map_err(Error::failed)?;
        }
        let observer = observer.map(|observer| -> Observer<'_> { observer });
        if is_watched {
            ends.source = ends.source.without_nonblock();
        }
        let mut all = Move::new(request, ends, observer)?;
        if let Some(used) = begun {
            all.continue_after(*used);
        }
        all.run()
    }
}

impl fmt::Debug for Mover<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mover")
            .field("source", &self.source)
            .field("target", &self.target)
            .field("choice", &self.request.choice)
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
