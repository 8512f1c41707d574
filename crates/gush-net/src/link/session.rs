//! One connection, from its arrival to its account.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use super::cut::Whole;
use super::ends;
use super::ledger::Ledger;
use super::programs;
use super::record::{Ending, Failure, Record};
use super::settings::Settings;
use super::stop::Stop;
use crate::address::{Address, Kind};
use crate::conduit::Conduit;
use crate::open::{End, How, Keeper, Listener};
use crate::proxy::{self, Header};
use crate::{Counts, Ended, Error, Passed, Way};

/// How long a client waits for descriptors that others hold, and how often it looks.
const DESCRIPTORS_WAIT: Duration = Duration::from_secs(10);
const DESCRIPTORS_LOOK: Duration = Duration::from_millis(50);
/// How long a client may take for its PROXY header.
const HEADER_WAIT: Duration = Duration::from_secs(5);

/// What all connections of a link share.
pub(super) struct Shared {
    pub settings: Arc<Settings>,
    pub ledger: Arc<Ledger>,
    pub stop: Stop,
    pub client: Address,
    pub other: Other,
    /// Does the client stand at the second address?
    pub flipped: bool,
    /// Does the link go on, so that a failure is told in the log?
    pub forks: bool,
}

/// The address that each client is connected to.
pub(super) enum Other {
    /// Opened for each.
    Address(Address),
    /// Bound once; each client gets one of its connections.
    Listener(Box<Address>, Box<Mutex<Listener>>),
}

impl Other {
    pub fn address(&self) -> &Address {
        match self {
            Other::Address(address) => address,
            Other::Listener(address, _) => address,
        }
    }

    async fn open(&self, how: How) -> Result<End, Failure> {
        let address = match self {
            Other::Listener(_, listener) => return ends::accept(&mut *listener.lock().await).await,
            Other::Address(address) => address,
        };
        let mut waited = Duration::ZERO;
        loop {
            match ends::open_one(address, how).await {
                Err(failure) if failure.wants_descriptors() && waited < DESCRIPTORS_WAIT => {
                    sleep(DESCRIPTORS_LOOK).await;
                    waited += DESCRIPTORS_LOOK;
                }
                opened => return opened,
            }
        }
    }
}

/// How a connection went on until it ended.
struct Course {
    passed: Option<(Passed, Passed)>,
    ending: Ending,
    failure: Option<Failure>,
}

impl Course {
    fn failed(ending: Ending, failure: Failure) -> Self {
        Self { passed: None, ending, failure: Some(failure) }
    }
}

/// Who stands at the two ends, as far as it is known yet.
struct Names {
    client: String,
    other: String,
}

impl Shared {
    /// Serves `client` and tells of it.
    ///
    /// # Errors
    /// What it failed of, which is in its record too.
    pub async fn serve(&self, client: End) -> Result<(), Failure> {
        let began = Instant::now();
        let counts = Arc::new(Counts::default());
        let id = self.ledger.begin(Arc::clone(&counts));
        let mut names = Names {
            client: ends::name(&client, &self.client),
            other: self.other.address().target().to_string(),
        };
        info!(id, client = %names.client, "connected");
        let course = tokio::select! {
            biased;
            () = self.stop.ending() => {
                Course { passed: None, ending: Ending::Interrupted, failure: None }
            }
            course = self.course(id, client, &mut names, &counts) => course,
        };
        let (forward, back) = course
            .passed
            .unwrap_or_else(|| (counted(&counts, Way::Forward), counted(&counts, Way::Back)));
        let (first, second) = self.in_order(names.client, names.other);
        let (lasted, ending, failure) = (began.elapsed(), course.ending, course.failure);
        self.tell(&Record {
            id,
            first,
            second,
            forward,
            back,
            lasted,
            ending,
            failure: failure.clone(),
        });
        failure.map_or(Ok(()), Err)
    }

    /// From the client's end to the other, or the other way round: as the addresses stand.
    fn in_order<T>(&self, client: T, other: T) -> (T, T) {
        if self.flipped { (other, client) } else { (client, other) }
    }

