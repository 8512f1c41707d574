//! A run being made: every sample is in the file before the next is measured.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use jiff::Timestamp;
use rustix::io::Errno;

use super::{Store, StoreError, failed, lines};
use crate::model::{Run, Sample};
use crate::write_atomic::write_atomic;

const CANNOT_STORE: &str = "cannot store the run";

/// A new run's id: the time, so that ids sort, and four digits by chance, for runs of the same
/// second.
pub fn new_id(started: Timestamp) -> String {
    let time = started.strftime("%Y%m%d-%H%M%S");
    format!("{time}-{:04x}", fastrand::u16(..))
}

/// A run that is being made, as far as the store is concerned: the one writer of its file.
#[derive(Debug)]
pub struct Recording {
    store: Store,
    path: PathBuf,
    file: File,
}

impl Store {
    /// Writes down that `run` begins.
    pub fn begin(self, run: &Run) -> Result<Recording, StoreError> {
        let path = self.path_of(&run.id);
        let file = File::create_new(&path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => taken(run),
            _ => failed(&path, CANNOT_STORE, error),
        })?;
        let mut recording = Recording { store: self, path, file };
        if let Err(error) = recording.write(&lines::begun(run)) {
            // The error to report is that of writing.
            let _ = recording.forget();
            return Err(error);
        }
        Ok(recording)
    }

    /// Adds a whole run that was made elsewhere; false when the store has the run already.
    ///
    /// A stored run without an end, exported while the run went on, is completed.
    pub fn insert(&self, run: &Run) -> Result<bool, StoreError> {
        match self.load(&run.id)? {
            Some(known) if known == *run || run.is_part_of(&known) => return Ok(false),
            Some(known) if !known.is_part_of(run) => return Err(taken(run)),
            _ => {}
        }
        let path = self.path_of(&run.id);
        write_atomic(&path, &lines::whole(run))
            .map_err(|error| failed(&path, CANNOT_STORE, error))?;
        Ok(true)
    }
}

impl Recording {
    /// Adds a sample.
    ///
    /// # Errors
    /// When the file cannot be written: earlier samples stay, and the recording is over.
    pub fn add(&mut self, sample: &Sample) -> Result<(), StoreError> {
        self.write(&lines::sample(sample))
    }

    /// Writes down how `run` ended, waits until that is on the disk, and gives the store back.
    ///
    /// # Errors
    /// When the file cannot be written; the run then looks like one that was killed.
    pub fn end(mut self, run: &Run) -> Result<Store, StoreError> {
        self.write(&lines::ended(run))?;
        let fails = |error| failed(&self.path, CANNOT_STORE, error);
        self.file.sync_all().map_err(fails)?;
        // Nobody would find what is in a file without a name.
        if self.file.metadata().map_err(fails)?.nlink() == 0 {
            return Err(fails(Errno::NOENT.into()));
        }
        Ok(self.store)
    }

    /// Takes the run out of the store again, and gives the store back.
    pub fn forget(self) -> Result<Store, StoreError> {
        fs::remove_file(&self.path)
            .map_err(|error| failed(&self.path, "cannot remove the run", error))?;
        Ok(self.store)
    }

    fn write(&mut self, line: &str) -> Result<(), StoreError> {
        self.file
            .write_all(line.as_bytes())
            .map_err(|error| failed(&self.path, CANNOT_STORE, error))
    }
}

fn taken(run: &Run) -> StoreError {
    StoreError::Contradiction(format!(
        "another run is called {} here: nothing of it was taken",
        run.id
    ))
}

impl Run {
    /// Is this an earlier state of `whole`: the same run, with fewer or as many samples, and no end
    /// yet?
    fn is_part_of(&self, whole: &Self) -> bool {
        self.finished.is_none()
            && (&self.started, &self.gush, &self.command, &self.machine)
                == (&whole.started, &whole.gush, &whole.command, &whole.machine)
            && whole.samples.starts_with(&self.samples)
    }
}
