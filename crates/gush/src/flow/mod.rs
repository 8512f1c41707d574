//! The flow: one stream of bytes from a source to a target, as a value that makes no call by itself.
//!
//! A flow *decides*, a driver *calls*, the flow *learns*:
//!
//! ```text
//! loop {
//!     match flow.next(may_take_bytes, lender) {
//!         Next::Do(op)     => flow.learn(op, flow.perform(op, fds), eye),   under the driver's own gate
//!         Next::Wait(side) => the driver waits: poll(2), tokio's readiness, a test's script
//!         Next::Throttled  => nothing may be taken now: the driver's clock decides
//!         Next::Ended(end) => everything that was taken is delivered
//!         Next::Failed(_)  => `in_flight_bytes` says how much was taken and not delivered
//!     }
//! }
//! ```
//!
//! Every rule about *bytes* is here, once: which way is tried in which order and when a refusal leads to
//! the next; what is in flight and how it is delivered; what proves the end; where datagrams begin and
//! end; short messages through memory, long ones by reference; what was taken and what was delivered.
//! Every rule about *waiting and time* belongs to the driver.
//!
//! # Invariants
//! - *Nothing lost, nothing twice.* `taken = delivered + in flight` after every answer; nothing is taken
//!   while anything is in flight, except more zeros behind a run of zeros that becomes a hole.
//! - *Only a `read` that answers 0 is the end.* A 0 from splice(2) or sendfile(2) makes the next call a
//!   `read` of one byte.
//! - *A refusal changes nothing but the way.* Bytes that a pipe already holds leave it by `read` and
//!   `write` before the next way begins.
//! - *[`Next::Wait`] comes only after an `EAGAIN` that was about that side alone*, so that a driver may
//!   clear the side's readiness in the same breath ([`Flow::clears`]). splice(2) between two ports that
//!   can both idle, and splice(2) from a TCP socket, do not say which side they mean: each side is asked
//!   by poll(2), and if both are ready a `read` decides. That is the way past the urgent mark of a TCP
//!   socket, which polls readable and answers splice with `EAGAIN` (`tcp_splice_read` of `net/ipv4/tcp.c`).
//! - *At most [`Flow::MOST_IDLE_OPS`] calls without progress*, then the flow waits or ends.
//!
//! # Drawbacks
//! A short message costs one pass through `next` and `learn` for each of its two calls: some twenty
//! nanoseconds beside the microsecond of the calls. A call that keeps several operations under way, as a
//! ring does, needs several flows, or ranges ([`crate::Mover`] has those around its flow).

use rustix::io::{self, Errno};

mod fan;
mod lend;
mod op;
mod stance;
mod way;

pub use fan::{Fan, FanFds, FanNext, FanOp, Interest, Who};
pub use lend::{Buf, Lender, Shelf};
pub use op::{Fds, Op};
pub use stance::Stance;

use way::{Way, Ways};

use crate::endpoint::Kind;
use crate::fault::Fault;
use crate::kernel::{is_refusal, page_bytes};
use crate::method::{MethodName, Refusal};
use crate::mover::Choice;
use crate::pipe::PipeLoan;
use crate::port::Side;
use crate::sys::Call;
use crate::zeros::{self, Run};

/// What a user says about a flow.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The plan's ways, or one method: then used or refused, never replaced (invariant 6).
    pub choice: Choice,
    /// No page of a file may be shared with whoever reads the target.
    pub isolated: bool,
    /// Somebody looks at the bytes, so they must pass through memory.
    pub through_memory: bool,
    /// No call may hold the driver: a stream without O_NONBLOCK is not spliced.
    pub never_held: bool,
    /// Between streams: a read that fills so many bytes is no short message.
    pub short_bytes: usize,
    /// The most bytes of one read through memory.
    pub buffer_bytes: usize,
    /// The most bytes of one call by reference; from 1 GiB on the flow decides.
    pub call_bytes: usize,
    /// The most bytes of one datagram that a piece of a stream becomes.
    pub message_bytes: usize,
    /// How many bytes the source is said to hold, if it says so: behind them only a `read` is asked.
    pub expected_bytes: Option<u64>,
    /// Runs of zeros become holes of the target, which must be a file at an offset. A fan makes none.
    pub make_holes: bool,
    /// vmsplice gives its pages away (`SPLICE_F_GIFT`) instead of only lending them.
    pub gift: bool,
    /// The most bytes to take, or all up to the end. A datagram is never cut: one that is longer than what
    /// is left stays in its socket, and is an error (`EMSGSIZE`).
    pub length_bytes: Option<u64>,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            choice: Choice::Auto,
            isolated: false,
            through_memory: false,
            never_held: false,
            short_bytes: 16 << 10,
            buffer_bytes: 64 << 10,
            call_bytes: CALL_BYTES,
            message_bytes: STREAM_TO_DATAGRAM_BYTES,
            expected_bytes: None,
            make_holes: false,
            gift: true,
            length_bytes: None,
        }
    }
}

