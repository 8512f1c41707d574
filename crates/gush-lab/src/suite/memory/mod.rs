//! Sequential bandwidth of memory, of one processor and of all: the limit of every copy.
//!
//! Buffers are far larger than the caches. Bytes are counted once: a `copy` of 1 GiB reads one and
//! writes one, and a `write` may fetch the lines that it overwrites.
//!
//! Facts of a sample: `operation` (`read`, `write`, `copy`), `processors`.

mod loops;

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

pub use loops::Operation;

use super::asked::{memory, size, text};
use super::copy::cache_sizes;
use super::{Asked, Cases, Once, Suite, THROUGHPUT, Tour};
use crate::case::{self, Case};
use crate::model::{Described, Measured};
use crate::once::{self, Clock, Single};
use crate::probe::available_memory_bytes;
use crate::{Error, affinity};
use loops::Field;

pub static SUITE: Suite = Suite {
    name: "memory",
    title: "Memory: the physical limit",
    about: "How fast one processor, and all of them, read, write and copy memory: the limit of every copy",
    more: "",
    options: || {
        vec![memory(
            "bytes",
            "Use SIZE bytes of memory in all, instead of far more than the caches hold",
        )]
    },
    only: ("NAME,…", "Only these cases"),
    rounds: "6",
    quantities: &[THROUGHPUT],
    axis: None,
    notes: &[
        "A thread that copies each byte from memory to memory gets no further than copying does here. Bytes that are          still in a cache may: constant data, or a buffer that is used again.",
    ],
    section: None,
    tour: Tour::Repeated(&[], &["--bytes", "256M"]),
    once: Some(Once {
        about: "Read, write or copy memory",
        options: || {
            vec![text("way", "NAME", "Measure this"), size("bytes", "Use SIZE bytes of memory")]
        },
        run: |asked| once(asked.way(BANDWIDTHS, |one| one.name)?, asked.size("bytes")),
    }),
    make,
};

/// `sysbench memory`, one thread reading blocks of 1 GiB.
const PUBLISHED_READ: f64 = 15.9;

/// One measurement of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// The name, unique.
    pub name: &'static str,
    pub operation: Operation,
    /// Every processor works, each on separate memory; else one.
    pub all: bool,
}

/// Every measurement.
pub const BANDWIDTHS: &[Bandwidth] = &[
    Bandwidth { name: "read-1", operation: Operation::Read, all: false },
    Bandwidth { name: "write-1", operation: Operation::Write, all: false },
    Bandwidth { name: "copy-1", operation: Operation::Copy, all: false },
    Bandwidth { name: "read-all", operation: Operation::Read, all: true },
    Bandwidth { name: "write-all", operation: Operation::Write, all: true },
    Bandwidth { name: "copy-all", operation: Operation::Copy, all: true },
];

/// Those of all processors only where there are several.
fn make(asked: &Asked) -> Result<Cases, Error> {
    let processors = affinity::allowed().map_or(1, |processors| processors.len());
    let case = |bandwidth: &Bandwidth| -> Box<dyn Case> {
        let threads = if bandwidth.all { processors } else { 1 };
        let bytes = asked.size("bytes").unwrap_or_else(|| field_bytes(threads));
        let described = described(bandwidth, processors, bytes);
        Box::new(Single::new(&SUITE, asked, described, bytes, !bandwidth.all))
    };
    let cases =
        BANDWIDTHS.iter().filter(|bandwidth| processors > 1 || !bandwidth.all).map(case).collect();
    Ok(Cases::of(case::choose(cases, &asked.only)?))
}

/// All processors are measured against one processor, and copying against reading.
fn described(bandwidth: &Bandwidth, processors: usize, bytes: u64) -> Described {
    let operation = bandwidth.operation.name();
    let threads = if bandwidth.all { processors } else { 1 };
    let described = Described::new(SUITE.name, bandwidth.name)
        .does(format!("{operation}, {threads} of {processors} processors"))
        .with("operation", operation)
        .with("processors", threads)
        .with("bytes", bytes);
    // Reading, writing and copying are different work: nobody gains by doing another.
    let described = described.group(operation);
    match (bandwidth.operation, bandwidth.all) {
        (_, true) => described.against(format!("{operation}-1")),
        (Operation::Read, false) => {
            let source = "sysbench memory on the machine of the published pipes, one thread";
            described.published(PUBLISHED_READ, PUBLISHED_READ, source)
        }
        (_, false) => described.against("read-1"),
    }
}

