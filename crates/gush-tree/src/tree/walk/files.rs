//! Each file of a directory: copied now or after all the others, by this rank or another.

use std::cell::Cell;
use std::collections::HashSet;
use std::ffi::OsString;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::directories::sync_target;
use super::{SHOWN_APART_BYTES, ShareCounts, Worker};
use crate::error::Error;
use crate::file::{Common, Done};
use crate::open;
use crate::options::{Dereference, Make, Options};
use crate::place::{Place, kind};
use crate::quote;
use crate::tree::batch::{Batch, Listed};
use crate::tree::dir::{Dir, Pair, lost};
use crate::tree::division::{Owner, Seen, hash_of_directory};
use crate::tree::journal::Journal;
use crate::tree::queue::Task;
use crate::tree::{Extent, parts};

/// A file so large is no part of a batch: the files behind it need not wait.
const LARGE_BYTES: i64 = 4 << 20;
/// So many files are worth waking a thread for.
const SHARED_FILES: usize = 16;

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
                let pair = own.as_ref().unwrap_or(&pair);
                let mut name = OsString::new();
                while let Some(Listed { name: next, is_regular, is_own }) = batch.take() {
                    if self.is_stopped() {
                        break;
                    }
                    name.clear();
                    name.push(next);
                    // Half of the rest only where another thread has nothing else: two that make files in one directory wait for each
                    // other, as the kernel holds the directory's lock meanwhile.
                    if batch.len() >= SHARED_FILES && self.walk.queue.is_hungry() {
                        dir.waits_for_more(1);
                        self.give(Task::Files(Arc::clone(&dir), batch.split_off_half()));
                    }
                    let listed = Listed { name: &name, is_regular, is_own };
                    self.file((&dir, pair), listed, &mut batch, false);
                }
            }
            Err(errno) => self.failed(lost(self.source.path(), errno)),
        }
        self.one_done(dir);
    }

    /// Copies one entry, and tells of it.
    fn file(
        &mut self,
        at: (&Arc<Dir>, &Pair),
        listed: Listed<'_>,
        rest: &mut Batch,
        is_last: bool,
    ) {
        let before = (self.source.push(listed.name), self.target.push(listed.name));
        if let Some(result) = self.entry(at, listed, rest, is_last) {
            self.ended(&result);
        }
        self.back_to(before);
    }

    /// Copies the entry whose paths are set. `None` where the entry is left out, or is for another task or rank. A directory found here, of a
    /// file system that tells no types or behind a link, is a task of its own; so are the files behind a large one.
    fn entry(
        &self,
        (dir, pair): (&Arc<Dir>, &Pair),
        listed: Listed<'_>,
        rest: &mut Batch,
        is_last: bool,
    ) -> Option<Result<Done, Error>> {
        let walk = self.walk;
        let Listed { name, is_regular, is_own } = listed;
        let (source, target) = self.places(pair, name);
        // Asked once a directory: each new file in it inherits the same list.
        dir.learn_acl(pair, walk.common.options);
        let is_left_out = || self.leaves_out(dir, self.source.below_root(), false);
        if is_regular && is_left_out() {
            return None;
        }
        let follow = walk.common.options.dereference != Dereference::Never;
        // By the rule of paths only a file with several names may be another rank's after all.
        let is_own_path = || match walk.common.extent {
            Extent::Share(parts) => parts.division.shard.takes(self.source.below_root()),
            _ => false,
        };
        let may_be_own = is_regular && (is_own || is_own_path());
        let opened = match may_be_own && self.is_copied_in_any_case(dir) {
            true => open::listed(&source),
            false => None,
        };
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
            Err(errno) => return Some(Err(Error::os(source.shown, "cannot stat", *errno))),
        };
        if kind(stat) == FileType::Directory {
            dir.waits_for_more(1);
            self.give(Task::Directories(Arc::clone(dir), Batch::of(listed)));
            return None;
        }
        if !is_regular && is_left_out() {
            return None;
        }
        if !is_last {
            if !self.is_due(dir, (stat, is_own), &target) {
                return None;
            }
            if self.is_divided(dir, stat, &target) {
                let divided = self.with_descriptors(|| self.divided(dir, (source, stat), target));
                return divided.transpose();
            }
            if self.waits_for_the_others() {
                dir.waits_for_more(1);
                walk.waits_with_last(dir);
                // The directory waits for it: its times must be set after its last file.
                walk.queue.add_last(Task::Last(Arc::clone(dir), Batch::of(listed)));
                return None;
            }
        }
        // The files behind a large one would wait for it, with other threads idle.
        if stat.st_size >= LARGE_BYTES && !rest.is_empty() && walk.most_threads > 1 {
            dir.waits_for_more(1);
            self.give(Task::Files(Arc::clone(dir), mem::take(rest)));
        }
        if u64::try_from(stat.st_size).is_ok_and(|bytes| bytes >= SHOWN_APART_BYTES)
            && walk.listener.wants_counts()
        {
            self.tell_counts();
        }
        let opened = opened.as_ref().map(|(fd, _)| fd.as_fd());
        Some(self.copied((dir, pair), (source, stat, opened), target, is_last))
    }

    /// Copies a file that is this walk's, at first as if its name were free where that is likely.
    fn copied(
        &self,
        (dir, pair): (&Arc<Dir>, &Pair),
        (source, stat, opened): (Place<'_>, &Stat, Option<BorrowedFd<'_>>),
        target: Place<'_>,
        is_last: bool,
    ) -> Result<Done, Error> {
        let walk = self.walk;
        let hopes = self.hopes_for_free_names(dir);
        let is_new = Cell::new(dir.is_new || hopes);
        // Rank 0, started again, takes what has its name for whole.
        let is_after_shares = matches!(walk.common.extent, Extent::Rest { .. });
        let copy = || {
            self.replace_other_kind((dir, pair), target.name.as_os_str(), stat)?;
            let options = self.options_of(is_last || is_after_shares, &target);
            let mut events = &walk.listener;
            // A second attempt may find the first one's file, and the source read in part.
            let is_first = is_new.replace(false);
            let common = Common { opened: opened.filter(|_| is_first), options, ..walk.common };
            let to = (target, is_first);
            common.copy_file((source, stat), to, Some(dir), &mut events)
        };
        let is_link = || target.stat(false).is_ok_and(|stat| kind(&stat) == FileType::Symlink);
        match self.with_descriptors(copy) {
            // The name was not free after all. A link is refused without EEXIST, as if nothing were behind it.
            Err(error) if hopes && (error.is_about_existing() || is_link()) => {
                self.with_descriptors(copy)
            }
            copied => copied,
        }
    }

    /// A file that comes last vouches for the others, so nobody may find a part of it. What is no file is written to as ever.
    fn options_of(&self, is_last: bool, target: &Place<'_>) -> &'s Options {
        let walk = self.walk;
        let whole = walk.options_of_last.as_ref().filter(|options| is_last && options.data);
        whole
            .filter(|_| match target.stat(false) {
                Ok(stat) => kind(&stat) == FileType::RegularFile,
                Err(errno) => errno == Errno::NOENT,
            })
            .unwrap_or(walk.common.options)
    }

    /// A rank does not know whether another one or somebody else made a directory. Files are expected to be missing there, unless the ranks
    /// go on: a look at each name would cost more than the few looks that come second.
    fn hopes_for_free_names(&self, dir: &Dir) -> bool {
        let Common { options, extent, journal, .. } = self.walk.common;
        // Whoever hears of each file that begins would hear of it twice.
        !dir.is_new
            && matches!(extent, Extent::Share(_))
            && !journal.is_some_and(Journal::goes_on)
            && !self.walk.listener.wants_entries()
            && !options.dry_run
            // Behind a link may be a file, and nobody would have looked at it.
            && !options.through_dangling
            // The whole file would be written before its name proved to be taken.
            && !options.atomic
    }

    /// Does nothing but the kind of a file decide whether it is copied? Then the open file tells the kind, and the name is looked up once less.
    fn is_copied_in_any_case(&self, dir: &Dir) -> bool {
        let Common { options, extent, .. } = self.walk.common;
        let is_certain = match extent {
            Extent::Whole => dir.is_new,
            Extent::Share(_) => true,
            Extent::Rest { .. } => false,
        };
        is_certain && options.make == Make::Copy && options.last.is_none() && !options.dry_run
    }

    /// Copies files that come after all the others.
    pub(super) fn last(&mut self, dir: Arc<Dir>, mut batch: Batch) {
        let walk = self.walk;
        // Once, by whichever thread comes first; the others wait for it.
        walk.others_synced.get_or_init(|| self.sync_others());
        self.go_to(&dir);
        // Relaxed: the queue's lock lies between the last ordinary task and the first of these.
        let others_failed = self.walk.is_incomplete.load(Ordering::Relaxed);
        let pair = self.pair(&dir);
        while let Some(Listed { name, is_regular, is_own }) = batch.take() {
            let name = name.to_owned();
            let before = (self.source.push(&name), self.target.push(&name));
            let ready = match (&pair, others_failed) {
                (pair, true) => {
                    let text = "not copied: it comes last, and not everything else was copied";
                    let error = Error::refusal(self.source.path(), text);
                    let is_there =
                        |pair: &Arc<Pair>| self.places(pair, &name).1.stat(false).is_ok();
                    Err(match pair {
                        // The files that it vouches for may be replaced by now.
                        Ok(pair) if is_there(pair) => error.hinting(format!(
                            "{} is an older one",
                            quote::always(self.target.path())
                        )),
                        _ => error,
                    })
                }
                (Err(errno), false) => Err(lost(self.source.path(), *errno)),
                (Ok(pair), false) => Ok(pair),
            };
            match ready {
                Ok(pair) => {
                    self.back_to(before);
                    let listed = Listed { name: &name, is_regular, is_own };
                    self.file((&dir, pair), listed, &mut batch, true);
                }
                Err(error) => {
                    self.failed(error);
                    self.back_to(before);
                }
            }
        }
        self.one_done(dir);
    }

    /// Does the file, whose paths are set, belong to the part of the tree that this walk copies?
    fn is_due(&self, dir: &Arc<Dir>, (source, is_own): (&Stat, bool), target: &Place<'_>) -> bool {
        let walk = self.walk;
        let path = self.source.below_root();
        let parts = match walk.common.extent {
            Extent::Whole => return true,
            Extent::Rest { .. } if self.waits_for_the_others() => return true,
            Extent::Rest { others_failed, parts } => {
                let Common { options, copied, .. } = walk.common;
                copied.learn_copy_of_shares(options, source, (dir, target));
                // A rank gave the file to all ranks, so that nobody has put it in its place.
                return (parts.is_announced(path) || parts.may_miss_files())
                    && matches!(target.stat(false), Err(Errno::NOENT))
                    && (!others_failed || self.is_divisible(dir, source));
            }
            Extent::Share(_) if self.waits_for_the_others() => {
                if walk.common.options.preserve.links && source.st_nlink > 1 {
                    walk.common.copied.expect_in_shares(source);
                }
                return false;
            }
            Extent::Share(parts) => parts,
        };
        let counts = &walk.share_counts;
        // A file that the listing told to be this rank's was counted then.
        if !is_own {
            let (options, device) = (walk.common.options, dir.source_stat.st_dev);
            let owner = parts.division.owner_of_seen(dir.rule, (source, device), (options, path));
            let (above, name) = (path.parent(), path.file_name());
            let mut seen = Seen::default();
            let above = hash_of_directory(above.unwrap_or(Path::new("")));
            seen.add(above, name.unwrap_or_default(), owner);
            counts.add(seen);
            if owner == Owner::Other {
                return false;
            }
        }
        counts.files.fetch_add(1, Ordering::Relaxed);
        let bytes = match kind(source) {
            FileType::RegularFile => u64::try_from(source.st_size).unwrap_or(0),
            _ => 0,
        };
        counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        true
    }

    /// May this file be copied in pieces? A directory that gives its files a group or an access control list must be the one in which they are made.
    fn is_divisible(&self, dir: &Dir, source: &Stat) -> bool {
        // `S_ISGID` of a directory: a new file gets the group of the directory it is made in (inode(7)).
        const SET_GROUP: u32 = 0o2000;
        !matches!(self.walk.common.extent, Extent::Whole)
            && parts::is_divided(self.walk.common.options, source)
            && !self.waits_for_the_others()
            && !dir.may_give_acl()
            && dir.target_stat.st_mode & SET_GROUP == 0
    }

    /// Is this file copied in pieces? Nothing is at the target before rank 0 puts it there.
    fn is_divided(&self, dir: &Dir, source: &Stat, target: &Place<'_>) -> bool {
        self.is_divisible(dir, source) && matches!(target.stat(false), Err(Errno::NOENT))
    }

    /// Announces a large file to all ranks; as rank 0, after all shares, gives the file its place. `None` where nothing is to be told.
    fn divided(
        &self,
        dir: &Arc<Dir>,
        (source, stat): (Place<'_>, &Stat),
        target: Place<'_>,
    ) -> Result<Option<Done>, Error> {
        let walk = self.walk;
        let path = self.source.below_root();
        let mut events = &walk.listener;
        let whole = match walk.common.extent {
            Extent::Whole => return Ok(None),
            Extent::Share(parts) => {
                let job = walk.common.job((source, stat), target, Some(dir));
                parts.announce(&job, path)?;
                let ShareCounts { divided, bytes, .. } = &walk.share_counts;
                divided.fetch_add(1, Ordering::Relaxed);
                // Bytes are of the ranks that copy the pieces.
                bytes.fetch_sub(parts::size_of(stat), Ordering::Relaxed);
                return Ok(None);
            }
            Extent::Rest { parts, .. } => parts.whole(path, stat).map(|name| (parts, name)),
        };
        let others_failed = walk.is_incomplete.load(Ordering::Relaxed);
        let to = (target, true);
        // Rank 0, started again, takes what has its name for whole.
        let common = Common { options: self.options_of(true, &target), ..walk.common };
        match &whole {
            // The rank that failed copies its pieces when it is started again.
            None if others_failed => Ok(None),
            None => common.copy_file((source, stat), to, Some(dir), &mut events).map(Some),
            Some((parts, name)) => {
                let assembled = Some(parts.place(name, target.shown));
                let of_pieces = Common { assembled, ..walk.common };
                let placed = of_pieces.copy_file((source, stat), to, Some(dir), &mut events);
                // rename(2) answers EXDEV also between two mounts of one file system, and between projects with quotas of their own.
                match placed {
                    Err(error) if error.is_across_devices() => {
                        common.copy_file((source, stat), to, Some(dir), &mut events)
                    }
                    placed => placed,
                }
                .map(Some)
            }
        }
    }

    pub(super) fn waits_for_the_others(&self) -> bool {
        let last = self.walk.common.options.last.as_ref();
        last.is_some_and(|last| last.excludes_or_above(self.source.below_root()))
    }

    /// Puts on stable storage the entries of all directories that are not complete yet: those that wait for their last
    /// files, and the ones above.
    fn sync_others(&mut self) {
        let walk = self.walk;
        let waiting =
            mem::take(&mut *walk.with_last.lock().unwrap_or_else(PoisonError::into_inner));
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
                    self.failed(Error::os(self.target.path(), "cannot sync", errno));
                }
                at = dir.parent();
            }
        }
    }
}
