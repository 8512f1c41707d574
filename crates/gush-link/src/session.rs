//! What the connections of a link share, and their other ends.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use gush::Unpoisoned;
use gush_net::{ByteCounts, Direction, Error};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::sleep;

use crate::address::{Address, Locator, Opt, quoted_path};
use crate::ends;
use crate::handover::Relays;
use crate::ledger::Ledger;
use crate::open::{End, Listener, OpenOptions, Origin, Peer, Suppressed, Throttle};
use crate::record::{Ending, Failure};
use crate::settings::Settings;
use crate::shared_end::SharedEnd;
use crate::stop::Stop;

/// Warnings a second about clients that failed before the other end was opened.
pub(crate) const EARLY_WARNINGS: u32 = 5;

/// How long a client waits for descriptors, and how often it tries.
const DESCRIPTORS_WAIT: Duration = Duration::from_secs(10);
const DESCRIPTORS_LOOK: Duration = Duration::from_millis(50);

/// Shared by all connections of a link.
pub(crate) struct Shared {
    pub settings: Arc<Settings>,
    pub ledger: Arc<Ledger>,
    pub stop: Stop,
    pub client: Address,
    pub other: Other,
    /// The other address as messages name it.
    pub other_name: Name,
    /// Is the client at the second address?
    pub flipped: bool,
    /// Does the link serve many clients, so that a client's failure is logged?
    pub forks: bool,
    /// Limits warnings about clients that failed before the other end was opened: anybody can cause
    /// them.
    pub early_warnings: StdMutex<Throttle>,
    /// The relays that can move to another process, of a link that may be asked to hand over.
    pub relays: Option<Relays>,
    /// Do clients come to a socket of IPv6, which sees those of IPv4 as mapped addresses?
    pub is_ipv6: bool,
}

/// The address at the other end of each client.
pub(crate) enum Other {
    /// An address opened for each client.
    Address(Address),
    /// An end opened before the link listened, for its only client.
    Opened(Address, StdMutex<Option<Box<End>>>),
    /// An end opened once for all clients.
    Shared(Box<SharedEnd>),
    /// A listener bound once; each client gets one accepted connection.
    Listener(Box<Address>, Arc<Mutex<Listener>>),
}

impl Other {
    pub(crate) fn address(&self) -> &Address {
        match self {
            Other::Address(address) | Other::Opened(address, _) => address,
            Other::Shared(end) => end.address(),
            Other::Listener(address, _) => address,
        }
    }

    /// The turn of a client that has come, if the other address listens.
    fn turn(&self) -> Option<Turn> {
        match self {
            Other::Listener(_, listener) => Some(Turn::of(listener)),
            Other::Address(_) | Other::Opened(..) | Other::Shared(_) => None,
        }
    }

    /// Opens the other end; without a `turn` the client takes one now.
    pub(crate) async fn open(&self, how: &OpenOptions, turn: Option<Turn>) -> Result<End, Failure> {
        let address = match self {
            Other::Listener(_, listener) => {
                let turn = turn.unwrap_or_else(|| Turn::of(listener));
                return ends::accept(&mut *turn.come().await).await;
            }
            Other::Opened(address, end) => {
                let end = end.lock().unpoisoned().take();
                // There is no second client.
                return end.map(|end| *end).ok_or_else(|| {
                    Failure::new(format!("{address}: another client has it"), None)
                });
            }
            Other::Shared(end) => end.address(),
            Other::Address(address) => address,
        };
        let mut waited = Duration::ZERO;
        loop {
            let opened = match self {
                Other::Shared(end) => end.for_client(),
                _ if address.kind().listens() => ends::open_for_one(address, how).await,
                _ => ends::open_one(address, how).await,
            };
            match opened {
                // Other connections end, and free theirs.
                Err(failure) if failure.wants_descriptors() && waited < DESCRIPTORS_WAIT => {
                    sleep(DESCRIPTORS_LOOK).await;
                    waited += DESCRIPTORS_LOOK;
                }
                opened => return opened,
            }
        }
    }
}

