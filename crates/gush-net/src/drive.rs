//! Drives one flow of a relay by readiness: waiting, time, and counts. The rules about bytes are
//! the flow's ([`gush::flow`]).

use std::cell::RefCell;
use std::future::Future;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use gush::flow::{Flow, Inspector, Moved, Next, Op, PortState, Shelf, Terms};
use gush::pipe::Pool;
use gush::{Errno, MethodName, Rate, Refusal, Side};
use tokio::time::Sleep;

use crate::call::{Attempt, Failure, call, poll_ready};
use crate::carry::{DirectionState, PipeEnds};
use crate::counts::Direction;
use crate::error::Passed;
use crate::options::{METHODS, Observer, RelayOptions};
use crate::sides::{Sides, Source, Target};
use crate::tap::{EndOfData, Tap};
use crate::whole::Whole;

/// The most calls of one poll, and the most bytes taken and delivered, before other tasks of the
/// thread have their turn.
const CALLS: u32 = 128;
const POLL_BYTES: u64 = 4 << 20;

/// The most bytes that one call takes.
const CALL_BYTES: u64 = 1 << 20;

thread_local! {
    /// The buffers of this thread's relays: between two polls a flow holds a buffer only for bytes
    /// in flight.
    static SHELF: RefCell<Option<Shelf>> = const { RefCell::new(None) };
}

/// One direction of a relay.
#[derive(Debug)]
pub(crate) struct Driver {
    direction: Direction,
    /// None until the two ends are known.
    flow: Option<Flow>,
    /// The side that the flow waits for. A relay is polled for both directions, and a direction
    /// that waits has nothing to do until this side is ready.
    waits_for: Option<Side>,
    /// Has the source ended, and is everything delivered?
    is_at_end: bool,
    /// Did a read find the source's end?
    has_seen_end: bool,
    /// Bytes were delivered to a stream that may keep them until a flush.
    unflushed: bool,
    /// How much of the end was passed on, if it takes bytes ([`Target::poll_finish`]).
    eof_bytes: u8,
    /// The end was passed on, or needs not to be.
    done: bool,
    /// Nothing is taken because the rate limit or a hold allows nothing yet.
    throttled: bool,
    /// Bytes delivered, in the order of [`METHODS`].
    by_method: [u64; METHODS.len()],
    /// Most directions have none, and no memory for it.
    rare: Option<Box<Rare>>,
}

/// What few directions have.
#[derive(Debug)]
struct Rare {
    length_bytes: Option<u64>,
    /// What a file that is the source has to deliver.
    whole: Option<Whole>,
    /// Decides whether the source's end is passed on.
    proof: Option<Proof>,
    /// The count of taken bytes at which nothing more is taken.
    last_byte: Option<u64>,
    limiter: Option<Rate>,
    nap: Option<Pin<Box<Sleep>>>,
    refused: Vec<Refusal>,
    /// The pending error of a socket, which the kernel reports once: a later read there returns 0.
    taken_error: Option<(Side, Errno)>,
}

const NOTHING: Rare = Rare {
    length_bytes: None,
    whole: None,
    proof: None,
    last_byte: None,
    limiter: None,
    nap: None,
    refused: Vec::new(),
    taken_error: None,
};

/// Resolves to whether an end of data is a proper one.
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
    Sent,
    /// By the close(2) that follows, if the target is a TCP socket.
    LeftToClose,
}

/// How often a direction that is held is asked whether it still is.
const HOLD_LOOK: Duration = Duration::from_millis(10);

/// Passes delivered bytes to the user's observer.
struct Observed<'a>(Direction, Option<&'a Observer>);

impl Inspector for Observed<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        if let Some(observer) = self.1
            && !bytes.is_empty()
        {
            observer(self.0, bytes);
        }
    }
}

impl Driver {
    pub(crate) fn new(direction: Direction, limiter: Option<Rate>) -> Self {
        Self {
            direction,
            flow: None,
            waits_for: None,
            is_at_end: false,
            has_seen_end: false,
            unflushed: false,
            eof_bytes: 0,
            done: false,
            throttled: false,
            by_method: [0; METHODS.len()],
            rare: limiter.map(|limiter| Box::new(Rare { limiter: Some(limiter), ..NOTHING })),
        }
    }

