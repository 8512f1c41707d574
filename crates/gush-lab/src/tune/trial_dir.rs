//! The directories of files made while tuning: the file system, and the free room.

use std::fs::File;
use std::path::{Path, PathBuf};

use gush::Endpoint;

use crate::Error;
use crate::probe::available_memory_bytes;

/// Shared memory is a tmpfs on every distribution (shm_overview(7)).
const SHARED_MEMORY: &str = "/dev/shm";

/// A directory on a file system that a profile can name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialDir {
    /// The directory.
    pub dir: PathBuf,
    /// The file system, by the name in profiles.
    pub file_system: &'static str,
    /// The device number.
    pub(super) device: u64,
    /// How large a file may be made there, in bytes: a part of the free room.
    pub(super) room_bytes: u64,
}

impl TrialDir {
    /// Looks at a directory by making a nameless file in it.
    ///
    /// # Errors
    /// A sentence: no file can be made there, or profiles do not know the file system.
    pub fn look(dir: &Path) -> Result<Self, Error> {
        let file = file_in(dir)?;
        let about = |what: &str, errno: rustix::io::Errno| {
            Error::failed(format!("cannot {what} {}", dir.display()), errno)
        };
        let endpoint = Endpoint::of(&file).map_err(|errno| about("look into", errno))?;
        let space = rustix::fs::fstatvfs(&file).map_err(|errno| about("measure", errno))?;
        let Some(file_system) = endpoint.local_file_system() else {
            return Err(Error::refused(format!(
                "{} is on a file system that profiles do not speak of (they know those whose copies \
                 this machine makes itself): name another with --dir",
                dir.display()
            )));
        };
        Ok(Self {
            dir: dir.to_owned(),
            file_system,
            device: endpoint.device(),
            room_bytes: (space.f_bavail.saturating_mul(space.f_frsize) / 4)
                .min(available_memory_bytes() / 8),
        })
    }

    /// Looks at those asked for, and at shared memory; one for each file system, and notes
    /// about those left out.
    ///
    /// # Errors
    /// As [`TrialDir::look`], of a directory asked for.
    pub fn all(dirs: &[PathBuf]) -> Result<(Vec<Self>, Vec<String>), Error> {
        let mut kept: Vec<Self> = Vec::new();
        let mut notes = Vec::new();
        for dir in dirs {
            let looked = Self::look(dir)?;
            match kept.iter().find(|known| known.file_system == looked.file_system) {
                Some(known) => notes.push(format!(
                    "{} is left out: rules go by file system, and {} has {} already",
                    dir.display(),
                    known.dir.display(),
                    known.file_system
                )),
                None => kept.push(looked),
            }
        }
        // Only asked by us: where it is missing nobody needs to know.
        if let Ok(shared) = Self::look(Path::new(SHARED_MEMORY))
            && kept.iter().all(|known| known.file_system != shared.file_system)
        {
            kept.push(shared);
        }
        Ok((kept, notes))
    }

    pub(super) fn file(&self) -> Result<File, Error> {
        file_in(&self.dir)
    }
}

/// A file without a name: the kernel frees the file at the end of this process, also after SIGKILL.
fn file_in(dir: &Path) -> Result<File, Error> {
    tempfile::tempfile_in(dir)
        .map_err(|error| Error::failed(format!("cannot make a file in {}", dir.display()), error))
}
