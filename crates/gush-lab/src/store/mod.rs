//! Every run made here, in one file that only grows, a line of JSON for each event: samples are in
//! the file as soon as they are taken.
//!
//! | room | holds |
//! |---|---|
//! | `line` | the lines: a run begun, a sample taken, a run ended, whole, or forgotten |
//! | `log` | the file: locked for a moment, extended by whole lines; a torn line is moved to a second file; foreign files are refused |
//! | `runs` | the runs of the file, in memory |
//! | `record` | a run being made: begun, samples added, ended |
//! | `name` | which run a word means: an id, the start of one, `last`, `last~1` |
//!
//! Nothing here deletes or overwrites a file that cannot be read: a damaged file, a file that is no
//! store, and a file of a newer gush are refused with a sentence, and stay as they are.

mod line;
mod log;
mod name;
mod record;
mod runs;

use std::cell::{RefCell, RefMut};
use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::model::Run;
use gush_text::os_text;
use log::{Lock, Log, Torn};
use runs::Runs;

pub use record::{Recording, new_id};

/// Why the store cannot be used, as a sentence with a remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    #[error("{path}: {what}: {answer}{remedy}", path = path.display(), answer = os_text(source))]
    Failed {
        path: PathBuf,
        what: &'static str,
        /// The remedy, as ` (…)`, or nothing.
        remedy: &'static str,
        source: io::Error,
    },
    /// The directory for the store cannot be made.
    #[error("{path}: cannot make the store's directory: {answer} (choose another place with --db, or use --no-store)", path = path.display(), answer = os_text(source))]
    Directory { path: PathBuf, source: io::Error },
    /// The file is not a store, or a newer gush has written it.
    #[error("{path}: {why}", path = path.display())]
    Foreign {
        path: PathBuf,
        /// The kind of file found, and the remedy.
        why: String,
    },
    /// Somebody has removed the file since it was opened.
    #[error("{path}: the store was removed meanwhile (start again, or name another file with --db)", path = path.display())]
    Removed { path: PathBuf },
    /// A whole line cannot be understood.
    #[error(
        "{path}: line {line} cannot be understood: {why} (the file is left as it is: take the line out, or name another file \
         with --db)",
        path = path.display()
    )]
    Damaged { path: PathBuf, line: u64, why: String },
    /// No run, or more than one, is meant by a word.
    #[error("{0}")]
    NoSuchRun(String),
    /// The stored or imported runs contradict themselves.
    #[error("{0}")]
    Contradiction(String),
    /// Neither of the variables that say where data belongs is set.
    #[error("nowhere to keep runs: neither XDG_DATA_HOME nor HOME is set (say --db PATH)")]
    Homeless,
}

/// The runs of one file.
#[derive(Debug)]
pub struct Store {
    log: Log,
    runs: RefCell<Runs>,
    notices: RefCell<Vec<String>>,
}

/// The default file of runs: `$XDG_DATA_HOME/gush/lab.jsonl`, by default under
/// `~/.local/share` (XDG Base Directory Specification).
pub fn default_path() -> Result<PathBuf, StoreError> {
    Ok(data_directory()?.join("lab.jsonl"))
}

/// Where gush keeps data: `$XDG_DATA_HOME/gush`, by default `~/.local/share/gush`.
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
    /// Opens the store at `path`, and makes a missing store and a missing directory.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if let Some(directory) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            std::fs::create_dir_all(directory)
                .map_err(|source| StoreError::Directory { path: directory.to_owned(), source })?;
        }
        match Self::locked_once(path) {
            // Removed between the opening and the lock.
            Err(StoreError::Removed { .. }) => Self::locked_once(path),
            other => other,
        }
    }

    fn locked_once(path: &Path) -> Result<Self, StoreError> {
        let store = Self::of(Log::open(path)?);
        // Locked once at the opening: a torn line is set aside before a run begins, and not in its
        // middle.
        let (_, torn) = store.log.lock()?;
        store.notice(torn);
        Ok(store)
    }

    /// Opens the store at `path` for reading; also where writing is not allowed.
    pub fn read(path: &Path) -> Result<Self, StoreError> {
        let store = Self::of(Log::open_to_read(path)?.ok_or_else(|| no_runs_yet(path))?);
        let whole_bytes = store.catch_up()?.read_bytes;
        store.notice(store.log.torn_after(whole_bytes));
        Ok(store)
    }

    pub fn path(&self) -> &Path {
        &self.log.path
    }

    /// Notices about the file for the user, as sentences, each returned once: a line that a killed
    /// writer left unfinished.
    pub fn notices(&self) -> Vec<String> {
        self.notices.take()
    }

    /// All runs, the oldest first.
    pub fn runs(&self) -> Result<Vec<Run>, StoreError> {
        Ok(self.catch_up()?.sorted().into_iter().cloned().collect())
    }

    pub fn run(&self, id: &str) -> Result<Run, StoreError> {
        let run = self.catch_up()?.get(id).cloned();
        run.ok_or_else(|| StoreError::NoSuchRun(format!("unknown run '{id}'")))
    }

    /// The runs that these words mean; all of them for no words.
    pub fn runs_called(&self, words: &[String]) -> Result<Vec<Run>, StoreError> {
        match words {
            [] => self.runs(),
            words => words.iter().map(|word| self.run(&self.find(word)?)).collect(),
        }
    }

    fn of(log: Log) -> Self {
        Self { log, runs: RefCell::default(), notices: RefCell::default() }
    }

    /// The runs as the file has them now.
    fn catch_up(&self) -> Result<RefMut<'_, Runs>, StoreError> {
        let mut runs = self.runs.borrow_mut();
        // Other processes append meanwhile, so each question reads on from where the last one
        // ended.
        runs.catch_up(&self.log)?;
        Ok(runs)
    }

    /// The same, while nobody else writes.
    fn catch_up_under(&self, _lock: &Lock<'_>) -> Result<RefMut<'_, Runs>, StoreError> {
        let mut runs = self.runs.borrow_mut();
        runs.read(&self.log)?;
        Ok(runs)
    }

    fn notice(&self, torn: Option<Torn>) {
        let Some(Torn { bytes, kept_in }) = torn else { return };
        let done = match kept_in {
            Some(path) => format!("kept in {}", path.display()),
            None => "left out".to_owned(),
        };
        self.notices.borrow_mut().push(format!(
            "{}: the last line was not finished, because its writer was killed or the disk was full: its {bytes} bytes are \
             {done}",
            self.path().display()
        ));
    }
}

fn no_runs_yet(path: &Path) -> StoreError {
    StoreError::NoSuchRun(format!(
        "{}: no runs yet: gush lab, or gush lab import, makes the first",
        path.display()
    ))
}

const CANNOT_READ: &str = "cannot read the store";

fn failed(path: &Path, what: &'static str, source: io::Error) -> StoreError {
    use io::ErrorKind::{
        FileTooLarge, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull, WouldBlock,
    };
    let remedy = match source.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => {
            " (what was stored before is kept: make room, or name another place with --db)"
        }
        PermissionDenied if what == CANNOT_READ => " (name another store with --db)",
        ReadOnlyFilesystem | PermissionDenied => {
            " (name another place with --db, or use --no-store)"
        }
        WouldBlock => " (another process has been writing for a long time: try again)",
        _ => "",
    };
    StoreError::Failed { path: path.to_owned(), what, remedy, source }
}
