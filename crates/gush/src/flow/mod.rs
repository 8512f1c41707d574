//! The flow: one stream of bytes from a source to a target, as a value without I/O.
//!
//! A flow *decides*, a driver *calls*, the flow *learns*:
//!
//! ```text
//! loop {
//!     match flow.next(may_take_bytes, lender) {
//!         Next::Do(op)     => let answer = flow.perform(op, fds); flow.learn(op, answer, inspector)
//!         Next::Wait(side) => the driver waits: poll(2), tokio's readiness, a test's script
//!         Next::Throttled  => nothing may be taken now: the driver's clock decides
//!         Next::Ended(end) => everything that was taken is delivered
//!         Next::Failed(_)  => `in_flight_bytes` says how much was taken and not delivered
//!     }
//! }
//! ```
//!
//! Every rule about *bytes* is here, once: which route is tried when, and when a refusal leads to
//! the next; how bytes in flight are delivered; how the end is proven; where datagrams begin and
//! end; short messages through memory, long ones by reference; the counts. Every rule about
//! *waiting and time* belongs to the driver.
//!
//! # Invariants
//! - *Nothing lost, nothing twice.* `taken = delivered + in flight` after every answer; nothing is
//!   taken while anything is in flight, except zeros that extend a run that becomes a hole.
//! - *Only a `read` that answers 0 is the end.* A 0 from splice(2) or sendfile(2) makes the next
//!   call a short `read`, whose bytes are delivered. A terminal's splice is a read, so its 0 is an
//!   end.
//! - *A missing reader is a failure only if the source has bytes.* splice(2) answers EPIPE before
//!   it looks at the source (`splice_file_to_pipe` of `fs/splice.c`), which may have ended: the
//!   source is asked, without taking anything where that is possible.
//! - *A packet is never cut.* A `read` of less than a packet (O_DIRECT of pipe(2)) drops the rest,
//!   and nothing reports whether a pipe holds packets. Less than a page is spliced into a pipe of
//!   the flow's own, and read there to the end.
//! - *A refusal changes nothing but the route.* Bytes already in a pipe leave by `read` and
//!   `write` before the next route begins.
//! - *[`Next::Wait`] comes only after an `EAGAIN` about this side alone*, so that a driver may
//!   clear the side's readiness at once ([`Flow::clears`]). splice(2) between two ports that can
//!   both idle, and from a TCP socket, does not say which side it means: each is asked by poll(2),
//!   and if both are ready a `read` decides. This also passes the urgent mark of a TCP socket,
//!   which polls readable and answers splice with `EAGAIN` (`tcp_splice_read` of `net/ipv4/tcp.c`).
//! - *At most [`Flow::MOST_IDLE_OPS`] calls without progress*, then the flow waits or ends.
//!
//! # For drivers
//! The feature `unstable-flow` makes this module public, and any release may change it. Ops,
//! outcomes and terms are matched and built by drivers, so that the compiler finds what a change
//! breaks: these types are exhaustive.
//!
//! # Panics
//! A flow trusts its driver. An answer to a call that was not due, or of too many bytes, breaks the
//! account: [`Flow::learn`] panics where the flow can detect this.
//!
//! # Drawbacks
//! A short message costs one pass through `next` and `learn` for each of its two calls: some twenty
//! nanoseconds, next to the microsecond of the calls. Several operations under way at once, as in a
//! ring, need several flows, or the ranges of [`crate::Mover`].

mod backlog;
mod carry;
mod decide;
mod fan;
mod hand;
mod held;
mod learn;
mod lend;
mod next;
mod op;
mod route;
mod spread;
mod state;
mod terms;

pub use crate::port::PortState;
pub(crate) use backlog::Backlog;
pub use carry::Carried;
#[doc(hidden)]
pub use fan::{Fan, FanFds, FanNext, FanOp, Interest, Who};
pub use lend::{Buf, Lender, Shelf};
pub use next::{Completion, Failure, Inspector, Moved, Next};
pub use op::{Fds, Op};
pub(crate) use route::{gains_by_own_pipe, splices_directly};
#[doc(hidden)]
pub use spread::Spread;
pub(crate) use spread::{NUMBERS, count_targets};
pub use terms::Terms;

use hand::Hand;
use held::{Delivery, Held};
use route::{Route, Routes};
pub(crate) use state::FalseEnds;
use state::{FixedTerms, Readiness, SourceState, Tally};

use crate::method::Refusal;
use crate::port::Side;

/// One stream of bytes from a source to a target. The [module](self) says how a flow is driven.
///
/// ```
/// use std::io::{Read, Write};
/// use std::os::fd::AsFd;
/// use gush::flow::{Completion, Fds, Flow, Next, Shelf, PortState, Terms};
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
/// assert_eq!((end, flow.delivered_bytes()), (Completion::Eof, 11));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Flow {
    source: PortState,
    target: PortState,
    routes: Routes,
    fixed: FixedTerms,
    source_state: SourceState,
    held: Held,
    readiness: Readiness,
    tally: Tally,
    /// How often in turn this route said "nothing more" where a `read` found bytes.
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
    /// The side of the last failed call between two files.
    blamed: Side,
    failed: Option<Box<Failure>>,
}