/// What a driver is to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Make this call, and let the flow learn the answer.
    Do(Op),
    /// Wait until that side can go on; then ask again. Asking early is harmless.
    Wait(Side),
    /// Nothing is in flight, and nothing may be taken now.
    Throttled,
    /// Everything that was taken is delivered, and no more comes.
    Ended(End),
    /// The bytes cannot move.
    Failed(Box<Failure>),
}

/// Why no more comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A `read` answered 0.
    Proven,
    /// As many bytes were taken as the terms allow.
    Limit,
}

/// Why a flow failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A call failed.
    Fault(Fault),
    /// The method that was asked for by name cannot go on here.
    Refused(Refusal),
    /// The method that was asked for by name says that there is no more, and a `read` finds more.
    FalseEnd(Refusal),
}

impl Failure {
    fn is_of_source(&self) -> bool {
        matches!(self, Failure::Fault(fault) if fault.side == Side::Source)
    }
}

/// What one answer meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes that left the source.
    pub taken_bytes: u64,
    /// Bytes that reached the target.
    pub delivered_bytes: u64,
    /// The method that took or delivered them.
    pub method: Option<MethodName>,
    /// The way that was refused, if the answer was its refusal.
    pub refusal: Option<Box<Refusal>>,
}

/// Who looks at what passes: digests, counts of lines, taps. Bytes are shown once, when delivered.
pub trait Eye {
    /// The next bytes that the target took. Only a flow [through memory](Terms::through_memory) shows all.
    fn bytes(&mut self, _bytes: &[u8]) {}

    /// So many zeros, which became a hole of the target.
    fn gap(&mut self, _zeros_bytes: u64) {}
}

/// Nobody looks.
impl Eye for () {}

/// What is known about the end of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    /// Bytes are taken by the way of the plan.
    Take,
    /// A call other than `read` answered 0, or `EAGAIN` with both sides ready: a `read` must decide.
    Doubt,
    /// A `read` answered 0.
    Over,
}

/// Bytes that were read and not yet written: `from..to` of the buffer.
#[derive(Debug, Default)]
struct Hand {
    buf: Option<Buf>,
    from: u32,
    to: u32,
    /// Where the zeros begin that are not to be written, or `to`.
    run_end: u32,
    /// Something is in hand: bytes, or a datagram, which may be empty.
    full: bool,
}

impl Hand {
    fn held(&self) -> &[u8] {
        self.slice(self.to)
    }

    /// The bytes before the next zeros that become a hole.
    fn run(&self) -> &[u8] {
        self.slice(self.run_end)
    }

    fn slice(&self, to: u32) -> &[u8] {
        self.buf.as_ref().map_or(&[], |buf| &buf.as_slice()[self.from as usize..to as usize])
    }

    fn put(&mut self, bytes: usize) {
        // A buffer has at most `u32::MAX` bytes: `Flow::read` sees to that.
        (self.from, self.to, self.full) = (0, bytes as u32, true);
        self.run_end = self.to;
    }

    /// Keeps no more memory than the bytes in it need; answers the buffer, if that is another one.
    fn shrink(&mut self) -> Option<Buf> {
        if self.full && matches!(self.buf, Some(Buf::Rest(_))) {
            return None;
        }
        let rest: Option<Box<[u8]>> = self.full.then(|| self.held().into());
        let buf = std::mem::replace(&mut self.buf, rest.map(Buf::Rest));
        (self.from, self.to, self.run_end) = (0, self.to - self.from, self.run_end - self.from);
        buf
    }

    /// The next bytes have been delivered, or counted as zeros.
    fn gone(&mut self, bytes: usize) {
        self.from += bytes as u32;
        if self.from == self.to {
            self.clear();
        }
    }

    fn clear(&mut self) {
        (self.from, self.to, self.run_end, self.full) = (0, 0, 0, false);
    }
}

