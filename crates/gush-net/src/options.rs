//! The options of a relay.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use gush::flow::Terms;
use gush::{Choice, MethodName, Rate};

use crate::counts::{ByteCounts, Direction};

pub(crate) type Observer = dyn Fn(Direction, &[u8]) + Send + Sync;

/// How bytes are relayed.
///
/// ```
/// use std::time::Duration;
/// use gush_net::RelayOptions;
/// let options = RelayOptions {
///     idle: Some(Duration::from_secs(60)),
///     linger: Some(Duration::from_secs(5)),
///     limit: gush::Rate::bytes_per_second(1 << 20),
///     ..RelayOptions::new()
/// };
/// assert_eq!(options.counts.delivered_bytes(gush_net::Direction::Forward), 0);
/// ```
#[derive(Clone, Default)]
pub struct RelayOptions {
    /// The method: `auto`, or by name `read-write`, `splice`, or (from a file) `sendfile`. A method
    /// asked for by name is used or refused, never replaced.
    pub method: Choice,
    /// Ends the relay when no byte has moved in either direction for so long. The relay then
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
    /// let idle = Some(Duration::from_millis(20));
    /// let options = RelayOptions { idle, ..RelayOptions::new() };
    /// assert_eq!(Relay::new(&options).run(&mut a, &mut b).await?.ended, EndReason::Idle);
    /// # Ok(()) }
    /// ```
    pub idle: Option<Duration>,
    /// Ends the relay when one end has ended and no byte has moved for so long, counted as by
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
    /// let linger = Some(Duration::from_millis(20));
    /// let options = RelayOptions { linger, ..RelayOptions::new() };
    /// assert_eq!(Relay::new(&options).run(&mut a, &mut b).await?.ended, EndReason::Lingered);
    /// # Ok(()) }
    /// ```
    pub linger: Option<Duration>,
    /// Lets no time limit end the relay while bytes wait for a reader: neither those of
    /// [`idle`](Self::idle) and [`linger`](Self::linger), nor the second for last bytes after a
    /// failure. A reader that never reads keeps the relay for ever.
    pub patient: bool,
    /// Limits each direction of each relay to this number of bytes a second, taken when the relay
    /// is made: a later change of the rate does not concern it.
    pub limit: Option<Rate>,
    /// The live counts. Clones of these options share them: each relay needs its own, unless their
    /// sum is wanted.
    pub counts: Arc<ByteCounts>,
    /// Gives no page of a file to a socket or pipe by reference, where a later write to the file
    /// would show.
    pub isolated: bool,
    /// Ends the relay with an error as soon as a socket fails that the relay neither reads nor
    /// writes at the moment: a client that has ended its data and then resets while the server has
    /// nothing to send, or a UDP port that nobody listens on. Otherwise such an error is met by the
    /// next bytes.
    pub watch_errors: bool,
    /// Leaves the last end to close(2), if it goes to a TCP socket
    /// ([`Conduit::of_accepted_tcp`](crate::Conduit::of_accepted_tcp)) that has ended its own data:
    /// close(2) sends a FIN too, and saves the call of shutdown(2). A caller that does not close
    /// the conduit at once calls [`Conduit::linger`](crate::Conduit::linger);
    /// [`Conduit::needs_linger`](crate::Conduit::needs_linger) returns which of the two is due.
    ///
    /// Not for sockets with a SO_LINGER of 0, which close(2) resets (socket(7)). Accepted sockets
    /// inherit the option from their listener.
    pub close_sends_last_fin: bool,
    /// Is called when one direction has ended and the end cannot be passed on: a raw terminal has
    /// no sign for it.
    pub on_unsent_eof: Option<fn(Direction)>,
    /// Is called with every delivered byte. Bytes then pass through memory (`read-write`), and
    /// another method asked for by name is refused.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::{Arc, Mutex};
    /// use gush_net::{Direction, Relay, RelayOptions};
    /// let seen = Arc::new(Mutex::new(Vec::new()));
    /// let sink = Arc::clone(&seen);
    /// let observe = move |direction: Direction, bytes: &[u8]| {
    ///     assert_eq!(direction, Direction::Forward);
    ///     sink.lock().unwrap().extend_from_slice(bytes);
    /// };
    /// let options = RelayOptions { observe: Some(Arc::new(observe)), ..RelayOptions::new() };
    /// Relay::new(&options).copy(&mut &b"shown"[..], &mut tokio::io::sink()).await?;
    /// assert_eq!(*seen.lock().unwrap(), b"shown");
    /// # Ok(()) }
    /// ```
    pub observe: Option<Arc<Observer>>,
    /// Takes nothing in a direction while this returns true, such as while an observer has too much
    /// to do. It is called before each call, and every 10 ms while it holds; meanwhile the clocks
    /// of [`idle`](Self::idle) and [`linger`](Self::linger) are paused.
    pub hold: Option<Arc<dyn Fn(Direction) -> bool + Send + Sync>>,
    /// The most bytes of a datagram made of a piece of a stream; 8192 by default. Datagrams that
    /// come as such keep their size.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use gush_net::{Conduit, Relay, RelayOptions};
    /// let (near, far) = std::os::unix::net::UnixDatagram::pair()?;
    /// let mut near = Conduit::new(near.into())?;
    /// let options = RelayOptions { message_bytes: Some(1400), ..RelayOptions::new() };
    /// Relay::new(&options).copy(&mut &[7; 3000][..], &mut near).await?;
    /// let mut room = [0; 4096];
    /// assert_eq!([far.recv(&mut room)?, far.recv(&mut room)?, far.recv(&mut room)?], [1400, 1400, 200]);
    /// # Ok(()) }
    /// ```
    pub message_bytes: Option<usize>,
}

impl RelayOptions {
    /// The fastest sound method, no limits, fresh counts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The live counts, for another thread.
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
            choice: self.method,
            isolated: self.isolated,
            // Spliced bytes never come into this process.
            through_memory: self.observe.is_some(),
            // A call that waits would hold up every other task of the thread.
            never_held: true,
            permitted: &METHODS,
            short_bytes: SHORT_MESSAGE_BYTES,
            message_bytes: self.message_bytes.map_or(terms.message_bytes, |bytes| bytes.max(1)),
            buffer_bytes: BUFFER_BYTES,
            ..terms
        }
    }
}

impl fmt::Debug for RelayOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayOptions")
            .field("method", &self.method)
            .field("idle", &self.idle)
            .field("linger", &self.linger)
            .field("patient", &self.patient)
            .field("limit", &self.limit)
            .field("counts", &self.counts)
            .field("isolated", &self.isolated)
            .field("watch_errors", &self.watch_errors)
            .field("close_sends_last_fin", &self.close_sends_last_fin)
            .field("on_unsent_eof", &self.on_unsent_eof.is_some())
            .field("observe", &self.observe.is_some())
            .field("hold", &self.hold.is_some())
            .finish()
    }
}
