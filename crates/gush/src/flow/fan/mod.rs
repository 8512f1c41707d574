//! The fan: one stream of bytes from a source to several targets, as a value without I/O.
//!
//! A fan is an intake with several lanes. The intake is a [`Flow`] that only takes, each lane one
//! that only delivers; they have the rules about sources and targets. This file has the rules
//! between the lanes.
//!
//! ```text
//! through memory      source ── read ──> buffer ── write ──> each target
//! by reference        source ─ splice ─> pipe ─┬─ tee ────> a target that is a pipe
//!                                              ├─ tee ────> pipe of the lane ── splice ──> any other
//!                                              └─ splice ─> the last lane, which leaves the pipe empty
//! ```
//!
//! # Invariants
//! - *Each lane gets every byte once, in order.* Until a lane is lost, the bytes taken are the
//!   bytes delivered to the lane and the bytes in flight for the lane.
//! - *The bound.* Nothing is taken while anything is in flight for any lane, so a lane is at most
//!   one intake ahead: one buffer ([`Terms::buffer_bytes`]; a datagram may be longer) or one full
//!   pipe.
//! - *The head moves last.* tee(2) begins at the pipe's head, so only lanes that have nothing after
//!   the head are served. The head moves on by as much as every remaining lane has.
//! - *A lane's failure concerns no other lane.* [`FanNext::Lost`] reports it once, and the driver
//!   decides whether to go on.
//! - *[`FanNext::Wait`] comes only after an `EAGAIN` about each side that
//!   [`waits`](super::Spread::waits) names.* A pipe or stream with nothing to take is named too
//!   ([`Interest::HangUp`]): its reader can leave while the source idles.
//!
//! Ends and refusals keep the flow's invariants: only a `read` that answers 0 is the end, and a
//! refusal changes nothing but the route.
//!
//! # By reference
//! The readers of all targets then share the pages, and cannot write to them: a pipe gives a page
//! away only while it alone holds it (`generic_pipe_buf_try_steal` of `fs/splice.c`), and a slot
//! made by tee(2) is not merged into (`link_pipe`). Others can write to the pages of a *file*
//! before a reader has taken them, unless [`Terms::isolated`] is set.
//!
//! - The source is spliced into the fan's own pipe even if it is a pipe: between a tee and a splice
//!   from a shared one another reader could take bytes, and the lanes would differ.
//! - Datagrams, terminals and made-up files go through memory, as in every flow of the plan.
//! - A lane whose target takes no splices (O_APPEND) reads the bytes out of a pipe, at two copies
//!   instead of one and a share of the read. So references are used while such lanes are no more
//!   than pipes and streams, which cost none.
//! - Where tee(2) is denied, or no pipe can be had, everything goes through memory from there.
//!
//! # Drawbacks
//! Each decision looks at every lane: a thousand targets cost a million looks for each intake.

use rustix::io::Errno;

mod lane;
mod learn;
mod op;

pub(super) use op::look;
pub use op::{FanFds, FanOp};

use super::route::{self, Route, Routes};
use super::spread;
use super::{Completion, Failure, Flow, Lender, Next, Op, PortState, Terms};
use crate::endpoint::Kind;
use crate::method::{MethodName, Refusal};
use crate::mover::Choice;
use crate::plan;
use crate::sys::Call;
use lane::Lane;

/// One side of a fan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Who {
    /// Where the bytes come from.
    Source,
    /// Where they go: the targets are counted from 0.
    Target(u16),
}

/// The event at one side for which a driver waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interest {
    /// There is something to read.
    Readable,
    /// There is room.
    Writable,
    /// The reader has gone: poll(2) without events answers `POLLERR` or `POLLHUP`. A driver may
    /// ignore this.
    HangUp,
}

/// The driver's next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FanNext {
    /// Make this call, and let the fan learn the answer.
    Do(FanOp),
    /// Wait for any of the sides that [`waits`](super::Spread::waits) names, and say by
    /// [`wake`](super::Spread::wake) which.
    Wait,
    /// Nothing is in flight, and nothing may be taken now.
    Throttled,
    /// This target is lost, by [`failure`](super::Spread::failure); reported once. Ask again to go
    /// on with the others, or with nothing to be taken to deliver their bytes in flight.
    Lost(u16),
    /// Everything taken is delivered to every remaining target, and no more comes.
    Ended(Completion),
    /// No target is left.
    Deserted,
    /// The bytes cannot be taken. The bytes taken before are delivered, as far as there was memory.
    Failed(Box<Failure>),
}

/// One stream from a source to several targets. The [module](super) says how it is driven.
#[derive(Debug)]
pub struct Fan {
    /// Takes; its pipe and buffer hold the bytes that the lanes deliver.
    intake: Flow,
    lanes: Vec<Lane>,
    /// The source answered `EAGAIN`, and nobody has said since that the source is ready.
    source_waits: bool,
    /// A lane could get no separate pipe: the present intake goes through memory.
    lacks_pipes: bool,
    /// The user named the route, which is used or refused.
    named: bool,
}

