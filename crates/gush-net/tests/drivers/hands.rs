//! The drivers.

use std::fs::File;
use std::future::{Future, poll_fn};
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use gush::flow::Terms;
use gush::{Cancel, Choice, Control, Errno, MethodName, Mover, Progress, Side, Tee};
use gush_net::{Conduit, Direction, End, Error, Relay, RelayOptions, Totals};
use rustix::fs::{OFlags, SeekFrom};

use crate::account::{Account, Fate};
use crate::case::{Case, Scene, To};
use crate::common::{SourceKind, TargetKind, ends_within};
use crate::edges;
use crate::halting::Halting;
use crate::stage::{self, Stage};

/// The bytes that a stream without a descriptor moves at once.
const STREAM_PIECE_BYTES: usize = 50_000;

/// Who drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hand {
    /// The blocking `Mover`, on descriptors with or without O_NONBLOCK.
    Mover { nonblocking: bool },
    /// The same with an observer and somebody who may cancel, on several threads.
    Watched { nonblocking: bool },
    /// `gush::Tee` with one target.
    Tee { nonblocking: bool },
    /// Edges alone.
    Edges { nonblocking: bool },
    /// The same, of a fan with one target.
    Fan { nonblocking: bool },
    /// `Relay::copy`, or `send_file` where a length is asked for.
    Copy,
    /// The same on descriptors whose flags stay as they are.
    Inherited,
    /// One direction of a `Relay`.
    Relay,
    /// The same, dropped at every poll and begun again.
    Interrupted,
    /// A `Relay` whose source, target or both are streams without a descriptor, over descriptors.
    Streams { source: bool, target: bool },
}

/// How bytes go where the plan says splice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Road {
    /// As planned for the pair: from or to a pipe in one call.
    Planned,
    /// By read and write.
    Memory,
    /// Always through a pipe of the driver's own.
    OwnPipe,
}

/// A driver's account of a move.
#[derive(Clone, Copy, Debug)]
pub struct Reported {
    pub fate: Fate,
    pub delivered: u64,
    pub in_flight: u64,
}

impl Hand {
    pub const ALL: [Hand; 17] = [
        Hand::Mover { nonblocking: false },
        Hand::Mover { nonblocking: true },
        Hand::Watched { nonblocking: false },
        Hand::Watched { nonblocking: true },
        Hand::Tee { nonblocking: false },
        Hand::Tee { nonblocking: true },
        Hand::Edges { nonblocking: false },
        Hand::Edges { nonblocking: true },
        Hand::Fan { nonblocking: false },
        Hand::Fan { nonblocking: true },
        Hand::Copy,
        Hand::Inherited,
        Hand::Relay,
        Hand::Interrupted,
        Hand::Streams { source: true, target: false },
        Hand::Streams { source: false, target: true },
        Hand::Streams { source: true, target: true },
    ];

    /// The row as this driver must end it, or none where the driver cannot make the row's move.
    ///
    /// A relay knows no length: with a source that has no end, the relay is dropped once everything
    /// has arrived, of a file `send_file` sends a range, and the relay reports a range beyond the
    /// file as cut. A named method is refused where a splice could hold the thread of a relay: into
    /// or out of a socket that others may use too, and that has no O_NONBLOCK. A stream has no
    /// boundaries, so no datagrams, and to none a method by reference leads.
    pub fn row(self, row: Case) -> Option<Case> {
        let everything = row.limit.is_none_or(|limit| limit == row.bytes as u64);
        let can = match self {
            _ if self.nonblocking().is_some() => true,
            Hand::Copy if row.from.has_offsets() => {
                row.limit.is_none_or(|limit| limit <= row.bytes as u64)
            }
            Hand::Streams { .. } if row.from.is_datagram() || row.to.is_datagram() => false,
            _ => row.limit.is_none() || (everything && !row.from.ends()),
        };
        let by_reference =
            matches!(row.choice, Choice::Only(name) if name != MethodName::ReadWrite);
        let refused = by_reference && self.road(&row) == Road::Memory;
        let fate = if refused { Fate::Refused } else { row.fate };
        can.then_some(Case { fate, ..row })
    }

