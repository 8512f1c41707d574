//! The one error of this floor: which operation failed, on which path, after how many bytes.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use gush::Side;
use rustix::io::Errno;

use gush_text::{os_text, quote};

use crate::remote::Failure;

/// Why one file was not copied, or not wholly.
///
/// Displays as GNU cp does, `cannot stat 'PATH': OS error`. The number of bytes delivered and a
/// hint for the user, where there are any, follow in brackets. The OS error is also the
/// [`source`](std::error::Error::source).
///
/// ```
/// use std::path::Path;
/// use gush_tree::{Copier, CopyOptions, Place};
///
/// let options = CopyOptions::default();
/// let missing = Place::here(Path::new("/missing/file"));
/// let target = Place::here(Path::new("/missing/copy"));
/// let error = Copier::new(&options).copy(missing, target, &mut ()).unwrap_err();
/// assert_eq!(error.to_string(), "cannot stat '/missing/file': No such file or directory");
/// assert_eq!(error.path(), Path::new("/missing/file"));
/// ```
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug, Default)]
struct Inner {
    path: PathBuf,
    /// The target, where the error concerns `path` and the target together.
    onto: Option<PathBuf>,
    /// The path replaces `{}`, or comes first in a text without it.
    what: Cow<'static, str>,
    names_its_paths: bool,
    /// The whole message, and the path, the text and the hint are parts of it.
    message: Option<String>,
    /// A call of the engine failed on this side, which GNU words as an error of reading or writing.
    failed_side: Option<Side>,
    declined: bool,
    untouched: bool,
    unstable: bool,
    delivered_bytes: Option<u64>,
    /// A call failed that moves bytes, so that their number is shown even if it is 0.
    counts_bytes: bool,
    lost_bytes: u64,
    /// What is at the target now; the hint begins with it.
    outcome: Option<&'static str>,
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

    /// A failure of the other side of a copy to another machine, in its own sentence.
    #[must_use]
    pub fn reported(path: &Path, failure: impl Into<Failure>) -> Self {
        let Failure { text, what, errno, delivered_bytes, hint } = failure.into();
        let what = if what.is_empty() { text.clone() } else { what };
        let mut error = Self::about_both(path, what);
        error.0.message = Some(text);
        error.0.os = errno.map(io::Error::from_raw_os_error);
        (error.0.delivered_bytes, error.0.hint) = (delivered_bytes, hint.map(Into::into));
        error
    }

    /// The user said no.
    pub(crate) fn declined(path: &Path) -> Self {
        let mut error = Self::new(path, "not replacing {}: declined".into(), None);
        error.0.declined = true;
        error
    }

    /// The source changed, which is a failure here
    /// ([`CopyOptions::stable`](crate::CopyOptions::stable)).
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
        ours.0.failed_side = error.side().filter(|_| ours.0.os.is_some() && !error.is_refused());
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

    /// The same error in a sentence that names its paths.
    pub(crate) fn saying(mut self, text: String) -> Self {
        self.0.what = text.into();
        self.0.names_its_paths = true;
        self
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

    /// Adds to an error that stopped the data what is at the target now, in the place of what was
    /// said of it before.
    pub(crate) fn leaving(mut self, outcome: &'static str) -> Self {
        if self.0.delivered_bytes.is_some() {
            let before = self.0.outcome.replace(outcome).unwrap_or_default();
            let hint = self.0.hint.take().unwrap_or_default();
            let remedy = hint.strip_prefix(before).unwrap_or(&hint).trim_start_matches("; ");
            self.0.hint = Some(match remedy {
                "" => outcome.into(),
                remedy => format!("{outcome}; {remedy}").into(),
            });
        }
        self
    }

    /// The path of the failed operation, as the user wrote it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The operation that failed, without path and OS error.
    #[must_use]
    pub fn what(&self) -> String {
        let parts = &*self.0;
        match parts.what.split_once("{}") {
            Some((before, after)) if !parts.names_its_paths => {
                let before = before.trim_end();
                let before =
                    before.strip_suffix(" of").or(before.strip_suffix(" for")).unwrap_or(before);
                format!("{before}{after}").trim_start().to_owned()
            }
            _ => parts.what.clone().into_owned(),
        }
    }

    /// [`Error::what`] with `{}` where the path belongs.
    pub(crate) fn pattern(&self) -> &str {
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
        let name = quote::always(&parts.path);
        let mut notes = Vec::new();
        if let Some(message) = &parts.message {
            return f.write_str(message);
        }
        match (parts.failed_side, parts.what.split_once("{}")) {
            _ if parts.names_its_paths => f.write_str(&parts.what)?,
            (Some(side), _) => {
                let doing = if side == Side::Source { "reading" } else { "writing" };
                write!(f, "error {doing} {name}")?;
                notes.push(parts.progress());
            }
            (None, Some((before, after))) => write!(f, "{before}{name}{after}")?,
            (None, None) => {
                write!(f, "{}", quote::if_needed(&parts.path))?;
                if let Some(target) = &parts.onto {
                    write!(f, " -> {}", quote::if_needed(target))?;
                }
                write!(f, ": {}", parts.progress())?;
            }
        }
        if let Some(os) = &parts.os {
            write!(f, ": {}", os_text(os))?;
        }
        notes.extend(parts.hint.as_deref().map(str::to_owned));
        match notes.is_empty() {
            true => Ok(()),
            false => write!(f, " ({})", notes.join("; ")),
        }
    }
}

impl Inner {
    /// What failed, and how far it got.
    fn progress(&self) -> String {
        let mut text = self.what.clone().into_owned();
        match self.delivered_bytes {
            Some(bytes) if bytes > 0 || self.lost_bytes > 0 || self.counts_bytes => {
                text += &format!(" after {bytes} bytes");
            }
            _ => {}
        }
        if self.lost_bytes > 0 {
            text += &format!("; {} more were read but not delivered", self.lost_bytes);
        }
        text
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
    fn a_message_has_the_words_and_the_order_of_gnu_cp() {
        let error = Error::os(Path::new("a {}"), "cannot open {} for reading", Errno::ACCESS);
        let said = "cannot open 'a {}' for reading: Permission denied";
        assert_eq!(error.to_string(), said);
        assert_eq!(error.what(), "cannot open for reading");
        assert_eq!(error.hinting("ask its owner").to_string(), format!("{said} (ask its owner)"));
        let refusal = Error::refusal(Path::new("a b"), "{} has unknown file type");
        assert_eq!(refusal.to_string(), "'a b' has unknown file type");
        assert_eq!(refusal.what(), "has unknown file type");
        let refusal =
            Error::refusal(Path::new("a"), "verification of {} failed: it became shorter");
        assert_eq!(refusal.what(), "verification failed: it became shorter");
        let denied = Error::os(Path::new("a"), "preserving times for {}", Errno::PERM);
        assert_eq!(denied.what(), "preserving times");
    }

    #[test]
    fn a_failed_write_is_gnus_sentence_and_then_how_far_it_got() {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let source = std::fs::File::open("/proc/version").unwrap();
        let error = gush::copy(&source, &full).unwrap_err();
        let said = Error::engine(Path::new("full"), &error).to_string();
        let start = "error writing 'full': No space left on device \
                     (write failed on the target after 0 bytes; ";
        assert!(said.starts_with(start), "{said}");
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
