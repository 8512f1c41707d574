//! A link that serves every client.
//!
//! A client is accepted only if a place is free (`max-children=`, descriptors); otherwise it stays
//! in the kernel's queue.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use gush_text::with_unit;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tracing::{error, info, warn};

use crate::connection;
use crate::ends::accept;
use crate::handover::{Event, FAILED, Handover, HandoverRole, Resumed, Taken, Taker};
use crate::limits::Places;
use crate::open::{End, Listener};
use crate::record::Failure;
use crate::serve::{no_more_clients, until};
use crate::session::{Arrival, Other, Shared};
use crate::workers::{Balance, LoadGuard, Seat, Workers};

/// How long a handover may go on once the link drains.
const LAST_GROUPS: Duration = Duration::from_secs(1);

/// How many clients a thread accepts before the clients that it serves, and the other threads that
/// accept, have their turn. A turn of the runtime costs an epoll_wait(2).
const ACCEPT_BATCH: usize = 4;

/// A client of a link that serves many.
pub(crate) struct Client {
    work: Work,
    /// Released at the end.
    _place: Option<OwnedSemaphorePermit>,
    open: Arc<OpenLink>,
}

/// What is to be done for a client.
enum Work {
    Serve(Arrival),
    Resume(Box<Resumed>),
}

/// A link for as long as clients are served or may come.
struct OpenLink {
    shared: Arc<Shared>,
    /// No message is ever sent: the channel closes when the last connection has ended.
    _until_closed: mpsc::Sender<Infallible>,
}

impl Client {
    /// Serves the client to the end. Not `async`, which would keep the client twice.
    pub fn serve(self, guard: LoadGuard) -> impl Future<Output = ()> + Send {
        let Self { mut work, _place: place, open } = self;
        async move {
            // The failure is this client's alone, and logged already.
            let (shared, cancellation) = (&open.shared, guard.cancellation());
            match work {
                Work::Serve(Arrival { client, ref mut known }) => {
                    let _ = connection::serve(shared, client, known, cancellation).await;
                }
                Work::Resume(resumed) => {
                    Box::pin(connection::resume(shared, *resumed, cancellation)).await;
                }
            }
            drop(place);
        }
    }
}

/// Whether a link accepts clients.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Accepting {
    Active,
    /// During a handover, which may fail.
    Paused,
    Ended,
}

/// Accepts clients on a further thread.
pub(crate) struct Acceptor {
    listener: Listener,
    places: Arc<Places>,
    open: Arc<OpenLink>,
    /// Dropped after the listener, so that the sender sees when all are closed.
    accepting: watch::Receiver<Accepting>,
}

impl Acceptor {
    /// Accepts while the link does, and only while no other thread has fewer clients.
    pub async fn run(self, balance: Balance) {
        let Self { mut listener, places, open, mut accepting } = self;
        let mut batched = 0;
        let place = || balance.has_fewest().then(|| places.free_now()).flatten();
        loop {
            let now = accepting.wait_for(|now| *now != Accepting::Paused).await.map(|now| *now);
            if now.is_err() || now.is_ok_and(|now| now == Accepting::Ended) {
                break;
            }
            let over = async {
                let _ = accepting.changed().await;
            };
            let place = match until(over, listener.accept_if(place)).await {
                None => continue,
                Some(None) => break,
                Some(Some(place)) => place,
            };
            // Also during a handover, whose connections leave it their descriptors.
            let admitted = at_once_or_until(open.shared.stop.draining(), listener.admitted());
            let client = match admitted.await {
                None => break,
                Some(Ok(client)) => client,
                Some(Err(error)) => {
                    let address = &open.shared.client;
                    warn!("{address}: an accepted client is given up: {error}");
                    continue;
                }
            };
            let work = Work::Serve(open.shared.arrived(client));
            let client = Client { work, _place: Some(place), open: Arc::clone(&open) };
            tokio::spawn(client.serve(balance.guard()));
            yield_after_batch(&mut batched).await;
        }
        listener.close();
        drop(accepting);
    }
}

/// A link that serves every client.
struct Server {
    shared: Arc<Shared>,
    listener: Listener,
    places: Arc<Places>,
    open: Arc<OpenLink>,
    workers: Workers,
    /// For the acceptors of the other threads.
    accepting: watch::Sender<Accepting>,
    role: HandoverRole,
}

