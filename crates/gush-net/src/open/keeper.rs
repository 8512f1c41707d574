//! What must be tidied up when an end is no longer used: names that were made, and programs.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::child::Program;
use crate::address::{Opt, Options};

/// A name in the file system that was made for one end, and is removed with it.
#[derive(Debug)]
pub(super) struct Made {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Made {
    /// Unless `unlink-close=0` leaves it where it is.
    pub fn if_removed(path: &Path, options: &Options) -> io::Result<Option<Self>> {
        match options.flag(Opt::UnlinkClose) {
            Some(false) => Ok(None),
            _ => Self::new(path, path).map(Some),
        }
    }

    /// As [`if_removed`](Self::if_removed), of what is to be found at `path` only later, and now at `hidden`.
    pub fn if_removed_once_at(
        path: &Path,
        hidden: &Path,
        options: &Options,
    ) -> io::Result<Option<Self>> {
        match options.flag(Opt::UnlinkClose) {
            Some(false) => Ok(None),
            _ => Self::new(path, hidden).map(Some),
        }
    }

    fn new(path: &Path, now_at: &Path) -> io::Result<Self> {
        let made = now_at.symlink_metadata()?;
        // The working directory may be another one at the end.
        let path = std::path::absolute(path)?;
        Ok(Self { path, device: made.dev(), inode: made.ino() })
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // Somebody may have replaced it.
        let is_ours = self
            .path
            .symlink_metadata()
            .is_ok_and(|now| now.dev() == self.device && now.ino() == self.inode);
        if is_ours && let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!("{}: cannot be removed: {error}", self.path.display());
        }
    }
}

/// Holds what belongs to an end beside its descriptors, until the link is over.
///
/// Dropped, it removes the FIFO that was made and ends the program that was started.
#[derive(Default)]
pub struct Keeper {
    pub(super) made: Option<Made>,
    pub(super) program: Option<Program>,
}

impl Keeper {
    /// The process that was started for this end.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        self.program.as_ref().map(Program::id)
    }

    /// Waits until the program has ended by itself, if there is one.
    ///
    /// Call it only after the conduit is dropped: a program that still has input may never end.
    ///
    /// # Errors
    /// What waitpid(2) answers.
    pub async fn finished(&mut self) -> io::Result<Option<std::process::ExitStatus>> {
        match &mut self.program {
            Some(program) => program.finished().await.map(Some),
            None => Ok(None),
        }
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let made = self.made.as_ref().map(|made| &made.path);
        f.debug_struct("Keeper").field("made", &made).field("process", &self.process()).finish()
    }
}
