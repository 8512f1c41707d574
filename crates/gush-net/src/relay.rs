//! Both directions between two ends.

use std::future::{Future, poll_fn};
use std::task::{Context, Poll};
use std::time::Duration;

use gush::Side;

use crate::counts::Way;
use crate::drive::{Driver, Failure};
use crate::ends::Duplex;
use crate::error::{End, Ended, Error, Totals};
use crate::options::Options;
use crate::silence::Silence;
use crate::tap::{Failing, Tap};

/// After a failure: how long a target may keep the last bytes of the other direction waiting.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Relays between `a` and `b` until both have sent their last byte, passing on each end of data once
/// everything before it is delivered.
///
/// A direction that an end has not (a file opened for reading only, say) is left out. After a failure
/// of one direction, what the other's source has received by then is still delivered, as long as its target
/// keeps it waiting no longer than a second.
///
/// # Cancellation
/// If the future is dropped, bytes that had been taken and not delivered are lost;
/// [`Counts::in_flight_bytes`](crate::Counts::in_flight_bytes) says how many. To go on later, use a
/// [`Relay`].
///
/// # Errors
/// Which call failed on which end, with what had gone each way; or a method asked for by name that
/// cannot serve these ends.
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
///     gush_net::copy_bidirectional(&mut a, &mut b, &gush_net::Options::new()).await
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
pub async fn copy_bidirectional<A, B>(
    a: &mut A,
    b: &mut B,
    options: &Options,
) -> Result<Totals, Error>
where
    A: Duplex + ?Sized,
    B: Duplex + ?Sized,
{
    Relay::new(options).run(a, b).await
}

/// A relay that survives being interrupted: it owns the bytes in flight.
///
/// When the future of [`Relay::run`] is dropped, nothing is lost: running it again with the same two
/// ends goes on where it was.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// use tokio::net::UnixStream;
///
/// let (mut client, mut a) = UnixStream::pair()?;
/// let (mut b, mut server) = UnixStream::pair()?;
/// let mut relay = gush_net::Relay::new(&gush_net::Options::new());
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
    options: Options,
    forward: Driver,
    back: Driver,
    silence: Silence,
    /// How many directions have ended.
    ended_ways: u32,
    failed: Option<(Way, Failure)>,
}

