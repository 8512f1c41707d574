//! Every run made here: a directory with a file for each run, which its one writer extends by whole
//! lines. Samples are in the file as soon as they are taken.
//!
//! | room | holds |
//! |---|---|
//! | `lines` | the file of a run: its lines, written and read |
//! | `record` | a run being made: begun, samples added, ended; a run made elsewhere |
//!
//! Nothing here deletes or overwrites a file that cannot be read: a damaged file, a foreign one and
//! one of a newer gush are refused with a sentence, stay as they are, and concern no other run.

mod lines;
mod record;

use std::env;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::model::Run;
use crate::transfer;
use gush_text::os_text;
use rustix::fs::{Access, AtFlags, CWD, OFlags, accessat};

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
    /// The file or directory is no store, or a newer gush has written it.
    #[error("{path}: {why}", path = path.display())]
    Foreign {
        path: PathBuf,
        /// The kind of file found, and the remedy.
        why: String,
    },
    /// A line of a run's file cannot be understood.
    #[error(
        "{path}: line {line} cannot be understood: {why} (the file is left as it is: move it elsewhere to be without this run)",
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

/// The runs of one directory.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
}

/// The default directory of runs: `$XDG_DATA_HOME/gush/runs`, by default under `~/.local/share`
/// (XDG Base Directory Specification).
pub fn default_path() -> Result<PathBuf, StoreError> {
    Ok(data_directory()?.join("runs"))
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
    /// The store at `path`, for reading.
    pub fn read(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// The store at `path`, for writing; makes a missing directory.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => not_a_directory(path),
            _ => StoreError::Directory { path: path.to_owned(), source: error },
        })?;
        accessat(CWD, path, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
            .map_err(|errno| failed(path, "cannot write to the store", errno.into()))?;
        Ok(Self::read(path))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All runs, the oldest first, each with the reason if it cannot be read.
    pub fn runs(
        &self,
    ) -> Result<impl DoubleEndedIterator<Item = Result<Run, StoreError>>, StoreError> {
        Ok(self.ids()?.into_iter().filter_map(|id| self.load(&id).transpose()))
    }

    /// The run that `word` means: an id, the unique start of one, `last`, or `last~N`, the Nth
    /// before the last.
    pub fn find(&self, word: &str) -> Result<Run, StoreError> {
        let no_such = StoreError::NoSuchRun;
        let ids = self.ids()?;
        if ids.is_empty() {
            return Err(no_runs_yet(&self.path));
        }
        if let Some(back) = back(word) {
            let back = back.ok_or_else(|| {
                no_such(format!("'{word}' is not a run: last~1 is the one before the last"))
            })?;
            let mut runs = ids.iter().rev().filter_map(|id| self.load(id).transpose());
            return runs
                .nth(back)
                .unwrap_or_else(|| Err(no_such(format!("'{word}' is before the first run"))));
        }
        let unknown = || no_such(format!("unknown run '{word}'; gush lab history lists them"));
        let found: Vec<&String> = ids.iter().filter(|id| id.starts_with(word)).collect();
        let id = match found[..] {
            [id] => id,
            [] => return Err(unknown()),
            _ if ids.iter().any(|id| id == word) => word,
            [first, .., last] => {
                return Err(no_such(format!(
                    "'{word}' could be {} runs, {first} to {last}: write more of the id",
                    found.len(),
                )));
            }
        };
        self.load(id)?.ok_or_else(unknown)
    }

    /// The ids of all runs, the oldest first: by name, which begins with the second of the start,
    /// and within a second by the time that the run has.
    fn ids(&self) -> Result<Vec<String>, StoreError> {
        let fails = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => no_runs_yet(&self.path),
            io::ErrorKind::NotADirectory => not_a_directory(&self.path),
            _ => failed(&self.path, CANNOT_READ, error),
        };
        let mut ids = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(fails)? {
            let name = entry.map_err(fails)?.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(".jsonl"));
            ids.extend(id.filter(|id| transfer::is_id(id)).map(str::to_owned));
        }
        ids.sort_unstable();
        for same in ids.chunk_by_mut(|one, other| second(one) == second(other)) {
            if same.len() > 1 {
                same.sort_by_cached_key(|id| self.load(id).ok().flatten().map(|run| run.started));
            }
        }
        Ok(ids)
    }

    fn path_of(&self, id: &str) -> PathBuf {
        self.path.join(format!("{id}.jsonl"))
    }

    /// The run of this id as far as it is stored; `None` where no line of it is.
    fn load(&self, id: &str) -> Result<Option<Run>, StoreError> {
        let path = self.path_of(id);
        // A FIFO would be waited for.
        let open = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(&path);
        let read = open.and_then(|mut file| match file.metadata()?.is_file() {
            true => {
                let mut text = Vec::new();
                file.read_to_end(&mut text).map(|_| text)
            }
            false => Err(io::Error::other("not a regular file")),
        });
        match read {
            Ok(text) => Ok(lines::parse(&path, &text)?.map(|run| Run { id: id.to_owned(), ..run })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(&path, CANNOT_READ, error)),
        }
    }
}

/// The second in which the run of this id began.
fn second(id: &str) -> &str {
    id.get(.."20261121-144355".len()).unwrap_or(id)
}

/// How many runs before the last: `last` 0, `last~2` 2; `Some(None)` for a number that is none.
fn back(word: &str) -> Option<Option<usize>> {
    match word.strip_prefix("last")? {
        "" => Some(Some(0)),
        rest => rest.strip_prefix('~').map(|number| number.parse().ok()),
    }
}

fn no_runs_yet(path: &Path) -> StoreError {
    StoreError::NoSuchRun(format!(
        "{}: no runs yet: gush lab, or gush lab import, makes the first",
        path.display()
    ))
}

fn not_a_directory(path: &Path) -> StoreError {
    let why = "is not a directory: name a directory with --db".to_owned();
    StoreError::Foreign { path: path.to_owned(), why }
}

const CANNOT_READ: &str = "cannot read the store";

fn failed(path: &Path, what: &'static str, source: io::Error) -> StoreError {
    use io::ErrorKind::{
        FileTooLarge, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
    };
    let remedy = match source.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => {
            " (what was stored before is kept: make room, or name another place with --db)"
        }
        PermissionDenied if what == CANNOT_READ => " (name another store with --db)",
        ReadOnlyFilesystem | PermissionDenied => {
            " (name another place with --db, or use --no-store)"
        }
        _ => "",
    };
    StoreError::Failed { path: path.to_owned(), what, remedy, source }
}
