//! The listener of a copy, shared by the threads of a tree.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use gush::Unpoisoned;
use rustix::io::Errno;

use crate::events::{Events, Question, TreeCounts};
use crate::{Done, Error};

/// Hands each event on while no other thread does.
pub(crate) struct Listener<'e> {
    events: Apart<Mutex<&'e mut dyn Events>>,
    wants_entries: bool,
    wants_counts: bool,
    wants_progress: bool,
    unsupported: Mutex<BTreeMap<String, Unsupported>>,
}

/// In a separate cache line: all threads read the fields next to it for each file, and a lock taken
/// in the same line would make them fetch it anew.
#[repr(align(64))]
struct Apart<T>(T);

/// Something that the target's file system does not have at all, such as extended attributes.
struct Unsupported {
    errno: Errno,
    repeated: u64,
}

impl<'e> Listener<'e> {
    pub(crate) fn new(events: &'e mut dyn Events) -> Self {
        Self {
            wants_entries: events.wants_entries(),
            wants_counts: events.wants_counts(),
            wants_progress: events.wants_progress(),
            unsupported: Mutex::default(),
            events: Apart(Mutex::new(events)),
        }
    }

    /// Counts a warning about a lack; `false` for the first one of its kind, and for other
    /// warnings.
    fn is_repeated(&self, warning: &Error) -> bool {
        let Some(errno) = warning.unsupported() else { return false };
        let mut unsupported = self.unsupported.lock().unpoisoned();
        if let Some(lack) = unsupported.get_mut(warning.pattern()) {
            lack.repeated += 1;
            return true;
        }
        unsupported.insert(warning.pattern().to_owned(), Unsupported { errno, repeated: 0 });
        false
    }

    /// Reports how often each repeated warning was left out below `target`: a line a file would
    /// bury all others.
    pub(crate) fn ends(&self, target: &Path) {
        let mut unsupported = self.unsupported.lock().unpoisoned();
        for (what, Unsupported { errno, repeated }) in std::mem::take(&mut *unsupported) {
            if repeated > 0 {
                let more = if repeated == 1 { "entry" } else { "entries" };
                let text = what.replacen("{}", &format!("{repeated} more {more} below {{}}"), 1);
                self.lock().warns(&Error::os(target, text, errno));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, &'e mut dyn Events> {
        self.events.0.lock().unpoisoned()
    }

    pub(crate) fn wants_entries(&self) -> bool {
        self.wants_entries
    }

    pub(crate) fn wants_counts(&self) -> bool {
        self.wants_counts
    }

    pub(crate) fn counted(&self, counts: &TreeCounts, source: &Path) {
        self.lock().counted(counts, source);
    }

    pub(crate) fn entry_ended(&self, source: &Path, target: &Path, result: &Result<Done, Error>) {
        if self.wants_entries || result.is_err() {
            self.lock().entry_ended(source, target, result);
        }
    }
}

impl Events for &Listener<'_> {
    fn starts(&mut self, source: &Path, target: &Path, backup: Option<&Path>) {
        if self.wants_entries {
            self.lock().starts(source, target, backup);
        }
    }

    fn backup_undone(&mut self, backup: &Path, target: &Path) {
        self.lock().backup_undone(backup, target);
    }

    fn removed(&mut self, target: &Path) {
        self.lock().removed(target);
    }

    fn mirrored(&mut self, target: &Path, result: &Result<(), Error>) {
        self.lock().mirrored(target, result);
    }

    fn warns(&mut self, warning: &Error) {
        if !self.is_repeated(warning) {
            self.lock().warns(warning);
        }
    }

    fn may_replace(&mut self, question: &Question<'_>) -> bool {
        self.lock().may_replace(question)
    }

    fn wants_progress(&self) -> bool {
        self.wants_progress
    }

    fn progress(&mut self, progress: &gush::Progress) -> gush::Control {
        // The thread counts the entry next. Threads that take the lock for each small file wait for
        // each other.
        if self.wants_counts && progress.expected_bytes == Some(progress.bytes) {
            return gush::Control::Continue;
        }
        self.lock().progress(progress)
    }
}
