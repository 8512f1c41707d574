//! The files of a run: sources of every size, made once, in a directory that goes with the run.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gush::Digest;
use tempfile::TempDir;

use crate::Error;
use crate::count::Count;

/// What is copied, and where to.
#[derive(Debug)]
pub(super) struct Files {
    dir: TempDir,
    /// Without symbolic links, as `/proc` shows open files.
    path: PathBuf,
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
        let made = tempfile::Builder::new().prefix(".gush-lab-").tempdir_in(dir).map_err(cannot)?;
        let path = made.path().canonicalize().map_err(cannot)?;
        Ok(Self { dir: made, path, sources: RefCell::default(), counts: RefCell::default() })
    }

    /// The file that copies are written to.
    pub(super) fn target(&self) -> PathBuf {
        self.path.join("target")
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
