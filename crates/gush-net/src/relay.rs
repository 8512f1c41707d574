//! Both directions between two ends.

use std::future::{Future, poll_fn};
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use gush::{Errno, Side};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::coop;

use crate::call::Failure;
use crate::counts::Direction;
use crate::drive::{Driver, PassedEnd};
use crate::ends;
use crate::error::{End, Ended, Error, Totals};
use crate::options::RelayOptions;
use crate::sides::{Opened, Sides, Target};
use crate::silence::Silence;
use crate::tap::{Failing, Tap};

/// After a failure: how long a target may keep the last bytes of the other direction waiting.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Relays between `a` and `b` until both have sent their last byte, passing on each end of data once
/// everything before the end is delivered.
///
/// A direction that an end has not (a file opened for reading only, say) is left out. After a failure
/// of one direction, bytes that the other's source has received by then are still delivered, as long as the target there
/// keeps that direction waiting no longer than a second.
///
/// # Cancellation
/// If the future is dropped, bytes that had been taken and not delivered are lost;
/// [`ByteCounts::in_flight_bytes`](crate::ByteCounts::in_flight_bytes) says how many. To go on later, use a
/// [`Relay`].
///
/// # Errors
/// Which call failed on which end, with the bytes that had gone each way; or a method asked for by name that
/// cannot serve these ends.
///
/// # Panics
/// After a failure, or with a limit of time or rate, where the runtime has no timers
/// ([`enable_time`](tokio::runtime::Builder::enable_time)). [`copy_bidirectional`] needs none.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// use tokio::net::{TcpListener, TcpStream};
///
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let mut client = TcpStream::connect(listener.local_addr()?).await?;
/// let (mut a, _) = listener.accept().await?;
/// let mut server = TcpStream::connect(listener.local_addr()?).await?;
/// let (mut b, _) = listener.accept().await?;
///
/// let relay = tokio::spawn(async move {
///     gush_net::relay(&mut a, &mut b, &gush_net::RelayOptions::new()).await
/// });
/// client.write_all(b"question").await?;
/// client.shutdown().await?;
/// let mut question = String::new();
/// server.read_to_string(&mut question).await?;
/// server.write_all(b"answer").await?;
/// drop(server);
/// let mut answer = String::new();
/// client.read_to_string(&mut answer).await?;
/// assert_eq!((question.as_str(), answer.as_str()), ("question", "answer"));
/// assert_eq!(relay.await??.ended, gush_net::Ended::Closed);
/// # Ok(()) }
/// ```
pub async fn relay<A, B>(a: &mut A, b: &mut B, options: &RelayOptions) -> Result<Totals, Error>
where
    A: AsyncRead + AsyncWrite + Unpin + ?Sized,
    B: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    Relay::new(options).run(a, b).await
}

/// Relays between `a` and `b` until both have sent their last byte: has the arguments and result of
/// `tokio::io::copy_bidirectional`, and moves the bytes of sockets inside the kernel.
///
/// After an error of one direction, what the other direction has received by then is still delivered as far as the
/// target takes that at once; tokio's function delivers nothing more. [`relay`] waits for such a target, has options, and gives a longer
/// account.
///
/// # Cancellation
/// As [`relay`].
///
/// # Errors
/// As [`relay`]; the [`Error`] is inside. The kind is that of tokio's error; only
/// [`raw_os_error`](io::Error::raw_os_error) answers `None`, as for every wrapped error: ask [`Error::errno`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
/// use gush_net::copy_bidirectional;
/// use tokio::io::AsyncWriteExt;
///
/// let (mut client, mut a) = tokio::net::UnixStream::pair()?;
/// let (mut b, mut server) = tokio::io::duplex(64);
/// client.write_all(b"there").await?;
/// client.shutdown().await?;
/// server.write_all(b"and back").await?;
/// server.shutdown().await?;
/// assert_eq!(copy_bidirectional(&mut a, &mut b).await?, (5, 8));
/// # Ok(()) }
/// ```
pub async fn copy_bidirectional<A, B>(a: &mut A, b: &mut B) -> io::Result<(u64, u64)>
where
    A: AsyncRead + AsyncWrite + Unpin + ?Sized,
    B: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    let mut relay = Relay { waits_after_failure: false, ..Relay::new(&RelayOptions::new()) };
    let totals = relay.run(a, b).await?;
    Ok((totals.forward.bytes, totals.back.bytes))
}

