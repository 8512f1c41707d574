//! The pipes of all relays of this process: kept while they are empty, and no more than are permitted.
//!
//! A user without privilege may have `/proc/sys/fs/pipe-user-pages-soft` pages in pipes, over all
//! processes; past that a new pipe gets two slots, and none may grow (pipe(7)). A relay holds a pipe
//! only while bytes are in it, so a few pipes serve many connections; when those that are held grow
//! many, new ones are made smaller, and past the budget bytes go through memory instead.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use gush::pipe::Pipe;

/// How large a pipe is when so many are in use already.
const SIZES: [(usize, usize); 3] = [(16, 1 << 20), (64, 256 << 10), (usize::MAX, 64 << 10)];

/// A pipe of fewer bytes was made past the user's limit: two slots move less than a copy does.
const LEAST_BYTES: usize = 16 << 10;

/// Of the pages that the user may have, those that this process takes.
const SHARE: (usize, usize) = (3, 4);

/// Where there is no limit, as many pages as there are by default.
const DEFAULT_PAGES: usize = 16384;

/// How many pipes are kept for later.
const MOST_IDLE: usize = 32;

/// Of the descriptors that this process may have, pipes take one in so many: connections need them more.
const DESCRIPTORS_A_PIPE: u64 = 16;

pub(crate) static PIPES: LazyLock<Pipes> =
    LazyLock::new(|| Pipes::new(budget_bytes(soft_limit_pages()), most_pipes()));

/// Pipes with a budget.
#[derive(Debug)]
pub(crate) struct Pipes {
    idle: Mutex<Vec<Pipe>>,
    in_use: AtomicUsize,
    bytes: AtomicUsize,
    budget_bytes: usize,
    most: usize,
}