    fn rare(&self) -> &Rare {
        self.rare.as_deref().unwrap_or(const { &NOTHING })
    }

    fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_with(|| Box::new(NOTHING))
    }

    /// Takes no more than `length_bytes` in all; fewer are an error.
    pub(crate) fn expect_length(&mut self, length_bytes: Option<u64>) {
        if length_bytes != self.rare().length_bytes {
            self.rare_mut().length_bytes = length_bytes;
        }
    }

    /// The state for another process; `None` where a part of it cannot move.
    pub(crate) fn state(&self) -> Option<(DirectionState, PipeEnds<BorrowedFd<'_>>)> {
        let rare = self.rare();
        let stays = rare.proof.is_some()
            || rare.taken_error.is_some()
            || rare.length_bytes.is_some()
            || self.unflushed
            || self.eof_bytes > 0
            || self.is_bounded();
        let (state, pipe) = DirectionState::of_flow(self.flow.as_ref()).filter(|_| !stays)?;
        let by_method = self.by_method;
        let (is_at_end, has_seen_end, is_done) = (self.is_at_end, self.has_seen_end, self.done);
        Some((DirectionState { by_method, is_at_end, has_seen_end, is_done, ..state }, pipe))
    }

    /// Goes on from the state of another process, with a flow that does so.
    pub(crate) fn carry_on(
        &mut self,
        state: &DirectionState,
        flow: Option<Flow>,
        source: Option<(BorrowedFd<'_>, PortState)>,
    ) {
        (self.is_at_end, self.has_seen_end) = (state.is_at_end, state.has_seen_end);
        self.done = state.is_done;
        self.by_method = state.by_method;
        if let Some(whole) = source.and_then(|(fd, state)| Whole::of(fd, &state, None)) {
            let taken_bytes = flow.as_ref().map_or(0, Flow::taken_bytes);
            self.rare_mut().whole = Some(whole.after(taken_bytes));
        }
        self.flow = flow;
    }

    /// Forgets the bytes moved and the end; the rate limit goes on from the last byte.
    pub(crate) fn begin_anew(&mut self) {
        *self = Self::new(self.direction, self.rare().limiter.clone());
    }

    /// Has everything been delivered, and the end been passed on?
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// The same, and did a read find the source's end?
    pub(crate) fn is_done_properly(&self) -> bool {
        self.done && self.has_seen_end
    }

    /// Forgets the pause of the last run: tokio panics if a timer of a runtime that is gone is
    /// polled.
    pub(crate) fn restart(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.nap = None;
        }
    }

    /// Gives up the direction. Bytes in flight stay in flight.
    pub(crate) fn abandon(&mut self) {
        self.done = true;
    }

    /// Takes the source for ended. Bytes in flight are still delivered, and the end is passed on.
    pub(crate) fn end(&mut self) {
        // The end is passed on at the next poll, whether or not the source is ready.
        (self.is_at_end, self.waits_for) = (true, None);
    }

    /// A side has failed with an error that the kernel does not report again.
    pub(crate) fn take_error(&mut self, side: Side, errno: Errno) -> Failure {
        self.rare_mut().taken_error = Some((side, errno));
        Failure::Call("getsockopt(SO_ERROR)", side, errno.into())
    }

    /// Are there bytes that count as delivered, and that the target's stream still keeps?
    pub(crate) fn is_unflushed(&self) -> bool {
        self.unflushed
    }

    /// Flushes the target's stream after a failure; ready once the flush is done, or fails.
    pub(crate) fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        target: &mut Target<'_, '_>,
    ) -> Poll<()> {
        if self.unflushed {
            // Of two failures the first is reported.
            let _ = ready!(target.poll_flush(cx));
            self.unflushed = false;
        }
        Poll::Ready(())
    }

    /// Passes on the source's end only if `proof` resolves to true.
    pub(crate) fn verify_eof(&mut self, proof: impl Future<Output = bool> + Send + 'static) {
        self.rare_mut().proof = Some(Proof(Box::pin(proof)));
    }

    /// Takes no more than `bytes` from here on.
    pub(crate) fn take_at_most(&mut self, bytes: u64) {
        // Bytes in flight at this moment are counted as taken.
        self.rare_mut().last_byte = Some(self.taken_bytes() + bytes);
    }

    /// Lifts the bound of [`Driver::take_at_most`].
    pub(crate) fn take_all(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.last_byte = None;
        }
    }

    pub(crate) fn is_bounded(&self) -> bool {
        self.rare().last_byte.is_some()
    }

    /// Has everything that may be taken been taken, and delivered?
    fn has_delivered_the_last(&self) -> bool {
        let all = |last_byte| self.taken_bytes() >= last_byte;
        self.rare().last_byte.is_some_and(all) && self.in_flight_bytes() == 0
    }

    /// Has a bounded direction done all that it may? How much a stream has received cannot be
    /// asked, so that a stream is done once it has nothing now.
    pub(crate) fn has_had_its_last_words(&self, source: &Source<'_, '_>) -> bool {
        let has_nothing = source.fd().is_none() && self.waits_for == Some(Side::Source);
        self.is_bounded() && !self.unflushed && (has_nothing || self.has_delivered_the_last())
    }

    pub(crate) fn in_flight_bytes(&self) -> u64 {
        self.flow.as_ref().map_or(0, Flow::in_flight_bytes)
    }

    fn delivered_bytes(&self) -> u64 {
        self.flow.as_ref().map_or(0, Flow::delivered_bytes)
    }

    pub(crate) fn taken_bytes(&self) -> u64 {
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

    /// Called when a poll of the relay begins: a pause of the last one may be over.
    pub(crate) fn begin_poll(&mut self) {
        self.throttled = false;
    }

    /// Does the direction wait for the rate limit or a hold, and for neither end?
    pub(crate) fn is_throttled(&self) -> bool {
        self.throttled
    }

    /// Grows with every byte that is taken or delivered.
    pub(crate) fn activity(&self) -> u64 {
        self.taken_bytes() + self.delivered_bytes()
    }

    pub(crate) fn passed(&self) -> Passed {
        let most = METHODS.into_iter().zip(self.by_method).max_by_key(|(_, bytes)| *bytes);
        Passed {
            bytes: self.delivered_bytes(),
            in_flight_bytes: self.in_flight_bytes(),
            method: most.filter(|(_, bytes)| *bytes > 0).map(|(name, _)| name),
            refused: self.rare().refused.clone(),
        }
    }

    /// Moves all bytes that can be moved now. Ready when the source has ended, all of it is
    /// delivered, and the end is passed on as `end` says.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        sides: &mut Sides<'_, '_>,
        options: &RelayOptions,
        end: PassedEnd,
    ) -> Poll<Result<(), Failure>> {
        let passes_end = end != PassedEnd::Not;
        // Not `ready!` yet: bytes that a stream keeps are flushed also while the source is idle.
        let delivered = self.poll_delivered(cx, sides, options, passes_end);
        // A stream that takes no more now is sending already.
        if self.unflushed && self.waits_for != Some(Side::Target) {
            match sides.target.poll_flush(cx) {
                Poll::Ready(Ok(())) => self.unflushed = false,
                // Of two failures the first is reported.
                _ if matches!(delivered, Poll::Ready(Err(_))) => {}
                Poll::Ready(Err(io)) => {
                    return Poll::Ready(Err(Failure::Call("flush", Side::Target, io)));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        ready!(delivered)?;
        if passes_end {
            // Bytes kept back for their end leave with it by shutdown(2).
            let waits = self.flow.as_ref().is_some_and(Flow::expects_end);
            if waits || end == PassedEnd::Sent || !leaves_to_close(&sides.target) {
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
        sides: &mut Sides<'_, '_>,
        options: &RelayOptions,
        passes_end: bool,
    ) -> Poll<Result<(), Failure>> {
        if let Some(side) = self.waits_for {
            ready!(poll_ready(cx, side, sides))?;
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
        // Bytes kept back for an end that did not follow, such as after a reset.
        if !matches!(moved, Poll::Ready(Ok(()))) {
            self.send_kept(&sides.target);
        }
        // Also after a failure. A shelf that an observer's relay has left there is dropped.
        SHELF.set(Some(shelf));
        ready!(moved)?;
        self.is_at_end = true;
        if let Some(rare) = &mut self.rare
            && let Some(proof) = &mut rare.proof
        {
            let is_proper = ready!(proof.0.as_mut().poll(cx));
            rare.proof = None;
            if !is_proper {
                // A later run does not pass on the end either.
                self.verify_eof(std::future::ready(false));
                return Poll::Ready(Err(Failure::Withheld));
            }
        }
        let passed_bytes = self.delivered_bytes();
        let file = self.rare().whole.as_ref().zip(sides.source.fd());
        match file.and_then(|(whole, fd)| whole.is_cut(fd, passed_bytes)) {
            Some(expected_bytes) => Poll::Ready(Err(Failure::Cut(expected_bytes))),
            None => Poll::Ready(Ok(())),
        }
    }

    /// Sends the bytes that a TCP socket keeps for an end that does not follow.
    fn send_kept(&self, target: &Target<'_, '_>) {
        if self.flow.as_ref().is_some_and(Flow::expects_end)
            && let Some(fd) = target.fd()
        {
            // Best effort: the kernel sends them by itself a little later.
            let _ = gush::send_kept(&fd);
        }
    }

    /// Passes on the end of the data.
    fn poll_finish(
        &mut self,
        cx: &mut Context<'_>,
        target: &mut Target<'_, '_>,
        options: &RelayOptions,
    ) -> Poll<Result<(), Failure>> {
        let end = ready!(target.poll_finish(cx, &mut self.eof_bytes)).map_err(|io| {
            self.send_kept(target);
            Failure::Call("shutdown", Side::Target, io)
        })?;
        if let (EndOfData::Unsent, Some(report)) = (end, options.on_unsent_eof) {
            report(self.direction);
        }
        Poll::Ready(Ok(()))
    }

    fn move_now(
        &mut self,
        cx: &mut Context<'_>,
        sides: &mut Sides<'_, '_>,
        options: &RelayOptions,
        shelf: &mut Shelf,
        passes_end: bool,
    ) -> Poll<Result<(), Failure>> {
        if self.is_at_end {
            return Poll::Ready(Ok(()));
        }
        if let Some((side, errno)) = self.rare().taken_error {
            return Poll::Ready(Err(self.take_error(side, errno)));
        }
        if self.flow.is_none() {
            let state = sides.source.state();
            let fd = sides.source.fd();
            let length_bytes = self.rare().length_bytes;
            if let Some(whole) = fd.and_then(|fd| Whole::of(fd, &state, length_bytes)) {
                self.rare_mut().whole = Some(whole);
            }
            let terms = Terms { length_bytes, ..options.terms() };
            let flow = Flow::between(state, sides.target.state(), &terms)
                .map_err(|refusal| Failure::Flow(refusal.into()))?;
            self.flow = Some(flow);
        }
        // Other tasks of the thread have their turn after so many bytes, or so many calls.
        let enough = self.activity() + POLL_BYTES;
        // Nothing may come between the last bytes and their end.
        let ends_at_once = passes_end
            && self.rare().proof.is_none()
            && self.rare().limiter.is_none()
            && options.hold.is_none()
            && sends_kept_bytes_with_the_end(&sides.target);
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
                    let mut observed = Observed(self.direction, options.observe.as_deref());
                    let moved = flow.learn(op, answer, &mut observed);
                    if let (Op::Read(most), Ok(bytes)) = (op, answer)
                        && ends_at_once
                        && (1..most).contains(&bytes)
                        && sides.source.tap().is_some_and(|tap| tap.has_ended(cx))
                    {
                        flow.expect_end();
                    }
                    self.account(&moved, options);
                    self.unflushed |= moved.delivered_bytes > 0 && sides.target.fd().is_none();
                    if self.activity() >= enough {
                        break;
                    }
                }
                Next::Wait(side) => {
                    // It may have become ready between the call and this poll.
                    if poll_ready(cx, side, sides)?.is_pending() {
                        self.waits_for = Some(side);
                        return Poll::Pending;
                    }
                }
                // The relay that set the bound ends the direction.
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
        // There is more to do after the other tasks have had their turn.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn account(&mut self, moved: &Moved, options: &RelayOptions) {
        // A method that gave up by itself was not refused by the kernel.
        let by_kernel = |refusal: &&Refusal| refusal.call.is_some() && refusal.errno.is_some();
        if let Some(refusal) = moved.refusal.as_deref().filter(by_kernel) {
            self.rare_mut().refused.push(refusal.clone());
        }
        if moved.taken_bytes > 0 {
            options.counts.take(self.direction, moved.taken_bytes);
            if let Some(limiter) = &self.rare().limiter {
                limiter.spend(moved.taken_bytes);
            }
        }
        if moved.delivered_bytes > 0 {
            options.counts.deliver(self.direction, moved.delivered_bytes);
            let is_of_it = |name: &MethodName| Some(*name) == moved.method;
            if let Some(at) = METHODS.iter().position(is_of_it) {
                self.by_method[at] += moved.delivered_bytes;
            }
        }
    }

    /// How many bytes the next call may take.
    fn may_take_bytes(&mut self, options: &RelayOptions) -> u64 {
        if self.is_held(options) {
            return 0;
        }
        let Rare { limiter, last_byte, .. } = self.rare();
        let allowed = limiter.as_ref().map_or(u64::MAX, |limiter| limiter.allowance().unwrap_or(0));
        let left_bytes = last_byte.map_or(u64::MAX, |last| last.saturating_sub(self.taken_bytes()));
        // A single splice between two fast ends must not hold the thread.
        CALL_BYTES.min(allowed).min(left_bytes)
    }

    fn is_held(&self, options: &RelayOptions) -> bool {
        options.hold.as_ref().is_some_and(|holds| holds(self.direction))
    }

    /// Waits until the rate limit and the hold allow something more.
    fn poll_allowance(&mut self, cx: &mut Context<'_>, options: &RelayOptions) -> Poll<()> {
        loop {
            let limit = self.rare().limiter.as_ref().map(Rate::allowance);
            let wait = match limit {
                Some(Err(wait)) => wait,
                _ if self.is_held(options) => HOLD_LOOK,
                _ => break,
            };
            // The clock of the runtime, which tests can stop.
            let until = tokio::time::Instant::now() + wait;
            self.throttled = true;
            let Rare { nap, limiter, .. } = self.rare_mut();
            let nap = nap.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
            if nap.is_elapsed() {
                nap.as_mut().reset(until);
            }
            if let Some(limiter) = limiter {
                limiter.begin_sleep();
            }
            ready!(nap.as_mut().poll(cx));
        }
        self.begin_poll();
        Poll::Ready(())
    }
}

/// Do bytes kept back (MSG_MORE) leave with an end passed on by shutdown(2)? Those of TCP itself do
/// (`tcp_send_fin` of net/ipv4/tcp_output.c). With TLS in the kernel they stay in an open record
/// (`tls_sw_sendmsg` of net/tls/tls_sw.c), the end is sent first, and they are lost.
fn sends_kept_bytes_with_the_end(target: &Target<'_, '_>) -> bool {
    target.tap().is_some_and(Tap::is_bare_tcp)
}

/// Leaves the end of the data to close(2), if the target is a TCP socket ([`Tap::owes_end`]).
fn leaves_to_close(target: &Target<'_, '_>) -> bool {
    target.tap().is_some_and(Tap::owes_end)
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
            let mut driver = Driver::new(Direction::Forward, None);
            driver.expect_length(Some(64 << 20));
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
                let mut driver = Driver::new(Direction::Forward, None);
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
