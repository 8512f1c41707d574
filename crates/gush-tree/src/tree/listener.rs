//! The listener of a copy, shared by the threads of a tree.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::events::{Events, Question};
use crate::{Done, Error};

/// Hands each event on while no other thread does.
pub(crate) struct Listener<'e> {
    events: Mutex<&'e mut dyn Events>,
    wants_entries: bool,
    wants_progress: bool,
}

impl<'e> Listener<'e> {
    pub(crate) fn new(events: &'e mut dyn Events) -> Self {
        let (wants_entries, wants_progress) = (events.wants_entries(), events.wants_progress());
        Self { events: Mutex::new(events), wants_entries, wants_progress }
    }

    fn lock(&self) -> MutexGuard<'_, &'e mut dyn Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.lock().warns(warning);
    }

    fn may_replace(&mut self, question: &Question<'_>) -> bool {
        self.lock().may_replace(question)
    }

    fn wants_progress(&self) -> bool {
        self.wants_progress
    }

    fn progress(&mut self, progress: &gush::Progress) -> gush::Control {
        self.lock().progress(progress)
    }
}
