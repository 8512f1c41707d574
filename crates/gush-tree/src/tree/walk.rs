//! The walk through a tree: tasks, threads, and the end of each directory.

use std::cell::Cell;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::mem;
use std::num::NonZero;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, Scope};

use rustix::fs::{self, FileType, Mode, OFlags, Stat};
use rustix::io::{self, Errno, retry_on_intr};

use super::batch::{Batch, End, Part, Wanted};
use super::budget::{Budget, Share};
use super::dir::{Dir, Pair, Start};
use super::entering::{Entrance, Existing};
use super::journal;
use super::listener::Listener;
use super::mirror::{Limits, Mirror, Removed};
use super::queue::{Queue, Task};
use super::shown::Shown;
use super::{Extent, Operands, Walked, parts, shard, twice};
use crate::error::Error;
use crate::events::Events;
use crate::file::{Action, Common, Done};
use crate::metadata::{Transfer, umask};
use crate::new_directory;
use crate::options::{Dereference, ModeRule};
use crate::place::{Bounds, FileId, Place, kind};
use crate::quote;

/// A file so large is no part of a batch: the files behind it need not wait.
const LARGE_BYTES: i64 = 4 << 20;

/// A tree on its way from one root to another.
pub(crate) struct Walk<'a> {
    common: Common<'a>,
    operands: &'a Operands,
    /// Of a mirror.
    limits: Option<Limits>,
    /// The root's descriptors, for links within the target.
    root_pair: Arc<Pair>,
    /// The roots as the user wrote them: source, target.
    names: (&'a Path, &'a Path),
    listener: Listener<'a>,
    queue: Queue,
    budget: Budget,
    most_threads: usize,
    umask: OnceLock<u32>,
    is_incomplete: AtomicBool,
    has_told_of_circle: AtomicBool,
    /// An entry failed, and the user wants no more of them.
    is_stopped: AtomicBool,
    /// The directories with files that come after all the others, which are not complete before.
    with_last: Mutex<Vec<Arc<Dir>>>,
    /// The others are on stable storage, or the user knows why not.
    others_synced: OnceLock<()>,
    counts: Counts,
}

/// Of a share: the files of all ranks, those of them that are divided, this rank's, and the sizes of these.
#[derive(Default)]
struct Counts {
    seen: AtomicU64,
    divided: AtomicU64,
    files: AtomicU64,
    bytes: AtomicU64,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(
        common: &Common<'a>,
        (operands, limits): (&'a Operands, Option<Limits>),
        root: Arc<Dir>,
        names: (&'a Path, &'a Path),
        events: &'a mut dyn Events,
    ) -> Self {
        let options = common.options;
        let threads = match options.moving.threads {
            // Questions come one after the other.
            _ if options.ask => 1,
            0 => thread::available_parallelism().map_or(1, NonZero::get),
            threads => threads,
        };
        let root_pair = root.pair().expect("a directory just opened is held");
        let share = Share::of_limit(root_pair.target(), threads);
        Self {
            common: *common,
            operands,
            limits,
            // Held for the whole walk, because all other directories can be reopened from there.
            root_pair,
            budget: Budget::new(share),
            queue: Queue::start(Task::List(root, None)),
            names,
            listener: Listener::new(events),
            most_threads: share.threads,
            umask: OnceLock::new(),
            is_incomplete: AtomicBool::new(matches!(
                common.extent,
                Extent::Rest { others_failed: true, .. }
            )),
            has_told_of_circle: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            with_last: Mutex::default(),
            others_synced: OnceLock::new(),
            counts: Counts::default(),
        }
    }

    /// Copies everything.
    pub(crate) fn run(self) -> Walked {
        // The caller's thread works too: a small tree needs no other.
        thread::scope(|scope| Worker::new(&self, scope).work());
        let complete = !self.is_incomplete.into_inner();
        let Counts { seen, divided, files, bytes } = self.counts;
        let (files, bytes) = (files.into_inner(), bytes.into_inner());
        let (seen_files, divided_files) = (seen.into_inner(), divided.into_inner());
        let is_complete = complete;
        let share = shard::Share { files, bytes, is_complete, seen_files, divided_files };
        Walked { complete, share }
    }

    fn waits_with_last(&self, dir: &Arc<Dir>) {
        let mut waiting = self.with_last.lock().unwrap_or_else(PoisonError::into_inner);
        // Files of one directory come one after the other, so a look at the last one is enough.
        if waiting.last().is_none_or(|known| !Arc::ptr_eq(known, dir)) {
            waiting.push(Arc::clone(dir));
        }
    }

    fn umask(&self) -> u32 {
        *self.umask.get_or_init(umask)
    }
}

/// One thread of a walk.
struct Worker<'s, 'env, 'w> {
    walk: &'s Walk<'w>,
    scope: &'s Scope<'s, 'env>,
    /// The buffer of getdents64(2), empty between two listings.
    listed: Vec<u8>,
    /// The directory that the paths lead to, and their lengths there.
    at: Option<(Arc<Dir>, (usize, usize))>,
    source: Shown,
    target: Shown,
}