/// The four directions of two ends; one that an end has not is left out.
struct Taps<'a> {
    a_read: Option<Tap<'a>>,
    a_write: Option<Tap<'a>>,
    b_read: Option<Tap<'a>>,
    b_write: Option<Tap<'a>>,
    /// Of each direction that waits for its source: what tells that the source, or the target, has failed meanwhile.
    failing: [[Option<Failing<'a>>; 2]; 2],
}

impl<'a> Taps<'a> {
    /// The source and the target of a direction, if it has both.
    fn of(&self, way: Way) -> Option<(&Tap<'a>, &Tap<'a>)> {
        match way {
            Way::Forward => self.a_read.as_ref().zip(self.b_write.as_ref()),
            Way::Back => self.b_read.as_ref().zip(self.a_write.as_ref()),
        }
    }
}

impl Relay {
    /// A relay that has moved nothing yet.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        Self {
            options: options.clone(),
            forward: Driver::new(Way::Forward, options),
            back: Driver::new(Way::Back, options),
            silence: Silence::default(),
            ended_ways: 0,
            failed: None,
        }
    }

    /// Relays as [`copy_bidirectional`] does; may be dropped and called again with the same ends.
    ///
    /// # Errors
    /// As [`copy_bidirectional`].
    pub async fn run<A, B>(&mut self, a: &mut A, b: &mut B) -> Result<Totals, Error>
    where
        A: Duplex + ?Sized,
        B: Duplex + ?Sized,
    {
        self.silence.restart();
        let unregistered = |end| move |io| Error::failed("epoll_ctl", end, io);
        let (a_read, a_write) = a.both().map_err(unregistered(End::A))?;
        let (b_read, b_write) = b.both().map_err(unregistered(End::B))?;
        let failing = Default::default();
        let mut taps = Taps { a_read, a_write, b_read, b_write, failing };
        poll_fn(|cx| self.poll(cx, &mut taps)).await
    }

    /// Ends one direction, though its source may go on and its target is told of no end; for a target that is known to
    /// read no more.
    pub(crate) fn abandon(&mut self, way: Way) {
        self.driver(way).abandon();
    }

    /// Passes the end of one direction on only once `proof` has come true; else the relay fails.
    pub(crate) fn prove_end(
        &mut self,
        way: Way,
        proof: impl Future<Output = bool> + Send + 'static,
    ) {
        self.driver(way).prove_end(proof);
    }

    fn driver(&mut self, way: Way) -> &mut Driver {
        match way {
            Way::Forward => &mut self.forward,
            Way::Back => &mut self.back,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>, taps: &mut Taps<'_>) -> Poll<Result<Totals, Error>> {
        let forward = self.poll_flow(Way::Forward, cx, &mut taps.a_read, &mut taps.b_write);
        let back = self.poll_flow(Way::Back, cx, &mut taps.b_read, &mut taps.a_write);
        if forward.is_ready() && back.is_ready() {
            return Poll::Ready(self.result(Ended::Closed));
        }
        if self.options.sees_failures {
            self.poll_failing(cx, taps);
        }
        if let Some((failed, _)) = self.failed {
            self.bound(failed.opposite(), taps);
        }
        let ended_ways = u32::from(self.forward.is_done()) + u32::from(self.back.is_done());
        // The silence before an end is no silence after it, and our own pauses are none of the ends'.
        if std::mem::replace(&mut self.ended_ways, ended_ways) != ended_ways
            || self.forward.is_throttled()
            || self.back.is_throttled()
        {
            self.silence.restart();
        }
        let one_ended = ended_ways > 0;
        let (limit, ended) = match (self.options.idle, self.options.linger) {
            _ if self.failed.is_some() => (Some(LAST_WORDS), Ended::Closed),
            (idle, Some(linger)) if one_ended && idle.is_none_or(|idle| linger < idle) => {
                (Some(linger), Ended::Lingered)
            }
            (idle, _) => (idle, Ended::Idle),
        };
        let activity = self.forward.activity() + self.back.activity();
        self.silence.poll(cx, activity, limit).map(|()| self.result(ended))
    }

    /// Ready when nothing more will go this way.
    fn poll_flow(
        &mut self,
        way: Way,
        cx: &mut Context<'_>,
        source: &mut Option<Tap<'_>>,
        target: &mut Option<Tap<'_>>,
    ) -> Poll<()> {
        let (Some(source), Some(target)) = (source, target) else { return Poll::Ready(()) };
        if self.gives_up(way) {
            return Poll::Ready(());
        }
        let flow = match way {
            Way::Forward => &mut self.forward,
            Way::Back => &mut self.back,
        };
        if flow.is_done() {
            return Poll::Ready(());
        }
        match flow.poll(cx, source, target, &self.options, true) {
            Poll::Ready(Ok(())) => Poll::Ready(()),
            Poll::Ready(Err(failure)) => {
                self.fail(cx, way, failure);
                Poll::Ready(())
            }
            Poll::Pending if self.failed.is_some() && flow.has_delivered_the_last() => {
                Poll::Ready(())
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// A direction that waits for its source makes no call, and would not learn that its target has been reset, unless
    /// the other direction reads from there; nor does the end of a datagram socket become readable by an error.
    fn poll_failing<'a>(&mut self, cx: &mut Context<'_>, taps: &mut Taps<'a>) {
        for way in Way::ALL {
            if self.failed.is_some() || !self.driver(way).waits_for_source() {
                continue;
            }
            let opposite = way.opposite();
            let target_is_read = !self.driver(opposite).is_done() && taps.of(opposite).is_some();
            for side in [Side::Source, Side::Target] {
                let Some((source, target)) = taps.of(way) else { continue };
                let (tap, is_seen) = match side {
                    Side::Source => (source, !source.is_endless()),
                    Side::Target => (target, target_is_read),
                };
                if is_seen {
                    continue;
                }
                let at = usize::from(side == Side::Target);
                if taps.failing[way as usize][at].is_none() {
                    let failing = tap.failing();
                    taps.failing[way as usize][at] = failing;
                }
                let slot = &mut taps.failing[way as usize][at];
                let Some(failing) = slot else { continue };
                if failing.as_mut().poll(cx).is_pending() {
                    continue;
                }
                *slot = None;
                let Some((source, target)) = taps.of(way) else { continue };
                // What has come already is moved first, and meets the error by itself.
                if side == Side::Target && source.is_readable() {
                    continue;
                }
                let tap = if side == Side::Target { target } else { source };
                match tap.take_error() {
                    Some(errno) => {
                        self.fail(cx, way, Failure::Call("epoll_wait", side, errno.into()));
                    }
                    // Somebody else has taken it.
                    None => cx.waker().wake_by_ref(),
                }
            }
        }
    }

    fn fail(&mut self, cx: &mut Context<'_>, way: Way, failure: Failure) {
        self.failed.get_or_insert((way, failure));
        self.silence.restart();
        // The other direction is looked at once more, and gives up or has its last words.
        cx.waker().wake_by_ref();
    }

    /// Lets a direction take what its source has received by now, and no more. Its readiness may be older than that, and
    /// a poll may have ended early for the sake of others or of the rate: so the kernel is asked.
    fn bound(&mut self, way: Way, taps: &Taps<'_>) {
        let received_bytes = taps.of(way).map_or(0, |(source, _)| source.unread_bytes());
        let driver = self.driver(way);
        if !driver.is_bounded() {
            driver.take_at_most(received_bytes);
        }
    }

    /// Has this direction failed, or has the other, on the end that this one writes to?
    fn gives_up(&self, way: Way) -> bool {
        match &self.failed {
            None => false,
            Some((failed, failure)) => *failed == way || failure.side() != Some(Side::Target),
        }
    }

    fn result(&mut self, ended: Ended) -> Result<Totals, Error> {
        let (forward, back) = (self.forward.passed(), self.back.passed());
        // Whoever runs the relay again gives up no direction but those that it abandons.
        self.forward.take_all();
        self.back.take_all();
        match self.failed.take() {
            Some((way, failure)) => Err(failure.into_error(way).after(forward, back)),
            None => Ok(Totals { forward, back, ended }),
        }
    }
}
