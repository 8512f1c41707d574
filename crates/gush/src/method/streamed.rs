//! A flow behind the face of a transfer: splice and sendfile move by the rules of [`crate::flow`], which the
//! relays of gush-net move by, too.

use rustix::io::{self, Errno};

use super::{MethodName, Pair, Refusal, Step, Transfer};
use crate::fault::Fault;
use crate::flow::{Buf, End, Failure, Fds, Flow, Lender, Next, Op, Stance, Terms};
use crate::kernel::is_refusal;
use crate::mover::Choice;
use crate::pages::Pages;
use crate::pipe::{Pipe, PipeLoan};

/// A flow by one method, with means of its own.
pub(super) struct Streamed<'fd> {
    flow: Flow,
    fds: Fds<'fd>,
    means: Means,
    /// The refusal of the one way that this flow has.
    refused: Option<Fault>,
    /// What ended a step that had moved bytes: the answer of the next one.
    pending: Option<Step>,
}

/// The one pipe of a transfer, made before it starts, and its buffers.
struct Means {
    pipe: Option<Pipe>,
    buf: Option<Buf>,
}

impl Lender for Means {
    fn pipe(&mut self) -> Option<PipeLoan> {
        self.pipe.take().map(PipeLoan::alone)
    }

    fn buf(&mut self, bytes: usize) -> io::Result<Buf> {
        match self.buf.take() {
            Some(buf) if buf.len_bytes() >= bytes => Ok(buf),
            _ => Pages::new(bytes).map(Buf::Pages),
        }
    }

    fn take_back(&mut self, buf: Buf) {
        self.buf = Some(buf);
    }
}

impl<'fd> Streamed<'fd> {
    /// A flow by `method` in calls of at most `call_bytes`, through `pipe` where it needs one.
    pub(super) fn new(
        method: MethodName,
        pair: &Pair<'fd>,
        call_bytes: usize,
        pipe: Option<Pipe>,
    ) -> Result<Self, Refusal> {
        let stance = |endpoint, at| {
            Stance::of_endpoint(endpoint, at)
                .map_err(|(call, errno)| Refusal::by_kernel(method, call, errno))
        };
        let source = stance(&pair.source, pair.source_at)?;
        let target = stance(&pair.target, pair.target_at)?;
        let terms = Terms { choice: Choice::Only(method), call_bytes, ..Terms::default() };
        let flow = Flow::between(source, target, &terms)?;
        let fds = Fds { source: pair.source.fd(), target: pair.target.fd() };
        Ok(Self { flow, fds, means: Means { pipe, buf: None }, refused: None, pending: None })
    }

    /// Makes calls until bytes have arrived and none is in flight, or none can go on.
    fn advance(&mut self, budget_bytes: u64) -> Step {
        if let Some(step) = self.pending.take() {
            return step;
        }
        let before = self.flow.delivered_bytes();
        loop {
            let arrived = self.flow.delivered_bytes() - before;
            if arrived > 0 && self.flow.in_flight_bytes() == 0 {
                return Step::Moved(arrived);
            }
            let step = match self.flow.next(budget_bytes, &mut self.means) {
                Next::Do(op) => {
                    let answer = self.flow.perform(op, self.fds);
                    self.learn(op, answer);
                    if answer == Err(Errno::INTR) { Step::Moved(0) } else { continue }
                }
                Next::Wait(side) => Step::WouldBlock(side),
                Next::Throttled | Next::Ended(End::Limit) => Step::Moved(0),
                Next::Ended(End::Proven) => Step::End,
                Next::Failed(failure) => self.failed(*failure),
            };
            if arrived == 0 {
                return step;
            }
            self.pending = Some(step).filter(|step| *step != Step::Moved(0));
            return Step::Moved(arrived);
        }
    }

    fn learn(&mut self, op: Op, answer: io::Result<usize>) {
        let moved = self.flow.learn(op, answer, &mut ());
        if let Some(refusal) = moved.refusal {
            let errno = refusal.errno.unwrap_or(Errno::IO);
            self.refused = Some(op.fault(errno, &self.flow));
        }
    }

    fn failed(&self, failure: Failure) -> Step {
        match (failure, self.refused) {
            // It reported the end before the end, twice: who drives it asks by a read of its own.
            (Failure::Refused(Refusal { errno: None, .. }), _) => Step::Dry,
            (Failure::Refused(_), Some(fault)) => Step::Refused(fault),
            (Failure::Refused(refusal), None) => {
                let errno = refusal.errno.unwrap_or(Errno::IO);
                Step::Refused(Op::Fill(0).fault(errno, &self.flow))
            }
            (Failure::Fault(fault), _) if is_refusal(fault.errno) && self.refused.is_none() => {
                Step::Refused(fault)
            }
            (Failure::Fault(fault), _) => Step::Failed(fault),
        }
    }
}

impl Transfer for Streamed<'_> {
    fn step(&mut self, budget_bytes: u64) -> Step {
        self.advance(budget_bytes)
    }

    fn in_flight(&self) -> u64 {
        self.flow.in_flight_bytes()
    }

    fn drain(&mut self) -> Step {
        self.advance(0)
    }
}
