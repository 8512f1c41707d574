//! The flow: one stream of bytes from a source to a target, as a value without I/O.
//!
//! A flow *decides*, a driver *calls*, the flow *learns*:
//!
//! ```text
//! loop {
//!     match flow.next(may_take_bytes, lender) {
//!         Next::Do(op)     => let answer = flow.perform(op, fds); flow.learn(op, answer, eye)
//!         Next::Wait(side) => the driver waits: poll(2), tokio's readiness, a test's script
//!         Next::Throttled  => nothing may be taken now: the driver's clock decides
//!         Next::Ended(end) => everything that was taken is delivered
//!         Next::Failed(_)  => `in_flight_bytes` says how much was taken and not delivered
//!     }
//! }
//! ```
//!
//! Every rule about *bytes* is here, once: which way is tried in which order and when a refusal leads to
//! the next; how the bytes in flight are delivered; how the end is proven; where datagrams begin and
//! end; short messages through memory, long ones by reference; the counts of bytes taken and delivered.
//! Every rule about *waiting and time* belongs to the driver.
//!
//! # Invariants
//! - *Nothing lost, nothing twice.* `taken = delivered + in flight` after every answer; nothing is taken
//!   while anything is in flight, except more zeros behind a run of zeros that becomes a hole.
//! - *Only a `read` that answers 0 is the end.* A 0 from splice(2) or sendfile(2) makes the next call a
//!   short `read`, whose bytes, if there are any, are delivered. Terminals are excepted: their splice is a read, so
//!   a 0 there is an end.
//! - *A target without a reader is a failure only of a source that has bytes.* splice(2) answers EPIPE before looking at
//!   the source (`splice_file_to_pipe` of `fs/splice.c`), where a `read` might find the end: the source is asked, without
//!   taking anything where a look can tell.
//! - *A packet is never cut.* A `read` of less than a packet of a pipe (O_DIRECT of pipe(2)) drops the rest of the packet, and nobody can ask
//!   whether a pipe holds packets. Less than a page of a pipe is spliced into a pipe of the flow's own, and all of it read there.
//! - *A refusal changes nothing but the way.* Bytes already in a pipe leave by `read` and
//!   `write` before the next way begins.
//! - *[`Next::Wait`] comes only after an `EAGAIN` about this side alone*, so that a driver may
//!   clear the side's readiness in the same breath ([`Flow::clears`]). splice(2) between two ports which
//!   can both idle, and splice(2) from a TCP socket, do not say which side they mean: each side is asked
//!   by poll(2), and if both are ready a `read` decides. So the flow gets past the urgent mark of a TCP
//!   socket, which polls readable and answers splice with `EAGAIN` (`tcp_splice_read` of `net/ipv4/tcp.c`).
//! - *At most [`Flow::MOST_IDLE_OPS`] calls without progress*, then the flow waits or ends.
//!
//! # For drivers
//! Ops, outcomes and terms are matched and built by drivers, so that these types are exhaustive: a new one is a new major version.
//!
//! # Panics
//! A flow trusts its driver. An answer to a call that was not due, or of more bytes than the call could move, breaks the account:
//! [`Flow::learn`] panics where the flow can tell, and elsewhere the counts are wrong from then on.
//!
//! # Drawbacks
//! A short message costs one pass through `next` and `learn` for each of its two calls: some twenty
//! nanoseconds beside the microsecond of the calls. Several operations under way at once, as in a
//! ring, need several flows, or the ranges of [`crate::Mover`].

mod backlog;
mod decide;
mod fan;
mod hand;
mod held;
mod learn;
mod lend;
mod next;
mod op;
mod spread;
mod state;
mod terms;
mod way;

pub use crate::port::PortState;
pub(crate) use backlog::Backlog;
pub use fan::{Fan, FanFds, FanNext, FanOp, Interest, Who};
pub use lend::{Buf, Lender, Shelf};
pub use next::{End, Eye, Failure, Moved, Next};
pub use op::{Fds, Op};
pub(crate) use spread::{NUMBERS, Spread, count_targets};
pub use terms::Terms;
pub(crate) use way::{gains_by_own_pipe, splices_directly};

use hand::Hand;
use held::{Held, Leaves};
pub(crate) use state::FalseEnds;
use state::{FixedTerms, Readiness, SourceState, Tally};
use way::{Way, Ways};

