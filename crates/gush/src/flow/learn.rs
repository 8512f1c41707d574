//! The consequences of a call's answer.

use rustix::io::{self, Errno};

use super::route::Route;
use super::state::Sides;
use super::{Delivery, Failure, Flow, Inspector, Moved, Op, Readiness, SHORT_PART, SourceState};
use crate::endpoint::Kind;
use crate::fault::Fault;
use crate::kernel::is_refusal;
use crate::method::{MethodName, Refusal};
use crate::port::Side;
use crate::sys::Call;

impl Flow {
    /// The side that an `EAGAIN` of this call is about; `None` if it does not say: the flow then
    /// polls each.
    #[must_use]
    pub fn clears(&self, op: Op) -> Option<Side> {
        match op {
            Op::Measure | Op::AskEnd | Op::Read(_) | Op::Ready(Side::Source) => Some(Side::Source),
            // The source of these is our own memory or pipe, which always has something here.
            Op::Write | Op::Empty | Op::Punch(_) | Op::Ready(Side::Target) => Some(Side::Target),
            // The pipe is empty, so only the source is meant; a stream may be at its urgent mark.
            Op::Fill(_) if self.source.kind() != Kind::Stream || !self.may_be_urgent => {
                Some(Side::Source)
            }
            Op::Fill(_) | Op::Direct(_) | Op::Sendfile(_) => None,
            // Nobody else has the pipe: it has no EAGAIN.
            Op::Spill | Op::Lend | Op::Discard => None,
        }
    }

    /// Learns the answer of a call.
    pub fn learn(
        &mut self,
        op: Op,
        answer: io::Result<usize>,
        inspector: &mut dyn Inspector,
    ) -> Moved {
        let moved = self.learn_answer(op, answer, inspector);
        debug_assert_eq!(self.in_flight_bytes(), self.held.bytes(), "invariant 1, after {op:?}");
        moved
    }

    /// The same for the intake and the lanes of a fan, which share the bytes in flight.
    pub(super) fn learn_answer(
        &mut self,
        op: Op,
        answer: io::Result<usize>,
        inspector: &mut dyn Inspector,
    ) -> Moved {
        // Readiness is good for one call: it may have used up the room or the bytes.
        if !matches!(op, Op::Ready(_)) {
            self.readiness = Readiness::default();
        }
        if op == Op::AskEnd {
            self.learn_look(answer);
            return Moved::default();
        }
        match answer {
            Ok(bytes) => self.learn_bytes(op, bytes, inspector),
            Err(Errno::INTR) => {
                // An empty record may have been taken, and the next one is as long as may be.
                self.datagram_bytes = None;
                Moved::default()
            }
            Err(Errno::AGAIN) if !op.is_private() => {
                self.learn_again(op);
                Moved::default()
            }
            // The pipe should hold bytes: a packet was cut, and its rest is lost.
            Err(Errno::AGAIN) if op == Op::Spill => self.learn_error(op, Errno::IO),
            Err(errno) => self.learn_error(op, errno),
        }
    }

    fn learn_again(&mut self, op: Op) {
        // The datagram that was measured is not there any more, or none was.
        self.datagram_bytes = None;
        match self.clears(op) {
            Some(side) => {
                // The read of a doubt would have met the end: EAGAIN proves that there is none yet.
                if self.source_state == SourceState::Doubt {
                    self.source_state = SourceState::Take;
                }
                self.readiness.wait_for(side);
            }
            None => {
                let (source, target) = op.touches();
                let can_be_asked = Sides {
                    source: source && self.source.can_idle,
                    target: target && self.target.can_idle,
                };
                // Neither can be asked, so neither can be waited for: a `read` answers.
                if !self.readiness.ask(can_be_asked) {
                    self.source_state = SourceState::Doubt;
                }
            }
        }
    }

    /// The target has no reader any more: has the source something for one?
    fn learn_look(&mut self, answer: io::Result<usize>) {
        self.source_state = match answer {
            // Nothing for nobody: an end, as for a program that reads before it writes.
            Ok(0) => SourceState::Over,
            // Only a `read` can decide. Its bytes, if there are any, meet the same error.
            Err(Errno::OPNOTSUPP) => SourceState::Doubt,
            Err(Errno::INTR) => SourceState::Deserted,
            // Neither a byte nor the end is there yet.
            Err(Errno::AGAIN) => {
                self.readiness.wait_for(Side::Source);
                SourceState::Deserted
            }
            // A `read` would have failed, too.
            Err(errno) => return self.fail_for_good(Op::AskEnd.fault(errno, self)),
            Ok(_) => {
                let call = match self.routes.now() {
                    Route::Sendfile => Call::Sendfile,
                    _ => Call::Splice,
                };
                return self.fail_for_good(Fault { call, side: Side::Target, errno: Errno::PIPE });
            }
        };
    }

