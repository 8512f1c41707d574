//! The work left in a tree, for several threads.
//!
//! The last task added is taken first: the tree is walked depth first, so few directories are under
//! way at once.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use gush::Unpoisoned;
use gush::pace::{Pace, Sample};

use super::batch::Batch;
use super::dir::{Dir, Pair};

/// A part of the work.
pub(crate) enum Task {
    /// Copy these files of a directory.
    Files(Arc<Dir>, Batch),
    /// Copy these subdirectories: one is taken, and the rest goes back.
    Directories(Arc<Dir>, Batch),
    /// Copy these files of a directory, now that all else is copied.
    Last(Arc<Dir>, Batch),
    /// Remove from the target of a directory what the source lacks, now that the last files are
    /// copied, too.
    Remove(Arc<Dir>),
    /// List the directory from where the descriptors, if any, have come to.
    List(Arc<Dir>, Option<Arc<Pair>>),
}

pub(crate) struct Queue {
    state: Mutex<Tasks>,
    changed: Condvar,
    /// A thread has nothing to do, or could be started, and no task is left for it. Asked once a
    /// file, so without the lock.
    is_hungry: AtomicBool,
}

struct Tasks {
    tasks: Vec<Task>,
    /// The tasks that wait until no other is left.
    last: Vec<Task>,
    /// The tasks that wait for those, too.
    after_last: Vec<Task>,
    /// Threads at work on a task.
    busy: usize,
    /// Threads that wait for a task.
    idle: usize,
    /// All threads.
    threads: usize,
    /// How many threads may be at work.
    pace: Pace,
}

impl Tasks {
    /// One task for each thread that is not at work, or could be started.
    fn is_hungry(&self) -> bool {
        self.busy + self.tasks.len() < self.pace.threads()
    }
}

impl Queue {
    /// A queue with the first task, for the thread that made it.
    pub(crate) fn start(first: Task, pace: Pace) -> Self {
        let (last, after_last) = (Vec::new(), Vec::new());
        let state =
            Tasks { tasks: vec![first], last, after_last, busy: 0, idle: 0, threads: 1, pace };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            is_hungry: AtomicBool::new(false),
        }
    }

    /// Would a part of the work under way keep another thread busy?
    pub(crate) fn is_hungry(&self) -> bool {
        // Relaxed: a stale answer costs a task too many, or a file's time.
        self.is_hungry.load(Ordering::Relaxed)
    }

    /// Is there work that a thread could begin with?
    pub(crate) fn has_tasks(&self) -> bool {
        !self.state.lock().unpoisoned().tasks.is_empty()
    }

    /// How many threads may be at work.
    pub(crate) fn threads(&self) -> usize {
        self.state.lock().unpoisoned().pace.threads()
    }

    /// Takes what a thread has measured, and returns how many threads may be at work.
    pub(crate) fn learn(&self, sample: &Sample) -> usize {
        let mut state = self.state.lock().unpoisoned();
        let (before, busy) = (state.pace.threads(), state.busy);
        let threads = state.pace.learn(sample, busy);
        self.note(&state);
        drop(state);
        // Those that were one too many.
        if threads > before {
            self.changed.notify_all();
        }
        threads
    }

    /// To be called with the lock held, after each change.
    fn note(&self, state: &Tasks) {
        let is_hungry = state.is_hungry();
        // Read first: a store would take the cache line from all threads that ask.
        if self.is_hungry.load(Ordering::Relaxed) != is_hungry {
            self.is_hungry.store(is_hungry, Ordering::Relaxed);
        }
    }

    /// Adds a task; `true` if the caller shall start one more thread.
    pub(crate) fn add(&self, task: Task) -> bool {
        let mut state = self.state.lock().unpoisoned();
        state.tasks.push(task);
        // Idle threads first: a new one costs more than a wake-up.
        let wants_thread = state.idle < state.tasks.len() && state.threads < state.pace.threads();
        if wants_thread {
            state.threads += 1;
        }
        let has_idle = state.idle > 0 && state.busy < state.pace.threads();
        self.note(&state);
        // Before the wake-up, or the woken thread would meet the lock at once.
        drop(state);
        if has_idle {
            self.changed.notify_one();
        }
        wants_thread
    }

    /// Adds a task that waits for all the others.
    pub(crate) fn add_last(&self, task: Task) {
        self.state.lock().unpoisoned().last.push(task);
    }

    /// Adds a task that waits for those that wait for all the others.
    pub(crate) fn add_after_last(&self, task: Task) {
        self.state.lock().unpoisoned().after_last.push(task);
    }

    /// A thread asked for by [`add`](Self::add) could not be started.
    pub(crate) fn leave(&self) {
        let mut state = self.state.lock().unpoisoned();
        state.threads -= 1;
        // Not one more is tried: the process has no room for it.
        let threads = state.threads;
        state.pace.limit(threads);
        self.note(&state);
    }

    /// The next task, or `None` once all work is done. The task is under way until `Busy` is
    /// dropped.
    pub(crate) fn take(&self) -> Option<Taken<'_>> {
        let (mut state, mut has_waited) = (self.state.lock().unpoisoned(), false);
        loop {
            if state.busy < state.pace.threads()
                && let Some(task) = state.tasks.pop()
            {
                state.busy += 1;
                self.note(&state);
                return Some(Taken { task, busy: Busy(self), has_waited });
            }
            // Nobody is left who could add a task.
            if state.busy == 0 {
                // Only when all else is done: a manifest must not be there before the files that it
                // names.
                state.tasks = mem::take(&mut state.last);
                if state.tasks.is_empty() {
                    state.tasks = mem::take(&mut state.after_last);
                }
                if state.tasks.is_empty() {
                    return None;
                }
                continue;
            }
            has_waited = true;
            state.idle += 1;
            self.note(&state);
            state = self.changed.wait(state).unpoisoned();
            state.idle -= 1;
        }
    }
}

/// A task, and whether the thread has waited for it.
pub(crate) struct Taken<'q> {
    pub(crate) task: Task,
    pub(crate) busy: Busy<'q>,
    pub(crate) has_waited: bool,
}

/// A task under way. Dropped when all that it leads to has been added, also by a panic.
pub(crate) struct Busy<'q>(&'q Queue);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unpoisoned();
        state.busy -= 1;
        let all_done = state.busy == 0 && state.tasks.is_empty();
        drop(state);
        if all_done {
            self.0.changed.notify_all();
        } else if thread::panicking() {
            // This thread takes no other task, and those that wait may have been too many before.
            self.0.changed.notify_one();
        }
    }
}
