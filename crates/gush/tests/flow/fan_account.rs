//! The account of a fan: every byte has a number, and each lane's place among the numbers follows
//! from the answers alone. The account says which call may come next.

use std::fmt;

use gush::flow::{FanOp, Op, PortState, Who};
use gush::{Errno, Kind};

/// The calls and answers so far: printed where a check fails.
pub struct Story<'a> {
    pub fan: &'a str,
    pub steps: Vec<(FanOp, Result<usize, Errno>)>,
}

impl fmt::Display for Story<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.fan)?;
        self.steps.iter().try_for_each(|(op, answer)| write!(f, " {op:?} -> {answer:?};"))
    }
}

/// A lane's place among the numbers of the bytes: delivered up to the first, then the lane's
/// buffer, the lane's pipe; the next bytes are in the memory that all share.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lane {
    pub delivered: u64,
    pub in_buf: u64,
    pub in_pipe: u64,
    pub owes_empty: bool,
    pub unready: bool,
    pub polled: bool,
    pub failed: bool,
    pub lost: bool,
}

impl Lane {
    pub fn next(&self) -> u64 {
        self.delivered + self.in_buf + self.in_pipe
    }
}

#[derive(Debug, Default)]
pub struct Account {
    pub isolated: bool,
    pub named: bool,
    /// The method that was named was refused to the intake.
    pub refused: bool,
    /// The numbers of the bytes in the intake's pipe, and in the buffer of all.
    pub pipe: (u64, u64),
    pub buf: (u64, u64),
    pub taken: u64,
    pub lanes: Vec<Lane>,
    pub measured: usize,
    pub end_seen: bool,
    pub source_unready: bool,
    pub source_polled: bool,
    pub idle_ops: u32,
}

impl Account {
    pub fn live(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.iter().filter(|lane| !lane.lost)
    }

    pub fn piped(&self) -> u64 {
        self.pipe.1 - self.pipe.0
    }

    /// Does a lane still need the bytes in the intake's pipe?
    pub fn needs_pipe(&self) -> bool {
        self.piped() > 0 && self.live().any(|lane| lane.next() < self.pipe.1)
    }

    /// A lane that calls on a pipe of its own without having filled that was handed the intake's.
    pub fn infer_hand_over(&mut self, target: usize, story: &Story<'_>) -> bool {
        if self.lanes[target].in_pipe > 0 || self.lanes[target].in_buf > 0 {
            return false;
        }
        assert!(self.piped() > 0, "{story}: there is nothing to hand over");
        assert_eq!(self.lanes[target].next(), self.pipe.0, "{story}: handed over from elsewhere");
        for (other, lane) in self.lanes.iter().enumerate() {
            let has_all = other == target || lane.lost || lane.next() >= self.pipe.1;
            assert!(has_all, "{story}: handed over before the others had it");
        }
        self.lanes[target].in_pipe = self.piped();
        self.pipe.0 = self.pipe.1;
        true
    }

    /// May the fan ask for this call now?
    pub fn check(
        &self,
        op: FanOp,
        source: &PortState,
        targets: &[PortState],
        straight: bool,
        story: &Story<'_>,
    ) {
        let may_wait = |state: &PortState| {
            state.kind().can_idle() && !state.is_nonblocking() && state.kind() != Kind::Pipe
        };
        match op {
            FanOp::Intake(op @ (Op::Measure | Op::Read(_) | Op::Fill(_) | Op::Ready(_))) => {
                for lane in self.live() {
                    let has_all = lane.delivered == self.taken && !lane.owes_empty;
                    assert!(has_all, "{story} {op:?}: takes more while bytes are in flight");
                }
                assert!(!self.end_seen, "{story} {op:?}: takes more after the end");
                assert!(!self.refused, "{story} {op:?}: another way than the one that was named");
                assert!(!self.source_unready, "{story} {op:?}: was not woken");
                let is_fill = matches!(op, Op::Fill(_));
                let messages = targets.iter().any(|target| target.kind() == Kind::Datagram);
                assert!(!is_fill || !messages, "{story} {op:?}: a pipe keeps no boundaries");
                assert!(!is_fill || !self.isolated, "{story} {op:?}: by reference");
                let polls = is_fill && may_wait(source);
                assert!(!polls || self.source_polled, "{story} {op:?} could wait, was not polled");
                if let Op::Read(most) | Op::Fill(most) = op {
                    assert!(most > 0, "{story}: a call for nothing");
                }
            }
            FanOp::Intake(Op::Spill) => {
                assert!(self.piped() > 0, "{story}: nothing to spill");
                for lane in self.live() {
                    let is_done = lane.next() >= self.pipe.0;
                    assert!(is_done, "{story}: spills over what somebody has to write");
                }
            }
            FanOp::Intake(op) => panic!("{story}: {op:?} is no call of an intake"),
            FanOp::Lane(target, op) => {
                let lane = &self.lanes[usize::from(target)];
                self.check_lane(lane, story);
                match op {
                    Op::Write if lane.in_buf > 0 || lane.owes_empty => {}
                    Op::Write => {
                        assert_eq!(lane.in_pipe, 0, "{story}: writes past its own pipe");
                        let is_there = (self.buf.0..self.buf.1).contains(&lane.delivered);
                        assert!(is_there, "{story}: writes what is not in the buffer");
                    }
                    Op::Empty | Op::Spill => {
                        assert_eq!(lane.in_buf, 0, "{story}: past its own buffer");
                        let polls = op == Op::Empty && may_wait(&targets[usize::from(target)]);
                        assert!(!polls || lane.polled, "{story} {op:?} could wait, was not polled");
                    }
                    Op::Ready(gush::Side::Target) => {}
                    op => panic!("{story}: {op:?} is no call of a lane"),
                }
            }
            FanOp::Tee(target) | FanOp::Move(target, _) => {
                let lane = &self.lanes[usize::from(target)];
                self.check_lane(lane, story);
                assert!(self.piped() > 0, "{story}: an empty pipe");
                assert_eq!(
                    lane.next(),
                    self.pipe.0,
                    "{story}: it begins elsewhere than at the head"
                );
                assert_eq!(lane.in_buf + lane.in_pipe, 0, "{story}: into a pipe that holds bytes");
                let is_pipe = targets[usize::from(target)].kind() == Kind::Pipe;
                assert!(is_pipe || !straight, "{story}: tee(2) into what is no pipe");
                if let FanOp::Move(_, most) = op {
                    assert!(most > 0 && most as u64 <= self.piped(), "{story}: {most} bytes");
                    for (other, lane) in self.lanes.iter().enumerate() {
                        let has = other == usize::from(target)
                            || lane.lost
                            || lane.next() >= self.pipe.0 + most as u64;
                        assert!(has, "{story} {op:?}: takes away what lane {other} needs");
                    }
                }
            }
            FanOp::Look(target) => self.check_lane(&self.lanes[usize::from(target)], story),
        }
    }

