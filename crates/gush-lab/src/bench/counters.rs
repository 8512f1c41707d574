//! Counters of the processor for a command and all that it starts.

use std::io;

use gush_text::os_text;

use super::Comparison;
use crate::Error;
use crate::foreign::PerfEvent;
use crate::model::Measured;

/// A counter: the fact of a sample, also in CSV and JSON, where hyperfine has the same names; the
/// heading of the column; the event (`perf_hw_id` of `include/uapi/linux/perf_event.h`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Counter {
    pub(super) name: &'static str,
    pub(super) heading: &'static str,
    event: u64,
}

pub(super) const COUNTERS: [Counter; 3] = [
    Counter { name: "cpu_cycles", heading: "cycles", event: 0 },
    Counter { name: "instructions", heading: "instructions", event: 1 },
    Counter { name: "cache_misses", heading: "cache misses", event: 3 },
];

/// What the counters have counted, in their order.
pub(super) type Counts = [Option<f64>; COUNTERS.len()];

/// Events that count in each process started from here on, from its execve(2) on.
#[derive(Debug)]
pub(super) struct Counting(Vec<PerfEvent>);

impl Counting {
    /// The sums of no run.
    pub(super) fn none(rules: &Comparison) -> Counts {
        [rules.counts.then_some(0.0); COUNTERS.len()]
    }

    /// Nothing is counted unless the comparison asks for it: counting has a price at each switch.
    pub(super) fn begin(rules: &Comparison) -> Result<Self, Error> {
        let wanted = COUNTERS.iter().filter(|_| rules.counts);
        let events = wanted.map(|counter| PerfEvent::hardware(counter.event));
        events.collect::<Result<_, _>>().map(Self).map_err(|error| refused(&error))
    }

    /// Adds the counts to `sums`. Processes that still run are in none; a sum that lacks a run is
    /// none.
    pub(super) fn end(self, sums: &mut Counts) {
        for (sum, event) in sums.iter_mut().zip(self.0) {
            *sum = sum.zip(event.count()).map(|(sum, count)| sum + count);
        }
    }
}

/// `measured` with the counts of one of so many runs.
pub(super) fn recorded(measured: Measured, sums: Counts, runs: f64) -> Measured {
    let counted = COUNTERS.iter().zip(sums);
    let counted = counted.filter_map(|(counter, sum)| Some((counter, sum?)));
    counted.fold(measured, |all, (counter, sum)| all.with(counter.name, (sum / runs).round()))
}

fn refused(error: &io::Error) -> Error {
    let remedy = match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP) => {
            "this processor, or its hypervisor, has no counters: leave --counters out"
        }
        Some(libc::EACCES | libc::EPERM) => {
            "as root: sysctl kernel.perf_event_paranoid=1; in a container: --cap-add PERFMON, and a \
             seccomp profile that allows perf_event_open"
        }
        _ => "leave --counters out",
    };
    Error::refused(format!("--counters: cannot count cycles: {} ({remedy})", os_text(error)))
}
