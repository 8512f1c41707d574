//! A mirror: what the source lacks, or has as another kind, is removed from the target.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use gush::Unpoisoned;
use rustix::fs::{self, FileType, Mode, OFlags, Stat};
use rustix::io::retry_on_intr;

use super::{OpenDir, Worker};
use crate::error::Error;
use crate::events::Events;
use crate::place::kind;
use crate::tree::dir::{Dir, Pair};
use crate::tree::held::lost;
use crate::tree::mirror::{self, Mirror};
use crate::tree::queue::Task;
use crate::{open, overwriting};

impl<'s, 'env, 'w: 's> Worker<'s, 'env, 'w> {
    /// Removes from the target of a directory what the source lacks. Where files come last it waits
    /// for them: what an older manifest names stays until the new one is there.
    pub(super) fn mirror(&self, dir: &Arc<Dir>, pair: &Pair) {
        let walk = self.walk;
        if walk.common.options.last.is_none() {
            return self.remove_missing(dir, pair);
        }
        if self.with_mirror(dir, pair, |mirror| mirror.has_work()) == Some(true) {
            self.add_removal(dir);
        }
    }

    fn add_removal(&self, dir: &Arc<Dir>) {
        // One a directory, which ends what was set aside before it looks for what the source lacks.
        if !dir.has_removal.swap(true, Ordering::Relaxed) {
            dir.waits_for_more(1);
            self.walk.waits_with_last(dir);
            self.walk.queue.add_after_last(Task::Remove(Arc::clone(dir)));
        }
    }

    /// Removes what has waited for the files that come last, if all is copied. If none of them has
    /// its name, what was set aside gets its own back.
    pub(super) fn remove_after_last(&mut self, dir: Arc<Dir>) {
        let walk = self.walk;
        let is_committed = *walk.is_committed.get_or_init(|| {
            walk.verify_again();
            // Relaxed: the queue's lock lies between the last copy and the first of these.
            let is_committed = !walk.is_incomplete.load(Ordering::Relaxed);
            if !is_committed {
                let text = "what the source lacks was not removed: that comes last, and not \
                            everything was copied";
                let mut events = &walk.listener;
                events.warns(&Error::refusal(walk.roots.target, text));
            }
            is_committed
        });
        self.go_to(&dir);
        match self.pair(&dir) {
            Ok(pair) => {
                self.end_aside(&dir, &pair, is_committed);
                if is_committed {
                    self.remove_missing(&dir, &pair);
                }
            }
            Err(errno) => self.failed(lost(self.source.path(), errno)),
        }
        self.one_done(dir);
    }

    fn end_aside(&self, dir: &Arc<Dir>, pair: &Pair, is_committed: bool) {
        // A new manifest names the new entries, and a later mirror removes the old ones.
        let is_kept = !is_committed && self.walk.has_published.load(Ordering::Relaxed);
        let ours: Vec<_> = self
            .walk
            .aside
            .lock()
            .unpoisoned()
            .extract_if(.., |aside| Arc::ptr_eq(&aside.dir, dir))
            .collect();
        self.with_mirror(dir, pair, |mirror| {
            let mut report = |path: &Path, result: Result<(), Error>| {
                // The copy that an older entry takes the place of was never asked to stay.
                if is_committed || result.is_err() {
                    self.mirrored(path, &result);
                }
            };
            for aside in &ours {
                if is_kept {
                    let error = aside.kept(self.target.path());
                    self.mirrored(&self.target.path().join(&aside.name), &Err(error));
                    continue;
                }
                mirror.end_aside(aside, is_committed, &mut self.target.clone(), &mut report);
            }
        });
    }

    fn remove_missing(&self, dir: &Dir, pair: &Pair) {
        self.with_mirror(dir, pair, |mirror| {
            mirror.run(&mut self.target.clone(), &mut |path, result| self.mirrored(path, &result));
        });
    }

    fn mirrored(&self, path: &Path, result: &Result<(), Error>) {
        if result.is_err() {
            self.walk.note_failure();
        }
        let mut events = &self.walk.listener;
        events.mirrored(path, result);
    }

    fn with_mirror<T>(
        &self,
        dir: &Dir,
        pair: &Pair,
        act: impl FnOnce(&Mirror<'_>) -> T,
    ) -> Option<T> {
        let limits = self.walk.limits.as_ref()?;
        Some(act(&Mirror {
            target: pair.target(),
            source_has: &|name| mirror::has(pair.source(), name),
            limits,
            is_in_source: dir.ancestors().any(|at| limits.holds_source(&at.stat)),
            is_dry: self.walk.common.options.dry_run,
            doubts: &|warning| {
                let mut events = &self.walk.listener;
                events.warns(warning);
            },
            is_protected: &|path, is_directory| self.leaves_out(dir, path, is_directory),
            is_stopped: &|| self.is_stopped(),
        }))
    }

    /// Removes the target of an entry, whose paths are set, for a source of another kind.
    pub(super) fn replace(
        &self,
        OpenDir { dir, pair }: OpenDir<'_>,
        name: &OsStr,
        is_directory: bool,
    ) -> Result<(), Error> {
        let removed = self.with_mirror(dir, pair, |mirror| {
            mirror.make_way(
                name,
                is_directory,
                &mut self.target.clone(),
                &|mirror| self.sets_aside(mirror, dir, name, is_directory),
                &mut |path, result| self.mirrored(path, &result),
            )
        });
        removed.unwrap_or(Ok(()))
    }

    /// Sets an entry aside that an older manifest may name. `false` where nothing comes last, or
    /// the file system cannot rename the entry, such as overlayfs a directory of its lower layer.
    fn sets_aside(
        &self,
        mirror: &Mirror<'_>,
        dir: &Arc<Dir>,
        name: &OsStr,
        is_directory: bool,
    ) -> bool {
        if self.walk.common.options.last.is_none() {
            return false;
        }
        let Ok(aside) = mirror.set_aside(dir, name, is_directory) else { return false };
        self.walk.aside.lock().unpoisoned().push(aside);
        self.add_removal(dir);
        true
    }

    /// Removes what is not of the kind that the copy of a file will be, if the file can be read.
    pub(super) fn replace_other_kind(
        &self,
        at: OpenDir<'_>,
        name: &OsStr,
        source_stat: &Stat,
    ) -> Result<(), Error> {
        if self.walk.limits.is_none() || at.dir.is_new {
            return Ok(());
        }
        let options = self.walk.common.options;
        let (source, target) = self.places(at.pair, name);
        let there = match target.stat(false) {
            Ok(there) if overwriting::is_of_other_kind(options, kind(source_stat), &there) => there,
            _ => return Ok(()),
        };
        let readable = match kind(source_stat) {
            FileType::RegularFile => {
                // Nothing good is removed for a source that cannot be read.
                source.open_regular(OFlags::RDONLY, Mode::empty()).map(|_| ())
            }
            FileType::Symlink => {
                retry_on_intr(|| fs::readlinkat(source.dir, source.name, Vec::new())).map(|_| ())
            }
            _ => Ok(()),
        };
        readable.map_err(|errno| open::not_opened(&source, "cannot open {} for reading", errno))?;
        self.replace(at, name, kind(&there) == FileType::Directory)
    }
}
