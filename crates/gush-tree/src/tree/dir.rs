//! A directory of a tree within this machine: on both sides, and what is left to do in it.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::fs::Stat;
use rustix::io;
use rustix::process;

use super::held::Held;
use super::journal;
pub(crate) use super::target_dir::Pair;
use super::target_dir::{Source, TargetDir};
use crate::first_copies::RecordAt;
use crate::metadata::Ownership;
use crate::new_directory::Entered;
use crate::options::{CopyOptions, Dereference};
use crate::place::FileId;
use crate::xattr::{self, Attributes as _};

impl Pair {
    pub(crate) fn source(&self) -> BorrowedFd<'_> {
        self.source.as_fd()
    }

    pub(crate) fn target(&self) -> BorrowedFd<'_> {
        self.target.as_fd()
    }

    /// The same directories by descriptors that no other thread uses, to reach files by. Each call
    /// counts a reference to the directory's description, and threads that share one take the count
    /// from each other.
    pub(crate) fn to_reach_files(&self) -> io::Result<Self> {
        let Self { source, target } = self;
        Ok(Self { source: source.to_reach_files()?, target: target.to_reach_files()? })
    }
}

/// A directory of the tree, whose target is held with its source. The root's name is the target's
/// in the directory of the operands.
pub(crate) type Dir = TargetDir<Walked>;

/// The source of a directory, and what is left to do.
#[derive(Debug)]
pub(crate) struct Walked {
    pub(crate) source_stat: Stat,
    /// Links of the source are followed.
    follows: bool,
    /// The ids of both file systems, shared by all directories on these two.
    devices: Arc<OnceLock<[u64; 2]>>,
    /// The target was made by this command, or by another process of this user.
    pub(crate) is_of_user: bool,
    /// The record among those of first copies, if a first copy was made in this directory or below.
    pub(crate) recorded: OnceLock<RecordAt>,
    /// Other descriptors would start the listing anew.
    is_listed: AtomicBool,
    /// Among the directories that rest.
    rests: AtomicBool,
    /// A removal in the target waits for the files that come last.
    pub(crate) has_removal: AtomicBool,
    /// Does the target give new files an access control list?
    gives_acl: OnceLock<bool>,
    /// The owner of files that this process makes in the target.
    pub(crate) new_owner: OnceLock<Ownership>,
    /// The listing, the batches of files given to other threads, and the subdirectories, as far as
    /// not yet complete.
    waits_for: AtomicUsize,
}

impl Source for Walked {
    type Held = Held;

    fn reopen(&self, from: &Held, name: &OsStr) -> io::Result<Held> {
        Held::again(from, name, self.follows, FileId::of(&self.source_stat))
    }
}

impl Dir {
    /// A directory that waits for its listing.
    pub(crate) fn enter(
        above: Option<Arc<Self>>,
        name: OsString,
        source_stat: Stat,
        (source, target): (Held, Entered),
        options: &CopyOptions,
    ) -> Arc<Self> {
        let devices = |source: &Stat, target: &Stat| [source.st_dev, target.st_dev];
        let own = devices(&source_stat, &target.stat);
        let is_on_same = |above: &&Arc<Self>| devices(&above.source_stat, &above.stat) == own;
        let walked = Walked {
            devices: above
                .as_ref()
                .filter(is_on_same)
                .map_or_else(Arc::default, |above| Arc::clone(&above.devices)),
            source_stat,
            follows: options.dereference != Dereference::Never,
            is_of_user: target.is_new || target.stat.st_uid == process::geteuid().as_raw(),
            recorded: OnceLock::new(),
            is_listed: AtomicBool::new(false),
            rests: AtomicBool::new(false),
            has_removal: AtomicBool::new(false),
            gives_acl: OnceLock::new(),
            new_owner: OnceLock::new(),
            // The listing itself.
            waits_for: AtomicUsize::new(1),
        };
        Self::start(above, name, (walked, source), target)
    }

    /// What a journal has in the place of the device numbers of source and target.
    pub(crate) fn devices(&self) -> [u64; 2] {
        *self.devices.get_or_init(|| {
            let numbers = [self.source_stat.st_dev, self.stat.st_dev];
            match self.pair() {
                Ok(pair) => [
                    journal::lasting_device(pair.source(), numbers[0]),
                    journal::lasting_device(pair.target(), numbers[1]),
                ],
                Err(_) => numbers,
            }
        })
    }

    pub(crate) fn is_listed(&self) {
        self.is_listed.store(true, Ordering::Release);
    }

    /// `false` if the directory is among those that rest already. The root never rests: nothing is
    /// above to reopen it from.
    pub(super) fn begins_to_rest(&self) -> bool {
        self.above.is_some() && !self.rests.swap(true, Ordering::Relaxed)
    }

    /// Lets the descriptors go, unless the listing still needs them. `true` if they were held.
    pub(super) fn stop_resting(&self) -> bool {
        self.rests.store(false, Ordering::Relaxed);
        self.is_listed.load(Ordering::Acquire) && self.release()
    }

    pub(crate) fn waits_for_more(&self, things: usize) {
        self.waits_for.fetch_add(things, Ordering::Relaxed);
    }

    /// One of the things waited for is done; `true` if that was the last.
    pub(crate) fn is_complete_now(&self) -> bool {
        // The last thread sees all that the others did here before.
        self.waits_for.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Is an entry, with this path below the root, left out by its name?
    pub(crate) fn leaves_out(
        &self,
        options: &CopyOptions,
        path: &Path,
        is_directory: bool,
    ) -> bool {
        options.leaves_out(self.ignored.get().and_then(Option::as_ref), path, is_directory)
    }

    /// Asks, once a directory, whether the target has a default access control list.
    pub(crate) fn learn_acl(&self, pair: &Pair) {
        self.gives_acl.get_or_init(|| {
            let list = pair.target.handle().holder().get(xattr::DEFAULT_ACL);
            !matches!(list, Err(errno) if xattr::is_absence(errno))
        });
    }

    pub(crate) fn may_give_acl(&self) -> bool {
        self.gives_acl.get().copied().unwrap_or(true)
    }
}