/// A relay that survives being interrupted: the relay owns the bytes in flight.
///
/// When the future of [`Relay::run`] is dropped, nothing is lost: another run with the same two
/// ends goes on from there.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// use tokio::net::UnixStream;
///
/// let (mut client, mut a) = UnixStream::pair()?;
/// let (mut b, mut server) = UnixStream::pair()?;
/// let mut relay = gush_net::Relay::new(&gush_net::RelayOptions::new());
/// client.write_all(b"before").await?;
/// let cancelled =
///     tokio::time::timeout(Duration::from_millis(20), relay.run(&mut a, &mut b)).await;
/// assert!(cancelled.is_err());
///
/// client.write_all(b" and after").await?;
/// drop(client);
/// server.shutdown().await?;
/// relay.run(&mut a, &mut b).await?;
/// let mut all = String::new();
/// server.read_to_string(&mut all).await?;
/// assert_eq!(all, "before and after");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Relay {
    options: RelayOptions,
    forward: Driver,
    back: Driver,
    silence: Silence,
    /// How many directions have ended.
    ended_directions: u32,
    failed: Option<(Direction, Failure)>,
    /// Has a target some time for its last bytes after a failure? That takes a timer, which not every runtime has.
    waits_after_failure: bool,
}

/// The two ends; a direction that one of them has not is left out.
struct Ends<'a, A: ?Sized, B: ?Sized> {
    a: Opened<'a, A>,
    b: Opened<'a, B>,
    /// Of each direction that waits for the source: tells when the source, or the target, has failed meanwhile.
    failing: [[Option<Failing<'a>>; 2]; 2],
}

impl<'a, A, B> Ends<'a, A, B>
where
    A: AsyncRead + AsyncWrite + Unpin + ?Sized,
    B: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    fn has(&self, direction: Direction) -> bool {
        match direction {
            Direction::Forward => self.a.reads() && self.b.writes(),
            Direction::Back => self.b.reads() && self.a.writes(),
        }
    }

    /// The source and the target of a direction, if both are there.
    fn sides(&mut self, direction: Direction) -> Option<Sides<'_, 'a, 'a>> {
        let (source, target) = match direction {
            Direction::Forward => self.a.source().zip(self.b.target()),
            Direction::Back => self.b.source().zip(self.a.target()),
        }?;
        Some(Sides { source, target })
    }

    /// The descriptors of a direction's two sides.
    fn taps(&self, direction: Direction) -> (Option<&Tap<'a>>, Option<&Tap<'a>>) {
        match direction {
            Direction::Forward => (self.a.read_tap(), self.b.write_tap()),
            Direction::Back => (self.b.read_tap(), self.a.write_tap()),
        }
    }

    /// Tells when a side of a direction has failed while that side is neither read nor written.
    fn failing(&self, direction: Direction, side: Side) -> Option<Failing<'a>> {
        match (direction, side) {
            (Direction::Forward, Side::Source) | (Direction::Back, Side::Target) => {
                self.a.failing(side)
            }
            (Direction::Back, Side::Source) | (Direction::Forward, Side::Target) => {
                self.b.failing(side)
            }
        }
    }

    /// Takes the pending error of a side of a direction, if there is one.
    fn take_error(&self, direction: Direction, side: Side) -> Option<Errno> {
        match (direction, side) {
            (Direction::Forward, Side::Source) | (Direction::Back, Side::Target) => {
                self.a.take_error(side)
            }
            (Direction::Back, Side::Source) | (Direction::Forward, Side::Target) => {
                self.b.take_error(side)
            }
        }
    }

    /// Are there bytes at a direction's source that nobody has taken yet?
    fn has_more(&self, direction: Direction) -> bool {
        self.has(direction)
            && match direction {
                Direction::Forward => self.a.has_more(),
                Direction::Back => self.b.has_more(),
            }
    }

    /// May a read from a direction's source wait although the source has an error?
    fn misses_errors(&self, direction: Direction) -> bool {
        match direction {
            Direction::Forward => self.a.misses_errors(),
            Direction::Back => self.b.misses_errors(),
        }
    }

    /// Does the opposite direction read what a direction's target sends?
    fn reads_the_target_of(&self, direction: Direction) -> bool {
        self.has(direction.opposite())
            && match direction {
                Direction::Forward => self.b.hears_its_peer(),
                Direction::Back => self.a.hears_its_peer(),
            }
    }

    /// At most so many bytes have come to a direction's source.
    fn received_bytes(&self, direction: Direction) -> u64 {
        match direction {
            Direction::Forward => self.a.received_bytes(),
            Direction::Back => self.b.received_bytes(),
        }
    }
}