/// A client's place in the queue for connections to the other listener.
pub(crate) enum Turn {
    Come(OwnedMutexGuard<Listener>),
    Waiting(Pin<Box<dyn Future<Output = OwnedMutexGuard<Listener>> + Send + Sync>>),
}

impl Turn {
    /// Takes the last place: the mutex is fair.
    fn of(listener: &Arc<Mutex<Listener>>) -> Self {
        let mut waiting = Box::pin(Arc::clone(listener).lock_owned());
        // The first poll takes the place.
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(listener) => Self::Come(listener),
            Poll::Pending => Self::Waiting(waiting),
        }
    }

    async fn come(self) -> OwnedMutexGuard<Listener> {
        match self {
            Self::Come(listener) => listener,
            Self::Waiting(waiting) => waiting.await,
        }
    }
}

/// What messages and records call an end. It is written out for these alone: most connections end
/// without one.
#[derive(Clone, Debug)]
pub(crate) enum Name {
    Text(Arc<str>),
    Peer(Peer),
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Peer(peer) => peer.fmt(f),
        }
    }
}

/// The names of the peers, as far as they are known.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub client: Name,
    pub other: Name,
}

/// A client that is not served yet.
pub(crate) struct Arrival {
    pub client: Box<End>,
    pub known: Known,
}

/// What is known of a connection from its client's arrival on.
pub(crate) struct Known {
    pub id: u64,
    pub names: Names,
    pub counts: Arc<ByteCounts>,
    pub began: Instant,
    pub turn: Option<Turn>,
}

impl Shared {
    /// Counts a client, in the order of arrival, and takes its turn. A client with a PROXY header
    /// or handshake to come takes its turn afterwards, because it might never finish.
    pub fn arrived(&self, client: End) -> Arrival {
        let may_delay = self.settings.accept_proxy || client.wants_handshake();
        let turn = if may_delay { None } else { self.other.turn() };
        let counts = Arc::new(ByteCounts::default());
        let id = self.ledger.begin(Arc::clone(&counts));
        let names =
            Names { client: ends::name(&client, &self.client), other: self.other_name.clone() };
        let known = Known { id, names, counts, began: Instant::now(), turn };
        Arrival { client: Box::new(client), known }
    }

    /// The values in the order of the addresses.
    pub(crate) fn in_order<T>(&self, client: T, other: T) -> (T, T) {
        if self.flipped { (other, client) } else { (client, other) }
    }

    /// Checks both ends before any byte moves between them, and gives up this process's copies of
    /// standard descriptors.
    pub(crate) fn check(&self, first: &End, second: &mut End) -> Result<(), Failure> {
        let are_sockets =
            first.conduit.facts().socket.is_some() && second.conduit.facts().socket.is_some();
        // A socket that was accepted or connected here is new.
        let are_both_inherited = first.origin.is_inherited && second.origin.is_inherited;
        let may_be_the_same = !are_sockets || are_both_inherited;
        if may_be_the_same {
            self.settings.check_ends(first, second)?;
        }
        self.give_up_standard(first, second)?;
        let goes_forward = second.conduit.writes();
        if goes_forward
            && may_be_the_same
            && ends::is_same_source(first.conduit.read_fd(), second.conduit.read_fd())
        {
            // Each of two readers of one stream would get a part of the bytes.
            second.conduit.stop_reading();
        }
        Ok(())
    }

    /// Only a link with a single connection gives them up.
    fn give_up_standard(&self, first: &End, second: &End) -> Result<(), Failure> {
        if self.forks {
            return Ok(());
        }
        let (a, b) = self.in_order(&self.client, self.other.address());
        ends::give_up_standard(first, a)?;
        ends::give_up_standard(second, b)
    }

