//! What is to be sent next, from the walk to the workers.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::Stat;

use super::outgoing::{Outgoing, Range};

/// The most files that wait: each holds a descriptor of its directory.
const MOST_WAITING: usize = 64;

/// A regular file that the walk has found.
pub(super) struct Found {
    pub dir: Arc<OwnedFd>,
    pub name: OsString,
    pub sent_as: OsString,
    pub stat: Stat,
    pub path: PathBuf,
    pub target: PathBuf,
    /// The number of its directory.
    pub folder: u64,
}

/// One worker's next piece of work.
pub(super) enum Job {
    Found(Box<Found>),
    /// A range of a file that the receiver knows.
    Range(Arc<Outgoing>, Range),
}

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    found: VecDeque<Box<Found>>,
    /// Files with ranges that no worker has taken.
    divided: VecDeque<Arc<Outgoing>>,
    /// Workers with a job.
    busy: usize,
    is_closed: bool,
}

impl State {
    fn has_room(&self) -> bool {
        self.found.len() + self.divided.len() < MOST_WAITING
    }

    /// Files under way come first, so that few are.
    fn take(&mut self) -> Option<Job> {
        if self.is_closed {
            return None;
        }
        while let Some(file) = self.divided.front() {
            if let Some(range) = file.claim() {
                self.busy += 1;
                return Some(Job::Range(Arc::clone(file), range));
            }
            self.divided.pop_front();
        }
        let found = self.found.pop_front()?;
        self.busy += 1;
        Some(Job::Found(found))
    }

    fn is_idle(&self) -> bool {
        self.found.is_empty() && self.divided.is_empty() && self.busy == 0
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Is there room for another file? Who is to wait for it flushes first.
    pub fn has_room(&self) -> bool {
        self.lock().has_room()
    }

    /// Waits until there is room for another file.
    pub fn wait_for_room(&self) {
        let mut state = self.lock();
        while !state.has_room() && !state.is_closed {
            state = self.wait(state);
        }
    }

    /// Adds a file.
    pub fn put(&self, found: Found) {
        self.lock().found.push_back(Box::new(found));
        self.changed.notify_all();
    }

    /// Adds a file whose ranges any worker can send.
    pub fn divide(&self, file: Arc<Outgoing>) {
        self.lock().divided.push_back(file);
        self.changed.notify_all();
    }

    /// The next job, if there is one now.
    pub fn take(&self) -> Option<Job> {
        let job = self.lock().take();
        self.changed.notify_all();
        job
    }

    /// The next job. `None` at the end.
    pub fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(job) = state.take() {
                self.changed.notify_all();
                return Some(job);
            }
            state = self.wait(state);
        }
    }

    /// A job is done.
    pub fn done(&self) {
        self.lock().busy -= 1;
        self.changed.notify_all();
    }

    /// Waits until all is sent.
    pub fn drain(&self) {
        let mut state = self.lock();
        while !state.is_idle() && !state.is_closed {
            state = self.wait(state);
        }
    }

    /// Ends all waiting: nothing more is sent.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Waits for a time. Is there then work that no worker has taken? `None` at the end.
    pub fn is_behind(&self, after: Duration) -> Option<bool> {
        let state = self.lock();
        let (state, _) = self
            .changed
            .wait_timeout_while(state, after, |state| !state.is_closed)
            .unwrap_or_else(PoisonError::into_inner);
        let is_behind = !state.found.is_empty() || !state.divided.is_empty();
        (!state.is_closed).then_some(is_behind)
    }
}
