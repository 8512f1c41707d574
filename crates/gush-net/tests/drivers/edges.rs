//! A driver by hand that waits for edges alone.
//!
//! Edges are thrown away before every call, so that only one behind the last call can end a wait. A flow
//! that waits without a call that said `EAGAIN`, or for the wrong side, is never woken.

use std::os::fd::{AsFd, BorrowedFd};

use gush::flow::{End, Failure, Fds, Flow, Next, Shelf, Stance, Terms};
use gush::pipe::Pool;
use gush::{Errno, Side};
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};

use crate::account::Fate;
use crate::case::Case;
use crate::hands::Told;

/// No test takes so long: it hangs, and fails.
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

/// Drives one flow to its end.
pub fn drive(case: Case, source: impl AsFd, target: impl AsFd) -> Result<Told, String> {
    let stances = (Stance::of(&source), Stance::of(&target));
    let (Ok(from), Ok(to)) = stances else { return Err("no stance".into()) };
    let terms = Terms { choice: case.choice, length_bytes: case.limit, ..Terms::default() };
    let mut flow = match Flow::between(from, to, &terms) {
        Ok(flow) => flow,
        Err(_refusal) => return Ok(Told { fate: Fate::Refused, delivered: 0, in_flight: 0 }),
    };
    let fds = Fds { source: source.as_fd(), target: target.as_fd() };
    let edges = Edges::of(fds.source, fds.target);
    let pool = Pool::new(16 << 20, 4);
    let mut shelf = Shelf::new(pool.clone());
    let fate = loop {
        match flow.next(1 << 20, &mut shelf) {
            Next::Do(op) => {
                edges.forget();
                let answer = flow.perform(op, fds);
                flow.learn(op, answer, &mut ());
            }
            Next::Wait(side) => {
                flow.rest(&mut shelf);
                edges.wait(side)?;
            }
            Next::Throttled => return Err("throttled, though it may take more".into()),
            Next::Ended(End::Proven) => break Fate::Proven,
            Next::Ended(End::Limit) => break Fate::Limit,
            Next::Failed(failure) => match *failure {
                Failure::Fault(fault) => break Fate::Failed(fault.side, fault.errno),
                Failure::Refused(_) => break Fate::Refused,
            },
        }
    };
    let told = Told { fate, delivered: flow.delivered_bytes(), in_flight: flow.in_flight_bytes() };
    if flow.taken_bytes() != told.delivered + told.in_flight {
        return Err(format!("{} bytes taken: {told:?}", flow.taken_bytes()));
    }
    drop(flow);
    match pool.usage().in_use {
        0 => Ok(told),
        kept => Err(format!("{kept} pipes did not come back")),
    }
}
