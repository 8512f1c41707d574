//! One connection, from the client's arrival to the record: PROXY header, handshake, open, PROXY
//! header to the other end, handshake, relay (half-closed in the end), linger, exit of programs.
//!
//! A connection that fails or is cancelled in any phase is aborted: its programs are ended, and its
//! TCP sockets are reset, so that no peer takes a part of the data for all of it, unless the
//! settings say `graceful`. `docs/endings.md` has the table.

mod closing;
mod hang_up;
mod opening;
mod relay;

use std::future::{Future, pending, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use gush_net::{ByteCounts, Direction, Passed};
use gush_text::os_text;
use tracing::{debug, info, warn};

use crate::handover::Resumed;
use crate::kind::Kind;
use crate::open::End;
use crate::record::{Ending, Failure, Record};
use crate::session::{Known, Name, Names, Shared, Turn};
use crate::stop::Cancellation;
use hang_up::Client;
pub(crate) use relay::{Directions, LAST_ANSWERS, Relaying};

/// The phase of a connection. Each ends by itself, at its limit, or when the link is cancelled.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The client's PROXY header is read: 5 s, or the idle limit if that is shorter.
    Header,
    /// The client's TLS handshake: `handshake-timeout=`.
    ClientHandshake,
    /// The other address is resolved and connected, or its program started: `connect-timeout=`.
    Open,
    /// The PROXY header is sent to the other end: 5 s.
    Introduce,
    /// The other end's TLS handshake: `handshake-timeout=`.
    Handshake,
    /// Bytes are relayed, both ways or, once one end has ended, one way: the idle and linger
    /// limits.
    Relay,
    /// All is sent and has to arrive: the linger limit. What still comes is dropped.
    Linger,
    /// Programs finish: the linger limit, or else the idle limit.
    Program,
}

/// How a connection ended.
pub(crate) struct ConnectionResult {
    /// `None` if the relay was interrupted; [`ByteCounts`] has the numbers then.
    passed: Option<(Passed, Passed)>,
    pub ending: Ending,
    pub failure: Option<Failure>,
}

impl ConnectionResult {
    fn of(ending: Ending) -> Self {
        Self { passed: None, ending, failure: None }
    }

    fn failed(ending: Ending, failure: Failure) -> Self {
        Self { passed: None, ending, failure: Some(failure) }
    }
}

pub(crate) struct Connection<'a> {
    pub shared: &'a Shared,
    pub id: u64,
    // Borrowed, because the future of the connection would have room for each twice.
    pub names: &'a mut Names,
    pub counts: &'a Arc<ByteCounts>,
    pub cancellation: &'a Cancellation,
    /// Its place among the clients that wait for the other listener, if taken already.
    pub turn: &'a mut Option<Turn>,
    pub began: Instant,
}

/// How the phases before the relay end.
enum Opened {
    Relay(Box<Relaying>),
    Not(ConnectionResult),
}

impl From<ConnectionResult> for Opened {
    fn from(result: ConnectionResult) -> Self {
        Self::Not(result)
    }
}

/// Serves a client, and writes the record.
///
/// # Errors
/// The failure of the connection, which is also in the record.
pub(crate) async fn serve(
    shared: &Shared,
    client: Box<End>,
    known: &mut Known,
    cancellation: &Cancellation,
) -> Result<(), Failure> {
    let Known { id, names, counts, began, turn } = known;
    let (id, began) = (*id, *began);
    {
        let how = match shared.client.kind() {
            Kind::UdpListen => "connected by UDP",
            Kind::UdpRecvfrom => "connected by a datagram",
            _ => "connected",
        };
        info!(id, client = %names.client, "{how}");
    }
    let mut connection = Connection { shared, id, names, counts, cancellation, turn, began };
    let result = connection.run(client).await;
    connection.end(result)
}

/// Serves a client of another process from where that has stopped, and writes the record.
pub(crate) async fn resume(shared: &Shared, resumed: Resumed, cancellation: &Cancellation) {
    let Resumed { id, mut names, counts, began, relaying } = resumed;
    info!(id, client = %names.client, "taken over");
    let (names, counts, turn) = (&mut names, &counts, &mut None);
    let connection = Connection { shared, id, names, counts, cancellation, turn, began };
    let result = connection.finish(relaying).await;
    // The failure is this client's alone, and logged already.
    let _ = connection.end(result);
}

/// The value of a phase; on an error aborts the ends of `connection`, and returns.
macro_rules! or_abort {
    ($connection:expr, $result:expr $(, $end:ident)*) => {
        match $result {
            Ok(value) => value,
            Err(result) => return $connection.aborted(result, [$($end),*]).into(),
        }
    };
}
use or_abort;

