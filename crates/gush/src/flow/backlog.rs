//! The backlog: one stream from a source to several targets, where a slow target may lag.
//!
//! ```text
//! source ── read ──> intake ── ring ─┬─> lane ── write ──> a target
//!                                    └─> lane ── write ──> another, which lags
//! ```
//!
//! The intake is a [`Flow`] into memory, each lane a flow out of memory; they have the rules about
//! sources and targets. This file has the rules between the lanes.
//!
//! # Invariants
//! - *Each lane gets every byte once, in order.* A lane resumes after the last byte that it took.
//! - *The bound.* The ring holds the bytes from the slowest lane's place to the last byte taken,
//!   and never more than its size. The intake and each lane have one buffer more at most.
//! - *A lane's failure concerns no other lane.* The ring forgets the failed lane's place.
//! - *[`FanNext::Wait`] comes only after an `EAGAIN` about each side named by [`Backlog::waits`].*
//!
//! # Drawbacks
//! Every byte is copied into the ring, and out of it for each lane. A [`Fan`](super::Fan) copies
//! less, and holds every lane to the pace of the slowest.

use rustix::io::{self, Errno};

use super::fan::{FanFds, FanNext, FanOp, Interest, Who, look};
use super::spread::{NUMBERS, Spread};
use super::{Completion, Failure, Fds, Flow, Lender, Moved, Next, Op, PortState, Terms};
use crate::endpoint::Kind;
use crate::fault::Fault;
use crate::method::{MethodName, Refusal};
use crate::pages::Pages;
use crate::port::Side;
use crate::sys::Call;

/// One stream of bytes to several targets, each at its own pace within the ring.
#[derive(Debug)]
pub(crate) struct Backlog {
    intake: Flow,
    lanes: Vec<Lane>,
    ring: TailRing,
    /// Why the source gives no more.
    over: Option<Result<Completion, Box<Failure>>>,
    /// The source answered `EAGAIN`, and nobody has said since that the source is ready.
    source_waits: bool,
}

#[derive(Debug)]
struct Lane {
    /// From the ring to the target.
    outlet: Flow,
    target_kind: Kind,
    /// The target answered `EAGAIN`, and nobody has said since that the target is ready.
    waits: bool,
    /// Something happened at the target while nothing was due there.
    is_to_look: bool,
    /// Why the lane is lost, if so.
    failure: Option<Box<Failure>>,
    /// The driver knows that the lane is lost.
    is_reported: bool,
}

impl Backlog {
    /// From a port to several others, through `ring`. No call is made.
    ///
    /// # Errors
    /// The refusal of a named method other than read-write, or of datagrams on both sides.
    pub(crate) fn between(
        source: PortState,
        targets: &[PortState],
        terms: &Terms,
        ring: Pages,
        ring_bytes: usize,
    ) -> Result<Self, Refusal> {
        // The ring joins whatever comes, so that the messages would come out cut elsewhere.
        if source.keeps_boundaries() && targets.iter().any(PortState::keeps_boundaries) {
            let why = "a backlog keeps no boundaries of datagrams";
            return Err(Refusal::because(MethodName::ReadWrite, why));
        }
        let terms = &Terms { make_holes: false, rereads: false, ..*terms };
        let intake = Flow::between(source, PortState::in_memory(), terms)?;
        let lane_terms = Terms { length_bytes: None, expected_bytes: None, ..*terms };
        let lane = |target: &PortState| {
            let outlet = Flow::between(PortState::in_memory(), *target, &lane_terms)?;
            Ok(Lane::new(outlet, target.kind()))
        };
        let lanes = targets.iter().map(lane).collect::<Result<_, Refusal>>()?;
        let ring = TailRing::new(ring, ring_bytes);
        Ok(Self { intake, lanes, ring, over: None, source_waits: false })
    }

    fn lane(&self, target: u16) -> &Lane {
        &self.lanes[usize::from(target)]
    }

    fn live(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.iter().filter(|lane| lane.is_live())
    }

