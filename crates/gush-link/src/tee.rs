//! A copy of a stream into a file.
//!
//! No thread with connections waits for a FIFO or terminal: what finds no room goes to a backlog,
//! which a separate thread writes. While the backlog is full, the copied direction stops.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use gush::Unpoisoned;
use gush_text::{in_brackets, os_text, with_unit};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use tracing::error;

/// A FIFO or terminal that takes nothing for so long ends the copy.
const MOST_STALL: Duration = Duration::from_secs(10);

/// The limit of the backlog, which one piece of each connection may exceed.
const BACKLOG_BYTES: usize = 1 << 20;

/// How often [`Tee::finish`] asks whether it still may wait.
const LOOK: Duration = Duration::from_millis(20);

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
pub struct Tee(Arc<Copying>);

#[derive(Debug)]
struct Copying {
    path: PathBuf,
    file: File,
    most_stall: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    pieces: VecDeque<Vec<u8>>,
    /// Of `pieces`, and of the piece that is being written.
    waiting_bytes: usize,
    failed: Option<io::Error>,
}

impl Tee {
    /// Opens the file at `path`, or makes it, and appends the copies.
    ///
    /// # Errors
    /// The error of open(2), or a sentence about a FIFO without a reader.
    pub fn append_to(path: &Path) -> io::Result<Self> {
        // With `>&-`, /dev/stdout is whatever got the number since.
        if gush_process::closed_at(path).is_some() {
            return Err(Errno::BADF.into());
        }
        // Without O_NONBLOCK, opening a FIFO would wait for its reader (fifo(7)), and so would a
        // write.
        let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
        let file = File::options().append(true).create(true).custom_flags(nonblocking).open(path);
        let file = file.map_err(|error| match error.raw_os_error() {
            Some(libc::ENXIO) => io::Error::other(
                "this FIFO has no reader, or this socket no server: start it first",
            ),
            _ => error,
        })?;
        Ok(Self::of(path, file, MOST_STALL))
    }

    fn of(path: &Path, file: File, most_stall: Duration) -> Self {
        let (path, state, changed) = (path.to_owned(), Mutex::default(), Condvar::new());
        Self(Arc::new(Copying { path, file, most_stall, state, changed }))
    }

    /// Appends `bytes`, without waiting for a reader. The first failure is logged and ends the
    /// copy, but not the link.
    pub fn write(&self, bytes: &[u8]) {
        let mut state = self.0.state.lock().unpoisoned();
        if state.failed.is_some() {
            return;
        }
        let written = match state.waiting_bytes {
            // A copy into a regular file needs no thread.
            0 => write_now(&self.0.file, bytes),
            _ => Ok(0),
        };
        match written {
            Ok(written) if written == bytes.len() => {}
            Ok(written) => {
                let is_first = state.waiting_bytes == 0;
                state.waiting_bytes += bytes.len() - written;
                // Also beyond the limit: the bytes are delivered, and the direction is held from
                // now on.
                state.pieces.push_back(bytes[written..].to_vec());
                if is_first && let Err(error) = self.0.start() {
                    self.0.fail(&mut state, error);
                }
            }
            Err(error) => self.0.fail(&mut state, error),
        }
    }

    /// Is the backlog full, so that nothing more should come?
    pub(crate) fn is_full(&self) -> bool {
        self.0.state.lock().unpoisoned().waiting_bytes >= BACKLOG_BYTES
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.file.as_fd()
    }

    /// Waits until all is written, or until `hurry` returns true: what is not written by then fails
    /// the copy.
    pub(crate) fn finish(&self, hurry: impl Fn() -> bool) {
        let mut state = self.0.state.lock().unpoisoned();
        while state.waiting_bytes > 0 && state.failed.is_none() {
            if hurry() {
                let left = state.waiting_bytes;
                let why =
                    format!("the link had to end before its reader took the last {left} bytes");
                let error = io::Error::new(io::ErrorKind::TimedOut, why);
                error!("{}: the copy is not whole: {error}", self.0.path.display());
                return self.0.give_up(&mut state, error);
            }
            // With a timeout, because a signal notifies no condition variable.
            let waited = self.0.changed.wait_timeout(state, LOOK);
            state = waited.unpoisoned().0;
        }
    }

    /// The failure that ended the copy early, if there was one.
    pub(crate) fn failure(&self) -> Option<String> {
        let state = self.0.state.lock().unpoisoned();
        state.failed.as_ref().map(|error| self.0.said(error))
    }
}

impl Copying {
    fn fail(&self, state: &mut State, error: io::Error) {
        error!("{}; the copy ends here, the link continues", self.said(&error));
        self.give_up(state, error);
    }