    /// How this driver's bytes go where others splice: otherwise than theirs, bytes can be in
    /// flight that a splice would have left in the source.
    pub fn road(self, case: &Case) -> Road {
        let from_socket = matches!(case.from, SourceKind::UnixStream | SourceKind::Tcp);
        let to_socket = [TargetKind::UnixStream, TargetKind::Tcp].map(To::Kind).contains(&case.to);
        match self {
            Hand::Inherited if from_socket || to_socket => Road::Memory,
            Hand::Watched { nonblocking: false } if to_socket => Road::Memory,
            Hand::Fan { .. } | Hand::Tee { .. } => Road::OwnPipe,
            Hand::Streams { .. } => Road::Memory,
            _ => Road::Planned,
        }
    }

    /// Of a driver that asks the kernel itself: are the descriptors to have O_NONBLOCK?
    fn nonblocking(self) -> Option<bool> {
        match self {
            Hand::Mover { nonblocking }
            | Hand::Watched { nonblocking }
            | Hand::Tee { nonblocking }
            | Hand::Edges { nonblocking }
            | Hand::Fan { nonblocking } => Some(nonblocking),
            _ => None,
        }
    }

    fn moves(self, case: Case, source: &OwnedFd, target: &OwnedFd) -> Result<Reported, String> {
        let Some(nonblocking) = self.nonblocking() else {
            return Ok(run(self.on_tokio(case, source, target)));
        };
        if nonblocking {
            for fd in [source, target] {
                let flags = rustix::fs::fcntl_getfl(fd).expect("flags");
                rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK).expect("O_NONBLOCK");
            }
        }
        match self {
            Hand::Mover { .. } => Ok(by_mover(case, Mover::new(source, target))),
            Hand::Watched { .. } => {
                let (mut goes_on, cancel) = (|_: &Progress| Control::Continue, Cancel::new());
                let mover = Mover::new(source, target).threads(2).cancelled_by(&cancel);
                Ok(by_mover(case, mover.observe(&mut goes_on)))
            }
            Hand::Tee { .. } => Ok(by_tee(case, source, target)),
            Hand::Fan { .. } => edges::drive_fan(case, source, target),
            _ => edges::drive(case, source, target),
        }
    }

    async fn on_tokio(self, case: Case, source: &OwnedFd, target: &OwnedFd) -> Reported {
        let options = RelayOptions { method: case.choice, ..RelayOptions::new() };
        let make = match self {
            Hand::Inherited => Conduit::inherited,
            _ => Conduit::new,
        };
        let end = |fd: &OwnedFd| make(fd.try_clone().expect("dup")).expect("an end");
        let streamed = |end: Conduit, is_stream: bool| match is_stream {
            true => Conduit::of_stream(Halting::new(end, STREAM_PIECE_BYTES)),
            false => end,
        };
        let (from_stream, to_stream) = match self {
            Hand::Streams { source, target } => (source, target),
            _ => (false, false),
        };
        let mut a = streamed(end(source), from_stream).read_only();
        let mut b = streamed(end(target), to_stream).write_only();
        let counts = options.counts();
        let done = async {
            match (self, case.limit) {
                (Hand::Copy, Some(limit)) if case.from.has_offsets() => {
                    let file = File::from(source.try_clone().expect("dup"));
                    let sent = Relay::new(&options).send_file(&file, ..limit, &mut b).await;
                    // It neither uses nor moves the position.
                    let taken = counts.delivered_bytes(Direction::Forward);
                    rustix::fs::seek(source, SeekFrom::Start(taken)).expect("a position");
                    sent
                }
                (Hand::Relay | Hand::Streams { .. }, _) => {
                    Relay::new(&options).run(&mut a, &mut b).await
                }
                (Hand::Interrupted, _) => interrupted(&options, &mut a, &mut b).await,
                _ => Relay::new(&options).copy(&mut a, &mut b).await,
            }
        };
        let cut = async {
            let bytes = case.limit.filter(|_| !case.from.ends());
            while bytes != Some(counts.delivered_bytes(Direction::Forward)) {
                // Asked again and again: an outsider cannot know that the last byte has gone.
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
        };
        let (done, cut) = (pin!(done), pin!(cut));
        tokio::select! {
            // The relay first: an end of its own must win over the test's cut.
            biased;
            ended = done => reported(ended, case),
            () = cut => Reported {
                fate: Fate::Cut,
                delivered: counts.delivered_bytes(Direction::Forward),
                in_flight: counts.in_flight_bytes(Direction::Forward),
            },
        }
    }
}