    fn check_lane(&self, lane: &Lane, story: &Story<'_>) {
        assert!(!lane.lost, "{story}: a call on a lost target");
        assert!(!lane.unready, "{story}: a target that was not woken");
        assert!(!lane.failed, "{story}: a target that has failed");
    }

    /// Returns the bytes taken, and the bytes delivered.
    pub fn learn(
        &mut self,
        op: FanOp,
        answer: Result<usize, Errno>,
        source: &PortState,
        targets: &[PortState],
        straight: bool,
    ) -> (u64, u64) {
        let bytes = answer.unwrap_or(0) as u64;
        let is_again = answer == Err(Errno::AGAIN);
        match op {
            FanOp::Intake(op) => {
                self.source_polled = matches!(op, Op::Ready(_)) && answer.is_ok();
                self.learn_intake(op, bytes, answer, source, targets)
            }
            FanOp::Lane(target, op) => {
                let lane = &mut self.lanes[usize::from(target)];
                lane.polled = matches!(op, Op::Ready(_)) && answer.is_ok();
                lane.unready |= is_again && op != Op::Spill;
                match op {
                    Op::Write if answer.is_ok() => {
                        lane.in_buf -= bytes.min(lane.in_buf);
                        lane.delivered += bytes;
                        lane.owes_empty = false;
                    }
                    Op::Empty => {
                        lane.in_pipe -= bytes;
                        lane.delivered += bytes;
                    }
                    Op::Spill => {
                        lane.in_pipe -= bytes;
                        lane.in_buf += bytes;
                        return (0, 0);
                    }
                    _ => return (0, 0),
                }
                (0, bytes)
            }
            FanOp::Tee(target) | FanOp::Move(target, _) => {
                if matches!(op, FanOp::Move(..)) {
                    self.pipe.0 += bytes;
                }
                let lane = &mut self.lanes[usize::from(target)];
                lane.unready |= is_again && straight;
                if straight {
                    lane.delivered += bytes;
                    return (0, bytes);
                }
                lane.in_pipe += bytes;
                (0, 0)
            }
            FanOp::Look(target) => {
                self.lanes[usize::from(target)].failed =
                    matches!(answer, Err(errno) if errno != Errno::INTR);
                (0, 0)
            }
        }
    }

    fn learn_intake(
        &mut self,
        op: Op,
        bytes: u64,
        answer: Result<usize, Errno>,
        source: &PortState,
        targets: &[PortState],
    ) -> (u64, u64) {
        match op {
            Op::Measure => self.measured = bytes as usize,
            Op::Read(_) | Op::Fill(_) => {
                let held = (self.taken, self.taken + bytes);
                self.taken = held.1;
                if matches!(op, Op::Fill(_)) {
                    self.pipe = held;
                } else {
                    self.buf = held;
                }
                let is_zero = answer == Ok(0);
                let is_typed = source.kind() == Kind::Terminal;
                if is_zero && (matches!(op, Op::Read(_)) || is_typed) {
                    self.end_seen = source.ends_at_zero();
                    for (lane, target) in self.lanes.iter_mut().zip(targets) {
                        lane.owes_empty = !source.ends_at_zero() && target.kind() == Kind::Datagram;
                    }
                }
                return (bytes, 0);
            }
            Op::Spill => {
                self.buf = (self.pipe.0, self.pipe.0 + bytes);
                self.pipe.0 += bytes;
            }
            _ => {}
        }
        (0, 0)
    }

    /// Is this side shown to be not ready? An answer to a call that concerns no side by itself
    /// shows nothing.
    pub fn note_unready_source(
        &mut self,
        op: FanOp,
        answer: Result<usize, Errno>,
        clears: Option<Who>,
    ) {
        if answer == Err(Errno::AGAIN) && clears == Some(Who::Source) {
            assert!(matches!(op, FanOp::Intake(_)));
            self.source_unready = true;
        }
    }
}