impl Fan {
    /// A fan from a port to several others. No call is made.
    ///
    /// Of the plan's methods a fan has `read-write` and `splice`.
    ///
    /// # Errors
    /// The refusal of a method asked for by name; more than 65,535 targets.
    pub fn between(
        source: PortState,
        targets: &[PortState],
        terms: &Terms,
    ) -> Result<Self, Refusal> {
        spread::count_targets(targets.len())?;
        // Every target needs the bytes, and each is somewhere else.
        let terms = &Terms { make_holes: false, rereads: false, ..*terms };
        let named = terms.choice != Choice::Auto;
        // No look needed: every lane takes from a pipe of ours, which never makes anybody wait.
        let pipe = PortState::known(Kind::Pipe, true);
        // The intake keeps to the length: a lane delivers whatever was taken.
        let lane_terms = Terms { length_bytes: None, expected_bytes: None, ..*terms };
        let mut lanes = Vec::with_capacity(targets.len());
        let splices = |from: &PortState, to: &PortState| splices(from, to, terms);
        for &target in targets {
            let routes = match splices(&pipe, &target)? {
                // A method asked for by name is used or refused (invariant 6): no route after it.
                true if named => Routes::of(&[Route::Piped]),
                true => Routes::of(&[Route::Piped, Route::Memory]),
                false => Routes::of(&[Route::Memory]),
            };
            lanes.push(Lane::new(Flow::by(routes, pipe, target, &lane_terms)));
        }
        // Only a socket brings short messages, which cost less through memory.
        let by_reference =
            if source.kind() == Kind::Stream { Route::Adaptive } else { Route::Piped };
        let routes = match splices(&source, &pipe)? {
            true if named => Routes::of(&[Route::Piped]),
            true if Lane::take_references(&lanes) => Routes::of(&[by_reference, Route::Memory]),
            _ => Routes::of(&[Route::Memory]),
        };
        // The intake delivers nothing. Its target is that of the lane that demands most of a read:
        // datagrams, and empty ones where a lane passes them on.
        let strictest = targets.iter().max_by_key(|to| (to.keeps_boundaries(), to.takes_empty()));
        let intake = Flow::by(routes, source, strictest.copied().unwrap_or(pipe), terms);
        Ok(Self { intake, lanes, source_waits: false, lacks_pipes: false, named })
    }

    /// Bytes taken and not yet delivered to this target; for a lost target the bytes missing there,
    /// as far as they were taken by then.
    #[must_use]
    pub fn in_flight_bytes(&self, target: u16) -> u64 {
        let lane = self.lane(target);
        lane.lost_at_bytes.unwrap_or(self.intake.tally.taken_bytes)
            - lane.outlet.tally.delivered_bytes
    }

    fn lane(&self, target: u16) -> &Lane {
        &self.lanes[usize::from(target)]
    }

    fn live(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.iter().filter(|lane| lane.is_live())
    }

    /// Takes out the lanes that have failed, once their last deliverable byte is delivered.
    fn reap(&mut self, lender: &mut dyn Lender) {
        let taken_bytes = self.intake.tally.taken_bytes;
        for lane in self.lanes.iter_mut().filter(|lane| lane.has_failed()) {
            lane.lose(taken_bytes);
            lane.give_back(lender);
        }
    }

    /// A lane's call, if one is due. Pipes first: the last of the others gets the intake's own
    /// pipe.
    fn due(&mut self, lender: &mut dyn Lender) -> Option<FanOp> {
        [true, false].into_iter().find_map(|straight| {
            (0..self.lanes.len() as u16).find_map(|target| {
                let is_turn = self.lane(target).is_straight() == straight;
                if is_turn { self.due_for(target, lender) } else { None }
            })
        })
    }

    fn due_for(&mut self, target: u16, lender: &mut dyn Lender) -> Option<FanOp> {
        let by_reference = self.has_references() && !self.lacks_pipes;
        let lane = &mut self.lanes[usize::from(target)];
        if !lane.is_live() || lane.waits {
            return None;
        }
        if lane.is_to_look {
            return Some(FanOp::Look(target));
        }
        if lane.has_own() {
            match lane.outlet.next(0, lender) {
                Next::Do(op) => return Some(FanOp::Lane(target, op)),
                Next::Wait(_) => lane.waits = true,
                // There is no memory to go on by plain writes.
                Next::Failed(_) => lane.outlet.give_up_memory(),
                Next::Throttled | Next::Ended(_) => {}
            }
            return None;
        }
        if lane.owes {
            return Some(FanOp::Lane(target, Op::Write));
        }
        let is_next = by_reference && lane.ahead_bytes == 0 && !lane.has_failed();
        if is_next { self.serve(target, lender) } else { None }
    }

