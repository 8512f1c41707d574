//! A driver by hand that waits for edges alone: of a flow, and of a fan with one target.
//!
//! Edges are thrown away before every call, so that only one after the last call can end a wait. A
//! flow that waits without a call that said `EAGAIN`, or for the wrong side, is never woken. A fan
//! waits for several sides at once, each after a separate call: there a call throws away the edges
//! of its side only.

use std::os::fd::{AsFd, BorrowedFd};

use gush::flow::{
    Completion, Failure, Fan, FanFds, FanNext, FanOp, Fds, Flow, Interest, Next, Op, PortState,
    Shelf, Spread, Terms, Who,
};
use gush::pipe::Pool;
use gush::{Errno, Side};
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};

use crate::account::Fate;
use crate::case::Case;
use crate::hands::Reported;

/// No test takes so long: a test that takes longer hangs, and fails.
const PATIENCE: Timespec = Timespec { tv_sec: 15, tv_nsec: 0 };
const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

struct Edges {
    epoll: std::os::fd::OwnedFd,
    /// Files cannot be watched: they are always ready.
    watched: [bool; 2],
}

impl Edges {
    fn of(source: BorrowedFd<'_>, target: BorrowedFd<'_>) -> Self {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("epoll");
        let watched = [(source, EventFlags::IN), (target, EventFlags::OUT)].map(|(fd, event)| {
            let data = EventData::new_u64(event.bits().into());
            // Edge-triggered, as tokio registers its descriptors.
            match epoll::add(&epoll, fd, data, event | EventFlags::RDHUP | EventFlags::ET) {
                Ok(()) => true,
                Err(Errno::PERM) => false,
                Err(errno) => panic!("epoll_ctl: {errno}"),
            }
        });
        Self { epoll, watched }
    }

    /// The next edges, as the data of their sides.
    fn next(&self, patience: Timespec) -> Vec<u64> {
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 8];
        loop {
            match epoll::wait(&self.epoll, &mut events, Some(&patience)) {
                Ok(count) => return events[..count].iter().map(|event| event.data.u64()).collect(),
                Err(Errno::INTR) => {}
                Err(errno) => panic!("epoll_wait: {errno}"),
            }
        }
    }

    fn forget(&self) {
        while !self.next(NO_TIME).is_empty() {}
    }

    fn wait(&self, side: Side) -> Result<(), String> {
        let (watched, event) = match side {
            Side::Source => (self.watched[0], EventFlags::IN),
            Side::Target => (self.watched[1], EventFlags::OUT),
        };
        if !watched {
            return Err(format!("it waits for the {side:?}, which is always ready"));
        }
        loop {
            match self.next(PATIENCE) {
                edges if edges.contains(&u64::from(event.bits())) => return Ok(()),
                edges if edges.is_empty() => return Err(format!("no edge of the {side:?} comes")),
                _ => {}
            }
        }
    }
}

/// How a failure is reported.
pub fn fate_of(failure: &Failure) -> Fate {
    match failure {
        Failure::Fault(fault) => Fate::Failed(fault.side, fault.errno),
        Failure::Refused(_) | Failure::FalseEnd(_) => Fate::Refused,
    }
}

fn fate_at(end: Completion) -> Fate {
    match end {
        Completion::Eof => Fate::Proven,
        Completion::Limit => Fate::Limit,
    }
}

/// Drives one flow until the end.
pub fn drive(case: Case, source: impl AsFd, target: impl AsFd) -> Result<Reported, String> {
    let states = (PortState::of(&source), PortState::of(&target));
    let (Ok(from), Ok(to)) = states else { return Err("no state".into()) };
    let terms = Terms { choice: case.choice, length_bytes: case.limit, ..Terms::default() };
    let mut flow = match Flow::between(from, to, &terms) {
        Ok(flow) => flow,
        Err(_refusal) => return Ok(Reported { fate: Fate::Refused, delivered: 0, in_flight: 0 }),
    };
    let fds = Fds { source: source.as_fd(), target: target.as_fd() };
    let edges = Edges::of(fds.source, fds.target);
    // A pool of its own: every pipe in use at the end is this flow's.
    let pool = Pool::new(16 << 20, 4);
    let mut shelf = Shelf::new(pool.clone());
    let fate = loop {
        match flow.next(1 << 20, &mut shelf) {
            Next::Do(op) => {
                // An edge from before the call says nothing about the time after it.
                edges.forget();
                let answer = flow.perform(op, fds);
                flow.learn(op, answer, &mut ());
            }
            Next::Wait(side) => {
                flow.rest(&mut shelf);
                edges.wait(side)?;
            }
            Next::Throttled => return Err("throttled, though it may take more".into()),
            Next::Ended(end) => break fate_at(end),
            Next::Failed(failure) => break fate_of(&failure),
        }
    };
    let reported =
        Reported { fate, delivered: flow.delivered_bytes(), in_flight: flow.in_flight_bytes() };
    if flow.taken_bytes() != reported.delivered + reported.in_flight {
        return Err(format!("{} bytes taken: {reported:?}", flow.taken_bytes()));
    }
    drop(flow);
    match pool.usage().in_use {
        0 => Ok(reported),
        kept => Err(format!("{kept} pipes did not come back")),
    }
}

