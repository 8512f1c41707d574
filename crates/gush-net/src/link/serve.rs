//! From two addresses to connections: one, or one for every client.

use std::convert::Infallible;
use std::sync::Arc;

use tokio::sync::{Mutex, Semaphore, mpsc};
use tracing::error;

use super::ends::{accept, listen, open_one};
use super::ledger::Ledger;
use super::record::Failure;
use super::roles::Roles;
use super::session::{Other, Shared};
use super::settings::Settings;
use super::stop::Stop;
use super::workers::{self, Workers};
use super::{exporter, limits};
use crate::address::Address;
use crate::open::Listener;

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
    // A name that is still being looked up holds nobody.
    runtime.shutdown_background();
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
        return shared(first, Other::Address(second.clone()), false).serve(opened?).await;
    };
    let Some(listener) = until(stop.draining(), listen(server)).await else { return Ok(()) };
    let mut listener = listener?;
    listener.count_strangers_in(ledger.strangers());
    let other = match other.kind().listens() {
        false => Other::Address(other.clone()),
        true => match until(stop.draining(), listen(other)).await {
            None => return Ok(()),
            Some(bound) => Other::Listener(Box::new(other.clone()), Mutex::new(bound?)),
        },
    };
    let shared = shared(server, other, roles.first.is_some());
    match roles.forks() {
        true => serve_all(listener, Arc::new(shared), roles.max_children()).await,
        false => serve_one(listener, &shared).await,
    }
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
    let places = limits::most_clients().min(max_children.unwrap_or(usize::MAX));
    let places = Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS)));
    let (open, mut all_closed) = mpsc::channel::<Infallible>(1);
    let mut workers = Workers::new(shared.settings.most_threads());
    let ended = loop {
        let accepting = async {
            // Who finds no place waits in the kernel's queue, not accepted.
            let place = Arc::clone(&places).acquire_owned().await;
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
    let _: Option<Infallible> = all_closed.recv().await;
    workers.join();
    ended
}
