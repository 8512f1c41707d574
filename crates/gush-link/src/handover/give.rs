//! The running link: who may take over, and what the process gets.

use std::collections::HashSet;
use std::future::pending;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use gush_text::quote;
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::{SocketFlags, accept_with};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::Interest;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::AbortHandle;
use tracing::warn;

use super::relays::{Paused, Relays, STOPPING, STOPPING_FIRST};
use super::wire::{
    ConnectionState, DESCRIPTORS, GROUP, GivingUp, HAND_BYTES, Hello, Known, Message, NAME_BYTES,
    PAUSED, STATES, VERSION, Wire, unexpected, unless,
};
use super::{FAILED, Metrics, borrowed};
use crate::connection::Relaying;
use crate::open::Made;
use crate::session::Shared;
use crate::watch::watch;
use crate::workers::MAX_ACCEPTORS;

/// The pause after a failed accept, for lack of descriptors for example.
const PAUSE: Duration = Duration::from_millis(100);

/// The most clients that may still be accepted here: each thread may have one under way.
const LATE: usize = MAX_ACCEPTORS;

/// Waits for the process that takes over.
pub(crate) struct Giver {
    takers: mpsc::Receiver<Taker>,
    /// Notified once this link is to end.
    ends: Arc<Notify>,
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
    /// The connections whose descriptors it has.
    known: HashSet<u64>,
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
        shared: &Arc<Shared>,
    ) -> Self {
        let (metrics, answering) = match metrics {
            Some(Metrics { place, listener, answering }) => {
                (Some((place, listener)), Some(answering))
            }
            None => (None, None),
        };
        let listeners = Listeners { door, clients, metrics };
        let (ready, takers) = mpsc::channel(1);
        let ends = Arc::new(Notify::new());
        let answers = answer(listeners, hello, Arc::clone(shared), ready, Arc::clone(&ends));
        let answered = tokio::spawn(answers).abort_handle();
        Self { takers, ends, answering: answered, metrics: answering, name }
    }

    /// Resolves when a new process is ready. May be cancelled.
    pub async fn asked(&mut self) -> Taker {
        match self.takers.recv().await {
            Some(taker) => taker,
            None => pending().await,
        }
    }

    /// Resolves when a new process that has asked by now is ready; `None` if there is none.
    pub async fn last(&mut self) -> Option<Taker> {
        self.ends.notify_one();
        self.takers.recv().await
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
/// of the socket, which the process that takes over goes on to answer. Once this link `ends`, those
/// in the queue are the last.
async fn answer(
    listeners: Listeners,
    hello: Hello,
    shared: Arc<Shared>,
    ready: mpsc::Sender<Taker>,
    ends: Arc<Notify>,
) {
    // An accept must not wait, whoever has made the socket.
    let Ok(()) = ioctl_fionbio(&listeners.door, true) else { return };
    let Ok(watched) = watch(listeners.door.as_fd(), Interest::READABLE) else { return };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let mut are_last = false;
    loop {
        let accept = watched.async_io(Interest::READABLE, |door| Ok(accept_with(door, flags)?));
        let accepted = tokio::select! {
            biased;
            () = ends.notified(), if !are_last => {
                are_last = true;
                continue;
            }
            accepted = accept, if !are_last => accepted,
            // epoll may not have reported them yet.
            else => match accept_with(&listeners.door, flags) {
                Err(Errno::AGAIN) => return,
                accepted => accepted.map_err(Into::into),
            },
        };
        let socket = match accepted {
            Ok(socket) => socket,
            Err(error) => {
                warn!("a handover cannot be accepted: {error}");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let mut wire = match greet(socket, &listeners, &hello).await {
            Ok(wire) => wire,
            Err(error) => {
                warn!("a handover is refused: {error}");
                continue;
            }
        };
        let Some(relays) = &shared.relays else { return };
        match introduce(&mut wire, relays).await {
            Ok(known) => {
                let (turn, is_over) = oneshot::channel();
                let taker = Taker { wire, known, turn };
                if ready.send(taker).await.is_err() || is_over.await.is_err() {
                    return;
                }
            }
            Err(error) => warn!("{FAILED}: {error}"),
        }
    }
}

/// Gives the listeners to a process of this user with this version and these addresses.
async fn greet(socket: OwnedFd, listeners: &Listeners, own: &Hello) -> io::Result<Wire> {
    let mut wire = Wire::new(socket)?;
    if !wire.is_own_users()? {
        return refuse(&wire, "the new process is another user's".into(), "").await;
    }
    let hello = match wire.receive().await?.0 {
        Message::Hello(hello) => hello,
        other => return Err(unexpected(&other)),
    };
    if hello.version != VERSION {
        let why = format!(
            "the running link speaks version {VERSION} of the handover, and the new process \
             version {}",
            hello.version
        );
        return refuse(&wire, why, ": end the running one first").await;
    }
    if hello != *own {
        let quoted = |address| quote::always(Path::new(address));
        let (first, second) = (quoted(&own.first), quoted(&own.second));
        let why = format!("the running link has the addresses {first} and {second}");
        return refuse(&wire, why, ": use the same, or another PATH").await;
    }
    let place = listeners.metrics.as_ref().map(|(place, _)| place.clone());
    let metrics = listeners.metrics.as_ref().map(|(_, listener)| listener);
    let Listeners { door, clients, .. } = listeners;
    let (given_up, giving_up) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let given = borrowed([Some(door), Some(clients), metrics, Some(&given_up)]);
    let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, |open| open.count() as u64);
    wire.send(&Message::Listeners { metrics: place, descriptors }, &given).await?;
    wire.giving_up = Some(GivingUp { writes: giving_up, _reads: given_up });
    match wire.receive().await?.0 {
        Message::Ready => Ok(wire),
        other => Err(unexpected(&other)),
    }
}

/// Gives the new process the reason with the `remedy`, which is for its user.
async fn refuse(wire: &Wire, why: String, remedy: &str) -> io::Result<Wire> {
    // Best effort: the reason is logged here, too.
    let _ = wire.send(&Message::Refused(format!("{why}{remedy}")), &[]).await;
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// Sends the descriptors of connections, which go on meanwhile, as clients are still accepted.
async fn introduce(wire: &mut Wire, relays: &Relays) -> io::Result<HashSet<u64>> {
    wire.patience = PAUSED;
    let mut known = HashSet::new();
    for ids in relays.ids().chunks(GROUP) {
        // Each stands still only until it is sent with its group, at once also if the new process
        // is slow; those that are late follow with their states.
        wire.has_room().await?;
        let paused = relays.stop(ids, STOPPING_FIRST).await;
        introduction(paused.iter(), &mut known).send(wire).await?;
    }
    Ok(known)
}

/// Connections with their descriptors.
#[derive(Default)]
struct Introduction<'a> {
    connections: Vec<Known>,
    descriptors: Vec<BorrowedFd<'a>>,
}

/// Of those that can move, which are known from here on.
fn introduction<'a>(
    group: impl Iterator<Item = &'a Paused>,
    known: &mut HashSet<u64>,
) -> Introduction<'a> {
    let mut all = Introduction::default();
    for one in group {
        let Some((connection, of_it)) = introduced(one) else { continue };
        known.insert(connection.id);
        all.connections.push(connection);
        all.descriptors.extend(of_it);
        // A new process that hangs keeps them.
        one.relaying().inspect(|relaying| relaying.set_shared(true));
    }
    all
}

