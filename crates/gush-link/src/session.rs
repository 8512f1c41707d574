//! One connection, from arrival to account.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use gush_net::{ByteCounts, Direction, Error, Passed};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::sleep;
use tracing::{debug, info, warn};

use crate::address::{Address, Opt, Target, quoted_path};
use crate::ends::{self, Name};
use crate::ledger::Ledger;
use crate::life::{Course, Life};
use crate::open::{End, How, Listener, Opening, Origin, Suppressed, Throttle};
use crate::record::{Ending, Failure, Record};
use crate::settings::Settings;
use crate::stop::{Cancellation, Stop};

/// Warnings a second about clients that never got as far as the other end.
pub(crate) const EARLY_WARNINGS: u32 = 5;

/// How long a client waits for descriptors in use by others, and how often it tries.
const DESCRIPTORS_WAIT: Duration = Duration::from_secs(10);
const DESCRIPTORS_LOOK: Duration = Duration::from_millis(50);

/// The state shared by all connections of a link.
pub(crate) struct Shared {
    pub settings: Arc<Settings>,
    pub ledger: Arc<Ledger>,
    pub stop: Stop,
    pub client: Address,
    pub other: Other,
    /// The other address as messages name it.
    pub other_name: String,
    /// Does the client stand at the second address?
    pub flipped: bool,
    /// Does the link go on, so that a failure goes into the log?
    pub forks: bool,
    /// Limits warnings about clients that failed before the other end was opened: anybody can cause them.
    pub early_warnings: StdMutex<Throttle>,
}

/// The address at the other end of each client.
pub(crate) enum Other {
    /// An address opened for each client.
    Address(Address),
    /// A listener bound once; each client gets one accepted connection.
    Listener(Box<Address>, Arc<Mutex<Listener>>),
}

impl Other {
    pub(crate) fn address(&self) -> &Address {
        match self {
            Other::Address(address) => address,
            Other::Listener(address, _) => address,
        }
    }

    /// The turn of a client that has come, if the other address listens.
    fn turn(&self) -> Option<Turn> {
        match self {
            Other::Listener(_, listener) => Some(Turn::of(listener)),
            Other::Address(_) => None,
        }
    }

    /// Begins to open the other end, where nothing has to be waited for before.
    pub(crate) fn begin<'a>(&'a self, how: &'a How) -> Option<Result<Opening<'a>, Failure>> {
        let Other::Address(address) = self else { return None };
        match Opening::begin(address, how)?.map_err(|error| ends::open_failure(&error)) {
            // Waited for where the address is opened as ever.
            Err(failure) if failure.wants_descriptors() => None,
            begun => Some(begun),
        }
    }

    /// Opens the other end; `turn` is the client's, unless it takes one only now.
    pub(crate) async fn open(&self, how: &How, turn: Option<Turn>) -> Result<End, Failure> {
        let address = match self {
            Other::Listener(_, listener) => {
                let turn = turn.unwrap_or_else(|| Turn::of(listener));
                return ends::accept(&mut *turn.come().await).await;
            }
            Other::Address(address) => address,
        };
        let mut waited = Duration::ZERO;
        loop {
            match ends::open_one(address, how).await {
                // Other connections end all the time, and then there are descriptors again.
                Err(failure) if failure.wants_descriptors() && waited < DESCRIPTORS_WAIT => {
                    sleep(DESCRIPTORS_LOOK).await;
                    waited += DESCRIPTORS_LOOK;
                }
                opened => return opened,
            }
        }
    }
}

/// A client's place among those that wait for a connection to the other listener.
pub(crate) enum Turn {
    Come(OwnedMutexGuard<Listener>),
    Waiting(Pin<Box<dyn Future<Output = OwnedMutexGuard<Listener>> + Send + Sync>>),
}

impl Turn {
    /// Takes a place behind all that were taken before: the mutex is fair, and counts from the first poll.
    fn of(listener: &Arc<Mutex<Listener>>) -> Self {
        let mut waiting = Box::pin(Arc::clone(listener).lock_owned());
        // Polled at once: a place in the lock's queue is taken by the first poll.
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

/// The peers at the two ends, as far as they are known.
pub(crate) struct Names<'a> {
    pub client: Name<'a>,
    pub other: Name<'a>,
}

/// A client that has come and is not served yet.
pub(crate) struct Arrival {
    client: Box<End>,
    id: u64,
    counts: Arc<ByteCounts>,
    began: Instant,
    turn: Option<Turn>,
}

impl Shared {
    /// ByteCounts a client that has come. Whoever accepts does so at once, because connections are numbered in the order of arrival.
    ///
    /// A client with nothing to say before the other end is opened has its turn by then. Any other might never speak, and
    /// takes a turn afterwards.
    pub fn arrived(&self, client: End) -> Arrival {
        let may_delay = self.settings.accept_proxy || client.wants_handshake();
        // A client that may be slow before its connection is opened takes its turn only then.
        let turn = if may_delay { None } else { self.other.turn() };
        let counts = Arc::new(ByteCounts::default());
        let id = self.ledger.begin(Arc::clone(&counts));
        Arrival { client: Box::new(client), id, counts, began: Instant::now(), turn }
    }

