//! The account of a move: bytes, methods, calls, refusals.

use std::fmt;
use std::time::Duration;

#[cfg(feature = "digest")]
use crate::digest::Digest;
use crate::endpoint::Kind;
use crate::kernel::{FileSplice, Kernel, Vmsplice};
use crate::method::{MethodName, Refusal};
use crate::sys::CallCounts;

/// One method's part in a move.
///
/// ```
/// let (source, target) = (std::fs::File::open("/proc/version")?, tempfile::tempfile()?);
/// for used in gush::copy(&source, &target)?.methods {
///     println!("{}: {} bytes in {} steps, {:?}", used.name, used.bytes, used.steps, used.calls);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MethodUse {
    /// The method.
    pub name: MethodName,
    /// Bytes delivered.
    pub bytes: u64,
    /// Steps made.
    pub steps: u64,
    /// Transfers at work at once: 1 unless ranges went on several threads.
    pub threads: usize,
    /// System calls made meanwhile.
    pub calls: CallCounts,
}

/// The account of a finished move.
///
/// ```
/// use gush::MethodName;
/// let (source, target) = (std::fs::File::open("/proc/version")?, tempfile::tempfile()?);
/// let report = gush::copy(&source, &target)?;
/// assert_eq!(report.bytes, target.metadata()?.len());
/// assert_eq!(report.main_method(), Some(MethodName::ReadWrite));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Bytes gained by the target, holes included.
    pub bytes: u64,
    /// Holes among them, which were not written.
    pub hole_bytes: u64,
    /// Wall time.
    pub elapsed: Duration,
    /// The methods that moved something or proved the end, in order.
    pub methods: Vec<MethodUse>,
    /// The methods that could not serve, in order, each with the reason.
    pub refusals: Vec<Refusal>,
    /// A splice may leave pages of the source with a reader ([`leaves_file`]).
    pub(crate) leaves_file: bool,
    /// The hash of all bytes, by [`crate::Mover::digest`], if every method saw them.
    /// With the feature `digest`.
    #[cfg(feature = "digest")]
    pub digest: Option<Digest>,
}

impl Report {
    /// The method with the most bytes, if any byte moved.
    #[must_use]
    pub fn main_method(&self) -> Option<MethodName> {
        self.methods.iter().max_by_key(|used| used.bytes).map(|used| used.name)
    }

    /// The text of `--explain`, a line for each method. The [`Display`](fmt::Display) is one line.
    ///
    /// ```
    /// let (a, b) = (tempfile::tempfile()?, tempfile::tempfile()?);
    /// std::io::Write::write_all(&mut (&a), b"abc")?;
    /// std::io::Seek::rewind(&mut (&a))?;
    /// let report = gush::copy(&a, &b)?;
    /// assert!(report.explain().to_string().contains("picked"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn explain(&self) -> impl fmt::Display + '_ {
        Explanation(self)
    }
}

/// One line: the bytes, the method that moved most of them, and the time.
///
/// ```
/// let (source, target) = (std::fs::File::open("/dev/zero")?, tempfile::tempfile()?);
/// let report = gush::Mover::new(&source, &target).length_bytes(4096).run()?;
/// let line = report.to_string();
/// assert!(line.starts_with("moved 4096 bytes by ") && line.ends_with(" s"), "{line}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "moved {} bytes", self.bytes)?;
        if self.hole_bytes > 0 {
            write!(f, " ({} of them holes)", self.hole_bytes)?;
        }
        if let Some(method) = self.main_method() {
            write!(f, " by {method}")?;
        }
        write!(f, " in {:.6} s", self.elapsed.as_secs_f64())
    }
}

struct Explanation<'a>(&'a Report);

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0;
        for refusal in &report.refusals {
            writeln!(f, "{}", refusal.line())?;
        }
        for used in &report.methods {
            let steps = if used.steps == 1 { "step" } else { "steps" };
            write!(f, "picked {}: {} bytes in {} {steps}", used.name, used.bytes, used.steps)?;
            if used.threads > 1 {
                write!(f, " on {} threads", used.threads)?;
            }
            f.write_str("; calls:")?;
            for (call, count) in used.calls.iter() {
                write!(f, " {call}={count}")?;
            }
            writeln!(f)?;
        }
        if report.methods.iter().any(|used| used.name == MethodName::Vmsplice)
            && Kernel::get().vmsplice() == Vmsplice::Copies
        {
            writeln!(f, "vmsplice copies on this kernel: no gain over read-write")?;
        }
        let by = |used: &MethodUse| (used.name, used.bytes);
        if let Some(line) = file_splice_line(report.leaves_file, report.methods.iter().map(by)) {
            writeln!(f, "{line}")?;
        }
        if report.hole_bytes > 0 {
            writeln!(f, "holes kept: {} bytes", report.hole_bytes)?;
        }
        let moved_bytes = report.bytes.saturating_sub(report.hole_bytes);
        write!(f, "moved {moved_bytes} bytes in {:.6} s", report.elapsed.as_secs_f64())
    }
}

/// Can pages of a file wait for a reader between these two? A file copies, a device is done at
/// once.
pub(crate) fn leaves_file(source: Kind, target: Kind) -> bool {
    matches!(source, Kind::File | Kind::Block)
        && matches!(target, Kind::Pipe | Kind::Stream | Kind::Datagram)
}

/// What became of the pages of a spliced file; nothing where none were.
pub(crate) fn file_splice_line(
    leaves_file: bool,
    mut methods: impl Iterator<Item = (MethodName, u64)>,
) -> Option<&'static str> {
    let splices = |name| matches!(name, MethodName::Splice | MethodName::Sendfile);
    if !leaves_file || !methods.any(|(name, bytes)| bytes > 0 && splices(name)) {
        return None;
    }
    match Kernel::get().file_splice() {
        FileSplice::Shares => Some(
            "the file's pages are shared: a later write to the file can show in bytes that are not read yet",
        ),
        FileSplice::Copies => {
            Some("a splice from a file copies on this kernel: one copy less than read-write")
        }
        FileSplice::Absent(_) => None,
    }
}