    /// The next call on the source; nothing where the lanes are to be looked at again.
    fn take(&mut self, may_take_bytes: u64, lender: &mut dyn Lender) -> Option<FanNext> {
        let room_bytes = self.ring.room_bytes() as u64;
        let wait = match may_take_bytes == 0 && !self.is_delivering() {
            true => FanNext::Throttled,
            // The source or a lane is waited for, and not the driver's clock.
            false => FanNext::Wait,
        };
        if self.source_waits || room_bytes == 0 {
            return Some(wait);
        }
        match self.intake.next(may_take_bytes.min(room_bytes), lender) {
            Next::Do(op @ Op::Write) => {
                let bytes = self.ring.put(self.intake.pending(op));
                self.intake.learn(op, Ok(bytes), &mut ());
                None
            }
            Next::Do(op) => Some(FanNext::Do(FanOp::Intake(op))),
            Next::Wait(_) => {
                self.source_waits = true;
                Some(wait)
            }
            Next::Throttled => Some(wait),
            Next::Ended(end) => {
                self.over = Some(Ok(end));
                None
            }
            Next::Failed(failure) => {
                self.over = Some(Err(failure));
                None
            }
        }
    }

    /// Are bytes under way to a remaining lane?
    fn is_delivering(&self) -> bool {
        let taken_bytes = self.taken_bytes();
        self.live().any(|lane| lane.outlet.delivered_bytes() < taken_bytes)
    }
}

impl Spread for Backlog {
    fn taken_bytes(&self) -> u64 {
        self.intake.taken_bytes()
    }

    fn targets(&self) -> usize {
        self.lanes.len()
    }

    fn delivered_bytes(&self, target: u16) -> u64 {
        self.lane(target).outlet.delivered_bytes()
    }

    fn is_live(&self, target: u16) -> bool {
        self.lane(target).is_live()
    }

    fn failure(&self, target: u16) -> Option<&Failure> {
        self.lane(target).failure.as_deref()
    }

    fn fail(&mut self, target: u16, fault: Fault) {
        self.lanes[usize::from(target)].lose(Box::new(Failure::Fault(fault)));
    }

    /// Do all others wait for this target? Only once the ring is full of bytes that it still needs.
    fn is_held_by(&self, target: u16) -> bool {
        let lane = self.lane(target);
        // Only the slowest lane of a full ring holds the others back.
        self.ring.room_bytes() == 0 && lane.outlet.taken_bytes() == self.ring.start
    }

    fn next(&mut self, may_take_bytes: u64, lender: &mut dyn Lender) -> FanNext {
        loop {
            let is_over = self.over.is_some();
            for (target, lane) in NUMBERS.zip(&mut self.lanes) {
                if let Some(next) = lane.next(target, &self.ring, is_over, lender) {
                    return next;
                }
            }
            let Some(slowest) = self.live().map(|lane| lane.outlet.taken_bytes()).min() else {
                return FanNext::Deserted;
            };
            // Each time, because a lane that was lost may have been the slowest.
            self.ring.keep_from(slowest);
            match &self.over {
                // The end waits for the lanes: bytes taken are delivered first (invariant 1).
                Some(_) if self.is_delivering() => return FanNext::Wait,
                Some(Ok(end)) => return FanNext::Ended(*end),
                Some(Err(failure)) => return FanNext::Failed(failure.clone()),
                None => {}
            }
            if let Some(next) = self.take(may_take_bytes, lender) {
                return next;
            }
        }
    }

    fn perform(&mut self, op: FanOp, fds: FanFds<'_>) -> io::Result<usize> {
        let fd_of = |target: u16| fds.targets.get(usize::from(target)).copied().ok_or(Errno::BADF);
        match op {
            FanOp::Intake(op) => self.intake.perform(op, Fds::one(fds.source)),
            FanOp::Lane(target, op) => {
                self.lanes[usize::from(target)].outlet.perform(op, Fds::one(fd_of(target)?))
            }
            FanOp::Look(target) => look(fd_of(target)?),
            // A backlog has no common pipe, and never asks for these.
            FanOp::Tee(_) | FanOp::Move(..) => Err(Errno::INVAL),
        }
    }

    fn learn(&mut self, op: FanOp, answer: io::Result<usize>) -> Moved {
        match op {
            FanOp::Intake(op) => return self.intake.learn(op, answer, &mut ()),
            FanOp::Lane(target, op) => {
                return self.lanes[usize::from(target)].outlet.learn(op, answer, &mut ());
            }
            FanOp::Look(target) => {
                let lane = &mut self.lanes[usize::from(target)];
                lane.is_to_look = matches!(answer, Err(Errno::INTR));
                if let (Err(errno), false) = (answer, lane.is_to_look) {
                    let (call, side) = (Call::Poll, Side::Target);
                    let fault = Fault { call, side, errno };
                    lane.lose(Box::new(Failure::Fault(fault)));
                }
            }
            FanOp::Tee(_) | FanOp::Move(..) => {}
        }
        Moved::default()
    }

