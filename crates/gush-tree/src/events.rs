//! The events and questions of a copy under way.

use std::path::Path;

use rustix::fs::Stat;

use crate::{Done, Error, Share};

/// The listener of a copy. Every method has a default, and `()` ignores all events.
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
    /// The target is about to be made; `backup` is the new name of the existing target.
    fn starts(&mut self, _source: &Path, _target: &Path, _backup: Option<&Path>) {}

    /// The source is a directory, and all that is in it comes next.
    fn enters_tree(&mut self, _source: &Path, _target: &Path) {}

    /// An entry of a tree was copied, or failed, or is a directory now complete. The tree's root is
    /// none of its entries.
    fn entry_ended(&mut self, _source: &Path, _target: &Path, _result: &Result<Done, Error>) {}

    /// Does anyone look at [`starts`](Self::starts), and at entries that end well? Asked once a
    /// tree; failed entries are always reported.
    fn wants_entries(&self) -> bool {
        true
    }

    /// Does anyone look at [`counted`](Self::counted)? Asked once a tree.
    fn wants_counts(&self) -> bool {
        false
    }

    /// There are so many files and bytes to copy in all.
    fn expects(&mut self, _files: u64, _bytes: u64) {}

    /// What one thread has done of a tree since its last report; called on this thread. `source` is
    /// the entry that it is at. Threads report some twenty times a second, before and after a large
    /// file, and when idle: with an event a file they would wait for each other.
    fn counted(&mut self, _counts: &TreeCounts, _source: &Path) {}

    /// A directory of `--parents` was made after one of the source.
    fn made_directory(&mut self, _source: &Path, _target: &Path) {}

    /// A copy failed and the backup has its old name again.
    fn backup_undone(&mut self, _backup: &Path, _target: &Path) {}

    /// An existing target was removed to make room.
    fn removed(&mut self, _target: &Path) {}

    /// The source of a tree lacks this entry of the target, or has it as another kind
    /// ([`mirror`](crate::CopyOptions::mirror)): it was removed with all that was in it, or could
    /// not be. Of a directory that stays, each entry that was removed or could not be is reported.
    fn mirrored(&mut self, _target: &Path, _result: &Result<(), Error>) {}

    /// Rank 0 has waited for a while for these ranks to end their shares.
    fn waits_for_ranks(&mut self, _ranks: &[u32]) {}

    /// All ranks are done. Only rank 0 is notified.
    fn ranks_ended(&mut self, _shares: &[Share]) {}

    /// An optional step failed: the user gets a message, and the copy goes on.
    fn warns(&mut self, _warning: &Error) {}

    /// May this existing target be replaced? Asked only with [`ask`](crate::CopyOptions::ask).
    fn may_replace(&mut self, _question: &Question<'_>) -> bool {
        false
    }

    /// Does anyone look at [`progress`](Self::progress)? Asked once a file.
    fn wants_progress(&self) -> bool {
        false
    }

    /// Bytes are moving. Of an entry of a tree whose bytes are all there,
    /// [`counted`](Self::counted) is called instead, where anyone [looks at
    /// counts](Self::wants_counts).
    fn progress(&mut self, _progress: &gush::Progress) -> gush::Control {
        gush::Control::Continue
    }
}

impl Events for () {}

/// Entries of a tree that ended well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeCounts {
    /// The files of which bytes were moved, or that have none.
    pub files: u64,
    /// The bytes moved.
    pub bytes: u64,
    /// The regular files that were done without a byte moved ([`Done::unmoved_bytes`]).
    pub unmoved_files: u64,
    /// The sizes of these.
    pub unmoved_bytes: u64,
}

impl TreeCounts {
    pub(crate) fn add(&mut self, done: &Done) {
        if let Some(report) = &done.report {
            self.files += 1;
            self.bytes += report.bytes;
        }
        if let Some(bytes) = done.unmoved_bytes {
            self.unmoved_files += 1;
            self.unmoved_bytes += bytes;
        }
    }
}

/// The question whether an existing target may be replaced.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The target.
    pub target: &'a Path,
    /// The target's permission bits.
    pub mode_bits: u32,
    /// May this process write to the target?
    pub writable: bool,
    /// Would a target that cannot be opened be removed?
    pub replaces: bool,
}

impl<'a> Question<'a> {
    pub(crate) fn new(target: &'a Path, stat: &Stat, writable: bool, replaces: bool) -> Self {
        Self { target, mode_bits: stat.st_mode & 0o7777, writable, replaces }
    }
}
