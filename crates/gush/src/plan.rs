//! Which methods to try on a pair of endpoints, in order: a table.

use std::cell::LazyCell;
use std::sync::OnceLock;

use rustix::io::Errno;

use crate::endpoint::{Endpoint, Kind};
use crate::file_system::FileSystem;
use crate::method::{MethodName, Refusal};

/// Files smaller than this are not worth a second thread.
pub(crate) const PARALLEL_BYTES: u64 = 16 << 20;

/// A row of the table.
pub(crate) struct PlanRow {
    source: &'static [Kind],
    target: &'static [Kind],
    /// Both on one file system, as far as can be said without trying.
    one_file_system: bool,
    /// Both file systems are known to copy in this machine's memory: no server, no sharing of
    /// blocks.
    local: bool,
    at_least_bytes: u64,
    below_bytes: u64,
    /// The methods to try, in order.
    pub(crate) methods: &'static [MethodName],
    /// The method for several threads, where these are worth it.
    pub(crate) on_threads: Option<MethodName>,
}

impl PlanRow {
    const ANY: PlanRow = PlanRow {
        source: &[],
        target: &[],
        one_file_system: false,
        local: false,
        at_least_bytes: 0,
        below_bytes: u64::MAX,
        methods: &[MethodName::ReadWrite],
        on_threads: None,
    };
}

use Kind::{Block, Character, File, Pipe, Stream};
use MethodName::{CopyFileRange, ReadWrite, Reflink, Sendfile, Splice};

/// The first fitting row is the plan. `read-write` ends every row, and serves everything.
///
/// Terminals, made-up files and datagram sockets are read and written only: a splice of 0 bytes
/// on a terminal must not be asked again, procfs offers splice for some files only, and datagrams
/// have boundaries.
static TABLE: &[PlanRow] = &[
    // Two threads that read and write take turns at the target's inode lock and read in between;
    // copy_file_range holds that lock for all of it.
    PlanRow {
        source: &[File],
        target: &[File],
        one_file_system: true,
        local: true,
        at_least_bytes: PARALLEL_BYTES,
        methods: &[Reflink, CopyFileRange, ReadWrite],
        on_threads: Some(ReadWrite),
        ..PlanRow::ANY
    },
    PlanRow {
        source: &[File],
        target: &[File],
        one_file_system: true,
        methods: &[Reflink, CopyFileRange, ReadWrite],
        ..PlanRow::ANY
    },
    // One copy from page cache to page cache, where read-write makes two and faults a buffer in.
    PlanRow {
        source: &[File],
        target: &[File],
        local: true,
        at_least_bytes: 1,
        below_bytes: PARALLEL_BYTES,
        methods: &[Sendfile, ReadWrite],
        ..PlanRow::ANY
    },
    // copy_file_range has reported success falsely across file systems (Linux 5.3 to 5.18).
    PlanRow { source: &[File], target: &[File], on_threads: Some(ReadWrite), ..PlanRow::ANY },
    PlanRow {
        source: &[File, Block],
        target: &[Stream],
        methods: &[Sendfile, Splice, ReadWrite],
        ..PlanRow::ANY
    },
    PlanRow {
        source: &[File, Block],
        target: &[Pipe, Character],
        methods: &[Splice, Sendfile, ReadWrite],
        ..PlanRow::ANY
    },
    PlanRow {
        source: &[Pipe, Stream],
        target: &[File, Block, Pipe, Stream, Character],
        methods: &[Splice, ReadWrite],
        ..PlanRow::ANY
    },
    PlanRow {
        source: &[Character],
        target: &[Pipe, Character],
        methods: &[Splice, ReadWrite],
        ..PlanRow::ANY
    },
    PlanRow::ANY,
];