impl Introduction<'_> {
    async fn send(self, wire: &Wire) -> io::Result<()> {
        let Self { connections, descriptors } = self;
        match connections.is_empty() {
            true => Ok(()),
            false => wire.send(&Message::Known(connections), &descriptors).await,
        }
    }
}

/// What does not change of a connection; `None` if it cannot move.
fn introduced(paused: &Paused) -> Option<(Known, Vec<BorrowedFd<'_>>)> {
    let Relaying { first, second, directions, .. } = paused.relaying()?;
    let Paused { id, names, began, .. } = paused;
    let (a, b) = first.conduit.parts().zip(second.conduit.parts())?;
    let (client, other) = (names.client.to_string(), names.other.to_string());
    let of_it = a.iter().chain(&b).map(|(_, fd)| *fd).collect();
    let known = Known {
        id: *id,
        client,
        other,
        age: began.elapsed(),
        directions: *directions,
        parts: [a, b].map(|parts| parts.into_iter().map(|(part, _)| part).collect()),
    };
    (known.client.len() + known.other.len() <= NAME_BYTES).then_some((known, of_it))
}

impl Taker {
    /// Gives all that can move to the new process, unless `late` resolves first. How many
    /// connections stay?
    ///
    /// # Errors
    /// Nothing was given, and this link goes on with all that it has.
    pub async fn give(self, shared: &Shared, late: impl Future<Output = ()>) -> io::Result<u64> {
        let Self { mut wire, mut known, turn } = self;
        let mut late = pin!(late);
        let paused = match &shared.relays {
            Some(relays) => {
                relays.wait_for_openings(&shared.ledger).await;
                relays.stop(&relays.ids(), STOPPING).await
            }
            None => Vec::new(),
        };
        let offered = unless(late.as_mut(), offer(&wire, shared, &paused, &mut known)).await;
        let moves = match offered {
            Ok(moves) => answer_of(&mut wire, late).await.map(|()| moves),
            Err(error) => Err(error),
        };
        match moves {
            Ok(moves) => {
                let moved = paused.into_iter().zip(moves).filter(|(_, moves)| *moves);
                let moved: Vec<_> = moved.map(|(one, _)| one).collect();
                // Before their tasks run, each of which counts its own connection out.
                let stay = shared.ledger.active().saturating_sub(moved.len() as u64);
                moved.into_iter().for_each(Paused::moved);
                Ok(stay)
            }
            Err(error) => {
                let _ = turn.send(());
                Err(error)
            }
        }
    }
}

