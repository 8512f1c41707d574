//! One connection, from its arrival to its account.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::time::sleep;
use tracing::{info, warn};

use super::ends;
use super::ledger::Ledger;
use super::life::Life;
use super::record::{Ending, Failure, Record};
use super::settings::Settings;
use super::stop::Stop;
use crate::address::Address;
use crate::open::{End, How, Listener};
use crate::{Counts, Error, Passed, Way};

/// How long a client waits for descriptors that others hold, and how often it looks.
const DESCRIPTORS_WAIT: Duration = Duration::from_secs(10);
const DESCRIPTORS_LOOK: Duration = Duration::from_millis(50);

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
    pub(super) fn address(&self) -> &Address {
        match self {
            Other::Address(address) => address,
            Other::Listener(address, _) => address,
        }
    }

    pub(super) async fn open(&self, how: How) -> Result<End, Failure> {
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

/// Who stands at the two ends, as far as it is known yet.
pub(super) struct Names {
    pub client: String,
    pub other: String,
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
        let course = Life::new(self, id, &mut names, &counts).run(client).await;
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
    pub(super) fn in_order<T>(&self, client: T, other: T) -> (T, T) {
        if self.flipped { (other, client) } else { (client, other) }
    }

    /// Checks both ends before anything is moved between them, and makes them the connection's own.
    pub(super) fn ready(&self, first: &End, second: &mut End) -> Result<(), Failure> {
        self.settings.check_ends(first, second)?;
        self.give_up_standard()?;
        let goes_forward = second.conduit.writes();
        if goes_forward && ends::is_same_source(first.conduit.read_fd(), second.conduit.read_fd()) {
            // Two readers of one stream would each get a part of it.
            second.conduit.stop_reading();
        }
        Ok(())
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

    pub(super) fn relay_failure(&self, error: &Error, names: &Names) -> Failure {
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

    fn tell(&self, record: &Record) {
        self.ledger.end(record);
        if let Some(on_end) = &self.settings.on_end {
            on_end(record);
        }
        let client = if self.flipped { &record.second } else { &record.first };
        match &record.failure {
            // Many clients just stay silent.
            Some(failure) if self.forks && record.ending != Ending::Idle => {
                warn!(id = record.id, client, "{failure}")
            }
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
