//! The options of a relay.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use gush::flow::Terms;
use gush::{Choice, MethodName, Rate};

use crate::counts::{ByteCounts, Direction};

/// How bytes are relayed.
///
/// ```
/// use std::time::Duration;
/// let options = gush_net::RelayOptions::new()
///     .idle(Duration::from_secs(60))
///     .linger(Duration::from_secs(5))
///     .limit(gush::Rate::bytes_per_second(1 << 20).unwrap());
/// let live = options.counts();
/// assert_eq!(live.delivered_bytes(gush_net::Direction::Forward), 0);
/// ```
#[derive(Clone, Default)]
pub struct RelayOptions {
    pub(crate) choice: Choice,
    pub(crate) idle: Option<Duration>,
    pub(crate) linger: Option<Duration>,
    pub(crate) patient: bool,
    pub(crate) limit: Option<Rate>,
    pub(crate) counts: Arc<ByteCounts>,
    pub(crate) isolated: bool,
    pub(crate) watch_errors: bool,
    pub(crate) close_sends_last_fin: bool,
    pub(crate) unsent_eof: Option<fn(Direction)>,
    pub(crate) observer: Option<Observer>,
    pub(crate) holder: Option<Holder>,
    pub(crate) message_bytes: Option<usize>,
}

pub(crate) type Observer = Arc<dyn Fn(Direction, &[u8]) + Send + Sync>;
pub(crate) type Holder = Arc<dyn Fn(Direction) -> bool + Send + Sync>;

impl RelayOptions {
    /// The fastest sound method, no limits, fresh counts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The method: `auto`, or by name `read-write`, `splice`, or (from a file) `sendfile`. A method
    /// asked for by name is used or refused, never replaced.
    #[must_use]
    pub fn method(mut self, choice: Choice) -> Self {
        self.choice = choice;
        self
    }

    /// Ends the relay when no byte has moved in either direction for `limit`. The relay then
    /// returns `Ok` with [`EndReason::Idle`](crate::EndReason::Idle).
    ///
    /// Bytes that a reader takes out of a socket's or pipe's buffer ([`gush::untaken_bytes`]) count
    /// as moved. The kernel is asked only now and then, so that a relay whose reader stops taking
    /// bytes ends after one to two times the limit. Bytes that came while the process was stopped
    /// move first.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), gush_net::Error> {
    /// use std::time::Duration;
    /// use gush_net::{EndReason, Relay, RelayOptions};
    /// let (_silent, mut a) = tokio::net::UnixStream::pair().unwrap();
    /// let (mut b, _server) = tokio::net::UnixStream::pair().unwrap();
    /// let options = RelayOptions::new().idle(Duration::from_millis(20));
    /// assert_eq!(Relay::new(&options).run(&mut a, &mut b).await?.ended, EndReason::Idle);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn idle(mut self, limit: Duration) -> Self {
        self.idle = Some(limit);
        self
    }

    /// Ends the relay when one end has ended and no byte has moved for `limit`, counted as by
    /// [`RelayOptions::idle`]. Without this limit the other direction may go on, or be silent, for
    /// ever.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), gush_net::Error> {
    /// use std::time::Duration;
    /// use gush_net::{EndReason, Relay, RelayOptions};
    /// let (client, mut a) = tokio::net::UnixStream::pair().unwrap();
    /// let (mut b, _says_nothing) = tokio::net::UnixStream::pair().unwrap();
    /// drop(client); // one end has ended, and the other never answers
    /// let options = RelayOptions::new().linger(Duration::from_millis(20));
    /// assert_eq!(Relay::new(&options).run(&mut a, &mut b).await?.ended, EndReason::Lingered);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn linger(mut self, limit: Duration) -> Self {
        self.linger = Some(limit);
        self
    }

    /// Lets no time limit end the relay while bytes wait for a reader: neither those of
    /// [`idle`](Self::idle) and [`linger`](Self::linger), nor the second for last bytes after a
    /// failure. A reader that never reads keeps the relay for ever.
    ///
    /// ```
    /// let limit = std::time::Duration::from_secs(60);
    /// let options = gush_net::RelayOptions::new().idle(limit).patient();
    /// ```
    #[must_use]
    pub fn patient(mut self) -> Self {
        self.patient = true;
        self
    }

    /// Limits each direction of each relay to this number of bytes a second, taken when the relay
    /// is made: a later change of `rate` does not concern it.
    ///
    /// ```
    /// let rate = gush::Rate::bytes_per_second(10 << 20).unwrap();
    /// let options = gush_net::RelayOptions::new().limit(rate);
    /// ```
    #[must_use]
    pub fn limit(mut self, rate: Rate) -> Self {
        self.limit = Some(rate);
        self
    }

    /// Adds to `counts` instead of to new ones.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use gush_net::{ByteCounts, Direction, RelayOptions};
    /// let all = Arc::new(ByteCounts::default());
    /// let one = RelayOptions::new().counting(Arc::clone(&all));
    /// let other = RelayOptions::new().counting(all);
    /// assert_eq!(one.counts().delivered_bytes(Direction::Forward), 0); // the sum of both relays
    /// # drop(other);
    /// ```
    #[must_use]
    pub fn counting(mut self, counts: Arc<ByteCounts>) -> Self {
        self.counts = counts;
        self
    }

    /// Gives no page of a file to a socket or pipe by reference, where a later write to the file
    /// would show.
    #[must_use]
    pub fn isolated(mut self) -> Self {
        self.isolated = true;
        self
    }

    /// Ends the relay with an error as soon as a socket fails that the relay neither reads nor
    /// writes at the moment: a client that has ended its data and then resets while the server has
    /// nothing to send, or a UDP port that nobody listens on. Otherwise such an error is met by the
    /// next bytes.
    #[must_use]
    pub fn watch_errors(mut self) -> Self {
        self.watch_errors = true;
        self
    }

    /// Leaves the last end to close(2), if it goes to a TCP socket
    /// ([`Conduit::of_accepted_tcp`](crate::Conduit::of_accepted_tcp)) that has ended its own data:
    /// close(2) sends a FIN too, and saves the call of shutdown(2). A caller that does not close
    /// the conduit at once calls [`Conduit::linger`](crate::Conduit::linger);
    /// [`Conduit::needs_linger`](crate::Conduit::needs_linger) returns which of the two is due.
    ///
    /// Not for sockets with a SO_LINGER of 0, which close(2) resets (socket(7)). Accepted sockets
    /// inherit the option from their listener.
    #[must_use]
    pub fn close_sends_last_fin(mut self) -> Self {
        self.close_sends_last_fin = true;
        self
    }

    /// Calls `report` when one direction has ended and the end cannot be passed on: a raw terminal
    /// has no sign for it.
    #[must_use]
    pub fn on_unsent_eof(mut self, report: fn(Direction)) -> Self {
        self.unsent_eof = Some(report);
        self
    }

    /// The most bytes of a datagram made of a piece of a stream; 8192 by default. Datagrams that
    /// come as such keep their size.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use gush_net::{Conduit, Relay, RelayOptions};
    /// let (near, far) = std::os::unix::net::UnixDatagram::pair()?;
    /// let mut near = Conduit::new(near.into())?;
    /// let options = RelayOptions::new().message_bytes(1400);
    /// Relay::new(&options).copy(&mut &[7; 3000][..], &mut near).await?;
    /// let mut room = [0; 4096];
    /// assert_eq!([far.recv(&mut room)?, far.recv(&mut room)?, far.recv(&mut room)?], [1400, 1400, 200]);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn message_bytes(mut self, bytes: usize) -> Self {
        self.message_bytes = Some(bytes.max(1));
        self
    }

    /// Passes every delivered byte to `observer`. Bytes then pass through memory (`read-write`),
    /// and another method asked for by name is refused.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::{Arc, Mutex};
    /// use gush_net::{Direction, Relay, RelayOptions};
    /// let seen = Arc::new(Mutex::new(Vec::new()));
    /// let sink = Arc::clone(&seen);
    /// let options = RelayOptions::new().observe(move |direction, bytes| {
    ///     assert_eq!(direction, Direction::Forward);
    ///     sink.lock().unwrap().extend_from_slice(bytes);
    /// });
    /// Relay::new(&options).copy(&mut &b"shown"[..], &mut tokio::io::sink()).await?;
    /// assert_eq!(*seen.lock().unwrap(), b"shown");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn observe(mut self, observer: impl Fn(Direction, &[u8]) + Send + Sync + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Takes nothing in a direction while `holds` returns true, such as while an observer has too
    /// much to do. It is called before each call, and every 10 ms while it holds; meanwhile the
    /// clocks of
    /// [`idle`](Self::idle) and [`linger`](Self::linger) are paused.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// let is_full = Arc::new(AtomicBool::new(false));
    /// let asked = Arc::clone(&is_full);
    /// let options = gush_net::RelayOptions::new().hold(move |_| asked.load(Ordering::Relaxed));
    /// ```
    #[must_use]
    pub fn hold(mut self, holds: impl Fn(Direction) -> bool + Send + Sync + 'static) -> Self {
        self.holder = Some(Arc::new(holds));
        self
    }

    /// The live counts. Clones of these options share them; give each relay its own
    /// ([`RelayOptions::counting`]) unless their sum is wanted.
    #[must_use]
    pub fn counts(&self) -> Arc<ByteCounts> {
        Arc::clone(&self.counts)
    }
}

