//! The walk through a tree: tasks, threads, and the listing of a directory.
//!
//! Below a listed directory are three jobs: its files, its subdirectories, and in a mirror the
//! removal of what the source lacks. What of a tree this process copies, the
//! [`Partition`](super::partition::Partition) decides.

mod directories;
mod files;
mod mirroring;
mod verified;

use std::cell::Cell;
use std::ffi::OsStr;
use std::mem;
use std::num::NonZero;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use gush::Unpoisoned;
use gush::pace::{Meter, Pace};
use rustix::io::{self, Errno};
use rustix::thread::{get_keep_capabilities, set_keep_capabilities};

use self::verified::Verified;
use super::batch::{Listed, Listing, ListingPart};
use super::budget::{Budget, Capacity};
use super::dir::{Dir, Pair};
use super::held::lost;
use super::listener::Listener;
use super::mirror::{Aside, Limits};
use super::partition::Others;
use super::path::TreePath;
use super::queue::{Busy, Queue, Taken, Task};
use super::{Operands, Roots};
use crate::atomic;
use crate::copier::Done;
use crate::error::Error;
use crate::events::{Events, TreeCounts};
use crate::file::Common;
use crate::filter::GitIgnored;
use crate::metadata::umask;
use crate::options::{CopyOptions, ModeRule};
use crate::place::{Bounds, Place};

/// A tree on its way from one root to another.
pub(crate) struct Walk<'a> {
    common: Common<'a>,
    operands: &'a Operands,
    /// Of a mirror.
    limits: Option<Limits>,
    /// The root's descriptors, for links within the target.
    root_pair: Arc<Pair>,
    roots: Roots<'a>,
    listener: Listener<'a>,
    queue: Queue,
    budget: Budget,
    most_threads: usize,
    /// The number of threads follows what they measure.
    has_pace: bool,
    umask: OnceLock<u32>,
    is_incomplete: AtomicBool,
    has_reported_cycle: AtomicBool,
    /// An entry failed, and the user wants no more of them.
    is_stopped: AtomicBool,
    /// The directories with files that come after all the others, which are not complete before.
    with_last: Mutex<Vec<Arc<Dir>>>,
    /// For these files, and for those that other processes have left: each appears whole.
    options_of_last: Option<CopyOptions>,
    /// The others are on stable storage, or the user knows why not.
    others_synced: OnceLock<()>,
    /// One of these files has its name.
    has_published: AtomicBool,
    /// The files that were compared, not yet looked at again.
    verified: Mutex<Vec<Verified>>,
    /// What was set aside for another kind.
    aside: Mutex<Vec<Aside>>,
    /// All is copied, and what the source lacks may be removed; known once the last files are done.
    is_committed: OnceLock<bool>,
}

/// So many files are worth waking a thread for, wherever they are.
const SHARED_FILES: usize = 16;
/// The most threads, where each of them mostly waits for a server or a disk.
const MOST_WAITING: usize = 64;
/// The interval at which a thread reports what it has done.
const REPORT_INTERVAL: Duration = Duration::from_millis(50);
/// The bytes of a file so large are shown while they move, under its name.
const SHOWN_APART_BYTES: u64 = 1 << 20;

/// Gives this thread its own copy of the process's credentials. Each open file counts a reference
/// to them, and threads that share them contend for the count twice a file.
fn own_credentials() {
    // Setting the flag to its present value copies the credentials (`cap_task_prctl` of
    // security/commoncap.c). If that is denied, they stay shared.
    if let Ok(keeps) = get_keep_capabilities() {
        let _ = set_keep_capabilities(keeps);
    }
}