/// Polls a relay's future once, drops it, lets others have their turn, and begins again.
async fn interrupted(
    options: &RelayOptions,
    a: &mut Conduit,
    b: &mut Conduit,
) -> Result<Totals, Error> {
    let mut relay = Relay::new(options);
    loop {
        let ended = {
            let mut run = pin!(relay.run(a, b));
            poll_fn(|cx| Poll::Ready(run.as_mut().poll(cx))).await
        };
        match ended {
            Poll::Ready(ended) => return ended,
            Poll::Pending => tokio::task::yield_now().await,
        }
    }
}

fn reported(ended: Result<Totals, Error>, case: Case) -> Reported {
    match ended {
        Ok(totals) => {
            let all = case.limit == Some(totals.forward.bytes);
            Reported {
                fate: if all { Fate::Limit } else { Fate::Proven },
                delivered: totals.forward.bytes,
                in_flight: totals.forward.in_flight_bytes,
            }
        }
        Err(error) => {
            let side =
                error.end().map(|end| if end == End::A { Side::Source } else { Side::Target });
            let errno = error.io_error().and_then(Errno::from_io_error);
            let fate = match (side, errno) {
                (Some(side), Some(errno)) => Fate::Failed(side, errno),
                _ if error.is_refused() => Fate::Refused,
                _ => panic!("neither side nor errno: {error}"),
            };
            let passed = error.passed(Direction::Forward);
            Reported { fate, delivered: passed.bytes, in_flight: passed.in_flight_bytes }
        }
    }
}

fn by_tee(case: Case, source: &OwnedFd, target: &OwnedFd) -> Reported {
    let terms = Terms { choice: case.choice, length_bytes: case.limit, ..Terms::default() };
    match Tee::new(source).to(target).terms(terms).run() {
        Ok(report) => {
            let delivered = report.targets[0].delivered_bytes;
            let fate = match &report.targets[0].failure {
                Some(failure) => edges::fate_of(failure),
                None if case.limit == Some(delivered) => Fate::Limit,
                None => Fate::Proven,
            };
            Reported { fate, delivered, in_flight: report.taken_bytes - delivered }
        }
        Err(error) => failed(&error),
    }
}

fn by_mover(case: Case, mover: Mover<'_>) -> Reported {
    let mut mover = mover.method(case.choice);
    if let Some(limit) = case.limit {
        mover = mover.length_bytes(limit);
    }
    match mover.run() {
        Ok(report) => {
            // The report does not say which of the two it was: a length that was reached is not
            // gone past.
            let all = case.limit == Some(report.bytes);
            let fate = if all { Fate::Limit } else { Fate::Proven };
            Reported { fate, delivered: report.bytes, in_flight: 0 }
        }
        Err(error) => failed(&error),
    }
}

fn failed(error: &gush::Error) -> Reported {
    let fate = match (error.side(), error.errno()) {
        _ if error.is_refused() => Fate::Refused,
        (Some(side), Some(errno)) => Fate::Failed(side, errno),
        _ => panic!("neither side nor errno: {error}"),
    };
    let (delivered, in_flight) = (error.delivered_bytes(), error.in_flight_bytes());
    Reported { fate, delivered, in_flight }
}

fn run<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

/// Plays one row by one hand.
pub fn outcome(case: Case, hand: Hand) -> Result<Account, String> {
    ends_within(60, move || {
        // A copy of the reader's end would keep the reader alive.
        let no_fork = (case.scene == Scene::NoReader).then(|| stage::FORKING.read());
        let stage = Stage::set(case)?;
        let reported = hand.moves(case, &stage.source, &stage.target)?;
        drop(no_fork);
        stage.settle(reported)
    })
    .unwrap_or_else(|| Err("hangs".into()))
}