/// The methods of a relay: the account counts the bytes of each.
pub(crate) const METHODS: [MethodName; 3] =
    [MethodName::ReadWrite, MethodName::Splice, MethodName::Sendfile];

/// One segment over loopback, with TLS records around it (its MSS is 65,464 with IPv6): a whole 64
/// KiB goes as a full segment and one of some bytes, which halves the throughput.
const BUFFER_BYTES: usize = 63 << 10;

/// A message of up to so many bytes is read and written, and a longer one spliced: below 8 KiB
/// copying takes less time, and splicing a tenth less from 24 KiB on.
const SHORT_MESSAGE_BYTES: usize = 16 << 10;

impl RelayOptions {
    /// The part of these options for the flow of one direction.
    pub(crate) fn terms(&self) -> Terms {
        let terms = Terms::default();
        Terms {
            choice: self.choice,
            isolated: self.isolated,
            // Spliced bytes never come into this process.
            through_memory: self.observer.is_some(),
            // A call that waits would hold up every other task of the thread.
            never_held: true,
            permitted: &METHODS,
            short_bytes: SHORT_MESSAGE_BYTES,
            message_bytes: self.message_bytes.unwrap_or(terms.message_bytes),
            buffer_bytes: BUFFER_BYTES,
            ..terms
        }
    }
}

impl fmt::Debug for RelayOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayOptions")
            .field("choice", &self.choice)
            .field("idle", &self.idle)
            .field("linger", &self.linger)
            .field("patient", &self.patient)
            .field("limit", &self.limit)
            .field("counts", &self.counts)
            .field("isolated", &self.isolated)
            .field("watch_errors", &self.watch_errors)
            .field("close_sends_last_fin", &self.close_sends_last_fin)
            .field("unsent_eof", &self.unsent_eof.is_some())
            .field("observed", &self.observer.is_some())
            .field("held", &self.holder.is_some())
            .finish()
    }
}
