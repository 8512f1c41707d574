//! One directory of a tree under way: the pair of source and target, held by descriptors.
//!
//! Every entry is reached from its directory's descriptors by one name, so neither the length of a
//! path nor the renaming of a directory above matters. A directory that only waits for its
//! subdirectories may be let go ([`Budget`](super::budget::Budget)), and is reopened by the `..` of
//! a subdirectory just completed, or from the nearest directory above that is still held: device
//! and inode show that the directory is the same.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use gush::Unpoisoned;
use rustix::fs::Stat;
use rustix::io::{self, Errno};
use rustix::process;

use super::entering::Entered;
use super::held::Held;
use super::journal;
use crate::error::Error;
use crate::filter::GitIgnored;
use crate::first_copies::RecordAt;
use crate::metadata::Ownership;
use crate::options::CopyOptions;
use crate::place::FileId;
use crate::xattr::{self, Attributes as _};

/// The descriptors of one directory on both sides.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) source: Held,
    pub(crate) target: Held,
}

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

/// A directory of the tree, from the making of the target until all entries are copied.
#[derive(Debug)]
pub(crate) struct Dir {
    parent: Option<Arc<Dir>>,
    depth: usize,
    /// The name in the parent; of the root, the target's name in the directory of the operands.
    pub(crate) name: OsString,
    pub(crate) source_stat: Stat,
    pub(crate) target_stat: Stat,
    /// The ids of both file systems, shared by all directories on these two.
    devices: Arc<OnceLock<[u64; 2]>>,
    /// The target was made by this command: its names are free.
    pub(crate) is_new: bool,
    /// The target was made by this command, or by another process of this user.
    pub(crate) is_of_user: bool,
    pub(crate) restore_bits: Option<u32>,
    pub(crate) follows: Follows,
    /// A dry run made nothing.
    is_imagined: bool,
    ignored: OnceLock<Option<Arc<GitIgnored>>>,
    /// The record among those of first copies, if a first copy was made in this directory or below.
    pub(crate) recorded: OnceLock<RecordAt>,
    held: Mutex<Option<Arc<Pair>>>,
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

/// Which links led to a directory: to be followed again if the directory is reopened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Follows {
    pub(crate) source: bool,
    pub(crate) target: bool,
}

impl Dir {
    /// A directory that waits for its listing.
    pub(crate) fn start(
        parent: Option<Arc<Self>>,
        name: OsString,
        source_stat: Stat,
        entered: Entered,
        is_dry: bool,
    ) -> Arc<Self> {
        let Entered { pair, target_stat, is_new, restore_bits, follows } = entered;
        let devices = |source: &Stat, target: &Stat| [source.st_dev, target.st_dev];
        let own = devices(&source_stat, &target_stat);
        let is_on_same =
            |above: &&Arc<Self>| devices(&above.source_stat, &above.target_stat) == own;
        Arc::new(Self {
            depth: parent.as_ref().map_or(0, |parent| parent.depth + 1),
            devices: parent
                .as_ref()
                .filter(is_on_same)
                .map_or_else(Arc::default, |above| Arc::clone(&above.devices)),
            parent,
            name,
            source_stat,
            target_stat,
            is_new,
            is_of_user: is_new || target_stat.st_uid == process::geteuid().as_raw(),
            restore_bits,
            follows,
            is_imagined: is_dry && is_new,
            ignored: OnceLock::new(),
            recorded: OnceLock::new(),
            held: Mutex::new(Some(Arc::new(pair))),
            is_listed: AtomicBool::new(false),
            rests: AtomicBool::new(false),
            has_removal: AtomicBool::new(false),
            gives_acl: OnceLock::new(),
            new_owner: OnceLock::new(),
            // The listing itself.
            waits_for: AtomicUsize::new(1),
        })
    }

    pub(crate) fn parent(&self) -> Option<&Arc<Self>> {
        self.parent.as_ref()
    }

    /// What a journal has in the place of the device numbers of source and target.
    pub(crate) fn devices(&self) -> [u64; 2] {
        *self.devices.get_or_init(|| {
            let numbers = [self.source_stat.st_dev, self.target_stat.st_dev];
            match self.pair() {
                Ok(pair) => [
                    journal::lasting_device(pair.source(), numbers[0]),
                    journal::lasting_device(pair.target(), numbers[1]),
                ],
                Err(_) => numbers,
            }
        })
    }

    /// The descriptors, reopened if they were let go.
    ///
    /// # Errors
    /// ESTALE if another directory has the name by now.
    pub(crate) fn pair(&self) -> io::Result<Arc<Pair>> {
        let mut below = vec![self];
        // Upwards to the nearest that is held, and then down again, name by name: no path is ever
        // longer than one name.
        let mut pair = loop {
            let dir = below[below.len() - 1];
            let held = dir.held.lock().unpoisoned().clone();
            match (held, &dir.parent) {
                (Some(pair), _) => {
                    below.pop();
                    break pair;
                }
                (None, Some(parent)) => below.push(parent),
                // The root is let go only when the whole tree is complete.
                (None, None) => return Err(Errno::STALE),
            }
        };
        for dir in below.into_iter().rev() {
            pair = Arc::new(dir.reopen(&pair, &dir.name, dir.follows)?);
        }
        Ok(pair)
    }