    fn waits(&self, each: &mut dyn FnMut(Who, Interest)) {
        for (target, lane) in NUMBERS.zip(&self.lanes).filter(|(_, lane)| lane.is_live()) {
            if lane.waits {
                each(Who::Target(target), Interest::Writable);
            } else if matches!(lane.target_kind, Kind::Pipe | Kind::Stream) {
                each(Who::Target(target), Interest::HangUp);
            }
        }
        if self.source_waits {
            each(Who::Source, Interest::Readable);
        }
    }

    /// Something happened at this side.
    fn wake(&mut self, who: Who) {
        match who {
            Who::Source => self.source_waits = false,
            Who::Target(target) => {
                let lane = &mut self.lanes[usize::from(target)];
                lane.is_to_look |= !std::mem::take(&mut lane.waits);
            }
        }
    }

    /// Gives back empty buffers, and shrinks nearly empty ones; called before the driver parks.
    fn rest(&mut self, lender: &mut dyn Lender) {
        self.intake.rest(lender);
        self.lanes.iter_mut().for_each(|lane| lane.outlet.rest(lender));
    }
}

impl Lane {
    fn new(outlet: Flow, target_kind: Kind) -> Self {
        Self {
            outlet,
            target_kind,
            waits: false,
            is_to_look: false,
            failure: None,
            is_reported: false,
        }
    }

    fn is_live(&self) -> bool {
        self.failure.is_none()
    }

    /// The lane gets nothing more.
    fn lose(&mut self, failure: Box<Failure>) {
        if self.is_live() {
            self.failure = Some(failure);
            (self.waits, self.is_to_look) = (false, false);
        }
    }

    /// The lane's next call, or the news that the lane is lost; nothing where nothing is due now.
    fn next(
        &mut self,
        target: u16,
        ring: &TailRing,
        is_over: bool,
        lender: &mut dyn Lender,
    ) -> Option<FanNext> {
        loop {
            if !self.is_live() {
                let was_reported = std::mem::replace(&mut self.is_reported, true);
                return (!was_reported).then_some(FanNext::Lost(target));
            }
            if self.waits {
                return None;
            }
            if self.is_to_look {
                return Some(FanNext::Do(FanOp::Look(target)));
            }
            let bytes = ring.piece_from(self.outlet.taken_bytes());
            // An empty read would be the end for the outlet.
            if bytes.is_empty() && self.outlet.in_flight_bytes() == 0 && !is_over {
                return None;
            }
            match self.outlet.next(u64::MAX, lender) {
                Next::Do(op @ Op::Read(_)) => {
                    let room = self.outlet.room(op);
                    let most = room.len().min(bytes.len());
                    room[..most].copy_from_slice(&bytes[..most]);
                    // An answer of 0 is the end, which comes after the last byte.
                    self.outlet.learn(op, Ok(most), &mut ());
                }
                Next::Do(op) => return Some(FanNext::Do(FanOp::Lane(target, op))),
                Next::Wait(_) => self.waits = true,
                Next::Ended(_) | Next::Throttled => return None,
                Next::Failed(failure) => self.lose(failure),
            }
        }
    }
}

/// The last bytes of a stream; places are counted from the stream's beginning.
#[derive(Debug)]
struct TailRing {
    memory: Pages,
    size_bytes: usize,
    /// The first byte that somebody needs, and the place after the last.
    start: u64,
    end: u64,
    /// The place of the memory's first byte.
    origin: u64,
}

impl TailRing {
    fn new(memory: Pages, size_bytes: usize) -> Self {
        let size_bytes = size_bytes.min(memory.len_bytes());
        Self { memory, size_bytes, start: 0, end: 0, origin: 0 }
    }

    fn room_bytes(&self) -> usize {
        self.size_bytes - (self.end - self.start) as usize
    }

    /// Where in memory the byte at `place` is.
    fn at(&self, place: u64) -> usize {
        ((place - self.origin) % self.size_bytes as u64) as usize
    }

