//! How entries end: each is answered, and counted in its directory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gush_tree::remote::{Failure, Folder};
use gush_tree::{Action, Events};

use super::links::First;
use super::session::{Session, out_of_place};
use crate::entry::{self, Entry};
use crate::error::Error;
use crate::frame::Output;
use crate::record::{BASE, Item, Outcome, ToSender};

/// How an entry has ended.
pub(super) enum Ending {
    Made {
        is_complete: bool,
    },
    /// What was there counts as its copy.
    Kept,
    /// What was there counts as its copy, and got its attributes.
    Updated {
        is_complete: bool,
    },
    /// What was there stays, and is no copy of it.
    Skipped,
}

/// An entry that has come, as it is answered.
#[derive(Clone, Copy)]
pub(super) struct Arrival<'n> {
    pub id: u64,
    /// The number of its directory.
    pub folder: u64,
    pub name: &'n OsStr,
    pub action: Action,
    /// The size of a regular file.
    pub bytes: Option<u64>,
    pub has_names: bool,
    /// The hash that was found on both sides.
    pub digest: Option<gush::Digest>,
    /// The bytes that were shown as progress before.
    pub counted_bytes: u64,
}

impl<'n> Arrival<'n> {
    /// Of an entry that is made under this name.
    pub fn of(item: &Item, name: &'n OsStr) -> Self {
        let (action, bytes) = entry::copied(item.metadata.kind(), item.metadata.size_bytes);
        let has_names = item.has_names;
        Self { bytes, has_names, ..Self::without_data(item.id, item.folder, name, action) }
    }

    pub fn without_data(id: u64, folder: u64, name: &'n OsStr, action: Action) -> Self {
        let (bytes, has_names, digest) = (None, false, None);
        Self { id, folder, name, action, bytes, has_names, digest, counted_bytes: 0 }
    }
}

/// Answers are written in batches of this size: a few hundred of the 4,096 that may be awaited.
const MOST_COLLECTED_BYTES: usize = 8 << 10;
/// An answer is written at once if none was written for this time: the next one may take long, as
/// the removal of a directory from a mirror does.
const WRITTEN_EVERY: Duration = Duration::from_millis(100);

/// The way back to the sender. A failure to write is kept, because events cannot return it.
pub(super) struct Replies {
    output: Output,
    written: Instant,
    failed: Result<(), Error>,
}

impl Replies {
    pub fn new(output: Output) -> Self {
        Self { output, written: Instant::now(), failed: Ok(()) }
    }

    pub fn send(&mut self, reply: &ToSender) {
        if self.failed.is_ok() {
            self.failed = self.output.record(reply).map(drop);
            if self.output.collected_bytes() >= MOST_COLLECTED_BYTES
                || self.written.elapsed() >= WRITTEN_EVERY
            {
                self.failed = self.flush();
            }
        }
    }

    pub fn is_flushed(&self) -> bool {
        self.failed.is_ok() && self.output.collected_bytes() == 0
    }

    pub fn flush(&mut self) -> Result<(), Error> {
        std::mem::replace(&mut self.failed, Ok(()))?;
        self.written = Instant::now();
        self.output.flush()
    }
}

/// Events of the copy, for the user: at this side, or told to the sender.
pub(super) struct Told<'a>(pub &'a Session);

impl Events for Told<'_> {
    fn mirrored(&mut self, target: &Path, result: &Result<(), gush_tree::Error>) {
        let why = result.as_ref().err().map(Failure::from);
        let Some(shown) = &self.0.shown else {
            let path = target.as_os_str().as_bytes().to_vec();
            return self.0.replies().send(&ToSender::Removed { path, why });
        };
        let target = target.to_path_buf();
        let result = why.map_or(Ok(()), |why| Err(gush_tree::Error::reported(&target, why)));
        if result.is_err() {
            shown.fails();
        }
        shown.show(move |events| events.mirrored(&target, &result));
    }

    fn warns(&mut self, warning: &gush_tree::Error) {
        let Some(shown) = &self.0.shown else {
            return self.0.replies().send(&ToSender::Warning(warning.to_string()));
        };
        let warning = gush_tree::Error::reported(warning.path(), warning);
        shown.show(move |events| events.warns(&warning));
    }
}

impl Session {
    /// Answers a question by another one, or by a request: the entry will come again.
    pub fn reply_without_end(&self, reply: &ToSender) {
        self.lock().bounds.answered();
        self.replies().send(reply);
    }