/// The plan for a pair.
pub(crate) fn row_for(
    source: &Endpoint<'_>,
    target: &Endpoint<'_>,
    expected_bytes: u64,
) -> &'static PlanRow {
    let fits = |kinds: &[Kind], kind| kinds.is_empty() || kinds.contains(&kind);
    // Each question is a statfs(2), and many pairs need none.
    let [from, to] = [source, target].map(|side| LazyCell::new(|| side.file_system()));
    let may_be_one = || {
        source.device() == target.device()
            || from.is_some_and(FileSystem::spans_devices) && *from == *to
    };
    let are_local =
        || from.is_some_and(FileSystem::is_local) && to.is_some_and(FileSystem::is_local);
    let row = TABLE.iter().find(|row| {
        fits(row.source, source.kind())
            && fits(row.target, target.kind())
            && (row.at_least_bytes..row.below_bytes).contains(&expected_bytes)
            && (!row.one_file_system || may_be_one())
            && (!row.local || are_local())
    });
    row.unwrap_or(&PlanRow::ANY)
}

/// The methods for two kinds that move one stream of bytes, in the order to try them. Rows that
/// ask for one file system or for local ones are for the mover, which knows the files.
pub(crate) fn flow_methods(source: Kind, target: Kind) -> &'static [MethodName] {
    let fits = |kinds: &[Kind], kind| kinds.is_empty() || kinds.contains(&kind);
    let row = TABLE.iter().find(|row| {
        fits(row.source, source) && fits(row.target, target) && !row.one_file_system && !row.local
    });
    row.unwrap_or(&PlanRow::ANY).methods
}

/// Refusals remembered for endpoint pairs (invariant 3), to be shared by the moves of one run.
///
/// A method refused between two file systems is not tried again between them; one refused for a
/// range or a file is.
///
/// ```
/// let refusals = gush::Refusals::default();
/// let (a, b) = (tempfile::tempfile()?, tempfile::tempfile()?);
/// gush::Mover::new(&a, &b).remember(&refusals).run()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Refusals(OnceLock<Box<Known>>);

/// A list that only grows: reading it, as all threads of a tree do for each file, takes no lock.
#[derive(Debug)]
struct Known {
    refused: Refused,
    next: OnceLock<Box<Known>>,
}

/// A method, and the facts about both sides for which the refusal of the method holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refused {
    method: MethodName,
    source_kind: Kind,
    source_device: u64,
    target_kind: Kind,
    target_device: u64,
    target_appends: bool,
}

impl Refused {
    fn of(method: MethodName, source: &Endpoint<'_>, target: &Endpoint<'_>) -> Self {
        Self {
            method,
            source_kind: source.kind(),
            source_device: source.device(),
            target_kind: target.kind(),
            target_device: target.device(),
            target_appends: target.is_append(),
        }
    }
}

impl Refusals {
    /// Each refusal costs later questions a comparison, a forgotten one a call: few pairs have
    /// more.
    const MOST: usize = 64;

    pub(crate) fn knows(
        &self,
        method: MethodName,
        source: &Endpoint<'_>,
        target: &Endpoint<'_>,
    ) -> bool {
        let asked = Refused::of(method, source, target);
        let mut at = &self.0;
        while let Some(known) = at.get() {
            if known.refused == asked {
                return true;
            }
            at = &known.next;
        }
        false
    }

    pub(crate) fn learn(&self, refusal: &Refusal, source: &Endpoint<'_>, target: &Endpoint<'_>) {
        const OF_THE_PAIR: [Errno; 5] =
            [Errno::XDEV, Errno::OPNOTSUPP, Errno::NOSYS, Errno::PERM, Errno::NOTTY];
        if !refusal.errno.is_some_and(|errno| OF_THE_PAIR.contains(&errno)) {
            return;
        }
        let new = Refused::of(refusal.method, source, target);
        let mut at = &self.0;
        for _ in 0..Self::MOST {
            // Another thread may be faster: then its refusal is here, and this one comes later.
            let known = at.get_or_init(|| Box::new(Known { refused: new, next: OnceLock::new() }));
            if known.refused == new {
                return;
            }
            at = &known.next;
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
        assert!(last.source.is_empty() && last.target.is_empty() && !last.one_file_system);
    }
}