    fn learn_error(&mut self, op: Op, errno: Errno) -> Moved {
        let fault = op.fault(errno, self);
        if matches!(op, Op::Direct(_) | Op::Sendfile(_)) && errno == Errno::PIPE {
            // splice(2) looks at the target first, so the source may have ended unnoticed.
            self.source_state = SourceState::Deserted;
            return Moved::default();
        }
        if let Op::Punch(_) = op {
            self.makes_holes = false;
            // What ended the flow before the last hole was to be made stays the cause.
            if self.failed.is_some() {
                return Moved::default();
            }
        }
        if op == Op::Discard {
            // What is in the pipe is no data: another pipe will do.
            (self.held.pipe, self.held.delivery) = (None, Delivery::ByRoute);
            return Moved::default();
        }
        if op == Op::Lend && errno == Errno::AGAIN {
            // Nothing can be in the pipe: this once the bytes are written.
            self.held.hand.shrink();
            return Moved::default();
        }
        if matches!(op, Op::Fill(_)) && self.routes.now().reads() && is_refusal(errno) {
            // A read does what the sip was to do, but for packets.
            self.cannot_sip = true;
            return Moved::default();
        }
        let by_reference =
            matches!(op, Op::Fill(_) | Op::Lend | Op::Empty | Op::Direct(_) | Op::Sendfile(_));
        if by_reference && is_refusal(errno) {
            return self.refuse(
                op,
                Refusal::by_kernel(self.routes.now().method(), fault.call, errno),
                fault,
            );
        }
        self.fail_for_good(fault);
        Moved::default()
    }

    /// The route is refused: the next begins, once plain writes have emptied the pipe.
    pub(super) fn refuse(&mut self, op: Op, refusal: Refusal, fault: Fault) -> Moved {
        // The next route has its own idea of the end, and a fresh start.
        self.false_ends.forget();
        self.source_state = SourceState::Take;
        // Only these leave bytes in the pipe; a refused fill took nothing.
        let in_flight = matches!(op, Op::Lend | Op::Empty);
        let leaves = if in_flight { Delivery::Refused } else { Delivery::ByRoute };
        if std::mem::replace(&mut self.held.delivery, leaves) == Delivery::Lent || op == Op::Lend {
            // The hand has all of it still, and writes it.
            self.held.pipe = None;
        }
        // A file can be read again, so the bytes in flight are dropped.
        if self.fixed.rereads && !self.routes.has_next() {
            self.held.pipe = None;
            self.held.hand.clear();
            self.held.delivery = Delivery::ByRoute;
            self.tally.taken_bytes = self.tally.delivered_bytes;
        }
        if !self.routes.has_next() {
            self.failed = Some(Box::new(match refusal.call {
                Some(_) if self.fixed.named => Failure::Refused(refusal.clone()),
                None if self.fixed.named => Failure::FalseEnd(refusal.clone()),
                _ => Failure::Fault(fault),
            }));
        // With bytes in the pipe the route changes only after they have been delivered.
        } else if self.held.delivery != Delivery::Refused {
            self.routes.advance();
        }
        Moved { refusal: Some(Box::new(refusal)), ..Moved::default() }
    }

    fn learn_bytes(&mut self, op: Op, bytes: usize, inspector: &mut dyn Inspector) -> Moved {
        match op {
            Op::AskEnd => Moved::default(),
            Op::Ready(side) => {
                self.learn_ready(side);
                Moved::default()
            }
            Op::Measure => {
                self.datagram_bytes = Some(u32::try_from(bytes).unwrap_or(u32::MAX));
                Moved::default()
            }
            Op::Read(_) => self.learn_read(bytes),
            Op::Write => self.learn_write(bytes, inspector),
            Op::Fill(_) | Op::Direct(_) | Op::Sendfile(_) if bytes == 0 => self.learn_nothing(op),
            Op::Fill(_) => {
                self.datagram_bytes = None;
                self.held.put_into_pipe(bytes);
                // A quarter, so that a stream of middling pieces does not alternate.
                self.bulk = bytes >= (self.fixed.short_bytes / SHORT_PART) as usize;
                self.false_ends.forget();
                let route = self.routes.now();
                // A route that reads fills its pipe for a sip only.
                self.held.delivery =
                    if route.reads() { Delivery::Sipped } else { Delivery::ByRoute };
                self.took(bytes, route.method())
            }
            Op::Lend | Op::Empty if bytes == 0 => {
                // A target that takes nothing of something never will.
                let errno = Fault::TOOK_NOTHING;
                let fault = Fault { call: op.call(), side: Side::Target, errno };
                let method = self.routes.now().method();
                self.refuse(op, Refusal::by_kernel(method, op.call(), errno), fault)
            }
            Op::Lend => {
                self.held.put_into_pipe(bytes);
                self.held.delivery = Delivery::Lent;
                Moved::default()
            }
            Op::Empty => {
                let was_lent = self.held.delivery == Delivery::Lent;
                self.held.gone_from_pipe(bytes);
                if !was_lent {
                    return self.delivered(bytes, MethodName::Splice);
                }
                inspector.bytes(&self.held.hand.held()[..bytes]);
                self.held.hand.gone(bytes);
                self.delivered(bytes, MethodName::Vmsplice)
            }
            // The pipe holds bytes, so 0 can only be a broken kernel: reported, not repeated.
            Op::Spill | Op::Discard if bytes == 0 => self.learn_error(op, Errno::IO),
            Op::Discard => {
                self.held.gone_from_pipe(bytes);
                Moved::default()
            }
            Op::Punch(_) => {
                let zeros_bytes = bytes as u64;
                self.held.zeros_bytes -= zeros_bytes;
                self.target.skip(zeros_bytes);
                self.tally.hole_bytes += zeros_bytes;
                inspector.gap(zeros_bytes);
                self.delivered(bytes, MethodName::ReadWrite)
            }
            Op::Spill => {
                self.held.gone_from_pipe(bytes);
                self.held.hand.put(bytes);
                Moved::default()
            }
            Op::Direct(_) | Op::Sendfile(_) => {
                self.false_ends.forget();
                let method = self.routes.now().method();
                let taken_bytes = self.took(bytes, method).taken_bytes;
                Moved { taken_bytes, ..self.delivered(bytes, method) }
            }
        }
    }