impl<'a> Walk<'a> {
    pub(crate) fn new(
        common: &Common<'a>,
        operands: &'a Operands,
        limits: Option<Limits>,
        root: Arc<Dir>,
        roots: Roots<'a>,
        events: &'a mut dyn Events,
    ) -> Self {
        let (options, others) = (common.options, common.partition.others());
        let (threads, most) = match options.moving.threads {
            // Questions come one after the other.
            _ if options.ask => (1, 1),
            0 => {
                let processors = thread::available_parallelism().map_or(1, NonZero::get);
                // A rate makes threads wait, too.
                let most = if common.limit.is_some() { 1 } else { MOST_WAITING };
                (processors, processors.max(most))
            }
            threads => (threads, threads),
        };
        let root_pair = root.pair().expect("a directory just opened is held");
        let share = Capacity::of_limit(root_pair.target(), most);
        let pace = Pace::new(threads.min(share.threads), share.threads);
        Self {
            common: *common,
            operands,
            limits,
            // Held for the whole walk, because all other directories can be reopened from there.
            root_pair,
            budget: Budget::new(share),
            has_pace: !pace.is_fixed(),
            queue: Queue::start(Task::List(root, None), pace),
            roots,
            listener: Listener::new(events),
            most_threads: share.threads,
            umask: OnceLock::new(),
            is_incomplete: AtomicBool::new(others == Others::Finished { failed: true }),
            has_reported_cycle: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            with_last: Mutex::default(),
            options_of_last: (options.last.is_some() || matches!(others, Others::Finished { .. }))
                .then(|| CopyOptions { atomic: true, ..options.clone() }),
            others_synced: OnceLock::new(),
            has_published: AtomicBool::new(false),
            verified: Mutex::default(),
            aside: Mutex::default(),
            is_committed: OnceLock::new(),
        }
    }

    /// Copies everything. Returns whether nothing failed.
    pub(crate) fn run(self) -> bool {
        // The caller's thread works too: a small tree needs no other.
        thread::scope(|scope| Worker::new(&self, scope).work());
        self.verify_again();
        self.listener.ends(self.roots.target);
        !self.is_incomplete.into_inner()
    }

    fn waits_with_last(&self, dir: &Arc<Dir>) {
        let mut waiting = self.with_last.lock().unpoisoned();
        // Files of one directory come one after the other, so a look at the last one is enough.
        if waiting.last().is_none_or(|known| !Arc::ptr_eq(known, dir)) {
            waiting.push(Arc::clone(dir));
        }
        // Any number of directories may wait.
        self.budget.rest(dir);
    }

    fn note_failure(&self) {
        self.is_incomplete.store(true, Ordering::Relaxed);
        if self.common.options.stop_at_error {
            self.is_stopped.store(true, Ordering::Relaxed);
        }
    }

    fn is_cancelled(&self) -> bool {
        let cancel = self.common.options.moving.cancel.as_ref();
        let is_cancelled = cancel.is_some_and(gush::Cancel::is_cancelled);
        // A copy that was stopped is no complete one, whatever was copied by then.
        if is_cancelled {
            self.is_incomplete.store(true, Ordering::Relaxed);
        }
        is_cancelled
    }

    fn umask(&self) -> u32 {
        *self.umask.get_or_init(umask)
    }
}

/// A directory, and descriptors of it.
#[derive(Clone, Copy)]
struct OpenDir<'a> {
    dir: &'a Arc<Dir>,
    pair: &'a Pair,
}

/// One thread of a walk.
struct Worker<'s, 'env, 'w> {
    walk: &'s Walk<'w>,
    scope: &'s Scope<'s, 'env>,
    /// The buffer of getdents64(2), empty between two listings.
    listed: Vec<u8>,
    /// The directory that the paths lead to, and their lengths there.
    at: Option<(Arc<Dir>, (usize, usize))>,
    source: TreePath,
    target: TreePath,
    /// What this thread has done since its last report, and when that was.
    counts: Cell<TreeCounts>,
    reported: Cell<Instant>,
    meter: Cell<Option<Meter>>,
}

