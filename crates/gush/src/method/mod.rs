//! One technique per file, all implementing one trait.
//!
//! A [`Method`] says whether the technique serves a pair of endpoints, and starts either a
//! [`Flow`](crate::flow::Flow) of one way, with pipe and buffer, or a [`Range`]. A range copies
//! between named offsets of two files, and has nothing in flight between two steps. No method can
//! be plugged in from outside: the invariants of a move rest on these.

use std::fmt;

use rustix::io::Errno;

use crate::endpoint::Endpoint;
use crate::fault::Fault;
use crate::kernel::{Kernel, is_refusal};
use crate::port::{PortState, Side};
use crate::sys::Call;

#[cfg(any(test, not(feature = "uring")))]
mod absent;
mod copy_file_range;
mod direct;
mod mapped;
mod mmap_copy;
mod mmap_write;
mod name;
mod read_mmap;
mod read_write;
mod reflink;
mod refusal;
mod sendfile;
mod setup;
mod splice;
mod streamed;
#[cfg(feature = "uring")]
mod uring;
mod vmsplice;

pub use name::{MethodName, UnknownMethod};
pub use refusal::Refusal;
pub(crate) use setup::Setup;
pub(crate) use streamed::Streamed;

/// Two endpoints, and the part of the source to be moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair<'fd> {
    /// Where the bytes come from.
    pub(crate) source: Endpoint<'fd>,
    /// Where they go.
    pub(crate) target: Endpoint<'fd>,
    /// The source offset in bytes, or `None` for the descriptor's own position.
    pub(crate) source_at: Option<u64>,
    /// The target offset in bytes, or `None` for the descriptor's own position.
    pub(crate) target_at: Option<u64>,
    /// How many bytes are to move, or `None` for all up to the end.
    pub(crate) length_bytes: Option<u64>,
    /// How many of them the source holds, as far as the source says.
    pub(crate) expected_bytes: Option<u64>,
}

/// The consequences of a technique for the user, and the demands on the mover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traits {
    /// A later write to the source file can show in bytes "already sent".
    pub(crate) shares_source: bool,
    /// Holes of the source stay holes by themselves.
    pub(crate) keeps_holes: bool,
    /// The bytes pass through this process, so they can be hashed on the way.
    pub(crate) sees_bytes: bool,
    /// Ranges of one file may be moved on several threads at once.
    pub(crate) parallel: bool,
    /// Several threads are faster than one.
    pub(crate) gains_from_threads: bool,
    /// The calls are reads, which see the end themselves.
    pub(crate) proves_end: bool,
    /// The source offset must be named: the descriptor's own position will not do.
    pub(crate) needs_source_offset: bool,
    /// The target offset must be named.
    pub(crate) needs_target_offset: bool,
    /// The target's own position must be used.
    pub(crate) needs_own_target_position: bool,
    /// The target file must have the full size before the first byte moves.
    pub(crate) needs_target_size: bool,
    /// Bytes can reach the target after missing ones.
    pub(crate) writes_ahead: bool,
    /// Everything moves in one step, of any budget.
    pub(crate) whole: bool,
}

/// The outcome of one step of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// So many bytes reached the target; 0 when a signal interrupted the step.
    Moved(u64),
    /// A call other than `read` answered 0: only a `read` can prove the end (invariant 2).
    Dry,
    /// A `read` (or `recv`) answered 0: the end.
    End,
    /// The named side cannot go on now.
    WouldBlock(Side),
    /// Not this way: nothing was touched by the refused call; ask the next method.
    Refused(Fault),
    /// The data cannot move.
    Failed(Fault),
}

impl Step {
    /// The step for an error of a call that touched nothing.
    pub(crate) fn from_errno(call: Call, side: Side, errno: Errno) -> Self {
        match errno {
            Errno::INTR => Step::Moved(0),
            Errno::AGAIN => Step::WouldBlock(side),
            errno if is_refusal(errno) => Step::Refused(Fault { call, side, errno }),
            errno => Step::Failed(Fault { call, side, errno }),
        }
    }
}

/// A technique.
pub(crate) trait Method: fmt::Debug + Sync {
    /// The technique's name.
    fn name(&self) -> MethodName;

    /// The technique's consequences for the user.
    fn traits(&self) -> Traits;

    /// Can the technique move these bytes, as far as is known without trying? By default it can
    /// where the needed offsets can be named.
    ///
    /// # Errors
    /// The refusal, with the reason; no call that changes anything was made.
    fn serves(&self, pair: &Pair<'_>, _kernel: &Kernel) -> Result<(), Refusal> {
        let traits = self.traits();
        if traits.needs_source_offset {
            source_offset(self.name(), pair)?;
        }
        if traits.needs_target_offset {
            target_offset(self.name(), pair)?;
        }
        Ok(())
    }

