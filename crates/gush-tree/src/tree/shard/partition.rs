//! A tree divided among ranks: the files of one rank, and what rank 0 copies when all have ended.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use gush::Unpoisoned;
use rustix::fs::{self, FileType, Stat};
use rustix::io::{Errno, retry_on_intr};

use super::Share;
use super::division::{Rule, Seen, hash_of_directory};
use super::piece_store::{self, PieceStore};
use crate::copier::Done;
use crate::error::Error;
use crate::events::Events;
use crate::file::Common;
use crate::job::{Job, Target};
use crate::options::{CopyOptions, Dereference};
use crate::place::kind;
use crate::tree::batch::may_be_directory;
use crate::tree::dir::{Dir, Pair};
use crate::tree::journal::{self, Fingerprint};
use crate::tree::partition::{Found, Lister, Others, Owner, Partition};
use crate::tree::path::TreePath;

/// The files that are this rank's, and each directory, without its attributes.
pub(super) struct OwnShare<'a> {
    store: &'a PieceStore<'a>,
    /// What the walk has come to. Bytes are those of files that are not announced.
    share: Mutex<Share>,
}

impl<'a> OwnShare<'a> {
    pub(super) fn new(store: &'a PieceStore<'a>) -> Self {
        Self { store, share: Mutex::default() }
    }

    pub(super) fn share(&self) -> MutexGuard<'_, Share> {
        self.share.lock().unpoisoned()
    }
}

/// The sums of one listing, added at its end: threads would wait for each other at each entry.
struct ListingSums<'s> {
    share: &'s OwnShare<'s>,
    directory: u64,
    seen: Seen,
}

impl ListingSums<'_> {
    /// A method, because a closure that names a field takes a copy of the field alone: the listing
    /// itself would end without its sums.
    fn add(&mut self, name: &OsStr, owner: Owner) {
        self.seen.add(self.directory, name, owner);
    }
}

impl Drop for ListingSums<'_> {
    fn drop(&mut self) {
        self.share.share().seen.add_all(self.seen);
    }
}

impl Partition for OwnShare<'_> {
    fn others(&self) -> Others {
        Others::Working
    }

    fn lister<'p>(
        &'p self,
        common: &'p Common<'_>,
        dir: &'p Dir,
        path: &'p mut TreePath,
    ) -> Lister<'p> {
        let options = common.options;
        let division = &self.store.division;
        let rule = division.rule_in(dir);
        let has_rules = options.filter.is_some() || options.gitignore || options.last.is_some();
        let directory = hash_of_directory(path.below_root());
        let mut listing = ListingSums { share: self, directory, seen: Seen::default() };
        Box::new(move |entry| {
            if entry.kind == FileType::Directory {
                return Some(Owner::Mine);
            }
            if may_be_directory(entry.kind, options.dereference) {
                return None;
            }
            let before = path.length();
            if has_rules || rule == Rule::Paths {
                path.push(entry.name);
            }
            let below = path.below_root();
            let comes_last = has_rules && options.comes_last(below);
            let is_left_out = comes_last || has_rules && dir.leaves_out(options, below, false);
            let owner = match is_left_out {
                // Rank 0 copies it later, and has to know by then whether it has other names.
                true if comes_last && options.preserve.links && division.shard.rank() == 0 => None,
                true => Some(Owner::Theirs),
                false => division.owner(rule, entry, options, below),
            };
            path.back_to(before);
            // Ranks compare what they saw of the same files.
            if let Some(owner) = owner.filter(|_| !is_left_out) {
                listing.add(entry.name, owner);
            }
            owner
        })
    }

    fn owner(&self, common: &Common<'_>, file: &Found<'_>) -> Owner {
        let options = common.options;
        let &Found { dir, entry, path, .. } = file;
        if options.comes_last(path) {
            if options.preserve.links && entry.stat.st_nlink > 1 {
                common.copied.expect_by_others(entry.stat);
            }
            return Owner::Theirs;
        }
        // A file that the listing showed to be this rank's was counted then.
        if !file.is_mine {
            let division = &self.store.division;
            let rule = division.rule_in(dir);
            let device = dir.source_stat.st_dev;
            let owner = division.owner_of_seen(rule, entry.stat, device, options, path);
            let (above, name) = (path.parent(), path.file_name());
            let above = hash_of_directory(above.unwrap_or(Path::new("")));
            self.share().seen.add(above, name.unwrap_or_default(), owner);
            if owner == Owner::Theirs {
                return Owner::Theirs;
            }
        }
        let is_divided = is_divided(options, file);
        let mut share = self.share();
        share.files += 1;
        if is_divided {
            // Its bytes are of the ranks that copy the pieces.
            return Owner::Pieces;
        }
        if kind(entry.stat) == FileType::RegularFile {
            share.bytes += piece_store::size_of(entry.stat);
        }
        Owner::Mine
    }

    /// By the rule of paths only a file with several names may be another rank's after all.
    fn is_certain(&self, _dir: &Dir, path: &Path, is_mine: bool) -> bool {
        is_mine || self.store.division.shard.takes(path)
    }

    /// Ranks that make files in one directory at the same time wait for each other.
    fn first_of(&self, directories: usize) -> usize {
        self.store.division.shard.begins_at(directories)
    }

    /// Announces the file to all ranks.
    fn copy_pieces(
        &self,
        common: &Common<'_>,
        file: &Found<'_>,
        _events: &mut dyn Events,
    ) -> Result<Option<Done>, Error> {
        self.store.announce(&Job::new(common, file.entry, file.target), file.path)?;
        self.share().divided_files += 1;
        Ok(None)
    }
}

