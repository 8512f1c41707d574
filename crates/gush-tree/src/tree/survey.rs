//! A walk through a source by one thread, for everything but a copy within this machine: the count
//! of what there is, and the sender of a copy to another machine.
//!
//! One directory is read at a time: its entries first, then its subdirectories. The way back up is
//! `..`, checked against device and inode, so that no depth needs more than one descriptor. A
//! directory that may not be searched has no such way: the one above is held meanwhile.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{self, AtFlags, FileType, RawDir, Stat};
use rustix::io::{self, Errno, retry_on_intr};

use super::batch::LISTED_BYTES;
use super::held::{self, Held};
use super::path::TreePath;
use crate::error::Error;
use crate::filter::GitIgnored;
use crate::options::{CopyOptions, Dereference};
use crate::place::{FileId, Place, kind};

/// What a walk meets. Paths are as the user wrote the root, and the names below. An error ends the
/// walk.
pub trait Visitor {
    /// A directory comes next, held by a descriptor; the root is the first.
    ///
    /// # Errors
    /// To end the walk.
    fn enters(&mut self, dir: &Arc<OwnedFd>, stat: &Stat, path: &Path) -> Result<(), Error>;

    /// The text of the `.gitignore` of the directory entered last, before its entries
    /// ([`CopyOptions::gitignore`]).
    ///
    /// # Errors
    /// To end the walk.
    fn ignores(&mut self, _lines: &[u8]) -> Result<(), Error> {
        Ok(())
    }

    /// The entries of the directory entered last are left out: it is another file system's.
    ///
    /// # Errors
    /// To end the walk.
    fn skips(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// An entry of the directory entered last that is no directory.
    ///
    /// # Errors
    /// To end the walk.
    fn finds(
        &mut self,
        dir: &Arc<OwnedFd>,
        name: &OsStr,
        stat: &Stat,
        path: &Path,
    ) -> Result<(), Error>;

    /// The directory entered last and not yet left is done.
    ///
    /// # Errors
    /// To end the walk.
    fn leaves(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Something could not be looked at, and the walk goes on without it.
    ///
    /// # Errors
    /// To end the walk.
    fn fails(&mut self, error: Error) -> Result<(), Error>;
}

/// A directory on the way down.
struct Level {
    id: FileId,
    name: CString,
    /// The subdirectories not yet visited.
    left: Vec<CString>,
    ignored: Option<Arc<GitIgnored>>,
    /// The directory above, where `..` does not lead there.
    above: Option<Arc<OwnedFd>>,
}

struct Survey<'a> {
    options: &'a CopyOptions,
    /// That of the root.
    device: u64,
    path: TreePath,
    listed: Vec<u8>,
}

/// Visits a directory and all below, but for what the options leave out.
///
/// # Errors
/// Those of the visitor, and where the root cannot be opened or the way back up is lost.
pub fn walk(
    options: &CopyOptions,
    root: Place<'_>,
    visitor: &mut dyn Visitor,
) -> Result<(), Error> {
    let follow = options.dereference != Dereference::Never;
    let (Held { fd, is_readable }, stat) = Held::find(&root, follow)?;
    let listed = Vec::with_capacity(LISTED_BYTES);
    let path = TreePath::new(root.shown);
    let mut survey = Survey { options, device: stat.st_dev, path, listed };
    let mut at = Arc::new(fd);
    let mut levels =
        vec![survey.enter((&at, is_readable, &stat), c"".to_owned(), None, visitor)?];
    loop {
        let Some(level) = levels.last_mut() else { return Ok(()) };
        if let Some(name) = level.left.pop() {
            let shown = OsStr::from_bytes(name.to_bytes());
            let before = survey.path.push(shown);
            let place = Place::below(at.as_fd(), Path::new(shown), survey.path.path());
            match Held::find(&place, false) {
                Ok((Held { fd, is_readable }, stat)) => {
                    let (below, above) = (Arc::new(fd), level.ignored.clone());
                    let opened = (&below, is_readable, &stat);
                    let mut next = survey.enter(opened, name, above.as_ref(), visitor)?;
                    let found = retry_on_intr(|| fs::statat(&below, c".", AtFlags::empty()));
                    next.above = found.is_err().then_some(at);
                    levels.push(next);
                    at = below;
                }
                Err(error) => {
                    survey.path.back_to(before);
                    visitor.fails(error)?;
                }
            }
            continue;
        }
        visitor.leaves()?;
        survey.path.pop(OsStr::from_bytes(level.name.to_bytes()));
        let held = level.above.take();
        levels.pop();
        let Some(above) = levels.last() else { return Ok(()) };
        at = match held {
            Some(held) => held,
            None => Arc::new(
                held::up(at.as_fd(), above.id)
                    .map_err(|errno| held::lost(survey.path.path(), errno))?,
            ),
        };
    }
}

impl Survey<'_> {
    fn enter(
        &mut self,
        (dir, is_readable, stat): (&Arc<OwnedFd>, bool, &Stat),
        name: CString,
        above: Option<&Arc<GitIgnored>>,
        visitor: &mut dyn Visitor,
    ) -> Result<Level, Error> {
        let id = FileId::of(stat);
        let mut level = Level { id, name, left: Vec::new(), ignored: None, above: None };
        visitor.enters(dir, stat, self.path.path())?;
        // As GNU: the directory is made, and its entries are another file system's.
        if self.options.one_file_system && stat.st_dev != self.device {
            visitor.skips()?;
            return Ok(level);
        }
        if is_readable && self.options.gitignore {
            let lines = GitIgnored::lines(dir.as_fd(), self.path.path())?;
            level.ignored = GitIgnored::new(above, lines.as_deref(), &self.path);
            lines.map_or(Ok(()), |lines| visitor.ignores(&lines))?;
        }
        let mut listed = std::mem::take(&mut self.listed);
        let ended = self.list(dir, &mut listed, &mut level, visitor);
        self.listed = listed;
        if let Err(errno) = ended? {
            // One that cannot be read was opened by O_PATH, which lists nothing.
            let errno = if is_readable { errno } else { Errno::ACCESS };
            visitor.fails(Error::os(self.path.path(), "cannot access {}", errno))?;
        }
        Ok(level)
    }

