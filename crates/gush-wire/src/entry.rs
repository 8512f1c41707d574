//! An entry of a copy as the user sees it, whichever side the user is at.

use std::path::PathBuf;

use gush_tree::{Action, Done, Events, TreeCounts};

use crate::record::Outcome;

pub(crate) struct Entry {
    pub source: PathBuf,
    pub target: PathBuf,
    pub action: Action,
    /// The size of a regular file.
    pub bytes: Option<u64>,
    /// That of both sides.
    pub digest: Option<gush::Digest>,
}

impl Entry {
    /// The entry is as it should be.
    pub fn ends(self, outcome: Outcome, verifies: bool, events: &mut dyn Events) {
        let is_kept = outcome == Outcome::Kept;
        let mut done = match is_kept {
            true if self.action != Action::Directory => Done::sent(Action::Skipped, None),
            _ => Done::sent(self.action, self.bytes),
        };
        done.complete = outcome != Outcome::Incomplete;
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
                Some(bytes) => (counts.files, counts.bytes) = (1, bytes),
                None => {}
            }
            events.counted(&counts, &self.source);
        }
        events.entry_ended(&self.source, &self.target, &Ok(done));
    }

    /// The entry could not be made, for this reason.
    pub fn fails(self, why: String, events: &mut dyn Events) {
        let error = gush_tree::Error::reported(&self.target, why);
        events.entry_ended(&self.source, &self.target, &Err(error));
    }
}
