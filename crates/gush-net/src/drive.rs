//! Drives one flow of a relay by readiness: the waiting, the clock, and the counts. The work on the
//! bytes is the flow's ([`gush::flow`]).

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use gush::flow::{Eye, Flow, Moved, Next, Op, Shelf, Terms};
use gush::pipe::Pool;
use gush::{Kind, MethodName, Rate, Side};
use tokio::time::Sleep;

use crate::call::{Attempt, Failure, call, poll_side};
use crate::counts::Direction;
use crate::error::{Passed, Refused};
use crate::options::{METHODS, Observer, RelayOptions};
use crate::sides::{Sides, Source, Target};
use crate::tap::EndOfData;
use crate::whole::Whole;

/// The most calls of one poll, and the most bytes taken and delivered: then other tasks of the thread
/// have their turn.
const CALLS: u32 = 128;
const POLL_BYTES: u64 = 4 << 20;

/// The most bytes that one call takes.
const CALL_BYTES: u64 = 1 << 20;

thread_local! {
    /// The buffers of this thread's relays: between two polls a flow holds a buffer only for bytes in flight.
    static SHELF: RefCell<Option<Shelf>> = const { RefCell::new(None) };
}

/// One direction of a relay.
#[derive(Debug)]
pub(crate) struct Driver {
    direction: Direction,
    /// None until the two ends are known.
    flow: Option<Flow>,
    pub(crate) length_bytes: Option<u64>,
    /// The side that the flow waits for: a relay is polled for both directions, and a direction that waits
    /// has nothing to do until this side is ready.
    waits_for: Option<Side>,
    /// The source's first state, if the source is a file sent to its end.
    whole: Option<Whole>,
    /// Has the source ended, and is everything delivered?
    is_at_end: bool,
    /// Did the source itself tell of its end?
    has_seen_end: bool,
    /// Decides whether the source's end is a proper one.
    proof: Option<Proof>,
    /// Bytes were delivered to a stream that may keep them until a flush.
    unflushed: bool,
    /// How much of the end was passed on, where bytes say so ([`Target::poll_finish`]).
    said_bytes: usize,
    /// The count of taken bytes at which nothing more is taken.
    last_byte: Option<u64>,
    /// The target was told of the end, or need not be.
    done: bool,
    limiter: Option<Rate>,
    /// Nothing is taken because the rate limit, or whoever holds the direction, allows nothing yet.
    throttled: bool,
    nap: Option<Pin<Box<Sleep>>>,
    by_method: [(MethodName, u64); METHODS.len()],
    /// All methods but the last can be refused.
    refused: [Option<Refused>; METHODS.len() - 1],
}

/// Comes true if an end of data is a proper one.
struct Proof(Pin<Box<dyn Future<Output = bool> + Send>>);

impl std::fmt::Debug for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Proof")
    }
}

/// How the end of a direction is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PassedEnd {
    Not,
    /// The target is told.
    Told,
    /// The target is told by the close(2) that follows, if that says so.
    LeftToClose,
}

/// How often it is asked whether a direction that is held is still held.
const HOLD_LOOK: Duration = Duration::from_millis(10);

/// Shows delivered bytes to the user's observer.
struct Shown<'a>(Direction, Option<&'a Observer>);

impl Eye for Shown<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        if let Some(observer) = self.1
            && !bytes.is_empty()
        {
            observer(self.0, bytes);
        }
    }
}

impl Driver {
    pub(crate) fn new(direction: Direction, options: &RelayOptions) -> Self {
        Self {
            direction,
            flow: None,
            length_bytes: None,
            waits_for: None,
            whole: None,
            is_at_end: false,
            has_seen_end: false,
            proof: None,
            unflushed: false,
            said_bytes: 0,
            last_byte: None,
            done: false,
            limiter: options.limit.as_ref().map(Rate::separate),
            throttled: false,
            nap: None,
            by_method: METHODS.map(|name| (name, 0)),
            refused: [None; METHODS.len() - 1],
        }
    }

    /// Has everything been delivered, and the target been told?
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// Has the source told of its end, everything been delivered, and the target been told?
    pub(crate) fn is_done_properly(&self) -> bool {
        self.done && self.has_seen_end
    }