impl<'s, 'env, 'w: 's> Worker<'s, 'env, 'w> {
    fn new(walk: &'s Walk<'w>, scope: &'s Scope<'s, 'env>) -> Self {
        let Roots { source, target } = walk.roots;
        Self {
            walk,
            scope,
            listed: Vec::new(),
            at: None,
            source: TreePath::new(source),
            target: TreePath::new(target),
            counts: Cell::default(),
            reported: Cell::new(Instant::now()),
            meter: Cell::new(walk.has_pace.then(|| Meter::start(walk.queue.threads()))),
        }
    }

    fn work(mut self) {
        while let Some((task, _busy)) = self.next() {
            match task {
                // Also where stopped: what was set aside is put back.
                Task::Remove(dir) => self.remove_after_last(dir),
                task if self.is_stopped() => self.leave(task),
                Task::List(dir, pair) => self.list(&dir, pair),
                Task::Files(dir, batch) => self.files(dir, batch, true),
                Task::Last(dir, batch) => self.last(dir, batch),
                Task::Directories(dir, batch) => self.directories(dir, batch),
            }
        }
    }

    fn next(&self) -> Option<(Task, Busy<'s>)> {
        let walk = self.walk;
        // The next task may be as far away as the end of a large file.
        if self.has_counts() && !walk.queue.has_tasks() {
            self.report_counts();
        }
        let taken = walk.queue.take();
        // Another thread may have taken the last task in between.
        if taken.is_none() && self.has_counts() {
            self.report_counts();
        }
        let Taken { task, busy, has_waited } = taken?;
        if has_waited && let Some(mut meter) = self.meter.get() {
            meter.restart(walk.queue.threads());
            self.meter.set(Some(meter));
        }
        Some((task, busy))
    }

    /// Are there counts not yet reported?
    fn has_counts(&self) -> bool {
        self.counts.get() != TreeCounts::default()
    }

    /// Leaves a task undone. A directory already made gets its attributes all the same.
    fn leave(&mut self, task: Task) {
        let (dir, things) = match task {
            // The directory waits for each of its subdirectories.
            Task::Directories(dir, batch) => (dir, batch.len()),
            Task::List(dir, _) | Task::Files(dir, _) | Task::Last(dir, _) | Task::Remove(dir) => {
                (dir, 1)
            }
        };
        for _ in 0..things {
            self.one_done(Arc::clone(&dir));
        }
    }

    /// Adds a task, and a thread for it if there may be one more.
    fn give(&self, task: Task) {
        let (walk, scope) = (self.walk, self.scope);
        // A thread is started only when there is work that no idle one takes.
        if walk.queue.add(task)
            && thread::Builder::new()
                .spawn_scoped(scope, move || {
                    own_credentials();
                    Worker::new(walk, scope).work();
                })
                .is_err()
        {
            walk.queue.leave();
        }
    }

    /// Lists a directory, or the rest of it, and copies the files, as far as no other thread does.
    fn list(&mut self, dir: &Arc<Dir>, mut pair: Option<Arc<Pair>>) {
        loop {
            pair = self.list_part(Arc::clone(dir), pair);
            if pair.is_none() {
                break;
            }
            if self.is_stopped() {
                self.one_done(Arc::clone(dir));
                break;
            }
        }
    }

    /// Lists a part of a directory. The tasks that follow are taken in this order: the files, the
    /// subdirectories, the next part. `pair` is the directory's, if another part was listed before.
    /// Returns the pair where the next part is this thread's.
    fn list_part(&mut self, dir: Arc<Dir>, pair: Option<Arc<Pair>>) -> Option<Arc<Pair>> {
        let (mut part, mut next) = (ListingPart::default(), None);
        let walk = self.walk;
        let mut is_shared = false;
        // A mirror removes nothing before the names of the source are known to their end.
        // In a directory just made there is nothing to remove.
        let is_mirrored = walk.limits.is_some() && !dir.is_new;
        let is_first = pair.is_none();
        self.go_to(&dir);
        if is_first {
            self.remove_leftovers(&dir);
        }
        if pair.is_none()
            && let Err(error) = self.learn_ignored(&dir)
        {
            // Also after a failure: otherwise its descriptors would be kept to the end.
            dir.is_listed();
            self.failed(error);
            self.one_done(dir);
            return None;
        }
        let listed = pair.map_or_else(|| self.pair(&dir), Ok).and_then(|pair| {
            if walk.common.partition.skips_listing(&walk.common, &pair) {
                return Ok((pair, Listing::Done));
            }
            let to_the_end = is_mirrored || walk.budget.is_short();
            let mut buffer = mem::take(&mut self.listed);
            let mut owner = walk.common.partition.lister(&walk.common, &dir, &mut self.source);
            let end = part.read(&pair, &mut buffer, to_the_end, &mut owner);
            drop(owner);
            self.listed = buffer;
            part.directories.begin_after(walk.common.partition.first_of(part.directories.len()));
            Ok((pair, end?))
        });
        let listed = match listed {
            Ok((pair, Listing::More)) => {
                dir.waits_for_more(1);
                // The kernel holds the lock of a directory while a file is made there: two threads
                // in one directory wait for each other. So the next part is this thread's as long
                // as others have other work. Subdirectories come first, so that few names wait.
                if part.directories.is_empty() && walk.queue.has_tasks() {
                    next = Some(pair);
                } else {
                    is_shared = true;
                    self.give(Task::List(Arc::clone(&dir), Some(pair)));
                }
                Ok(())
            }
            Ok((pair, Listing::Done)) => {
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
                Errno::STALE => lost(self.source.path(), errno),
                errno => Error::os(self.source.path(), "cannot access {}", errno),
            });
        }
        if is_first {
            for name in walk.common.partition.known_files(self.source.below_root()) {
                part.files.add(Listed { name, is_regular: false, is_mine: true });
            }
        }
        if !part.directories.is_empty() {
            dir.waits_for_more(part.directories.len());
            self.give(Task::Directories(Arc::clone(&dir), part.directories));
        }
        match part.files.is_empty() {
            true => self.one_done(dir),
            false => self.files(dir, part.files, is_shared && walk.most_threads > 1),
        }
        next
    }

    /// Removes what the killed copy that this one goes on with has left under temporary names.
    fn remove_leftovers(&self, dir: &Arc<Dir>) {
        let Common { partition, journal, .. } = self.walk.common;
        let Some(journal) = journal else { return };
        // A second walk finds none.
        let is_second = matches!(partition.others(), Others::Finished { .. });
        if !(dir.is_new || is_second)
            && let Some(mark) = journal.earlier_mark()
            && let Ok(pair) = self.pair(dir)
        {
            atomic::remove_leftovers(pair.target(), mark);
        }
    }

    fn learn_ignored(&self, dir: &Arc<Dir>) -> Result<(), Error> {
        if !self.walk.common.options.gitignore {
            return Ok(());
        }
        // The listing reports why.
        let Ok(pair) = self.pair(dir) else { return Ok(()) };
        if !pair.source.is_readable {
            return Ok(());
        }
        let above = dir.above.as_ref().and_then(|above| above.ignored.get()?.as_ref());
        let lines = GitIgnored::lines(pair.source(), self.source.path())?;
        let _ = dir.ignored.set(GitIgnored::new(above, lines.as_deref(), &self.source));
        Ok(())
    }

    fn leaves_out(&self, dir: &Dir, path: &Path, is_directory: bool) -> bool {
        dir.leaves_out(self.walk.common.options, path, is_directory)
    }

    fn comes_last(&self) -> bool {
        self.walk.common.options.comes_last(self.source.below_root())
    }

    /// Asks whether the directory gives new files an access control list, if the options take lists
    /// away, or other processes make files of this directory elsewhere.
    fn learn_acl(&self, dir: &Dir, pair: &Pair) {
        let Common { options, partition, .. } = self.walk.common;
        if options.preserve.mode != ModeRule::Umask || partition.others() != Others::Absent {
            dir.learn_acl(pair);
        }
    }

    fn is_stopped(&self) -> bool {
        self.walk.is_cancelled() || self.walk.is_stopped.load(Ordering::Relaxed)
    }

    /// The places of an entry whose name was just added to both paths.
    fn places<'p>(&'p self, pair: &'p Pair, name: &'p OsStr) -> (Place<'p>, Place<'p>) {
        let name = Path::new(name);
        let root: BorrowedFd<'p> = self.walk.root_pair.target();
        let confined = self.walk.common.options.confine;
        let bounds = confined.then(|| Bounds { root, path: self.target.below_root() });
        let journal = self.walk.common.journal;
        let target = Place::below(pair.target(), name, self.target.path());
        (Place::below(pair.source(), name, self.source.path()), Place { bounds, journal, ..target })
    }

    /// Sets the paths to a directory's. Most often it is the one above or below the last.
    fn go_to(&mut self, dir: &Arc<Dir>) {
        let is = |other: Option<&Arc<Dir>>| other.is_some_and(|other| Arc::ptr_eq(other, dir));
        match self.at.take() {
            Some((at, lengths)) if is(Some(&at)) => self.back_to(lengths),
            Some((at, lengths))
                if dir.above.as_ref().is_some_and(|above| Arc::ptr_eq(above, &at)) =>
            {
                self.back_to(lengths);
                self.source.push(&dir.name);
                self.target.push(&dir.name);
            }
            Some((at, lengths)) if is(at.above.as_ref()) => {
                self.back_to(lengths);
                self.source.pop(&at.name);
                self.target.pop(&at.name);
            }
            _ => {
                let path = dir.names();
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

    /// Does something again if there was no descriptor left for it, as long as directories can be
    /// let go.
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

    /// Reports the entry whose paths are set.
    fn ended(&self, result: &Result<Done, Error>) {
        if !result.as_ref().is_ok_and(|done| done.complete) {
            self.walk.note_failure();
        }
        if let Ok(Done { verified: true, last_state: Some(state), .. }) = result {
            self.walk.note_verified(self.target.below_root(), state);
        }
        self.walk.listener.entry_ended(self.source.path(), self.target.path(), result);
        if self.walk.listener.wants_counts() {
            self.count(result);
        }
        self.measure();
    }

    /// An entry is done: more threads may be worth it, or fewer.
    fn measure(&self) {
        let Some(mut meter) = self.meter.get() else { return };
        if let Some(sample) = meter.passed() {
            meter.set_threads(self.walk.queue.learn(&sample));
        }
        self.meter.set(Some(meter));
    }

    /// Are so many files worth waking a thread for? They take a millisecond or more, or are many.
    fn is_worth_a_thread(&self, files: usize) -> bool {
        let few = self.meter.get().map_or(SHARED_FILES, |meter| meter.operations_a_millisecond());
        files >= SHARED_FILES.min(few)
    }

    fn count(&self, result: &Result<Done, Error>) {
        let mut counts = self.counts.get();
        if let Ok(done) = result {
            counts.add(done);
        }
        self.counts.set(counts);
        // A file that failed may have been shown while its bytes moved.
        let is_shown_apart = match result {
            Ok(done) => {
                done.report.as_ref().is_some_and(|report| report.bytes >= SHOWN_APART_BYTES)
            }
            Err(_) => true,
        };
        if is_shown_apart || self.reported.get().elapsed() >= REPORT_INTERVAL {
            self.report_counts();
        }
    }

    /// Reports what this thread has done, and the entry whose paths are set.
    fn report_counts(&self) {
        self.walk.listener.counted(&self.counts.take(), self.source.path());
        self.reported.set(Instant::now());
    }

    fn failed(&self, error: Error) {
        self.ended(&Err(error));
    }
}
