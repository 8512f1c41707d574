//! The one error of this floor: which operation failed, on which path, after how many bytes.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use rustix::io::Errno;

use gush_text::{os_text, quote};

/// Why one file was not copied, or not wholly.
///
/// Displays as `PATH: operation: OS error`, with the number of bytes delivered and a hint for the
/// user where there are any. The OS error is also the [`source`](std::error::Error::source).
///
/// ```
/// use std::path::Path;
/// use gush_tree::{Copier, Options, Place};
///
/// let options = Options::default();
/// let missing = Place::here(Path::new("/missing/file"));
/// let target = Place::here(Path::new("/missing/copy"));
/// let error = Copier::new(&options).copy(missing, target, &mut ()).unwrap_err();
/// assert_eq!(error.to_string(), "/missing/file: cannot stat: No such file or directory");
/// assert_eq!(error.path(), Path::new("/missing/file"));
/// ```
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug, Default)]
struct Inner {
    path: PathBuf,
    /// The target, where the error concerns `path` and the target together.
    onto: Option<PathBuf>,
    what: Cow<'static, str>,
    names_its_paths: bool,
    declined: bool,
    untouched: bool,
    unstable: bool,
    delivered_bytes: Option<u64>,
    /// A call failed that moves bytes, so that their number is shown even if it is 0.
    counts_bytes: bool,
    lost_bytes: u64,
    hint: Option<Cow<'static, str>>,
    os: Option<io::Error>,
}

impl Error {
    fn new(path: &Path, what: Cow<'static, str>, os: Option<io::Error>) -> Self {
        Self(Box::new(Inner { path: path.to_path_buf(), what, os, ..Inner::default() }))
    }

    /// A system call on `path` failed.
    pub(crate) fn os(path: &Path, what: impl Into<Cow<'static, str>>, errno: Errno) -> Self {
        let mut error = Self::new(path, what.into(), Some(errno.into()));
        error.0.hint = gush_text::remedy(gush_text::Doing::Other, errno).map(Into::into);
        error
    }

    /// A call of the standard library on `path` failed.
    pub(crate) fn io(path: &Path, what: impl Into<Cow<'static, str>>, error: io::Error) -> Self {
        let errno = Errno::from_io_error(&error);
        let mut ours = Self::new(path, what.into(), Some(error));
        ours.0.hint = errno
            .and_then(|errno| gush_text::remedy(gush_text::Doing::Other, errno))
            .map(Into::into);
        ours
    }

    /// No call failed, but going on would be wrong.
    pub(crate) fn refusal(path: &Path, what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(path, what.into(), None)
    }

    /// A refusal whose text names both paths, such as "'a' and 'b' are the same file".
    pub(crate) fn about_both(path: &Path, text: String) -> Self {
        let mut error = Self::new(path, text.into(), None);
        error.0.names_its_paths = true;
        error
    }

    /// The user said no.
    pub(crate) fn declined(path: &Path) -> Self {
        let mut error = Self::new(path, "not replaced: declined".into(), None);
        error.0.declined = true;
        error
    }

    /// The source changed, which is a failure here ([`Options::stable`](crate::Options::stable)).
    pub(crate) fn unstable(path: &Path, change: String) -> Self {
        let mut error = Self::new(path, change.into(), None);
        error.0.unstable = true;
        error
    }

    /// The engine gave up in the middle.
    pub(crate) fn engine(path: &Path, error: &gush::Error) -> Self {
        let os = error.errno().map(io::Error::from);
        let mut ours = Self::new(path, error.what().to_string().into(), os);
        ours.0.delivered_bytes = Some(error.delivered_bytes());
        ours.0.lost_bytes = error.in_flight_bytes();
        let refused = error.is_refused() || error.call() == Some(gush::Call::Fallocate);
        ours.0.untouched = refused && error.delivered_bytes() == 0 && !error.lost_old_content();
        if error.lost_old_content() && error.delivered_bytes() == 0 {
            ours.0.what = format!("{}; the old content is gone", ours.0.what).into();
        } else {
            ours.0.counts_bytes = ours.0.os.is_some() && !refused;
        }
        ours.0.hint = error.hint().map(Into::into);
        ours
    }

    /// The error concerns the path and `target` together: a method refused between the two, for
    /// instance.
    pub(crate) fn onto(mut self, target: &Path) -> Self {
        self.0.onto = Some(target.to_path_buf());
        self
    }

