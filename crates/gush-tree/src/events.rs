//! What a copy tells while it goes on, and asks.

use std::path::Path;

use rustix::fs::Stat;

use crate::Error;

/// The listener of a copy; every method has a default, and `()` listens to nothing.
///
/// ```
/// struct Loud;
/// impl gush_tree::Events for Loud {
///     fn starts(&mut self, source: &std::path::Path, target: &std::path::Path, _: Option<&std::path::Path>) {
///         println!("{} -> {}", source.display(), target.display());
///     }
/// }
/// ```
pub trait Events: Send {
    /// The target is about to be made; `backup` is what the existing one was renamed to.
    fn starts(&mut self, _source: &Path, _target: &Path, _backup: Option<&Path>) {}

    /// A directory of `--parents` was made after one of the source.
    fn made_directory(&mut self, _source: &Path, _target: &Path) {}

    /// A copy failed and the backup has its old name again.
    fn backup_undone(&mut self, _backup: &Path, _target: &Path) {}

    /// An existing target was removed to make room.
    fn removed(&mut self, _target: &Path) {}

    /// Something did not work that is worth a message; the copy goes on.
    fn warns(&mut self, _warning: &Error) {}

    /// May this existing target be replaced? Asked only with [`ask`](crate::Options::ask).
    fn may_replace(&mut self, _question: &Question<'_>) -> bool {
        false
    }

    /// Does anyone look at [`progress`](Self::progress)? Asked once a file.
    fn wants_progress(&self) -> bool {
        false
    }

    /// Bytes are moving.
    fn progress(&mut self, _progress: &gush::Progress) -> gush::Control {
        gush::Control::Continue
    }
}

impl Events for () {}

/// An existing target that may or may not be replaced.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The target.
    pub target: &'a Path,
    /// Its permission bits.
    pub mode_bits: u32,
    /// May this process write to it?
    pub writable: bool,
    /// Would it be removed if it cannot be opened?
    pub replaces: bool,
}

impl<'a> Question<'a> {
    pub(crate) fn new(target: &'a Path, stat: &Stat, writable: bool, replaces: bool) -> Self {
        Self { target, mode_bits: stat.st_mode & 0o7777, writable, replaces }
    }
}
