//! A path asked for: the kind of file, and files there for trials.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD};

use gush_text::os_text;

use crate::bench::special_kind;

/// The size of a trial file.
const CONTENT_BYTES: usize = 64 << 10;
/// How many names of a directory are looked at for a file to read.
const MOST_NAMES: usize = 1000;

/// The kind of file that a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Directory,
    File,
    /// A device, pipe or socket: by its name.
    Other(&'static str),
}

/// A path, looked at.
#[derive(Debug)]
pub(super) struct AskedPath {
    pub(super) path: PathBuf,
    pub(super) found: Result<Found, io::Error>,
}

/// The file found at a path.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) sort: Sort,
    pub(super) device: u64,
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// Where files can be made that lie on the same file system.
    pub(super) dir: PathBuf,
}

impl AskedPath {
    pub(super) fn of(path: &Path) -> Self {
        Self { path: path.to_owned(), found: look(path) }
    }

    pub(super) fn is_usable(&self) -> bool {
        self.found.as_ref().is_ok_and(Found::is_usable)
    }

    /// Can files there be copied to and fro?
    pub(super) fn holds_files(&self) -> bool {
        self.found.as_ref().is_ok_and(|found| !matches!(found.sort, Sort::Other(_)))
    }
}

fn look(path: &Path) -> io::Result<Found> {
    let about = fs::metadata(path)?;
    let kind = about.file_type();
    let sort = match special_kind(kind) {
        Some(name) => Sort::Other(name),
        None if kind.is_dir() => Sort::Directory,
        None => Sort::File,
    };
    let may = |access| rustix::fs::accessat(CWD, path, access, AtFlags::EACCESS).is_ok();
    let dir = match (sort, path.parent()) {
        (Sort::Directory, _) => path.to_owned(),
        (_, Some(parent)) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    Ok(Found {
        sort,
        device: about.dev(),
        readable: may(Access::READ_OK),
        writable: may(Access::WRITE_OK),
        dir,
    })
}

impl Found {
    /// Can bytes be read from the path, or written to it?
    pub(super) fn is_usable(&self) -> bool {
        self.readable || self.writable
    }

    /// A file without a name, which is gone when closed.
    pub(super) fn scratch(&self) -> io::Result<File> {
        let file = tempfile::tempfile_in(&self.dir)?;
        if file.metadata()?.dev() == self.device {
            return Ok(file);
        }
        Err(io::Error::other("its directory lies on another file system"))
    }

    /// A file without a name that holds something, at position 0.
    pub(super) fn filled_scratch(&self) -> io::Result<File> {
        let mut file = self.scratch()?;
        file.write_all(&[b'x'; CONTENT_BYTES])?;
        // Delayed blocks are nothing that could be shared.
        file.sync_all()?;
        io::Seek::rewind(&mut file)?;
        Ok(file)
    }

    /// A file to read there: the file itself, one made for it, or the first one that there is.
    pub(super) fn source(&self, path: &Path) -> Result<File, String> {
        if self.sort == Sort::File {
            return open(path).map_err(|error| os_text(&error));
        }
        self.filled_scratch().or_else(|_| self.first_file())
    }

    fn first_file(&self) -> Result<File, String> {
        let names = fs::read_dir(&self.dir).map_err(|error| os_text(&error))?;
        for name in names.take(MOST_NAMES).flatten() {
            let is_file = name.metadata().is_ok_and(|about| {
                about.is_file() && about.len() > 0 && about.dev() == self.device
            });
            if is_file && let Ok(file) = open(&name.path()) {
                return Ok(file);
            }
        }
        Err("no file can be made in the source, and it has none to read".to_owned())
    }
}

/// Opens a regular file, with O_NONBLOCK in case a FIFO has taken its place.
fn open(path: &Path) -> io::Result<File> {
    File::options()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_looked_at_and_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "content").unwrap();
        let asked = AskedPath::of(&path);
        let found = asked.found.as_ref().unwrap();
        assert_eq!((found.sort, asked.is_usable()), (Sort::File, true));
        assert!(found.source(&path).is_ok() && found.scratch().is_ok());
        assert_eq!(fs::read(&path).unwrap(), b"content");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_missing_is_not_usable() {
        assert!(!AskedPath::of(Path::new("/no/such/path")).is_usable());
    }

    #[test]
    fn a_device_is_no_file() {
        let asked = AskedPath::of(Path::new("/dev/null"));
        assert!(asked.is_usable() && !asked.holds_files());
    }
}
