//! The relays of a link, which stop a few at a time while they are handed over.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gush_net::within;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, sleep};

use super::wire::GROUP;
use crate::connection::Relaying;
use crate::ledger::Ledger;
use crate::session::Names;

/// How long connections that are being opened may take to reach their relay. No relay is paused
/// meanwhile.
const OPENING: Duration = Duration::from_millis(100);
/// How long the next relay may take to stop, on a machine with too much to do for example. None
/// is paused meanwhile. Those that are later stay.
const STOPPING: Duration = Duration::from_secs(5);

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
pub(crate) struct Request {
    stopped: UnboundedSender<Paused>,
    turn: OwnedSemaphorePermit,
}

/// A connection whose relay has stopped. Dropped, it goes on in this process.
pub(super) struct Paused {
    pub id: u64,
    pub names: Names,
    pub began: std::time::Instant,
    /// With the way back to its task.
    relaying: Option<(Box<Relaying>, oneshot::Sender<Box<Relaying>>)>,
    _turn: OwnedSemaphorePermit,
}

/// Stops the relays, so that no more than [`GROUP`] are paused at a time: each is asked when the
/// turn of another is over.
pub(super) struct Pausing<'a> {
    relays: &'a Relays,
    ledger: &'a Ledger,
    asked: HashSet<u64>,
    to_ask: VecDeque<u64>,
    turns: Arc<Semaphore>,
    asks: UnboundedSender<Paused>,
    stopped: UnboundedReceiver<Paused>,
    /// Set once all are asked.
    opening_until: Option<Instant>,
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

    pub(super) fn pausing<'a>(&'a self, ledger: &'a Ledger) -> Pausing<'a> {
        let (asks, stopped) = unbounded_channel();
        Pausing {
            relays: self,
            ledger,
            asked: HashSet::new(),
            to_ask: VecDeque::new(),
            turns: Arc::new(Semaphore::new(GROUP)),
            asks,
            stopped,
            opening_until: None,
        }
    }
}

impl Pausing<'_> {
    /// The next paused relays; none once all that can have.
    pub async fn group(&mut self) -> Vec<Paused> {
        loop {
            let is_all = !self.has_more();
            // The last turns are over when no relay is paused, or is still asked to.
            let wanted = if is_all { GROUP as u32 } else { 1 };
            let turns = Arc::clone(&self.turns).acquire_many_owned(wanted);
            let one = tokio::select! {
                biased;
                Ok(turn) = turns => {
                    if !is_all {
                        self.ask(turn);
                        continue;
                    }
                    drop(turn);
                    if self.waits_for_openings().await {
                        continue;
                    }
                    return Vec::new();
                }
                one = within(STOPPING, self.stopped.recv()) => one,
            };
            let Ok(Some(one)) = one else { return Vec::new() };
            let mut group = vec![one];
            while group.len() < GROUP
                && let Ok(more) = self.stopped.try_recv()
            {
                group.push(more);
            }
            return group;
        }
    }

    /// Is there a relay that was not asked yet?
    fn has_more(&mut self) -> bool {
        if self.to_ask.is_empty() {
            let all = self.relays.all();
            self.to_ask.extend(all.keys().filter(|id| !self.asked.contains(id)));
        }
        !self.to_ask.is_empty()
    }

    fn ask(&mut self, turn: OwnedSemaphorePermit) {
        let Some(id) = self.to_ask.pop_front() else { return };
        self.asked.insert(id);
        if let Some(relay) = self.relays.all().get(&id) {
            // A relay that has ended meanwhile drops its request.
            let _ = relay.send(Request { stopped: self.asks.clone(), turn });
        }
    }

    /// Waits a moment if connections are being opened, and have not taken too long already.
    async fn waits_for_openings(&mut self) -> bool {
        let until = *self.opening_until.get_or_insert_with(|| Instant::now() + OPENING);
        let waits =
            (self.relays.all().len() as u64) < self.ledger.active() && Instant::now() < until;
        if waits {
            sleep(Duration::from_millis(1)).await;
        }
        waits
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
    /// Offers a paused relay. Returns it if it stays.
    pub async fn offer(
        self,
        id: u64,
        names: Names,
        began: std::time::Instant,
        relaying: Box<Relaying>,
    ) -> Option<Box<Relaying>> {
        let Self { stopped, turn } = self;
        let (back, stays) = oneshot::channel();
        let relaying = Some((relaying, back));
        // A refused one is dropped, and comes back.
        let _ = stopped.send(Paused { id, names, began, relaying, _turn: turn });
        drop(stopped);
        stays.await.ok()
    }
}

impl Paused {
    pub fn relaying(&self) -> Option<&Relaying> {
        self.relaying.as_ref().map(|(relaying, _)| &**relaying)
    }

    /// The connection belongs to another process.
    pub fn moved(mut self) {
        self.relaying = None;
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
