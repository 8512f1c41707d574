//! The account of a tee: each target, the methods, the refusals.

use std::fmt;

use rustix::io::Errno;

use crate::flow::Failure;
use crate::method::{MethodName, Refusal};
use crate::report;

/// A target that failed.
///
/// ```
/// let (source, mut feeder) = std::io::pipe()?;
/// let full = std::fs::File::options().write(true).open("/dev/full")?;
/// std::io::Write::write_all(&mut feeder, b"no room")?;
/// drop(feeder);
///
/// let report = gush::Tee::new(&source)
///     .to(&full)
///     .on_loss(&mut |loss| {
///         assert_eq!((loss.target, loss.delivered_bytes), (0, 0));
///         assert_eq!(loss.errno(), Some(gush::Errno::NOSPC));
///         gush::Control::Continue
///     })
///     .run()?;
/// assert!(!report.is_complete, "no target is left");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Loss {
    /// The target, counted from 0 in the order of [`Tee::to`](crate::Tee::to).
    pub target: usize,
    /// Bytes delivered to the target before.
    pub delivered_bytes: u64,
    /// The cause: where the reader left, the fault's `errno` is `EPIPE`.
    pub failure: Failure,
}

impl Loss {
    /// The kernel's answer, where the failure is the kernel's.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        self.failure.errno()
    }
}

/// The account of one target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TeeTarget {
    /// Bytes delivered: the first ones of the source, in order.
    pub delivered_bytes: u64,
    /// Why the target failed, if so.
    pub failure: Option<Failure>,
}

/// The account of a [`Tee`](crate::Tee).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TeeReport {
    /// Bytes taken from the source; of a file, those that some target got.
    pub taken_bytes: u64,
    /// Each target, in the order of [`Tee::to`](crate::Tee::to).
    pub targets: Vec<TeeTarget>,
    /// The source ended, or gave the length, and every target has all bytes but those that
    /// [failed](TeeReport::failed).
    pub is_complete: bool,
    /// The bytes that each method delivered to all targets, in the order of first use.
    pub methods: Vec<(MethodName, u64)>,
    /// The ways that the kernel refused, each once, in order.
    pub refusals: Vec<Refusal>,
    /// A splice may leave pages of the source with a reader of some target.
    pub(super) leaves_file: bool,
}

impl TeeReport {
    /// The failed targets, by number in the order of [`Tee::to`](crate::Tee::to), with the cause.
    ///
    /// ```
    /// let source = std::fs::File::open("/proc/version")?;
    /// let full = std::fs::File::options().write(true).open("/dev/full")?;
    /// let whole = tempfile::tempfile()?;
    /// let report = gush::Tee::new(&source).to(&whole).to(&full).run()?;
    /// for (target, failure) in report.failed() {
    ///     assert_eq!((target, failure.to_string()), (1, "write failed on the target: ENOSPC".into()));
    /// }
    /// assert_eq!((report.is_complete, report.failed().count()), (true, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn failed(&self) -> impl Iterator<Item = (usize, &Failure)> + '_ {
        let numbered = self.targets.iter().enumerate();
        numbered.filter_map(|(target, to)| Some((target, to.failure.as_ref()?)))
    }

    /// The text of `gush tee --explain`: a line for each refusal and each method that moved bytes.
    ///
    /// ```
    /// let (source, left, right) = (std::fs::File::open("/proc/version")?, tempfile::tempfile()?, tempfile::tempfile()?);
    /// let report = gush::Tee::new(&source).to(&left).to(&right).run()?;
    /// assert!(report.explain().to_string().starts_with("picked read-write: "));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn explain(&self) -> impl fmt::Display + '_ {
        Explanation(self)
    }
}

struct Explanation<'a>(&'a TeeReport);

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for refusal in &self.0.refusals {
            writeln!(f, "{}", refusal.line())?;
        }
        for (method, bytes) in &self.0.methods {
            writeln!(f, "picked {method}: {bytes} bytes to all outputs together")?;
        }
        let by = self.0.methods.iter().copied();
        if let Some(line) = report::file_splice_line(self.0.leaves_file, by) {
            writeln!(f, "{line}")?;
        }
        write!(f, "taken {} bytes", self.0.taken_bytes)
    }
}