/// All that comes after the shares: the files that come last, large files whose pieces are there,
/// and the attributes of directories.
pub(super) struct Remainder<'a> {
    pub(super) store: &'a PieceStore<'a>,
    pub(super) others_failed: bool,
    /// The pieces that the journals of all ranks have.
    pub(super) done: HashSet<Fingerprint>,
    pub(super) announced: Announced,
    /// A rank has announced a file whose table is gone: nothing shows which one it is.
    pub(super) may_miss_files: bool,
    /// The announced files whose directory is still there.
    pub(super) found: AtomicU64,
}

/// Large files by their directories, all below the tree's root.
#[derive(Debug, Default)]
pub(super) struct Announced {
    by_directory: BTreeMap<PathBuf, BTreeSet<OsString>>,
    pub(super) files: u64,
}

impl Announced {
    pub(super) fn add(&mut self, path: &Path) {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return };
        let names = self.by_directory.entry(above.into()).or_default();
        // A source that changed was announced once more.
        self.files += u64::from(names.insert(name.into()));
    }

    fn names_in(&self, directory: &Path) -> Option<&BTreeSet<OsString>> {
        self.by_directory.get(directory)
    }

    fn has(&self, path: &Path) -> bool {
        let names = path.parent().and_then(|above| self.names_in(above));
        names.zip(path.file_name()).is_some_and(|(names, name)| names.contains(name))
    }
}

impl Remainder<'_> {
    /// The file of all pieces, if the journals have every one of them. Without its link from then
    /// on, it gets its place once.
    fn whole(&self, path: &Path, source: &Stat) -> Option<PathBuf> {
        let link = PieceStore::link(path, source);
        let (name, _) = self.store.named(&link).ok()??;
        let is_whole = piece_store::pieces(piece_store::size_of(source))
            .all(|piece| self.done.contains(&journal::piece(&name, piece.number)));
        // The link goes first: a rank started again must not write to a file that is being placed.
        (is_whole && self.store.unlink(&link).is_ok()).then_some(name)
    }
}

