//! The files of a run: sources of every size, made once, in a directory that goes with the run.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use gush::Digest;
use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

use crate::Error;
use crate::count::Count;

/// What is copied, and where to.
#[derive(Debug)]
pub(super) struct Files {
    dir: TempDir,
    /// Without symbolic links, as `/proc` shows open files.
    path: PathBuf,
    /// Shows others that the directory is in use.
    _lock: File,
    sources: RefCell<BTreeMap<u64, Result<Source, String>>>,
    /// The calls of copies that were counted already, by the case's name without what they do not
    /// depend on.
    counts: RefCell<BTreeMap<String, Count>>,
}

/// A file to copy.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) digest: Digest,
}

impl Files {
    /// A new, hidden directory in `dir`, which is removed in the end.
    pub(super) fn new(dir: &Path) -> Result<Self, Error> {
        let cannot = |error: io::Error| {
            let what = format!("cannot make files in '{}'", dir.display());
            Error::refused(format!(
                "{what}: {} (--dir names another place)",
                crate::os_words(&error)
            ))
        };
        remove_left_ones(dir);
        let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(dir).map_err(cannot)?;
        let path = made.path().canonicalize().map_err(cannot)?;
        let lock = File::open(&path).map_err(cannot)?;
        // Refused where the file system has no locks: then nothing of anybody is removed there.
        let _ = flock(&lock, FlockOperation::NonBlockingLockExclusive);
        let (sources, counts) = (RefCell::default(), RefCell::default());
        Ok(Self { dir: made, path, _lock: lock, sources, counts })
    }

    /// The file that copies are written to.
    pub(super) fn target(&self) -> PathBuf {
        self.path.join("target")
    }

    /// The kind of file system that they lie on, by its name or its number (statfs(2)).
    pub(super) fn file_system(&self) -> String {
        const NAMES: [(u64, &str); 6] = [
            (0xef53, "ext4"),
            (0x0102_1994, "tmpfs"),
            (0x5846_5342, "xfs"),
            (0x9123_683e, "btrfs"),
            (0x794c_7630, "overlay"),
            (0x6969, "nfs"),
        ];
        let Ok(about) = rustix::fs::statfs(&self.path) else { return "unknown".to_owned() };
        let magic = about.f_type as u64 & 0xffff_ffff;
        let known = NAMES.iter().find(|(number, _)| *number == magic);
        known.map_or_else(|| format!("{magic:#x}"), |(_, name)| (*name).to_owned())
    }

    pub(super) fn remove_target(&self) {
        // Not there before the first copy, nor after one that failed early.
        let _ = fs::remove_file(self.dir.path().join("target"));
    }

    /// The source of this size, written when it is first asked for; a failure is remembered.
    pub(super) fn source(&self, size_bytes: u64) -> Result<Source, Error> {
        self.sources
            .borrow_mut()
            .entry(size_bytes)
            .or_insert_with(|| self.make(size_bytes).map_err(|error| error.told()))
            .clone()
            .map_err(Error::refused)
    }

    /// What `count` answers, asked once for every `name`.
    pub(super) fn counted(
        &self,
        name: &str,
        count: impl FnOnce() -> Result<Count, Error>,
    ) -> Result<Count, Error> {
        if let Some(known) = self.counts.borrow().get(name) {
            return Ok(known.clone());
        }
        let count = count()?;
        self.counts.borrow_mut().insert(name.to_owned(), count.clone());
        Ok(count)
    }

    fn make(&self, size_bytes: u64) -> Result<Source, Error> {
        let path = self.path.join(format!("source-{size_bytes}"));
        self.room_for(size_bytes)?;
        let made = File::options().read(true).write(true).create_new(true).open(&path);
        let made = made.and_then(|file| {
            fill(&file, size_bytes)?;
            file.sync_all()?;
            Ok(file)
        });
        let file = made.map_err(|error| {
            let _ = fs::remove_file(&path);
            Error::failed(format!("cannot make a source of {size_bytes} bytes"), error)
        })?;
        let digest = digest(&file)?;
        Ok(Source { path, digest })
    }

    /// A disk is not filled to find out that it is too small for the source and its copy.
    pub(super) fn room_for(&self, size_bytes: u64) -> Result<(), Error> {
        // One that does not tell has as much as it can get.
        let Some(room) = rustix::fs::statvfs(&self.path).ok().filter(|room| room.f_blocks > 0)
        else {
            return Ok(());
        };
        let free_bytes = room.f_bavail.saturating_mul(room.f_frsize);
        if free_bytes / 2 >= size_bytes {
            return Ok(());
        }
        Err(Error::refused(format!(
            "cannot make a source of {size_bytes} bytes and a copy of it: {free_bytes} bytes are free on \
             that disk (--dir names another place, --size other sizes)"
        )))
    }
}

/// What the directories are called.
const PREFIX: &str = ".gush-lab-";

/// Removes the directories of runs that were killed: those that nobody has locked, and that are older than the moment
/// between making one and locking it.
fn remove_left_ones(dir: &Path) {
    const MOMENT: Duration = Duration::from_secs(60);
    let Ok(entries) = fs::read_dir(dir) else { return };
    let is_ours = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(PREFIX);
    for entry in entries.flatten().filter(is_ours) {
        let is_old = entry.metadata().ok().filter(fs::Metadata::is_dir).is_some_and(|about| {
            let age = about.modified().ok().and_then(|changed| changed.elapsed().ok());
            age.is_some_and(|age| age > MOMENT)
        });
        let is_free = || {
            let lock = File::open(entry.path()).ok()?;
            flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()
        };
        if is_old && is_free().is_some() {
            // Somebody else's may not be removed, and is in nobody's way.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The digest of all of `file`.
pub(super) fn digest(file: &File) -> Result<Digest, Error> {
    gush::digest_of(file).map_err(|error| Error::refused(error.to_string()))
}

/// Fills a file with bytes that are nowhere zero for long and nowhere the same.
fn fill(mut file: &File, size_bytes: u64) -> io::Result<()> {
    const PIECE_BYTES: usize = 1 << 20;
    let mut piece = vec![0_u8; PIECE_BYTES];
    let mut state = 0x9E37_79B9_7F4A_7C15_u64 ^ size_bytes;
    let mut left = size_bytes;
    while left > 0 {
        for word in piece.chunks_exact_mut(8) {
            // xorshift (Marsaglia 2003).
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        let len = usize::try_from(left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        file.write_all(&piece[..len])?;
        left -= len as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn what_a_killed_run_left_is_removed_and_what_is_in_use_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let running = Files::new(dir.path()).expect("a directory");
        let [left, new, foreign] =
            [".gush-lab-left", ".gush-lab-new", "gush-lab"].map(|name| dir.path().join(name));
        for path in [&left, &new, &foreign] {
            fs::create_dir(path).expect("made");
            fs::write(path.join("source-1"), "x").expect("written");
        }
        let long_ago = SystemTime::now() - Duration::from_secs(3600);
        for path in [&left, &foreign, &running.path] {
            File::open(path).expect("open").set_modified(long_ago).expect("older");
        }
        drop(Files::new(dir.path()).expect("a directory"));
        assert!(!left.exists(), "nobody uses it any more");
        assert!(new.exists(), "somebody may be about to lock it");
        assert!(foreign.exists() && running.path.exists());
    }
}
