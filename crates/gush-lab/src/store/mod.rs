//! Every run that was made here, in one SQLite file: samples are in it as soon as they are taken.
//!
//! | room | holds |
//! |---|---|
//! | `schema` | the tables, how older files become newer ones, which files are left alone |
//! | `record` | a run being made: begun, samples added, ended |
//! | `name` | which run a word means: an id, the start of one, `last`, `last~1` |
//!
//! Nothing here deletes or overwrites what cannot be read: a damaged file, one that is no store, and one
//! of a newer gush are refused with a sentence, and stay as they are.

mod name;
mod record;
mod schema;

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OptionalExtension, Row};

use crate::model::{Measured, Run, Sample};
use crate::os_words;

pub use record::{Recording, new_id};

/// How long a process waits for another that writes.
const BUSY: Duration = Duration::from_secs(10);

/// Why the store cannot be used, as a sentence that says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// SQLite, or the system below it, failed.
    #[error("{path}: {what}: {source}{remedy}", path = path.display())]
    Failed {
        /// The store's file.
        path: PathBuf,
        /// What was being done.
        what: &'static str,
        /// What can be done about it, as ` (…)`, or nothing.
        remedy: &'static str,
        /// SQLite's words.
        source: rusqlite::Error,
    },
    /// The directory for it cannot be made.
    #[error("{path}: cannot make the store's directory: {answer} (choose another place with --db, or leave it with --no-store)", path = path.display(), answer = os_words(source))]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// The file is none of ours, or of a newer gush.
    #[error("{path}: {why}", path = path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it is, and what to do.
        why: String,
    },
    /// No run, or more than one, is meant by a word.
    #[error("{0}")]
    NoSuchRun(String),
    /// What is stored or imported contradicts itself.
    #[error("{0}")]
    Contradiction(String),
    /// Neither of the variables that say where data belongs is set.
    #[error("nowhere to keep runs: neither XDG_DATA_HOME nor HOME is set (say --db PATH)")]
    Homeless,
}

/// A run without its samples, for lists.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The run; its samples are left out.
    pub run: Run,
    /// How many samples it has.
    pub samples: u64,
    /// The suites that they belong to, in order.
    pub suites: Vec<String>,
}

/// The runs of one file.
///
/// ```
/// use gush_lab::model::Run;
/// use gush_lab::store::Store;
/// # let directory = tempfile::tempdir()?;
/// let path = directory.path().join("lab.sqlite3");
/// let mut store = Store::open(&path)?;
/// let run = Run { id: "20261121-144355-a3f2".into(), ..Run::default() };
/// assert!(store.insert(&run)?);
/// assert!(!store.insert(&run)?, "it is there already");
/// assert_eq!(store.find("last")?, run.id);
/// assert_eq!(store.run(&run.id)?, run);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    connection: Connection,
}

/// The file of runs unless told otherwise: `$XDG_DATA_HOME/gush/lab.sqlite3`, by default under
/// `~/.local/share` (XDG Base Directory Specification).
///
/// # Errors
/// [`StoreError::Homeless`] when neither variable is set.
///
/// ```
/// if let Ok(path) = gush_lab::store::default_path() {
///     assert!(path.ends_with("gush/lab.sqlite3"));
/// }
/// ```
pub fn default_path() -> Result<PathBuf, StoreError> {
    Ok(data_directory()?.join("lab.sqlite3"))
}

/// Where gush keeps data: `$XDG_DATA_HOME/gush`, by default `~/.local/share/gush`.
///
/// # Errors
/// [`StoreError::Homeless`] when neither variable is set.
///
/// ```
/// if let Ok(path) = gush_lab::store::data_directory() {
///     assert!(path.is_absolute());
/// }
/// ```
pub fn data_directory() -> Result<PathBuf, StoreError> {
    // The specification: a path that is not absolute is to be ignored.
    let absolute = |value: OsString| Some(PathBuf::from(value)).filter(|path| path.is_absolute());
    let data = env::var_os("XDG_DATA_HOME").and_then(absolute).or_else(|| {
        let home = env::var_os("HOME").and_then(absolute)?;
        Some(home.join(".local/share"))
    });
    data.map(|data| data.join("gush")).ok_or(StoreError::Homeless)
}

