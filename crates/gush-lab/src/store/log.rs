//! The file: opened, locked for a moment, and extended by whole lines.
//!
//! A line counts once the newline is there, and never changes after that. Only the bytes after the
//! last newline are ever cut off, by a writer that holds the lock: its own bytes, if the disk was
//! full, or those of a killed writer, which are kept in a second file. A reader therefore needs no
//! lock.

use std::cell::Cell;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::line::{self, HEADER, VERSION};
use super::{CANNOT_READ, StoreError, failed};

/// How long a process waits for another that writes.
const BUSY: Duration = Duration::from_secs(30);
const CANNOT_MEND: &str = "cannot bring the store in order";
/// A header is shorter, also one of a newer gush.
const LONGEST_HEADER: usize = 256;

#[derive(Debug)]
pub(super) struct Log {
    pub(super) path: PathBuf,
    file: File,
    /// Where the file ended in a newline when this process last had the lock.
    end_bytes: Cell<u64>,
}

/// Nobody else writes while this lives.
pub(super) struct Lock<'a>(&'a Log);

/// The last line of the file, if the newline is missing: the writer was killed, or is writing just
/// now.
#[derive(Debug)]
pub(super) struct Torn {
    pub bytes: u64,
    /// The file with these bytes, if they were moved there.
    pub kept_in: Option<PathBuf>,
}

impl Log {
    fn of(path: &Path, file: File) -> Self {
        // No file is as long as this: the first look is at all of it.
        Self { path: path.to_owned(), file, end_bytes: Cell::new(u64::MAX) }
    }

    /// Opens the file to be extended, and makes a missing file.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        // Asked before the file is opened: O_CREAT on a FIFO or a device would wait, or write
        // there.
        is_file_or_missing(path)?;
        // O_APPEND: two writers can never write over each other's lines.
        let opened = OpenOptions::new().read(true).append(true).create(true).open(path);
        let file = opened.map_err(|error| failed(path, "cannot open the store", error))?;
        Ok(Self::of(path, file))
    }

    /// Opens the file to be read. `None` if the file is missing or empty.
    pub fn open_to_read(path: &Path) -> Result<Option<Self>, StoreError> {
        is_file_or_missing(path)?;
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|error| failed(path, CANNOT_READ, error))?,
        };
        let log = Self::of(path, file);
        Ok(log.has_header()?.then_some(log))
    }

    /// Waits until nobody else writes, and then makes the file end in a newline: a new file gets a
    /// header, and a torn line is moved to a second file.
    pub fn lock(&self) -> Result<(Lock<'_>, Option<Torn>), StoreError> {
        let lock = self.wait(FlockOperation::NonBlockingLockExclusive)?;
        let there = self.file.metadata();
        let there = there.map_err(|error| failed(&self.path, CANNOT_MEND, error))?;
        // Nobody would find what is written into a file without a name.
        if there.nlink() == 0 {
            return Err(StoreError::Removed { path: self.path.clone() });
        }
        // Only bytes after the last newline are ever cut off: a file of this length is unchanged.
        let is_ours = there.len() == self.end_bytes.get();
        let torn = if is_ours { None } else { lock.mend(there.len())? };
        Ok((lock, torn))
    }

    /// Waits until nobody writes, and keeps writers away.
    pub fn lock_to_read(&self) -> Result<Lock<'_>, StoreError> {
        self.wait(FlockOperation::NonBlockingLockShared)
    }

    /// The bytes after the last whole line, which ends at `whole_bytes`, unless a writer is at
    /// work.
    pub fn torn_after(&self, whole_bytes: u64) -> Option<Torn> {
        // A writer that is at work has an unfinished line for a moment, which is no torn one.
        rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockShared).ok()?;
        let _lock = Lock(self);
        let mut last = [0];
        let size = self.file.metadata().ok()?.len();
        self.file.read_exact_at(&mut last, size.checked_sub(1)?).ok()?;
        let is_torn = last != *b"\n" && size > whole_bytes;
        is_torn.then(|| Torn { bytes: size - whole_bytes, kept_in: None })
    }

    /// The bytes from `at` to the end of the file.
    pub fn read_from(&self, at: u64) -> Result<Vec<u8>, StoreError> {
        let fails = |error| failed(&self.path, CANNOT_READ, error);
        let size = self.file.metadata().map_err(fails)?.len();
        let mut text = vec![0; usize::try_from(size.saturating_sub(at)).unwrap_or(usize::MAX)];
        let have = self.read_at(&mut text, at)?;
        text.truncate(have);
        Ok(text)
    }

    /// Reads from `at` on, and returns how many bytes `buffer` got; fewer only at the file's end.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<usize, StoreError> {
        let mut have = 0;
        while have < buffer.len() {
            match self.file.read_at(&mut buffer[have..], at + have as u64) {
                Ok(0) => break,
                Ok(read) => have += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(&self.path, CANNOT_READ, error)),
            }
        }
        Ok(have)
    }

    /// Waits until the written lines are on the disk.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(|error| failed(&self.path, "cannot store the run", error))
    }

    fn wait(&self, how: FlockOperation) -> Result<Lock<'_>, StoreError> {
        let until = Instant::now() + BUSY;
        loop {
            match rustix::fs::flock(&self.file, how) {
                Ok(()) => return Ok(Lock(self)),
                Err(Errno::INTR) => {}
                // Tried again instead of waited for: flock(2) has no limit of time.
                Err(Errno::WOULDBLOCK) if Instant::now() < until => {
                    thread::sleep(Duration::from_millis(1));
                }
                Err(error) => {
                    return Err(failed(&self.path, "cannot lock the store", error.into()));
                }
            }
        }
    }

    /// Refuses a file that is something else's, or a newer gush's. False for nothing, or a part of
    /// the header.
    fn has_header(&self) -> Result<bool, StoreError> {
        let foreign = |why: String| Err(StoreError::Foreign { path: self.path.clone(), why });
        let mut start = [0; LONGEST_HEADER];
        let have = self.read_at(&mut start, 0)?;
        let start = &start[..have];
        let first = start.iter().position(|&byte| byte == b'\n').map(|end| &start[..end]);
        match first.map(line::version) {
            None if HEADER.starts_with(start) => Ok(false),
            // A newer store may hold lines that an older gush would take for damage.
            Some(Some(version)) if version > VERSION => foreign(format!(
                "was written by a newer gush (version {version} of the store, this gush knows {VERSION}): update gush, or \
                 name another file with --db"
            )),
            Some(Some(_)) => Ok(true),
            _ => foreign(
                "is not a store of runs, and is left as it is: name another file with --db"
                    .to_owned(),
            ),
        }
    }
}