/// A stream has no boundaries: pieces become datagrams of at most so many bytes, as with socat.
pub(crate) const STREAM_TO_DATAGRAM_BYTES: usize = 8192;
/// The largest datagram of UDP; a unix socket's may be larger, and is measured.
const DATAGRAM_BYTES: u32 = 64 << 10;
/// A run of zeros becomes a hole after so many bytes, so that a long run shows progress.
const ZEROS_BYTES: u64 = 512 << 20;
/// The most bytes of one call; above 2 GiB splice(2) answers EINVAL (`rw_verify_area`).
const CALL_BYTES: usize = 1 << 30;
/// The most bytes of a `read` that asks whether there is more.
const DOUBT_BYTES: usize = 4096;
const NO_PIPE: &str = "no pipe can be had: this process' share of the user's pages for pipes, or of the descriptors, is used up";
/// The size of the pieces in which bytes leave a pipe by plain writes.
const SPILL_BYTES: usize = 64 << 10;
/// A splice of less than this part of a short message's limit moved a short message: the next goes
/// through memory again. Well below the limit, so that a stream does not alternate.
const SHORT_PART: u32 = 4;

impl Flow {
    /// The most calls in turn without progress: a poll of each side, a splice with `EAGAIN`, a poll
    /// of each side again, and the deciding `read`.
    pub const MOST_IDLE_OPS: u32 = 6;

    /// A flow between two ports. No call is made.
    ///
    /// # Errors
    /// The refusal of a method asked for by name.
    pub fn between(source: PortState, target: PortState, terms: &Terms) -> Result<Self, Refusal> {
        Ok(Self::by(Routes::between(&source, &target, terms)?, source, target, terms))
    }

    /// The source and the target.
    pub(crate) fn sides(&self) -> (&PortState, &PortState) {
        (&self.source, &self.target)
    }

    /// The same, by these routes.
    fn by(routes: Routes, source: PortState, target: PortState, terms: &Terms) -> Self {
        // A size that was named is the user's to answer for.
        let call_bytes = match terms.call_bytes {
            named if named < CALL_BYTES => named,
            // A quarter of the pipe a call lets the programs at both ends work at once.
            _ if routes.now() == Route::Direct => splice_bytes(&source, &target).min(CALL_BYTES),
            _ => CALL_BYTES,
        };
        Self {
            routes,
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
            blamed: Side::Target,
            failed: None,
        }
    }

    /// Would the flow's first read decide whether messages are short? A driver that knows how many
    /// bytes have come calls [`Flow::expect_bytes`] first, and no part of a long message is copied.
    #[must_use]
    pub fn is_undecided(&self) -> bool {
        self.routes.now() == Route::Adaptive && !self.bulk && self.tally.taken_bytes == 0
    }

    /// Reports that so many bytes have come to the source. If they are no short message they go by
    /// reference, and the next operation is another.
    pub fn expect_bytes(&mut self, bytes: u64) {
        self.bulk |= bytes >= u64::from(self.fixed.short_bytes);
    }

    /// Promises that the bytes in hand are the source's last, and that shutdown(2) of the target
    /// follows their delivery. A TCP socket then sends them and the end in one segment, which saves
    /// a packet and a wake-up (`tcp_send_fin` of net/ipv4/tcp_output.c). After a broken promise the
    /// kernel keeps the bytes for 200 ms or more (MSG_MORE), unless the driver asks for them
    /// ([`Flow::expects_end`]). Further bytes from the source take the promise back.
    pub fn expect_end(&mut self) {
        self.end_follows = true;
    }

    /// Was the end promised, and nothing taken since?
    #[must_use]
    pub fn expects_end(&self) -> bool {
        self.end_follows
    }

    /// Reports whether urgent bytes may have come to a TCP source: at their mark splice(2) answers
    /// `EAGAIN` with more bytes there, which only poll(2) and a `read` show. A driver that learns
    /// of them otherwise (EPOLLPRI) saves that poll. True at first.
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

    /// Gives back empty pipes and buffers, and shrinks nearly empty ones; called before the driver
    /// parks.
    pub fn rest(&mut self, lender: &mut dyn Lender) {
        self.held.rest(lender);
    }
}

/// The most bytes of one splice. From pipe to pipe whole slots change hands, which takes no time:
/// as many as there are. Otherwise a quarter of the pipe: the kernel wakes the other side once,
/// when the call is over (`splice_file_to_pipe` and `splice_from_pipe` of `fs/splice.c`), so that a
/// call that fills or empties the pipe makes the two sides take turns. A part of a pipe of 64 KiB
/// or less is not worth a call.
fn splice_bytes(source: &PortState, target: &PortState) -> usize {
    const PART: usize = 4;
    const LEAST_BYTES: usize = 64 << 10;
    match (source.pipe_bytes(), target.pipe_bytes()) {
        (Some(capacity), None) | (None, Some(capacity)) => (capacity / PART).max(LEAST_BYTES),
        (None, None) | (Some(_), Some(_)) => usize::MAX,
    }
}