impl Store {
    /// Opens the store at `path`, and makes it, with its directory, where there is none.
    ///
    /// # Errors
    /// When the place cannot be written, or what is there is damaged, something else, or a newer gush's.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if let Some(directory) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            std::fs::create_dir_all(directory)
                .map_err(|source| StoreError::Directory { path: directory.to_owned(), source })?;
        }
        let connection = schema::open(path)?;
        Ok(Self { path: path.to_owned(), connection })
    }

    /// Opens the store at `path` for reading; also where it cannot be written.
    ///
    /// # Errors
    /// When there is none, or what is there is damaged, something else, or a newer gush's.
    pub fn read(path: &Path) -> Result<Self, StoreError> {
        let connection = schema::open_to_read(path)?;
        Ok(Self { path: path.to_owned(), connection })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All runs, the oldest first.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn runs(&self) -> Result<Vec<Entry>, StoreError> {
        let list = || {
            let mut select = self.connection.prepare(
                "SELECT id, head,
                        (SELECT count(*) FROM samples WHERE run = id),
                        (SELECT group_concat(suite, ',')
                           FROM (SELECT DISTINCT suite FROM samples WHERE run = id ORDER BY suite))
                   FROM runs ORDER BY started, id",
            )?;
            let rows = select.query_map([], |row| {
                Ok((
                    row.get::<_, String>(0)?,
                    row.get::<_, String>(1)?,
                    row.get::<_, u64>(2)?,
                    row.get::<_, Option<String>>(3)?,
                ))
            })?;
            rows.collect::<Result<Vec<_>, _>>()
        };
        let rows = list().map_err(|error| self.failed("cannot read the runs", error))?;
        rows.into_iter()
            .map(|(id, head, samples, suites)| {
                let suites = suites.unwrap_or_default();
                let suites = suites.split(',').filter(|suite| !suite.is_empty());
                Ok(Entry {
                    run: self.head(&id, &head)?,
                    samples,
                    suites: suites.map(str::to_owned).collect(),
                })
            })
            .collect()
    }

    /// The run with this id, whole.
    ///
    /// # Errors
    /// [`StoreError::NoSuchRun`], or when the file cannot be read.
    pub fn run(&self, id: &str) -> Result<Run, StoreError> {
        let head = self
            .connection
            .query_row("SELECT head FROM runs WHERE id = ?1", [id], |row| row.get::<_, String>(0))
            .optional()
            .map_err(|error| self.failed("cannot read a run", error))?
            .ok_or_else(|| StoreError::NoSuchRun(format!("no run is called '{id}'")))?;
        Ok(Run { samples: self.samples(id)?, ..self.head(id, &head)? })
    }

    fn samples(&self, id: &str) -> Result<Vec<Sample>, StoreError> {
        let select = || {
            let mut select = self.connection.prepare(
                "SELECT suite, name, round, gib_per_s, wall_s, user_s, system_s, bytes, facts
                   FROM samples WHERE run = ?1 ORDER BY number",
            )?;
            select.query_map([id], sample)?.collect::<Result<Vec<_>, _>>()
        };
        select().map_err(|error| self.failed("cannot read samples", error))
    }

    fn head(&self, id: &str, head: &str) -> Result<Run, StoreError> {
        serde_json::from_str(head).map_err(|error| {
            StoreError::Contradiction(format!(
                "{}: run {id} cannot be understood: {error}",
                self.path.display()
            ))
        })
    }

    fn failed(&self, what: &'static str, source: rusqlite::Error) -> StoreError {
        failed(&self.path, what, source)
    }
}

fn failed(path: &Path, what: &'static str, source: rusqlite::Error) -> StoreError {
    let remedy = match source.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            " (the file is left as it is: move it away, or name another with --db)"
        }
        Some(ErrorCode::DiskFull) => {
            " (what was stored before is kept: make room, or name another place with --db)"
        }
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            " (name another place with --db, or leave it with --no-store)"
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            " (another process has been writing for a long time: try again)"
        }
        _ => "",
    };
    StoreError::Failed { path: path.to_owned(), what, remedy, source }
}

fn sample(row: &Row<'_>) -> rusqlite::Result<Sample> {
    let facts: String = row.get(8)?;
    let facts = serde_json::from_str(&facts).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(8, rusqlite::types::Type::Text, Box::new(error))
    })?;
    Ok(Sample {
        suite: row.get(0)?,
        case: row.get(1)?,
        round: row.get(2)?,
        measured: Measured {
            gib_per_s: row.get(3)?,
            wall_s: row.get(4)?,
            user_s: row.get(5)?,
            system_s: row.get(6)?,
            bytes: row.get(7)?,
            facts,
        },
    })
}
