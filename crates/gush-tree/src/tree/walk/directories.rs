//! Each subdirectory: entered, and given its attributes when all below is complete.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use gush_text::quote;
use rustix::fs::{self, Mode, OFlags, Stat};
use rustix::io::{self, retry_on_intr};

use super::{OpenDir, Walk, Worker};
use crate::copier::{Action, Done};
use crate::error::Error;
use crate::events::Events;
use crate::options::Dereference;
use crate::place::{FileId, Place};
use crate::tree::batch::{Batch, Listed};
use crate::tree::dir::{Dir, Pair};
use crate::tree::entering::{Entrance, Existing};
use crate::tree::held::lost;
use crate::tree::partition::Others;
use crate::tree::queue::Task;
use crate::tree::{Roots, journal, twice};
use crate::xattr::Attributes;

impl<'s, 'env, 'w: 's> Worker<'s, 'env, 'w> {
    pub(super) fn directories(&mut self, dir: Arc<Dir>, mut batch: Batch) {
        let Some(Listed { name, .. }) = batch.take() else { return };
        let name = name.to_owned();
        if !batch.is_empty() {
            self.give(Task::Directories(Arc::clone(&dir), batch));
        }
        self.go_to(&dir);
        let before = (self.source.push(&name), self.target.push(&name));
        if self.leaves_out(&dir, self.source.below_root(), true) {
            self.back_to(before);
            return self.one_done(dir);
        }
        let entered = match self.pair(&dir) {
            Ok(pair) => self.with_descriptors(|| self.enter(&dir, &pair, &name)),
            Err(errno) => Err(lost(self.source.path(), errno)),
        };
        match entered {
            Ok(Some(child)) => {
                self.walk.budget.opened();
                self.walk.budget.rest(&dir);
                let options = self.walk.common.options;
                // As GNU: the directory is made, and its entries are another file system's.
                let is_left_out =
                    options.one_file_system && child.source_stat.st_dev != dir.source_stat.st_dev;
                if is_left_out { self.one_done(child) } else { self.list(&child, None) }
            }
            left_out => {
                if let Err(error) = left_out {
                    self.failed(error);
                }
                self.back_to(before);
                self.one_done(dir);
            }
        }
    }

    /// Enters a directory; `None` if it is left out, and the user knows why.
    fn enter(&self, dir: &Arc<Dir>, pair: &Pair, name: &OsStr) -> Result<Option<Arc<Dir>>, Error> {
        let walk = self.walk;
        let (options, operands) = (walk.common.options, walk.operands);
        let (source, target) = self.places(pair, name);
        let follow = options.dereference != Dereference::Never;
        let stat = source.look(follow)?;
        let made = walk.common.journal.map(|journal| (journal, journal::entry(&dir.stat, name)));
        let is_shared = self.is_shared();
        let (source_stat, is_new) = (&stat, dir.is_new && !is_shared);
        let replace = || self.replace(OpenDir { dir, pair }, name, false);
        let replace = walk.limits.is_some().then_some(&replace as &dyn Fn() -> _);
        let entrance =
            Entrance { options, source, source_stat, target, is_new, is_shared, made, replace };
        let existing = entrance.existing()?;
        if operands.targets.contains(&FileId::of(&stat)) {
            return self.leave_out_target(&source).map(|()| None);
        }
        self.refuse_second_visit(dir, &source, &stat, &target)?;
        if let Existing::Directory { is_link: true, .. } = existing {
            walk.common.copied.check_link_just_made(options, &source, &target)?;
        }
        let mut events = &walk.listener;
        let entered = entrance.enter(&existing, &|| walk.umask(), &mut events)?;
        let above = Some(Arc::clone(dir));
        Ok(Some(Dir::enter(above, name.into(), stat, entered, options)))
    }

    /// Do other processes make directories and files in this tree at the same time?
    pub(super) fn is_shared(&self) -> bool {
        self.walk.common.partition.others() == Others::Working
    }

    /// Leaves out a directory that this command copies to, which is an error once a tree.
    fn leave_out_target(&self, source: &Place<'_>) -> Result<(), Error> {
        let walk = self.walk;
        walk.is_incomplete.store(true, Ordering::Relaxed);
        if walk.has_reported_cycle.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let Roots { source: source_root, target: target_root } = walk.roots;
        let (from, to) = (quote::always(source_root), quote::always(target_root));
        let text = format!("cannot copy a directory, {from}, into itself, {to}");
        Err(Error::about_both(source.shown, text))
    }

    /// Refuses a directory that was copied already.
    fn refuse_second_visit(
        &self,
        dir: &Dir,
        source: &Place<'_>,
        stat: &Stat,
        target: &Place<'_>,
    ) -> Result<(), Error> {
        let Walk { operands, common, .. } = self.walk;
        if common.options.dereference == Dereference::Always {
            return match dir.ancestors().any(|at| FileId::of(&at.source_stat) == FileId::of(stat)) {
                true => Err(Error::refusal(source.shown, "cannot copy cyclic symbolic link {}")),
                false => Ok(()),
            };
        }
        match operands.sources.get(&FileId::of(stat)) {
            Some((_, shown)) => Err(twice(target, shown)),
            None => Ok(()),
        }
    }

    /// One of the things that a directory waits for is done. The last one completes the directory,
    /// which in turn is one thing done for the directory above.
    pub(super) fn one_done(&mut self, mut dir: Arc<Dir>) {
        // A loop, because a directory may complete its parent and so on: recursion would be as deep
        // as the tree.
        while dir.is_complete_now() {
            self.go_to(&dir);
            let pair = self.pair(&dir);
            let complete = self.finish(&dir, &pair);
            if let (Ok(pair), Some(above)) = (pair, &dir.above)
                // While the child is still held: its `..` leads to one that was let go.
                && let Some(pair) = above.pair_from(&pair)
            {
                self.walk.budget.hold(above, &pair);
            }
            self.walk.budget.let_go(&dir);
            let Some(above) = dir.above.clone() else {
                if !complete {
                    self.walk.is_incomplete.store(true, Ordering::Relaxed);
                }
                return;
            };
            if !self.is_shared() {
                self.ended(&Ok(Done { complete, ..Done::new(Action::Directory) }));
            }
            dir = above;
        }
    }

    /// Gives a directory its attributes; `false` if something required could not be set.
    fn finish(&self, dir: &Dir, pair: &io::Result<Arc<Pair>>) -> bool {
        let walk = self.walk;
        let options = walk.common.options;
        // Others still write below: a later walk gives the attributes.
        if options.dry_run || self.is_shared() {
            return true;
        }
        let shown = self.target.path();
        let mut events = &walk.listener;
        let pair = match pair {
            Ok(pair) => pair,
            Err(errno) => {
                events.warns(&lost(shown, *errno));
                return false;
            }
        };
        // The final mode may forbid reading, as fsync needs it.
        let synced = options.sync.then(|| open_to_sync(pair));
        let from = pair.source.handle().holder();
        let from: (&dyn Attributes, _, _) = (&from, &dir.source_stat, self.source.path());
        let mut complete = dir.give_attributes(options, &pair.target, from, shown, &mut events);
        if let Some(opened) = synced
            && let Err(errno) = opened.and_then(|dir| retry_on_intr(|| fs::fsync(&dir)))
        {
            events.warns(&Error::os(shown, "cannot sync {}", errno));
            complete = false;
        }
        complete
    }
}

fn open_to_sync(pair: &Pair) -> io::Result<OwnedFd> {
    let here = Path::new(".");
    Place::below(pair.target(), here, here).open(OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
}

pub(super) fn sync_target(pair: &Pair) -> io::Result<()> {
    let opened = open_to_sync(pair)?;
    retry_on_intr(|| fs::fsync(&opened))
}
