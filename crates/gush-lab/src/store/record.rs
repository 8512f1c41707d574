//! A run being made: every sample is in the file before the next is measured.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::{Store, StoreError};
use crate::model::{Run, Sample};

/// A new run's id: the time, so that ids sort, and four digits by chance, for runs of the same second.
///
/// ```
/// let id = gush_lab::store::new_id("2026-11-21T14:43:55Z".parse()?);
/// assert!(id.starts_with("20261121-144355-") && id.len() == 20);
/// # Ok::<(), jiff::Error>(())
/// ```
#[must_use]
pub fn new_id(started: Timestamp) -> String {
    let time = started.strftime("%Y%m%d-%H%M%S");
    format!("{time}-{:04x}", fastrand::u16(..))
}

/// A run that is being made, as far as the store is concerned.
#[derive(Debug)]
pub struct Recording {
    store: Store,
    run: String,
    samples: u64,
}

impl Store {
    /// Writes down that `run` begins.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn begin(self, run: &Run) -> Result<Recording, StoreError> {
        let begun = insert_head(&self.connection, run);
        begun.map_err(|error| self.failed("cannot store the run", error))?;
        Ok(Recording { run: run.id.clone(), samples: 0, store: self })
    }

    /// Adds a whole run that was made elsewhere; false when it is here already.
    ///
    /// A run that is here without its end, because it was exported while it ran, is completed.
    ///
    /// # Errors
    /// [`StoreError::Contradiction`] when another run has its id, or when the file cannot be written.
    pub fn insert(&mut self, run: &Run) -> Result<bool, StoreError> {
        let known = match self.run(&run.id) {
            Ok(known) => Some(known),
            Err(StoreError::NoSuchRun(_)) => None,
            Err(error) => return Err(error),
        };
        let from = match known {
            None => 0,
            Some(known) if known == *run || run.is_part_of(&known) => return Ok(false),
            Some(known) if known.is_part_of(run) => known.samples.len(),
            Some(_) => {
                return Err(StoreError::Contradiction(format!(
                    "another run is called {} here: nothing of it was taken",
                    run.id
                )));
            }
        };
        let mut insert = || {
            let transaction =
                self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            insert_head(&transaction, run)?;
            for (number, sample) in run.samples.iter().enumerate().skip(from) {
                insert_sample(&transaction, &run.id, number as u64, sample)?;
            }
            transaction.commit()
        };
        let inserted: rusqlite::Result<()> = insert();
        inserted.map_err(|error| super::failed(&self.path, "cannot store the run", error))?;
        Ok(true)
    }

    /// Is there a run with this id?
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn has(&self, id: &str) -> Result<bool, StoreError> {
        self.connection
            .query_row("SELECT 1 FROM runs WHERE id = ?1", [id], |_| Ok(()))
            .optional()
            .map(|found| found.is_some())
            .map_err(|error| self.failed("cannot read the runs", error))
    }
}

impl Recording {
    /// Adds a sample.
    ///
    /// # Errors
    /// When the file cannot be written; what it had before stays.
    pub fn add(&mut self, sample: &Sample) -> Result<(), StoreError> {
        insert_sample(&self.store.connection, &self.run, self.samples, sample)
            .map_err(|error| self.store.failed("cannot store a sample", error))?;
        self.samples += 1;
        Ok(())
    }

    /// Writes down how `run` ended, and gives the store back.
    ///
    /// # Errors
    /// When the file cannot be written; the run then looks like one that was killed.
    pub fn end(self, run: &Run) -> Result<Store, StoreError> {
        let ended = insert_head(&self.store.connection, run);
        ended.map_err(|error| self.store.failed("cannot store the run's end", error))?;
        Ok(self.store)
    }

    /// Takes the run out of the store again, and gives the store back.
    ///
    /// # Errors
    /// When the file cannot be written; the run then looks like one that was killed.
    pub fn forget(mut self) -> Result<Store, StoreError> {
        let forgotten = forget(&mut self.store.connection, &self.run);
        forgotten.map_err(|error| self.store.failed("cannot take the run out again", error))?;
        Ok(self.store)
    }
}

fn forget(connection: &mut Connection, run: &str) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute("DELETE FROM samples WHERE run = ?1", [run])?;
    transaction.execute("DELETE FROM runs WHERE id = ?1", [run])?;
    transaction.commit()
}

fn insert_head(connection: &Connection, run: &Run) -> rusqlite::Result<()> {
    let head = Run { samples: Vec::new(), ..run.clone() };
    let head = serde_json::to_string(&head)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    connection
        .execute(
            "INSERT INTO runs (id, started, machine, head) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (id) DO UPDATE SET head = excluded.head",
            // As many digits always, so that the text sorts as the time does.
            params![run.id, format!("{:.9}", run.started), run.machine.id, head],
        )
        .map(drop)
}

fn insert_sample(
    connection: &Connection,
    run: &str,
    number: u64,
    sample: &Sample,
) -> rusqlite::Result<()> {
    let Sample { suite, case, round, measured } = sample;
    let facts = serde_json::to_string(&measured.facts)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    connection
        .prepare_cached(
            "INSERT INTO samples (run, number, suite, name, round, gib_per_s, wall_s, user_s, system_s, bytes, facts)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute(params![
            run,
            number,
            suite,
            case,
            round,
            measured.gib_per_s,
            measured.wall_s,
            measured.user_s,
            measured.system_s,
            measured.bytes,
            facts
        ])
        .map(drop)
}

impl Run {
    /// Is this an earlier state of `whole`: the same run, with fewer or as many samples, and no end yet?
    fn is_part_of(&self, whole: &Self) -> bool {
        self.finished.is_none()
            && (&self.started, &self.gush, &self.command, &self.machine)
                == (&whole.started, &whole.gush, &whole.command, &whole.machine)
            && whole.samples.starts_with(&self.samples)
    }
}