    fn list(
        &mut self,
        dir: &Arc<OwnedFd>,
        listed: &mut Vec<u8>,
        level: &mut Level,
        visitor: &mut dyn Visitor,
    ) -> Result<io::Result<()>, Error> {
        let mut entries = RawDir::new(dir, listed.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(errno) => return Ok(Err(errno)),
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let shown = OsStr::from_bytes(name.to_bytes());
            let looked = match entry.file_type() {
                FileType::Directory => None,
                _ => {
                    Some(Place::below(dir.as_fd(), Path::new(shown), Path::new(shown)).stat(false))
                }
            };
            let is_directory = match &looked {
                None => true,
                Some(Ok(stat)) => kind(stat) == FileType::Directory,
                // Removed since it was listed.
                Some(Err(Errno::NOENT)) => continue,
                Some(Err(_)) => false,
            };
            let before = self.path.push(shown);
            let below = self.path.below_root();
            let is_left_out = self.options.leaves_out(level.ignored.as_ref(), below, is_directory);
            let ended = match looked {
                _ if is_left_out => Ok(()),
                _ if is_directory => {
                    level.left.push(name.to_owned());
                    Ok(())
                }
                Some(Ok(stat)) => visitor.finds(dir, shown, &stat, self.path.path()),
                Some(Err(errno)) => {
                    visitor.fails(Error::os(self.path.path(), "cannot stat {}", errno))
                }
                None => Ok(()),
            };
            self.path.back_to(before);
            ended?;
        }
        Ok(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Met(Vec<String>);

    impl Visitor for Met {
        fn enters(&mut self, _: &Arc<OwnedFd>, _: &Stat, path: &Path) -> Result<(), Error> {
            self.0.push(format!("enters {}", path.file_name().unwrap().display()));
            Ok(())
        }

        fn ignores(&mut self, lines: &[u8]) -> Result<(), Error> {
            self.0.push(format!("ignores {}", String::from_utf8_lossy(lines)));
            Ok(())
        }

        fn finds(
            &mut self,
            _: &Arc<OwnedFd>,
            name: &OsStr,
            _: &Stat,
            _: &Path,
        ) -> Result<(), Error> {
            self.0.push(format!("finds {}", name.display()));
            Ok(())
        }

        fn fails(&mut self, error: Error) -> Result<(), Error> {
            Err(error)
        }
    }

    #[test]
    fn a_visitor_knows_what_is_ignored_before_the_entries() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("s");
        std::fs::create_dir_all(root.join("below")).unwrap();
        for (file, text) in [(".gitignore", "x"), ("x", ""), ("below/x", ""), ("below/y", "")] {
            std::fs::write(root.join(file), text).unwrap();
        }
        let options = CopyOptions { gitignore: true, ..CopyOptions::default() };
        let mut met = Met::default();
        walk(&options, Place::here(&root), &mut met).unwrap();
        let expected = ["enters s", "ignores x", "finds .gitignore", "enters below", "finds y"];
        assert_eq!(met.0, expected);
    }
}
