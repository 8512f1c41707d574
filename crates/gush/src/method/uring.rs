//! `uring`: several reads and writes of one file under way at once (io_uring(7)).
//!
//! Each slot reads a piece and writes it; a step submits pieces up to the budget and returns when
//! all are done. Splicing by io_uring is not used: it runs in a worker thread, and its length has
//! 32 bits, so that 4 GiB would look like the end.

use rustix::io::{self, Errno};

use super::{
    Method, MethodName, Pair, Range, Refusal, Setup, Start, Step, Traits, refuse_unaligned,
    source_offset, target_offset,
};
use crate::endpoint::Endpoint;
use crate::fault::Fault;
use crate::kernel::Kernel;
use crate::port::Side;
use crate::sys::Call;
use crate::sys::data::before_last_offset;
use crate::sys::ring::Ring;
use crate::tuning::Tuning;

const SLOTS: usize = 8;
const BUFFER_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct Uring;

impl Method for Uring {
    fn name(&self) -> MethodName {
        MethodName::Uring
    }

    fn traits(&self) -> Traits {
        Traits {
            needs_source_offset: true,
            needs_target_offset: true,
            writes_ahead: true,
            ..Traits::default()
        }
    }

    fn serves(&self, pair: &Pair<'_>, _kernel: &Kernel) -> Result<(), Refusal> {
        source_offset(self.name(), pair)?;
        target_offset(self.name(), pair)?;
        refuse_unaligned(self.name(), pair)
    }

    fn start<'fd>(&self, pair: &Pair<'fd>, setup: &Setup) -> Result<Start<'fd>, Refusal> {
        // All slots together stay within one buffer's bound (invariant 8).
        let buffer_bytes = setup.buffer_or(BUFFER_BYTES).min(Tuning::MOST_BUFFER_BYTES / SLOTS);
        Ok(Start::range(Ringing {
            source: pair.source,
            target: pair.target,
            source_at: source_offset(self.name(), pair)?,
            target_at: target_offset(self.name(), pair)?,
            ring: Ring::new(SLOTS, buffer_bytes)
                .map_err(|errno| Refusal::by_kernel(self.name(), Call::IoUringSetup, errno))?,
            proven: false,
            wrote: false,
        }))
    }
}

struct Ringing<'fd> {
    source: Endpoint<'fd>,
    target: Endpoint<'fd>,
    source_at: u64,
    target_at: u64,
    ring: Ring,
    /// A first piece has arrived: the ring takes reads and writes of these files.
    proven: bool,
    /// A write was handed to the ring: the target may have been touched.
    wrote: bool,
}

/// The state of the piece that begins `offset` bytes after the step's start.
#[derive(Clone, Copy)]
enum Piece {
    Idle,
    Reading { offset: u64, len: usize, got: usize },
    Writing { offset: u64, len: usize, put: usize },
}

/// How far a step got: the first byte that did not arrive, and why.
#[derive(Clone, Copy)]
struct Stop {
    offset: u64,
    step: Step,
}

