//! From two addresses to a connection, or to a [server](crate::server) of every client. Every wait
//! is raced against [`Stop`](crate::Stop).

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex as StdMutex};

use gush_text::with_unit;
use tokio::sync::Mutex;
use tracing::warn;

use crate::address::{Address, Opt};
use crate::connection;
use crate::ends::{accept_only, listen, open_failure, open_one, open_ready};
use crate::exporter;
use crate::handover::{Handover, Metrics, Relays};
use crate::ledger::Ledger;
use crate::open::{Listener, Peer, Throttle, prepare, reaper};
use crate::record::{Failure, Record};
use crate::roles::Roles;
use crate::server::serve_all;
use crate::session::{Arrival, EARLY_WARNINGS, Name, Other, Shared};
use crate::settings::Settings;
use crate::shared_end::SharedEnd;
use crate::stop::{Cancellation, Stop};
use crate::workers;

/// Runs a link to its end.
///
/// # Errors
/// The failure that ended the link early.
pub(crate) fn run(
    roles: &Roles,
    settings: &Arc<Settings>,
    ledger: &Arc<Ledger>,
    stop: &Stop,
) -> Result<(), Failure> {
    check(roles, settings).map_err(|failure| not_opened(failure, roles, settings, ledger))?;
    let runtime = workers::runtime().map_err(|error| {
        Failure::new(format!("no runtime can be started: {error}"), error.raw_os_error())
    })?;
    let ran = runtime.block_on(async {
        let mut handover = None;
        if let Some(path) = &settings.handover {
            let begun = until(stop.draining(), Handover::begin(path, roles)).await;
            let Some(begun) = begun else { return Ok(()) };
            handover = Some(begun?);
        }
        if let Some(place) = &settings.metrics {
            let taken = handover.as_mut().and_then(|handover| handover.metrics_at(place));
            let listener = exporter::listen(place, taken).await?;
            let copy = listener.as_fd().try_clone_to_owned();
            // Listening before the first client: a port that is taken ends the link at once.
            let answering = tokio::spawn(exporter::answer(listener, Arc::clone(ledger)));
            if let (Some(handover), Ok(listener)) = (&mut handover, copy) {
                let (place, answering) = (place.clone(), answering.abort_handle());
                handover.give_metrics(Metrics { place, listener, answering });
            }
        }
        connect(roles, settings, ledger, stop, handover).await
    });
    // Without waiting: a lookup may hang in getaddrinfo(3), which cannot be cancelled.
    runtime.shutdown_background();
    // No program that must end outlives the link.
    let limit = settings.drain_limit();
    reaper::wait(|| stop.is_over(limit));
    let copies = || [&settings.tee, &settings.tee_back].into_iter().flatten();
    copies().for_each(|tee| tee.finish(|| stop.is_over(limit)));
    // A cut copy is a failure of the link, even if every connection succeeded.
    let lost = copies().find_map(|tee| tee.failure());
    ran.and(lost.map_or(Ok(()), |message| Err(Failure::new(message, None))))
}

/// The first step of a start, which reads what the addresses name, and opens nothing.
pub(crate) fn check(roles: &Roles, settings: &Settings) -> Result<(), Failure> {
    for (address, is_first) in [(&roles.first, true), (&roles.second, false)] {
        prepare(address, &settings.how(is_first)).map_err(|error| open_failure(&error))?;
    }
    Ok(())
}

