//! Which techniques serve a source and a target: a table, as the engine's plan is.

use gush::{Choice, Kind, MethodName};

use crate::options::Options;
use crate::tap::Tap;

/// How a flow moves bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Technique {
    /// Short messages through memory, long ones through a pipe.
    Adaptive,
    /// Page references through a pipe of ours.
    Spliced,
    /// One of the two is a pipe: page references in one call.
    Direct,
    /// From a file, inside the kernel.
    SentFile,
    /// Through memory: works wherever bytes move at all.
    Copied,
}

impl Technique {
    /// The engine's name for it, or none where it is more than one.
    fn name(self) -> Option<MethodName> {
        match self {
            Technique::Adaptive => None,
            Technique::Spliced | Technique::Direct => Some(MethodName::Splice),
            Technique::SentFile => Some(MethodName::Sendfile),
            Technique::Copied => Some(MethodName::ReadWrite),
        }
    }
}

struct Row {
    source: &'static [Kind],
    target: &'static [Kind],
    techniques: &'static [Technique],
}

use Kind::{Block, Character, File, Pipe, Stream};
use Technique::{Adaptive, Copied, Direct, SentFile, Spliced};

/// Every row that fits is asked for its techniques, in order; the last serves everything.
///
/// Datagrams have boundaries, terminals answer a splice with 0 that must not be asked again, and
/// made-up files offer splice for some only: all of these are read and written.
static TABLE: &[Row] = &[
    Row { source: &[Stream], target: &[Stream], techniques: &[Adaptive] },
    Row { source: &[File, Block], target: &[Stream], techniques: &[SentFile] },
    Row { source: &[Pipe], target: &[Stream, Pipe, File, Block, Character], techniques: &[Direct] },
    Row { source: &[File, Block, Stream, Character], target: &[Pipe], techniques: &[Direct] },
    Row {
        source: &[Stream, Character, File, Block],
        target: &[Stream, File, Block, Character],
        techniques: &[Spliced],
    },
    Row { source: &[], target: &[], techniques: &[Copied] },
];

/// The techniques for a pair, in the order to try them, or why the method that was asked for is none.
pub(super) fn techniques(
    source: &Tap<'_>,
    target: &Tap<'_>,
    options: &Options,
) -> Result<Vec<Technique>, (MethodName, &'static str)> {
    let fits = |kinds: &[Kind], kind| kinds.is_empty() || kinds.contains(&kind);
    let rows = TABLE
        .iter()
        .filter(|row| fits(row.source, source.kind()) && fits(row.target, target.kind()));
    let able = rows
        .flat_map(|row| row.techniques)
        .copied()
        .filter(|&technique| technique == Copied || obstacle(source, target, options).is_none());
    let wanted = match options.choice {
        Choice::Auto => return Ok(able.collect()),
        Choice::Only(wanted) => wanted,
    };
    let named: Vec<_> = able.filter(|technique| technique.name() == Some(wanted)).collect();
    if named.is_empty() {
        let unknown = "a relay has read-write, splice and, from a file, sendfile";
        let known = [MethodName::Splice, MethodName::Sendfile].contains(&wanted);
        let why = obstacle(source, target, options).filter(|_| known).unwrap_or(unknown);
        return Err((wanted, why));
    }
    Ok(named)
}

/// What keeps pages from passing by reference, apart from the kinds.
fn obstacle(source: &Tap<'_>, target: &Tap<'_>, options: &Options) -> Option<&'static str> {
    let waits = |tap: &Tap<'_>| tap.kind() == Stream && !tap.port().is_nonblocking();
    if options.observer.is_some() {
        Some("the bytes are observed, so they must pass through memory")
    } else if options.isolated && matches!(source.kind(), File | Block) {
        Some("the file's pages would be shared, and the relay is isolated")
    } else if target.port().is_append() {
        Some("the target was opened with O_APPEND")
    } else if target.port().is_direct() {
        Some("the target was opened with O_DIRECT, and a stream's pieces are not aligned")
    } else if waits(source) || waits(target) {
        Some("the socket is shared with other processes and has no O_NONBLOCK")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_row_serves_everything() {
        let last = TABLE.last().expect("a table");
        assert!(last.source.is_empty() && last.target.is_empty());
        assert_eq!(last.techniques, [Copied]);
    }
}
