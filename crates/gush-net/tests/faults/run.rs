//! One relay under a plan of faults, and where every byte is afterwards.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gush::faults::{Injection, Plan};
use gush::{Call, Choice, Errno};
use gush_net::{Conduit, Direction, End, EndReason, Error, Relay, RelayOptions, Totals};

use crate::ends::{Kind, Side, file};

/// Several calls by every method, and fits into any pipe.
const FORWARD_BYTES: usize = 13_001;
const BACK_BYTES: usize = 9_002;

/// A side that is said to be not ready, and is, gives no edge: the relay waits so long.
const IDLE: Duration = Duration::from_millis(25);

/// Which of the relay's faces is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// `relay`.
    Relay,
    /// `send_file`, from `a` to `b`.
    SendFile,
    /// `recv_file`, from `b` to `a`.
    ReceiveFile,
}

#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub a: Kind,
    pub b: Kind,
    pub choice: Choice,
    pub face: Face,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {:?} <-> {:?}, {}", self.face, self.a, self.b, self.choice)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Closed,
    Idle,
    /// On an end, where the relay had begun.
    Failed(Option<End>, Errno),
    /// A method that was named, with the kernel's error where the kernel was asked.
    Refused(Option<Errno>),
}

/// One direction afterwards.
#[derive(Debug, Default)]
struct Path {
    sent: Vec<u8>,
    delivered: usize,
    in_flight: usize,
    left: Vec<u8>,
    arrived: Vec<u8>,
    end_arrived: bool,
}

#[derive(Debug)]
pub struct Outcome {
    pub fate: Fate,
    face: Face,
    paths: [Path; 2],
}

impl Outcome {
    /// Every byte is where the result says, in both directions.
    pub fn account(&self) -> Result<(), String> {
        for (path, way) in self.paths.iter().zip(Direction::ALL) {
            let Path { sent, delivered, in_flight, left, arrived, end_arrived } = path;
            let taken = delivered + in_flight;
            let reported = format!("{way}: {delivered} delivered, {in_flight} in flight");
            if sent.get(..*delivered) != Some(arrived) {
                return Err(format!("{reported}, and {} arrived", arrived.len()));
            }
            if sent.get(taken..) != Some(left) {
                return Err(format!("{reported}, and {} left, which are not the next", left.len()));
            }
            let is_used = match self.face {
                Face::Relay => true,
                Face::SendFile => way == Direction::Forward,
                Face::ReceiveFile => way == Direction::Back,
            };
            if self.fate != Fate::Closed || !is_used {
                continue;
            }
            if *delivered != sent.len() {
                return Err(format!("{reported}, and no failure"));
            }
            if !end_arrived && self.face == Face::Relay {
                return Err(format!("{way}: the end was not passed on"));
            }
        }
        Ok(())
    }
}

/// Relays both ways while `inject` answers the engine's calls.
pub fn run(case: Case, inject: impl FnMut(Call, u64) -> Injection + Send + 'static) -> Outcome {
    let sides = [(case.a, 3, FORWARD_BYTES), (case.b, 5, BACK_BYTES)];
    let [mut a, mut b] = sides.map(|(kind, seed, bytes)| Side::new(kind, seed, bytes));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let options = RelayOptions { method: case.choice, idle: Some(IDLE), ..RelayOptions::new() };
    let plan = Plan::new(inject);
    let result =
        runtime.expect("a runtime").block_on(plan.around(face(case, &mut a, &mut b, &options)));
    let counts = options.counts();
    let fate = match result {
        Ok(Ok(totals)) if totals.ended == EndReason::Closed => Fate::Closed,
        Ok(Ok(_)) => Fate::Idle,
        Ok(Err(error)) => {
            for way in Direction::ALL {
                // The error and the counts agree.
                let passed = error.passed(way);
                assert_eq!(passed.bytes, counts.delivered_bytes(way), "{error}");
                assert_eq!(passed.in_flight_bytes, counts.in_flight_bytes(way), "{error}");
            }
            let errno = error.io_error().and_then(Errno::from_io_error);
            match errno {
                errno if error.is_refused() => Fate::Refused(errno),
                Some(errno) => Fate::Failed(error.end(), errno),
                None => panic!("no errno: {error}"),
            }
        }
        Err(before) => Fate::Failed(None, Errno::from_io_error(&before).expect("an errno")),
    };
    let path = |way: Option<Direction>, from: &Side| Path {
        sent: from.sent.clone(),
        delivered: way.map_or(0, |way| counts.delivered_bytes(way) as usize),
        in_flight: way.map_or(0, |way| counts.in_flight_bytes(way) as usize),
        left: from.left(),
        ..Path::default()
    };
    // What goes one way only goes forward, wherever its source stands here.
    let [forward, back] = match case.face {
        Face::Relay => [Some(Direction::Forward), Some(Direction::Back)],
        Face::SendFile => [Some(Direction::Forward), None],
        Face::ReceiveFile => [None, Some(Direction::Forward)],
    };
    let (forward, back) = (path(forward, &a), path(back, &b));
    let ((from_b, b_ended), (from_a, a_ended)) = (a.arrived(), b.arrived());
    let forward = Path { arrived: from_a, end_arrived: a_ended, ..forward };
    let back = Path { arrived: from_b, end_arrived: b_ended, ..back };
    Outcome { fate, face: case.face, paths: [forward, back] }
}

type Made = std::io::Result<Result<Totals, Error>>;

/// The error outside is one of making the ends: nothing has begun.
async fn face(case: Case, a: &mut Side, b: &mut Side, options: &RelayOptions) -> Made {
    match case.face {
        Face::Relay => {
            let (mut a, mut b) = (conduit(a)?, conduit(b)?);
            Ok(Relay::new(options).run(&mut a, &mut b).await)
        }
        Face::SendFile => {
            let mut to = conduit(b)?;
            let sent = Relay::new(options).send_file(&file(&a.read), .., &mut to).await;
            // It neither uses nor moves the position: what is left follows what was taken.
            let counts = options.counts();
            let taken = counts.delivered_bytes(Direction::Forward)
                + counts.in_flight_bytes(Direction::Forward);
            rustix::fs::seek(&a.read, rustix::fs::SeekFrom::Start(taken))?;
            Ok(sent)
        }
        Face::ReceiveFile => {
            let mut from = conduit(b)?;
            let to = file(a.write.as_ref().expect("a file to write"));
            Ok(Relay::new(options).recv_file(&mut from, &to, 0).await)
        }
    }
}

/// A conduit whose descriptors this test has, too, but for the writing end of a pipe.
fn conduit(side: &mut Side) -> std::io::Result<Conduit> {
    let dup = |fd: &OwnedFd| fd.try_clone().expect("dup");
    match side.write.take() {
        None => match side.kind {
            Kind::Accepted => Ok(Conduit::of_accepted_tcp(dup(&side.read))),
            Kind::Connected => Ok(Conduit::of_connected_tcp(dup(&side.read))),
            _ => Conduit::new(dup(&side.read)),
        },
        Some(write) => Conduit::of_two(dup(&side.read), write),
    }
}

/// The calls that a relay makes when nothing goes wrong, in order.
pub fn calls_of(case: Case) -> Vec<(Call, u64)> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let outcome = run(case, move |call, nth| {
        log.lock().expect("log").push((call, nth));
        Injection::None
    });
    let whole = if outcome.fate == Fate::Closed { outcome.account() } else { Err("no end".into()) };
    if let Err(why) = whole {
        panic!("{case}: without any fault: {why} ({:?})", outcome.fate);
    }
    seen.lock().expect("log").clone()
}