impl Connection<'_> {
    /// Runs through the phases.
    ///
    /// The memory of a connection is that of this future, which has room for every value that it
    /// ever holds, often twice: so ends and relay are boxed, and what comes before and after the
    /// relay is while it lasts. `None` for one that has moved to another process.
    pub async fn run(&mut self, client: Box<End>) -> Option<ConnectionResult> {
        let relaying = match Box::pin(self.open_ends(client)).await {
            Opened::Relay(relaying) => relaying,
            Opened::Not(result) => return Some(result),
        };
        self.finish(relaying).await
    }

    /// The phases before the relay.
    async fn open_ends(&mut self, client: Box<End>) -> Opened {
        let header = or_abort!(self, self.read_header(&client).await, client);
        // Before the other address is opened: a client without a certificate costs no server a
        // connection.
        let client = or_abort!(self, self.client_handshake(client).await);
        let mut other = or_abort!(self, self.open(&header, &client).await, client);
        // The PROXY header comes before the handshake: it precedes TLS, in the clear.
        or_abort!(self, self.introduce(&header, &client, &mut other).await, client, other);
        let other = or_abort!(self, self.handshake(&client, other).await, client);
        let (first, mut second) = self.shared.in_order(client, other);
        let checked = self.shared.check(&first, &mut second);
        let checked =
            checked.map_err(|failure| ConnectionResult::failed(Ending::OpenFailed, failure));
        or_abort!(self, checked, first, second);
        Opened::Relay(self.begin_relay(first, second))
    }

    /// The relay and what comes after it.
    async fn finish(&self, relaying: Box<Relaying>) -> Option<ConnectionResult> {
        let (first, second, relayed) = self.relay(relaying).await?;
        let closed = async move {
            let passed = relayed.passed();
            let result = self.close(first, second, relayed).await;
            ConnectionResult { passed, ..result }
        };
        Some(Box::pin(closed).await)
    }

    fn end(&self, result: Option<ConnectionResult>) -> Result<(), Failure> {
        let Some(result) = result else {
            debug!(id = self.id, "moved to another process");
            self.shared.ledger.give(self.id);
            return Ok(());
        };
        self.account(&result, self.began.elapsed());
        result.failure.map_or(Ok(()), Err)
    }

    /// Does the work of one phase, unless the link is cancelled or `client` hangs up first.
    fn phase<'p, T: Send + 'p>(
        &'p self,
        phase: Phase,
        client: Option<Client<'p>>,
        work: impl Future<Output = T> + Send + 'p,
    ) -> impl Future<Output = Result<T, ConnectionResult>> + Send + 'p {
        let mut work = Box::pin(work);
        async move {
            debug!(id = self.id, ?phase, "begins");
            // Most phases of a short connection end at once, and need no watch.
            if let Poll::Ready(done) = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await {
                return Ok(done);
            }
            let hung_up: Pin<Box<dyn Future<Output = io::Error> + Send + 'p>> = match client {
                Some(client) => Box::pin(client.hung_up()),
                None => Box::pin(pending()),
            };
            tokio::select! {
                // Completed work counts, even if the link is cancelled at the same moment.
                biased;
                done = work => Ok(done),
                () = self.cancellation.cancelled() => Err(ConnectionResult::of(Ending::Interrupted)),
                error = hung_up => {
                    let Names { client, other } = &*self.names;
                    let why = os_text(&error);
                    let why = format!("{client}: hung up before {other} was open: {why}");
                    let failure = Failure::new(why, error.raw_os_error());
                    Err(ConnectionResult::failed(Ending::OpenFailed, failure))
                }
            }
        }
    }

    /// Ends programs, and resets TCP connections.
    fn aborted(
        &self,
        result: ConnectionResult,
        ends: impl IntoIterator<Item = Box<End>>,
    ) -> ConnectionResult {
        for mut end in ends {
            drop(std::mem::take(&mut end.keeper));
            match self.shared.settings.graceful {
                true => closing::send_eof([&mut *end]),
                false => end.conduit.reset_on_close(),
            }
        }
        result
    }

    /// The names of the ends in the order of the addresses.
    fn names(&self) -> (&Name, &Name) {
        self.shared.in_order(&self.names.client, &self.names.other)
    }

    fn account(&self, result: &ConnectionResult, lasted: Duration) {
        let Self { shared, id, ref names, counts, .. } = *self;
        let counted = || (counts.passed(Direction::Forward), counts.passed(Direction::Back));
        let (forward, back) = result.passed.clone().unwrap_or_else(counted);
        let (ending, bytes) = (result.ending, [forward.bytes, back.bytes]);
        shared.ledger.end(id, bytes, lasted, ending);
        if let Some(on_end) = &shared.settings.on_end {
            let (first, second) = self.names();
            let (first, second) = (first.to_string(), second.to_string());
            let failure = result.failure.clone();
            on_end(&Record { id, first, second, forward, back, lasted, ending, failure });
        }
        match &result.failure {
            // Silent clients are too common for a warning.
            Some(failure) if shared.forks && ending != Ending::Idle => {
                let client = names.client.to_string();
                match shared.may_warn(ending, failure) {
                    Some(suppressed) => warn!(id, client, "{failure}{suppressed}"),
                    None => debug!(id, client, "{failure}"),
                }
            }
            _ => info!(
                id,
                forward_bytes = bytes[0],
                back_bytes = bytes[1],
                seconds = lasted.as_secs_f64(),
                ending = ending.as_str(),
                "ended"
            ),
        }
    }
}