    pub fn answer(&self, arrival: &Arrival<'_>, ended: Result<Ending, Failure>) {
        let mut state = self.lock();
        state.bounds.answered();
        state.has_failed |= ended.is_err();
        let mut ended = ended.map(|ending| match ending {
            Ending::Made { is_complete: true } => Outcome::Made,
            Ending::Made { is_complete: false } => Outcome::Incomplete,
            Ending::Kept | Ending::Skipped => Outcome::Kept,
            Ending::Updated { is_complete } => Outcome::Updated { is_complete },
        });
        if let Some(shown) = &self.shown {
            let Arrival { folder, name, action, bytes, digest, counted_bytes, .. } = *arrival;
            let source = state.folders.source(shown, folder, name);
            let above = state.folders.get(folder);
            let target = above.map_or_else(PathBuf::new, |above| above.shown_entry(name));
            drop(state);
            shown.ends(
                Entry { source, target, action, bytes, digest, counted_bytes },
                ended.clone(),
            );
            // The sender does not show it.
            ended = ended.map_err(|_| Failure::default());
        }
        let id = arrival.id;
        self.replies().send(&match ended {
            Ok(outcome) => ToSender::Done { id, outcome },
            Err(why) => ToSender::Failed { id, why },
        });
    }

    /// Shows that bytes of a file have come.
    pub fn shows_bytes(&self, folder: u64, name: &OsStr, bytes: u64) {
        if let Some(shown) = &self.shown {
            let source = self.lock().folders.source(shown, folder, name);
            shown.show(move |events| entry::count(bytes, &source, events));
        }
    }

    /// Answers an entry, and makes the links that wait for it.
    pub fn end_entry(
        &self,
        arrival: &Arrival<'_>,
        folder: Option<&Arc<Folder>>,
        ended: Result<Ending, impl Into<Failure>>,
    ) -> Result<(), Error> {
        let Arrival { id, name, has_names, .. } = *arrival;
        // What a dry run would make is no file yet: what has its name is another one.
        let is_copy = ended.as_ref().is_ok_and(|ending| match ending {
            Ending::Skipped => false,
            Ending::Made { .. } => !self.options.dry_run,
            Ending::Kept | Ending::Updated { .. } => true,
        });
        let first = folder.filter(|_| is_copy && has_names).and_then(|folder| {
            let identity = folder.identity(name)?;
            Some(First::Made(Arc::clone(folder), name.to_owned(), identity))
        });
        self.answer(arrival, ended.map_err(Into::into));
        if has_names {
            if first.is_some() {
                self.lock().folders.has_first(arrival.folder);
            }
            self.settle_names(id, first.unwrap_or(First::None))?;
        }
        self.ended(arrival.folder, name)
    }

    /// Answers an entry of a directory that has failed, or one of which the user knows why it does.
    pub fn fail_entry(&self, arrival: &Arrival<'_>) -> Result<(), Error> {
        self.end_entry(arrival, None, Err(""))
    }

    /// The sender cannot send an entry.
    pub fn is_unsent(&self) {
        self.lock().has_failed = true;
        if let Some(shown) = &self.shown {
            shown.is_unsent();
        }
    }

    /// The sender reports a problem of its side.
    pub fn problem(
        &self,
        path: &Path,
        below: &Path,
        why: Failure,
        is_warning: bool,
    ) -> Result<(), Error> {
        let shown = self.shown.as_ref().ok_or_else(|| out_of_place("Problem"))?;
        let base = self.lock().folders.get(BASE);
        let mut names = below.iter();
        let own = names.next();
        let first = self.as_name.as_deref().or(own);
        // An operand that fails has no path below it.
        let rest = (!names.as_path().as_os_str().is_empty()).then_some(names.as_path());
        let target = base.zip(first).map(|(base, name)| {
            let target = base.shown_entry(name);
            rest.map_or(target.clone(), |rest| target.join(rest))
        });
        shown.problem(path, target.unwrap_or_default(), why, is_warning);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_after_a_while_waits_for_no_other() {
        let mut replies = Replies::new(Output::new(tempfile::tempfile().unwrap()));
        replies.written = Instant::now().checked_sub(WRITTEN_EVERY).unwrap();
        let removed = ToSender::Removed { path: b"t/old".to_vec(), why: None };
        replies.send(&removed);
        assert!(replies.is_flushed());
    }
}
