//! A copy of a stream into a file.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use tracing::error;

use crate::open::os_words;

/// A FIFO or terminal that takes nothing for so long ends the copy: meanwhile the connections of one thread wait.
const MOST_STALL: Duration = Duration::from_secs(10);

/// A file that gets a copy of the passing bytes. The bytes then go through memory, not by splice.
///
/// ```
/// use gush_link::Tee;
/// let dir = tempfile::tempdir()?;
/// let path = dir.path().join("log");
/// Tee::append_to(&path)?.write(b"passed");
/// assert_eq!(std::fs::read(&path)?, b"passed");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Tee {
    path: PathBuf,
    file: File,
    failed: Mutex<Option<io::Error>>,
}

impl Tee {
    /// Opens the file at `path`, or makes it, and appends the copies.
    ///
    /// # Errors
    /// The error of open(2), or a sentence about a FIFO without a reader.
    pub fn append_to(path: &Path) -> io::Result<Self> {
        if gush_process::closed_behind(path).is_some() {
            return Err(Errno::BADF.into());
        }
        // Without O_NONBLOCK, opening a FIFO would silently wait for its reader (fifo(7)), and so would a write.
        let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
        let file = File::options().append(true).create(true).custom_flags(nonblocking).open(path);
        let file = file.map_err(|error| match error.raw_os_error() {
            Some(libc::ENXIO) => io::Error::other(
                "nobody reads this FIFO, or serves this socket: start its reader first",
            ),
            _ => error,
        })?;
        Ok(Self { path: path.to_owned(), file, failed: Mutex::new(None) })
    }

    /// Appends `bytes`. The first failure is logged and ends the copy, but not the link.
    pub fn write(&self, bytes: &[u8]) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.is_none()
            && let Err(error) = write_all(&self.file, bytes, MOST_STALL)
        {
            error!(path = %self.path.display(), error = %os_words(&error), "the copy ends here, the link goes on");
            *failed = Some(error);
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The failure that ended the copy early, if there was one.
    pub(crate) fn failure(&self) -> Option<String> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.as_ref().map(|error| format!("{}: write: {}", self.path.display(), os_words(error)))
    }
}

/// Writes everything, and waits for room at most `most_stall` at a time.
fn write_all(mut file: &File, mut bytes: &[u8], most_stall: Duration) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait_for_room(file, most_stall)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn wait_for_room(file: &File, most: Duration) -> io::Result<()> {
    let until = Instant::now() + most;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(file, PollFlags::OUT)], Some(&left)) {
            Ok(0) => {
                let why = format!("its reader took nothing for {most:?}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::thread;

    use super::*;

    fn fifo() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        (dir, path)
    }

    /// A FIFO that can be read, and whose other ends are the test's own.
    fn reader(path: &Path) -> File {
        File::options().read(true).write(true).open(path).unwrap()
    }

    #[test]
    fn a_reader_that_takes_nothing_ends_the_copy() {
        let (_dir, path) = fifo();
        let _stuck = reader(&path);
        let tee = Tee::append_to(&path).unwrap();
        let most = Duration::from_millis(20);
        let error = write_all(&tee.file, &vec![7; 1 << 20], most).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(error.to_string(), "its reader took nothing for 20ms");
    }

    #[test]
    fn a_reader_that_comes_late_gets_everything() {
        let (_dir, path) = fifo();
        let late = reader(&path);
        let tee = Tee::append_to(&path).unwrap();
        let bytes: Vec<u8> = (0..1 << 20).map(|at: u32| (at ^ (at >> 8)) as u8).collect();
        let reading = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            let mut all = vec![0; 1 << 20];
            (&late).read_exact(&mut all).unwrap();
            all
        });
        tee.write(&bytes);
        assert_eq!(tee.failure(), None);
        assert!(reading.join().unwrap() == bytes);
    }
}
