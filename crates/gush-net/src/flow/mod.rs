//! A flow: one direction of a relay, in steps that never wait, and the waiting by readiness.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use gush::{Errno, Limiter, MethodName, Side};
use tokio::io::Interest;
use tokio::time::Sleep;

use crate::counts::Way;
use crate::error::{End, Error, Passed};
use crate::options::Options;
use crate::pool::Lease;
use crate::tap::Tap;

mod copied;
mod route;
mod spliced;

use route::Technique;

/// The most steps of one poll, and the most bytes taken and delivered: then other tasks of the thread
/// have their turn.
const STEPS: u32 = 64;
const POLL_BYTES: u64 = 4 << 20;

/// The most bytes that one step takes.
const STEP_BYTES: u64 = 1 << 20;

/// One direction of a relay.
#[derive(Debug)]
pub(crate) struct Flow {
    way: Way,
    /// What is left to be tried; empty until the two ends are known.
    techniques: Vec<Technique>,
    /// The pipe, while bytes are in it or about to be.
    pipe: Option<Lease>,
    /// The target takes no splices: what is in the pipe leaves it by plain writes.
    spills: bool,
    /// Bytes read and not yet written: `held[held_from..]`.
    held: Vec<u8>,
    held_from: usize,
    /// The source has more than a short message.
    bulk: bool,
    /// A call other than `read` answered 0: a `read` must tell (invariant 2).
    asks: bool,
    /// Bytes still to be taken, where that is limited.
    pub(crate) remaining_bytes: Option<u64>,
    /// A `read` answered 0.
    end: bool,
    /// The target was told, or need not be.
    done: bool,
    limiter: Option<Limiter>,
    nap: Option<Pin<Box<Sleep>>>,
    taken_bytes: u64,
    delivered_bytes: u64,
    by_method: [(MethodName, u64); 3],
}

