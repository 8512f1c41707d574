//! What there is to copy: a walk through the sources that runs ahead of the copy, for the display
//! of progress.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{FileType, Stat};

use super::survey::{self, Visitor};
use crate::error::Error;
use crate::options::{CopyOptions, Dereference};
use crate::place::{FileId, Place, kind};

/// Files and bytes to be copied, counted by one thread and read by another.
///
/// ```
/// use gush_tree::{Census, Dereference, CopyOptions};
///
/// let dir = tempfile::tempdir()?;
/// std::fs::write(dir.path().join("notes"), "worth keeping")?;
/// let mut options = CopyOptions::default();
/// options.recursive = true;
/// options.dereference = Dereference::Never;
/// let census = Census::default();
/// assert_eq!(census.totals(), None);
/// census.count(&options, &[dir.path()]);
/// assert_eq!(census.totals(), Some((1, 13)));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Census {
    files: AtomicU64,
    bytes: AtomicU64,
    is_complete: AtomicBool,
}

struct Count<'a> {
    census: &'a Census,
    options: &'a CopyOptions,
    /// Files with several names, of which only the first is copied.
    known: HashSet<FileId>,
}

impl Census {
    /// A census that is complete.
    #[must_use]
    pub fn of(files: u64, bytes: u64) -> Self {
        Self { files: files.into(), bytes: bytes.into(), is_complete: true.into() }
    }

    /// The regular files and their bytes, once all are counted.
    #[must_use]
    pub fn totals(&self) -> Option<(u64, u64)> {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        self.is_complete.load(Ordering::Acquire).then(|| (load(&self.files), load(&self.bytes)))
    }

    /// Counts what a copy of these sources would copy. Without totals if links are followed
    /// everywhere, or if something cannot be looked at.
    pub fn count(&self, options: &CopyOptions, sources: &[&Path]) {
        let mut count = Count { census: self, options, known: HashSet::new() };
        let is_possible = options.dereference != Dereference::Always || !options.recursive;
        let is_complete = is_possible && sources.iter().all(|source| count.add(source).is_ok());
        // A thread that sees the flag sees the whole counts, too.
        self.is_complete.store(is_complete, Ordering::Release);
    }
}

impl Count<'_> {
    fn add(&mut self, source: &Path) -> Result<(), Error> {
        let follow = self.options.dereference != Dereference::Never;
        let place = Place::here(source);
        let stat = place.look(follow)?;
        if kind(&stat) != FileType::Directory {
            self.add_file(&stat);
            return Ok(());
        }
        survey::walk(self.options, place, self)
    }

    fn add_file(&mut self, stat: &Stat) {
        let is_another_name = self.options.preserve.links
            && stat.st_nlink > 1
            && !self.known.insert(FileId::of(stat));
        if kind(stat) == FileType::RegularFile && !is_another_name {
            self.census.files.fetch_add(1, Ordering::Relaxed);
            let bytes = u64::try_from(stat.st_size).unwrap_or(0);
            self.census.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

impl Visitor for Count<'_> {
    fn enters(&mut self, _: &Arc<OwnedFd>, _: &Stat, _: &Path) -> Result<(), Error> {
        Ok(())
    }

    fn finds(&mut self, _: &Arc<OwnedFd>, _: &OsStr, stat: &Stat, _: &Path) -> Result<(), Error> {
        self.add_file(stat);
        Ok(())
    }

    fn fails(&mut self, error: Error) -> Result<(), Error> {
        Err(error)
    }
}
