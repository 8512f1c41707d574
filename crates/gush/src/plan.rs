//! Which methods to try on a pair of endpoints, in order: a table.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;

use crate::endpoint::{Endpoint, Kind};
use crate::method::{MethodName, Refusal};

/// Files smaller than this are not worth a second thread.
pub(crate) const PARALLEL_BYTES: u64 = 16 << 20;

struct Row {
    source: &'static [Kind],
    target: &'static [Kind],
    /// Both on one file system.
    same_device: bool,
    /// That file system is known to copy in this machine's memory: no server, no sharing of blocks.
    local: bool,
    at_least_bytes: u64,
    at_least_threads: usize,
    methods: &'static [MethodName],
}

impl Row {
    const ANY: Row = Row {
        source: &[],
        target: &[],
        same_device: false,
        local: false,
        at_least_bytes: 0,
        at_least_threads: 1,
        methods: &[MethodName::ReadWrite],
    };
}

use Kind::{Block, Character, File, Pipe, Stream};
use MethodName::{CopyFileRange, ReadWrite, Reflink, Sendfile, Splice};

/// The first row that fits is the plan. `read-write` ends every row: it serves everything.
///
/// Terminals, made-up files and datagram sockets are read and written only: a splice that answers 0
/// on a terminal must not be asked again, procfs offers splice for some files only, and datagrams
/// have boundaries.
static TABLE: &[Row] = &[
    // Two threads that read and write take turns at the target's inode lock and read in between;
    // copy_file_range holds that lock for all of it.
    Row {
        source: &[File],
        target: &[File],
        same_device: true,
        local: true,
        at_least_bytes: PARALLEL_BYTES,
        at_least_threads: 2,
        methods: &[Reflink, ReadWrite],
    },
    Row {
        source: &[File],
        target: &[File],
        same_device: true,
        methods: &[Reflink, CopyFileRange, ReadWrite],
        ..Row::ANY
    },
    Row {
        source: &[File, Block],
        target: &[Stream],
        methods: &[Sendfile, Splice, ReadWrite],
        ..Row::ANY
    },
    Row {
        source: &[File, Block],
        target: &[Pipe, Character],
        methods: &[Splice, Sendfile, ReadWrite],
        ..Row::ANY
    },
    Row {
        source: &[Pipe, Stream],
        target: &[File, Block, Pipe, Stream, Character],
        methods: &[Splice, ReadWrite],
        ..Row::ANY
    },
    Row {
        source: &[Character],
        target: &[Pipe, Character],
        methods: &[Splice, ReadWrite],
        ..Row::ANY
    },
    Row::ANY,
];

/// The methods for a pair, in the order to try them.
pub(crate) fn methods_for(
    source: &Endpoint<'_>,
    target: &Endpoint<'_>,
    expected_bytes: u64,
    threads: usize,
) -> &'static [MethodName] {
    let fits = |kinds: &[Kind], kind| kinds.is_empty() || kinds.contains(&kind);
    let row = TABLE.iter().find(|row| {
        fits(row.source, source.kind())
            && fits(row.target, target.kind())
            && (!row.same_device || source.device() == target.device())
            && expected_bytes >= row.at_least_bytes
            && threads >= row.at_least_threads
            && (!row.local || target.is_local())
    });
    row.map_or(Row::ANY.methods, |row| row.methods)
}

/// Refusals remembered for endpoint pairs (invariant 3), to be shared by the moves of one run.
///
/// What the kernel refused between two file systems is not tried again between those two; what it
/// refused for one range or one file is.
///
/// ```
/// let refusals = gush::Refusals::default();
/// let (a, b) = (tempfile::tempfile()?, tempfile::tempfile()?);
/// gush::Mover::new(&a, &b).remember(&refusals).run()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Refusals(Mutex<HashSet<Entry>>);

type Entry = (MethodName, (Kind, u64), (Kind, u64, bool));

fn entry(method: MethodName, source: &Endpoint<'_>, target: &Endpoint<'_>) -> Entry {
    (method, (source.kind(), source.device()), (target.kind(), target.device(), target.is_append()))
}

impl Refusals {
    pub(crate) fn knows(
        &self,
        method: MethodName,
        source: &Endpoint<'_>,
        target: &Endpoint<'_>,
    ) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(&entry(method, source, target))
    }

    pub(crate) fn learn(&self, refusal: &Refusal, source: &Endpoint<'_>, target: &Endpoint<'_>) {
        const OF_THE_PAIR: [Errno; 5] =
            [Errno::XDEV, Errno::OPNOTSUPP, Errno::NOSYS, Errno::PERM, Errno::NOTTY];
        if refusal.errno.is_some_and(|errno| OF_THE_PAIR.contains(&errno)) {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(entry(refusal.method, source, target));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_ends_with_the_method_that_serves_everything() {
        for row in TABLE {
            assert_eq!(row.methods.last(), Some(&ReadWrite));
        }
    }

    #[test]
    fn the_last_row_fits_everything() {
        let last = TABLE.last().expect("a table");
        assert!(last.source.is_empty() && last.target.is_empty() && !last.same_device);
    }
}
