//! The relays of a link, which stop while they are handed over.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use gush_net::within;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use crate::connection::Relaying;
use crate::ledger::Ledger;
use crate::session::Names;

/// How long connections that are being opened may take to reach their relay. No relay is paused
/// meanwhile, and clients wait in the queue of the listener.
const OPENING: Duration = Duration::from_millis(50);
/// How long no relay may stop that was asked to, on a machine with too much to do for example.
/// Those that are later stay.
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
pub(crate) struct Request {
    stopped: Arc<Mutex<Stopped>>,
    /// No message is ever sent: the channel closes when no relay has a request.
    _asked: mpsc::Sender<Infallible>,
}

/// Those that have stopped so far; none is taken once nobody waits for them.
type Stopped = Option<Vec<Paused>>;

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

    /// Asks the relays with these numbers to stop. Returns those that have, once all have or the
    /// rest is late, and goes on then.
    pub(super) async fn stop(&self, ids: &[u64]) -> Vec<Paused> {
        let (sender, mut asked) = mpsc::channel(1);
        let stopped = Arc::new(Mutex::new(Some(Vec::with_capacity(ids.len()))));
        let request = Request { stopped: Arc::clone(&stopped), _asked: sender };
        {
            let all = self.all();
            // A relay that ends meanwhile drops its request.
            let asked = ids.iter().filter_map(|id| all.get(id));
            asked.for_each(|relay| drop(relay.send(request.clone())));
        }
        drop(request);
        let stopped = || stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let mut count = 0;
        // Woken once, and not by each.
        while within(STOPPING, asked.recv()).await.is_err() {
            let now = stopped().as_ref().map_or(0, Vec::len);
            if std::mem::replace(&mut count, now) == now {
                break;
            }
        }
        let paused = stopped().take();
        paused.unwrap_or_default()
    }

    /// Waits a moment if connections are being opened.
    pub(super) async fn wait_for_openings(&self, ledger: &Ledger) {
        let until = Instant::now() + OPENING;
        while (self.all().len() as u64) < ledger.active() && Instant::now() < until {
            sleep(Duration::from_millis(1)).await;
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
        let paused = Paused { id, names, began, relaying: Some((relaying, back)) };
        // One that is late is dropped, and comes back.
        let late = match &mut *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(stopped) => {
                stopped.push(paused);
                None
            }
            None => Some(paused),
        };
        drop((late, self));
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
