//! The relays of a link, which stand still while they are handed over.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gush_net::within;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::connection::Relaying;
use crate::ledger::Ledger;
use crate::session::Names;

/// How long connections that are being opened may take to reach their relay. No relay stands still
/// meanwhile.
const OPENING: Duration = Duration::from_millis(100);
/// How long relays may take to stop. One that is later stays.
const STOPPING: Duration = Duration::from_secs(1);

/// The relays that can move, by the number of their connection.
#[derive(Default)]
pub(crate) struct Relays(Mutex<BTreeMap<u64, UnboundedSender<Request>>>);

/// A relay among those that can move, until it is dropped.
pub(crate) struct Entry<'a> {
    relays: &'a Relays,
    id: u64,
    requests: UnboundedReceiver<Request>,
}

/// Asks a relay to stop.
pub(crate) struct Request(UnboundedSender<Paused>);

/// A connection whose relay has stopped. Dropped, it has moved to another process.
pub(super) struct Paused {
    pub id: u64,
    pub names: Names,
    pub began: Instant,
    pub relaying: Relaying,
    back: oneshot::Sender<Relaying>,
}

impl Relays {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, UnboundedSender<Request>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn enter(&self, id: u64) -> Entry<'_> {
        let (sender, requests) = unbounded_channel();
        self.all().insert(id, sender);
        Entry { relays: self, id, requests }
    }

    /// Stops the relays, and returns their connections.
    pub(super) async fn pause(&self, ledger: &Ledger) -> Vec<Paused> {
        let begun = Instant::now();
        while (self.all().len() as u64) < ledger.active() && begun.elapsed() < OPENING {
            sleep(Duration::from_millis(1)).await;
        }
        let (asks, mut stopped) = unbounded_channel();
        // A relay that has ended meanwhile drops its request.
        self.all().values().for_each(|relay| drop(relay.send(Request(asks.clone()))));
        drop(asks);
        let mut all = Vec::new();
        let gathered = async {
            while let Some(one) = stopped.recv().await {
                all.push(one);
            }
        };
        let _ = within(STOPPING, gathered).await;
        // A later one is refused, and goes on.
        stopped.close();
        while let Some(late) = stopped.recv().await {
            all.push(late);
        }
        all
    }
}

impl Entry<'_> {
    /// Resolves when the relay is to stop; never for one that cannot move. May be cancelled.
    pub async fn asked(entry: Option<&mut Self>) -> Request {
        let Some(entry) = entry else { return pending().await };
        match entry.requests.recv().await {
            Some(request) => request,
            None => pending().await,
        }
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.relays.all().remove(&self.id);
    }
}

impl Request {
    /// Offers a relay that stands still. Returns it if it stays.
    pub async fn offer(
        self,
        id: u64,
        names: Names,
        began: Instant,
        relaying: Relaying,
    ) -> Option<Relaying> {
        let (back, stays) = oneshot::channel();
        match self.0.send(Paused { id, names, began, relaying, back }) {
            Ok(()) => {
                // The giver waits until all requests are dropped.
                drop(self);
                stays.await.ok()
            }
            Err(refused) => Some(refused.0.relaying),
        }
    }
}

impl Paused {
    /// The connection goes on in this process.
    pub fn stays(self) {
        // Its task is gone only if the link has ended.
        let _ = self.back.send(self.relaying);
    }
}