/// What a step did.
enum Did {
    /// Something; go on.
    Moved,
    /// That side cannot go on now.
    Wait(Side),
    /// Not this way, and nothing was touched by the refused call.
    Refused(&'static str, Side, Errno),
}

type Step = Result<Did, Failure>;

/// Why a flow failed.
#[derive(Debug)]
pub(crate) enum Failure {
    Failed(&'static str, Side, io::Error),
    Refused(MethodName, &'static str),
}

impl Failure {
    pub(crate) fn into_error(self, way: Way) -> Error {
        match self {
            Failure::Failed(call, side, io) => Error::failed(call, End::of(way, side), io),
            Failure::Refused(method, why) => Error::refused(method, why, None),
        }
    }

    /// The side that is broken.
    pub(crate) fn side(&self) -> Option<Side> {
        match self {
            Failure::Failed(_, side, _) => Some(*side),
            Failure::Refused(..) => None,
        }
    }
}

/// What the answer of a call means, which touched nothing.
fn judge(call: &'static str, side: Side, errno: Errno) -> Step {
    match errno {
        Errno::INTR => Ok(Did::Moved),
        Errno::AGAIN => Ok(Did::Wait(side)),
        errno if gush::is_refusal(errno) => Ok(Did::Refused(call, side, errno)),
        errno => Err(Failure::Failed(call, side, errno.into())),
    }
}

impl Flow {
    pub(crate) fn new(way: Way, options: &Options) -> Self {
        Self {
            way,
            techniques: Vec::new(),
            pipe: None,
            spills: false,
            held: Vec::new(),
            held_from: 0,
            bulk: false,
            asks: false,
            remaining_bytes: None,
            end: false,
            done: false,
            limiter: options.limit.map(Limiter::new),
            nap: None,
            taken_bytes: 0,
            delivered_bytes: 0,
            by_method: [MethodName::ReadWrite, MethodName::Splice, MethodName::Sendfile]
                .map(|name| (name, 0)),
        }
    }

    /// Has everything been delivered, and the target been told?
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// Grows with every byte that is taken or delivered.
    pub(crate) fn activity(&self) -> u64 {
        self.taken_bytes + self.delivered_bytes
    }

    pub(crate) fn passed(&self) -> Passed {
        let most = self.by_method.iter().max_by_key(|(_, bytes)| *bytes);
        Passed {
            bytes: self.delivered_bytes,
            in_flight_bytes: self.taken_bytes - self.delivered_bytes,
            method: most.filter(|(_, bytes)| *bytes > 0).map(|(name, _)| *name),
        }
    }

    /// Moves what can be moved now. Ready when the source has ended and all of it is delivered; then,
    /// if `passes_end`, the target has been told.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut Tap<'_>,
        target: &mut Tap<'_>,
        options: &Options,
        passes_end: bool,
    ) -> Poll<Result<(), Failure>> {
        if self.techniques.is_empty() {
            self.techniques = route::techniques(source, target, options)
                .map_err(|(method, why)| Failure::Refused(method, why))?;
        }
        let enough = self.activity() + POLL_BYTES;
        for _ in 0..STEPS {
            if self.activity() >= enough {
                break;
            }
            if self.taken_bytes == self.delivered_bytes {
                if self.end || self.remaining_bytes == Some(0) {
                    if passes_end {
                        let told = target.finish();
                        told.map_err(|io| Failure::Failed("shutdown", Side::Target, io))?;
                    }
                    self.rest();
                    self.done = true;
                    return Poll::Ready(Ok(()));
                }
                if self.poll_allowance(cx).is_pending() {
                    self.rest();
                    return Poll::Pending;
                }
            }
            match self.step(source, target, options)? {
                Did::Moved => {}
                Did::Refused(call, side, errno) => self.next_technique(call, side, errno)?,
                Did::Wait(side) => {
                    let ready = match side {
                        Side::Source => source.poll_ready(cx, Interest::READABLE),
                        Side::Target => target.poll_ready(cx, Interest::WRITABLE),
                    };
                    match ready {
                        Poll::Ready(answer) => {
                            answer.map_err(|io| Failure::Failed("epoll_wait", side, io))?;
                        }
                        Poll::Pending => {
                            self.rest();
                            return Poll::Pending;
                        }
                    }
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Waits until the rate limit allows something more.
    fn poll_allowance(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(limiter) = &mut self.limiter else { return Poll::Ready(()) };
        while let Err(wait) = limiter.allowance() {
            let until = tokio::time::Instant::now() + wait;
            let nap = self.nap.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
            if nap.is_elapsed() {
                nap.as_mut().reset(until);
            }
            ready!(nap.as_mut().poll(cx));
        }
        Poll::Ready(())
    }

    /// How many bytes a step may take.
    fn most_bytes(&mut self) -> usize {
        let allowed = self.limiter.as_mut().map_or(u64::MAX, |l| l.allowance().unwrap_or(1));
        let most = STEP_BYTES.min(allowed).min(self.remaining_bytes.unwrap_or(u64::MAX));
        usize::try_from(most).unwrap_or(usize::MAX)
    }

    /// One step: what is in flight is delivered before anything else is taken.
    fn step(&mut self, source: &mut Tap<'_>, target: &mut Tap<'_>, options: &Options) -> Step {
        if self.held_from < self.held.len() {
            return self.deliver_held(target, options);
        }
        if self.pipe.as_ref().is_some_and(|pipe| !pipe.is_empty()) {
            return if self.spills { self.spill() } else { self.empty_pipe(target, options) };
        }
        if std::mem::take(&mut self.asks) {
            return self.copy(source, target, options);
        }
        match self.techniques[0] {
            Technique::Copied => self.copy(source, target, options),
            Technique::Adaptive if !self.bulk => self.copy(source, target, options),
            Technique::Adaptive | Technique::Spliced => self.through_pipe(source, target, options),
            Technique::Direct => self.splice_direct(source, target, options),
            Technique::SentFile => self.send_file(source, target, options),
        }
    }

    /// Remembers the refusal for this flow.
    fn next_technique(
        &mut self,
        call: &'static str,
        side: Side,
        errno: Errno,
    ) -> Result<(), Failure> {
        if self.techniques.len() < 2 {
            return Err(Failure::Failed(call, side, errno.into()));
        }
        self.techniques.remove(0);
        self.spills = true;
        Ok(())
    }

    /// Keeps no means while there is nothing to move: a pipe with bytes in it stays.
    fn rest(&mut self) {
        if self.pipe.as_ref().is_some_and(|pipe| pipe.is_empty()) {
            self.pipe = None;
        }
    }

    fn took(&mut self, bytes: usize, options: &Options) {
        let bytes = bytes as u64;
        self.taken_bytes += bytes;
        options.counts.take(self.way, bytes);
        if let Some(remaining) = &mut self.remaining_bytes {
            *remaining = remaining.saturating_sub(bytes);
        }
        if let Some(limiter) = &mut self.limiter {
            limiter.spend(bytes);
        }
    }

    fn delivered(&mut self, bytes: usize, method: MethodName, options: &Options) {
        let bytes = bytes as u64;
        self.delivered_bytes += bytes;
        options.counts.deliver(self.way, bytes);
        if let Some(sum) = self.by_method.iter_mut().find(|(name, _)| *name == method) {
            sum.1 += bytes;
        }
    }
}