    /// Serves `client`, and tells of the connection.
    ///
    /// # Errors
    /// The failure of the connection, also in the record.
    pub async fn serve(
        &self,
        arrival: Arrival,
        cancellation: &Cancellation,
    ) -> Result<(), Failure> {
        let Arrival { client, id, counts, began, turn } = arrival;
        let names = Names {
            client: ends::name(&client, &self.client),
            other: Name::Text(Cow::Borrowed(&self.other_name)),
        };
        info!(id, client = %names.client, "connected");
        let mut life = Life::new(self, id, names, &counts, cancellation).at(turn);
        let course = life.run(client).await;
        let passed = course
            .passed
            .unwrap_or_else(|| (counts.passed(Direction::Forward), counts.passed(Direction::Back)));
        self.tell(id, &life.names, passed, began.elapsed(), &course);
        course.failure.map_or(Ok(()), Err)
    }

    /// The values in the order of the addresses: the client's first, unless the client stands at the second
    /// address.
    pub(crate) fn in_order<T>(&self, client: T, other: T) -> (T, T) {
        if self.flipped { (other, client) } else { (client, other) }
    }

    /// Checks both ends before any byte moves between them, and gives up this process's copies.
    pub(crate) fn ready(&self, first: &End, second: &mut End) -> Result<(), Failure> {
        let are_sockets =
            first.conduit.stream_socket().is_some() && second.conduit.stream_socket().is_some();
        // Only of inherited sockets can two be the same: one accepted or connected here is new.
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
            // Two readers of one stream would each get a part of the bytes.
            second.conduit.stop_reading();
        }
        Ok(())
    }

    /// Gives up this process's copies of standard descriptors, if the link serves one connection alone.
    fn give_up_standard(&self, first: &End, second: &End) -> Result<(), Failure> {
        if self.forks {
            return Ok(());
        }
        let (a, b) = self.in_order(&self.client, self.other.address());
        ends::give_up_standard(first, a)?;
        ends::give_up_standard(second, b)
    }

    pub(crate) fn relay_failure(
        &self,
        error: &Error,
        names: &Names<'_>,
        origins: [Origin; 2],
    ) -> Failure {
        let (first, second) = self.in_order(&names.client, &names.other);
        let addresses = self.in_order(&self.client, self.other.address());
        let is_of_append = error.refusal().is_some_and(gush::Refusal::is_of_append);
        let hint = is_of_append.then(|| self.written_anew(addresses)).flatten();
        let hint = hint.as_deref().or(error.hint());
        let one_way = self.settings.one_way;
        let mut failure = ends::relay_failure(error, first, second, hint, one_way);
        failure.reader_gone = match error.end() {
            Some(gush_net::End::A) => ends::is_reader_gone(error, origins[0]),
            Some(gush_net::End::B) => ends::is_reader_gone(error, origins[1]),
            None => false,
        };
        failure
    }

    /// What to write in the place of a bare PATH, for a method that adds to no file; nothing where an address was told to append.
    fn written_anew(&self, (first, second): (&Address, &Address)) -> Option<String> {
        let may_be_written = [Some(second), (!self.settings.one_way).then_some(first)];
        let mut written = may_be_written.into_iter().flatten();
        if written.clone().any(|address| address.options().is_on(Opt::Append)) {
            return None;
        }
        let path = written.find_map(|address| match address.target() {
            Target::Path(path) => Some(quoted_path(path)),
            _ => None,
        })?;
        Some(format!(
            "a PATH is written at its end; file:{path},create,trunc is emptied, and written from its start"
        ))
    }

    fn tell(
        &self,
        id: u64,
        names: &Names<'_>,
        (forward, back): (Passed, Passed),
        lasted: Duration,
        course: &Course,
    ) {
        let ending = course.ending;
        self.ledger.end(id, [forward.bytes, back.bytes], lasted, ending);
        if let Some(on_end) = &self.settings.on_end {
            let (first, second) = self.in_order(&names.client, &names.other);
            let (first, second) = (first.to_string(), second.to_string());
            let failure = course.failure.clone();
            on_end(&Record { id, first, second, forward, back, lasted, ending, failure });
        }
        match &course.failure {
            // Silent clients are too common for a warning.
            Some(failure) if self.forks && ending != Ending::Idle => {
                let client = names.client.to_string();
                match self.may_warn(ending) {
                    Some(suppressed) => warn!(id, client, "{failure}{suppressed}"),
                    None => debug!(id, client, "{failure}"),
                }
            }
            _ => info!(
                id,
                forward_bytes = forward.bytes,
                back_bytes = back.bytes,
                seconds = lasted.as_secs_f64(),
                ending = ending.as_str(),
                "ended"
            ),
        }
    }

    /// `None` if the warning is suppressed.
    fn may_warn(&self, ending: Ending) -> Option<Suppressed> {
        match ending {
            Ending::HandshakeFailed | Ending::ProxyHeader => self
                .early_warnings
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .passes(Instant::now()),
            _ => Some(Suppressed::default()),
        }
    }
}