impl<'s, 'env, 'w: 's> Worker<'s, 'env, 'w> {
    fn new(walk: &'s Walk<'w>, scope: &'s Scope<'s, 'env>) -> Self {
        let (source, target) = walk.names;
        Self {
            walk,
            scope,
            listed: Vec::new(),
            at: None,
            source: Shown::new(source),
            target: Shown::new(target),
        }
    }

    fn work(mut self) {
        while let Some((task, _busy)) = self.walk.queue.take() {
            match task {
                // A directory already made gets its attributes all the same.
                Task::List(dir, _)
                | Task::Files(dir, _)
                | Task::Last(dir, _)
                | Task::Directories(dir, _)
                    if self.is_stopped() =>
                {
                    self.one_done(dir);
                }
                Task::List(dir, pair) => self.list(dir, pair),
                Task::Files(dir, batch) => self.files(dir, batch),
                Task::Last(dir, batch) => self.last(dir, batch),
                Task::Directories(dir, batch) => self.directories(dir, batch),
            }
        }
    }

    /// Adds a task, and a thread for it if there may be one more.
    fn give(&self, task: Task) {
        let (walk, scope) = (self.walk, self.scope);
        // A thread is started only when there is work that no idle one takes.
        if walk.queue.add(task, walk.most_threads)
            && thread::Builder::new()
                .spawn_scoped(scope, move || Worker::new(walk, scope).work())
                .is_err()
        {
            walk.queue.leave();
        }
    }

    /// Lists a part of a directory. The tasks that follow are taken in this order: the files, the subdirectories,
    /// the next part. `pair` is the directory's, if another part was listed before.
    fn list(&mut self, dir: Arc<Dir>, pair: Option<Arc<Pair>>) {
        let mut part = Part::default();
        let walk = self.walk;
        // A mirror removes nothing before the names of the source are known to their end.
        // In a directory just made there is nothing to remove.
        let is_mirrored = walk.limits.is_some() && !dir.is_new;
        let wanted = self.wanted();
        self.go_to(&dir);
        if pair.is_none()
            && let Err(error) = self.learn_ignored(&dir)
        {
            // Also after a failure: otherwise its descriptors would be kept to the end.
            dir.is_listed();
            self.failed(error);
            return self.one_done(dir);
        }
        let listed = pair.map_or_else(|| self.pair(&dir), Ok).and_then(|pair| {
            let (in_batches, to_the_end) =
                (walk.most_threads > 1, is_mirrored || walk.budget.is_short());
            let end = part.read(&pair, &mut self.listed, wanted, in_batches, to_the_end)?;
            if let Extent::Share(parts) = walk.common.extent {
                part.begin_as(parts.shard);
            }
            Ok((pair, end))
        });
        let listed = match listed {
            Ok((pair, End::More)) => {
                dir.waits_for_more(1);
                // The rest is a task of its own: the first files are copied while a large directory is still being listed.
                self.give(Task::List(Arc::clone(&dir), Some(pair)));
                Ok(())
            }
            Ok((pair, End::Done)) => {
                dir.is_listed();
                if is_mirrored {
                    self.mirror(&dir, &pair);
                }
                Ok(())
            }
            Err(errno) => {
                dir.is_listed();
                Err(errno)
            }
        };
        if let Err(errno) = listed {
            self.go_to(&dir);
            self.failed(match errno {
                Errno::STALE => dir.lost(self.source.path(), errno),
                errno => Error::os(self.source.path(), "cannot list", errno),
            });
        }
        if !part.directories.is_empty() {
            dir.waits_for_more(part.directories.len());
            self.give(Task::Directories(Arc::clone(&dir), part.directories));
        }
        for batch in part.batches {
            dir.waits_for_more(1);
            self.give(Task::Files(Arc::clone(&dir), batch));
        }
        match part.files.is_empty() {
            true => self.one_done(dir),
            false => self.files(dir, part.files),
        }
    }

    /// The entries that this walk has something to do with: after the shares, files only where some come last or may be in nobody's share.
    fn wanted(&self) -> Wanted {
        let Common { options, extent, .. } = self.walk.common;
        match extent {
            Extent::Rest { parts, .. } if options.last.is_none() && !parts.may_miss_files() => {
                // Rank 0's second walk completes directories; a look at every file would double the work.
                Wanted::Directories(options.dereference)
            }
            _ => Wanted::All,
        }
    }

    fn learn_ignored(&self, dir: &Arc<Dir>) -> Result<(), Error> {
        if !self.walk.common.options.gitignore {
            return Ok(());
        }
        // The listing tells why.
        let Ok(pair) = self.pair(dir) else { return Ok(()) };
        if !pair.is_readable {
            return Ok(());
        }
        let path_bytes = self.source.below_root().as_os_str().len();
        dir.learn_ignored(&pair, (self.source.path(), path_bytes))
    }

    /// Removes from the target of a directory what the source lacks.
    fn mirror(&self, dir: &Dir, pair: &Pair) {
        let walk = self.walk;
        self.with_mirror(dir, pair, |mirror| {
            let mut target = self.target.clone();
            mirror.run(&mut target, |path, result| {
                if result.is_err() {
                    self.note_failure();
                }
                let mut events = &walk.listener;
                events.mirrored(path, &result);
            });
        });
    }

    fn with_mirror<T>(
        &self,
        dir: &Dir,
        pair: &Pair,
        act: impl FnOnce(&Mirror<'_>) -> T,
    ) -> Option<T> {
        let limits = self.walk.limits.as_ref()?;
        Some(act(&Mirror {
            pair,
            limits,
            is_in_source: dir.target_is_within(|stat| limits.holds_source(stat)),
            is_dry: self.walk.common.options.dry_run,
            is_protected: &|path, is_directory| self.leaves_out(dir, path, is_directory),
            is_stopped: &|| self.is_stopped(),
        }))
    }

    /// Removes the target of an entry, whose paths are set, for a source of another kind.
    fn replace(
        &self,
        (dir, pair): (&Dir, &Pair),
        name: &OsStr,
        is_directory: bool,
    ) -> Result<(), Error> {
        let removed = self.with_mirror(dir, pair, |mirror| {
            mirror.replace(name, is_directory, &mut self.target.clone())
        });
        match removed.transpose()? {
            Some(Removed::InPart) => {
                let text =
                    "not replaced: the filters keep something of it, or the copy ends at an error";
                Err(Error::refusal(self.target.path(), text))
            }
            Some(Removed::Wholly) => {
                let mut events = &self.walk.listener;
                events.mirrored(self.target.path(), &Ok(()));
                Ok(())
            }
            // Without a mirror nothing is in the way.
            None => Ok(()),
        }
    }

    /// Removes a directory in the place of a file, if the file can be read.
    fn replace_directory(
        &self,
        (dir, pair): (&Dir, &Pair),
        name: &OsStr,
        source_stat: &Stat,
    ) -> Result<(), Error> {
        if self.walk.limits.is_none() || dir.is_new {
            return Ok(());
        }
        let (source, target) = self.places(pair, name);
        match target.stat(false) {
            Ok(stat) if kind(&stat) == FileType::Directory => {}
            _ => return Ok(()),
        }
        let readable = match kind(source_stat) {
            FileType::RegularFile => {
                // Nothing good is removed for a source that cannot be read.
                source.open(OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).map(|_| ())
            }
            FileType::Symlink => {
                retry_on_intr(|| fs::readlinkat(source.dir, source.name, Vec::new())).map(|_| ())
            }
            _ => Ok(()),
        };
        readable.map_err(|errno| Error::os(source.shown, "cannot open for reading", errno))?;
        self.replace((dir, pair), name, true)
    }

    /// Is an entry left out by its name?
    fn leaves_out(&self, dir: &Dir, path: &Path, is_directory: bool) -> bool {
        let filter = self.walk.common.options.filter.as_ref();
        filter.is_some_and(|filter| filter.excludes(path, is_directory))
            || dir.ignores(path, is_directory)
    }

    fn is_stopped(&self) -> bool {
        let walk = self.walk;
        let cancel = walk.common.options.moving.cancel.as_ref();
        // A copy that was stopped is no complete one, whatever was copied by then.
        if cancel.is_some_and(gush::Cancel::is_cancelled) {
            walk.is_incomplete.store(true, Ordering::Relaxed);
            return true;
        }
        walk.is_stopped.load(Ordering::Relaxed)
    }

    fn note_failure(&self) {
        self.walk.is_incomplete.store(true, Ordering::Relaxed);
        if self.walk.common.options.stop_at_error {
            self.walk.is_stopped.store(true, Ordering::Relaxed);
        }
    }

    fn files(&mut self, dir: Arc<Dir>, mut batch: Batch) {
        self.go_to(&dir);
        match self.pair(&dir) {
            Ok(pair) => {
                while let Some(name) = batch.take() {
                    if self.is_stopped() {
                        break;
                    }
                    let name = name.to_owned();
                    self.file((&dir, &pair), &name, &mut batch, false);
                }
            }
            Err(errno) => self.failed(dir.lost(self.source.path(), errno)),
        }
        self.one_done(dir);
    }

    /// Copies one entry. A directory found here, of a file system that tells no types or behind a link, is a task of its
    /// own; so are the files behind a large one.
    fn file(
        &mut self,
        (dir, pair): (&Arc<Dir>, &Pair),
        name: &OsStr,
        rest: &mut Batch,
        is_last: bool,
    ) {
        let walk = self.walk;
        let before = (self.source.push(name), self.target.push(name));
        let (source, target) = self.places(pair, name);
        // Asked once a directory: each new file in it inherits the same list.
        dir.learn_acl(pair, walk.common.options);
        let follow = walk.common.options.dereference != Dereference::Never;
        let result = match source.stat(follow) {
            Err(errno) => Err(Error::os(source.shown, "cannot stat", errno)),
            Ok(stat) if kind(&stat) == FileType::Directory => {
                let mut one = Batch::default();
                // A directory after all: a link that is followed, or a file system whose listing tells no kinds.
                one.add(name.as_encoded_bytes());
                dir.waits_for_more(1);
                self.give(Task::Directories(Arc::clone(dir), one));
                self.back_to(before);
                return;
            }
            Ok(_) if self.leaves_out(dir, self.source.below_root(), false) => {
                self.back_to(before);
                return;
            }
            Ok(stat) if !is_last && self.is_divided(dir, &stat, &target) => {
                let result = self.with_descriptors(|| self.divided(dir, (source, &stat), target));
                match result.transpose() {
                    Some(result) => result,
                    None => {
                        self.back_to(before);
                        return;
                    }
                }
            }
            Ok(stat) if !is_last && !self.is_due(&stat, &target) => {
                self.back_to(before);
                return;
            }
            Ok(_) if !is_last && self.waits_for_the_others() => {
                let mut one = Batch::default();
                one.add(name.as_encoded_bytes());
                dir.waits_for_more(1);
                walk.waits_with_last(dir);
                // The directory waits for it: its times must be set after its last file.
                walk.queue.add_last(Task::Last(Arc::clone(dir), one));
                self.back_to(before);
                return;
            }
            Ok(stat) => {
                // The files behind a large one would wait for it, with other threads idle.
                if stat.st_size >= LARGE_BYTES && !rest.is_empty() && walk.most_threads > 1 {
                    dir.waits_for_more(1);
                    self.give(Task::Files(Arc::clone(dir), mem::take(rest)));
                }
                let is_new = Cell::new(dir.is_new);
                self.with_descriptors(|| {
                    self.replace_directory((dir, pair), name, &stat)?;
                    let mut events = &walk.listener;
                    // A second attempt may find the first one's file.
                    let to = (target, is_new.replace(false));
                    walk.common.copy_file((source, stat), to, Some(dir), &mut events)
                })
            }
        };
        self.ended(&result);
        self.back_to(before);
    }

    /// Copies files that come after all the others.
    fn last(&mut self, dir: Arc<Dir>, mut batch: Batch) {
        let walk = self.walk;
        // Once, by whichever thread comes first; the others wait for it.
        walk.others_synced.get_or_init(|| self.sync_others());
        self.go_to(&dir);
        // Relaxed: the queue's lock lies between the last ordinary task and the first of these.
        let others_failed = self.walk.is_incomplete.load(Ordering::Relaxed);
        let pair = self.pair(&dir);
        while let Some(name) = batch.take() {
            let name = name.to_owned();
            let before = (self.source.push(&name), self.target.push(&name));
            let ready = match (&pair, others_failed) {
                (_, true) => {
                    let text = "not copied: it comes last, and not everything else was copied";
                    Err(Error::refusal(self.source.path(), text))
                }
                (Err(errno), false) => Err(dir.lost(self.source.path(), *errno)),
                (Ok(pair), false) => Ok(pair),
            };
            match ready {
                Ok(pair) => {
                    self.back_to(before);
                    self.file((&dir, pair), &name, &mut batch, true);
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
    fn is_due(&self, source: &Stat, target: &Place<'_>) -> bool {
        let walk = self.walk;
        let shard = match walk.common.extent {
            Extent::Whole => return true,
            Extent::Rest { others_failed, parts } => {
                // A file that one rank saw large and another small is in nobody's share.
                let is_missed = !others_failed
                    && parts.may_miss_files()
                    && matches!(target.stat(false), Err(Errno::NOENT));
                return is_missed || self.waits_for_the_others();
            }
            Extent::Share(_) if self.waits_for_the_others() => return false,
            Extent::Share(parts) => parts.shard,
        };
        let Counts { seen, files, bytes, .. } = &walk.counts;
        seen.fetch_add(1, Ordering::Relaxed);
        let has_names = walk.common.options.preserve.links && source.st_nlink > 1;
        let is_due = match has_names {
            // All names of a file go to one rank, which alone can link them.
            true => shard.takes_all_names(source),
            false => shard.takes(self.source.below_root()),
        };
        if is_due {
            files.fetch_add(1, Ordering::Relaxed);
            let source_bytes = match kind(source) {
                FileType::RegularFile => u64::try_from(source.st_size).unwrap_or(0),
                _ => 0,
            };
            bytes.fetch_add(source_bytes, Ordering::Relaxed);
        }
        is_due
    }

    /// Is this file copied in pieces? All ranks must say the same: nothing is at the target before rank 0 puts it there. A directory that gives
    /// its files a group or an access control list must be the one in which they are made.
    fn is_divided(&self, dir: &Dir, source: &Stat, target: &Place<'_>) -> bool {
        // `S_ISGID` of a directory: a new file gets the group of the directory it is made in (inode(7)).
        const SET_GROUP: u32 = 0o2000;
        !matches!(self.walk.common.extent, Extent::Whole)
            && parts::is_divided(self.walk.common.options, source)
            && !self.waits_for_the_others()
            && !dir.may_give_acl()
            && dir.target_stat.st_mode & SET_GROUP == 0
            && matches!(target.stat(false), Err(Errno::NOENT))
    }

    /// Copies this rank's pieces of a large file; as rank 0, after all shares, gives the file its place. `None` where nothing is to be told.
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
                let Counts { seen, divided, files, bytes } = &walk.counts;
                seen.fetch_add(1, Ordering::Relaxed);
                divided.fetch_add(1, Ordering::Relaxed);
                files.fetch_add(parts.shard.takes(path).into(), Ordering::Relaxed);
                bytes.fetch_add(parts.own_bytes(path, stat), Ordering::Relaxed);
                let job = walk.common.job((source, *stat), target, Some(dir));
                parts.copy_own(&job, path, &mut events)?;
                return Ok(None);
            }
            Extent::Rest { parts, .. } => parts.whole(path, stat).map(|name| (parts, name)),
        };
        let others_failed = walk.is_incomplete.load(Ordering::Relaxed);
        let to = (target, true);
        match &whole {
            // The rank that failed copies its pieces when it is started again.
            None if others_failed => Ok(None),
            None => walk.common.copy_file((source, *stat), to, Some(dir), &mut events).map(Some),
            Some((parts, name)) => {
                let assembled = Some(parts.place(name, target.shown));
                let common = Common { assembled, ..walk.common };
                let placed = common.copy_file((source, *stat), to, Some(dir), &mut events);
                // rename(2) answers EXDEV also between two mounts of one file system, and between projects with quotas of their own.
                match placed {
                    Err(error) if error.is_across_devices() => {
                        walk.common.copy_file((source, *stat), to, Some(dir), &mut events)
                    }
                    placed => placed,
                }
                .map(Some)
            }
        }
    }

    fn waits_for_the_others(&self) -> bool {
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

    fn directories(&mut self, dir: Arc<Dir>, mut batch: Batch) {
        let Some(name) = batch.take() else { return };
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
            Err(errno) => Err(dir.lost(self.source.path(), errno)),
        };
        match entered {
            Ok(Some(child)) => {
                self.walk.budget.opened();
                self.walk.budget.rest(&dir);
                let options = self.walk.common.options;
                // As GNU: the directory is made, and its entries are another file system's.
                let is_left_out =
                    options.one_file_system && child.source_stat.st_dev != dir.source_stat.st_dev;
                match is_left_out {
                    true => self.one_done(child),
                    false => self.list(child, None),
                }
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
        let stat =
            source.stat(follow).map_err(|errno| Error::os(source.shown, "cannot stat", errno))?;
        let made =
            walk.common.journal.map(|journal| (journal, journal::entry(&dir.target_stat, name)));
        let is_shared = matches!(walk.common.extent, Extent::Share(_));
        let (source_stat, is_new) = (&stat, dir.is_new && !is_shared);
        let replace = || self.replace((dir, pair), name, false);
        let replace = walk.limits.is_some().then_some(&replace as &dyn Fn() -> _);
        let entrance =
            Entrance { options, source, source_stat, target, is_new, is_shared, made, replace };
        let existing = entrance.existing()?;
        if operands.targets.contains(&FileId::of(&stat)) {
            return self.leave_out_target(&source).map(|()| None);
        }
        self.refuse_second_visit(dir, (&source, &stat), &target)?;
        if let Existing::Directory { is_link: true, .. } = existing {
            walk.common.copied.check_link_just_made(options, &source, &target)?;
        }
        let mut events = &walk.listener;
        let entered = entrance.enter(&existing, &|| walk.umask(), &mut events)?;
        let start = Start::of(Some(Arc::clone(dir)), name.into(), stat, entered, options.dry_run);
        Ok(Some(Dir::start(start)))
    }

    /// Leaves out a directory that this command copies to, which is told once a tree.
    fn leave_out_target(&self, source: &Place<'_>) -> Result<(), Error> {
        let walk = self.walk;
        walk.is_incomplete.store(true, Ordering::Relaxed);
        if walk.has_told_of_circle.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let (from, to) = (quote::always(walk.names.0), quote::always(walk.names.1));
        let text = format!("cannot copy a directory, {from}, into itself, {to}");
        Err(Error::about_both(source.shown, text))
    }

    /// Refuses a directory that was copied already.
    fn refuse_second_visit(
        &self,
        dir: &Dir,
        (source, stat): (&Place<'_>, &Stat),
        target: &Place<'_>,
    ) -> Result<(), Error> {
        let Walk { operands, common, .. } = self.walk;
        if common.options.dereference == Dereference::Always {
            return match dir.is_within(stat) {
                true => Err(Error::refusal(source.shown, "cannot copy cyclic symbolic link")),
                false => Ok(()),
            };
        }
        match operands.sources.get(&FileId::of(stat)) {
            Some((_, shown)) => Err(twice(target, shown)),
            None => Ok(()),
        }
    }

    /// The places of an entry whose name was just added to both paths.
    fn places<'p>(&'p self, pair: &'p Pair, name: &'p OsStr) -> (Place<'p>, Place<'p>) {
        let name = Path::new(name);
        let root: BorrowedFd<'p> = self.walk.root_pair.target();
        let confined = self.walk.common.options.confine;
        let bounds = confined.then(|| Bounds { root, path: self.target.below_root() });
        let target = Place::below(pair.target(), name, self.target.path());
        (Place::below(pair.source(), name, self.source.path()), Place { bounds, ..target })
    }

    /// Sets the paths to a directory's. Most often it is the one above or below the last.
    fn go_to(&mut self, dir: &Arc<Dir>) {
        let is = |other: Option<&Arc<Dir>>| other.is_some_and(|other| Arc::ptr_eq(other, dir));
        match self.at.take() {
            Some((at, lengths)) if is(Some(&at)) => self.back_to(lengths),
            Some((at, lengths)) if dir.parent().is_some_and(|above| Arc::ptr_eq(above, &at)) => {
                self.back_to(lengths);
                self.source.push(&dir.name);
                self.target.push(&dir.name);
            }
            Some((at, lengths)) if is(at.parent()) => {
                self.back_to(lengths);
                self.source.pop(&at.name);
                self.target.pop(&at.name);
            }
            _ => {
                let path = dir.path();
                self.source.set(&path);
                self.target.set(&path);
            }
        }
        self.at = Some((Arc::clone(dir), (self.source.length(), self.target.length())));
    }

    /// The descriptors of a directory, reopened if they were let go.
    fn pair(&self, dir: &Arc<Dir>) -> io::Result<Arc<Pair>> {
        let was_held = dir.is_held();
        let pair = loop {
            match dir.pair() {
                Err(Errno::MFILE | Errno::NFILE) if self.walk.budget.shrink() => {}
                other => break other?,
            }
        };
        if !was_held {
            self.walk.budget.hold(dir, &pair);
        }
        Ok(pair)
    }

    /// Does something again if there was no descriptor left for it, as long as directories can be let go.
    fn with_descriptors<T>(&self, act: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
        loop {
            match act() {
                Err(error) if error.is_out_of_descriptors() && self.walk.budget.shrink() => {}
                done => return done,
            }
        }
    }

    fn back_to(&mut self, (source, target): (usize, usize)) {
        self.source.back_to(source);
        self.target.back_to(target);
    }

    /// Tells of the entry whose paths are set.
    fn ended(&self, result: &Result<Done, Error>) {
        if !result.as_ref().is_ok_and(|done| done.complete) {
            self.note_failure();
        }
        self.walk.listener.entry_ended(self.source.path(), self.target.path(), result);
    }

    fn failed(&self, error: Error) {
        self.ended(&Err(error));
    }

    /// One of the things that a directory waits for is done. The last one completes the directory, which in turn is one
    /// thing done for the directory above.
    fn one_done(&mut self, mut dir: Arc<Dir>) {
        // A loop, because a directory may complete its parent and so on: recursion would be as deep as the tree.
        while dir.is_complete_now() {
            self.go_to(&dir);
            let pair = self.pair(&dir);
            let complete = self.finish(&dir, &pair);
            if let (Ok(pair), Some(parent)) = (pair, dir.parent()) {
                // While the child is still held: `..` of it leads to a parent that was let go.
                self.hold_parent(parent, &pair);
            }
            self.walk.budget.let_go(&dir);
            let Some(parent) = dir.parent().cloned() else {
                if !complete {
                    self.walk.is_incomplete.store(true, Ordering::Relaxed);
                }
                return;
            };
            if !matches!(self.walk.common.extent, Extent::Share(_)) {
                self.ended(&Ok(Done { complete, ..Done::new(Action::Directory) }));
            }
            dir = parent;
        }
    }

    /// Reopens a directory that was let go from one of its subdirectories, by two calls at any depth.
    fn hold_parent(&self, parent: &Arc<Dir>, below: &Pair) {
        if !parent.is_held()
            && let Ok(pair) = parent.reopen_from(below)
        {
            self.walk.budget.hold(parent, &Arc::new(pair));
        }
    }

    /// Gives a directory its attributes; `false` if something required could not be set.
    fn finish(&self, dir: &Dir, pair: &io::Result<Arc<Pair>>) -> bool {
        let walk = self.walk;
        let options = walk.common.options;
        // Other ranks still write below: rank 0 gives the attributes at the end.
        if options.dry_run || matches!(walk.common.extent, Extent::Share(_)) {
            return true;
        }
        let shown = self.target.path();
        let mut events = &walk.listener;
        let pair = match pair {
            Ok(pair) => pair,
            Err(errno) => {
                events.warns(&dir.lost(shown, *errno));
                return false;
            }
        };
        let target = pair.target_handle();
        // The final mode may forbid reading, as fsync needs it.
        let synced = options.sync.then(|| open_to_sync(pair));
        let mut complete = Transfer {
            options,
            source: pair.source_handle(),
            source_stat: &dir.source_stat,
            source_shown: self.source.path(),
            target,
            target_shown: shown,
            target_stat: Some(dir.target_stat),
            created: dir.is_new,
            may_inherit_acl: true,
            provisional_bits: 0,
        }
        .apply(&mut events);
        if options.preserve.mode == ModeRule::Umask
            && let Err(errno) = new_directory::restore(target, ModeRule::Umask, dir.restore_bits)
        {
            events.warns(&Error::os(shown, "cannot preserve permissions", errno));
            complete &= !options.preserve.required;
        }
        if let Some(opened) = synced
            && let Err(errno) = opened.and_then(|dir| retry_on_intr(|| fs::fsync(&dir)))
        {
            events.warns(&Error::os(shown, "cannot sync", errno));
            complete = false;
        }
        complete
    }
}

fn open_to_sync(pair: &Pair) -> io::Result<OwnedFd> {
    let here = Path::new(".");
    Place::below(pair.target(), here, here).open(OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
}

fn sync_target(pair: &Pair) -> io::Result<()> {
    let opened = open_to_sync(pair)?;
    retry_on_intr(|| fs::fsync(&opened))
}
