//! Bounds on what is kept of the entries that have come and not ended.

use gush_tree::remote::EntryMetadata;

use crate::error::{Error, ensure};
use crate::record::WINDOW;

/// What is kept of all entries that have come and not ended, and the names of open directories of a
/// mirror.
const MOST_WAITING_BYTES: usize = if cfg!(test) { 1 << 20 } else { 512 << 20 };
/// The paths of directories that have ended, and that names of their entries keep.
const MOST_KEPT_PATH_BYTES: usize = if cfg!(test) { 1 << 16 } else { 2 << 30 };

/// The overhead of a vector, on the heap and as a value.
pub(super) const HEAP_BYTES: usize = 48;

#[derive(Default)]
pub(super) struct Bounds {
    /// An estimate of the memory of folders, files and links that wait, and of a mirror's names.
    waiting_bytes: usize,
    kept_path_bytes: usize,
    /// Entries without an answer.
    unanswered: usize,
}

impl Bounds {
    /// Memory is taken until it is [released](Self::release).
    pub fn take(&mut self, bytes: usize) -> Result<(), Error> {
        self.waiting_bytes += bytes;
        ensure(self.waiting_bytes <= MOST_WAITING_BYTES, "too much is under way at once")
    }

    pub fn release(&mut self, bytes: usize) {
        self.waiting_bytes -= bytes;
    }

    /// A directory is kept to the end of the copy.
    pub fn keep_path(&mut self, bytes: usize) -> Result<(), Error> {
        self.kept_path_bytes += bytes;
        let is_bounded = self.kept_path_bytes <= MOST_KEPT_PATH_BYTES;
        ensure(is_bounded, "too many directories have entries with several names")
    }

    /// An entry has come, while so many directories are open: the sender does not count these, and
    /// has entered some that this side has not seen yet.
    pub fn arrives(&mut self, open: usize) -> Result<(), Error> {
        self.unanswered += 1;
        ensure(self.unanswered <= 2 * WINDOW + open, "too many entries are without an answer")
    }

    pub fn answered(&mut self) {
        self.unanswered -= 1;
    }
}

/// An estimate of metadata's memory.
pub(super) fn weight(metadata: &EntryMetadata) -> usize {
    let EntryMetadata { attributes, link_text, user_name, group_name, .. } = metadata;
    let attributes: usize =
        attributes.iter().map(|(name, value)| name.len() + value.len() + 2 * HEAP_BYTES).sum();
    let texts = link_text.len() + user_name.len() + group_name.len();
    attributes + texts + size_of::<EntryMetadata>() + 256
}
