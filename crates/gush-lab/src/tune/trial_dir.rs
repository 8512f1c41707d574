//! The directories that trial files are made in: the file system, and the free room.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::mount::Mount;
use crate::probe::available_memory_bytes;

/// Shared memory is a tmpfs on every distribution (shm_overview(7)).
const SHARED_MEMORY: &str = "/dev/shm";

/// A directory, and its file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialDir {
    /// The directory.
    pub dir: PathBuf,
    /// The name of the file system, such as `ext4`.
    pub file_system: String,
    /// The device number.
    pub(super) device: u64,
    /// The largest file to be made there, in bytes: a part of the free room.
    pub(super) room_bytes: u64,
}

impl TrialDir {
    /// Looks at a directory by making a nameless file in it.
    pub fn look(dir: &Path) -> Result<Self, Error> {
        let file = file_in(dir)?;
        let failed = |what: &str, error: std::io::Error| {
            Error::failed(format!("cannot {what} {}", dir.display()), error)
        };
        let stat = file.metadata().map_err(|error| failed("look into", error))?;
        let space = rustix::fs::fstatvfs(&file).map_err(|errno| failed("measure", errno.into()))?;
        Ok(Self {
            dir: dir.to_owned(),
            file_system: Mount::of(dir).map_or_else(|| "?".to_owned(), |mount| mount.kind),
            device: stat.dev(),
            room_bytes: (space.f_bavail.saturating_mul(space.f_frsize) / 4)
                .min(available_memory_bytes() / 8),
        })
    }

    /// Looks at `dirs` and at shared memory; one directory for each device.
    pub fn all(dirs: &[PathBuf]) -> Result<Vec<Self>, Error> {
        let mut all = dirs.iter().map(|dir| Self::look(dir)).collect::<Result<Vec<_>, _>>()?;
        // Nobody asked for it: where it is missing, its questions are.
        all.extend(Self::look(Path::new(SHARED_MEMORY)));
        let mut devices = Vec::new();
        all.retain(|dir| {
            !devices.contains(&dir.device) && {
                devices.push(dir.device);
                true
            }
        });
        Ok(all)
    }

    pub(super) fn file(&self) -> Result<File, Error> {
        file_in(&self.dir)
    }
}

/// A file without a name: the kernel frees it at the end of this process, also after SIGKILL.
fn file_in(dir: &Path) -> Result<File, Error> {
    tempfile::tempfile_in(dir)
        .map_err(|error| Error::failed(format!("cannot make a file in {}", dir.display()), error))
}