impl Relay {
    /// A relay that has moved nothing yet.
    #[must_use]
    pub fn new(options: &RelayOptions) -> Self {
        Self {
            options: options.clone(),
            forward: Driver::new(Direction::Forward, options),
            back: Driver::new(Direction::Back, options),
            silence: Silence::default(),
            ended_directions: 0,
            failed: None,
            waits_after_failure: true,
        }
    }

    /// Relays as [`relay`] does; may be dropped and called again with the same ends.
    ///
    /// # Errors
    /// As [`relay`].
    pub async fn run<A, B>(&mut self, a: &mut A, b: &mut B) -> Result<Totals, Error>
    where
        A: AsyncRead + AsyncWrite + Unpin + ?Sized,
        B: AsyncRead + AsyncWrite + Unpin + ?Sized,
    {
        // Time between two runs is none of the ends' silence.
        self.silence.restart();
        self.forward.restart();
        self.back.restart();
        let unregistered = |end| move |io| Error::failed("epoll_ctl", end, io);
        let a = ends::open(a).map_err(unregistered(End::A))?;
        let b = ends::open(b).map_err(unregistered(End::B))?;
        let mut ends = Ends { a, b, failing: Default::default() };
        poll_fn(|cx| self.poll(cx, &mut ends)).await
    }

    /// Ends one direction, though the source may go on and the target is told of no end; for a target known to
    /// read no more.
    pub fn abandon(&mut self, direction: Direction) {
        self.driver(direction).abandon();
    }

    /// Ends one direction as if the source had ended: the bytes taken so far are delivered, and the end is passed on. For a
    /// source known to have gone.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use gush_net::{RelayOptions, Relay, Direction};
    /// use tokio::io::AsyncReadExt;
    /// let (_silent, mut a) = tokio::net::UnixStream::pair()?;
    /// let (mut b, mut server) = tokio::io::duplex(64);
    /// let mut relay = Relay::new(&RelayOptions::new());
    /// relay.end(Direction::Forward);
    /// let relayed = tokio::spawn(async move { relay.run(&mut a, &mut b).await });
    /// assert_eq!(server.read(&mut [0; 8]).await?, 0);
    /// drop(server);
    /// relayed.await??;
    /// # Ok(()) }
    /// ```
    pub fn end(&mut self, direction: Direction) {
        self.driver(direction).end();
    }

    /// Passes the end of one direction on only once `proof` has come true; else the relay fails.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
    /// use gush_net::{RelayOptions, Relay, Direction};
    /// let (mut a, client) = tokio::net::UnixStream::pair()?;
    /// let (mut b, _server) = tokio::net::UnixStream::pair()?;
    /// let mut relay = Relay::new(&RelayOptions::new());
    /// relay.verify_eof(Direction::Forward, async { false }); // such as a program that exits with 1
    /// drop(client);
    /// assert!(relay.run(&mut a, &mut b).await.is_err());
    /// # Ok(()) }
    /// ```
    pub fn verify_eof(
        &mut self,
        direction: Direction,
        proof: impl Future<Output = bool> + Send + 'static,
    ) {
        self.driver(direction).verify_eof(proof);
    }

    fn driver(&mut self, direction: Direction) -> &mut Driver {
        match direction {
            Direction::Forward => &mut self.forward,
            Direction::Back => &mut self.back,
        }
    }