/// One stream of bytes from a source to a target. See the [module](self) for how it is driven.
///
/// ```
/// use std::io::{Read, Write};
/// use std::os::fd::AsFd;
/// use gush::flow::{End, Fds, Flow, Next, Shelf, Stance, Terms};
///
/// let (mut client, near) = std::os::unix::net::UnixStream::pair()?;
/// let mut arrived = tempfile::tempfile()?;
/// client.write_all(b"to the file")?;
/// drop(client);
///
/// let fds = Fds { source: near.as_fd(), target: arrived.as_fd() };
/// let mut shelf = Shelf::new(gush::pipe::Pool::shared().clone());
/// let mut flow =
///     Flow::between(Stance::of(&near)?, Stance::of(&arrived)?, &Terms::default()).unwrap();
/// let end = loop {
///     match flow.next(u64::MAX, &mut shelf) {
///         Next::Do(op) => {
///             let answer = flow.perform(op, fds);
///             flow.learn(op, answer, &mut ());
///         }
///         Next::Ended(end) => break end,
///         other => panic!("everything is there already: {other:?}"),
///     }
/// };
/// assert_eq!((end, flow.delivered_bytes()), (End::Proven, 11));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Flow {
    source: Stance,
    target: Stance,
    ways: Ways,
    course: Course,
    hand: Hand,
    /// The pipe, while bytes are in it or about to be.
    pipe: Option<PipeLoan>,
    /// The bytes in the pipe are pages of the hand, lent to it (vmsplice), and perhaps the rest of the last page.
    lends: bool,
    /// The target refused a splice: what is in flight leaves by plain writes, then the way changes.
    spills: bool,
    /// Zeros that were taken, and are not yet a hole of the target.
    zeros_bytes: u64,
    hole_bytes: u64,
    makes_holes: bool,
    gift: bool,
    /// Between streams: the source has more than a short message.
    bulk: bool,
    /// A method was asked for by name.
    named: bool,
    /// This way said "nothing more" and a `read` found bytes: the second time it is refused.
    false_end: bool,
    /// The side to wait for, to be told once.
    wait: Option<Side>,
    /// Sides that are to be polled before `EAGAIN` of a call that concerns both is understood.
    ask: Sides,
    /// Sides that poll(2) has just found ready.
    ready: Sides,
    /// The size of the next datagram, if it was asked for.
    datagram_bytes: Option<u32>,
    short_bytes: u32,
    buffer_bytes: u32,
    call_bytes: u32,
    message_bytes: u32,
    /// What the source still holds, as far as it said.
    expected_bytes: Option<u64>,
    left_bytes: Option<u64>,
    taken_bytes: u64,
    delivered_bytes: u64,
    failed: Option<Box<Failure>>,
}

/// None, one or both of the two sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sides {
    source: bool,
    target: bool,
}

impl Sides {
    fn set(&mut self, side: Side, yes: bool) {
        match side {
            Side::Source => self.source = yes,
            Side::Target => self.target = yes,
        }
    }

    fn first(self) -> Option<Side> {
        match self {
            Sides { source: true, .. } => Some(Side::Source),
            Sides { target: true, .. } => Some(Side::Target),
            _ => None,
        }
    }
}

/// A stream has no boundaries: its pieces become datagrams of at most so many bytes, as with socat.
const STREAM_TO_DATAGRAM_BYTES: usize = 8192;
/// The largest datagram of UDP; a unix socket's may be larger, and is measured.
const DATAGRAM_BYTES: u32 = 64 << 10;
/// The largest buffer that one datagram gets (invariant 8).
const MOST_DATAGRAM_BYTES: u32 = 8 << 20;
/// A run of zeros becomes a hole when it is as long as this, so that a long one shows its progress.
const ZEROS_BYTES: u64 = 512 << 20;
/// The most bytes of one call: above 2 GiB splice(2) answers EINVAL (`rw_verify_area` of `fs/read_write.c`).
const CALL_BYTES: usize = 1 << 30;
/// What is taken at a time where only a `read` can tell whether there is more.
const DOUBT_BYTES: usize = 4096;
const NO_PIPE: &str =
    "no pipe can be had: the user's pages for pipes or the descriptors are used up";
/// What leaves a pipe by plain writes does so in pieces of this size.
const SPILL_BYTES: usize = 64 << 10;
/// A splice that gave less than this part of a short message's limit moved a short message: the next one
/// goes through memory again. Well below the limit, so that a stream in between does not change its way
/// with every piece.
const SHORT_PART: u32 = 4;

impl Flow {
    /// The most calls in turn that neither move a byte nor wait: a poll of each side, a splice that answers
    /// `EAGAIN`, a poll of each side again, and the `read` that decides.
    pub const MOST_IDLE_OPS: u32 = 6;

    /// A flow between two ports. No call is made.
    ///
    /// # Errors
    /// The refusal of a method that was asked for by name.
    pub fn between(source: Stance, target: Stance, terms: &Terms) -> Result<Self, Refusal> {
        Ok(Self::by(Ways::between(&source, &target, terms)?, source, target, terms))
    }