/// Serves every client until draining is wanted or a new process takes over, then lets connected
/// clients finish.
pub(crate) async fn serve_all(
    mut listener: Listener,
    shared: Arc<Shared>,
    max_children: Option<usize>,
    handover: Option<Handover>,
) -> Result<(), Failure> {
    let threads = shared.settings.most_threads();
    let places = Places::new(max_children, &shared.client, shared.other.address(), threads);
    let role = match handover {
        Some(handover) => handover.stand_by(&mut listener, &shared)?,
        None => HandoverRole::Apart,
    };
    let accepting = watch::Sender::new(match role.accepts() {
        true => Accepting::Active,
        false => Accepting::Paused,
    });
    listener.limit_stays();
    listener.makes_room_while(places.are_short());
    let (until_closed, all_closed) = mpsc::channel::<Infallible>(1);
    let open = Arc::new(OpenLink { shared: Arc::clone(&shared), _until_closed: until_closed });
    let workers = Workers::new(threads, &shared.stop);
    let places = Arc::new(places);
    let mut server = Server { shared, listener, places, open, workers, accepting, role };
    let ended = server.accept_clients().await;
    server.take_the_rest().await;
    server.serve_last_client().await;
    server.drain(ended, all_closed).await
}

impl Server {
    /// A place for a client: on a new thread, if there may be more and all have clients.
    fn seat(&mut self) -> Seat {
        let Self { shared, listener, places, open, accepting, .. } = self;
        self.workers.seat(|| {
            // Two listeners pair their clients in the order of arrival at both.
            if let Other::Listener(..) = shared.other {
                return None;
            }
            let (places, open) = (Arc::clone(places), Arc::clone(open));
            let (listener, accepting) = (listener.try_clone()?, accepting.subscribe());
            Some(Acceptor { listener, places, open, accepting })
        })
    }

    fn serve(&mut self, end: End, place: Option<OwnedSemaphorePermit>) {
        let seat = self.seat();
        self.start(Work::Serve(self.shared.arrived(end)), place, seat);
    }

    fn start(&self, work: Work, place: Option<OwnedSemaphorePermit>, seat: Seat) {
        let client = Client { work, _place: place, open: Arc::clone(&self.open) };
        self.workers.serve(client, seat);
    }

    /// Accepts until no more clients are wanted here, or a new process takes over.
    async fn accept_clients(&mut self) -> Result<(), Failure> {
        let shared = Arc::clone(&self.shared);
        let mut over = pin!(no_more_clients(&shared));
        let mut batched = 0;
        loop {
            let accepts = self.role.accepts();
            let Self { listener, places, role, accepting, .. } = self;
            let accepted = async {
                let place = places.take(&shared.ledger).await;
                (accept(listener).await, place)
            };
            let mut is_over = false;
            let event = tokio::select! {
                biased;
                () = over.as_mut() => {
                    is_over = true;
                    // Those that come meanwhile are the new process's, if there is one.
                    let _ = accepting.send(Accepting::Paused);
                    let last = tokio::time::timeout(LAST_GROUPS, role.last_event()).await;
                    let Ok(Some(event)) = last else { return Ok(()) };
                    event
                }
                event = role.event() => event,
                (accepted, place) = accepted, if accepts => {
                    self.serve(accepted?, place);
                    if self.accepting.receiver_count() > 0 {
                        yield_after_batch(&mut batched).await;
                    }
                    continue;
                }
            };
            match event {
                Event::Known(known) => known.place(|| self.seat()),
                Event::Taken(taken) => {
                    self.take(taken)?;
                    let _ = self.accepting.send(Accepting::Active);
                }
                Event::Asked(taker) => {
                    if self.give(taker).await || is_over {
                        return Ok(());
                    }
                    let _ = self.accepting.send(Accepting::Active);
                }
            }
        }
    }

    /// Serves the connections of the running link, whose listeners belong to this process now.
    fn take(&mut self, taken: Taken) -> Result<(), Failure> {
        let taken = taken.map(|all| {
            for (resumed, seat) in all {
                self.shared.ledger.resume(resumed.id, Arc::clone(&resumed.counts));
                self.start(Work::Resume(resumed), self.places.free_now(), seat);
            }
        });
        self.role.end(taken, &mut self.listener, &self.shared)
    }

    /// Gives the connections to a new process. `false` if it took none.
    async fn give(&mut self, taker: Taker) -> bool {
        let _ = self.accepting.send(Accepting::Paused);
        // No client comes here meanwhile (`accept-timeout=`). The new process has been told to
        // take over, and would stop if this one did not finish: a drain cuts only what stalls.
        let stalled = async {
            self.shared.stop.draining().await;
            tokio::time::sleep(LAST_GROUPS).await;
        };
        match taker.give(&self.shared, stalled).await {
            Ok(stay) => {
                info!("a new process serves the clients from here on; {stay} stay here");
                self.role.gave(&mut self.listener);
                true
            }
            Err(error) => {
                warn!("{FAILED}: {error}");
                false
            }
        }
    }