use crate::method::Refusal;

/// One stream of bytes from a source to a target. The [module](self) says how a flow is driven.
///
/// ```
/// use std::io::{Read, Write};
/// use std::os::fd::AsFd;
/// use gush::flow::{End, Fds, Flow, Next, Shelf, PortState, Terms};
///
/// let (mut client, near) = std::os::unix::net::UnixStream::pair()?;
/// let mut arrived = tempfile::tempfile()?;
/// client.write_all(b"to the file")?;
/// drop(client);
///
/// let fds = Fds { source: near.as_fd(), target: arrived.as_fd() };
/// let mut shelf = Shelf::new(gush::pipe::Pool::shared().clone());
/// let mut flow =
///     Flow::between(PortState::of(&near)?, PortState::of(&arrived)?, &Terms::default()).unwrap();
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
    source: PortState,
    target: PortState,
    ways: Ways,
    fixed: FixedTerms,
    source_state: SourceState,
    held: Held,
    readiness: Readiness,
    tally: Tally,
    /// How often in turn this way said "nothing more" where a `read` found bytes.
    false_ends: FalseEnds,
    /// The size of the next datagram, once measured.
    datagram_bytes: Option<u32>,
    /// Runs of zeros become holes, until the target refuses one.
    makes_holes: bool,
    /// Sips are refused here: bytes are read, however few.
    cannot_sip: bool,
    /// Between streams: the source has more than a short message.
    bulk: bool,
    /// After the bytes in hand comes the end, which the driver passes on at once.
    end_follows: bool,
    /// The source's urgent bytes, if any have come, are not known to the driver.
    may_be_urgent: bool,
    failed: Option<Box<Failure>>,
}

/// A stream has no boundaries: pieces become datagrams of at most so many bytes, as with socat.
pub(crate) const STREAM_TO_DATAGRAM_BYTES: usize = 8192;
/// The largest datagram of UDP; a unix socket's may be larger, and is measured.
const DATAGRAM_BYTES: u32 = 64 << 10;
/// A run of zeros becomes a hole after so many bytes, so that a long run shows progress.
const ZEROS_BYTES: u64 = 512 << 20;
/// The most bytes of one call: above 2 GiB splice(2) answers EINVAL (`rw_verify_area` of `fs/read_write.c`).
const CALL_BYTES: usize = 1 << 30;
/// The most bytes of a `read` that asks whether there is more.
const DOUBT_BYTES: usize = 4096;
const NO_PIPE: &str = "no pipe can be had: this process' share of the user's pages for pipes, or of the descriptors, is used up";
/// The size of the pieces in which bytes leave a pipe by plain writes.
const SPILL_BYTES: usize = 64 << 10;
/// A splice of less than this part of a short message's limit moved a short message: the next one
/// goes through memory again. Well below the limit, so that a stream in between does not change its way
/// with every piece.
const SHORT_PART: u32 = 4;

impl Flow {
    /// The most calls in turn without a byte moved or a wait: a poll of each side, a splice with the answer
    /// `EAGAIN`, a poll of each side again, and the deciding `read`.
    pub const MOST_IDLE_OPS: u32 = 6;

    /// A flow between two ports. No call is made.
    ///
    /// # Errors
    /// The refusal of a method asked for by name.
    pub fn between(source: PortState, target: PortState, terms: &Terms) -> Result<Self, Refusal> {
        Ok(Self::by(Ways::between(&source, &target, terms)?, source, target, terms))
    }

    /// The source and the target.
    pub(crate) fn sides(&self) -> (&PortState, &PortState) {
        (&self.source, &self.target)
    }

    /// The same, by these ways.
    fn by(ways: Ways, source: PortState, target: PortState, terms: &Terms) -> Self {
        // A size that was named is the user's to answer for.
        let call_bytes = match terms.call_bytes {
            named if named < CALL_BYTES => named,
            // A quarter of the pipe a call lets the programs at both ends work at once.
            _ if ways.now() == Way::Direct => splice_bytes(&source, &target).min(CALL_BYTES),
            _ => CALL_BYTES,
        };
        Self {
            ways,
            source,
            target,
            fixed: FixedTerms::of(terms, call_bytes),
            source_state: SourceState::Take,
            held: Held::default(),
            readiness: Readiness::default(),
            tally: Tally::of(terms),
            false_ends: FalseEnds::default(),
            datagram_bytes: None,
            makes_holes: terms.make_holes && target.offset_bytes().is_some(),
            cannot_sip: false,
            bulk: false,
            end_follows: false,
            may_be_urgent: true,
            failed: None,
        }
    }