    async fn course(
        &self,
        id: u64,
        client: End,
        names: &mut Names,
        counts: &Arc<Counts>,
    ) -> Course {
        let header = match self.header(&client).await {
            Ok(header) => header,
            Err(failure) => return Course::failed(Ending::ProxyHeader, failure),
        };
        if let Some(source) = &header.source
            && self.settings.accept_proxy
        {
            debug!(id, client = %source, proxy = %names.client, "comes through a proxy");
            names.client = source.to_string();
        }
        let how = self.settings.how(self.flipped);
        let how = match self.other.address().kind() {
            Kind::Exec | Kind::Shell => {
                let local = header.destination.clone().or_else(|| client.local());
                how.serving(header.source.as_ref().unwrap_or(&client.peer), local.as_ref())
            }
            _ => how,
        };
        let how = if self.forks { how } else { how.once() };
        let other = match self.other.open(how).await {
            Ok(other) => other,
            Err(failure) => return Course::failed(Ending::OpenFailed, failure),
        };
        names.other = ends::name(&other, self.other.address());
        debug!(id, other = %names.other, "opened");
        if let Err(failure) = self.introduce(&header, &other, &names.other).await {
            return Course::failed(Ending::ProxyHeader, failure);
        }
        let (mut first, mut second) = self.in_order(client, other);
        if let Err(failure) = self.settings.check_ends(&first, &second) {
            return Course::failed(Ending::OpenFailed, failure);
        }
        if let Err(failure) = self.give_up_standard() {
            return Course::failed(Ending::OpenFailed, failure);
        }
        let goes_forward = second.conduit.writes();
        if goes_forward && ends::is_same_source(first.conduit.read_fd(), second.conduit.read_fd()) {
            // Two readers of one stream would each get a part of it.
            second.conduit = second.conduit.write_only();
        }
        let (mut a, mut b) = (first.conduit, second.conduit);
        if self.settings.one_way {
            (a, b) = (a.read_only(), b.write_only());
        }
        let options = self.settings.relay(Arc::clone(counts));
        let wholes = [a.read_fd(), b.read_fd()].map(Whole::of);
        let relayed =
            programs::relay((&mut a, &mut first.keeper), (&mut b, &mut second.keeper), &options)
                .await;
        let cut = match &relayed {
            Ok(totals) if totals.ended == Ended::Closed => {
                let (first, second) = self.in_order(names.client.as_str(), names.other.as_str());
                let [forward, back] = &wholes;
                let check = |whole: &Option<Whole>, end: &Conduit, passed, name| {
                    whole.as_ref().map_or(Ok(()), |whole| whole.check(end.read_fd(), passed, name))
                };
                check(forward, &a, &totals.forward, first)
                    .and_then(|()| check(back, &b, &totals.back, second))
            }
            _ => Ok(()),
        };
        // A program sees the end of its input now.
        drop((a, b));
        match relayed {
            Ok(totals) => {
                if totals.ended == Ended::Closed {
                    self.part(first.keeper, id).await;
                    self.part(second.keeper, id).await;
                }
                let failure = cut.err();
                Course {
                    passed: Some((totals.forward, totals.back)),
                    ending: match failure {
                        Some(_) => Ending::RelayFailed,
                        None => totals.ended.into(),
                    },
                    failure,
                }
            }
            Err(error) => Course {
                passed: Some((error.passed(Way::Forward), error.passed(Way::Back))),
                ending: Ending::RelayFailed,
                failure: Some(self.relay_failure(&error, names)),
            },
        }
    }

    /// What is opened for one connection only is the connection's alone.
    fn give_up_standard(&self) -> Result<(), Failure> {
        if self.forks {
            return Ok(());
        }
        let (first, second) = self.in_order(&self.client, self.other.address());
        ends::give_up_standard(first, self.settings.how(true))?;
        ends::give_up_standard(second, self.settings.how(false))
    }

    fn relay_failure(&self, error: &Error, names: &Names) -> Failure {
        let (first, second) = self.in_order(names.client.as_str(), names.other.as_str());
        let mut failure = ends::relay_failure(error, first, second);
        let (first, second) = self.in_order(&self.client, self.other.address());
        failure.reader_gone = match error.end() {
            Some(crate::End::A) => ends::is_reader_gone(error, first),
            Some(crate::End::B) => ends::is_reader_gone(error, second),
            None => false,
        };
        failure
    }

    /// Where the client comes from, by its own PROXY header or by its socket.
    async fn header(&self, client: &End) -> Result<Header, Failure> {
        if !self.settings.accept_proxy {
            return Ok(match self.settings.send_proxy {
                Some(_) => Header::new(Some(client.peer.clone()), client.local()),
                None => Header { source: None, destination: None },
            });
        }
        let Some(socket) = client.conduit.read_fd() else {
            return Err(Failure::new("a PROXY header cannot be read from it", None));
        };
        let limit = self.settings.idle.map_or(HEADER_WAIT, |idle| idle.min(HEADER_WAIT));
        let header = proxy::accept(socket, limit).await;
        header.map_err(|error| Failure::new(format!("{}: {error}", client.peer), None))
    }

    /// Tells the other end where the client comes from, if that is asked for.
    async fn introduce(&self, header: &Header, other: &End, name: &str) -> Result<(), Failure> {
        let Some(version) = self.settings.send_proxy else { return Ok(()) };
        let Some(socket) = other.conduit.write_fd() else {
            return Err(Failure::new(format!("{name}: a PROXY header cannot be sent there"), None));
        };
        let sent = proxy::send(socket, header, version).await;
        sent.map_err(|error| {
            let what = format!("{name}: the PROXY header cannot be sent: {error}");
            Failure::new(what, error.raw_os_error())
        })
    }

    /// Waits until the program of an end, if there is one, has done its work.
    async fn part(&self, mut keeper: Keeper, id: u64) {
        let finished = async {
            match keeper.finished().await {
                Ok(Some(status)) if !status.success() => warn!(id, "the program ended: {status}"),
                Ok(_) => {}
                Err(error) => warn!(id, %error, "the program cannot be waited for"),
            }
        };
        match self.settings.linger.or(self.settings.idle) {
            None => finished.await,
            Some(limit) => drop(timeout(limit, finished).await),
        }
    }

    fn tell(&self, record: &Record) {
        self.ledger.end(record);
        if let Some(on_end) = &self.settings.on_end {
            on_end(record);
        }
        let client = if self.flipped { &record.second } else { &record.first };
        match &record.failure {
            Some(failure) if self.forks => warn!(id = record.id, client, "{failure}"),
            _ => info!(
                id = record.id,
                forward_bytes = record.forward.bytes,
                back_bytes = record.back.bytes,
                seconds = record.lasted.as_secs_f64(),
                ending = record.ending.as_str(),
                "ended"
            ),
        }
    }
}

fn counted(counts: &Counts, way: Way) -> Passed {
    Passed {
        bytes: counts.delivered_bytes(way),
        in_flight_bytes: counts.in_flight_bytes(way),
        method: None,
    }
}