impl Ringing<'_> {
    fn read(&mut self, slot: usize, offset: u64, len: usize, got: usize) -> Piece {
        let at = self.source_at + offset + got as u64;
        let end = got + before_last_offset(Some(at), len - got);
        self.ring.read(slot, self.source.fd(), at, got..end);
        Piece::Reading { offset, len, got }
    }

    fn write(&mut self, slot: usize, offset: u64, len: usize, put: usize) -> Piece {
        // From here on a refusal is a failure, as the target may have been touched.
        self.wrote = true;
        self.ring.write(slot, self.target.fd(), self.target_at + offset + put as u64, put..len);
        Piece::Writing { offset, len, put }
    }

    /// The step after an answer: more of the same, the write after the read, or a stop.
    fn go_on(
        &mut self,
        slot: usize,
        piece: Piece,
        answer: io::Result<usize>,
    ) -> Result<Piece, Stop> {
        let stop = |offset, call, side, errno| {
            Err(Stop { offset, step: Step::from_errno(call, side, errno) })
        };
        match (piece, answer) {
            // Neither answer has moved a byte: the same part is handed to the ring again.
            (Piece::Reading { offset, len, got }, Err(Errno::INTR | Errno::AGAIN)) => {
                Ok(self.read(slot, offset, len, got))
            }
            (Piece::Writing { offset, len, put }, Err(Errno::INTR | Errno::AGAIN)) => {
                Ok(self.write(slot, offset, len, put))
            }
            // What was read of the piece has not been written: nothing of it has arrived.
            (Piece::Reading { offset, .. }, Err(errno)) => {
                stop(offset, Call::UringRead, Side::Source, errno)
            }
            (Piece::Writing { offset, put, .. }, Err(errno)) => {
                stop(offset + put as u64, Call::UringWrite, Side::Target, errno)
            }
            // A ring's 0 proves no end: FUSE answers 0 at the size it knows without asking the
            // server, where a pread(2) asks (`fuse_direct_IO` of fs/fuse/file.c). Bytes before the
            // 0 are written first.
            (Piece::Reading { offset, got: 0, .. }, Ok(0)) => Err(Stop { offset, step: Step::Dry }),
            (Piece::Reading { offset, got, .. }, Ok(0)) => Ok(self.write(slot, offset, got, 0)),
            // Repeated, the write would answer 0 for ever (`fault::TOOK_NOTHING`).
            (Piece::Writing { offset, put, .. }, Ok(0)) => {
                stop(offset + put as u64, Call::UringWrite, Side::Target, Errno::IO)
            }
            (Piece::Reading { offset, len, got }, Ok(more)) if got + more < len => {
                Ok(self.read(slot, offset, len, got + more))
            }
            (Piece::Reading { offset, len, .. }, Ok(_)) => Ok(self.write(slot, offset, len, 0)),
            (Piece::Writing { offset, len, put }, Ok(more)) if put + more < len => {
                Ok(self.write(slot, offset, len, put + more))
            }
            (Piece::Writing { .. } | Piece::Idle, Ok(_)) | (Piece::Idle, Err(_)) => Ok(Piece::Idle),
        }
    }
}

impl Range for Ringing<'_> {
    fn step(&mut self, budget_bytes: u64) -> Step {
        // A refusal must leave everything untouched, so the first piece goes alone.
        let budget_bytes = if self.proven {
            budget_bytes
        } else {
            budget_bytes.min(self.ring.buffer_bytes() as u64)
        };
        let mut pieces = [Piece::Idle; SLOTS];
        let mut handed_out = 0;
        let mut first_stop: Option<Stop> = None;
        loop {
            for (slot, piece) in pieces.iter_mut().enumerate() {
                let left = budget_bytes - handed_out;
                // After a stop no piece begins: its bytes could not count as moved.
                if first_stop.is_none() && left > 0 && matches!(piece, Piece::Idle) {
                    let len = super::call_bytes(left, self.ring.buffer_bytes());
                    *piece = self.read(slot, handed_out, len, 0);
                    handed_out += len as u64;
                }
            }
            let (slot, answer) = match self.ring.next() {
                Ok(Some(done)) => done,
                Ok(None) => break,
                Err(errno) => {
                    let fault = Fault { call: Call::IoUringEnter, side: Side::Target, errno };
                    // A refusal makes another method begin here, which needs an untouched target.
                    return if self.wrote { Step::Failed(fault) } else { Step::Refused(fault) };
                }
            };
            let piece = std::mem::replace(&mut pieces[slot], Piece::Idle);
            // A piece that met a 0 after some bytes ends the step once these are written.
            let was_short = matches!((piece, &answer), (Piece::Reading { got: 1.., .. }, Ok(0)));
            match self.go_on(slot, piece, answer) {
                Ok(next) => {
                    if let (true, Piece::Writing { offset, len, .. }) = (was_short, next) {
                        let stop = Stop { offset: offset + len as u64, step: Step::Dry };
                        first_stop = earlier(first_stop, stop);
                    }
                    pieces[slot] = next;
                }
                Err(stop) => first_stop = earlier(first_stop, stop),
            }
        }
        let moved = first_stop.map_or(handed_out, |stop| stop.offset);
        self.proven |= moved > 0;
        self.source_at += moved;
        self.target_at += moved;
        match first_stop {
            Some(Stop { offset: 0, step }) => step,
            _ => Step::Moved(moved),
        }
    }
}

fn earlier(known: Option<Stop>, new: Stop) -> Option<Stop> {
    match known {
        Some(known) if known.offset <= new.offset => Some(known),
        _ => Some(new),
    }
}
