//! Pipes kept for their next use.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::io;

use super::Pipe;

/// The size a pipe is born with: smaller ones are not worth sharing the limit for.
const BORN_BYTES: usize = 64 << 10;

/// Empty pipes of one size, shared by threads.
///
/// A pipe that still holds bytes is closed, never kept: they would be somebody else's. When the user's
/// page limit is reached (a size is refused), pipes are asked for at half the size from then on, and
/// those that come back are shrunk to it, so that many small pipes take the place of a few large ones.
///
/// ```
/// let pool = gush::pipe::Pool::new(65536, 4);
/// let pipe = pool.take()?;
/// pool.give_back(pipe);
/// assert_eq!(pool.idle(), 1);
/// # Ok::<(), gush::Errno>(())
/// ```
#[derive(Debug)]
pub struct Pool {
    pipe_bytes: AtomicUsize,
    most_idle: usize,
    idle: Mutex<Vec<Pipe>>,
}

impl Pool {
    /// A pool that makes pipes of `pipe_bytes` (or as much as is permitted) and keeps `most_idle`.
    #[must_use]
    pub fn new(pipe_bytes: usize, most_idle: usize) -> Self {
        Self { pipe_bytes: AtomicUsize::new(pipe_bytes), most_idle, idle: Mutex::new(Vec::new()) }
    }

    /// An idle pipe, or a new one.
    ///
    /// # Errors
    /// As [`Pipe::new`].
    pub fn take(&self) -> io::Result<Pipe> {
        let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.map_or_else(|| self.make(), Ok)
    }

    fn make(&self) -> io::Result<Pipe> {
        let wanted_bytes = self.pipe_bytes.load(Ordering::Relaxed);
        let pipe = Pipe::new(wanted_bytes)?;
        if pipe.capacity_bytes() < wanted_bytes && wanted_bytes > BORN_BYTES {
            let fewer = BORN_BYTES.max(wanted_bytes / 2);
            self.pipe_bytes.fetch_min(fewer, Ordering::Relaxed);
        }
        Ok(pipe)
    }

    /// The size that pipes are asked for at present, in bytes.
    pub fn pipe_bytes(&self) -> usize {
        self.pipe_bytes.load(Ordering::Relaxed)
    }

    /// Keeps an empty pipe if there is room for it; closes any other.
    pub fn give_back(&self, mut pipe: Pipe) {
        pipe.shrink(self.pipe_bytes());
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if pipe.is_empty() && idle.len() < self.most_idle {
            idle.push(pipe);
        }
    }

    /// How many pipes are waiting for use.
    pub fn idle(&self) -> usize {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_with_bytes_in_it_is_closed() {
        let pool = Pool::new(4096, 2);
        let mut pipe = pool.take().expect("pipe");
        io::write(pipe.write_end(), b"left").expect("write");
        pipe.put(4);
        pool.give_back(pipe);
        assert_eq!(pool.idle(), 0);
    }

    #[test]
    fn no_more_are_kept_than_asked_for() {
        let pool = Pool::new(4096, 1);
        let (a, b) = (pool.take().expect("pipe"), pool.take().expect("pipe"));
        pool.give_back(a);
        pool.give_back(b);
        assert_eq!(pool.idle(), 1);
    }
}
