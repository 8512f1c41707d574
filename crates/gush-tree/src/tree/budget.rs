//! The directories held open at once, so that a tree of any depth fits in the limit on descriptors.
//!
//! A directory is held by two descriptors. One whose listing is done, and whose subdirectories are
//! being copied, rests: if the budget is spent, the directory that has rested longest is let go.
//! Copies go depth first, so that is the one needed last.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Arc, Mutex, Weak};

use gush::Unpoisoned;
use rustix::process::{Resource, getrlimit};

use super::dir::{Dir, Pair};

/// What one thread opens besides the directories held: source, target, a pipe, the file re-read,
/// the directory synced, both sides of the directory just entered or reopened, and of a directory
/// shared with other threads.
const DESCRIPTORS_A_THREAD: usize = 14;
/// The rest of the process may open one in so many of the free descriptors meanwhile.
const SHARE_OF_OTHERS: usize = 4;
/// A budget needs room for the directory that is copied, and for the one above.
const FEWEST_DIRECTORIES: usize = 2;

/// The directories held, and the most that may be.
pub(crate) struct Budget {
    state: Mutex<State>,
}

struct State {
    most: usize,
    held: usize,
    /// The directories that rest, and may have been let go or completed since; the longest first.
    resting: VecDeque<Weak<Dir>>,
}

/// The threads and the directories that the limit on descriptors permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capacity {
    pub(crate) threads: usize,
    directories: usize,
}

impl Capacity {
    /// `newest` is a descriptor just opened: the kernel assigns the lowest free number, so about as
    /// many are in use.
    pub(crate) fn of_limit(newest: BorrowedFd<'_>, threads: usize) -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let in_use = newest.as_raw_fd() as usize + 1;
        Self::of(usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(in_use), threads)
    }

    fn of(free: usize, threads: usize) -> Self {
        // Libraries and the program's own display open files as well.
        let free = free - free / SHARE_OF_OTHERS;
        // At least half of the rest is for directories.
        let threads = threads.min(free / 2 / DESCRIPTORS_A_THREAD).max(1);
        let directories = free.saturating_sub(threads * DESCRIPTORS_A_THREAD) / 2;
        Self { threads, directories: directories.max(FEWEST_DIRECTORIES) }
    }
}

impl Budget {
    /// A budget with the root held.
    pub(crate) fn new(share: Capacity) -> Self {
        let state = State { most: share.directories, held: 1, resting: VecDeque::new() };
        Self { state: Mutex::new(state) }
    }

    /// Is so much of the budget spent that no directory should stay open for the rest of its
    /// listing?
    pub(crate) fn is_short(&self) -> bool {
        let state = self.state.lock().unpoisoned();
        // Half of it: a listing that is broken off keeps its directory, which a deep tree could not
        // afford.
        state.held > state.most / 2
    }

    /// A directory was opened, and holds its descriptors already.
    pub(crate) fn opened(&self) {
        self.state.lock().unpoisoned().held += 1;
    }

    /// Gives a directory that was reopened its descriptors back. They rest at once: the next
    /// subdirectory needs them.
    pub(crate) fn hold(&self, dir: &Arc<Dir>, pair: &Arc<Pair>) {
        let mut state = self.state.lock().unpoisoned();
        if dir.take_back(pair) {
            state.held += 1;
            state.rest(dir);
        }
    }

    /// A subdirectory was entered.
    pub(crate) fn rest(&self, dir: &Arc<Dir>) {
        self.state.lock().unpoisoned().rest(dir);
    }

    /// A directory is complete.
    pub(crate) fn let_go(&self, dir: &Dir) {
        let mut state = self.state.lock().unpoisoned();
        state.held -= usize::from(dir.release());
    }

    /// The process has no descriptor left all the same: fewer directories are held from now on.
    /// `false` if that cannot help.
    pub(crate) fn shrink(&self) -> bool {
        let mut state = self.state.lock().unpoisoned();
        let before = state.held;
        // EMFILE came although the budget was kept: somebody else has the descriptors, so the
        // budget is too large.
        state.most = (before / 2).max(FEWEST_DIRECTORIES);
        state.let_the_longest_go();
        state.held < before
    }
}

impl State {
    fn rest(&mut self, dir: &Arc<Dir>) {
        if dir.begins_to_rest() {
            // Weak: resting must not keep a directory that is complete.
            self.resting.push_back(Arc::downgrade(dir));
        }
        self.let_the_longest_go();
        // Swept now and then: completed directories would fill the list.
        if self.resting.len() > 2 * self.held.max(64) {
            self.resting.retain(|dir| dir.strong_count() > 0);
        }
    }

    fn let_the_longest_go(&mut self) {
        while self.held > self.most {
            let Some(dir) = self.resting.pop_front() else { break };
            if let Some(dir) = dir.upgrade() {
                self.held -= usize::from(dir.stop_resting());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_descriptors_mean_fewer_threads_and_always_some_directories() {
        let share = |threads, directories| Capacity { threads, directories };
        assert_eq!(Capacity::of(0, 8), share(1, 2));
        assert_eq!(Capacity::of(26, 1), share(1, 3));
        assert_eq!(Capacity::of(122, 8), share(3, 25));
        assert_eq!(Capacity::of(1_018, 32), share(27, 193));
        assert_eq!(Capacity::of(usize::MAX, 2).threads, 2);
    }
}
