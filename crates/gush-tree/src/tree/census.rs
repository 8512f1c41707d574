//! What there is to copy: a walk through the sources that runs ahead of the copy, for the display
//! of progress.

use std::collections::HashSet;
use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{self, FileType, Mode, OFlags, RawDir, Stat};
use rustix::io::{self, Errno, retry_on_intr};

use super::batch::LISTED_BYTES;
use super::dir;
use super::path::TreePath;
use crate::filter::GitIgnored;
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

/// A directory on the way down.
struct Visited {
    id: FileId,
    name: CString,
    /// The subdirectories not yet visited.
    left: Vec<CString>,
    ignored: Option<Arc<GitIgnored>>,
}

struct Count<'a> {
    census: &'a Census,
    options: &'a CopyOptions,
    /// Files with several names, of which only the first is copied.
    known: HashSet<FileId>,
    listed: Vec<u8>,
}

impl Census {
    /// The regular files and their bytes, once all are counted.
    #[must_use]
    pub fn totals(&self) -> Option<(u64, u64)> {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        self.is_complete.load(Ordering::Acquire).then(|| (load(&self.files), load(&self.bytes)))
    }

    /// Counts what a copy of these sources would copy. Without totals if links are followed
    /// everywhere, or if something cannot be looked at.
    pub fn count(&self, options: &CopyOptions, sources: &[&Path]) {
        let listed = Vec::with_capacity(LISTED_BYTES);
        let mut count = Count { census: self, options, known: HashSet::new(), listed };
        let is_possible = options.dereference != Dereference::Always || !options.recursive;
        let is_complete = is_possible && sources.iter().all(|source| count.add(source).is_ok());
        // A thread that sees the flag sees the whole counts, too.
        self.is_complete.store(is_complete, Ordering::Release);
    }
}

impl Count<'_> {
    fn add(&mut self, source: &Path) -> io::Result<()> {
        let follow = self.options.dereference != Dereference::Never;
        let place = Place::here(source);
        let stat = place.stat(follow)?;
        if kind(&stat) != FileType::Directory {
            self.add_file(&stat);
            return Ok(());
        }
        let follow = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        let root = place.open(OFlags::RDONLY | OFlags::DIRECTORY | follow, Mode::empty())?;
        self.walk(root, &mut TreePath::new(source))
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

    /// Visits a directory and all below. One directory is open at a time; the way back is `..`.
    fn walk(&mut self, root: OwnedFd, path: &mut TreePath) -> io::Result<()> {
        let device = retry_on_intr(|| fs::fstat(&root))?.st_dev;
        let mut levels = vec![self.list(root.as_fd(), c"".to_owned(), None, path)?];
        let mut at = root;
        loop {
            let Some(level) = levels.last_mut() else { return Ok(()) };
            if let Some(name) = level.left.pop() {
                let below = dir::enter(at.as_fd(), &name)?;
                let stat = retry_on_intr(|| fs::fstat(&below))?;
                if self.options.one_file_system && stat.st_dev != device {
                    continue;
                }
                path.push(OsStr::from_bytes(name.to_bytes()));
                let above = level.ignored.clone();
                levels.push(self.list(below.as_fd(), name, above.as_ref(), path)?);
                at = below;
                continue;
            }
            path.pop(OsStr::from_bytes(level.name.to_bytes()));
            levels.pop();
            let Some(above) = levels.last() else { return Ok(()) };
            at = dir::up(at.as_fd(), above.id)?;
        }
    }

    fn list(
        &mut self,
        dir: BorrowedFd<'_>,
        name: CString,
        above: Option<&Arc<GitIgnored>>,
        path: &mut TreePath,
    ) -> io::Result<Visited> {
        let id = FileId::of(&retry_on_intr(|| fs::fstat(dir))?);
        let path_bytes = path.below_root().as_os_str().len();
        let ignored = match self.options.gitignore {
            true => GitIgnored::read(above, dir, path.path(), path_bytes).map_err(|_| Errno::IO)?,
            false => None,
        };
        let mut left = Vec::new();
        let mut listed = std::mem::take(&mut self.listed);
        let mut entries = RawDir::new(dir, listed.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let name = OsStr::from_bytes(name.to_bytes());
            let stat = match entry.file_type() {
                FileType::RegularFile | FileType::Unknown => {
                    let stat = Place::below(dir, Path::new(name), Path::new(name)).stat(false);
                    match stat {
                        Err(Errno::NOENT) => continue,
                        other => Some(other?),
                    }
                }
                _ => None,
            };
            let kind = stat.as_ref().map_or(entry.file_type(), kind);
            let is_directory = kind == FileType::Directory;
            let before = path.push(name);
            let below = path.below_root();
            let is_left_out = self
                .options
                .filter
                .as_ref()
                .is_some_and(|filter| filter.excludes(below, is_directory))
                || ignored.as_ref().is_some_and(|ignored| ignored.excludes(below, is_directory));
            path.back_to(before);
            match stat {
                _ if is_left_out => {}
                _ if is_directory => left.push(entry.file_name().to_owned()),
                Some(stat) => self.add_file(&stat),
                None => {}
            }
        }
        self.listed = listed;
        Ok(Visited { id, name, left, ignored })
    }
}
