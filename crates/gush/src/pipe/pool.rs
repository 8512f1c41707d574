//! Pipes kept for their next use, under a budget.
//!
//! An unprivileged user may have `/proc/sys/fs/pipe-user-pages-soft` pages in pipes; past the limit
//! a new pipe gets two slots, and none may grow (pipe(7)). No pipe of ours grows into the last
//! sixteenth. A pipe is held only while bytes are inside, so a few serve many flows. When many are
//! held, new ones are smaller; when the kernel refuses a size, the pool asks for half as much; past
//! the budget there is none, and bytes go through memory.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use super::Pipe;
use crate::kernel::{Kernel, page_bytes};
use crate::locked::Unpoisoned;
use crate::sys::fork::generation;

/// How large a pipe is when so many are in use already, and no smaller than a pipe is born.
const SIZES: [(usize, usize); 3] = [(16, 1 << 20), (64, 256 << 10), (usize::MAX, 64 << 10)];

/// The slots of a new pipe, each for a page (pipe(7)): smaller pipes are not worth it.
const BORN_SLOTS: usize = 16;

/// A pipe of fewer slots was made past the user's limit, and moves less than a copy does: a
/// fragment of a packet takes a slot.
const LEAST_SLOTS: usize = 4;

/// So many quarters of the user's pages are for one process.
const QUARTERS: usize = 3;

/// Where there is no limit, as many pages as there are by default.
const DEFAULT_PAGES: usize = 16384;

/// How many empty pipes are kept while others are in use, and once none is.
const MOST_IDLE: usize = 32;
const MOST_IDLE_AT_REST: usize = 4;

/// Of the process' descriptors pipes take one in so many: connections need the others.
const DESCRIPTORS_A_PIPE: u64 = 16;

/// Empty pipes, shared by threads; a clone is the same pool.
///
/// A pipe that still holds bytes is closed, never kept: the next flow would get the bytes. After
/// fork(2) the child begins with none: parent and child would put their bytes into the same pipes.
///
/// ```
/// let pool = gush::pipe::Pool::new(1 << 20, 8);
/// let pipe = pool.take().expect("within the budget");
/// assert_eq!(pool.usage().in_use, 1);
/// drop(pipe);
/// assert_eq!((pool.usage().in_use, pool.usage().idle), (0, 1));
/// ```
#[derive(Clone, Debug)]
pub struct Pool(Arc<Shelves>);

#[derive(Debug)]
struct Shelves {
    budget_bytes: usize,
    most_pipes: usize,
    /// The largest size to ask for, and at present: halved by a refusal until no pipe is in use.
    most_pipe_bytes: usize,
    pipe_bytes: AtomicUsize,
    in_use: AtomicUsize,
    /// The capacity of all pipes, idle ones too.
    bytes: AtomicUsize,
    /// Ordered by capacity: the largest is the next to be taken.
    idle: Mutex<Vec<Pipe>>,
    /// The process whose pipes these are.
    generation: u32,
    /// The pool of a child of fork(2). A thread that the child does not have may have held the lock
    /// of `idle`, for ever.
    childs: OnceLock<Pool>,
}

/// The sum of a pool's pipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolUsage {
    /// Pipes on loan now.
    pub in_use: usize,
    /// Empty ones, kept for the next loan.
    pub idle: usize,
    /// The capacity of both together, where every slot holds one page.
    pub bytes: usize,
    /// The most bytes, by the budget.
    pub budget_bytes: usize,
}

impl Pool {
    /// A pool of at most `most_pipes` pipes with at most `budget_bytes` of capacity together.
    #[must_use]
    pub fn new(budget_bytes: usize, most_pipes: usize) -> Self {
        Self::of(budget_bytes, most_pipes, SIZES[0].1)
    }

    /// The same, with no pipe larger than `most_pipe_bytes`.
    #[must_use]
    pub fn of(budget_bytes: usize, most_pipes: usize, most_pipe_bytes: usize) -> Self {
        Self(Arc::new(Shelves {
            budget_bytes,
            most_pipes,
            most_pipe_bytes,
            pipe_bytes: AtomicUsize::new(most_pipe_bytes),
            in_use: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            idle: Mutex::new(Vec::new()),
            generation: generation(),
            childs: OnceLock::new(),
        }))
    }

