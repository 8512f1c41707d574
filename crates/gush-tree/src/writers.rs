//! Turns of the threads that write into one existing file.
//!
//! Two names of a target may lead to one file, by hard links or by symbolic ones. Written in place by two threads at once, the file would hold
//! parts of two sources. So they take turns, and the file holds one source, the one copied last, as where one thread copies all.

use std::collections::HashSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FileType, Stat};

use crate::place::{FileId, kind};

/// The existing files that are being written into.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    state: Mutex<State>,
    /// Told when a file is free again that somebody waits for.
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    busy: HashSet<FileId>,
    waiting: usize,
}

/// A thread's turn to write into a file, until dropped.
#[derive(Debug)]
pub(crate) struct Turn<'w> {
    writers: &'w Writers,
    file: FileId,
}

impl Writers {
    /// Waits until no other thread writes into this file. `None` for what has no content of its own, such as a FIFO.
    pub(crate) fn turn(&self, existing: &Stat) -> Option<Turn<'_>> {
        if !matches!(kind(existing), FileType::RegularFile | FileType::BlockDevice) {
            return None;
        }
        let file = FileId::of(existing);
        let mut state = self.state();
        while !state.busy.insert(file) {
            state.waiting += 1;
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        Some(Turn { writers: self, file })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.writers.state();
        state.busy.remove(&self.file);
        // To tell costs a system call, and hardly ever is anybody there.
        if state.waiting > 0 {
            self.writers.ended.notify_all();
        }
    }
}
