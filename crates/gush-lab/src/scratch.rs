//! A hidden directory for the files of a run, removed at its end; one that SIGKILL left is removed
//! by a later run in the same place.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gush_text::os_text;
use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

use crate::Error;
use crate::mount::Mount;
use crate::runner::interrupt;

/// The beginning of the directories' names.
const PREFIX: &str = ".gush-lab-";
/// An empty file in each directory, so that no directory of the user's is taken for one.
const MARK: &str = ".made-by-gush-lab";
/// The beginning of the names of directories that hold files of the user's.
const KEPT_PREFIX: &str = "gush-lab-kept-";

/// The directory, with the lock that shows others that the directory is in use.
#[derive(Debug)]
pub(crate) struct Scratch {
    dir: TempDir,
    /// Without symbolic links, as `/proc` shows open files.
    path: PathBuf,
    _lock: File,
}

impl Scratch {
    /// Makes a directory in `dir`, and removes those of runs that were killed.
    pub(crate) fn new_in(dir: &Path) -> Result<Self, Error> {
        remove_left_ones(dir);
        Self::made_in(dir).map_err(|error| cannot_make(dir, &error))
    }

    fn made_in(dir: &Path) -> io::Result<Self> {
        let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(dir)?;
        // A relative path would change its meaning with a command's working directory.
        let path = made.path().canonicalize()?;
        let lock = File::open(&path)?;
        // Refused where the file system has no locks: then nothing of anybody is removed there.
        let _ = flock(&lock, FlockOperation::NonBlockingLockExclusive);
        // Only a directory with this mark is ever removed. It is made once the lock is taken, so a
        // mark without a lock is of a killed run.
        File::create_new(path.join(MARK))?;
        Ok(Self { dir: made, path, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The kind of file system, and its device or server.
    pub(crate) fn file_system(&self) -> [String; 2] {
        let unknown = || "unknown".to_owned();
        Mount::of(&self.path)
            .map_or_else(|| [unknown(), unknown()], |mount| [mount.kind, mount.source])
    }

    /// A new file of so many random bytes, synced so that no write-back disturbs a measurement.
    pub(crate) fn filled(&self, name: &str, bytes: u64) -> Result<(PathBuf, File), Error> {
        self.room_for(bytes)?;
        let path = self.path.join(name);
        let made = File::options().read(true).write(true).create_new(true).open(&path);
        let made =
            made.and_then(|file| fill(&file, bytes).and_then(|()| file.sync_all()).map(|()| file));
        match made {
            Ok(file) => Ok((path, file)),
            Err(error) => {
                // The error of writing counts, not that of tidying up.
                let _ = fs::remove_file(&path);
                Err(Error::failed(format!("cannot make a file of {bytes} bytes"), error))
            }
        }
    }

    /// Refuses a disk without room for a file of so many bytes and a copy.
    pub(crate) fn room_for(&self, bytes: u64) -> Result<(), Error> {
        // A file system that reports no size has as much as it can get.
        let room = rustix::fs::statvfs(&self.path).ok().filter(|room| room.f_blocks > 0);
        let free_bytes = room.map_or(u64::MAX, |room| room.f_bavail.saturating_mul(room.f_frsize));
        if free_bytes / 2 >= bytes {
            return Ok(());
        }
        Err(Error::refused(format!(
            "cannot make a file of {bytes} bytes and leave room for a copy: {free_bytes} bytes are free on that disk (--dir \
             names another place)"
        )))
    }

    /// Keeps the directory, under a name that no later run removes; answers the path.
    pub(crate) fn keep(self) -> io::Result<PathBuf> {
        let Self { dir, path, _lock } = self;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let kept = path.with_file_name(name.replacen(PREFIX, KEPT_PREFIX, 1));
        // From here on nobody removes the directory, also where renaming fails.
        let _ = dir.keep();
        fs::rename(&path, &kept).map(|()| kept)
    }

    /// Removes the directory.
    pub(crate) fn remove(self) -> io::Result<()> {
        self.dir.close()
    }
}

pub(crate) fn cannot_make(dir: &Path, error: &io::Error) -> Error {
    Error::refused(format!(
        "cannot make files in '{}': {} (--dir names another place)",
        dir.display(),
        os_text(error)
    ))
}

/// Removes the directories of runs that were killed: those with the mark that nobody has locked.
fn remove_left_ones(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let is_ours = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(PREFIX);
    for entry in entries.flatten().filter(is_ours) {
        let is_free = || {
            let lock = File::open(entry.path()).ok()?;
            flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()
        };
        let is_marked =
            || fs::symlink_metadata(entry.path().join(MARK)).is_ok_and(|it| it.is_file());
        if is_marked() && is_free().is_some() {
            // Somebody else's may not be removed, and is in nobody's way.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Fills a file with random bytes, always the same for a size.
///
/// # Errors
/// The error of write(2), and `Interrupted` once the run was interrupted.
pub(crate) fn fill(mut file: &File, size_bytes: u64) -> io::Result<()> {
    const PIECE_BYTES: usize = 1 << 20;
    let mut piece = vec![0_u8; PIECE_BYTES];
    let mut random = fastrand::Rng::with_seed(size_bytes);
    let mut left_bytes = size_bytes;
    while left_bytes > 0 {
        // Gibibytes take seconds, and nobody waits for them after Ctrl-C.
        if interrupt::requested() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        random.fill(&mut piece);
        let len = usize::try_from(left_bytes).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        file.write_all(&piece[..len])?;
        left_bytes -= len as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filled_file_has_nothing_to_compress_and_no_hole() {
        let dir = tempfile::tempdir().expect("a directory");
        let scratch = Scratch::new_in(dir.path()).expect("a directory");
        let (path, _) = scratch.filled("in", 3 << 20).expect("filled");
        let bytes = fs::read(path).expect("its bytes");
        assert_eq!(bytes.len(), 3 << 20);
        let pieces: std::collections::BTreeSet<_> = bytes.chunks(16).collect();
        assert_eq!(pieces.len(), bytes.len() / 16, "a piece comes twice");
    }

    #[test]
    fn what_a_killed_run_left_is_removed_and_what_is_in_use_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let running = Scratch::new_in(dir.path()).expect("a directory");
        let [left, begun, foreign] =
            [".gush-lab-left", ".gush-lab-begun", "gush-lab"].map(|name| dir.path().join(name));
        for path in [&left, &begun, &foreign] {
            fs::create_dir(path).expect("made");
            fs::write(path.join("source-1"), "x").expect("written");
        }
        for path in [&left, &foreign] {
            fs::write(path.join(MARK), "").expect("written");
        }
        drop(Scratch::new_in(dir.path()).expect("a directory"));
        assert!(!left.exists(), "nobody uses it any more");
        assert!(begun.exists(), "somebody may be about to lock it");
        assert!(foreign.exists() && running.path.exists());
        let path = running.path.clone();
        running.remove().expect("removed");
        assert!(!path.exists());
    }
}