    fn learn_ready(&mut self, side: Side) {
        if self.readiness.found(side) {
            self.source_state = SourceState::Doubt;
        }
    }

    fn learn_read(&mut self, bytes: usize) -> Moved {
        self.datagram_bytes = None;
        // From a datagram socket a 0 is an empty message, and more may follow.
        if bytes == 0 && self.source.ends_at_zero() {
            self.source_state = SourceState::Over;
            return Moved::default();
        }
        self.end_follows = false;
        match self.source_state {
            // A read that fills the short buffer is followed by more, which a pipe moves for less.
            SourceState::Take => self.bulk = bytes >= self.fixed.short_bytes as usize,
            // There is more than was said.
            SourceState::Doubt | SourceState::Deserted | SourceState::Over => {
                self.tally.expected_bytes = None
            }
        }
        self.source_state = SourceState::Take;
        // An empty datagram goes on to a datagram socket; a stream has no place for it.
        if bytes > 0 || self.target.takes_empty() {
            self.held.hand.put(bytes);
        }
        let method = if self.routes.now().reads() {
            self.routes.now().method()
        } else {
            MethodName::ReadWrite
        };
        self.took(bytes, method)
    }

    fn learn_write(&mut self, bytes: usize, inspector: &mut dyn Inspector) -> Moved {
        let held = self.held.hand.run();
        // write(2) of something answers 0 only where it would for ever.
        let is_stuck = bytes == 0 && !held.is_empty();
        // What is left of a message has no place in the next one.
        let is_cut = self.target.keeps_boundaries() && bytes < held.len();
        inspector.bytes(&held[..bytes]);
        self.held.hand.gone(bytes);
        if is_stuck || is_cut {
            let errno = if is_stuck { Fault::TOOK_NOTHING } else { Errno::MSGSIZE };
            self.fail_for_good(Fault { call: Call::Write, side: Side::Target, errno });
        }
        self.delivered(bytes, MethodName::ReadWrite)
    }

    /// A call other than `read` answered 0: a question, which only a `read` can answer.
    fn learn_nothing(&mut self, op: Op) -> Moved {
        self.datagram_bytes = None;
        // A stream may be at its urgent mark again and again, and a read gets past that.
        let may_be_often = self.fixed.named && self.source.kind().can_idle();
        if self.source.kind() == Kind::Terminal {
            // The end was typed, and this call has taken it: a `read` would wait for more.
            self.source_state = SourceState::Over;
        } else if !self.false_ends.add() && !may_be_often {
            let fault = Fault { call: op.call(), side: Side::Source, errno: Errno::IO };
            return self.refuse(op, Refusal::false_end(self.routes.now().method()), fault);
        } else {
            self.source_state = SourceState::Doubt;
        }
        Moved::default()
    }

    pub(super) fn took(&mut self, bytes: usize, method: MethodName) -> Moved {
        let taken_bytes = bytes as u64;
        self.tally.took(taken_bytes);
        Moved { taken_bytes, method: Some(method), ..Moved::default() }
    }

    pub(super) fn delivered(&mut self, bytes: usize, method: MethodName) -> Moved {
        let delivered_bytes = bytes as u64;
        self.tally.delivered_bytes += delivered_bytes;
        Moved { delivered_bytes, method: Some(method), ..Moved::default() }
    }
}
