//! Threads that serve clients, each with a runtime of its own.
//!
//! A client's two sockets, pipe and timers stay on one thread: nothing changes threads, and a message wakes
//! only the thread that passes it on. The accepting thread serves too, so a link with one client has one
//! thread. It takes every client that no other thread takes, and gives the client to the thread with the fewest. To be
//! given a client wakes a thread, and pushes aside whoever runs there, so the next threads also take clients themselves.

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tracing::warn;

use crate::stop::{Ending, Stop};

/// A client that a thread can serve.
pub(crate) trait Client: Send + 'static {
    /// Serves the client to the end. The seat is kept for as long as that lasts.
    fn served(self, seat: Seat) -> impl Future<Output = ()> + Send + 'static;
}

/// Takes clients for a further thread, besides those that the thread is given.
pub(crate) trait Taker: Send + 'static {
    /// Takes clients as long as the link does, each only while `chair` [has the fewest](Chair::has_fewest).
    fn take(self, chair: Chair) -> impl Future<Output = ()> + Send + 'static;
}

/// The most threads that take clients, the accepting one included: each that sleeps is woken for each client, since tokio
/// does not know EPOLLEXCLUSIVE (epoll_ctl(2)).
pub(crate) const MOST_TAKERS: usize = 4;

/// A runtime for the calling thread.
pub(crate) fn runtime() -> io::Result<Runtime> {
    // One thread each: tokio's other runtime moves tasks between threads, and wakes one for another.
    Builder::new_current_thread().enable_all().build()
}

/// The threads that serve clients.
#[derive(Debug)]
pub(crate) struct Workers<C> {
    most: usize,
    stop: Stop,
    /// The accepting thread.
    here: Arc<Desk>,
    others: Vec<Worker<C>>,
    desks: Desks,
}

/// Those of all threads that have started.
type Desks = Arc<RwLock<Vec<Arc<Desk>>>>;

#[derive(Debug)]
struct Worker<C> {
    desk: Arc<Desk>,
    clients: UnboundedSender<(C, Seat)>,
    thread: JoinHandle<()>,
}

/// A thread as its clients see it.
#[derive(Debug)]
struct Desk {
    /// The number of clients.
    load: AtomicUsize,
    ending: Arc<Ending>,
}

impl Desk {
    /// The desk of a thread that has no clients yet and whose runtime is entered.
    fn new(stop: &Stop) -> Arc<Self> {
        Arc::new(Self { load: AtomicUsize::new(0), ending: Ending::of(stop) })
    }

    fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }
}

impl<C: Client> Workers<C> {
    /// The accepting thread alone; further threads start as clients come, up to `most` in all.
    pub fn new(most: usize, stop: &Stop) -> Self {
        let here = Desk::new(stop);
        let desks = Arc::new(RwLock::new(vec![Arc::clone(&here)]));
        Self { most, stop: stop.clone(), here, others: Vec::new(), desks }
    }

    /// Serves a client on the thread with the fewest clients, or on a new thread if all have some. A new thread has the taker
    /// that `taker` makes.
    pub fn serve<T: Taker>(&mut self, client: C, taker: impl FnOnce() -> Option<T>) {
        let least = self.others.iter().min_by_key(|worker| worker.desk.load());
        let least_load =
            least.map_or(usize::MAX, |worker| worker.desk.load()).min(self.here.load());
        // A thread costs descriptors and memory, so the next one starts only when all are busy.
        if least_load > 0 && self.others.len() + 1 < self.most {
            let number = self.others.len() + 1;
            let taker = if number < MOST_TAKERS { taker() } else { None };
            match Worker::start(number, &self.stop, &self.desks, taker) {
                Ok(worker) => {
                    worker.give(client);
                    return self.others.push(worker);
                }
                Err(error) => {
                    warn!(%error, "no further thread can be started: serving with those there are");
                    // Not tried again for every client: the limit on threads does not go away so soon.
                    self.most = self.others.len() + 1;
                }
            }
        }
        match self.others.iter().find(|worker| worker.desk.load() == least_load) {
            // The accepting thread is preferred: its client needs no wake-up across processors.
            Some(worker) if self.here.load() > least_load => worker.give(client),
            _ => drop(tokio::spawn(client.served(Seat::at(&self.here)))),
        }
    }

    /// Waits for the threads. Their clients must have finished: those still served are dropped.
    pub fn join(self) {
        for Worker { clients, thread, .. } in self.others {
            drop(clients);
            // The thread itself has told of a panic.
            let _ = thread.join();
        }
    }
}

impl<C: Client> Worker<C> {
    fn start(
        number: usize,
        stop: &Stop,
        desks: &Desks,
        taker: Option<impl Taker>,
    ) -> io::Result<Self> {
        let runtime = runtime()?;
        let (clients, mut coming) = unbounded_channel::<(C, Seat)>();
        let desk = {
            let _entered = runtime.enter();
            Desk::new(stop)
        };
        let chair = Chair { desk: Arc::clone(&desk), desks: Arc::clone(desks) };
        let thread =
            thread::Builder::new().name(format!("gush-link-{number}")).spawn(move || {
                runtime.block_on(async {
                    if let Some(taker) = taker {
                        tokio::spawn(taker.take(chair));
                    }
                    // The future is made here: memory taken by one thread and given back by another costs both a lock.
                    while let Some((client, seat)) = coming.recv().await {
                        tokio::spawn(client.served(seat));
                    }
                });
            })?;
        desks.write().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&desk));
        Ok(Self { desk, clients, thread })
    }

    fn give(&self, client: C) {
        // The receiving thread ends only once this sender is dropped.
        let _ = self.clients.send((client, Seat::at(&self.desk)));
    }
}

/// A further thread, as its taker sees it.
#[derive(Debug)]
pub(crate) struct Chair {
    desk: Arc<Desk>,
    desks: Desks,
}

impl Chair {
    /// Has no other thread fewer clients?
    pub(crate) fn has_fewest(&self) -> bool {
        let mine = self.desk.load();
        let desks = self.desks.read().unwrap_or_else(PoisonError::into_inner);
        desks.iter().all(|desk| desk.load() >= mine)
    }

    /// Serves a client on this thread, whose runtime is entered.
    pub(crate) fn serve(&self, client: impl Client) {
        drop(tokio::spawn(client.served(Seat::at(&self.desk))));
    }
}

/// A client's seat at a thread, taken from the client's arrival to the end, also when dropped.
#[derive(Debug)]
pub(crate) struct Seat(Arc<Desk>);

impl Seat {
    fn at(desk: &Arc<Desk>) -> Self {
        // Counted here, before the client reaches the thread: the next client must not go there too.
        desk.load.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(desk))
    }

    /// The end of the link, as this thread is told of it.
    pub(crate) fn ending(&self) -> &Ending {
        &self.0.ending
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.load.fetch_sub(1, Ordering::Relaxed);
    }
}