    /// The pool of this process: three quarters of the user's pages for pipes, and a
    /// sixteenth of the descriptors. Both limits are read at the first call.
    pub fn shared() -> &'static Pool {
        Self::shared_with(SIZES[0].1)
    }

    /// The same; at the first call of either with no pipe larger than `most_pipe_bytes`.
    pub fn shared_with(most_pipe_bytes: usize) -> &'static Pool {
        static SHARED: OnceLock<Pool> = OnceLock::new();
        SHARED.get_or_init(|| {
            Pool::of(budget_bytes(soft_limit_pages()), most_pipes(), most_pipe_bytes)
        })
    }

    /// An empty pipe, or none when the budget is used up or the kernel gives only tiny ones.
    #[must_use]
    pub fn take(&self) -> Option<PipeLoan> {
        let pool = self.own();
        // Counted before the pipe exists: two threads must not both take the last one. Relaxed:
        // pipes change hands under the lock of `idle`.
        let reserve = |used| (used < pool.0.most_pipes).then_some(used + 1);
        let used =
            pool.0.in_use.fetch_update(Ordering::Relaxed, Ordering::Relaxed, reserve).ok()?;
        // The last one is the largest, and pops without moving the others.
        let kept = pool.0.idle.lock().unpoisoned().pop();
        let Some(pipe) = kept.or_else(|| pool.make(used)) else {
            pool.0.in_use.fetch_sub(1, Ordering::Relaxed);
            return None;
        };
        Some(PipeLoan { pipe: Some(pipe), pool: Some(pool.clone()) })
    }

    /// The pool of this process: after fork(2) idle pipes and loans are the parent's.
    fn own(&self) -> &Pool {
        let mut pool = self;
        while pool.0.generation != generation() {
            pool = pool.0.childs.get_or_init(|| pool.of_child());
        }
        pool
    }

    /// The copies of the parent's idle pipes stay open. The kernel copies descriptors before memory
    /// (`copy_process` of kernel/fork.c) while other threads run, so a number in this list may be
    /// another descriptor of the child.
    fn of_child(&self) -> Self {
        Self::of(self.0.budget_bytes, self.0.most_pipes, self.0.most_pipe_bytes)
    }

    fn make(&self, used: usize) -> Option<Pipe> {
        let [born_bytes, least_bytes] = [BORN_SLOTS, LEAST_SLOTS].map(|slots| slots * page_bytes());
        let by_number = SIZES.iter().find(|(most, _)| used < *most).map_or(0, |(_, size)| *size);
        let pipe_bytes = self.0.pipe_bytes.load(Ordering::Relaxed);
        let wanted_bytes = by_number.max(born_bytes).min(pipe_bytes);
        // Reserved before it is made: two threads must not both take the last of the budget.
        if self.0.bytes.fetch_add(wanted_bytes, Ordering::Relaxed) + wanted_bytes
            > self.0.budget_bytes
        {
            self.0.bytes.fetch_sub(wanted_bytes, Ordering::Relaxed);
            return None;
        }
        // Without a pipe the caller moves the bytes through memory: a refusal is no failure here.
        let mut pipe = Pipe::new(wanted_bytes).ok();
        // A new pipe has its 16 slots, also where less is wanted.
        if let Some(pipe) = &mut pipe {
            pipe.shrink(wanted_bytes);
        }
        let pipe = pipe.filter(|pipe| pipe.capacity_bytes() >= least_bytes.min(wanted_bytes));
        let granted_bytes = pipe.as_ref().map_or(0, Pipe::capacity_bytes);
        // The kernel gave less: the user's pages are used up, and the next would be refused, too.
        if granted_bytes < wanted_bytes && wanted_bytes > born_bytes {
            self.0.pipe_bytes.fetch_min(born_bytes.max(wanted_bytes / 2), Ordering::Relaxed);
        }
        // Added before the reservation goes: the count may be too high, never too low.
        self.0.bytes.fetch_add(granted_bytes, Ordering::Relaxed);
        self.0.bytes.fetch_sub(wanted_bytes, Ordering::Relaxed);
        pipe
    }

    /// Keeps an empty pipe if there is room; closes any other.
    fn give_back(&self, mut pipe: Pipe) {
        let mut closed_bytes = 0;
        let was_bytes = pipe.capacity_bytes();
        // A larger pipe returns its pages to the user's limit, for a flow that waits for its first.
        pipe.shrink(self.0.pipe_bytes.load(Ordering::Relaxed));
        closed_bytes += was_bytes - pipe.capacity_bytes();
        let still_used = self.0.in_use.fetch_sub(1, Ordering::Relaxed) - 1;
        let mut idle = self.0.idle.lock().unpoisoned();
        if pipe.is_empty() {
            // Sorted here, because `take` is on the path of every message.
            let place = idle.partition_point(|kept| kept.capacity_bytes() <= pipe.capacity_bytes());
            idle.insert(place, pipe);
        } else {
            closed_bytes += pipe.capacity_bytes();
        }
        let most = if still_used == 0 { MOST_IDLE_AT_REST } else { MOST_IDLE };
        let surplus = idle.len().saturating_sub(most.min(self.0.most_pipes));
        // The smallest are closed; close(2) happens after the lock is dropped.
        let closed: Vec<Pipe> = idle.drain(..surplus).collect();
        drop(idle);
        closed_bytes += closed.iter().map(Pipe::capacity_bytes).sum::<usize>();
        self.0.bytes.fetch_sub(closed_bytes, Ordering::Relaxed);
        if still_used == 0 {
            // Others of the user may have closed theirs: a refusal does not hold for ever.
            self.0.pipe_bytes.store(self.0.most_pipe_bytes, Ordering::Relaxed);
        }
    }

    /// The largest size of pipes asked for at present, in bytes.
    #[must_use]
    pub fn pipe_bytes(&self) -> usize {
        self.own().0.pipe_bytes.load(Ordering::Relaxed)
    }

    /// How many pipes there are, and how large they are together.
    #[must_use]
    pub fn usage(&self) -> PoolUsage {
        let pool = self.own();
        PoolUsage {
            in_use: pool.0.in_use.load(Ordering::Relaxed),
            idle: pool.0.idle.lock().unpoisoned().len(),
            bytes: pool.0.bytes.load(Ordering::Relaxed),
            budget_bytes: pool.0.budget_bytes,
        }
    }
}