impl Partition for Remainder<'_> {
    fn others(&self) -> Others {
        Others::Finished { failed: self.others_failed }
    }

    /// A look at every file would double the work of the shares.
    fn lister<'p>(
        &'p self,
        common: &'p Common<'_>,
        _dir: &'p Dir,
        path: &'p mut TreePath,
    ) -> Lister<'p> {
        let options = common.options;
        let announced = self.announced.names_in(path.below_root());
        Box::new(move |entry| {
            // Among the known files, also where the name is a directory's by now.
            if announced.is_some_and(|names| names.contains(entry.name)) {
                return Some(Owner::Theirs);
            }
            if may_be_directory(entry.kind, options.dereference)
                || self.may_miss_files
                // Any of them may be another name of a file that comes last.
                || options.last.is_some() && common.copied.expects_any_by_others()
            {
                return Some(Owner::Mine);
            }
            let before = path.push(entry.name);
            let comes_last = options.comes_last(path.below_root());
            path.back_to(before);
            Some(if comes_last { Owner::Mine } else { Owner::Theirs })
        })
    }

    fn owner(&self, common: &Common<'_>, file: &Found<'_>) -> Owner {
        let options = common.options;
        let &Found { dir, entry, target, path, .. } = file;
        if options.comes_last(path) {
            return Owner::Mine;
        }
        common.copied.learn_copy_by_others(options, entry.stat, target);
        // A rank gave the file to all ranks, so that nobody has put it in its place.
        let is_missing = (self.announced.has(path) || self.may_miss_files)
            && matches!(target.place.stat(false), Err(Errno::NOENT));
        match is_missing {
            true if is_divisible(options, dir, entry.stat) => Owner::Pieces,
            true if !self.others_failed => Owner::Mine,
            _ => Owner::Theirs,
        }
    }

    fn is_certain(&self, _dir: &Dir, _path: &Path, _is_mine: bool) -> bool {
        false
    }

    /// Only directories are looked for, and announced files, whose names are known.
    fn skips_listing(&self, common: &Common<'_>, pair: &Pair) -> bool {
        let options = common.options;
        options.last.is_none()
            && options.dereference != Dereference::Always
            && pair.source.is_readable
            && !self.may_miss_files
            // Asked now: every subdirectory that a share has seen is counted.
            && retry_on_intr(|| fs::fstat(pair.source()))
                .is_ok_and(|stat| self.store.division.is_leaf(&stat))
    }

    fn known_files(&self, directory: &Path) -> Vec<&OsStr> {
        let names = self.announced.names_in(directory).into_iter().flatten();
        let names: Vec<_> = names.map(OsString::as_os_str).collect();
        self.found.fetch_add(names.len() as u64, Ordering::Relaxed);
        names
    }

    /// Gives the file its place.
    fn copy_pieces(
        &self,
        common: &Common<'_>,
        file: &Found<'_>,
        events: &mut dyn Events,
    ) -> Result<Option<Done>, Error> {
        let target = Target { is_new: true, ..file.target };
        let copy_whole = |events| common.copy_file(file.entry, target, events).map(Some);
        let Some(name) = self.whole(file.path, file.entry.stat) else {
            // The rank that failed copies its pieces when it is started again.
            return if self.others_failed { Ok(None) } else { copy_whole(events) };
        };
        let assembled = Some(self.store.place(&name, target.place.shown));
        match common.copy_file(file.entry, Target { assembled, ..target }, events) {
            // rename(2) answers EXDEV also between two mounts of one file system, and between
            // projects with separate quotas.
            Err(error) if error.is_across_devices() => copy_whole(events),
            placed => placed.map(Some),
        }
    }
}

/// May this file be copied in pieces? A directory that gives its files a group or an access control
/// list must be the one in which they are made.
fn is_divisible(options: &CopyOptions, dir: &Dir, source: &Stat) -> bool {
    // `S_ISGID` of a directory: a new file gets the group of the directory it is made in
    // (inode(7)).
    const SET_GROUP: u32 = 0o2000;
    piece_store::is_divided(options, source)
        && !dir.may_give_acl()
        && dir.stat.st_mode & SET_GROUP == 0
}

/// Nothing is at the target before rank 0 puts the file there.
fn is_divided(options: &CopyOptions, file: &Found<'_>) -> bool {
    is_divisible(options, file.dir, file.entry.stat)
        && matches!(file.target.place.stat(false), Err(Errno::NOENT))
}
