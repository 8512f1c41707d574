//! Each file of a directory: copied now, or after all the others.

use std::cell::Cell;
use std::collections::HashSet;
use std::ffi::OsString;
use std::mem;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use gush::Unpoisoned;
use gush_text::quote;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::directories::sync_target;
use super::{OpenDir, SHOWN_APART_BYTES, Worker};
use crate::copier::Done;
use crate::error::Error;
use crate::file::Common;
use crate::job::{Entry, Target};
use crate::open;
use crate::options::{Dereference, Make};
use crate::place::{FileId, Place, kind};
use crate::tree::batch::{Batch, Listed};
use crate::tree::dir::{Dir, Pair};
use crate::tree::held::lost;
use crate::tree::journal::Journal;
use crate::tree::partition::{Found, Others, Owner};
use crate::tree::queue::Task;

/// A file so large is no part of a batch: the files after it need not wait.
const LARGE_BYTES: i64 = 4 << 20;

impl<'s, 'env, 'w: 's> Worker<'s, 'env, 'w> {
    /// Copies files of a directory; `is_shared` where other threads may do the same at this moment.
    pub(super) fn files(&mut self, dir: Arc<Dir>, mut batch: Batch, is_shared: bool) {
        self.go_to(&dir);
        match self.pair(&dir) {
            Ok(pair) => {
                // A mirror lists directories, too, which takes more than reaching files.
                let own = (is_shared && self.walk.limits.is_none())
                    .then(|| pair.to_reach_files().ok())
                    .flatten();
                let at = OpenDir { dir: &dir, pair: own.as_ref().unwrap_or(&pair) };
                let mut name = OsString::new();
                while let Some(Listed { name: next, is_regular, is_mine }) = batch.take() {
                    if self.is_stopped() {
                        break;
                    }
                    name.clear();
                    name.push(next);
                    // Half of the rest only where another thread has nothing else: two that make
                    // files in one directory wait for each other, as the kernel holds the
                    // directory's lock meanwhile.
                    while self.walk.queue.is_hungry() && self.is_worth_a_thread(batch.len()) {
                        dir.waits_for_more(1);
                        self.give(Task::Files(Arc::clone(&dir), batch.split_off_half()));
                    }
                    let listed = Listed { name: &name, is_regular, is_mine };
                    self.file(at, listed, &mut batch, false);
                }
            }
            Err(errno) => self.failed(lost(self.source.path(), errno)),
        }
        self.one_done(dir);
    }

    /// Copies one entry, and reports it.
    fn file(&mut self, at: OpenDir<'_>, listed: Listed<'_>, rest: &mut Batch, is_last: bool) {
        let before = (self.source.push(listed.name), self.target.push(listed.name));
        // The name itself, and what it leads to: a link may lead nowhere, or out of the tree.
        let named = || {
            let target = is_last.then(|| self.places(at.pair, listed.name).1)?;
            let id = |follow| target.stat(follow).ok().map(|stat| FileId::of(&stat));
            Some((id(false)?, id(true)))
        };
        let earlier = named();
        if let Some(result) = self.entry(at, listed, rest, is_last) {
            self.ended(&result);
        }
        // Also where the copy failed in the end, to sync its directory for instance; but not where
        // the old name was set aside, and none took its place.
        let now = named();
        if now.is_some() && now != earlier {
            self.walk.has_published.store(true, Ordering::Relaxed);
        }
        self.back_to(before);
    }

    /// Copies the entry whose paths are set. `None` if the entry is left out, or is for another
    /// task or process. A directory found here, of a file system without types in its listings or
    /// at the end of a link, is a separate task; so are the files after a large one.
    fn entry(
        &self,
        at: OpenDir<'_>,
        listed: Listed<'_>,
        rest: &mut Batch,
        is_last: bool,
    ) -> Option<Result<Done, Error>> {
        let walk = self.walk;
        let Common { options, partition, .. } = walk.common;
        let OpenDir { dir, pair } = at;
        let Listed { name, is_regular, is_mine } = listed;
        let (source, target) = self.places(pair, name);
        self.learn_acl(dir, pair);
        let is_left_out = || self.leaves_out(dir, self.source.below_root(), false);
        if is_regular && is_left_out() {
            return None;
        }
        let follow = options.dereference != Dereference::Never;
        // If the kind alone decides, the open file shows the kind, and the name is looked up once
        // less.
        let is_opened_first = is_regular
            && options.make == Make::Copy
            && options.last.is_none()
            && !options.dry_run
            && partition.is_certain(dir, self.source.below_root(), is_mine);
        let opened = if is_opened_first { open::listed(&source) } else { None };
        let found;
        let looked = match &opened {
            Some((_, stat)) => Ok(stat),
            None => {
                found = source.stat(follow);
                found.as_ref()
            }
        };
        let stat = match looked {
            Ok(stat) => stat,
            Err(errno) => return Some(Err(Error::os(source.shown, "cannot stat {}", *errno))),
        };
        if kind(stat) == FileType::Directory {
            dir.waits_for_more(1);
            self.give(Task::Directories(Arc::clone(dir), Batch::of(listed)));
            return None;
        }
        if !is_regular && is_left_out() {
            return None;
        }
        let opened = opened.as_ref().map(|(fd, _)| fd.as_fd());
        let entry = Entry { place: source, stat, opened };
        let target = Target { dir: Some(dir), ..Target::operand(target) };
        if !is_last {
            let found = Found { dir, entry, target, path: self.source.below_root(), is_mine };
            match partition.owner(&walk.common, &found) {
                Owner::Mine => {}
                Owner::Theirs => return None,
                Owner::Pieces => return self.pieces(&found).transpose(),
            }
            if self.comes_last() {
                dir.waits_for_more(1);
                walk.waits_with_last(dir);
                // The directory waits for it: its times must be set after its last file.
                walk.queue.add_last(Task::Last(Arc::clone(dir), Batch::of(listed)));
                return None;
            }
        }
        // The files after a large one would wait for it, with other threads idle.
        if stat.st_size >= LARGE_BYTES && !rest.is_empty() && walk.most_threads > 1 {
            dir.waits_for_more(1);
            self.give(Task::Files(Arc::clone(dir), mem::take(rest)));
        }
        if u64::try_from(stat.st_size).is_ok_and(|bytes| bytes >= SHOWN_APART_BYTES)
            && walk.listener.wants_counts()
        {
            self.report_counts();
        }
        Some(self.copied(at, entry, target, is_last))
    }

    /// Copies a file that is this walk's, at first as if its name were free where that is likely.
    fn copied(
        &self,
        at: OpenDir<'_>,
        entry: Entry<'_>,
        target: Target<'_>,
        is_last: bool,
    ) -> Result<Done, Error> {
        let dir = at.dir;
        let hopes = self.hopes_for_free_names(dir);
        let is_new = Cell::new(dir.is_new || hopes);
        let copy = || {
            self.replace_other_kind(at, target.place.name.as_os_str(), entry.stat)?;
            let common = self.common_of(is_last, &target.place);
            let mut events = &self.walk.listener;
            // A second attempt may find the first one's file, and the source read in part.
            let is_new = is_new.replace(false);
            let entry = Entry { opened: entry.opened.filter(|_| is_new), ..entry };
            common.copy_file(entry, Target { is_new, ..target }, &mut events)
        };
        let is_link =
            || target.place.stat(false).is_ok_and(|stat| kind(&stat) == FileType::Symlink);
        match self.with_descriptors(copy) {
            // The name was not free after all. A link is refused without EEXIST, like a dangling
            // one.
            Err(error) if hopes && (error.is_about_existing() || is_link()) => {
                self.with_descriptors(copy)
            }
            copied => copied,
        }
    }

    /// Does this process's part in a file that all processes copy.
    fn pieces(&self, file: &Found<'_>) -> Result<Option<Done>, Error> {
        let common = self.common_of(false, &file.target.place);
        let partition = common.partition;
        self.with_descriptors(|| partition.copy_pieces(&common, file, &mut &self.walk.listener))
    }

    /// A file that comes last vouches for the others, so nobody may find a part of it; and a walk
    /// that is started again takes a file that others have left for whole. What is no file is
    /// written to as ever.
    fn common_of(&self, is_last: bool, target: &Place<'_>) -> Common<'_> {
        let common = self.walk.common;
        let is_left = matches!(common.partition.others(), Others::Finished { .. });
        let whole = self.walk.options_of_last.as_ref();
        let options = whole
            .filter(|options| (is_last || is_left) && options.data)
            .filter(|_| match target.stat(false) {
                Ok(stat) => kind(&stat) == FileType::RegularFile,
                Err(errno) => errno == Errno::NOENT,
            })
            .unwrap_or(common.options);
        Common { options, ..common }
    }

    /// Are files expected to be missing in a directory that this or another process may have made?
    /// Then the few looks at names that prove to be taken come second.
    fn hopes_for_free_names(&self, dir: &Dir) -> bool {
        let Common { options, journal, .. } = self.walk.common;
        // A listener to each file that begins would get it twice.
        !dir.is_new
            && self.is_shared()
            && !journal.is_some_and(Journal::is_resumed)
            && !self.walk.listener.wants_entries()
            && !options.dry_run
            // A link may lead to a file that nobody has looked at.
            && !options.through_dangling
            // The whole file would be written before its name proved to be taken.
            && !options.atomic
    }

    /// Copies files that come after all the others.
    pub(super) fn last(&mut self, dir: Arc<Dir>, mut batch: Batch) {
        let walk = self.walk;
        // Once, by whichever thread comes first; the others wait for it.
        walk.others_synced.get_or_init(|| {
            walk.verify_again();
            self.sync_others();
        });
        self.go_to(&dir);
        // Relaxed: the queue's lock lies between the last ordinary task and the first of these.
        let others_failed = self.walk.is_incomplete.load(Ordering::Relaxed);
        let pair = self.pair(&dir);
        while let Some(Listed { name, is_regular, is_mine }) = batch.take() {
            let name = name.to_owned();
            if let (Ok(pair), false) = (&pair, others_failed) {
                let listed = Listed { name: &name, is_regular, is_mine };
                self.file(OpenDir { dir: &dir, pair }, listed, &mut batch, true);
                continue;
            }
            let before = (self.source.push(&name), self.target.push(&name));
            self.failed(match &pair {
                Err(errno) if !others_failed => lost(self.source.path(), *errno),
                pair => {
                    let text = "not copying {}: it is committed last, and other entries failed";
                    let error = Error::refusal(self.source.path(), text);
                    let is_there =
                        |pair: &Arc<Pair>| self.places(pair, &name).1.stat(false).is_ok();
                    match pair.as_ref().is_ok_and(is_there) {
                        // The files that it vouches for may be replaced by now.
                        true => error.hinting(format!(
                            "{} is an older one",
                            quote::always(self.target.path())
                        )),
                        false => error,
                    }
                }
            });
            self.back_to(before);
        }
        self.one_done(dir);
    }

    /// Puts on stable storage the entries of all directories that are not complete yet: those that
    /// wait for their last files, and the ones above.
    fn sync_others(&mut self) {
        let walk = self.walk;
        let waiting = mem::take(&mut *walk.with_last.lock().unpoisoned());
        let options = walk.common.options;
        if !options.sync || options.dry_run {
            return;
        }
        let mut synced = HashSet::new();
        for dir in &waiting {
            let mut at = Some(dir);
            while let Some(dir) = at.filter(|dir| synced.insert(Arc::as_ptr(dir))) {
                if let Err(errno) = self.pair(dir).and_then(|pair| sync_target(&pair)) {
                    self.go_to(dir);
                    self.failed(Error::os(self.target.path(), "cannot sync {}", errno));
                }
                at = dir.above.as_ref();
            }
        }
    }
}
