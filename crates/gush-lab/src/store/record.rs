//! A run being made: every sample is in the file before the next is measured.

use jiff::Timestamp;

use super::line::{self, Line, Written};
use super::log::Lock;
use super::{Store, StoreError, failed};
use crate::model::{Run, Sample};

/// A new run's id: the time, so that ids sort, and four digits by chance, for runs of the same
/// second.
pub fn new_id(started: Timestamp) -> String {
    let time = started.strftime("%Y%m%d-%H%M%S");
    format!("{time}-{:04x}", fastrand::u16(..))
}

/// A run that is being made, as far as the store is concerned.
#[derive(Debug)]
pub struct Recording {
    store: Store,
    run: String,
}

impl Store {
    /// Writes down that `run` begins.
    pub fn begin(self, run: &Run) -> Result<Recording, StoreError> {
        // A long file is read before others have to wait.
        drop(self.catch_up()?);
        let lock = self.lock()?;
        if self.catch_up_under(&lock)?.get(&run.id).is_some() {
            return Err(taken(run));
        }
        self.append(&lock, &Line::Begun(&without_samples(run)))?;
        drop(lock);
        Ok(Recording { run: run.id.clone(), store: self })
    }

    /// Adds a whole run that was made elsewhere; false when the store has the run already.
    ///
    /// A stored run without an end, exported while the run went on, is completed.
    pub fn insert(&mut self, run: &Run) -> Result<bool, StoreError> {
        drop(self.catch_up()?);
        let lock = self.lock()?;
        let known = self.catch_up_under(&lock)?.get(&run.id).cloned();
        match known {
            Some(known) if known == *run || run.is_part_of(&known) => return Ok(false),
            Some(known) if !known.is_part_of(run) => return Err(taken(run)),
            _ => {
                let samples = run.samples.iter().collect();
                self.append(&lock, &Line::Whole { run: &without_samples(run), samples })?;
            }
        }
        Ok(true)
    }

    fn lock(&self) -> Result<Lock<'_>, StoreError> {
        let (lock, torn) = self.log.lock()?;
        self.notice(torn);
        Ok(lock)
    }

    fn append(&self, lock: &Lock<'_>, line: &Written<'_>) -> Result<(), StoreError> {
        let written = line::bytes(line).map_err(Into::into).and_then(|line| lock.append(&line));
        written.map_err(|error| failed(self.path(), "cannot store the run", error))
    }
}

impl Recording {
    /// Adds a sample.
    ///
    /// # Errors
    /// When the file cannot be written; earlier lines stay.
    pub fn add(&mut self, sample: &Sample) -> Result<(), StoreError> {
        let lock = self.store.lock()?;
        self.store.append(&lock, &Line::Taken { run: self.run.clone(), sample })
    }

    /// Writes down how `run` ended, waits until that is on the disk, and gives the store back.
    ///
    /// # Errors
    /// When the file cannot be written; the run then looks like one that was killed.
    pub fn end(self, run: &Run) -> Result<Store, StoreError> {
        self.store.append(&self.store.lock()?, &Line::Ended(&without_samples(run)))?;
        self.store.log.sync()?;
        Ok(self.store)
    }

    /// Takes the run out of the store again, and gives the store back.
    ///
    /// # Errors
    /// When the file cannot be written; the run then looks like one that was killed.
    pub fn forget(self) -> Result<Store, StoreError> {
        self.store.append(&self.store.lock()?, &Line::Forgotten(self.run.clone()))?;
        Ok(self.store)
    }
}

fn taken(run: &Run) -> StoreError {
    StoreError::Contradiction(format!(
        "another run is called {} here: nothing of it was taken",
        run.id
    ))
}

fn without_samples(run: &Run) -> Run {
    Run { samples: Vec::new(), ..run.clone() }
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
