//! The running link: who may take over, and what the process gets.

use std::future::pending;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{SocketFlags, accept_with};
use tokio::io::Interest;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, spawn_blocking};
use tracing::warn;

use super::wire::{Hello, Message, VERSION, Wire, unexpected};
use super::{Metrics, borrowed};
use crate::open::Made;
use crate::watch::watch;

/// The pause after a failed accept, for lack of descriptors for example.
const PAUSE: Duration = Duration::from_millis(100);

/// Waits for the process that takes over.
pub(crate) struct Giver {
    takers: mpsc::Receiver<Taker>,
    answering: AbortHandle,
    /// That of the metrics.
    metrics: Option<AbortHandle>,
    name: Option<Made>,
}

/// What each new process gets first.
struct Listeners {
    door: OwnedFd,
    clients: OwnedFd,
    metrics: Option<(String, OwnedFd)>,
}

/// A new process that is ready to take over.
pub(crate) struct Taker(Wire);

impl Giver {
    /// Answers at `door`, whose name is removed at the end, unless it was given away.
    pub fn new(
        door: OwnedFd,
        name: Option<Made>,
        clients: OwnedFd,
        metrics: Option<Metrics>,
        hello: Hello,
    ) -> io::Result<Self> {
        let (metrics, answering) = match metrics {
            Some(Metrics { place, listener, answering }) => {
                (Some((place, listener)), Some(answering))
            }
            None => (None, None),
        };
        let listeners = Arc::new(Listeners { door, clients, metrics });
        let (ready, takers) = mpsc::channel(1);
        let answered = tokio::spawn(answer(listeners, Arc::new(hello), ready));
        let answered = answered.abort_handle();
        Ok(Self { takers, answering: answered, metrics: answering, name })
    }

    /// Resolves when a new process is ready; never without a giver. May be cancelled.
    pub async fn asked(giver: Option<&mut Self>) -> Taker {
        let Some(giver) = giver else { return pending().await };
        match giver.takers.recv().await {
            Some(taker) => taker,
            None => pending().await,
        }
    }

    /// The name belongs to the new process.
    pub fn gone(mut self) {
        self.name.take().into_iter().for_each(Made::keep);
    }
}

impl Drop for Giver {
    fn drop(&mut self) {
        self.answering.abort();
        if let Some(metrics) = &self.metrics {
            metrics.abort();
        }
    }
}

/// Answers new processes, one after the other.
async fn answer(listeners: Arc<Listeners>, hello: Arc<Hello>, ready: mpsc::Sender<Taker>) {
    let Ok(watched) = watch(listeners.door.as_fd(), Interest::READABLE) else { return };
    loop {
        let Ok(mut guard) = watched.readable().await else { return };
        // Blocking: a thread serves it.
        let socket = match guard.try_io(|door| Ok(accept_with(door, SocketFlags::CLOEXEC)?)) {
            Ok(Ok(socket)) => socket,
            Ok(Err(error)) => {
                warn!(%error, "a handover cannot be accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            Err(_) => continue,
        };
        let (listeners, hello) = (Arc::clone(&listeners), Arc::clone(&hello));
        let greeted = spawn_blocking(move || greet(socket, &listeners, &hello)).await;
        match greeted.unwrap_or_else(|panic| Err(io::Error::other(panic))) {
            Ok(taker) => {
                if ready.send(taker).await.is_err() {
                    return;
                }
            }
            Err(error) => warn!("a handover is refused: {error}"),
        }
    }
}

/// Gives the listeners to a process of this user with this version and these addresses.
fn greet(socket: OwnedFd, listeners: &Listeners, own: &Hello) -> io::Result<Taker> {
    let mut wire = Wire::new(socket)?;
    let refuse = |wire: &Wire, why: String| {
        // Best effort: the reason is logged here, too.
        let _ = wire.send(&Message::Refused(why.clone()), &[]);
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    };
    if !wire.is_own_users()? {
        return refuse(&wire, "the new process is another user's".into());
    }
    let hello = match wire.receive()?.0 {
        Message::Hello(hello) => hello,
        other => return Err(unexpected(&other)),
    };
    if hello.version != VERSION {
        let why = format!(
            "the running link speaks version {VERSION} of the handover, and the new process \
             version {}: end the running one first",
            hello.version
        );
        return refuse(&wire, why);
    }
    if hello != *own {
        let why = format!("the running link has the addresses {} {}", own.first, own.second);
        return refuse(&wire, why);
    }
    let place = listeners.metrics.as_ref().map(|(place, _)| place.clone());
    let metrics = listeners.metrics.as_ref().map(|(_, listener)| listener);
    let descriptors = borrowed([Some(&listeners.door), Some(&listeners.clients), metrics]);
    wire.send(&Message::Listeners { metrics: place }, &descriptors)?;
    match wire.receive()?.0 {
        Message::Ready => Ok(Taker(wire)),
        other => Err(unexpected(&other)),
    }
}

impl Taker {
    /// Gives all to the new process.
    ///
    /// # Errors
    /// Nothing was given, and this link goes on.
    pub async fn give(self) -> io::Result<()> {
        let given = spawn_blocking(move || self.give_now()).await;
        given.unwrap_or_else(|panic| Err(io::Error::other(panic)))
    }

    fn give_now(self) -> io::Result<()> {
        let Self(mut wire) = self;
        wire.send(&Message::Sent { connections: 0 }, &[])?;
        match wire.receive()?.0 {
            Message::Taken => wire.send(&Message::Go, &[]),
            other => Err(unexpected(&other)),
        }
    }
}
