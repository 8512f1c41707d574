//! Turns of the threads that write into one existing file.
//!
//! Two names of a target may lead to one file, by hard links or by symbolic ones. Written in place
//! by two threads at once, the file would hold parts of two sources. So they take turns, and the
//! file holds one source, the one copied last, as where one thread copies all. Where the options
//! promise equality, a file that holds a copy is claimed, and not written by another name.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard};

use gush::Unpoisoned;
use rustix::fs::{FileType, Stat};

use crate::place::{FileId, kind};

/// The existing files that are being written into.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    state: Mutex<InUse>,
    /// Notified when a file is free again that another thread waits for.
    ended: Condvar,
}

#[derive(Debug, Default)]
struct InUse {
    busy: HashSet<FileId>,
    waiting: usize,
    claimed: FileSet,
    /// Those of them that several names keep: no failure of one name ends their claim.
    kept_again: FileSet,
    /// How many names a dry run would have taken from a file.
    names_gone: HashMap<FileId, u64>,
}

/// A set of files. One inode number is most often near another: a bit for each of 64 takes a tenth
/// of a table of numbers.
#[derive(Debug, Default)]
struct FileSet(HashMap<FileId, u64>);

impl FileSet {
    fn place(file: FileId) -> (FileId, u64) {
        (FileId { inode: file.inode / 64, ..file }, 1 << (file.inode % 64))
    }

    fn contains(&self, file: FileId) -> bool {
        let (near, bit) = Self::place(file);
        self.0.get(&near).is_some_and(|bits| bits & bit != 0)
    }

    /// `false` if the file was there.
    fn insert(&mut self, file: FileId) -> bool {
        let (near, bit) = Self::place(file);
        let bits = self.0.entry(near).or_default();
        let is_new = *bits & bit == 0;
        *bits |= bit;
        is_new
    }

    fn remove(&mut self, file: FileId) {
        let (near, bit) = Self::place(file);
        if let Some(bits) = self.0.get_mut(&near) {
            *bits &= !bit;
        }
    }
}

/// A file's claim for one source, until dropped: the copy has failed then.
#[derive(Debug)]
pub(crate) struct Claim<'w> {
    writers: &'w Writers,
    file: FileId,
}

impl Claim<'_> {
    /// The file holds the copy: the claim stays.
    pub(crate) fn keep(self) {
        mem::forget(self);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut state = self.writers.state.lock().unpoisoned();
        if !state.kept_again.contains(self.file) {
            state.claimed.remove(self.file);
        }
    }
}

/// A thread's turn to write into a file, until dropped.
#[derive(Debug)]
pub(crate) struct WriteLock<'w> {
    writers: &'w Writers,
    file: FileId,
}

impl Writers {
    /// Waits until no other thread writes into this file. `None` for what holds no content, such as
    /// a FIFO.
    pub(crate) fn turn(&self, existing: &Stat) -> Option<WriteLock<'_>> {
        if !matches!(kind(existing), FileType::RegularFile | FileType::BlockDevice) {
            return None;
        }
        let file = FileId::of(existing);
        self.until_free(file).busy.insert(file);
        Some(WriteLock { writers: self, file })
    }

    /// Claims a target that needs no copy, once no other thread writes into it. `None` if it is
    /// claimed already, and stays so.
    pub(crate) fn claim_kept(&self, existing: &Stat) -> Option<Claim<'_>> {
        let file = FileId::of(existing);
        let mut state = self.until_free(file);
        if state.claimed.insert(file) {
            return Some(Claim { writers: self, file });
        }
        state.kept_again.insert(file);
        None
    }

    fn until_free(&self, file: FileId) -> MutexGuard<'_, InUse> {
        let mut state = self.state.lock().unpoisoned();
        while state.busy.contains(&file) {
            state.waiting += 1;
            state = self.ended.wait(state).unpoisoned();
            state.waiting -= 1;
        }
        state
    }

    /// Claims a file for the copy of one source, until dropped or [kept](Claim::keep). `None` if it
    /// is claimed already.
    pub(crate) fn claim(&self, file: FileId) -> Option<Claim<'_>> {
        self.state.lock().unpoisoned().claimed.insert(file).then(|| Claim { writers: self, file })
    }

    /// Claims a file that was just made. A claim on its inode number is of a file that is gone.
    pub(crate) fn claim_new(&self, file: FileId) -> Claim<'_> {
        self.state.lock().unpoisoned().claimed.insert(file);
        Claim { writers: self, file }
    }

    /// A dry run takes a name from a file that has others.
    pub(crate) fn name_goes(&self, existing: &Stat) {
        if existing.st_nlink > 1 {
            let mut state = self.state.lock().unpoisoned();
            *state.names_gone.entry(FileId::of(existing)).or_default() += 1;
        }
    }

    /// The file as it would be after what a dry run has done so far.
    pub(crate) fn imagined(&self, mut existing: Stat) -> Stat {
        let state = self.state.lock().unpoisoned();
        let gone = state.names_gone.get(&FileId::of(&existing)).copied().unwrap_or(0);
        existing.st_nlink = existing.st_nlink.saturating_sub(gone).max(1);
        existing
    }

    pub(crate) fn is_claimed(&self, file: FileId) -> bool {
        self.state.lock().unpoisoned().claimed.contains(file)
    }
}

impl Drop for WriteLock<'_> {
    fn drop(&mut self) {
        let mut state = self.writers.state.lock().unpoisoned();
        state.busy.remove(&self.file);
        // Notifying costs a system call, and there is hardly ever a waiter.
        if state.waiting > 0 {
            self.writers.ended.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_turn_is_waited_for_until_the_other_thread_has_ended_its_own() {
        let writers = Writers::default();
        let file = tempfile::tempfile().unwrap();
        let stat = rustix::fs::fstat(&file).unwrap();
        let first = writers.turn(&stat).unwrap();
        thread::scope(|scope| {
            let second = scope.spawn(|| writers.turn(&stat).is_some());
            while writers.state.lock().unpoisoned().waiting == 0 {
                assert!(!second.is_finished(), "two threads write at once");
                thread::yield_now();
            }
            drop(first);
            assert!(second.join().unwrap());
        });
    }

    #[test]
    fn a_claim_that_is_not_kept_ends() {
        let writers = Writers::default();
        let file = |inode| FileId { device: 1, inode };
        for inode in [0, 63, 64, u64::MAX] {
            let claim = writers.claim(file(inode)).unwrap();
            assert!(writers.claim(file(inode)).is_none());
            drop(claim);
            assert!(!writers.is_claimed(file(inode)));
            writers.claim(file(inode)).unwrap().keep();
        }
        let claimed = |file| writers.is_claimed(file);
        assert!([0, 63, 64, u64::MAX].map(file).into_iter().all(claimed));
        assert!(![1, 62, 65, u64::MAX - 1].map(file).into_iter().any(claimed));
        assert!(!claimed(FileId { device: 2, inode: 0 }));
        // The number of a file that is gone.
        drop(writers.claim_new(file(63)));
        assert!(!claimed(file(63)));

        let kept = tempfile::tempfile().unwrap();
        let stat = rustix::fs::fstat(&kept).unwrap();
        drop(writers.claim_kept(&stat).unwrap());
        assert!(!claimed(FileId::of(&stat)));
        let first = writers.claim_kept(&stat).unwrap();
        assert!(writers.claim_kept(&stat).is_none());
        drop(first);
        assert!(claimed(FileId::of(&stat)), "another name keeps the file");
    }
}
