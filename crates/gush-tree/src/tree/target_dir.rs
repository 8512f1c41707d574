//! A directory of the target, held by a descriptor.
//!
//! Every entry is reached from its directory's descriptor by one name, so neither the length of a
//! path nor the renaming of a directory above matters. A directory that only waits for its
//! subdirectories may be let go, and is reopened by the `..` of a subdirectory just completed, or
//! from the nearest directory above that is still held: device and inode show that the directory is
//! the same.
//!
//! A copy within this machine ([`Dir`](super::dir::Dir)) holds the directory of the source beside
//! it; the receiver of a copy from another one ([`Folder`](crate::remote::Folder)) knows the
//! source's metadata.

use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use gush::Unpoisoned;
use rustix::fs::Stat;
use rustix::io::{self, Errno};

use super::held::Held;
use crate::error::Error;
use crate::events::Events;
use crate::filter::GitIgnored;
use crate::metadata::Transfer;
use crate::new_directory::{self, Entered};
use crate::options::{CopyOptions, ModeRule};
use crate::place::FileId;
use crate::xattr::Attributes;

/// What is known of the source of a directory.
pub trait Source: Debug + Sized {
    /// What is held of the source as long as the target is held.
    type Held: Debug;

    /// Opens the source again, from that of another directory by a name.
    ///
    /// # Errors
    /// ESTALE if another directory has the name by now.
    fn reopen(&self, from: &Self::Held, name: &OsStr) -> io::Result<Self::Held>;
}

/// The descriptors of one directory on both sides.
#[derive(Debug)]
pub struct Pair<S = Held> {
    pub(crate) source: S,
    pub(crate) target: Held,
}

impl<S> AsFd for Pair<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.target.as_fd()
    }
}

/// The descriptors of a directory, while they are held.
pub(crate) type Slot<S> = Mutex<Option<Arc<Pair<S>>>>;

/// A directory of the target, from its making until all below is complete.
#[derive(Debug)]
pub struct TargetDir<S: Source> {
    pub(crate) above: Option<Arc<Self>>,
    /// The name in the directory above.
    pub(crate) name: OsString,
    pub(crate) stat: Stat,
    /// The target was made by this command: its names are free.
    pub(crate) is_new: bool,
    /// A symbolic link led here, to be followed again.
    pub(crate) is_link: bool,
    /// A dry run made nothing.
    pub(crate) is_imagined: bool,
    pub(crate) restore_bits: Option<u32>,
    /// The rules of the source's `.gitignore` files, if they were read.
    pub(crate) ignored: OnceLock<Option<Arc<GitIgnored>>>,
    pub(crate) held: Arc<Slot<S::Held>>,
    source: S,
}

impl<S: Source> Deref for TargetDir<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.source
    }
}

impl<S: Source> TargetDir<S> {
    pub(crate) fn start(
        above: Option<Arc<Self>>,
        name: OsString,
        (source, source_held): (S, S::Held),
        entered: Entered,
    ) -> Arc<Self> {
        let Entered { held, stat, is_new, is_link, is_imagined, restore_bits } = entered;
        let pair = Pair { source: source_held, target: held };
        Arc::new(Self {
            above,
            name,
            stat,
            is_new,
            is_link,
            is_imagined,
            restore_bits,
            ignored: OnceLock::new(),
            held: Arc::new(Mutex::new(Some(Arc::new(pair)))),
            source,
        })
    }

