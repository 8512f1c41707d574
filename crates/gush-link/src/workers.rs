//! Threads that serve clients, each with its own single-threaded runtime.
//!
//! A client stays on one thread, so that a message wakes only the thread that relays it. The main
//! thread accepts and serves, so a link with one client has one thread. It accepts every client
//! that no other thread accepts, and hands it to the thread with the fewest. Handing over wakes the
//! other thread and preempts what runs there, so the first few of those accept clients themselves.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use std::thread::{self, JoinHandle};

use gush::Unpoisoned;
use tokio::runtime::{Builder, EnterGuard, Handle, Runtime};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tracing::warn;

use crate::server::{Acceptor, Client};
use crate::stop::{Cancellation, Stop};

/// The most threads that accept, the main thread included: a new client wakes each of them that
/// sleeps, since tokio does not use EPOLLEXCLUSIVE (epoll_ctl(2)).
pub(crate) const MAX_ACCEPTORS: usize = 4;

/// A runtime for the calling thread.
pub(crate) fn runtime() -> io::Result<Runtime> {
    // tokio's other runtime moves tasks between threads, and wakes one for another.
    Builder::new_current_thread().enable_all().build()
}

/// The threads that serve clients.
#[derive(Debug)]
pub(crate) struct Workers {
    max_threads: usize,
    stop: Stop,
    /// The main thread's.
    own: Arc<Load>,
    others: Vec<Worker>,
    loads: Loads,
}

/// Of all threads that have started.
type Loads = Arc<RwLock<Vec<Arc<Load>>>>;

#[derive(Debug)]
struct Worker {
    load: Arc<Load>,
    clients: UnboundedSender<(Client, LoadGuard)>,
    thread: JoinHandle<()>,
}

/// How many clients a thread has, and how they learn that the link ends.
#[derive(Debug)]
struct Load {
    clients: AtomicUsize,
    cancellation: Arc<Cancellation>,
    runtime: Handle,
}

impl Load {
    /// The load of a thread without clients, whose runtime must be entered.
    fn new(stop: &Stop) -> Arc<Self> {
        let (clients, cancellation) = (AtomicUsize::new(0), Cancellation::of(stop));
        Arc::new(Self { clients, cancellation, runtime: Handle::current() })
    }

    fn clients(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }
}

impl Workers {
    /// Starts with the main thread alone; further threads start as clients come, up to
    /// `max_threads`.
    pub fn new(max_threads: usize, stop: &Stop) -> Self {
        let own = Load::new(stop);
        let loads = Arc::new(RwLock::new(vec![Arc::clone(&own)]));
        Self { max_threads, stop: stop.clone(), own, others: Vec::new(), loads }
    }

    /// A place for a client on the thread with the fewest clients, or on a new thread if all have
    /// some. `acceptor` makes a new thread's acceptor.
    pub fn seat(&mut self, acceptor: impl FnOnce() -> Option<Acceptor>) -> Seat {
        let fewest = self.others.iter().map(|worker| worker.load.clients()).min();
        let fewest = fewest.unwrap_or(usize::MAX).min(self.own.clients());
        // A thread costs descriptors and memory, so the next one starts only when all are busy.
        if fewest > 0 && self.others.len() + 1 < self.max_threads {
            let number = self.others.len() + 1;
            let acceptor = if number < MAX_ACCEPTORS { acceptor() } else { None };
            match Worker::start(number, &self.stop, &self.loads, acceptor) {
                Ok(worker) => {
                    self.others.push(worker);
                    return self.seat_on(Some(number - 1));
                }
                Err(error) => {
                    warn!("cannot start a further thread: {error}; serving with those running");
                    // Not retried for each client: the limit on threads stays for a while.
                    self.max_threads = self.others.len() + 1;
                }
            }
        }
        // The main thread is preferred: its client needs no wake-up across processors.
        let is_busy = self.own.clients() > fewest;
        let worker = self.others.iter().position(|worker| worker.load.clients() == fewest);
        self.seat_on(worker.filter(|_| is_busy))
    }

    /// A place on one of the other threads, or on the main thread.
    fn seat_on(&self, worker: Option<usize>) -> Seat {
        let load = worker.map_or(&self.own, |worker| &self.others[worker].load);
        Seat { worker, guard: LoadGuard::new(load) }
    }

    /// Serves a client at its place.
    pub fn serve(&self, client: Client, seat: Seat) {
        let Seat { worker, guard } = seat;
        match worker {
            // The receiving thread ends only once this sender is dropped.
            Some(worker) => drop(self.others[worker].clients.send((client, guard))),
            None => drop(tokio::spawn(client.serve(guard))),
        }
    }

    /// Waits for the threads. Their clients must have finished: those still served are dropped.
    pub fn join(self) {
        for Worker { clients, thread, .. } in self.others {
            drop(clients);
            // A panic was printed by the thread itself.
            let _ = thread.join();
        }
    }
}

impl Worker {
    fn start(
        number: usize,
        stop: &Stop,
        loads: &Loads,
        acceptor: Option<Acceptor>,
    ) -> io::Result<Self> {
        let runtime = runtime()?;
        let (clients, mut receiver) = unbounded_channel::<(Client, LoadGuard)>();
        let load = {
            let _entered = runtime.enter();
            Load::new(stop)
        };
        let balance = Balance { own: Arc::clone(&load), loads: Arc::clone(loads) };
        let thread =
            thread::Builder::new().name(format!("gush-link-{number}")).spawn(move || {
                runtime.block_on(async {
                    if let Some(acceptor) = acceptor {
                        tokio::spawn(acceptor.run(balance));
                    }
                    // The future is allocated here: freeing another thread's memory takes a lock.
                    while let Some((client, guard)) = receiver.recv().await {
                        tokio::spawn(client.serve(guard));
                    }
                });
            })?;
        loads.write().unpoisoned().push(Arc::clone(&load));
        Ok(Self { load, clients, thread })
    }
}

/// A client's place on a thread.
#[derive(Debug)]
pub(crate) struct Seat {
    /// `None` on the main thread.
    worker: Option<usize>,
    guard: LoadGuard,
}

impl Seat {
    /// Until the answer is dropped, descriptors are registered with the thread's runtime.
    pub fn enter(&self) -> EnterGuard<'_> {
        self.guard.0.runtime.enter()
    }
}

/// A thread's load next to the others'.
#[derive(Debug)]
pub(crate) struct Balance {
    own: Arc<Load>,
    loads: Loads,
}

impl Balance {
    /// Has no other thread fewer clients?
    pub fn has_fewest(&self) -> bool {
        let own = self.own.clients();
        let loads = self.loads.read().unpoisoned();
        loads.iter().all(|load| load.clients() >= own)
    }

    /// Counts a client of this thread.
    pub fn guard(&self) -> LoadGuard {
        LoadGuard::new(&self.own)
    }
}

/// Counts a client of a thread, from its arrival until it is dropped.
#[derive(Debug)]
pub(crate) struct LoadGuard(Arc<Load>);

impl LoadGuard {
    fn new(load: &Arc<Load>) -> Self {
        // Counted before the client reaches the thread: the next client must not go there too.
        load.clients.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(load))
    }

    pub fn cancellation(&self) -> &Cancellation {
        &self.0.cancellation
    }
}

impl Drop for LoadGuard {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Ordering::Relaxed);
    }
}