    /// Is the flag on at the address of this end, or at the part of it that is written?
    pub(crate) fn says(&self, end: gush_net::End, flag: Opt) -> bool {
        let (first, second) = self.in_order(&self.client, self.other.address());
        let address = if end == gush_net::End::A { first } else { second };
        address.side(true).iter().any(|part| part.options().is_on(flag))
    }

    /// Has a reader gone, which the address of its end says to be no failure?
    pub(crate) fn is_cool(&self, error: &Error) -> bool {
        let Some(end) = error.end() else { return false };
        let way = if end == gush_net::End::A { Direction::Back } else { Direction::Forward };
        let is_gone = match error.io_error().map(io::Error::kind) {
            Some(io::ErrorKind::BrokenPipe) => true,
            // A source is reset as well.
            Some(io::ErrorKind::ConnectionReset) => match error.call() {
                Some("read" | "readv" | "recvfrom") => false,
                Some("splice") => error.passed(way).in_flight_bytes > 0,
                _ => true,
            },
            _ => false,
        };
        is_gone && self.says(end, Opt::CoolWrite)
    }

    pub(crate) fn relay_failure(
        &self,
        error: &Error,
        names: &Names,
        origins: [Origin; 2],
    ) -> Failure {
        let (first, second) = self.in_order(&names.client, &names.other);
        let addresses = self.in_order(&self.client, self.other.address());
        let is_of_append = error.refusal().is_some_and(gush::Refusal::is_of_append);
        let hint = is_of_append.then(|| self.written_anew(addresses)).flatten();
        let end = error.end().map(|end| match end {
            gush_net::End::A => addresses.0,
            gush_net::End::B => addresses.1,
        });
        let hint = hint.as_deref().or(error.hint()).or_else(|| denied(error, end?));
        let one_way = self.settings.one_way;
        let mut failure = ends::relay_failure(error, first, second, hint, one_way);
        failure.reader_gone = match error.end() {
            Some(gush_net::End::A) => ends::is_reader_gone(error, origins[0]),
            Some(gush_net::End::B) => ends::is_reader_gone(error, origins[1]),
            None => false,
        };
        failure
    }

    /// The address to use instead of a bare PATH, for a method that cannot append; `None` if an
    /// address has `append`.
    fn written_anew(&self, (first, second): (&Address, &Address)) -> Option<String> {
        let may_be_written = [Some(second), (!self.settings.one_way).then_some(first)];
        let mut written = may_be_written.into_iter().flatten();
        if written.clone().any(|address| address.options().is_on(Opt::Append)) {
            return None;
        }
        let path = written.find_map(|address| match address.locator() {
            Locator::Path(path) => Some(quoted_path(path)),
            _ => None,
        })?;
        Some(format!(
            "a PATH is written at its end; file:{path},create,trunc is emptied, and written from its start"
        ))
    }

    /// `None` if the warning is suppressed.
    pub(crate) fn may_warn(&self, ending: Ending, failure: &Failure) -> Option<Suppressed> {
        match ending {
            Ending::HandshakeFailed | Ending::ProxyHeader => self.early_warnings(),
            // Many clients end so: each is counted.
            _ if failure.is_unclosed => None,
            _ => Some(Suppressed::default()),
        }
    }

    fn early_warnings(&self) -> Option<Suppressed> {
        self.early_warnings.lock().unpoisoned().passes(Instant::now())
    }
}

/// The remedy for a datagram that may not be sent (ip(7), EACCES).
fn denied(error: &Error, to: &Address) -> Option<&'static str> {
    let is_it = error.io_error()?.raw_os_error() == Some(rustix::io::Errno::ACCESS.raw_os_error())
        && to.kind().takes(Opt::Broadcast)
        && !to.options().is_on(Opt::Broadcast);
    is_it.then_some(
        "a broadcast address takes the option broadcast; a route or a firewall forbids any other",
    )
}
