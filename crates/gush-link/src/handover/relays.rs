//! The relays of a link, which stop while they are handed over.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use gush::Unpoisoned;
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
pub(super) const STOPPING: Duration = Duration::from_secs(1);
/// The same where those that are later are asked again.
pub(super) const STOPPING_FIRST: Duration = Duration::from_millis(20);

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
    stopped: Stopped,
    /// No message is ever sent: the channel closes when no relay has a request.
    _asked: mpsc::Sender<Infallible>,
}

/// The relays that have stopped so far; none is taken once nobody waits for them.
#[derive(Clone)]
struct Stopped(Arc<Mutex<Option<Arrived>>>);

struct Arrived {
    paused: Vec<Paused>,
    /// When the last one came.
    last: Instant,
}

/// Waits for relays to stop. Dropped, it lets them go on, also while others have its requests.
struct Stopping(Stopped);

impl Drop for Stopping {
    fn drop(&mut self) {
        let paused = self.0.0.lock().unpoisoned().take();
        drop(paused);
    }
}

/// A connection whose relay has stopped. Dropped, it goes on in this process.
pub(super) struct Paused {
    pub id: u64,
    pub names: Names,
    pub began: std::time::Instant,
    /// With the way back to its task.
    relaying: Option<(Box<Relaying>, oneshot::Sender<Box<Relaying>>)>,
}

impl Relays {
    pub fn enter(&self, id: u64) -> Entry<'_> {
        let (sender, requests) = unbounded_channel();
        self.0.lock().unpoisoned().insert(id, sender);
        Entry { relays: self, id, requests }
    }

    /// The numbers of all that can move.
    pub(super) fn ids(&self) -> Vec<u64> {
        self.0.lock().unpoisoned().keys().copied().collect()
    }

    /// Asks the relays with these numbers to stop. Returns those that have, once all have or none
    /// has for so long, and goes on then.
    pub(super) async fn stop(&self, ids: &[u64], patience: Duration) -> Vec<Paused> {
        let (sender, mut asked) = mpsc::channel(1);
        let mut since = Instant::now();
        let arrived = Arrived { paused: Vec::with_capacity(ids.len()), last: since };
        let stopped = Stopped(Arc::new(Mutex::new(Some(arrived))));
        let request = Request { stopped: stopped.clone(), _asked: sender };
        let stopping = Stopping(stopped);
        {
            let all = self.0.lock().unpoisoned();
            // A relay that ends meanwhile drops its request.
            let asked = ids.iter().filter_map(|id| all.get(id));
            asked.for_each(|relay| drop(relay.send(request.clone())));
        }
        drop(request);
        // Woken once, and not by each.
        while within((since + patience) - Instant::now(), asked.recv()).await.is_err() {
            let last =
                stopping.0.0.lock().unpoisoned().as_ref().map_or(since, |arrived| arrived.last);
            if std::mem::replace(&mut since, last) == last {
                break;
            }
        }
        let stopped = stopping.0.0.lock().unpoisoned().take();
        stopped.map_or_else(Vec::new, |arrived| arrived.paused)
    }

    /// Waits a moment if connections are being opened.
    pub(super) async fn wait_for_openings(&self, ledger: &Ledger) {
        let until = Instant::now() + OPENING;
        while (self.0.lock().unpoisoned().len() as u64) < ledger.active() && Instant::now() < until
        {
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
        self.relays.0.lock().unpoisoned().remove(&self.id);
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
        let late = match &mut *self.stopped.0.lock().unpoisoned() {
            Some(arrived) => {
                arrived.paused.push(paused);
                arrived.last = Instant::now();
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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use gush_net::{Conduit, Relay, RelayOptions};
    use tokio::time::timeout;

    use super::*;
    use crate::connection::Directions;
    use crate::open::{End, Peer};

    async fn asked(entry: &mut Entry<'_>) -> Request {
        poll_fn(|cx| Entry::poll_asked(Some(entry), cx)).await
    }

    async fn offer(request: Request, id: u64) -> Option<Box<Relaying>> {
        let end = || {
            let (socket, _) = std::os::unix::net::UnixStream::pair().expect("a pair");
            let conduit = Conduit::new(socket.into()).expect("an end");
            Box::new(End::new(conduit, Peer::Other("peer".into())))
        };
        let relaying = Box::new(Relaying {
            first: end(),
            second: end(),
            relay: Relay::new(&RelayOptions::new()),
            directions: Directions { forward: true, back: true },
            has_datagrams: false,
        });
        let names = Names { client: "client".into(), other: "other".into() };
        request.offer(id, names, std::time::Instant::now(), relaying).await
    }

    #[tokio::test(start_paused = true)]
    async fn one_late_relay_holds_the_others_no_longer_than_the_limit() {
        let relays = Relays::default();
        let [mut late, mut one, mut other] = [0, 1, 2].map(|id| relays.enter(id));
        let began = Instant::now();
        let serves = async {
            let _late = asked(&mut late).await;
            let (one, other) = (asked(&mut one).await, asked(&mut other).await);
            tokio::join!(offer(one, 1), offer(other, 2))
        };
        let stops = async {
            let paused = relays.stop(&[0, 1, 2], STOPPING).await;
            (paused.len(), began.elapsed())
        };
        let ((stopped, held), _) = tokio::join!(stops, serves);
        assert_eq!(stopped, 2);
        assert!(held < 2 * STOPPING, "{held:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_relay_goes_on_when_nobody_waits_for_the_others_any_more() {
        let relays = Relays::default();
        let [mut late, mut one] = [0, 1].map(|id| relays.enter(id));
        let stops = timeout(Duration::from_millis(1), relays.stop(&[0, 1], STOPPING));
        let serves = async {
            let _late = asked(&mut late).await;
            timeout(2 * STOPPING, offer(asked(&mut one).await, 1)).await
        };
        let (stopped, served) = tokio::join!(stops, serves);
        assert!(stopped.is_err() && served.is_ok_and(|stays| stays.is_some()));
    }
}