    fn poll<A, B>(
        &mut self,
        cx: &mut Context<'_>,
        ends: &mut Ends<'_, A, B>,
    ) -> Poll<Result<Totals, Error>>
    where
        A: AsyncRead + AsyncWrite + Unpin + ?Sized,
        B: AsyncRead + AsyncWrite + Unpin + ?Sized,
    {
        // Also of a direction that is not polled any more: a pause that is told of for ever would be no limit's silence.
        self.forward.begin_poll();
        self.back.begin_poll();
        let had_failed = self.failed.is_some();
        let forward = self.poll_flow(Direction::Forward, cx, ends);
        let back = self.poll_flow(Direction::Back, cx, ends);
        // Both were polled, so that neither direction waits for the other's turn.
        if forward.is_ready() && back.is_ready() {
            return Poll::Ready(self.result(Ended::Closed, |_| false));
        }
        if self.options.watch_errors {
            self.poll_failing(cx, ends);
        }
        // What came before the failure goes out; without a bound a peer that goes on talking would keep the relay for ever.
        if let Some((failed, _)) = self.failed {
            self.bound(failed.opposite(), |direction| ends.received_bytes(direction));
            if !self.waits_after_failure {
                let other = if failed == Direction::Forward { back } else { forward };
                // Without a turn left even bytes at hand have to wait, and the task is woken for another. A flush may never end.
                let has_turn = coop::has_budget_remaining();
                let driver = self.driver(failed.opposite());
                let goes_on =
                    other.is_pending() && (!has_turn || !(driver.waits() || driver.is_unflushed()));
                return match had_failed && !goes_on {
                    true => Poll::Ready(self.result(Ended::Closed, |_| false)),
                    // Woken by the failure, or by a direction that has more to do.
                    false => Poll::Pending,
                };
            }
        }
        let ended_directions = u32::from(self.forward.is_done()) + u32::from(self.back.is_done());
        // The silence before an end is no silence after it, and our own pauses are none of the ends'.
        if std::mem::replace(&mut self.ended_directions, ended_directions) != ended_directions
            || self.forward.is_throttled()
            || self.back.is_throttled()
        {
            self.silence.restart();
        }
        let one_ended = ended_directions > 0;
        let (limit, ended) = match (self.options.idle, self.options.linger) {
            // Last words have a time of their own: the user's idle limit may be hours, or none.
            _ if self.failed.is_some() => (Some(LAST_WORDS), Ended::Closed),
            // The shorter one: lingering must not prolong an idle limit.
            (idle, Some(linger)) if one_ended && idle.is_none_or(|idle| linger < idle) => {
                (Some(linger), Ended::Lingered)
            }
            (idle, _) => (idle, Ended::Idle),
        };
        let activity = self.forward.activity() + self.back.activity();
        self.silence
            .poll(cx, activity, limit, || [ends.b.untaken_bytes(), ends.a.untaken_bytes()])
            .map(|()| self.result(ended, |direction| ends.has_more(direction)))
    }

