//! An entry of a copy as the user sees it, whichever side the user is at.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gush_tree::remote::Failure;
use gush_tree::{Action, Done, Events, TreeCounts};
use rustix::fs::FileType;

use crate::record::Outcome;

pub(crate) struct Entry {
    pub source: PathBuf,
    pub target: PathBuf,
    pub action: Action,
    /// The size of a regular file.
    pub bytes: Option<u64>,
    /// That of both sides.
    pub digest: Option<gush::Digest>,
    /// The bytes that were shown as progress before.
    pub counted_bytes: u64,
}

/// How an entry that is no directory is copied, and the size of a regular file.
pub(crate) fn copied(kind: FileType, size_bytes: u64) -> (Action, Option<u64>) {
    match kind {
        FileType::RegularFile => (Action::Copied, Some(size_bytes)),
        FileType::Symlink => (Action::SymbolicLinked, None),
        _ => (Action::Recreated, None),
    }
}

/// The interval of events about one range of data.
const COUNTED_EVERY: Duration = Duration::from_millis(50);

/// Which bytes of a range of data were not shown yet.
pub(crate) struct Pace {
    shown_bytes: u64,
    last: Instant,
}

impl Pace {
    pub fn new() -> Self {
        Self { shown_bytes: 0, last: Instant::now() }
    }

    /// The bytes to be shown now that so many have moved in all.
    pub fn due(&mut self, bytes: u64) -> Option<u64> {
        let is_due = self.last.elapsed() >= COUNTED_EVERY;
        is_due.then(|| {
            self.last = Instant::now();
            self.rest(bytes)
        })
    }

    pub fn rest(&mut self, bytes: u64) -> u64 {
        bytes.saturating_sub(std::mem::replace(&mut self.shown_bytes, bytes))
    }
}

/// Shows that bytes of a file have moved.
pub(crate) fn count(bytes: u64, source: &Path, events: &mut dyn Events) {
    let mut counts = TreeCounts::default();
    counts.bytes = bytes;
    events.counted(&counts, source);
}

impl Entry {
    /// The entry is as it should be.
    pub fn ends(self, outcome: Outcome, verifies: bool, events: &mut dyn Events) {
        let is_kept = matches!(outcome, Outcome::Kept | Outcome::Updated { .. });
        let mut done = match outcome {
            Outcome::Updated { .. } => Done::sent(Action::Attributes, None),
            Outcome::Kept if self.action != Action::Directory => Done::sent(Action::Skipped, None),
            _ => Done::sent(self.action, self.bytes),
        };
        done.complete = outcome.is_complete();
        done.verified = verifies && done.action == Action::Copied;
        done.digest = self.digest;
        done.unmoved_bytes = self.bytes.filter(|_| is_kept);
        if events.wants_entries() && !is_kept {
            events.starts(&self.source, &self.target, None);
        }
        if events.wants_counts() {
            let mut counts = TreeCounts::default();
            match self.bytes {
                Some(bytes) if is_kept => (counts.unmoved_files, counts.unmoved_bytes) = (1, bytes),
                Some(bytes) => {
                    (counts.files, counts.bytes) = (1, bytes.saturating_sub(self.counted_bytes));
                }
                None => {}
            }
            events.counted(&counts, &self.source);
        }
        events.entry_ended(&self.source, &self.target, &Ok(done));
    }

    /// The entry could not be made, for this reason.
    pub fn fails(self, why: Failure, events: &mut dyn Events) {
        let error = gush_tree::Error::reported(&self.target, why);
        events.entry_ended(&self.source, &self.target, &Err(error));
    }
}