/// Memory for all threads, in bytes: four times the largest cache for each, and at most a quarter
/// of the available memory.
fn field_bytes(threads: usize) -> u64 {
    let largest_cache = [4, 3, 2, 1].into_iter().find_map(cache_sizes::data_bytes).unwrap_or(0);
    beyond_caches(largest_cache as u64, threads as u64, available_memory_bytes())
}

fn beyond_caches(largest_cache_bytes: u64, threads: u64, available_bytes: u64) -> u64 {
    const LEAST_BYTES: u64 = 256 << 20;
    let wanted = LEAST_BYTES.max(4 * largest_cache_bytes * threads);
    wanted.min(available_bytes / 4).max(2 * gush::HUGE_PAGE_BYTES as u64)
}

/// Measures in this process, on `bytes` of memory, or on far more than the caches hold.
///
/// One thread, or one pinned to each processor that this process may use; all start together, and
/// the clock stops when the last is done.
pub fn once(bandwidth: &Bandwidth, bytes: Option<u64>) -> Result<Measured, Error> {
    let processors = match bandwidth.all {
        true => affinity::allowed()
            .map_err(|errno| Error::failed("cannot ask which processors there are", errno))?
            .into_iter()
            .map(Some)
            .collect(),
        // Wherever this thread is, or was pinned to.
        false => vec![None],
    };
    let share = bytes.unwrap_or_else(|| field_bytes(processors.len())) / processors.len() as u64;
    // More than any machine has is refused by mmap, and can still be rounded up.
    let share = usize::try_from(share).unwrap_or(usize::MAX).min(usize::MAX / 2);
    // The threads, and this one with its clock.
    let (start, stop) = (Barrier::new(processors.len() + 1), Barrier::new(processors.len() + 1));
    let work = |processor: Option<usize>| {
        let made = processor
            .map_or(Ok(()), once::pin)
            .and_then(|()| Field::new(bandwidth.operation, share));
        start.wait();
        start.wait();
        let moved = made.map(|mut field| {
            let begun = Instant::now();
            let mut moved = 0;
            // Long enough for the clock, and for threads that start a little later than others.
            while begun.elapsed() < LEAST {
                moved += field.pass();
            }
            moved
        });
        stop.wait();
        moved
    };
    thread::scope(|scope| {
        let threads: Vec<_> =
            processors.iter().map(|&processor| scope.spawn(move || work(processor))).collect();
        start.wait();
        // Started between the two barriers: a real-time thread on this processor could otherwise be
        // done before this one runs again.
        let clock = Clock::start();
        start.wait();
        stop.wait();
        let stopped = clock.and_then(|clock| clock.stop(0));
        let mut bytes = 0;
        for thread in threads {
            bytes += thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        let measured = stopped?;
        let gib_per_s = once::gib_per_s(bytes, measured.wall_s.unwrap_or(0.0));
        Ok(Measured { bytes, gib_per_s, ..measured }
            .with("operation", bandwidth.operation.name())
            .with("processors", processors.len() as u64)
            .with("field_bytes", share as u64 * processors.len() as u64))
    })
}

/// How long each thread goes on, at least.
const LEAST: Duration = Duration::from_millis(150);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_four_times_the_largest_cache_if_there_is_memory() {
        const MIB: u64 = 1 << 20;
        assert_eq!(beyond_caches(256 * MIB, 8, 1 << 40), 8 * 1024 * MIB);
        assert_eq!(beyond_caches(32 * MIB, 1, 1 << 40), 256 * MIB);
        assert_eq!(beyond_caches(256 * MIB, 8, 1024 * MIB), 256 * MIB, "a quarter of the memory");
    }

    /// A headline compares cases of one group, and reading is not compared with writing.
    #[test]
    fn only_the_same_work_is_of_one_group() {
        for bandwidth in BANDWIDTHS {
            let described = described(bandwidth, 4, 1 << 20);
            assert_eq!(described.group, bandwidth.operation.name(), "{}", bandwidth.name);
        }
    }
}