/// The side that a call of the fan is about, as an edge's data.
fn side_of(op: FanOp) -> Option<u64> {
    let event = match op {
        FanOp::Intake(Op::Spill) | FanOp::Look(_) => return None,
        FanOp::Intake(_) => EventFlags::IN,
        FanOp::Lane(..) | FanOp::Tee(_) | FanOp::Move(..) => EventFlags::OUT,
    };
    Some(event.bits().into())
}

/// Drives a fan with one target until the end.
pub fn drive_fan(case: Case, source: impl AsFd, target: impl AsFd) -> Result<Reported, String> {
    let states = (PortState::of(&source), PortState::of(&target));
    let (Ok(from), Ok(to)) = states else { return Err("no state".into()) };
    let terms = Terms { choice: case.choice, length_bytes: case.limit, ..Terms::default() };
    let mut fan = match Fan::between(from, &[to], &terms) {
        Ok(fan) => fan,
        Err(_refusal) => return Ok(Reported { fate: Fate::Refused, delivered: 0, in_flight: 0 }),
    };
    let fds = FanFds { source: source.as_fd(), targets: &[target.as_fd()] };
    let edges = Edges::of(fds.source, fds.targets[0]);
    let pool = Pool::new(16 << 20, 4);
    let mut shelf = Shelf::new(pool.clone());
    // Edges that came and that no call has made old.
    let mut seen = Vec::new();
    let fate = loop {
        match fan.next(1 << 20, &mut shelf) {
            FanNext::Do(op) => {
                seen.extend(edges.next(NO_TIME));
                seen.retain(|&edge| Some(edge) != side_of(op));
                let answer = fan.perform(op, fds);
                fan.learn(op, answer);
            }
            FanNext::Wait => {
                fan.rest(&mut shelf);
                let mut sides = Vec::new();
                fan.waits(&mut |who, interest| {
                    let event = match interest {
                        Interest::Readable => EventFlags::IN,
                        Interest::Writable => EventFlags::OUT,
                        // The next call reports it.
                        Interest::HangUp => return,
                    };
                    sides.push((who, u64::from(event.bits())));
                });
                let woken = loop {
                    let of = |&(_, event): &(Who, u64)| seen.contains(&event);
                    if let Some(&side) = sides.iter().find(|side| of(side)) {
                        break side;
                    }
                    let more = edges.next(PATIENCE);
                    if more.is_empty() {
                        return Err(format!("no edge of {sides:?} comes"));
                    }
                    seen.extend(more);
                };
                seen.retain(|&edge| edge != woken.1);
                fan.wake(woken.0);
            }
            FanNext::Throttled => return Err("throttled, though it may take more".into()),
            FanNext::Lost(0) => match fan.failure(0) {
                Some(failure) => break fate_of(failure),
                None => return Err("lost without a failure".into()),
            },
            FanNext::Lost(_) | FanNext::Deserted => return Err("it has one target".into()),
            FanNext::Ended(end) => break fate_at(end),
            FanNext::Failed(failure) => break fate_of(&failure),
        }
    };
    let reported =
        Reported { fate, delivered: fan.delivered_bytes(0), in_flight: fan.in_flight_bytes(0) };
    if fan.taken_bytes() != reported.delivered + reported.in_flight {
        return Err(format!("{} bytes taken: {reported:?}", fan.taken_bytes()));
    }
    drop(fan);
    match pool.usage().in_use {
        0 => Ok(reported),
        kept => Err(format!("{kept} pipes did not come back")),
    }
}