    /// The same, by these ways.
    fn by(ways: Ways, source: Stance, target: Stance, terms: &Terms) -> Self {
        // A size that was named is the user's to answer for.
        let call_bytes = match terms.call_bytes {
            named if named < CALL_BYTES => named,
            _ => source.splice_bytes(&target).min(CALL_BYTES),
        };
        let as_u32 = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX).max(1);
        Self {
            ways,
            source,
            target,
            course: Course::Take,
            hand: Hand::default(),
            pipe: None,
            lends: false,
            spills: false,
            zeros_bytes: 0,
            hole_bytes: 0,
            makes_holes: terms.make_holes && target.offset_bytes().is_some(),
            gift: terms.gift,
            bulk: false,
            named: terms.choice != Choice::Auto,
            false_end: false,
            wait: None,
            ask: Sides::default(),
            ready: Sides::default(),
            datagram_bytes: None,
            short_bytes: as_u32(terms.short_bytes),
            buffer_bytes: as_u32(terms.buffer_bytes),
            call_bytes: as_u32(call_bytes),
            message_bytes: as_u32(terms.message_bytes),
            expected_bytes: terms.expected_bytes,
            left_bytes: terms.length_bytes,
            taken_bytes: 0,
            delivered_bytes: 0,
            failed: None,
        }
    }

    /// Bytes that left the source.
    #[must_use]
    pub fn taken_bytes(&self) -> u64 {
        self.taken_bytes
    }

    /// Bytes that reached the target.
    #[must_use]
    pub fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes
    }

    /// Bytes taken and not yet delivered.
    #[must_use]
    pub fn in_flight_bytes(&self) -> u64 {
        self.taken_bytes - self.delivered_bytes
    }

    /// Of the bytes delivered, those that are a hole of the target.
    #[must_use]
    pub fn hole_bytes(&self) -> u64 {
        self.hole_bytes
    }

    /// Does the flow hold nothing but what is in flight? True after [`Flow::rest`].
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        let idle_pipe = self.pipe.as_ref().is_some_and(|pipe| pipe.is_empty());
        let idle_buf = self.hand.buf.is_some() && !self.hand.full;
        !idle_pipe && !idle_buf
    }

    /// Decides the next call. At most `may_take_bytes` will be taken by it; a datagram may exceed them.
    pub fn next(&mut self, may_take_bytes: u64, lender: &mut dyn Lender) -> Next {
        // What was taken is delivered first (invariant 1).
        if let Some(failure) = &self.failed
            && !(self.spills && self.in_flight_bytes() > 0)
        {
            return match self.zeros_bytes > 0 && self.makes_holes && failure.is_of_source() {
                true => Next::Do(Op::Punch(self.zeros_bytes)),
                false => Next::Failed(failure.clone()),
            };
        }
        if let Some(side) = self.wait.take() {
            return Next::Wait(side);
        }
        if let Some(side) = self.ask.first() {
            return Next::Do(Op::Ready(side));
        }
        if self.hand.full
            && let Some(next) = self.deliver(lender)
        {
            return next;
        }
        if self.pipe.as_ref().is_some_and(|pipe| !pipe.is_empty()) {
            return if self.lends {
                Next::Do(Op::Discard)
            } else if self.spills {
                self.with_buf(lender, Op::Spill)
            } else {
                self.ready_for(Op::Empty)
            };
        }
        if std::mem::take(&mut self.spills) {
            self.ways.advance();
        }
        let left_bytes = self.left_bytes.unwrap_or(u64::MAX);
        let takes_more = self.course != Course::Over && left_bytes > 0 && may_take_bytes > 0;
        if self.zeros_bytes > 0 && !(takes_more && self.zeros_bytes < ZEROS_BYTES) {
            return Next::Do(Op::Punch(self.zeros_bytes));
        }
        match self.course {
            Course::Over => return Next::Ended(End::Proven),
            _ if left_bytes == 0 => return Next::Ended(End::Limit),
            _ if may_take_bytes == 0 => return Next::Throttled,
            Course::Take | Course::Doubt => {}
        }
        let most =
            usize::try_from(may_take_bytes.min(left_bytes)).unwrap_or(CALL_BYTES).min(CALL_BYTES);
        let way = self.ways.now();
        if self.expected_bytes == Some(0) && !way.reads() {
            self.course = Course::Doubt;
        }
        if self.course == Course::Doubt {
            return self.read(lender, most.min(DOUBT_BYTES));
        }
        match way {
            Way::Memory => self.read(lender, most.min(self.buffer_bytes as usize)),
            Way::Adaptive if !self.bulk => self.read(lender, most.min(self.short_bytes as usize)),
            Way::Adaptive | Way::Piped => self.fill(lender, most),
            Way::Lent => self.read_to_lend(lender, most.min(self.buffer_bytes as usize)),
            Way::Direct => self.ready_for(Op::Direct(most.min(self.call_bytes as usize))),
            Way::Sendfile => self.ready_for(Op::Sendfile(most.min(self.call_bytes as usize))),
        }
    }

    /// The call that delivers what is in hand; `None` if all of it turned out to be zeros to leave out.
    fn deliver(&mut self, lender: &mut dyn Lender) -> Option<Next> {
        // Zeros are passed over until data, the end or a limit shows how long their run is.
        while let Some(at) = self.target.offset_bytes().filter(|_| self.makes_holes) {
            match zeros::first_run(self.hand.held(), at + self.zeros_bytes) {
                Run::Data(bytes) => {
                    self.hand.run_end = self.hand.from + bytes as u32;
                    break;
                }
                Run::Zeros(bytes) => {
                    self.zeros_bytes += bytes as u64;
                    self.hand.gone(bytes);
                    if !self.hand.full {
                        return None;
                    }
                }
            }
        }
        if self.zeros_bytes > 0 {
            return Some(Next::Do(Op::Punch(self.zeros_bytes)));
        }
        if self.ways.now() != Way::Lent || self.spills {
            return Some(Next::Do(Op::Write));
        }
        Some(self.lend(lender))
    }

    /// Lends what is in hand to the pipe, and empties that; where no pipe can be had the bytes are written.
    fn lend(&mut self, lender: &mut dyn Lender) -> Next {
        if self.pipe.is_none() {
            self.pipe = lender.pipe();
        }
        let is_page = self.hand.buf.as_mut().is_some_and(Buf::lend);
        match &self.pipe {
            Some(pipe) if is_page && pipe.is_empty() => Next::Do(Op::Lend),
            Some(_) if is_page => self.ready_for(Op::Empty),
            _ => Next::Do(Op::Write),
        }
    }

    /// Reads as much as the pipe can be lent at once.
    fn read_to_lend(&mut self, lender: &mut dyn Lender, most: usize) -> Next {
        if self.pipe.is_none() {
            self.pipe = lender.pipe();
        }
        let Some(pipe) = &self.pipe else { return self.lacks_pipe(lender, most) };
        let room_bytes = match self.target.keeps_boundaries() {
            true => pipe.capacity_bytes().min(page_bytes()),
            false => pipe.capacity_bytes(),
        };
        if self.source.keeps_boundaries()
            && let Some(next) = self.measure().or_else(|| self.refuse_cut(room_bytes, lender, most))
        {
            return next;
        }
        self.read(lender, most.min(room_bytes))
    }

    /// A read through memory; datagrams whole, whatever may be taken.
    fn read(&mut self, lender: &mut dyn Lender, most: usize) -> Next {
        if !self.source.keeps_boundaries() {
            let most = match self.target.keeps_boundaries() {
                true => most.min(self.message_bytes as usize),
                false => most,
            };
            return self.with_buf(lender, Op::Read(most));
        }
        if let Some(next) = self.measure() {
            return next;
        }
        let whole = self.datagram_bytes.unwrap_or(0).max(DATAGRAM_BYTES) as usize;
        self.with_buf(lender, Op::Read(whole))
    }

    /// What must happen before a datagram can be taken whole: it is measured, and must fit what is left.
    fn measure(&mut self) -> Option<Next> {
        let Some(bytes) = self.datagram_bytes else { return Some(Next::Do(Op::Measure)) };
        let fits = self.left_bytes.is_none_or(|left| u64::from(bytes) <= left)
            && bytes <= MOST_DATAGRAM_BYTES;
        let fault = Fault { call: Call::Recv, side: Side::Source, errno: Errno::MSGSIZE };
        (!fits).then(|| self.fail(Failure::Fault(fault)))
    }

    /// A call that puts bytes into the buffer, once there is one that is large enough.
    fn with_buf(&mut self, lender: &mut dyn Lender, op: Op) -> Next {
        let wanted = match op {
            Op::Read(most) => most,
            // All at once: as a message it may not be cut.
            _ if self.target.keeps_boundaries() => self.piped_bytes(),
            _ => SPILL_BYTES,
        };
        // A file has copied what was lent to the pipe; any other target may still hold the pages.
        if self.target.kind() == Kind::File
            && let Some(buf) = &mut self.hand.buf
        {
            buf.reclaim();
        }
        if !self.hand.buf.as_ref().is_some_and(|buf| buf.can_be_filled(wanted)) {
            if let Some(useless) = self.hand.buf.take() {
                lender.take_back(useless);
            }
            match lender.buf(wanted) {
                Ok(buf) => self.hand.buf = Some(buf),
                Err(errno) => {
                    let side = Side::Source;
                    return self.fail(Failure::Fault(Fault { call: Call::Mmap, side, errno }));
                }
            }
        }
        Next::Do(op)
    }

    /// Fills a pipe; where none can be had, bytes go through memory, unless splice was asked for by name.
    fn fill(&mut self, lender: &mut dyn Lender, most: usize) -> Next {
        if self.pipe.is_none() {
            self.pipe = lender.pipe();
        }
        if let Some(pipe) = &self.pipe {
            let room_bytes = pipe.capacity_bytes();
            return match self.source.keeps_boundaries() {
                true => self.fill_whole(lender, most, room_bytes),
                false => self.ready_for(Op::Fill(most.min(self.call_bytes as usize))),
            };
        }
        self.lacks_pipe(lender, most)
    }

    /// No pipe can be had: bytes go through memory, unless a method was asked for by name.
    fn lacks_pipe(&mut self, lender: &mut dyn Lender, most: usize) -> Next {
        if self.named {
            let refusal = Refusal::because(self.ways.now().method(), NO_PIPE);
            return self.fail(Failure::Refused(refusal));
        }
        self.read(lender, most.min(self.buffer_bytes as usize))
    }

    /// A datagram that the empty pipe has no room for would be cut by the splice: a slot takes a page of it
    /// (`copy_splice_read` of `fs/splice.c`), and into a unix datagram socket each slot becomes a message of
    /// its own (`tests/datagrams.rs`).
    fn fill_whole(&mut self, lender: &mut dyn Lender, most: usize, room_bytes: usize) -> Next {
        if let Some(next) = self.measure() {
            return next;
        }
        let room_bytes = match self.target.keeps_boundaries() {
            true => room_bytes.min(page_bytes()),
            false => room_bytes,
        };
        match self.refuse_cut(room_bytes, lender, most) {
            Some(next) => next,
            // A splice would take it and answer 0.
            None if self.datagram_bytes == Some(0) => self.read(lender, most),
            None => self.ready_for(Op::Fill(room_bytes)),
        }
    }

    /// Refuses the way if the datagram that was measured has no room.
    fn refuse_cut(
        &mut self,
        room_bytes: usize,
        lender: &mut dyn Lender,
        most: usize,
    ) -> Option<Next> {
        if self.datagram_bytes.unwrap_or(0) as usize <= room_bytes {
            return None;
        }
        let fault = Fault { call: Call::Splice, side: Side::Source, errno: Errno::MSGSIZE };
        let refusal = Refusal::by_kernel(self.ways.now().method(), fault.call, fault.errno);
        self.refuse(Op::Fill(most), refusal, fault);
        Some(self.next(most as u64, lender))
    }

    fn piped_bytes(&self) -> usize {
        self.pipe
            .as_ref()
            .map_or(0, |pipe| usize::try_from(pipe.held_bytes()).unwrap_or(SPILL_BYTES))
    }

    /// Invariant 5: a side that no flag keeps from waiting is polled first.
    fn ready_for(&mut self, op: Op) -> Next {
        let (source, target) = op.touches();
        if source && self.source.must_be_polled(op) && !self.ready.source {
            return Next::Do(Op::Ready(Side::Source));
        }
        if target && self.target.must_be_polled(op) && !self.ready.target {
            return Next::Do(Op::Ready(Side::Target));
        }
        Next::Do(op)
    }

    /// Not even plain writes go on.
    fn fail_for_good(&mut self, fault: Fault) {
        self.spills = false;
        self.failed = Some(Box::new(Failure::Fault(fault)));
    }

    fn fail(&mut self, failure: Failure) -> Next {
        let failure = Box::new(failure);
        self.failed = Some(failure.clone());
        Next::Failed(failure)
    }

    /// The side whose readiness an `EAGAIN` of this call disproves; `None` where the answer does not say:
    /// then the flow asks each side by itself.
    #[must_use]
    pub fn clears(&self, op: Op) -> Option<Side> {
        match op {
            Op::Measure | Op::Read(_) | Op::Ready(Side::Source) => Some(Side::Source),
            Op::Write | Op::Empty | Op::Punch(_) | Op::Ready(Side::Target) => Some(Side::Target),
            // The pipe is empty, so only the source is meant; a stream may be at its urgent mark.
            Op::Fill(_) if self.source.kind() != Kind::Stream => Some(Side::Source),
            Op::Fill(_) | Op::Direct(_) | Op::Sendfile(_) => None,
            // Nobody else has the pipe: it has no EAGAIN.
            Op::Spill | Op::Lend | Op::Discard => None,
        }
    }

    /// Learns the answer of a call.
    pub fn learn(&mut self, op: Op, answer: io::Result<usize>, eye: &mut dyn Eye) -> Moved {
        if !matches!(op, Op::Ready(_)) {
            self.ready = Sides::default();
        }
        match answer {
            Ok(bytes) => self.learn_bytes(op, bytes, eye),
            Err(Errno::INTR) => Moved::default(),
            Err(Errno::AGAIN) if !op.is_private() => {
                self.learn_again(op);
                Moved::default()
            }
            // The slave of a pseudo-terminal was closed (pty(7)).
            Err(Errno::IO) if matches!(op, Op::Read(_)) && self.source.is_master() => {
                self.learn_bytes(op, 0, eye)
            }
            Err(errno) => self.learn_error(op, errno),
        }
    }

    fn learn_again(&mut self, op: Op) {
        // The datagram that was measured is not there any more, or none was.
        self.datagram_bytes = None;
        match self.clears(op) {
            Some(side) => {
                self.ask = Sides::default();
                self.course = if self.course == Course::Doubt { Course::Take } else { self.course };
                self.wait = Some(side);
            }
            None => {
                let (source, target) = op.touches();
                self.ask = Sides {
                    source: source && self.source.can_answer_again(),
                    target: target && self.target.can_answer_again(),
                };
                // Neither can be asked, so neither can be waited for: a `read` answers.
                if self.ask.first().is_none() {
                    self.course = Course::Doubt;
                }
            }
        }
    }

    fn learn_error(&mut self, op: Op, errno: Errno) -> Moved {
        let fault = op.fault(errno, self);
        if let Op::Punch(_) = op {
            self.makes_holes = false;
            // What ended the flow before the last hole was to be made stays the cause.
            if self.failed.is_some() {
                return Moved::default();
            }
        }
        if op == Op::Discard {
            // What is in the pipe is no data: another pipe will do.
            (self.pipe, self.lends) = (None, false);
            return Moved::default();
        }
        if op == Op::Lend && errno == Errno::AGAIN {
            // Nothing can be in the pipe: this once the bytes are written.
            self.hand.shrink();
            return Moved::default();
        }
        let by_reference =
            matches!(op, Op::Fill(_) | Op::Lend | Op::Empty | Op::Direct(_) | Op::Sendfile(_));
        if by_reference && is_refusal(errno) {
            return self.refuse(
                op,
                Refusal::by_kernel(self.ways.now().method(), fault.call, errno),
                fault,
            );
        }
        self.fail_for_good(fault);
        Moved::default()
    }

    /// The way is refused: the next one begins, or, where bytes are in the pipe, plain writes deliver them.
    fn refuse(&mut self, op: Op, refusal: Refusal, fault: Fault) -> Moved {
        self.false_end = false;
        self.course = Course::Take;
        self.spills = matches!(op, Op::Lend | Op::Empty);
        if std::mem::take(&mut self.lends) || op == Op::Lend {
            // The hand has all of it still, and writes it.
            self.pipe = None;
        }
        if !self.ways.has_next() {
            self.failed = Some(Box::new(match refusal.call {
                Some(_) if self.named => Failure::Refused(refusal.clone()),
                None if self.named => Failure::FalseEnd(refusal.clone()),
                _ => Failure::Fault(fault),
            }));
        } else if !self.spills {
            self.ways.advance();
        }
        Moved { refusal: Some(Box::new(refusal)), ..Moved::default() }
    }

    fn learn_bytes(&mut self, op: Op, bytes: usize, eye: &mut dyn Eye) -> Moved {
        match op {
            Op::Ready(side) => {
                self.learn_ready(side);
                Moved::default()
            }
            Op::Measure => {
                self.datagram_bytes = Some(u32::try_from(bytes).unwrap_or(u32::MAX));
                Moved::default()
            }
            Op::Read(_) => self.learn_read(bytes),
            Op::Write => self.learn_write(bytes, eye),
            Op::Fill(_) | Op::Direct(_) | Op::Sendfile(_) if bytes == 0 => self.learn_nothing(op),
            Op::Fill(_) => {
                self.datagram_bytes = None;
                if let Some(pipe) = &mut self.pipe {
                    pipe.put(bytes);
                }
                self.bulk = bytes >= (self.short_bytes / SHORT_PART) as usize;
                self.false_end = false;
                self.took(bytes, MethodName::Splice)
            }
            Op::Lend | Op::Empty if bytes == 0 => {
                // A target that takes nothing of something never will.
                let fault = Fault { call: op.call(), side: Side::Target, errno: Errno::IO };
                let method = self.ways.now().method();
                self.refuse(op, Refusal::by_kernel(method, op.call(), Errno::IO), fault)
            }
            Op::Lend => {
                if let Some(pipe) = &mut self.pipe {
                    pipe.put(bytes);
                }
                self.lends = true;
                Moved::default()
            }
            Op::Empty => {
                if let Some(pipe) = &mut self.pipe {
                    pipe.gone(bytes);
                }
                if !self.lends {
                    return self.delivered(bytes, MethodName::Splice);
                }
                eye.bytes(&self.hand.held()[..bytes]);
                self.hand.gone(bytes);
                self.lends = self.pipe.as_ref().is_some_and(|pipe| !pipe.is_empty());
                self.delivered(bytes, MethodName::Vmsplice)
            }
            Op::Spill | Op::Discard if bytes == 0 => self.learn_error(op, Errno::IO),
            Op::Discard => {
                if let Some(pipe) = &mut self.pipe {
                    pipe.gone(bytes);
                    self.lends = !pipe.is_empty();
                }
                Moved::default()
            }
            Op::Punch(_) => {
                let zeros_bytes = std::mem::take(&mut self.zeros_bytes);
                self.target.skip(zeros_bytes);
                self.hole_bytes += zeros_bytes;
                eye.gap(zeros_bytes);
                self.delivered(zeros_bytes as usize, MethodName::ReadWrite)
            }
            Op::Spill => {
                if let Some(pipe) = &mut self.pipe {
                    pipe.gone(bytes);
                }
                self.hand.put(bytes);
                Moved::default()
            }
            Op::Direct(_) | Op::Sendfile(_) => {
                self.false_end = false;
                let method = self.ways.now().method();
                let taken_bytes = self.took(bytes, method).taken_bytes;
                Moved { taken_bytes, ..self.delivered(bytes, method) }
            }
        }
    }

    fn learn_ready(&mut self, side: Side) {
        let was_asked = self.ask != Sides::default();
        self.ask.set(side, false);
        if !was_asked {
            self.ready.set(side, true);
        } else if self.ask.first().is_none() {
            self.course = Course::Doubt;
        }
    }

    fn learn_read(&mut self, bytes: usize) -> Moved {
        self.datagram_bytes = None;
        if bytes == 0 && self.source.ends_at_zero() {
            self.course = Course::Over;
            return Moved::default();
        }
        match self.course {
            Course::Take => self.bulk = bytes >= self.short_bytes as usize,
            // There is more than was said.
            Course::Doubt | Course::Over => self.expected_bytes = None,
        }
        self.course = Course::Take;
        if bytes > 0 || self.target.takes_empty() {
            self.hand.put(bytes);
        }
        let method =
            if self.ways.now().reads() { self.ways.now().method() } else { MethodName::ReadWrite };
        self.took(bytes, method)
    }

    fn learn_write(&mut self, bytes: usize, eye: &mut dyn Eye) -> Moved {
        let held = self.hand.run();
        // write(2) of something answers 0 only where it would for ever.
        let is_stuck = bytes == 0 && !held.is_empty();
        // What is left of a message has no place in the next one.
        let is_cut = self.target.keeps_boundaries() && bytes < held.len();
        eye.bytes(&held[..bytes]);
        self.hand.gone(bytes);
        if is_stuck || is_cut {
            let errno = if is_stuck { Errno::IO } else { Errno::MSGSIZE };
            self.fail_for_good(Fault { call: Call::Write, side: Side::Target, errno });
        }
        self.delivered(bytes, MethodName::ReadWrite)
    }

    /// A call other than `read` answered 0: a question, which only a `read` can answer.
    fn learn_nothing(&mut self, op: Op) -> Moved {
        self.datagram_bytes = None;
        // A stream may be at its urgent mark again and again, and a read gets past that.
        let may_be_often = self.named && self.source.kind().can_idle();
        if self.source.kind() == Kind::Terminal {
            // The end was typed, and this call has taken it: a `read` would wait for more.
            self.course = Course::Over;
        } else if std::mem::replace(&mut self.false_end, true) && !may_be_often {
            let why = "it reports the end before the end";
            let fault = Fault { call: op.call(), side: Side::Source, errno: Errno::IO };
            return self.refuse(op, Refusal::because(self.ways.now().method(), why), fault);
        } else {
            self.course = Course::Doubt;
        }
        Moved::default()
    }

    fn took(&mut self, bytes: usize, method: MethodName) -> Moved {
        let taken_bytes = bytes as u64;
        self.taken_bytes += taken_bytes;
        for left in [&mut self.left_bytes, &mut self.expected_bytes].into_iter().flatten() {
            *left = left.saturating_sub(taken_bytes);
        }
        Moved { taken_bytes, method: Some(method), ..Moved::default() }
    }

    fn delivered(&mut self, bytes: usize, method: MethodName) -> Moved {
        let delivered_bytes = bytes as u64;
        self.delivered_bytes += delivered_bytes;
        Moved { delivered_bytes, method: Some(method), ..Moved::default() }
    }

    /// Gives back what holds nothing, and shrinks what holds a little: to be called before the driver parks.
    pub fn rest(&mut self, lender: &mut dyn Lender) {
        if self.pipe.as_ref().is_some_and(|pipe| pipe.is_empty()) {
            self.pipe = None;
        }
        // Pages that the pipe holds are in flight themselves.
        if !self.lends
            && let Some(buf) = self.hand.shrink()
        {
            lender.take_back(buf);
        }
    }
}