/// A pipe that goes back to its pool when dropped; with bytes inside the pipe is closed.
#[derive(Debug)]
pub struct PipeLoan {
    pipe: Option<Pipe>,
    /// None for a pipe to be closed instead.
    pool: Option<Pool>,
}

impl PipeLoan {
    /// A pipe of nobody's pool.
    pub(crate) fn alone(pipe: Pipe) -> Self {
        Self { pipe: Some(pipe), pool: None }
    }
}

impl Deref for PipeLoan {
    type Target = Pipe;

    fn deref(&self) -> &Pipe {
        self.pipe.as_ref().expect("there until it is dropped")
    }
}

impl DerefMut for PipeLoan {
    fn deref_mut(&mut self) -> &mut Pipe {
        self.pipe.as_mut().expect("there until it is dropped")
    }
}

impl Drop for PipeLoan {
    fn drop(&mut self) {
        // A child of fork(2) closes its copy of the parent's pipe.
        if let (Some(pipe), Some(pool)) = (self.pipe.take(), &self.pool)
            && pool.0.generation == generation()
        {
            pool.give_back(pipe);
        }
    }
}

fn most_pipes() -> usize {
    // The soft limit, which is what pipe2(2) meets.
    let limit = crate::sys::file::descriptor_limit();
    usize::try_from(limit.unwrap_or(u64::MAX) / DESCRIPTORS_A_PIPE).unwrap_or(usize::MAX).max(1)
}

fn soft_limit_pages() -> usize {
    Kernel::get().pipe_user_bytes().map_or(DEFAULT_PAGES, |bytes| bytes / page_bytes())
}