    /// Forgets the pause of the last run, whose runtime may be gone: tokio panics where such a timer is polled.
    pub(crate) fn restart(&mut self) {
        self.nap = None;
    }

    /// Is the direction over, although the source may go on? Bytes in flight stay in flight.
    pub(crate) fn abandon(&mut self) {
        self.done = true;
    }

    /// Is the source taken for ended? Bytes in flight are still delivered, and the end is passed on.
    pub(crate) fn end(&mut self) {
        // No wait is left: the end has to be passed on at the next poll, whatever the source does.
        (self.is_at_end, self.waits_for) = (true, None);
    }

    /// Are there bytes that count as delivered, and that the target's stream still keeps?
    pub(crate) fn is_unflushed(&self) -> bool {
        self.unflushed
    }

    /// Flushes the target's stream, where nothing more will come; ready once the flush is done, or fails.
    pub(crate) fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        target: &mut Target<'_, '_>,
    ) -> Poll<()> {
        if self.unflushed {
            // The direction has failed already: of two failures the first is told.
            let _ = ready!(target.poll_flush(cx));
            self.unflushed = false;
        }
        Poll::Ready(())
    }

    /// Passes the source's end on only once `proof` has come true.
    pub(crate) fn verify_eof(&mut self, proof: impl Future<Output = bool> + Send + 'static) {
        self.proof = Some(Proof(Box::pin(proof)));
    }

    /// Takes no more than so many bytes from here on.
    pub(crate) fn take_at_most(&mut self, bytes: u64) {
        // As a place in the stream: bytes in flight at this moment were counted as taken.
        self.last_byte = Some(self.taken_bytes() + bytes);
    }

    /// Takes everything from the source, from here on.
    pub(crate) fn take_all(&mut self) {
        self.last_byte = None;
    }

    pub(crate) fn is_bounded(&self) -> bool {
        self.last_byte.is_some()
    }

    /// Was the last byte that may be taken taken, and delivered?
    fn has_delivered_the_last(&self) -> bool {
        let all = |last_byte| self.taken_bytes() >= last_byte;
        self.last_byte.is_some_and(all) && self.passed().in_flight_bytes == 0
    }

    /// Has a bounded direction done all that it may? Only reading tells how much a stream has received, so that for a
    /// stream the bound is no more than a limit: the direction is over once the stream has nothing now.
    pub(crate) fn has_had_its_last_words(&self, source: &Source<'_, '_>) -> bool {
        // How much a stream has received cannot be asked, so "nothing now" has to do.
        let has_nothing = source.is_stream() && self.waits_for == Some(Side::Source);
        self.is_bounded() && !self.unflushed && (has_nothing || self.has_delivered_the_last())
    }

    fn taken_bytes(&self) -> u64 {
        self.flow.as_ref().map_or(0, Flow::taken_bytes)
    }

    /// Does the direction wait for one of the ends?
    pub(crate) fn waits(&self) -> bool {
        self.waits_for.is_some()
    }

    /// Does the direction wait for the source alone?
    pub(crate) fn waits_for_source(&self) -> bool {
        self.waits_for == Some(Side::Source) && !self.done
    }

    /// A poll of the relay begins: a pause of the last one may be over.
    pub(crate) fn begin_poll(&mut self) {
        self.throttled = false;
    }

    /// Does the direction wait for the rate limit or for whoever holds it, and for neither end?
    pub(crate) fn is_throttled(&self) -> bool {
        self.throttled
    }

    /// Grows with every byte that is taken or delivered.
    pub(crate) fn activity(&self) -> u64 {
        self.flow.as_ref().map_or(0, |flow| flow.taken_bytes() + flow.delivered_bytes())
    }

    pub(crate) fn passed(&self) -> Passed {
        let most = self.by_method.iter().max_by_key(|(_, bytes)| *bytes);
        let flow = self.flow.as_ref();
        Passed {
            bytes: flow.map_or(0, Flow::delivered_bytes),
            in_flight_bytes: flow.map_or(0, Flow::in_flight_bytes),
            method: most.filter(|(_, bytes)| *bytes > 0).map(|(name, _)| *name),
            refused: self.refused,
        }
    }

    /// Moves all bytes that can be moved now. Ready when the source has ended and all of it is delivered; then
    /// `end` says how the target has been told.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        sides: &mut Sides<'_, '_, '_>,
        options: &RelayOptions,
        end: PassedEnd,
    ) -> Poll<Result<(), Failure>> {
        let passes_end = end != PassedEnd::Not;
        // Not `ready!` yet: bytes that a stream keeps to itself are flushed also while the source is idle.
        let delivered = self.poll_delivered(cx, sides, options, passes_end);
        // A stream that takes no more now is sending already.
        if self.unflushed && self.waits_for != Some(Side::Target) {
            match sides.target.poll_flush(cx) {
                Poll::Ready(Ok(())) => self.unflushed = false,
                // The first failure is told.
                _ if matches!(delivered, Poll::Ready(Err(_))) => {}
                Poll::Ready(Err(io)) => {
                    return Poll::Ready(Err(Failure::Call("flush", Side::Target, io)));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        ready!(delivered)?;
        if passes_end {
            // Bytes that wait for their end leave with it: shutdown(2) sends both.
            let waits = self.flow.as_ref().is_some_and(Flow::expects_end);
            if waits || end == PassedEnd::Told || !sides.target.owes_end() {
                ready!(self.poll_finish(cx, &mut sides.target, options))?;
            }
            self.done = true;
        }
        Poll::Ready(Ok(()))
    }

    /// Ready when the source has ended, the end is a proper end, and all of it is delivered.
    fn poll_delivered(
        &mut self,
        cx: &mut Context<'_>,
        sides: &mut Sides<'_, '_, '_>,
        options: &RelayOptions,
        passes_end: bool,
    ) -> Poll<Result<(), Failure>> {
        if let Some(side) = self.waits_for {
            ready!(poll_side(cx, side, sides))?;
            self.waits_for = None;
        }
        // Taken, not borrowed: an observer may drive another relay from inside.
        let shelf = SHELF.with_borrow_mut(Option::take);
        let mut shelf = shelf.unwrap_or_else(|| Shelf::new(Pool::shared().clone()));
        let moved = self.move_now(cx, sides, options, &mut shelf, passes_end);
        if let Some(flow) = &mut self.flow {
            // Before the task sleeps: thousands of idle relays would each hold a pipe otherwise.
            flow.rest(&mut shelf);
        }
        // The end has not followed: a peer that has reset the connection behind its last bytes tells of none.
        if !matches!(moved, Poll::Ready(Ok(()))) {
            self.send_kept(&sides.target);
        }
        // Put back also after a failure; where an observer had made another shelf, that one is dropped.
        SHELF.set(Some(shelf));
        ready!(moved)?;
        self.is_at_end = true;
        if let Some(proof) = &mut self.proof {
            let is_proper = ready!(proof.0.as_mut().poll(cx));
            self.proof = None;
            if !is_proper {
                return Poll::Ready(Err(Failure::Withheld));
            }
        }
        let passed_bytes = self.passed().bytes;
        let file = self.whole.as_ref().zip(sides.source.fd());
        match file.and_then(|(whole, fd)| whole.is_cut(fd, passed_bytes)) {
            Some(expected_bytes) => Poll::Ready(Err(Failure::Cut(expected_bytes))),
            None => Poll::Ready(Ok(())),
        }
    }

    /// Sends the bytes that wait in the kernel for an end that was promised.
    fn send_kept(&self, target: &Target<'_, '_>) {
        if self.flow.as_ref().is_some_and(Flow::expects_end) {
            target.send_kept();
        }
    }

    /// Tells the target that no more comes.
    fn poll_finish(
        &mut self,
        cx: &mut Context<'_>,
        target: &mut Target<'_, '_>,
        options: &RelayOptions,
    ) -> Poll<Result<(), Failure>> {
        let end = ready!(target.poll_finish(cx, &mut self.said_bytes)).map_err(|io| {
            self.send_kept(target);
            Failure::Call("shutdown", Side::Target, io)
        })?;
        if let (EndOfData::Untold, Some(tell)) = (end, options.unsent_eof) {
            tell(self.direction);
        }
        Poll::Ready(Ok(()))
    }

    fn move_now(
        &mut self,
        cx: &mut Context<'_>,
        sides: &mut Sides<'_, '_, '_>,
        options: &RelayOptions,
        shelf: &mut Shelf,
        passes_end: bool,
    ) -> Poll<Result<(), Failure>> {
        if self.is_at_end {
            return Poll::Ready(Ok(()));
        }
        if self.flow.is_none() {
            let state = sides.source.state();
            let is_to_end = self.length_bytes.is_none() && state.offset_bytes().is_none();
            // Only a file to its end has a size to be held to.
            if state.kind() == Kind::File && is_to_end {
                self.whole = sides.source.fd().and_then(Whole::of);
            }
            let terms = Terms { length_bytes: self.length_bytes, ..options.terms() };
            let flow = Flow::between(state, sides.target.state(), &terms)
                .map_err(|refusal| Failure::Flow(refusal.into()))?;
            self.flow = Some(flow);
        }
        // Other tasks of the thread have their turn after so many bytes, or so many calls.
        let enough = self.activity() + POLL_BYTES;
        // Nothing may come between the last bytes and their end.
        let ends_at_once = passes_end
            && self.proof.is_none()
            && self.limiter.is_none()
            && options.holder.is_none()
            && sides.target.sends_kept_bytes_with_the_end();
        for _ in 0..CALLS {
            let may_take_bytes = self.may_take_bytes(options);
            let Some(flow) = &mut self.flow else { break };
            match flow.next(may_take_bytes, shelf) {
                Next::Do(op) => {
                    let answer = match call(self.direction, flow, op, cx, sides)? {
                        Attempt::Made(answer) => answer,
                        Attempt::NotReady(side) => {
                            self.waits_for = Some(side);
                            return Poll::Pending;
                        }
                        Attempt::Changed => continue,
                    };
                    let mut shown = Shown(self.direction, options.observer.as_ref());
                    let moved = flow.learn(op, answer, &mut shown);
                    if let (Op::Read(most), Ok(bytes)) = (op, answer)
                        && ends_at_once
                        && (1..most).contains(&bytes)
                        && sides.source.has_ended(cx)
                    {
                        flow.expect_end();
                    }
                    self.account(&moved, options);
                    self.unflushed |= moved.delivered_bytes > 0 && sides.target.is_stream();
                    if self.activity() >= enough {
                        break;
                    }
                }
                Next::Wait(side) => {
                    // Ready already: the readiness may have come between the call and this poll.
                    if poll_side(cx, side, sides)?.is_pending() {
                        self.waits_for = Some(side);
                        return Poll::Pending;
                    }
                }
                // The caller that bounded the direction sees the end.
                Next::Throttled if self.has_delivered_the_last() => return Poll::Pending,
                Next::Throttled => ready!(self.poll_allowance(cx, options)),
                Next::Ended(_) => {
                    self.has_seen_end = true;
                    return Poll::Ready(Ok(()));
                }
                Next::Failed(failure) => {
                    return Poll::Ready(Err(Failure::Flow((*failure).into())));
                }
            }
        }
        // The turn is over and there is more to do: back into the queue, behind the others.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn account(&mut self, moved: &Moved, options: &RelayOptions) {
        if let Some(refused) = moved.refusal.as_deref().and_then(Refused::of)
            && let Some(place) = self.refused.iter_mut().find(|place| place.is_none())
        {
            *place = Some(refused);
        }
        if moved.taken_bytes > 0 {
            options.counts.take(self.direction, moved.taken_bytes);
            if let Some(limiter) = &self.limiter {
                limiter.spend(moved.taken_bytes);
            }
        }
        if moved.delivered_bytes > 0 {
            options.counts.deliver(self.direction, moved.delivered_bytes);
            // Three methods only, so a search costs less than a map.
            let of_method = |sum: &&mut (MethodName, u64)| Some(sum.0) == moved.method;
            if let Some(sum) = self.by_method.iter_mut().find(of_method) {
                sum.1 += moved.delivered_bytes;
            }
        }
    }

    /// How many bytes the next call may take.
    fn may_take_bytes(&mut self, options: &RelayOptions) -> u64 {
        if self.is_held(options) {
            return 0;
        }
        let allowed =
            self.limiter.as_ref().map_or(u64::MAX, |limiter| limiter.allowance().unwrap_or(0));
        let left_bytes =
            self.last_byte.map_or(u64::MAX, |last| last.saturating_sub(self.taken_bytes()));
        // Bounded, so that a single splice between two fast ends does not hold the thread.
        CALL_BYTES.min(allowed).min(left_bytes)
    }

    fn is_held(&self, options: &RelayOptions) -> bool {
        options.holder.as_ref().is_some_and(|holds| holds(self.direction))
    }

    /// Waits until the rate limit, and whoever holds the direction, allow something more.
    fn poll_allowance(&mut self, cx: &mut Context<'_>, options: &RelayOptions) -> Poll<()> {
        loop {
            let limit = self.limiter.as_ref().map(Rate::allowance);
            let wait = match limit {
                Some(Err(wait)) => wait,
                _ if self.is_held(options) => HOLD_LOOK,
                _ => break,
            };
            // The clock of the runtime, which tests can stop.
            let until = tokio::time::Instant::now() + wait;
            let nap = self.nap.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
            if nap.is_elapsed() {
                nap.as_mut().reset(until);
            }
            // Told to the relay: a pause of our own is no silence of the ends.
            self.throttled = true;
            if let Some(limiter) = &self.limiter {
                limiter.begin_sleep();
            }
            ready!(nap.as_mut().poll(cx));
        }
        self.begin_poll();
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::task::Waker;

    use super::*;
    use crate::conduit::Conduit;
    use crate::ends;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
    }

    fn device(path: &str) -> Conduit {
        let file = std::fs::File::options().read(true).write(true).open(path).expect("a device");
        Conduit::new(file.into()).expect("an end")
    }

    #[test]
    fn other_tasks_have_their_turn_after_some_mebibytes() {
        runtime().block_on(async {
            let (mut zeros, mut null) = (device("/dev/zero"), device("/dev/null"));
            let (mut zeros, mut null) = (
                ends::open(&mut zeros).expect("registered"),
                ends::open(&mut null).expect("registered"),
            );
            let source = zeros.source().expect("a reader");
            let mut sides = Sides { source, target: null.target().expect("a writer") };
            let options = RelayOptions::new();
            let mut driver = Driver::new(Direction::Forward, &options);
            driver.length_bytes = Some(64 << 20);
            let mut cx = Context::from_waker(Waker::noop());
            let polled = driver.poll(&mut cx, &mut sides, &options, PassedEnd::Not);
            assert!(polled.is_pending(), "all at once");
            let moved_bytes = driver.passed().bytes;
            assert!((1..=POLL_BYTES + CALL_BYTES).contains(&moved_bytes), "{moved_bytes} bytes");
        });
    }

    #[test]
    fn a_direction_that_waits_keeps_neither_pipe_nor_buffer() {
        runtime().block_on(async {
            for bytes in [100, 300_000] {
                let (mut client, near) = std::os::unix::net::UnixStream::pair().expect("a pair");
                let (out, far) = std::os::unix::net::UnixStream::pair().expect("a pair");
                let (mut near, mut out) = (
                    Conduit::new(near.into()).expect("an end"),
                    Conduit::new(out.into()).expect("an end"),
                );
                let taker = std::thread::spawn(move || {
                    let mut all = vec![0; bytes];
                    std::io::Read::read_exact(&mut &far, &mut all).map(|()| far)
                });
                let feeder =
                    std::thread::spawn(move || client.write_all(&vec![7; bytes]).map(|()| client));
                let (mut near, mut out) = (
                    ends::open(&mut near).expect("registered"),
                    ends::open(&mut out).expect("registered"),
                );
                let source = near.source().expect("a reader");
                let mut sides = Sides { source, target: out.target().expect("a writer") };
                let options = RelayOptions::new();
                let mut driver = Driver::new(Direction::Forward, &options);
                std::future::poll_fn(|cx| {
                    let polled = driver.poll(cx, &mut sides, &options, PassedEnd::Not);
                    assert!(polled.is_pending(), "the client has not ended");
                    let flow = driver.flow.as_ref().expect("begun");
                    assert!(flow.is_at_rest(), "{bytes} bytes: parked with idle means");
                    match driver.passed().bytes < bytes as u64 {
                        true => Poll::Pending,
                        false => Poll::Ready(()),
                    }
                })
                .await;
                drop((feeder.join().expect("no panic"), taker.join().expect("no panic")));
            }
        });
    }
}
