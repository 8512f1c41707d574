//! The running link: who may take over, and what the process gets.

use std::future::pending;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{SocketFlags, accept_with};
use tokio::io::Interest;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tracing::warn;

use super::relays::Paused;
use super::wire::{HAND_BYTES, Hello, Message, Moved, NAME_BYTES, VERSION, Wire, unexpected};
use super::{Metrics, borrowed};
use crate::connection::Relaying;
use crate::open::Made;
use crate::session::Shared;
use crate::watch::watch;
use crate::workers::MAX_ACCEPTORS;

/// The pause after a failed accept, for lack of descriptors for example.
const PAUSE: Duration = Duration::from_millis(100);

/// The most clients that may still be accepted here: each thread may have one under way.
const LATE: usize = MAX_ACCEPTORS;
/// The numbers left to the clients of a new process that did not take over.
const ITS_NUMBERS: usize = 1_000_000;

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
pub(crate) struct Taker {
    wire: Wire,
    /// Notified if the process fails, and dropped if this link ends.
    turn: oneshot::Sender<()>,
}

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
            Some(Metrics { place, listener, answering, .. }) => {
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

    /// Resolves when a new process is ready. May be cancelled.
    pub async fn asked(&mut self) -> Taker {
        match self.takers.recv().await {
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

/// Answers new processes, one after the other. Those that come during a handover wait in the queue
/// of the socket, which the process that takes over goes on to answer.
async fn answer(listeners: Arc<Listeners>, hello: Arc<Hello>, ready: mpsc::Sender<Taker>) {
    let Ok(watched) = watch(listeners.door.as_fd(), Interest::READABLE) else { return };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    loop {
        let Ok(mut guard) = watched.readable().await else { return };
        let socket = match guard.try_io(|door| Ok(accept_with(door, flags)?)) {
            Ok(Ok(socket)) => socket,
            Ok(Err(error)) => {
                warn!(%error, "a handover cannot be accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            Err(_) => continue,
        };
        match greet(socket, &listeners, &hello).await {
            Ok(wire) => {
                let (turn, is_over) = oneshot::channel();
                if ready.send(Taker { wire, turn }).await.is_err() || is_over.await.is_err() {
                    return;
                }
            }
            Err(error) => warn!("a handover is refused: {error}"),
        }
    }
}

/// Gives the listeners to a process of this user with this version and these addresses.
async fn greet(socket: OwnedFd, listeners: &Listeners, own: &Hello) -> io::Result<Wire> {
    let mut wire = Wire::new(socket)?;
    if !wire.is_own_users()? {
        return refuse(&wire, "the new process is another user's".into()).await;
    }
    let hello = match wire.receive().await?.0 {
        Message::Hello(hello) => hello,
        other => return Err(unexpected(&other)),
    };
    if hello.version != VERSION {
        let why = format!(
            "the running link speaks version {VERSION} of the handover, and the new process \
             version {}: end the running one first",
            hello.version
        );
        return refuse(&wire, why).await;
    }
    if hello != *own {
        let why = format!("the running link has the addresses {} {}", own.first, own.second);
        return refuse(&wire, why).await;
    }
    let place = listeners.metrics.as_ref().map(|(place, _)| place.clone());
    let metrics = listeners.metrics.as_ref().map(|(_, listener)| listener);
    let given = borrowed([Some(&listeners.door), Some(&listeners.clients), metrics]);
    let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, |open| open.count() as u64);
    wire.send(&Message::Listeners { metrics: place, descriptors }, &given).await?;
    match wire.receive().await?.0 {
        Message::Ready => Ok(wire),
        other => Err(unexpected(&other)),
    }
}

async fn refuse(wire: &Wire, why: String) -> io::Result<Wire> {
    // Best effort: the reason is logged here, too.
    let _ = wire.send(&Message::Refused(why.clone()), &[]).await;
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

impl Taker {
    /// Gives all that can move to the new process, which accepts the clients meanwhile. May be
    /// cancelled: what was not given stays.
    ///
    /// # Errors
    /// The listeners were not given, and this link goes on with the connections that it has.
    pub async fn give(self, shared: &Shared) -> io::Result<()> {
        let Self { mut wire, turn } = self;
        let given = Self::give_all(&mut wire, shared).await;
        if given.is_err() {
            shared.ledger.begin_after(shared.ledger.last_id_with(ITS_NUMBERS));
            let _ = turn.send(());
        }
        given
    }

    async fn give_all(wire: &mut Wire, shared: &Shared) -> io::Result<()> {
        let last_id = shared.ledger.last_id_with(LATE);
        wire.send(&Message::Accept { last_id }, &[]).await?;
        let mut pausing = shared.relays.as_ref().map(|relays| relays.pausing(&shared.ledger));
        loop {
            let group = match &mut pausing {
                Some(pausing) => pausing.group().await,
                None => Vec::new(),
            };
            let is_last = group.is_empty();
            give_group(wire, group).await?;
            if is_last {
                return Ok(());
            }
        }
    }
}

/// Gives the connections of a group that can move. All stay if this fails, or is cancelled.
async fn give_group(wire: &mut Wire, group: Vec<Paused>) -> io::Result<()> {
    let is_last = group.is_empty();
    let (mut connections, mut descriptors, mut hands) = (Vec::new(), Vec::new(), Vec::new());
    let mut moves = Vec::new();
    for one in &group {
        let moved = moved(one);
        moves.push(moved.is_some());
        if let Some(Movable { moved, of_it, in_memory }) = moved {
            connections.push(moved);
            descriptors.extend(of_it);
            hands.extend(in_memory);
        }
    }
    if connections.is_empty() && !is_last {
        return wire.send(&Message::Staying, &[]).await;
    }
    wire.send(&Message::Group(connections), &descriptors).await?;
    for hand in hands {
        wire.send_bytes(&hand).await?;
    }
    match wire.receive().await?.0 {
        Message::Taken => wire.send(&Message::Go, &[]).await?,
        other => return Err(unexpected(&other)),
    }
    for (one, moves) in group.into_iter().zip(moves) {
        if moves {
            one.moved();
        }
    }
    Ok(())
}

/// A connection as it is sent.
struct Movable<'a> {
    moved: Moved,
    of_it: Vec<BorrowedFd<'a>>,
    in_memory: [Vec<u8>; 2],
}

/// `None` if the connection cannot move.
fn moved(paused: &Paused) -> Option<Movable<'_>> {
    let Relaying { first, second, relay, directions, .. } = paused.relaying()?;
    let Paused { id, names, began, .. } = paused;
    let (a, b) = first.conduit.parts().zip(second.conduit.parts())?;
    let (mut state, pipes) = relay.state()?;
    let hands = state.directions.each_mut().map(|direction| std::mem::take(&mut direction.hand));
    let (client, other) = (names.client.to_string(), names.other.to_string());
    let is_small = hands.iter().all(|hand| hand.len() <= HAND_BYTES)
        && client.len() + other.len() <= NAME_BYTES;
    if !is_small {
        return None;
    }
    let ends = a.iter().chain(&b).map(|(_, fd)| *fd);
    let of_it = ends.chain(pipes.into_iter().flatten().flatten()).collect();
    let moved = Moved {
        id: *id,
        client,
        other,
        age: began.elapsed(),
        directions: *directions,
        parts: [a, b].map(|parts| parts.into_iter().map(|(part, _)| part).collect()),
        relay: state,
        hand_bytes: hands.each_ref().map(Vec::len),
    };
    Some(Movable { moved, of_it, in_memory: hands })
}