async fn connect(
    roles: &Roles,
    settings: &Arc<Settings>,
    ledger: &Arc<Ledger>,
    stop: &Stop,
    handover: Option<Handover>,
) -> Result<(), Failure> {
    let shared = |client: &Address, other: Other, flipped| Shared {
        client: client.clone(),
        settings: Arc::clone(settings),
        ledger: Arc::clone(ledger),
        stop: stop.clone(),
        other_name: Name::Text(other.address().locator().to_string().into()),
        other,
        flipped,
        forks: roles.forks(),
        early_warnings: Throttle::allowing(EARLY_WARNINGS).into(),
        relays: settings.handover.as_ref().map(|_| Relays::default()),
        is_ipv6: false,
    };
    let unopened = |failure| not_opened(failure, roles, settings, ledger);
    let (Some(server), Some(other)) = (roles.server(), roles.other()) else {
        let flipped = settings.reversed;
        let Roles { first, second, .. } = roles;
        let (client, other) = if flipped { (second, first) } else { (first, second) };
        let how = settings.how(!flipped).once();
        let Some(opened) = until(stop.cancelled(), open_one(client, &how)).await else {
            return Ok(());
        };
        let shared = shared(client, Other::Address(other.clone()), flipped);
        let Arrival { client, mut known } = shared.arrived(opened.map_err(unopened)?);
        return connection::serve(&shared, client, &mut known, &Cancellation::of(stop)).await;
    };
    let flipped = roles.are_flipped();
    let (how, how_other) = (settings.how(!flipped), settings.how(flipped));
    // A PROXY header comes first, and names the client.
    let is_opened_first = !roles.forks()
        && !other.kind().listens()
        && flipped != settings.reversed
        && settings.send_proxy.is_none();
    let opened = match roles.shares_other() || is_opened_first {
        false => None,
        true => {
            let how = how_other.clone().once();
            match until(stop.draining(), open_ready(other, &how)).await {
                None => return Ok(()),
                Some(opened) => Some(opened.map_err(unopened)?),
            }
        }
    };
    let listener = {
        // A copy that stayed open would queue clients that a draining link refuses.
        let how = how.listening(handover.as_ref().and_then(Handover::listener));
        until(stop.draining(), listen(server, &how)).await
    };
    let Some(listener) = listener else { return Ok(()) };
    let mut listener = listener.map_err(unopened)?;
    listener.count_in(ledger.listener());
    let other = match (opened, other.kind().listens()) {
        (Some(end), _) if roles.forks() => Other::Shared(Box::new(SharedEnd::new(other, end)?)),
        (Some(end), _) => Other::Opened(other.clone(), StdMutex::new(Some(Box::new(end)))),
        (None, false) => Other::Address(other.clone()),
        // As socat, so that a probe of the second listener is refused until a client is at the
        // first.
        (None, true) if settings.graceful => Other::Address(other.clone()),
        // The second listener listens from the start: its clients may come before ours.
        (None, true) => match until(stop.draining(), listen(other, &how_other)).await {
            None => return Ok(()),
            Some(bound) => Other::Listener(Box::new(other.clone()), Arc::new(Mutex::new(bound?))),
        },
    };
    let is_ipv6 = matches!(listener.local(), Ok(Peer::Ip(SocketAddr::V6(_))));
    let shared = Shared { is_ipv6, ..shared(server, other, flipped) };
    if roles.forks() {
        serve_all(listener, Arc::new(shared), roles.max_children(), handover).await
    } else {
        serve_one(listener, &shared).await
    }
}

/// Gives the account of a link's only connection, whose address could not be opened. A server has
/// had no connection then.
fn not_opened(failure: Failure, roles: &Roles, settings: &Settings, ledger: &Ledger) -> Failure {
    if roles.forks() {
        return failure;
    }
    let Roles { first, second, .. } = roles;
    let record = Record::of_unopened(ledger.begin(Arc::default()), first, second, failure.clone());
    ledger.end(record.id, [0; 2], record.lasted, record.ending);
    if let Some(on_end) = &settings.on_end {
        on_end(&record);
    }
    failure
}

/// The result of `work`, or `None` if `stop` is over first.
pub(crate) async fn until<T>(
    stop: impl Future<Output = ()>,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        () = stop => None,
        done = work => Some(done),
    }
}

/// Resolves when draining is wanted, or `accept-timeout` has passed since the last client came.
pub(crate) async fn no_more_clients(shared: &Shared) {
    let late = async {
        let Some(limit) = shared.client.options().duration(Opt::AcceptTimeout) else {
            return std::future::pending().await;
        };
        let mut before = None;
        // Other threads accept as well.
        while before.replace(shared.ledger.connections()) != Some(shared.ledger.connections()) {
            tokio::time::sleep(limit).await;
        }
        warn!("{}: no client has come for {}", shared.client, with_unit(limit));
    };
    tokio::select! {
        () = shared.stop.draining() => {}
        () = late => {}
    }
}

