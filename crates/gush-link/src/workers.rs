//! Threads that serve clients, each with a runtime of its own.
//!
//! A client's two sockets, pipe and timers stay on one thread: nothing changes threads, and a message wakes
//! only the thread that passes it on. The accepting thread serves too, so a link with one client has one
//! thread.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
}

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
        Self { most, stop: stop.clone(), here: Desk::new(stop), others: Vec::new() }
    }

    /// Serves a client on the thread with the fewest clients, or on a new thread if all have some.
    pub fn serve(&mut self, client: C) {
        let least = self.others.iter().min_by_key(|worker| worker.desk.load());
        let least_load =
            least.map_or(usize::MAX, |worker| worker.desk.load()).min(self.here.load());
        // A thread costs descriptors and memory, so the next one starts only when all are busy.
        if least_load > 0 && self.others.len() + 1 < self.most {
            match Worker::start(self.others.len() + 1, &self.stop) {
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
    fn start(number: usize, stop: &Stop) -> io::Result<Self> {
        let runtime = runtime()?;
        let (clients, mut coming) = unbounded_channel::<(C, Seat)>();
        let desk = {
            let _entered = runtime.enter();
            Desk::new(stop)
        };
        let thread =
            thread::Builder::new().name(format!("gush-link-{number}")).spawn(move || {
                runtime.block_on(async {
                    // The future is made here: memory taken by one thread and given back by another costs both a lock.
                    while let Some((client, seat)) = coming.recv().await {
                        tokio::spawn(client.served(seat));
                    }
                });
            })?;
        Ok(Self { desk, clients, thread })
    }

    fn give(&self, client: C) {
        // The receiving thread ends only once this sender is dropped.
        let _ = self.clients.send((client, Seat::at(&self.desk)));
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
