//! Sequential bandwidth of memory, of one processor and of all: the limit of whatever copies bytes.
//!
//! Buffers lie far beyond the caches. Bytes are counted once: a `copy` of 1 GiB reads one and writes
//! one, and a `write` may cost the memory twice its bytes, where the processor fetches what it is about
//! to overwrite.

mod limit;
mod loops;

use std::ffi::OsString;
use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

pub use limit::limit;
pub use loops::Operation;

use crate::case::{Case, View};
use crate::model::{Measured, Sample};
use crate::once::{self, Clock, Single};
use crate::suite::copy::cache_sizes;
use crate::{Error, affinity, csv, table};
use loops::Field;

const SUITE: &str = "memory";

/// One measurement of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// What it is called, unique.
    pub name: &'static str,
    /// What is done.
    pub operation: Operation,
    /// Every processor works, each on its own memory; else one.
    pub all: bool,
}

const fn way(name: &'static str, operation: Operation, all: bool) -> Way {
    Way { name, operation, all }
}

/// Every measurement.
pub const WAYS: &[Way] = &[
    way("read-1", Operation::Read, false),
    way("write-1", Operation::Write, false),
    way("copy-1", Operation::Copy, false),
    way("read-all", Operation::Read, true),
    way("write-all", Operation::Write, true),
    way("copy-all", Operation::Copy, true),
];

/// The cases; those of all processors only where there are several.
#[must_use]
pub fn cases(program: &Path, bytes: Option<u64>) -> Vec<Box<dyn Case>> {
    let several = affinity::allowed().map_or(1, |processors| processors.len()) > 1;
    let case = |way: &Way| -> Box<dyn Case> {
        let mut words: Vec<OsString> = vec![SUITE.into(), "--way".into(), way.name.into()];
        if let Some(bytes) = bytes {
            words.extend(["--bytes".into(), bytes.to_string().into()]);
        }
        let program = program.to_owned();
        Box::new(Single { suite: SUITE, name: way.name, program, words, pinned: !way.all })
    };
    WAYS.iter().filter(|way| several || !way.all).map(case).collect()
}

/// Memory for all threads together, in bytes: eight times the largest cache, but no more than a
/// quarter of what is free.
fn field_bytes() -> u64 {
    const LEAST_BYTES: u64 = 256 << 20;
    let largest_cache = [4, 3, 2, 1].into_iter().find_map(cache_sizes::data_bytes).unwrap_or(0);
    let wanted = LEAST_BYTES.max(8 * largest_cache as u64);
    let free = nix::sys::sysinfo::sysinfo().map_or(u64::MAX, |info| info.ram_unused());
    wanted.min(free / 4).max(2 * gush::HUGE_PAGE_BYTES as u64)
}

/// Measures in this process, on `bytes` of memory, or on far more than the caches hold.
///
/// One thread, or one pinned to each processor that this process may use; all start together, and the
/// clock stops when the last is done.
///
/// # Errors
/// [`Error::Failed`] when there is not so much memory.
///
/// ```
/// use gush_lab::suite::memory::{WAYS, once};
/// let measured = once(&WAYS[0], Some(4 << 20))?;
/// assert_eq!((&measured.facts["operation"], &measured.facts["processors"]), (&"read".into(), &1.into()));
/// # Ok::<(), gush_lab::Error>(())
/// ```
pub fn once(way: &Way, bytes: Option<u64>) -> Result<Measured, Error> {
    let processors = match way.all {
        true => affinity::allowed()
            .map_err(|errno| Error::failed("cannot ask which processors there are", errno))?
            .into_iter()
            .map(Some)
            .collect(),
        // Wherever this thread is, or was pinned to.
        false => vec![None],
    };
    let share = bytes.unwrap_or_else(field_bytes) / processors.len() as u64;
    // More than any machine has is refused by mmap, and can still be rounded up.
    let share = usize::try_from(share).unwrap_or(usize::MAX).min(usize::MAX / 2);
    // The threads, and this one with its clock.
    let (start, stop) = (Barrier::new(processors.len() + 1), Barrier::new(processors.len() + 1));
    let work = |processor: Option<usize>| {
        let made =
            processor.map_or(Ok(()), once::pin).and_then(|()| Field::new(way.operation, share));
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
        let clock = Clock::start();
        stop.wait();
        let stopped = clock.and_then(|clock| clock.stop(0));
        let mut bytes = 0;
        for thread in threads {
            bytes += thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        let measured = stopped?;
        let gib_per_s = once::gib_per_s(bytes, measured.wall_s.unwrap_or(0.0));
        Ok(Measured { bytes, gib_per_s, ..measured }
            .with("operation", way.operation.name())
            .with("processors", processors.len() as u64)
            .with("field_bytes", share as u64 * processors.len() as u64))
    })
}

/// How long each thread goes on, at least.
const LEAST: Duration = Duration::from_millis(150);

/// The suite's CSV and table.
#[derive(Clone, Copy, Debug)]
pub struct Bandwidths;

impl View for Bandwidths {
    fn csv_header(&self) -> &str {
        "case,operation,processors,round,gib_per_s,bytes"
    }

    /// ```
    /// use gush_lab::{case::View, model::{Measured, Sample}, suite::memory::Bandwidths};
    /// let measured = Measured { gib_per_s: Some(9.5), bytes: 4096, ..Measured::default() }
    ///     .with("operation", "read").with("processors", 2);
    /// let sample = Sample { suite: "memory".into(), case: "read-all".into(), round: 1, measured };
    /// assert_eq!(Bandwidths.csv_row(&sample), "read-all,read,2,1,9.500000,4096");
    /// ```
    fn csv_row(&self, sample: &Sample) -> String {
        let Sample { case, round, measured, .. } = sample;
        let [operation, processors] =
            ["operation", "processors"].map(|name| csv::fact(measured, name));
        let speed = csv::figure(measured.gib_per_s);
        format!("{case},{operation},{processors},{round},{speed},{}", measured.bytes)
    }

    fn table(&self, samples: &[Sample]) -> String {
        table::of(samples)
    }
}