    /// Keeps as many of `bytes` as fit in one piece; returns how many, 0 only if the ring is full.
    fn put(&mut self, bytes: &[u8]) -> usize {
        let at = self.at(self.end);
        // Up to the end of the memory: the rest comes with the next call, from its beginning.
        let most = bytes.len().min(self.room_bytes()).min(self.size_bytes - at);
        self.memory.as_mut_slice()[at..at + most].copy_from_slice(&bytes[..most]);
        self.end += most as u64;
        most
    }

    /// The bytes from `place` on that are in one piece: none only after the last.
    fn piece_from(&self, place: u64) -> &[u8] {
        let at = self.at(place);
        let most = ((self.end - place) as usize).min(self.size_bytes - at);
        &self.memory.as_slice()[at..at + most]
    }

    /// Nobody needs the bytes before `place`.
    fn keep_from(&mut self, place: u64) {
        self.start = place;
        if self.start == self.end {
            // An empty ring begins anew: memory that no lag has needed stays untouched.
            self.origin = self.end;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;
    use crate::flow::Shelf;
    use crate::pipe::Pool;

    fn backlog(targets: usize, ring_bytes: usize) -> Backlog {
        let pipe = PortState::known(Kind::Pipe, true);
        let ring = Pages::new(ring_bytes).expect("memory");
        let targets = vec![pipe; targets];
        Backlog::between(pipe, &targets, &Terms::default(), ring, ring_bytes).expect("a backlog")
    }

    /// A source and targets with scripted answers, and the bytes that have arrived.
    struct World {
        source: VecDeque<u8>,
        arrived: Vec<Vec<u8>>,
    }

    impl World {
        /// The answer to a call: 0 refuses it for now, 7 fails a target, others are the most bytes.
        fn answer(&mut self, backlog: &mut Backlog, op: FanOp, say: usize) {
            let answer = match (op, say) {
                (FanOp::Look(_), _) => Ok(0),
                (_, 0) => Err(Errno::AGAIN),
                (FanOp::Intake(op @ Op::Read(_)), most) => {
                    let room = backlog.intake.room(op);
                    let bytes = self.source.len().min(most).min(room.len());
                    for (to, from) in room.iter_mut().zip(self.source.drain(..bytes)) {
                        *to = from;
                    }
                    Ok(bytes)
                }
                (FanOp::Lane(_, Op::Write), 7) => Err(Errno::NOSPC),
                (FanOp::Lane(target, op @ Op::Write), most) => {
                    let pending = backlog.lanes[usize::from(target)].outlet.pending(op);
                    let bytes = &pending[..pending.len().min(most)];
                    self.arrived[usize::from(target)].extend_from_slice(bytes);
                    Ok(bytes.len())
                }
                (op, _) => panic!("{op:?} is no call of a backlog of pipes"),
            };
            backlog.learn(op, answer);
        }
    }

    proptest! {
        #[test]
        fn each_lane_gets_every_byte_in_order_within_the_bound(
            length in 0_usize..3000,
            ring_bytes in 1_usize..500,
            says in proptest::collection::vec(0_usize..40, 1..600),
        ) {
            let bytes: Vec<u8> = (0..length).map(|at| (at * 7 + at / 251) as u8).collect();
            let mut world = World { source: bytes.iter().copied().collect(), arrived: vec![Vec::new(); 3] };
            let mut backlog = backlog(3, ring_bytes);
            let mut shelf = Shelf::new(Pool::new(0, 0));
            let mut lost = [false; 3];
            // Once the script is over everybody is ready.
            let mut says = says.into_iter().chain(std::iter::repeat(64));
            let end = loop {
                let held = backlog.ring.end - backlog.ring.start;
                prop_assert!(held <= ring_bytes as u64);
                match backlog.next(u64::MAX, &mut shelf) {
                    FanNext::Do(op) => world.answer(&mut backlog, op, says.next().unwrap()),
                    FanNext::Wait => {
                        let mut sides = Vec::new();
                        backlog.waits(&mut |who, interest| sides.push((who, interest)));
                        let waits = |(_, interest): &&(Who, Interest)| *interest != Interest::HangUp;
                        prop_assert!(sides.iter().any(|side| waits(&side)), "nobody would wake it");
                        backlog.rest(&mut shelf);
                        // One of them becomes ready.
                        let ready = says.next().unwrap() % sides.len();
                        sides.rotate_left(ready);
                        let (who, _) = sides.iter().find(waits).unwrap();
                        backlog.wake(*who);
                    }
                    FanNext::Lost(target) => {
                        prop_assert!(!std::mem::replace(&mut lost[usize::from(target)], true));
                        prop_assert_eq!(
                            backlog.failure(target).and_then(Failure::errno), Some(Errno::NOSPC));
                    }
                    next => break next,
                }
            };
            for (target, arrived) in NUMBERS.zip(&world.arrived) {
                prop_assert_eq!(backlog.delivered_bytes(target), arrived.len() as u64);
                prop_assert!(bytes.starts_with(arrived));
                prop_assert_eq!(backlog.is_live(target), !lost[usize::from(target)]);
            }
            if lost == [true; 3] {
                prop_assert_eq!(end, FanNext::Deserted);
            } else {
                prop_assert_eq!(end, FanNext::Ended(Completion::Eof));
                prop_assert_eq!(backlog.taken_bytes(), length as u64);
                for (arrived, lost) in world.arrived.iter().zip(lost) {
                    prop_assert!(lost || *arrived == bytes);
                }
            }
        }
    }

    #[test]
    fn a_target_holds_the_others_only_once_the_ring_is_full() {
        let mut backlog = backlog(2, 100);
        let mut shelf = Shelf::new(Pool::new(0, 0));
        let mut world = World { source: [5; 1000].into(), arrived: vec![Vec::new(); 2] };
        // The second target takes nothing.
        loop {
            match backlog.next(u64::MAX, &mut shelf) {
                FanNext::Do(op @ FanOp::Lane(1, _)) => world.answer(&mut backlog, op, 0),
                FanNext::Do(op) => world.answer(&mut backlog, op, 50),
                FanNext::Wait => break,
                next => panic!("{next:?}"),
            }
        }
        // What the second lane has in its own hand is not in the ring.
        assert_eq!(world.arrived[0].len(), 150);
        assert_eq!((backlog.is_held_by(0), backlog.is_held_by(1)), (false, true));
        let delivered_bytes = [0, 1].map(|target| backlog.delivered_bytes(target));
        assert_eq!(delivered_bytes.map(|bytes| backlog.taken_bytes() - bytes), [0, 150]);
        let fault = Fault { call: Call::Poll, side: Side::Target, errno: Errno::TIMEDOUT };
        backlog.fail(1, fault);
        assert_eq!(backlog.next(u64::MAX, &mut shelf), FanNext::Lost(1));
        assert!(matches!(backlog.next(u64::MAX, &mut shelf), FanNext::Do(FanOp::Intake(_))));
        // Nothing more is taken once nothing may be: what is there has been delivered.
        assert_eq!(backlog.next(0, &mut shelf), FanNext::Throttled);
    }

    #[test]
    fn a_failure_of_the_source_is_reported_after_the_last_byte() {
        let mut backlog = backlog(1, 100);
        let mut shelf = Shelf::new(Pool::new(0, 0));
        let mut world = World { source: [5; 60].into(), arrived: vec![Vec::new()] };
        let failure = loop {
            match backlog.next(u64::MAX, &mut shelf) {
                FanNext::Do(op @ FanOp::Intake(_)) if world.source.is_empty() => {
                    backlog.learn(op, Err(Errno::IO));
                }
                FanNext::Do(op @ FanOp::Lane(..)) if !world.source.is_empty() => {
                    world.answer(&mut backlog, op, 0);
                }
                FanNext::Do(op) => world.answer(&mut backlog, op, 30),
                FanNext::Wait => backlog.wake(Who::Target(0)),
                FanNext::Failed(failure) => break failure,
                next => panic!("{next:?}"),
            }
        };
        assert_eq!((failure.errno(), world.arrived[0].len()), (Some(Errno::IO), 60));
    }

    #[test]
    fn memory_that_no_lag_has_needed_stays_untouched() {
        let mut ring = TailRing::new(Pages::new(1 << 20).expect("memory"), 1 << 20);
        for place in 1..=50 {
            assert_eq!(ring.put(&[1; 1000]), 1000);
            assert_eq!(ring.piece_from(ring.start).len(), 1000);
            ring.keep_from(place * 1000);
        }
        assert!(ring.memory.as_slice()[1000..].iter().all(|byte| *byte == 0));
    }
}