    pub(crate) fn hinting(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    fn errno(&self) -> Option<Errno> {
        self.0.os.as_ref().and_then(Errno::from_io_error)
    }

    /// Was the method, or the requested space, refused before the first byte?
    pub(crate) fn is_untouched(&self) -> bool {
        self.0.untouched
    }

    /// Was the name taken already?
    pub(crate) fn is_about_existing(&self) -> bool {
        self.errno() == Some(Errno::EXIST)
    }

    /// Had the process, or the whole system, no descriptor left?
    pub(crate) fn is_out_of_descriptors(&self) -> bool {
        matches!(self.errno(), Some(Errno::MFILE | Errno::NFILE))
    }

    /// Are the two names on two file systems, or below two mounts?
    pub(crate) fn is_across_devices(&self) -> bool {
        self.errno() == Some(Errno::XDEV)
    }

    /// The answer of a file system that lacks what was asked for, whatever the file.
    pub(crate) fn unsupported(&self) -> Option<Errno> {
        self.errno().filter(|errno| matches!(*errno, Errno::OPNOTSUPP | Errno::NOSYS))
    }

    /// Did the source change?
    pub(crate) fn is_unstable(&self) -> bool {
        self.0.unstable
    }

    /// Adds the state of the target, and a hint for the user.
    pub(crate) fn adding(mut self, outcome: &str, hint: &'static str) -> Self {
        self.0.what = format!("{}; {outcome}", self.0.what).into();
        self.hinting(hint)
    }

    /// The path of the failed operation, as the user wrote it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The operation that failed, without path and OS error.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.0.what
    }

    /// Did the user refuse to replace the target? Such an error needs no message.
    #[must_use]
    pub fn is_declined(&self) -> bool {
        self.0.declined
    }

    /// The number of bytes delivered to the target, if data had begun to move.
    #[must_use]
    pub fn delivered_bytes(&self) -> Option<u64> {
        self.0.delivered_bytes
    }

    /// The OS error, if a system call failed.
    #[must_use]
    pub fn io_error(&self) -> Option<&io::Error> {
        self.0.os.as_ref()
    }

    /// A hint for the user, if there is any.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = &*self.0;
        if !parts.names_its_paths {
            write!(f, "{}", quote::if_needed(&parts.path))?;
            if let Some(target) = &parts.onto {
                write!(f, " -> {}", quote::if_needed(target))?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&parts.what)?;
        match parts.delivered_bytes {
            Some(bytes) if bytes > 0 || parts.lost_bytes > 0 || parts.counts_bytes => {
                write!(f, " after {bytes} bytes")?;
            }
            _ => {}
        }
        if parts.lost_bytes > 0 {
            write!(f, " ({} more were read and not delivered)", parts.lost_bytes)?;
        }
        if let Some(os) = &parts.os {
            write!(f, ": {}", os_text(os))?;
        }
        if let Some(hint) = &parts.hint {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.os.as_ref().map(|os| os as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_is_path_then_what_then_the_os_error() {
        let error = Error::os(Path::new("a b"), "cannot stat", Errno::ACCESS);
        assert_eq!(error.to_string(), "'a b': cannot stat: Permission denied");
        let error = error.hinting("ask its owner");
        assert_eq!(error.to_string(), "'a b': cannot stat: Permission denied (ask its owner)");
    }

    #[test]
    fn a_refusal_of_two_paths_names_each_once() {
        let error = Error::about_both(Path::new("a"), "'a' and 'b' are the same file".into());
        assert_eq!(error.to_string(), "'a' and 'b' are the same file");
    }

    #[test]
    fn the_engines_bytes_are_printed_once() {
        let (zeros, null) = (
            std::fs::File::open("/dev/zero").unwrap(),
            std::fs::File::create("/dev/null").unwrap(),
        );
        let mut stop = |_: &gush::Progress| gush::Control::Stop;
        let mover = gush::Mover::new(&zeros, &null).length_bytes(7);
        let error = mover.observe(&mut stop).run().unwrap_err();
        let error = Error::engine(Path::new("a"), &error);
        assert_eq!(error.what(), "stopped by the observer");
        assert_eq!(error.to_string(), "a: stopped by the observer after 7 bytes");
    }
}