/// Serves the first client. The listener is closed by then.
async fn serve_one(mut listener: Listener, shared: &Shared) -> Result<(), Failure> {
    let accepted = until(no_more_clients(shared), accept_only(&mut listener)).await;
    // Other clients are refused at once, and do not wait in the queue.
    listener.close();
    match accepted {
        None => Ok(()),
        Some(client) => {
            let Arrival { client, mut known } = shared.arrived(client?);
            let cancellation = Cancellation::of(&shared.stop);
            connection::serve(shared, client, &mut known, &cancellation).await
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;
    use crate::connection::{Connection, ConnectionResult};
    use crate::open::End;
    use crate::proxy::Version;
    use crate::record::Ending;
    use crate::session::Names;

    pub(crate) fn shared(settings: Settings) -> Shared {
        let address = |text: &str| text.parse::<Address>().expect("an address");
        Shared {
            settings: Arc::new(settings),
            ledger: Arc::new(Ledger::new().expect("metrics agree")),
            stop: Stop::new(),
            client: address("unix-listen:front,fork"),
            other: Other::Address(address("null:")),
            other_name: "null:".into(),
            flipped: false,
            forks: true,
            early_warnings: Throttle::allowing(EARLY_WARNINGS).into(),
            relays: None,
            is_ipv6: false,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_header_of_proxy_is_waited_for_5_s_or_as_long_as_the_idle_limit() {
        let second = Duration::from_secs(1);
        for (idle, seconds) in [(None, 5), (Some(3 * second), 3), (Some(60 * second), 5)] {
            let shared = shared(Settings { accept_proxy: true, idle, ..Settings::default() });
            let (result, waited) = result_of_a_mute_client(&shared).await;
            assert_eq!(result.ending, Ending::ProxyHeader);
            assert_eq!(waited, seconds, "{:?}", result.failure);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_header_of_proxy_has_5_s_to_be_taken_by_the_other_end_or_by_a_part_of_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let fifo = dir.path().join("full").display().to_string();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0)
            .expect("a FIFO");
        let mut full = std::fs::File::options().read(true).write(true).open(&fifo).expect("open");
        rustix::io::ioctl_fionbio(&full, true).expect("non-blocking");
        while full.write(&[0; 4096]).is_ok() {}
        for (other, ending) in [
            (format!("pipe:{fifo}"), Ending::ProxyHeader),
            (format!("null:!!pipe:{fifo}"), Ending::OpenFailed),
        ] {
            let settings = Settings { send_proxy: Some(Version::V1), ..Settings::default() };
            let other = Other::Address(other.parse().expect("an address"));
            let shared = Shared { other, ..shared(settings) };
            let (result, seconds) = result_of_a_mute_client(&shared).await;
            let failure = result.failure.expect("the header was not delivered").message;
            assert_eq!((result.ending, seconds), (ending, 5), "{failure}");
            assert!(failure.contains("the PROXY header"), "{failure}");
        }
    }

    /// The result of the connection of a client that sends nothing, and how many seconds it took.
    async fn result_of_a_mute_client(shared: &Shared) -> (ConnectionResult, u64) {
        let (client, mute) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let conduit = gush_net::Conduit::new(client.into()).expect("an end");
        let client = Box::new(End::new(conduit, Peer::Other("client".into())));
        let mut names = Names { client: "client".into(), other: "other".into() };
        let counts = Arc::default();
        let began = Instant::now();
        let cancellation = Cancellation::of(&shared.stop);
        let mut connection = Connection {
            shared,
            id: 1,
            names: &mut names,
            counts: &counts,
            cancellation: &cancellation,
            turn: &mut None,
            began: std::time::Instant::now(),
        };
        let result = connection.run(client).await.expect("it cannot move");
        drop(mute);
        (result, began.elapsed().as_secs())
    }
}