    /// Serves what arrives until the running link has noticed that this process ends.
    async fn take_the_rest(&mut self) {
        while let HandoverRole::Taking(_) = self.role {
            match self.role.event().await {
                Event::Known(known) => known.place(|| self.seat()),
                Event::Taken(taken) => drop(self.take(taken)),
                Event::Asked(_) => break,
            }
        }
    }

    /// Serves the client that was accepted before a handover and waits for descriptors.
    async fn serve_last_client(&mut self) {
        if !self.listener.has_client() {
            return;
        }
        let draining = self.shared.stop.draining();
        match at_once_or_until(draining, accept(&mut self.listener)).await {
            Some(Ok(end)) => self.serve(end, self.places.free_now()),
            Some(Err(failure)) => warn!("an accepted client is given up: {failure}"),
            None => {}
        }
    }

    /// Lets the connected clients finish.
    async fn drain(
        self,
        ended: Result<(), Failure>,
        mut all_closed: mpsc::Receiver<Infallible>,
    ) -> Result<(), Failure> {
        let Self { shared, listener, open, workers, accepting, role, .. } = self;
        // All copies of the listener close here, so that new clients are refused and not queued.
        let _ = accepting.send(Accepting::Ended);
        accepting.closed().await;
        drop(role);
        listener.close();
        // It would keep the channel open.
        drop(open);
        if let Err(failure) = &ended
            && shared.ledger.active() > 0
        {
            error!("{failure}; no new clients are accepted, connected ones finish");
        }
        let closed = async {
            let _: Option<Infallible> = all_closed.recv().await;
        };
        let drained = drained(closed, &shared).await;
        // After the drain: dropping a runtime cancels its tasks.
        workers.join();
        let Other::Shared(end) = &shared.other else { return ended.and(drained) };
        let settings = &shared.settings;
        let closing = end.close(settings.linger, settings.drain_limit());
        let closed = until(shared.stop.cancelled(), closing).await;
        ended.and(drained).and(closed.unwrap_or(Ok(())))
    }
}

/// Counts a client that was accepted, and yields after the last of a batch.
async fn yield_after_batch(batched: &mut usize) {
    *batched += 1;
    if *batched == ACCEPT_BATCH {
        *batched = 0;
        tokio::task::yield_now().await;
    }
}

/// As [`until`], but a result that is there at once counts, also after `stop`.
async fn at_once_or_until<T>(
    stop: impl Future<Output = ()>,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = stop => None,
    }
}

/// Waits until all clients are served. Those left at the drain limit are cut.
async fn drained(closed: impl Future<Output = ()>, shared: &Shared) -> Result<(), Failure> {
    let limit = shared.settings.drain_limit();
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
    let were = if cut == 1 { "connection was" } else { "connections were" };
    let advice = shared.settings.advice("--drain TIME waits longer");
    let limit = with_unit(limit);
    let why = format!("{cut} {were} cut {limit} after draining began{advice}");
    Err(Failure::new(why, None))
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::connection::Relaying;
    use crate::programs;
    use crate::serve::tests::shared;
    use crate::settings::Settings;

    #[test]
    fn an_idle_connection_takes_little_memory() {
        /// Of the future that a function returns.
        fn bytes<A, B, F: Future>(_: impl FnOnce(A, B) -> F) -> usize {
            size_of::<F>()
        }
        let relayed = bytes(|of: &'static mut Relaying, settings: &'static Settings| {
            programs::relayed(&mut of.relay, &mut of.first, &mut of.second, settings)
        });
        let (task, relaying) = (bytes(Client::serve), size_of::<Relaying>());
        let ends = 2 * size_of::<End>();
        let all = task + relaying + relayed + ends;
        assert!(all <= 1800, "{task} + {relaying} + {relayed} + {ends} bytes");
    }

    /// The clock stands still, and goes to the next timer when there is nothing else to do.
    #[tokio::test(start_paused = true)]
    async fn clients_are_cut_half_a_minute_after_draining_began_or_as_the_settings_say() {
        for (drain, seconds) in [(None, 30), (Some(Duration::from_secs(5)), 5)] {
            let shared = shared(Settings { drain, ..Settings::default() });
            let began = Instant::now();
            shared.stop.drain();
            // Its clients go on until they are cut.
            let failure =
                drained(shared.stop.cancelled(), &shared).await.expect_err("they are cut");
            assert_eq!(began.elapsed().as_secs(), seconds, "{failure}");
        }
        // Clients that finish before are not.
        let shared = shared(Settings::default());
        shared.stop.drain();
        let finished = tokio::time::sleep(Duration::from_secs(29));
        drained(finished, &shared).await.expect("nobody is cut");
    }
}