    /// Ready when nothing more will go this way.
    fn poll_flow<A, B>(
        &mut self,
        direction: Direction,
        cx: &mut Context<'_>,
        ends: &mut Ends<'_, A, B>,
    ) -> Poll<()>
    where
        A: AsyncRead + AsyncWrite + Unpin + ?Sized,
        B: AsyncRead + AsyncWrite + Unpin + ?Sized,
    {
        let end = self.passed_end(direction, ends);
        let Some(mut sides) = ends.sides(direction) else { return Poll::Ready(()) };
        // Nothing more is taken, but a stream's own buffer may hold bytes that count as delivered.
        if self.gives_up(direction) {
            return self.poll_last_flush(direction, cx, &mut sides.target);
        }
        let flow = match direction {
            Direction::Forward => &mut self.forward,
            Direction::Back => &mut self.back,
        };
        if flow.is_done() {
            return Poll::Ready(());
        }
        match flow.poll(cx, &mut sides, &self.options, end) {
            Poll::Ready(Ok(())) => Poll::Ready(()),
            Poll::Ready(Err(failure)) => {
                self.fail(cx, direction, failure);
                self.poll_last_flush(direction, cx, &mut sides.target)
            }
            // The task has had its turn: a stream of tokio then says "not now", even with bytes at hand.
            Poll::Pending if self.failed.is_some() && !coop::has_budget_remaining() => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Pending
                if self.failed.is_some() && flow.has_had_its_last_words(&sides.source) =>
            {
                Poll::Ready(())
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn passed_end<A, B>(&self, direction: Direction, ends: &Ends<'_, A, B>) -> PassedEnd
    where
        A: AsyncRead + AsyncWrite + Unpin + ?Sized,
        B: AsyncRead + AsyncWrite + Unpin + ?Sized,
    {
        // Behind a failure the end of what its socket had sent may be none: the failed call took the error (SO_ERROR), and
        // a read answers 0 now.
        if self.failed.is_some() {
            return PassedEnd::Not;
        }
        let opposite = match direction {
            Direction::Forward => &self.back,
            Direction::Back => &self.forward,
        };
        // Unread bytes would make close(2) send a reset: the target itself must have told of its end.
        let closes = self.options.close_sends_last_fin
            && opposite.is_done_properly()
            && ends.reads_the_target_of(direction);
        if closes { PassedEnd::LeftToClose } else { PassedEnd::Told }
    }

    /// Of a direction that has given up: bytes that the target's stream still keeps count as delivered, and are sent on if the
    /// target is not the side that failed.
    fn poll_last_flush(
        &mut self,
        direction: Direction,
        cx: &mut Context<'_>,
        target: &mut Target<'_, '_>,
    ) -> Poll<()> {
        match &self.failed {
            Some((failed, failure))
                if *failed == direction && failure.side() != Some(Side::Target) =>
            {
                self.driver(direction).poll_flush(cx, target)
            }
            _ => Poll::Ready(()),
        }
    }

    /// A direction that waits for the source makes no call, and would not learn that the target has been reset, unless
    /// the other direction reads from there; nor does a datagram socket become readable by an error.
    fn poll_failing<A, B>(&mut self, cx: &mut Context<'_>, ends: &mut Ends<'_, A, B>)
    where
        A: AsyncRead + AsyncWrite + Unpin + ?Sized,
        B: AsyncRead + AsyncWrite + Unpin + ?Sized,
    {
        for direction in Direction::ALL {
            // A direction that moves meets errors by its own calls; only one that waits can miss them.
            if self.failed.is_some() || !self.driver(direction).waits_for_source() {
                continue;
            }
            let opposite_goes_on = !self.driver(direction.opposite()).is_done();
            let target_is_read = opposite_goes_on && ends.reads_the_target_of(direction);
            for side in [Side::Source, Side::Target] {
                let at = usize::from(side == Side::Target);
                let watched = match side {
                    // A read of a stream socket tells its error; datagrams and changed ends may not.
                    Side::Source => ends.misses_errors(direction),
                    Side::Target => !target_is_read,
                };
                // Kept between polls: a registration made anew each time would forget its waker.
                if watched && ends.failing[direction as usize][at].is_none() {
                    ends.failing[direction as usize][at] = ends.failing(direction, side);
                }
                let slot = &mut ends.failing[direction as usize][at];
                let Some(failing) = slot.as_mut().filter(|_| watched) else { continue };
                if failing.as_mut().poll(cx).is_pending() {
                    continue;
                }
                *slot = None;
                // Bytes that have come already are moved first, and meet the error by themselves.
                let source = ends.taps(direction).0;
                if side == Side::Target && source.is_some_and(Tap::is_readable) {
                    continue;
                }
                match ends.take_error(direction, side) {
                    Some(errno) => {
                        self.fail(
                            cx,
                            direction,
                            Failure::Call("getsockopt(SO_ERROR)", side, errno.into()),
                        );
                    }
                    // Somebody else has taken the error.
                    None => cx.waker().wake_by_ref(),
                }
            }
        }
    }

    fn fail(&mut self, cx: &mut Context<'_>, direction: Direction, failure: Failure) {
        // The first failure is told; the second is mostly its consequence.
        self.failed.get_or_insert((direction, failure));
        self.silence.restart();
        // The other direction is looked at once more, and gives up or has its last words.
        cx.waker().wake_by_ref();
    }

    /// Lets a direction take the bytes that the source has received by now, and no more. The readiness may be older, and
    /// a poll may have ended early for the sake of others or of the rate: so the kernel is asked.
    fn bound(&mut self, direction: Direction, received_bytes: impl FnOnce(Direction) -> u64) {
        let driver = self.driver(direction);
        // Bounded once: bytes that come after the failure are not counted in again.
        if !driver.is_bounded() {
            driver.take_at_most(received_bytes(direction));
        }
    }

    /// Has this direction failed, or has the other, on the end that this one writes to?
    fn gives_up(&self, direction: Direction) -> bool {
        match &self.failed {
            None => false,
            // A target that failed reads no more, and may still have sent bytes that the other end wants.
            Some((failed, failure)) => *failed == direction || failure.side() != Some(Side::Target),
        }
    }

    /// `has_more` says whether a direction's source has bytes that nobody has taken: where a method holds nothing in flight,
    /// bytes that are stuck are there.
    fn result(
        &mut self,
        ended: Ended,
        has_more: impl Fn(Direction) -> bool,
    ) -> Result<Totals, Error> {
        let (forward, back) = (self.forward.passed(), self.back.passed());
        let is_stuck = |direction: &Direction| {
            let (driver, passed) = match direction {
                Direction::Forward => (&self.forward, &forward),
                Direction::Back => (&self.back, &back),
            };
            let has_some = passed.in_flight_bytes > 0 || driver.is_unflushed();
            !driver.is_done() && (has_some || has_more(*direction))
        };
        let stuck = ended != Ended::Closed && Direction::ALL.iter().any(is_stuck);
        // A later run gives up no direction but the abandoned ones.
        self.forward.take_all();
        self.back.take_all();
        match self.failed.take() {
            Some((direction, failure)) => Err(failure.into_error(direction).after(forward, back)),
            None => Ok(Totals { forward, back, ended, stuck }),
        }
    }
}
