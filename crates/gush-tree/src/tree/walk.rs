//! The walk through a tree: tasks, threads, and the end of each directory.

use std::ffi::OsStr;
use std::mem;
use std::num::NonZero;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Scope};

use rustix::fs::{self, FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

use super::batch::{Batch, End, Part};
use super::dir::{Dir, Pair, Start};
use super::entering::Entrance;
use super::listener::Listener;
use super::queue::{Queue, Task};
use super::shown::Shown;
use super::{Operands, twice};
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
    /// The root's descriptors, for links within the target.
    root_pair: Arc<Pair>,
    /// The roots as the user wrote them: source, target.
    names: (&'a Path, &'a Path),
    listener: Listener<'a>,
    queue: Queue,
    most_threads: usize,
    umask: OnceLock<u32>,
    is_incomplete: AtomicBool,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(
        common: &Common<'a>,
        operands: &'a Operands,
        root: Arc<Dir>,
        names: (&'a Path, &'a Path),
        events: &'a mut dyn Events,
    ) -> Self {
        let options = common.options;
        let most_threads = match options.moving.threads {
            // Questions come one after the other.
            _ if options.ask => 1,
            0 => thread::available_parallelism().map_or(1, NonZero::get),
            threads => threads,
        };
        Self {
            common: *common,
            operands,
            root_pair: root.pair().expect("a directory just opened is held"),
            queue: Queue::start(Task::List(root, None)),
            names,
            listener: Listener::new(events),
            most_threads,
            umask: OnceLock::new(),
            is_incomplete: AtomicBool::new(false),
        }
    }

    /// Copies everything; `true` if nothing failed.
    pub(crate) fn run(self) -> bool {
        thread::scope(|scope| Worker::new(&self, scope).work());
        !self.is_incomplete.into_inner()
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
            source: Shown::new(source),
            target: Shown::new(target),
        }
    }

    fn work(mut self) {
        while let Some((task, _busy)) = self.walk.queue.take() {
            match task {
                Task::List(dir, pair) => self.list(dir, pair),
                Task::Files(dir, batch) => self.files(dir, batch),
                Task::Directories(dir, batch) => self.directories(dir, batch),
            }
        }
    }

    /// Adds a task, and a thread for it if there may be one more.
    fn give(&self, task: Task) {
        let (walk, scope) = (self.walk, self.scope);
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
        let listed = match pair.map_or_else(|| dir.pair(), Ok) {
            Ok(pair) => part.read(&pair, &mut self.listed, self.walk.most_threads > 1).map(|end| {
                if let End::More = end {
                    dir.waits_for_more(1);
                    self.give(Task::List(Arc::clone(&dir), Some(pair)));
                }
            }),
            Err(errno) => Err(errno),
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

    fn files(&mut self, dir: Arc<Dir>, mut batch: Batch) {
        self.go_to(&dir);
        match dir.pair() {
            Ok(pair) => {
                while let Some(name) = batch.take() {
                    let name = name.to_owned();
                    self.file(&dir, &pair, &name, &mut batch);
                }
            }
            Err(errno) => self.failed(dir.lost(self.source.path(), errno)),
        }
        self.one_done(dir);
    }

    /// Copies one entry. A directory found here, of a file system that tells no types or behind a link, is a task of its
    /// own; so are the files behind a large one.
    fn file(&mut self, dir: &Arc<Dir>, pair: &Pair, name: &OsStr, rest: &mut Batch) {
        let walk = self.walk;
        let before = (self.source.push(name), self.target.push(name));
        let (source, target) = self.places(pair, name);
        let follow = walk.common.options.dereference != Dereference::Never;
        let result = match source.stat(follow) {
            Err(errno) => Err(Error::os(source.shown, "cannot stat", errno)),
            Ok(stat) if kind(&stat) == FileType::Directory => {
                let mut one = Batch::default();
                one.add(name.as_encoded_bytes());
                dir.waits_for_more(1);
                self.give(Task::Directories(Arc::clone(dir), one));
                self.back_to(before);
                return;
            }
            Ok(stat) => {
                if stat.st_size >= LARGE_BYTES && !rest.is_empty() && walk.most_threads > 1 {
                    dir.waits_for_more(1);
                    self.give(Task::Files(Arc::clone(dir), mem::take(rest)));
                }
                let mut events = &walk.listener;
                walk.common.copy_file((source, stat), (target, dir.is_new), Some(dir), &mut events)
            }
        };
        self.ended(&result);
        self.back_to(before);
    }

    fn directories(&mut self, dir: Arc<Dir>, mut batch: Batch) {
        let Some(name) = batch.take() else { return };
        let name = name.to_owned();
        if !batch.is_empty() {
            self.give(Task::Directories(Arc::clone(&dir), batch));
        }
        self.go_to(&dir);
        let before = (self.source.push(&name), self.target.push(&name));
        let entered = match dir.pair() {
            Ok(pair) => self.enter(&dir, &pair, &name),
            Err(errno) => Err(dir.lost(self.source.path(), errno)),
        };
        match entered {
            Ok(child) => {
                dir.rest();
                let options = self.walk.common.options;
                // As GNU: the directory is made, and its entries are another file system's.
                let is_left_out =
                    options.one_file_system && child.source_stat.st_dev != dir.source_stat.st_dev;
                match is_left_out {
                    true => self.one_done(child),
                    false => self.list(child, None),
                }
            }
            Err(error) => {
                self.failed(error);
                self.back_to(before);
                self.one_done(dir);
            }
        }
    }

    fn enter(&self, dir: &Arc<Dir>, pair: &Pair, name: &OsStr) -> Result<Arc<Dir>, Error> {
        let walk = self.walk;
        let options = walk.common.options;
        let (source, target) = self.places(pair, name);
        let follow = options.dereference != Dereference::Never;
        let stat =
            source.stat(follow).map_err(|errno| Error::os(source.shown, "cannot stat", errno))?;
        let entrance = Entrance { options, source, source_stat: &stat, target, is_new: dir.is_new };
        let existing = entrance.existing()?;
        self.refuse_circle(dir, (&source, &stat), &target)?;
        let mut events = &walk.listener;
        let entered = entrance.enter(&existing, || walk.umask(), &mut events)?;
        Ok(Dir::start(Start::of(Some(Arc::clone(dir)), name.into(), stat, entered)))
    }

    /// Refuses a directory that would be copied into itself, or that was copied already.
    fn refuse_circle(
        &self,
        dir: &Dir,
        (source, stat): (&Place<'_>, &Stat),
        target: &Place<'_>,
    ) -> Result<(), Error> {
        let Walk { operands, names, common, .. } = self.walk;
        let id = FileId::of(stat);
        if operands.targets.contains(&id) {
            let (from, to) = (quote::always(names.0), quote::always(names.1));
            let text = format!("cannot copy a directory, {from}, into itself, {to}");
            return Err(Error::about_both(source.shown, text));
        }
        if common.options.dereference == Dereference::Always {
            return match dir.is_within(stat) {
                true => Err(Error::refusal(source.shown, "cannot copy cyclic symbolic link")),
                false => Ok(()),
            };
        }
        match operands.sources.get(&id) {
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

    fn go_to(&mut self, dir: &Dir) {
        let path = dir.path();
        self.source.set(&path);
        self.target.set(&path);
    }

    fn back_to(&mut self, (source, target): (usize, usize)) {
        self.source.back_to(source);
        self.target.back_to(target);
    }

    /// Tells of the entry whose paths are set.
    fn ended(&self, result: &Result<Done, Error>) {
        if !result.as_ref().is_ok_and(|done| done.complete) {
            self.walk.is_incomplete.store(true, Ordering::Relaxed);
        }
        self.walk.listener.entry_ended(self.source.path(), self.target.path(), result);
    }

    fn failed(&self, error: Error) {
        self.ended(&Err(error));
    }

    /// One of the things that a directory waits for is done. The last one completes the directory, which in turn is one
    /// thing done for the directory above.
    fn one_done(&mut self, mut dir: Arc<Dir>) {
        while dir.is_complete_now() {
            self.go_to(&dir);
            let complete = self.finish(&dir);
            dir.let_go();
            let Some(parent) = dir.parent().cloned() else {
                if !complete {
                    self.walk.is_incomplete.store(true, Ordering::Relaxed);
                }
                return;
            };
            self.ended(&Ok(Done { complete, ..Done::new(Action::Directory) }));
            dir = parent;
        }
    }

    /// Gives a directory its attributes; `false` if something required could not be set.
    fn finish(&self, dir: &Dir) -> bool {
        let walk = self.walk;
        let options = walk.common.options;
        let shown = self.target.path();
        let mut events = &walk.listener;
        let pair = match dir.pair() {
            Ok(pair) => pair,
            Err(errno) => {
                events.warns(&dir.lost(shown, errno));
                return false;
            }
        };
        let target = pair.target_handle();
        // The final mode may forbid reading, as fsync needs it.
        let synced = options.sync.then(|| {
            Place::below(pair.target(), Path::new("."), shown)
                .open(OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
        });
        let mut complete = Transfer {
            options,
            source: pair.source_handle(),
            source_stat: &dir.source_stat,
            source_shown: self.source.path(),
            target,
            target_shown: shown,
            target_stat: Some(dir.target_stat),
            created: dir.is_new,
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
