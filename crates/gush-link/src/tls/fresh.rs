//! Values read from files, and again when the files change: certificates are renewed while a link
//! serves.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{Metadata, metadata};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Mutex;

use gush::Unpoisoned;
use tracing::{info, warn};

use crate::open::OpenError;

type Read<T> = dyn Fn() -> Result<T, OpenError> + Send + Sync;

/// A value made of files, as they are now.
pub(super) struct Fresh<T> {
    files: Vec<PathBuf>,
    read: Box<Read<T>>,
    known: Mutex<Snapshot<T>>,
}

struct Snapshot<T> {
    value: T,
    /// Of all files, as they were before the last attempt to read them.
    stamps: Option<Vec<Stamp>>,
}

/// The attributes that a change of a file or directory changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    place: (u64, u64),
    size_bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// None of a pipe, which can be read once only, as a shell's `<(command)`.
    fn of(found: &Metadata) -> Option<Self> {
        (found.is_file() || found.is_dir()).then(|| Self {
            place: (found.dev(), found.ino()),
            size_bytes: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            // The time of the last change too: a file put in place by a move keeps its old time of
            // writing.
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

impl<T: Clone> Fresh<T> {
    /// Reads the value for the first time. `read` may look at `files` only.
    ///
    /// # Errors
    /// As `read`.
    pub fn of<'f>(
        files: impl IntoIterator<Item = &'f OsStr>,
        read: impl Fn() -> Result<T, OpenError> + Send + Sync + 'static,
    ) -> Result<Self, OpenError> {
        let files: Vec<_> = files.into_iter().map(PathBuf::from).collect();
        let stamps = stamps(&files);
        let known = Mutex::new(Snapshot { value: read()?, stamps });
        Ok(Self { files, read: Box::new(read), known })
    }

    /// The value of the files as they are now, or as they were when they could be used last: a new
    /// certificate may be there a moment before its key is.
    pub fn now(&self) -> T {
        let mut known = self.known.lock().unpoisoned();
        // Before the files are read: what changes meanwhile is read the next time.
        let now = known.stamps.is_some().then(|| stamps(&self.files)).flatten();
        if now.is_none() || now == known.stamps {
            return known.value.clone();
        }
        let files: Vec<_> = self.files.iter().map(|file| file.display().to_string()).collect();
        match (self.read)() {
            Ok(value) => {
                info!("read again: {}", files.join(", "));
                known.value = value;
            }
            Err(error) => {
                // A certificate half written must not end a server that has a good one.
                warn!("{error}; what was read of {} before stays in use", files.join(", "))
            }
        }
        known.stamps = now;
        known.value.clone()
    }
}

/// None while one is missing, and if one can be read once only.
fn stamps(files: &[PathBuf]) -> Option<Vec<Stamp>> {
    files.iter().map(|file| metadata(file).ok().as_ref().and_then(Stamp::of)).collect()
}

impl<T> fmt::Debug for Fresh<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fresh").field("files", &self.files).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn files_are_read_again_when_they_change_and_kept_while_they_cannot_be_used() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("number");
        let number = {
            let file = file.clone();
            move || {
                let text =
                    fs::read_to_string(&file).map_err(|error| OpenError::new("read", error))?;
                text.parse::<u32>().map_err(|error| OpenError::said("read", error.to_string()))
            }
        };
        // As renewals do: another file takes the name.
        let write = |text: &str| {
            fs::write(dir.path().join("new"), text).expect("room");
            fs::rename(dir.path().join("new"), &file).expect("room");
        };
        write("1");
        let fresh = Fresh::of([file.as_os_str()], number).expect("a number");
        assert_eq!(fresh.now(), 1);
        write("2");
        assert_eq!((fresh.now(), fresh.now()), (2, 2));
        write("none");
        assert_eq!((fresh.now(), fresh.now()), (2, 2));
        fs::remove_file(&file).expect("it is there");
        assert_eq!(fresh.now(), 2);
        write("3");
        assert_eq!(fresh.now(), 3);
    }

    #[test]
    fn a_pipe_is_read_once() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let count = AtomicU32::new(0);
        let files = [OsStr::new("/dev/null"), file.path().as_os_str()];
        let fresh = Fresh::of(files, move || Ok(count.fetch_add(1, Ordering::Relaxed)));
        let fresh = fresh.expect("it succeeds");
        fs::write(file.path(), "changed").expect("room");
        assert_eq!((fresh.now(), fresh.now()), (0, 0));
    }
}