    /// How a lane at the head of the intake's pipe gets the bytes there.
    fn serve(&mut self, target: u16, lender: &mut dyn Lender) -> Option<FanOp> {
        let piped_bytes = self.piped_bytes();
        let others = spread::NUMBERS
            .zip(&self.lanes)
            .filter(|(other, lane)| *other != target && lane.is_live());
        let common_bytes = others.map(|(_, lane)| lane.ahead_bytes).min().unwrap_or(piped_bytes);
        if !self.lane(target).is_straight() {
            if common_bytes == piped_bytes {
                self.hand_over(target);
                return self.due_for(target, lender);
            }
            let lane = &mut self.lanes[usize::from(target)];
            if lane.outlet.held.borrow_pipe(lender).is_none() {
                self.lacks_pipes = true;
                if self.named {
                    let refusal = Refusal::because(MethodName::Splice, super::NO_PIPE);
                    self.refuse(refusal, Errno::NFILE, Call::Pipe);
                }
                return None;
            }
        }
        Some(match usize::try_from(common_bytes).unwrap_or(usize::MAX) {
            0 => FanOp::Tee(target),
            most => FanOp::Move(target, most),
        })
    }

    /// All others have all bytes: the last lane swaps its empty pipe for the intake's.
    fn hand_over(&mut self, target: u16) {
        let lane = &mut self.lanes[usize::from(target)];
        std::mem::swap(&mut self.intake.held.pipe, &mut lane.outlet.held.pipe);
        let bytes = lane.outlet.held.piped_bytes();
        lane.loaded(bytes);
        self.lanes.iter_mut().for_each(|lane| lane.ahead_bytes = 0);
    }

    /// Are there bytes in the intake's pipe that leave by reference?
    fn has_references(&self) -> bool {
        self.piped_bytes() > 0 && !self.intake.held.delivery.through_memory()
    }

    fn piped_bytes(&self) -> u64 {
        self.intake.held.pipe.as_ref().map_or(0, |pipe| pipe.held_bytes())
    }

    /// Must the bytes in the intake's pipe go through memory? Where references are refused, and
    /// where no lane at the pipe's head is left to move the head on.
    fn must_spill(&self) -> bool {
        let is_stuck = || {
            let refused = self.intake.held.delivery.through_memory() || self.lacks_pipes;
            refused || self.live().all(|lane| lane.ahead_bytes > 0)
        };
        self.piped_bytes() > 0 && !self.live().any(|lane| lane.owes) && is_stuck()
    }

    /// Are bytes under way to a remaining lane?
    fn is_delivering(&self) -> bool {
        self.piped_bytes() > 0 || self.live().any(|lane| lane.owes || lane.has_own())
    }

    /// Forgets the bytes that every remaining lane has got.
    fn settle(&mut self) {
        if self.intake.held.hand.full && !self.live().any(|lane| lane.owes) {
            self.intake.held.hand.clear();
        }
        self.lacks_pipes &= self.piped_bytes() > 0;
    }

    /// The side that an `EAGAIN` of this call is about; `None` if it does not say, or is about the
    /// fan's own pipes.
    #[must_use]
    pub fn clears(&self, op: FanOp) -> Option<Who> {
        match op {
            FanOp::Intake(op) => self.intake.clears(op).map(|_| Who::Source),
            FanOp::Lane(target, op) => {
                self.lane(target).outlet.clears(op).map(|_| Who::Target(target))
            }
            FanOp::Tee(target) | FanOp::Move(target, _) => {
                self.lane(target).is_straight().then_some(Who::Target(target))
            }
            FanOp::Look(_) => None,
        }
    }
}

/// May pages go from one port to the other by reference, by the plan and the terms?
fn splices(from: &PortState, to: &PortState, terms: &Terms) -> Result<bool, Refusal> {
    let refused = || {
        if from.keeps_boundaries() || to.keeps_boundaries() {
            return Some("the datagrams of a fan go through memory");
        }
        route::refused(MethodName::Splice, from, to, terms)
    };
    let in_plan = || plan::flow_methods(from.kind(), to.kind()).contains(&MethodName::Splice);
    match terms.choice {
        Choice::Auto => Ok(in_plan() && refused().is_none()),
        // Memory alone, by the user's word.
        Choice::Only(MethodName::ReadWrite) => Ok(false),
        Choice::Only(MethodName::Splice) => match refused() {
            Some(why) => Err(Refusal::because(MethodName::Splice, why)),
            None => Ok(true),
        },
        Choice::Only(method) => Err(Refusal::because(method, "a fan has read-write and splice")),
    }
}