fn budget_bytes(pages: usize) -> usize {
    // Not all: past the limit every new pipe of the user has two slots.
    pages / 4 * QUARTERS * page_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(budget_bytes: usize) -> Pool {
        Pool::new(budget_bytes, 1000)
    }

    #[test]
    fn a_pipe_comes_back_and_is_used_again() {
        let pool = pool(4 << 20);
        let first = pool.take().expect("within the budget");
        assert_eq!(pool.usage().in_use, 1);
        drop(first);
        let usage = pool.usage();
        assert_eq!((usage.in_use, usage.idle), (0, 1));
        drop(pool.take());
        assert_eq!(pool.usage().bytes, usage.bytes, "no second pipe was made");
    }

    #[test]
    fn past_the_budget_there_is_none_and_later_there_is_again() {
        let pool = pool(3 << 20);
        let held: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert!(!held.is_empty());
        assert!(pool.usage().bytes <= 3 << 20);
        drop(held);
        assert!(pool.take().is_some());
    }

    #[test]
    fn threads_together_stay_within_the_budget() {
        let pool = pool(8 << 20);
        let held = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| std::iter::from_fn(|| pool.take()).collect::<Vec<_>>()))
                .collect();
            takers.into_iter().flat_map(|taker| taker.join().expect("no panic")).collect::<Vec<_>>()
        });
        let bytes: usize = held.iter().map(|loan| loan.capacity_bytes()).sum();
        assert_eq!(pool.usage().bytes, bytes);
        assert!((1..=8 << 20).contains(&bytes), "{bytes}");
    }

    #[test]
    fn threads_together_stay_within_the_number_of_pipes() {
        let shared = Mutex::new(Pool::new(64 << 20, 2));
        let together = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let pool = shared.lock().expect("no panic").clone();
                        together.wait();
                        let held = pool.take();
                        together.wait();
                        assert_eq!(pool.usage().in_use, 2, "with {held:?}");
                        // A new pool each time, because one that keeps pipes makes none.
                        if together.wait().is_leader() {
                            *shared.lock().expect("no panic") = Pool::new(64 << 20, 2);
                        }
                        together.wait();
                    }
                });
            }
        });
    }

    #[test]
    fn where_descriptors_are_few_so_are_pipes() {
        let pool = Pool::new(64 << 20, 2);
        let held: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(held.len(), 2);
        drop(held);
        assert!(pool.take().is_some());
    }

    #[test]
    fn a_pipe_is_no_larger_than_the_pool_permits() {
        let pool = Pool::of(8192, 8, 4096);
        let _two = [pool.take(), pool.take()].map(|loan| loan.expect("within the budget"));
        assert!(pool.take().is_none(), "the budget is used up");
        assert_eq!((pool.usage().in_use, pool.usage().bytes), (2, 8192));
    }

    #[test]
    fn the_largest_pipe_is_taken_first() {
        let pool = pool(64 << 20);
        let many: Vec<_> = (0..17).map(|_| pool.take().expect("within the budget")).collect();
        let largest = many.iter().map(|loan| loan.capacity_bytes()).max();
        drop(many);
        assert_eq!(pool.take().map(|loan| loan.capacity_bytes()), largest);
    }

    #[test]
    fn few_pipes_are_kept_once_none_is_in_use() {
        let pool = pool(64 << 20);
        let many: Vec<_> = (0..17).map(|_| pool.take().expect("within the budget")).collect();
        drop(many);
        assert_eq!(pool.usage().idle, MOST_IDLE_AT_REST);
        let kept: usize = pool.0.idle.lock().unpoisoned().iter().map(Pipe::capacity_bytes).sum();
        assert_eq!(pool.usage().bytes, kept);
    }

    #[test]
    fn a_pipe_with_bytes_in_it_is_closed_and_not_counted_any_more() {
        let pool = pool(4 << 20);
        let mut loan = pool.take().expect("within the budget");
        rustix::io::write(loan.write_end(), b"left").expect("room");
        loan.put(4);
        drop(loan);
        let usage = pool.usage();
        assert_eq!((usage.idle, usage.bytes), (0, 0));
    }
}