impl Pipes {
    fn new(budget_bytes: usize, most: usize) -> Self {
        let (in_use, bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { idle: Mutex::new(Vec::new()), in_use, bytes, budget_bytes, most }
    }

    /// An empty pipe, or none when the budget is used up or the kernel gives none.
    pub(crate) fn take(&'static self) -> Option<Lease> {
        let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let pipe = kept.or_else(|| self.make())?;
        self.in_use.fetch_add(1, Ordering::Relaxed);
        Some(Lease { pipe: Some(pipe), pipes: self })
    }

    fn make(&self) -> Option<Pipe> {
        let used = self.in_use.load(Ordering::Relaxed);
        let wanted_bytes = SIZES.iter().find(|(most, _)| used < *most).map_or(0, |(_, size)| *size);
        let spent_bytes = self.bytes.load(Ordering::Relaxed);
        if used >= self.most || spent_bytes + wanted_bytes > self.budget_bytes {
            return None;
        }
        let pipe = Pipe::new(wanted_bytes).ok()?;
        if pipe.capacity_bytes() < LEAST_BYTES {
            return None;
        }
        self.bytes.fetch_add(pipe.capacity_bytes(), Ordering::Relaxed);
        Some(pipe)
    }

    fn give_back(&self, pipe: Pipe) {
        self.in_use.fetch_sub(1, Ordering::Relaxed);
        let bytes = pipe.capacity_bytes();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if pipe.is_empty() && idle.len() < MOST_IDLE.min(self.most) {
            // The largest is the next to be taken.
            let place = idle.partition_point(|kept| kept.capacity_bytes() <= bytes);
            idle.insert(place, pipe);
        } else {
            drop(idle);
            drop(pipe);
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    fn usage(&self) -> PipeUsage {
        PipeUsage {
            in_use: self.in_use.load(Ordering::Relaxed),
            idle: self.idle.lock().unwrap_or_else(PoisonError::into_inner).len(),
            bytes: self.bytes.load(Ordering::Relaxed),
            budget_bytes: self.budget_bytes,
        }
    }
}

/// What the pipes of this process's relays amount to.
///
/// ```
/// let usage = gush_net::pipe_usage();
/// assert!(usage.bytes <= usage.budget_bytes);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipeUsage {
    /// Pipes that hold bytes of some relay now.
    pub in_use: usize,
    /// Empty ones, kept for the next.
    pub idle: usize,
    /// The capacity of both together, where every slot holds one page.
    pub bytes: usize,
    /// The most that it may become.
    pub budget_bytes: usize,
}

/// How many pipes the relays of this process hold.
#[must_use]
pub fn pipe_usage() -> PipeUsage {
    PIPES.usage()
}

/// A pipe that comes back to where it was taken from.
#[derive(Debug)]
pub(crate) struct Lease {
    pipe: Option<Pipe>,
    pipes: &'static Pipes,
}

impl Deref for Lease {
    type Target = Pipe;

    fn deref(&self) -> &Pipe {
        self.pipe.as_ref().expect("there until it is dropped")
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut Pipe {
        self.pipe.as_mut().expect("there until it is dropped")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(pipe) = self.pipe.take() {
            self.pipes.give_back(pipe);
        }
    }
}

fn most_pipes() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    usize::try_from(limit.unwrap_or(u64::MAX) / DESCRIPTORS_A_PIPE).unwrap_or(usize::MAX).max(1)
}

fn soft_limit_pages() -> usize {
    std::fs::read_to_string("/proc/sys/fs/pipe-user-pages-soft")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .filter(|&pages| pages > 0)
        .unwrap_or(DEFAULT_PAGES)
}

fn budget_bytes(pages: usize) -> usize {
    pages / SHARE.1 * SHARE.0 * rustix::param::page_size()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipes(budget_bytes: usize) -> &'static Pipes {
        Box::leak(Box::new(Pipes::new(budget_bytes, 1000)))
    }

    #[test]
    fn a_pipe_comes_back_and_is_used_again() {
        let pipes = pipes(4 << 20);
        let first = pipes.take().expect("within the budget");
        assert_eq!(pipes.usage().in_use, 1);
        drop(first);
        let usage = pipes.usage();
        assert_eq!((usage.in_use, usage.idle), (0, 1));
        drop(pipes.take());
        assert_eq!(pipes.usage().bytes, usage.bytes, "no second pipe was made");
    }

    #[test]
    fn past_the_budget_there_is_none_and_later_there_is_again() {
        let pipes = pipes(3 << 20);
        let held: Vec<_> = std::iter::from_fn(|| pipes.take()).collect();
        assert!(!held.is_empty());
        assert!(pipes.usage().bytes <= 3 << 20);
        drop(held);
        assert!(pipes.take().is_some());
    }

    #[test]
    fn where_descriptors_are_few_so_are_pipes() {
        let pipes: &'static Pipes = Box::leak(Box::new(Pipes::new(64 << 20, 2)));
        let held: Vec<_> = std::iter::from_fn(|| pipes.take()).collect();
        assert_eq!(held.len(), 2);
        drop(held);
        assert!(pipes.take().is_some());
    }

    #[test]
    fn the_largest_pipe_is_taken_first() {
        let pipes = pipes(64 << 20);
        let many: Vec<_> = (0..17).map(|_| pipes.take().expect("within the budget")).collect();
        let largest = many.iter().map(|lease| lease.capacity_bytes()).max();
        drop(many);
        assert_eq!(pipes.take().map(|lease| lease.capacity_bytes()), largest);
    }

    #[test]
    fn a_pipe_with_bytes_in_it_is_closed_and_not_counted_any_more() {
        let pipes = pipes(4 << 20);
        let mut lease = pipes.take().expect("within the budget");
        let (mut writer, reader) = std::os::unix::net::UnixStream::pair().expect("a pair");
        std::io::Write::write_all(&mut writer, b"left").expect("room");
        let mut port = gush::Port::of(&reader).expect("a port");
        assert_eq!(lease.fill(&mut port, 4), Ok(4));
        drop(lease);
        let usage = pipes.usage();
        assert_eq!((usage.idle, usage.bytes), (0, 0));
    }
}