    /// Asks the kernel by a harmless call; `false` where only a first step can show.
    ///
    /// # Errors
    /// The refusal.
    fn probe(&self, _pair: &Pair<'_>) -> Result<bool, Refusal> {
        Ok(false)
    }

    /// Makes ready to move.
    ///
    /// # Errors
    /// The refusal of a preparing call; source and target are untouched.
    fn start<'fd>(&self, pair: &Pair<'fd>, setup: &Setup) -> Result<Start<'fd>, Refusal>;
}

/// A technique made ready for one pair.
pub(crate) enum Start<'fd> {
    /// A stream of bytes, for which the driver waits.
    Flow(Box<Streamed<'fd>>),
    /// A part of a file.
    Range(Box<dyn Range + Send + 'fd>),
}

impl<'fd> Start<'fd> {
    fn range(range: impl Range + Send + 'fd) -> Self {
        Start::Range(Box::new(range))
    }
}

/// A technique between named offsets, whose failure loses nothing.
pub(crate) trait Range {
    /// Moves at most `budget_bytes`, without waiting for a target that can be idle. Bytes not
    /// counted as moved are still in the source.
    fn step(&mut self, budget_bytes: u64) -> Step;

    /// Goes on with another part of the same two files, keeping buffers; `false` if impossible.
    fn reposition(&mut self, _pair: &Pair<'_>) -> bool {
        false
    }
}

fn source_offset(method: MethodName, pair: &Pair<'_>) -> Result<u64, Refusal> {
    pair.source_at.ok_or_else(|| Refusal::because(method, "the source is not a regular file"))
}

fn target_offset(method: MethodName, pair: &Pair<'_>) -> Result<u64, Refusal> {
    pair.target_at.ok_or_else(|| {
        Refusal::because(method, "the target is not a regular file, or was opened for append")
    })
}

/// Refuses odd pieces into a file with O_DIRECT, which the kernel could refuse half-way: iomap
/// checks one extent after the other, and EINVAL can follow a partial write.
fn refuse_unaligned(method: MethodName, pair: &Pair<'_>) -> Result<(), Refusal> {
    // Logical blocks of disks have 512 or 4096 bytes: a multiple of 4096 suits both.
    const ALIGNMENT: u64 = 4096;
    let from = pair.source_at.or(pair.source.position()).unwrap_or(0);
    let to = pair.target_at.or(pair.target.position()).unwrap_or(0);
    let in_file = pair.source.size_bytes().saturating_sub(from);
    let length = pair.length_bytes.map_or(in_file, |length| length.min(in_file));
    if pair.target.is_direct() && !(to | length).is_multiple_of(ALIGNMENT) {
        let why =
            "the target has O_DIRECT, and the piece is not aligned; the method direct serves it";
        return Err(Refusal::because(method, why));
    }
    Ok(())
}

/// Why splices into `target` are ruled out, and the kernel's answer to one where splice(2) gives
/// that reason itself. `has_odd_pieces`: the bytes come from a stream, in pieces of any length.
pub(crate) fn splice_obstacle(
    target: &PortState,
    has_odd_pieces: bool,
) -> Option<(&'static str, Option<Errno>)> {
    const DIRECT: &str =
        "the target was opened with O_DIRECT, and a stream's pieces are not aligned";
    if target.is_append() {
        // EINVAL (`do_splice_from` of `fs/splice.c`), but only once the bytes are in a pipe.
        Some((Refusal::APPENDS, Some(Errno::INVAL)))
    } else if target.is_direct() && has_odd_pieces {
        Some((DIRECT, None))
    } else {
        None
    }
}

/// Refuses a target whose flags, or whose piece, splice(2) would refuse half-way.
fn refuse_unspliceable(method: MethodName, pair: &Pair<'_>) -> Result<(), Refusal> {
    match splice_obstacle(&pair.target.state(), !pair.source.has_offsets()) {
        Some((why, errno)) => {
            let call = errno.map(|_| Call::Splice);
            Err(Refusal { method, call, errno, why: why.into() })
        }
        None => refuse_unaligned(method, pair),
    }
}

/// A budget as the length of one system call.
pub(crate) fn call_bytes(budget_bytes: u64, most: usize) -> usize {
    usize::try_from(budget_bytes).unwrap_or(usize::MAX).min(most)
}