    pub(crate) fn if_held(&self) -> Option<Arc<Pair>> {
        self.held.lock().unpoisoned().clone()
    }

    fn reopen(&self, from: &Pair, name: &OsStr, follows: Follows) -> io::Result<Pair> {
        let again = |above, follow, stat| Held::again(above, name, follow, FileId::of(stat));
        Ok(Pair {
            source: again(&from.source, follows.source, &self.source_stat)?,
            target: match self.is_imagined {
                true => Held::nowhere()?,
                false => again(&from.target, follows.target, &self.target_stat)?,
            },
        })
    }

    pub(crate) fn is_held(&self) -> bool {
        self.held.lock().unpoisoned().is_some()
    }

    /// This directory, reopened from one of its subdirectories. Where a link led there, `..` is
    /// another directory, or none.
    ///
    /// # Errors
    /// ESTALE if `..` is another directory.
    pub(crate) fn reopen_from(&self, below: &Pair) -> io::Result<Pair> {
        self.reopen(below, OsStr::new(".."), Follows::default())
    }

    pub(crate) fn is_listed(&self) {
        self.is_listed.store(true, Ordering::Release);
    }

    /// `false` if the directory is among those that rest already. The root never rests: nothing is
    /// above to reopen it from.
    pub(super) fn begins_to_rest(&self) -> bool {
        self.parent.is_some() && !self.rests.swap(true, Ordering::Relaxed)
    }

    /// Lets the descriptors go, unless the listing still needs them. `true` if they were held.
    pub(super) fn stop_resting(&self) -> bool {
        self.rests.store(false, Ordering::Relaxed);
        self.is_listed.load(Ordering::Acquire) && self.let_go()
    }

    /// `true` if the descriptors were held.
    pub(super) fn let_go(&self) -> bool {
        self.held.lock().unpoisoned().take().is_some()
    }

    /// Holds descriptors opened again; `false` if others are held already.
    pub(super) fn take_back(&self, pair: &Arc<Pair>) -> bool {
        let mut held = self.held.lock().unpoisoned();
        // Another thread may have been faster; its pair is as good.
        let was_let_go = held.is_none();
        held.get_or_insert_with(|| Arc::clone(pair));
        was_let_go
    }

    pub(crate) fn waits_for_more(&self, things: usize) {
        self.waits_for.fetch_add(things, Ordering::Relaxed);
    }

    /// One of the things waited for is done; `true` if that was the last.
    pub(crate) fn is_complete_now(&self) -> bool {
        // The last thread sees all that the others did here before.
        self.waits_for.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Is the source one of the directories on the way to this one, or this one?
    pub(crate) fn is_within(&self, source: &Stat) -> bool {
        let mut dir = Some(self);
        while let Some(at) = dir {
            if FileId::of(&at.source_stat) == FileId::of(source) {
                return true;
            }
            dir = at.parent.as_deref();
        }
        false
    }

    /// Is the target of a directory on the way to this one, or of this one, such a directory?
    pub(crate) fn target_is_within(&self, is_such: impl Fn(&Stat) -> bool) -> bool {
        let mut dir = Some(self);
        while let Some(at) = dir {
            if is_such(&at.target_stat) {
                return true;
            }
            dir = at.parent.as_deref();
        }
        false
    }

    /// Reads the `.gitignore` of the source. `path_bytes` is the length of the path from the root.
    pub(crate) fn learn_ignored(
        &self,
        pair: &Pair,
        shown: &Path,
        path_bytes: usize,
    ) -> Result<(), Error> {
        let above = self.parent.as_ref().and_then(|parent| parent.ignored.get()?.as_ref());
        let ignored = GitIgnored::read(above, pair.source(), shown, path_bytes)?;
        let _ = self.ignored.set(ignored);
        Ok(())
    }

    /// Is an entry, with this path below the root, left out by its name?
    pub(crate) fn leaves_out(
        &self,
        options: &CopyOptions,
        path: &Path,
        is_directory: bool,
    ) -> bool {
        let ignored = self.ignored.get().and_then(Option::as_ref);
        options.filter.as_ref().is_some_and(|filter| filter.excludes(path, is_directory))
            || ignored.is_some_and(|ignored| ignored.excludes(path, is_directory))
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

    /// The names from the root to this directory.
    pub(crate) fn path(&self) -> Vec<&OsStr> {
        let mut names = Vec::with_capacity(self.depth);
        let mut dir = self;
        while let Some(parent) = &dir.parent {
            names.push(dir.name.as_os_str());
            dir = parent;
        }
        names.reverse();
        names
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let mut parent = self.parent.take();
        while let Some(dir) = parent {
            // By a loop: dropping a chain of 20,000 parents by recursion would overflow the stack.
            parent = Arc::into_inner(dir).and_then(|mut dir| dir.parent.take());
        }
    }
}
