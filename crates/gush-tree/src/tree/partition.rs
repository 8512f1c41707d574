//! Which entries of a tree a walk copies: all of them, or the part of one process among several.
//!
//! A walk asks [`Partition`] and does not know how a tree is divided. One process is
//! [`Everything`]; ranks are in [`shard`](super::shard).

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::FileType;

use super::dir::{Dir, Pair};
use super::path::TreePath;
use crate::copier::Done;
use crate::error::Error;
use crate::events::Events;
use crate::file::Common;
use crate::job::{Entry, Target};

/// Who copies a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// This walk.
    Mine,
    /// Another process, or nobody any more.
    Theirs,
    /// All processes, by [`Partition::copy_pieces`].
    Pieces,
}

/// The other processes that copy to the same target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Others {
    Absent,
    /// They make directories and files during this walk.
    Working,
    /// Their directories and files are there, unless they failed.
    Finished {
        failed: bool,
    },
}

/// An entry as getdents64(2) returns it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirEntry<'a> {
    pub(crate) name: &'a OsStr,
    pub(crate) kind: FileType,
    pub(crate) inode: u64,
}

/// A file of the tree that the walk has looked at.
pub(crate) struct Found<'a> {
    pub(crate) dir: &'a Arc<Dir>,
    pub(crate) entry: Entry<'a>,
    pub(crate) target: Target<'a>,
    /// The path below the root.
    pub(crate) path: &'a Path,
    /// The directory's [`lister`](Partition::lister) has answered [`Owner::Mine`].
    pub(crate) is_mine: bool,
}

/// The owner of an entry by its listing alone; `None` if a look at the entry decides.
pub(crate) type Lister<'p> = Box<dyn FnMut(DirEntry<'_>) -> Option<Owner> + 'p>;

pub(crate) trait Partition: Sync {
    fn others(&self) -> Others;

    /// Decides about the entries of the directory that `path` leads to. Entries that are `Theirs`
    /// are not looked at; a directory that is not is entered.
    fn lister<'p>(
        &'p self,
        common: &'p Common<'_>,
        dir: &'p Dir,
        path: &'p mut TreePath,
    ) -> Lister<'p>;

    /// Decides about a file that the lister has not excluded.
    fn owner(&self, common: &Common<'_>, file: &Found<'_>) -> Owner;

    /// Will [`owner`](Self::owner) answer [`Owner::Mine`], or [`Owner::Pieces`], if the entry with
    /// this path is a regular file? Then it is opened without a look at its name.
    fn is_certain(&self, dir: &Dir, path: &Path, is_mine: bool) -> bool;

    /// Does this process know all that it has to copy below the directory without listing it?
    fn skips_listing(&self, _common: &Common<'_>, _pair: &Pair) -> bool {
        false
    }

    /// The files of a directory to be looked at whatever its listing shows. Called once a
    /// directory.
    fn known_files(&self, _directory: &Path) -> Vec<&OsStr> {
        Vec::new()
    }

    /// The subdirectory, of so many listed together, to enter first.
    fn first_of(&self, _directories: usize) -> usize {
        0
    }

    /// Does this process's part in a file that is [`Owner::Pieces`]. `None` if there is nothing to
    /// report yet.
    fn copy_pieces(
        &self,
        _common: &Common<'_>,
        _file: &Found<'_>,
        _events: &mut dyn Events,
    ) -> Result<Option<Done>, Error> {
        Ok(None)
    }
}

/// The whole tree, by this process alone.
pub(crate) struct Everything;

impl Partition for Everything {
    fn others(&self) -> Others {
        Others::Absent
    }

    fn lister<'p>(
        &'p self,
        _common: &'p Common<'_>,
        _dir: &'p Dir,
        _path: &'p mut TreePath,
    ) -> Lister<'p> {
        Box::new(|_| Some(Owner::Mine))
    }

    fn owner(&self, _common: &Common<'_>, _file: &Found<'_>) -> Owner {
        Owner::Mine
    }

    fn is_certain(&self, dir: &Dir, _path: &Path, _is_mine: bool) -> bool {
        dir.is_new
    }
}