    /// This directory and those above it.
    pub(crate) fn ancestors(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |dir| dir.above.as_deref())
    }

    /// The names that lead here from the first of all directories.
    pub(crate) fn names(&self) -> Vec<&OsStr> {
        let below = self.ancestors().filter(|dir| dir.above.is_some());
        let mut names: Vec<_> = below.map(|dir| dir.name.as_os_str()).collect();
        names.reverse();
        names
    }

    /// The descriptors, reopened if they were let go.
    ///
    /// # Errors
    /// ESTALE if another directory has the name by now.
    pub(crate) fn pair(&self) -> io::Result<Arc<Pair<S::Held>>> {
        let mut below = Vec::new();
        // Upwards to the nearest that is held, and then down again, name by name: no path is ever
        // longer than one name.
        let mut held = self.ancestors().find_map(|dir| {
            dir.if_held().or_else(|| {
                below.push(dir);
                None
            })
        });
        while let (Some(above), Some(dir)) = (&held, below.pop()) {
            held = Some(Arc::new(dir.reopen(above, &dir.name)?));
        }
        // The first is let go only when the whole tree is complete.
        held.ok_or(Errno::STALE)
    }

    fn reopen(&self, from: &Pair<S::Held>, name: &OsStr) -> io::Result<Pair<S::Held>> {
        Ok(Pair {
            source: self.source.reopen(&from.source, name)?,
            target: match self.is_imagined {
                true => Held::nowhere()?,
                false => Held::again(from, name, self.is_link, FileId::of(&self.stat))?,
            },
        })
    }

    /// The descriptors of a directory that was let go, reopened from one of its subdirectories by
    /// two calls at any depth. `None` if it is held, or if `..` is another directory: a link led
    /// there.
    pub(crate) fn pair_from(&self, below: &Pair<S::Held>) -> Option<Arc<Pair<S::Held>>> {
        match self.is_held() {
            true => None,
            false => self.reopen(below, OsStr::new("..")).map(Arc::new).ok(),
        }
    }

    pub(crate) fn if_held(&self) -> Option<Arc<Pair<S::Held>>> {
        self.held.lock().unpoisoned().clone()
    }

    pub(crate) fn is_held(&self) -> bool {
        self.held.lock().unpoisoned().is_some()
    }

    /// `true` if the descriptors were held.
    pub(crate) fn release(&self) -> bool {
        self.held.lock().unpoisoned().take().is_some()
    }

    /// Holds descriptors opened again; `false` if others are held already.
    pub(crate) fn take_back(&self, pair: &Arc<Pair<S::Held>>) -> bool {
        let mut held = self.held.lock().unpoisoned();
        // Another thread may have been faster; its pair is as good.
        let was_let_go = held.is_none();
        held.get_or_insert_with(|| Arc::clone(pair));
        was_let_go
    }

    /// Gives the directory its attributes, after all below is made; `false` if something required
    /// could not be set.
    pub(crate) fn give_attributes(
        &self,
        options: &CopyOptions,
        held: &Held,
        source: (&dyn Attributes, &Stat, &Path),
        shown: &Path,
        events: &mut dyn Events,
    ) -> bool {
        // Another process, or the killed copy that this one goes on with, may have made it.
        let is_made = self.is_new || self.restore_bits.is_some();
        let target = held.handle();
        let complete = Transfer {
            directory_mode: Some(self.stat.st_mode),
            ..Transfer::between(options, source, (target, &self.stat, shown), is_made)
        }
        .apply(events);
        if options.preserve.mode == ModeRule::Umask
            && let Err(errno) = new_directory::restore(target, ModeRule::Umask, self.restore_bits)
        {
            events.warns(&Error::os(shown, "preserving permissions for {}", errno));
            return complete && !options.preserve.required;
        }
        complete
    }
}

impl<S: Source> Drop for TargetDir<S> {
    fn drop(&mut self) {
        let mut above = self.above.take();
        while let Some(dir) = above {
            // By a loop: dropping a chain of 20,000 directories by recursion would overflow the
            // stack.
            above = Arc::into_inner(dir).and_then(|mut dir| dir.above.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::Folder;

    #[test]
    fn a_chain_of_any_length_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let mut last = Folder::base(dir.path()).unwrap();
        for _ in 0..100_000 {
            last = Arc::new(TargetDir {
                above: Some(Arc::clone(&last)),
                name: OsString::new(),
                stat: last.stat,
                is_new: false,
                is_link: false,
                is_imagined: false,
                restore_bits: None,
                ignored: OnceLock::new(),
                held: Arc::default(),
                source: Default::default(),
            });
        }
        drop(last);
    }
}
