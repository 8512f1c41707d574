//! Threads that serve clients, each with a runtime of its own.
//!
//! A client's two sockets, pipe and timers stay on one thread: nothing changes threads, and a message wakes
//! only the thread that passes it on. The accepting thread serves too, so a link with one client has one
//! thread.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tracing::warn;

type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A runtime for the calling thread.
pub(crate) fn runtime() -> io::Result<Runtime> {
    // One thread each: tokio's other runtime moves tasks between threads, and wakes one for another.
    Builder::new_current_thread().enable_all().build()
}

/// The threads that serve clients.
#[derive(Debug)]
pub(crate) struct Workers {
    most: usize,
    /// The load of the accepting thread.
    here: Arc<AtomicUsize>,
    others: Vec<Worker>,
}

#[derive(Debug)]
struct Worker {
    load: Arc<AtomicUsize>,
    jobs: UnboundedSender<Job>,
    thread: JoinHandle<()>,
}

impl Workers {
    /// The accepting thread alone; further threads start as clients come, up to `most` in all.
    pub fn new(most: usize) -> Self {
        Self { most, here: Arc::default(), others: Vec::new() }
    }

    /// Runs a job on the thread with the fewest jobs, or on a new thread if all have some. The job keeps its load for as long as it
    /// lasts.
    pub fn spawn<F: Future<Output = ()> + Send + 'static>(&mut self, job: impl FnOnce(Load) -> F) {
        let load = |load: &AtomicUsize| load.load(Ordering::Relaxed);
        let least = self.others.iter().min_by_key(|worker| load(&worker.load));
        let least_load =
            least.map_or(usize::MAX, |worker| load(&worker.load)).min(load(&self.here));
        // A thread costs descriptors and memory, so the next one starts only when all are busy.
        if least_load > 0 && self.others.len() + 1 < self.most {
            match Worker::start(self.others.len() + 1) {
                Ok(worker) => return self.others.push(worker.with(job)),
                Err(error) => {
                    warn!(%error, "no further thread can be started: serving with those there are");
                    // Not tried again for every client: the limit on threads does not go away so soon.
                    self.most = self.others.len() + 1;
                }
            }
        }
        match self.others.iter().find(|worker| load(&worker.load) == least_load) {
            // The accepting thread is preferred: its client needs no wake-up across processors.
            Some(worker) if load(&self.here) > least_load => worker.give(job),
            _ => drop(tokio::spawn(job(Load::on(&self.here)))),
        }
    }

    /// Waits for the threads. Their clients must have finished: jobs still running are dropped.
    pub fn join(self) {
        for Worker { jobs, thread, .. } in self.others {
            drop(jobs);
            // The thread itself has told of a panic.
            let _ = thread.join();
        }
    }
}

impl Worker {
    fn start(number: usize) -> io::Result<Self> {
        let runtime = runtime()?;
        let (jobs, mut coming) = unbounded_channel::<Job>();
        let thread =
            thread::Builder::new().name(format!("gush-link-{number}")).spawn(move || {
                runtime.block_on(async {
                    while let Some(job) = coming.recv().await {
                        tokio::spawn(job);
                    }
                });
            })?;
        Ok(Self { load: Arc::default(), jobs, thread })
    }

    fn with<F: Future<Output = ()> + Send + 'static>(self, job: impl FnOnce(Load) -> F) -> Self {
        self.give(job);
        self
    }

    fn give<F: Future<Output = ()> + Send + 'static>(&self, job: impl FnOnce(Load) -> F) {
        // The receiving thread ends only once this sender is dropped.
        let _ = self.jobs.send(Box::pin(job(Load::on(&self.load))));
    }
}

/// The load that a job is to its thread, from start to end, also when dropped. The job itself holds it: a future around the job's would
/// have room for the job twice.
pub(crate) struct Load(Arc<AtomicUsize>);

impl Load {
    fn on(load: &Arc<AtomicUsize>) -> Self {
        // Counted here, before the job reaches its thread: the next client must not go there too.
        load.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(load))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
