//! The relays of a link, which stop while they are handed over.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use gush_net::within;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::wire::GROUP;
use crate::connection::Relaying;
use crate::ledger::Ledger;
use crate::session::Names;

/// How long connections that are being opened may take to reach their relay. No relay is paused
/// meanwhile, and clients wait in the queue of the listener.
const OPENING: Duration = Duration::from_millis(50);
/// How long the next relay may take to stop, on a machine with too much to do for example. Those
/// that are later stay.
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
#[derive(Clone)]
pub(crate) struct Request(UnboundedSender<Paused>);

/// Relays that were asked to stop.
pub(super) struct Stopping(UnboundedReceiver<Paused>);

/// A connection whose relay has stopped. Dropped, it goes on in this process.
pub(super) struct Paused {
    pub id: u64,
    pub names: Names,
    pub began: std::time::Instant,
    /// With the way back to its task.
    relaying: Option<(Box<Relaying>, oneshot::Sender<Box<Relaying>>)>,
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

    /// The numbers of all that can move.
    pub(super) fn ids(&self) -> Vec<u64> {
        self.all().keys().copied().collect()
    }

    /// Asks the relays with these numbers to stop, and returns each as it does.
    pub(super) fn ask(&self, ids: &[u64]) -> Stopping {
        let (asks, stopped) = unbounded_channel();
        let request = Request(asks);
        let all = self.all();
        // A relay that ends meanwhile drops its request.
        ids.iter().filter_map(|id| all.get(id)).for_each(|relay| drop(relay.send(request.clone())));
        Stopping(stopped)
    }

    /// Waits a moment if connections are being opened.
    pub(super) async fn wait_for_openings(&self, ledger: &Ledger) {
        let until = Instant::now() + OPENING;
        while (self.all().len() as u64) < ledger.active() && Instant::now() < until {
            sleep(Duration::from_millis(1)).await;
        }
    }
}

impl Stopping {
    /// Those that have stopped by now, one at least; none once all have, or are late: these find
    /// nobody, and go on.
    pub async fn some(&mut self) -> Vec<Paused> {
        let mut paused = Vec::new();
        let _ = within(STOPPING, self.0.recv_many(&mut paused, GROUP)).await;
        paused
    }

    pub async fn all(mut self) -> Vec<Paused> {
        let mut paused = Vec::new();
        loop {
            match self.some().await {
                some if some.is_empty() => return paused,
                some => paused.extend(some),
            }
        }
    }
}

impl Entry<'_> {
    /// Ready when the relay is to stop; never for one that cannot move.
    pub fn poll_asked(entry: Option<&mut Self>, cx: &mut Context<'_>) -> Poll<Request> {
        match entry.map(|entry| entry.requests.poll_recv(cx)) {
            Some(Poll::Ready(Some(request))) => Poll::Ready(request),
            _ => Poll::Pending,
        }
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.relays.all().remove(&self.id);
    }
}

impl Request {
    /// Offers a paused relay. Returns it if it stays.
    pub async fn offer(
        self,
        id: u64,
        names: Names,
        began: std::time::Instant,
        relaying: Box<Relaying>,
    ) -> Option<Box<Relaying>> {
        let (back, stays) = oneshot::channel();
        let relaying = Some((relaying, back));
        // A refused one is dropped, and comes back.
        let _ = self.0.send(Paused { id, names, began, relaying });
        drop(self);
        stays.await.ok()
    }
}

impl Paused {
    pub fn relaying(&self) -> Option<&Relaying> {
        self.relaying.as_ref().map(|(relaying, _)| &**relaying)
    }

    /// The connection belongs to another process.
    pub fn moved(mut self) {
        if let Some((relaying, _)) = self.relaying.take() {
            relaying.set_shared(false);
        }
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        if let Some((relaying, back)) = self.relaying.take() {
            // Its task is gone only if the link has ended.
            let _ = back.send(relaying);
        }
    }
}
