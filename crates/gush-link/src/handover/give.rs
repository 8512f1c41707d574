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

use super::relays::Paused;
use super::wire::{HAND_BYTES, Hello, Message, Moved, VERSION, Wire, unexpected};
use super::{Metrics, borrowed};
use crate::connection::Relaying;
use crate::open::Made;
use crate::session::Shared;
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
    ) -> Self {
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
        Self { takers, answering: answered, metrics: answering, name }
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
    /// Gives all that can move to the new process.
    ///
    /// # Errors
    /// Nothing was given, and this link goes on.
    pub async fn give(self, shared: &Shared) -> io::Result<()> {
        let paused = match &shared.relays {
            Some(relays) => relays.pause(&shared.ledger).await,
            None => Vec::new(),
        };
        let given = spawn_blocking(move || self.give_now(paused)).await;
        given.unwrap_or_else(|panic| Err(io::Error::other(panic)))
    }

    fn give_now(self, paused: Vec<Paused>) -> io::Result<()> {
        let Self(mut wire) = self;
        let mut moves = Vec::with_capacity(paused.len());
        let mut give = || {
            for one in &paused {
                moves.push(send(&wire, one)?);
            }
            let connections = moves.iter().filter(|moves| **moves).count();
            wire.send(&Message::Sent { connections }, &[])?;
            match wire.receive()?.0 {
                Message::Taken => wire.send(&Message::Go, &[]),
                other => Err(unexpected(&other)),
            }
        };
        let given = give();
        for (at, one) in paused.into_iter().enumerate() {
            // Dropped, it has moved.
            if given.is_err() || !moves[at] {
                one.stays();
            }
        }
        given
    }
}

/// Sends a connection; false if it does not move.
fn send(wire: &Wire, paused: &Paused) -> io::Result<bool> {
    let Paused { id, names, began, relaying, .. } = paused;
    let Relaying { first, second, relay, directions, .. } = relaying;
    let (Some(a), Some(b)) = (first.conduit.parts(), second.conduit.parts()) else {
        return Ok(false);
    };
    let Some((mut state, pipes)) = relay.state() else { return Ok(false) };
    let hands = state.directions.each_mut().map(|direction| std::mem::take(&mut direction.hand));
    if hands.iter().any(|hand| hand.len() > HAND_BYTES) {
        return Ok(false);
    }
    let ends = a.iter().chain(&b).map(|(_, fd)| *fd);
    let descriptors: Vec<_> = ends.chain(pipes.into_iter().flatten().flatten()).collect();
    let moved = Moved {
        id: *id,
        client: names.client.clone(),
        other: names.other.clone(),
        age: began.elapsed(),
        directions: *directions,
        parts: [a, b].map(|parts| parts.into_iter().map(|(part, _)| part).collect()),
        relay: state,
        hand_bytes: hands.each_ref().map(Vec::len),
    };
    wire.send(&Message::Connection(Box::new(moved)), &descriptors)?;
    hands.iter().try_for_each(|hand| wire.send_bytes(hand))?;
    Ok(true)
}