    /// Would the flow's first read find out whether the messages are short? A driver that can ask how many bytes have come says so
    /// before ([`Flow::expect_bytes`]), and no part of a long message is copied.
    #[must_use]
    pub fn is_undecided(&self) -> bool {
        self.ways.now() == Way::Adaptive && !self.bulk && self.tally.taken_bytes == 0
    }

    /// Says that so many bytes have come to the source. If they are no short message they go by reference, and the next
    /// operation is another.
    ///
    /// ```
    /// use gush::flow::{Flow, PortState, Terms};
    /// let (near, far) = std::os::unix::net::UnixStream::pair()?;
    /// let mut flow = Flow::between(PortState::of(&near)?, PortState::of(&far)?, &Terms::default())?;
    /// assert!(flow.is_undecided());
    /// flow.expect_bytes(1 << 20);
    /// assert!(!flow.is_undecided());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn expect_bytes(&mut self, bytes: u64) {
        self.bulk |= bytes >= u64::from(self.fixed.short_bytes);
    }

    /// Promises that the bytes in hand are the source's last, and that shutdown(2) of the target follows as soon as they are
    /// delivered. A TCP socket then sends them and the end in one segment, which saves a packet and its receiver a wake-up
    /// (`tcp_send_fin` of net/ipv4/tcp_output.c). After a broken promise the kernel keeps the bytes for a retransmission time-out, 200 ms
    /// or more (MSG_MORE, `tcp_probe_timer` of net/ipv4/tcp_timer.c), unless the driver asks for them ([`Flow::expects_end`]).
    /// Further bytes from the source take the promise back.
    pub fn expect_end(&mut self) {
        self.end_follows = true;
    }

    /// Was the end promised, and nothing taken since?
    #[must_use]
    pub fn expects_end(&self) -> bool {
        self.end_follows
    }

    /// Says whether urgent bytes may have come to a TCP source: at their mark splice(2) answers `EAGAIN` though there are more bytes, and
    /// only poll(2) and a `read` tell. A driver that hears of them otherwise (EPOLLPRI, epoll_ctl(2)), and has not, saves that poll.
    /// True at first.
    pub fn expect_urgent(&mut self, may_have_come: bool) {
        self.may_be_urgent = may_have_come;
    }

    /// Bytes taken from the source.
    #[must_use]
    pub fn taken_bytes(&self) -> u64 {
        self.tally.taken_bytes
    }

    /// Bytes delivered to the target.
    #[must_use]
    pub fn delivered_bytes(&self) -> u64 {
        self.tally.delivered_bytes
    }

    /// Bytes taken and not yet delivered.
    #[must_use]
    pub fn in_flight_bytes(&self) -> u64 {
        self.tally.taken_bytes - self.tally.delivered_bytes
    }

    /// The delivered bytes that are a hole of the target.
    #[must_use]
    pub fn hole_bytes(&self) -> u64 {
        self.tally.hole_bytes
    }

    /// Does the flow hold nothing but bytes in flight? True after [`Flow::rest`].
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.held.is_at_rest()
    }

    /// Gives back empty pipes and buffers, and shrinks nearly empty ones: to be called before the driver parks.
    pub fn rest(&mut self, lender: &mut dyn Lender) {
        self.held.rest(lender);
    }
}

/// The most bytes of one splice. From pipe to pipe whole slots change hands, which takes no time: as
/// many as there are. Otherwise a quarter of the pipe: the kernel wakes the other side once, when the
/// call is over (`splice_file_to_pipe` and `splice_from_pipe` of `fs/splice.c`), so that a call that
/// fills or empties the pipe makes the two sides take turns. A part of a pipe of 64 KiB or less is not
/// worth a call.
fn splice_bytes(source: &PortState, target: &PortState) -> usize {
    const PART: usize = 4;
    const LEAST_BYTES: usize = 64 << 10;
    match (source.pipe_bytes(), target.pipe_bytes()) {
        (Some(capacity), None) | (None, Some(capacity)) => (capacity / PART).max(LEAST_BYTES),
        (None, None) | (Some(_), Some(_)) => usize::MAX,
    }
}