impl Lock<'_> {
    /// Adds a line that ends in a newline, by one write(2). On an error nothing of the line stays.
    pub fn append(&self, line: &[u8]) -> io::Result<()> {
        let Self(Log { file, end_bytes, .. }) = self;
        let mut file = file;
        file.write_all(line).inspect_err(|_| {
            // If this fails, too, the next writer finds a torn line.
            let _ = file.set_len(end_bytes.get());
        })?;
        end_bytes.set(end_bytes.get() + line.len() as u64);
        Ok(())
    }

    fn mend(&self, size: u64) -> Result<Option<Torn>, StoreError> {
        let Self(log) = self;
        let fails = |error| failed(&log.path, CANNOT_MEND, error);
        let has_header = log.has_header()?;
        let whole_bytes = if has_header { log.whole_bytes(size)? } else { 0 };
        let torn = log.set_aside(whole_bytes, size).map_err(fails)?;
        log.end_bytes.set(whole_bytes);
        if !has_header {
            let begun = self.append(HEADER);
            begun.map_err(|error| failed(&log.path, "cannot begin the store", error))?;
        }
        Ok(torn)
    }
}

impl Log {
    /// Up to which byte of `size` the file has whole lines.
    fn whole_bytes(&self, size: u64) -> Result<u64, StoreError> {
        let mut block = [0; 4096];
        // Nearly always the last byte is the newline.
        let mut span = 1;
        let mut end = size;
        while end > 0 {
            let start = end.saturating_sub(span);
            let block = &mut block[..(end - start) as usize];
            self.read_at(block, start)?;
            if let Some(newline) = block.iter().rposition(|&byte| byte == b'\n') {
                return Ok(start + newline as u64 + 1);
            }
            end = start;
            span = 4096;
        }
        Ok(0)
    }

    /// Moves the bytes from `from` to `size` to the end of a second file. A process killed
    /// meanwhile leaves them in both.
    fn set_aside(&self, from: u64, size: u64) -> io::Result<Option<Torn>> {
        if from == size {
            return Ok(None);
        }
        let mut rest = vec![0; usize::try_from(size - from).unwrap_or(usize::MAX)];
        self.file.read_exact_at(&mut rest, from)?;
        rest.push(b'\n');
        let path = torn_path(&self.path);
        let mut kept = OpenOptions::new().append(true).create(true).open(&path)?;
        kept.write_all(&rest)?;
        // On storage before the original is cut, so that a crash in between loses nothing.
        kept.sync_data()?;
        self.file.set_len(from)?;
        Ok(Some(Torn { bytes: size - from, kept_in: Some(path) }))
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // A child process may hold the same open file: closing ours would not end the lock.
        let _ = rustix::fs::flock(&self.0.file, FlockOperation::Unlock);
    }
}

/// The file for the torn lines of the store at `path`.
fn torn_path(path: &Path) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(".torn");
    name.into()
}

/// A device would be taken for an empty store, and opening a FIFO waits.
fn is_file_or_missing(path: &Path) -> Result<(), StoreError> {
    match fs::metadata(path) {
        Ok(there) if !there.is_file() => {
            let kind = if there.is_dir() { "is a directory" } else { "is not a regular file" };
            let why = format!("{kind}: name another file with --db");
            Err(StoreError::Foreign { path: path.to_owned(), why })
        }
        _ => Ok(()),
    }
}
