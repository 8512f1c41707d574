//! From two addresses to connections: one, or one for every client.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc};
use tracing::error;

use super::ends::{accept, listen, open_one};
use super::exporter;
use super::ledger::Ledger;
use super::limits::Places;
use super::record::{Failure, Record};
use super::roles::Roles;
use super::session::{Other, Shared};
use super::settings::Settings;
use super::stop::Stop;
use super::workers::{self, Workers};
use crate::address::Address;
use crate::open::{Listener, reaper};

/// How long clients may go on once the link drains, where no setting says.
const DRAIN: Duration = Duration::from_secs(30);

/// Runs a link to its end.
///
/// # Errors
/// What ended it early.
pub(super) fn run(
    roles: &Roles,
    settings: &Arc<Settings>,
    ledger: &Arc<Ledger>,
    stop: &Stop,
) -> Result<(), Failure> {
    let runtime = workers::runtime().map_err(|error| {
        Failure::new(format!("no runtime can be started: {error}"), error.raw_os_error())
    })?;
    let ran = runtime.block_on(async {
        if let Some(place) = &settings.metrics {
            let listener = exporter::listen(place).await?;
            tokio::spawn(exporter::answer(listener, Arc::clone(ledger)));
        }
        connect(roles, settings, ledger, stop).await
    });
    runtime.shutdown_background();
    // None of the programs that were started is left behind.
    reaper::wait(|| stop.is_ending());
    let copies = [&settings.tee, &settings.tee_back];
    let lost = copies.into_iter().flatten().find_map(|tee| tee.failure());
    ran.and(lost.map_or(Ok(()), |message| Err(Failure::new(message, None))))
}

async fn connect(
    roles: &Roles,
    settings: &Arc<Settings>,
    ledger: &Arc<Ledger>,
    stop: &Stop,
) -> Result<(), Failure> {
    let shared = |client: &Address, other, flipped| Shared {
        client: client.clone(),
        settings: Arc::clone(settings),
        ledger: Arc::clone(ledger),
        stop: stop.clone(),
        other,
        flipped,
        forks: roles.forks(),
    };
    let (Some(server), Some(other)) = (&roles.server, roles.other()) else {
        let (Some(first), Some(second)) = (&roles.first, &roles.second) else {
            return Err(Failure::new("two addresses are needed", None));
        };
        let Some(opened) = until(stop.ending(), open_one(first, settings.how(true).once())).await
        else {
            return Ok(());
        };
        let shared = shared(first, Other::Address(second.clone()), false);
        return match opened {
            Ok(end) => shared.serve(end).await,
            Err(failure) => Err(not_opened(failure, first, second, settings, ledger)),
        };
    };
    let Some(listener) = until(stop.draining(), listen(server)).await else { return Ok(()) };
    let mut listener = match listener {
        Ok(listener) => listener,
        Err(failure) if roles.forks() => return Err(failure),
        Err(failure) => {
            let (first, second) = match &roles.first {
                Some(first) => (first, server),
                None => (server, other),
            };
            return Err(not_opened(failure, first, second, settings, ledger));
        }
    };
    listener.count_strangers_in(ledger.strangers());
    listener.count_waits_in(ledger.descriptor_waits());
    let other = match other.kind().listens() {
        false => Other::Address(other.clone()),
        true => match until(stop.draining(), listen(other)).await {
            None => return Ok(()),
            Some(bound) => Other::Listener(Box::new(other.clone()), Box::new(Mutex::new(bound?))),
        },
    };
    let shared = shared(server, other, roles.first.is_some());
    match roles.forks() {
        true => serve_all(listener, Arc::new(shared), roles.max_children()).await,
        false => serve_one(listener, &shared).await,
    }
}

/// Gives the account of the only connection of a link, whose address could not even be opened.
fn not_opened(
    failure: Failure,
    first: &Address,
    second: &Address,
    settings: &Settings,
    ledger: &Ledger,
) -> Failure {
    let record = Record::of_unopened(ledger.begin(Arc::default()), first, second, failure.clone());
    ledger.end(&record);
    if let Some(on_end) = &settings.on_end {
        on_end(&record);
    }
    failure
}

/// What `work` gives, unless `stop` is over first.
async fn until<T>(stop: impl Future<Output = ()>, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = stop => None,
        done = work => Some(done),
    }
}

/// The first client is served; nobody listens any more then.
async fn serve_one(mut listener: Listener, shared: &Shared) -> Result<(), Failure> {
    let accepted = until(shared.stop.draining(), accept(&mut listener)).await;
    drop(listener);
    match accepted {
        None => Ok(()),
        Some(client) => shared.serve(client?).await,
    }
}

/// Every client is served until draining is wanted; then those that are connected finish.
async fn serve_all(
    mut listener: Listener,
    shared: Arc<Shared>,
    max_children: Option<usize>,
) -> Result<(), Failure> {
    let threads = shared.settings.most_threads();
    let places = Places::new(max_children, &shared.client, shared.other.address(), threads);
    let (open, mut all_closed) = mpsc::channel::<Infallible>(1);
    let mut workers = Workers::new(threads);
    let ended = loop {
        let accepting = async {
            // Who finds no place waits in the kernel's queue, not accepted.
            let place = places.take(&shared.ledger).await;
            (accept(&mut listener).await, place)
        };
        let (client, place) = match until(shared.stop.draining(), accepting).await {
            None => break Ok(()),
            Some((Ok(client), place)) => (client, place),
            Some((Err(failure), _)) => break Err(failure),
        };
        let (shared, open) = (Arc::clone(&shared), open.clone());
        workers.spawn(async move {
            // Its failure is its own, and told.
            let _ = shared.serve(client).await;
            drop((place, open));
        });
    };
    drop(listener);
    drop(open);
    if let Err(failure) = &ended
        && shared.ledger.active() > 0
    {
        error!("{failure}; no new clients, those that are connected finish");
    }
    let closed = async {
        let _: Option<Infallible> = all_closed.recv().await;
    };
    let drained = drained(closed, &shared).await;
    workers.join();
    ended.and(drained)
}

/// Waits until all clients are served: for ever, or once the link drains for so long as it may take.
async fn drained(closed: impl Future<Output = ()>, shared: &Shared) -> Result<(), Failure> {
    let limit = shared.settings.drain.unwrap_or(DRAIN);
    let late = async {
        shared.stop.draining().await;
        tokio::time::sleep(limit).await;
    };
    tokio::pin!(closed);
    tokio::select! {
        biased;
        () = &mut closed => return Ok(()),
        () = late => {}
    }
    let cut = shared.ledger.active();
    shared.stop.cut();
    closed.await;
    let why = format!(
        "{cut} connections were cut, which had not ended {limit:?} after draining began (--drain TIME waits longer)"
    );
    Err(Failure::new(why, None))
}