/// Sends all that can move. Which relays can?
async fn offer(
    wire: &Wire,
    shared: &Shared,
    paused: &[Paused],
    known: &mut HashSet<u64>,
) -> io::Result<Vec<bool>> {
    let unknown: Vec<_> = paused.iter().filter(|one| !known.contains(&one.id)).collect();
    for group in unknown.chunks(GROUP) {
        introduction(group.iter().copied(), known).send(wire).await?;
    }
    let mut all = Vec::with_capacity(paused.len());
    let movable = paused.iter().filter_map(|one| {
        let movable = known.contains(&one.id).then(|| movable(one)).flatten();
        all.push(movable.is_some());
        movable
    });
    let mut movable = movable.peekable();
    while movable.peek().is_some() {
        let (mut states, mut pipes, mut hands) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(Movable { state, of_it, in_memory }) = movable
            .next_if(|one| states.len() < STATES && pipes.len() + one.of_it.len() <= DESCRIPTORS)
        {
            states.push(state);
            pipes.extend(of_it);
            hands.extend(in_memory);
        }
        wire.send(&Message::States(states), &pipes).await?;
        for hand in hands {
            wire.send_bytes(&hand).await?;
        }
    }
    let last_id = shared.ledger.last_id_with(LATE);
    wire.send(&Message::All { last_id }, &[]).await?;
    Ok(all)
}

/// Waits until everything belongs to the new process.
///
/// # Errors
/// It does not, and cannot any more.
async fn answer_of(wire: &mut Wire, late: impl Future<Output = ()>) -> io::Result<()> {
    let answer = match unless(late, wire.receive()).await {
        // Given up here alone, everything would be used twice if the new process takes it
        // meanwhile: either it has done so already, or cannot any more.
        Err(error) => {
            wire.stop_receiving()?;
            wire.receive().await.map_err(|_| error)
        }
        answer => answer,
    };
    match answer?.0 {
        Message::Taken => Ok(()),
        other => Err(unexpected(&other)),
    }
}

/// The state of a connection as it is sent.
struct Movable<'a> {
    state: ConnectionState,
    /// The ends of its pipes.
    of_it: Vec<BorrowedFd<'a>>,
    in_memory: [Vec<u8>; 2],
}

/// `None` if the connection cannot move, or cannot any more.
fn movable(paused: &Paused) -> Option<Movable<'_>> {
    let Relaying { first, second, relay, .. } = paused.relaying()?;
    first.conduit.parts().zip(second.conduit.parts())?;
    let (mut relay, pipes) = relay.state()?;
    let in_memory =
        relay.directions.each_mut().map(|direction| std::mem::take(&mut direction.hand));
    let hand_bytes = in_memory.each_ref().map(Vec::len);
    let is_small = hand_bytes.iter().all(|&bytes| bytes <= HAND_BYTES);
    let of_it = pipes.into_iter().flatten().flatten().collect();
    let state = ConnectionState { id: paused.id, relay, hand_bytes };
    is_small.then_some(Movable { state, of_it, in_memory })
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, recv, send, socketpair};
    use tokio::time::sleep;

    use super::*;
    use crate::handover::Entry;

    #[tokio::test(start_paused = true)]
    async fn no_relay_stops_while_the_new_process_reads_nothing() {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::SEQPACKET;
        let (near, far) = socketpair(AddressFamily::UNIX, kind, flags, None).expect("a pair");
        while send(&near, &[0; 4096], SendFlags::NOSIGNAL).is_ok() {}
        let mut wire = Wire::new(near).expect("registered");
        let relays = Relays::default();
        let mut entry = relays.enter(7);
        let mut asked = pin!(poll_fn(|cx| Entry::poll_asked(Some(&mut entry), cx)));
        let mut introduced = pin!(introduce(&mut wire, &relays));
        tokio::select! {
            biased;
            _ = &mut introduced => panic!("the socket is full"),
            _ = &mut asked => panic!("the relay stops, and nothing is sent"),
            () = sleep(PAUSED / 2) => {}
        }
        while recv(&far, &mut [0; 4096][..], RecvFlags::empty()).is_ok() {}
        tokio::select! {
            biased;
            _ = &mut introduced => panic!("the relay has not stopped"),
            _ = &mut asked => {}
        }
    }
}