    fn said(&self, error: &io::Error) -> String {
        let remedy = gush::Errno::from_io_error(error)
            .and_then(|errno| gush::hint_for(gush::Side::Target, errno));
        format!("{}: write: {}{}", self.path.display(), os_text(error), in_brackets(remedy))
    }

    fn give_up(&self, state: &mut State, error: io::Error) {
        state.pieces.clear();
        state.waiting_bytes = 0;
        state.failed = Some(error);
        self.changed.notify_all();
    }

    /// Starts the thread that writes the backlog, and ends with it.
    fn start(self: &Arc<Self>) -> io::Result<()> {
        let copy = Arc::clone(self);
        let thread = std::thread::Builder::new().name("gush-tee".into()).stack_size(64 << 10);
        thread.spawn(move || copy.write_backlog()).map(drop)
    }

    fn write_backlog(&self) {
        loop {
            // Under the lock that decides whether there is a thread: a later piece starts another.
            let Some(piece) = self.state.lock().unpoisoned().pieces.pop_front() else { return };
            // Without the lock: connections go on adding.
            let written = self.write_all(&piece);
            let mut state = self.state.lock().unpoisoned();
            if state.failed.is_some() {
                return;
            }
            state.waiting_bytes -= piece.len();
            if let Err(error) = written {
                return self.fail(&mut state, error);
            }
            self.changed.notify_all();
            if state.waiting_bytes == 0 {
                return;
            }
        }
    }

    /// Writes everything, and waits for room at most [`MOST_STALL`] at a time.
    fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            bytes = &bytes[write_now(&self.file, bytes)?..];
            if !bytes.is_empty() {
                wait_for_room(&self.file, self.most_stall)?;
            }
        }
        Ok(())
    }
}

/// Writes as much as there is room for.
fn write_now(mut file: &File, bytes: &[u8]) -> io::Result<usize> {
    let mut written = 0;
    while written < bytes.len() {
        match file.write(&bytes[written..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(more) => written += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

fn wait_for_room(file: &File, most: Duration) -> io::Result<()> {
    let (mut until, mut untaken) = (Instant::now() + most, gush::untaken_bytes(file));
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(file, PollFlags::OUT)], Some(&left)) {
            Ok(0) => {
                let before = std::mem::replace(&mut untaken, gush::untaken_bytes(file));
                // It may take less than makes room.
                if untaken != before {
                    until = Instant::now() + most;
                    continue;
                }
                let why = format!("its reader took nothing for {}", with_unit(most));
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
        let file = Tee::append_to(&path).unwrap().0.file.try_clone().unwrap();
        let tee = Tee::of(&path, file, Duration::from_millis(20));
        tee.write(&vec![7; 2 << 20]);
        tee.finish(|| false);
        let failure = tee.failure().expect("there is no reader");
        assert!(failure.ends_with("write: its reader took nothing for 20 ms"), "{failure}");
        assert!(!tee.is_full());
    }

    /// A pipe has no room for more before a whole page of it was read (pipe(7)).
    #[test]
    fn a_reader_that_makes_no_room_for_a_while_ends_no_copy() {
        let (_dir, path) = fifo();
        let mut slow = reader(&path);
        let file = Tee::append_to(&path).unwrap().0.file.try_clone().unwrap();
        let tee = Tee::of(&path, file, Duration::from_millis(300));
        tee.write(&vec![7; 1 << 20]);
        for _ in 0..80 {
            slow.read_exact(&mut [0; 50]).unwrap();
            thread::sleep(Duration::from_millis(10));
        }
        let rest = thread::spawn(move || slow.read_exact(&mut vec![0; (1 << 20) - 4000]));
        tee.finish(|| false);
        assert_eq!(tee.failure(), None);
        rest.join().unwrap().unwrap();
    }

    #[test]
    fn what_nobody_has_taken_fails_the_copy_of_a_link_that_has_to_end() {
        let (_dir, path) = fifo();
        let _stuck = reader(&path);
        let tee = Tee::append_to(&path).unwrap();
        tee.write(&vec![7; 3 << 20]);
        assert!(tee.is_full());
        tee.finish(|| true);
        assert!(tee.failure().expect("nobody has read").contains("the link had to end"));
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
        // Nobody waits here for the reader, who comes later.
        for piece in bytes.chunks(10_000) {
            tee.write(piece);
        }
        tee.finish(|| false);
        assert_eq!(tee.failure(), None);
        assert!(reading.join().unwrap() == bytes);
    }
}
