//! The new process: what it asks for, and when it may use what it got.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gush_net::{ByteCounts, Conduit, Relay, RelayOptions};
use rustix::io::{Errno, read};
use rustix::process::{Resource, getrlimit};
use tokio::io::Interest;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::Event;
use super::wire::{ConnectionState, Hello, Known, Message, Wire, is_gone, unexpected, unless};
use crate::connection::{Directions, Relaying};
use crate::open::{self, End, Peer};
use crate::session::{Name, Names, Shared};
use crate::watch::watch;
use crate::workers::Seat;

/// Descriptors of a new process beyond those of the running link: its threads may be more.
const SPARE: u64 = 16;
/// How long a process whose descriptors are closed may take to end.
const DYING: Duration = Duration::from_secs(1);
/// The pause before a link that was killed as it was asked is asked again: its socket may still be
/// open.
const AGAIN: Duration = Duration::from_millis(100);

/// A handover that a running link has agreed to.
pub(super) struct Taking {
    wire: Wire,
    /// The pipe in which the running link gives up.
    given_up: Option<OwnedFd>,
    /// The listener of this protocol.
    pub door: OwnedFd,
    pub listener: Arc<OwnedFd>,
    /// That of the metrics, and their place.
    pub metrics: Option<(String, OwnedFd)>,
}

impl Taking {
    /// Asks the link that listens at `path`; `None` if none does.
    pub async fn begin(path: &Path, hello: &Hello) -> io::Result<Option<Self>> {
        match Self::ask(path, hello).await {
            Err(error) if is_gone(&error) => {
                sleep(AGAIN).await;
                Self::ask(path, hello).await
            }
            asked => asked,
        }
    }

    async fn ask(path: &Path, hello: &Hello) -> io::Result<Option<Self>> {
        let socket = match open::connect_packets(path) {
            Ok(socket) => socket,
            Err(Errno::NOENT | Errno::CONNREFUSED) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let mut wire = Wire::new(socket)?;
        if !wire.is_own_users()? {
            return Err(refused("the link there is another user's"));
        }
        // The descriptors of the running link are as many as its limit permits.
        gush_process::raise_descriptor_limit();
        wire.send(&Message::Hello(hello.clone()), &[]).await?;
        let (place, needed, descriptors) = match wire.receive_first().await? {
            (Message::Listeners { metrics, descriptors: needed }, descriptors) => {
                (metrics, needed, descriptors)
            }
            (Message::Refused(why), _) => return Err(refused(&why)),
            (other, _) => return Err(unexpected(&other)),
        };
        // Found out later, the connections of the running link would stand still meanwhile.
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        if limit < needed + SPARE {
            let why = format!(
                "the running link needs {needed} descriptors and {SPARE} to spare, and the limit of \
                 this process is {limit} (ulimit -n raises it)"
            );
            return Err(refused(&why));
        }
        let mut descriptors = descriptors.into_iter();
        let (Some(door), Some(listener)) = (descriptors.next(), descriptors.next()) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let metrics = place.and_then(|place| Some((place, descriptors.next()?)));
        let given_up = descriptors.next();
        Ok(Some(Self { wire, given_up, door, listener: Arc::new(listener), metrics }))
    }

    /// Takes over all that the running link has, unless `stop` drains this link first.
    pub fn take(self, shared: &Arc<Shared>) -> (OwnedFd, mpsc::Receiver<Event>) {
        let Self { mut wire, given_up, door, .. } = self;
        let (events, happens) = mpsc::channel(1);
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            let mut received = Received::default();
            let taken = match take_all(&mut wire, &shared, &mut received, &events).await {
                Ok(()) => Ok(received.all),
                Err(error) if is_gone(&error) && was_killed(given_up).await => {
                    Err(Untaken { error, abandoned: Some(received) })
                }
                Err(error) => Err(error.into()),
            };
            // The link waits for this message.
            let _ = events.send(Event::Taken(taken)).await;
        });
        (door, happens)
    }
}

/// Was the running link killed, whose socket is closed?
async fn was_killed(given_up: Option<OwnedFd>) -> bool {
    let pipe = given_up.and_then(|pipe| watch(pipe, Interest::READABLE).ok());
    let Some(pipe) = pipe else { return false };
    let byte = pipe.async_io(Interest::READABLE, |pipe| Ok(read(pipe, &mut [0])?));
    timeout(DYING, byte).await.is_ok_and(|bytes| bytes.is_ok_and(|bytes| bytes == 0))
}

/// Connections of the running link.
#[derive(Default)]
pub(crate) struct Received {
    /// Which are relayed there.
    known: HashMap<u64, Introduced>,
    /// Which stand still.
    all: Vec<(Box<Resumed>, Seat)>,
}

impl Received {
    /// Resets them: their process was killed, and the rest of their data is lost.
    pub(super) fn reset(self) {
        let known = self.known.values().flat_map(|one| &one.ends);
        let all = self.all.iter().flat_map(|(one, _)| [&one.relaying.first, &one.relaying.second]);
        known.chain(all).for_each(|end| end.conduit.reset_on_close());
    }
}

async fn take_all(
    wire: &mut Wire,
    shared: &Shared,
    received: &mut Received,
    events: &mpsc::Sender<Event>,
) -> io::Result<()> {
    let last_id = receive_all(wire, shared, received, events);
    let last_id = unless(shared.stop.draining(), last_id).await?;
    wire.send(&Message::Taken, &[]).await?;
    // Not before: dropped, those of the running link would end. It may hang, and keep them.
    received.all.iter().for_each(|(one, _)| one.relaying.set_shared(true));
    shared.ledger.begin_after(last_id);
    Ok(())
}

/// Receives all connections, and returns the last number.
async fn receive_all(
    wire: &mut Wire,
    shared: &Shared,
    Received { known, all }: &mut Received,
    events: &mpsc::Sender<Event>,
) -> io::Result<u64> {
    wire.send(&Message::Ready, &[]).await?;
    loop {
        let (message, descriptors) = wire.receive().await?;
        let mut descriptors = descriptors.into_iter();
        match message {
            Message::Known(connections) => {
                let introduced = connections
                    .into_iter()
                    .map(|connection| introduced(connection, &mut descriptors, shared))
                    .collect::<io::Result<_>>()?;
                let (placed, placing) = oneshot::channel();
                // The link waits for events.
                let _ = events.send(Event::Known(Newcomers { introduced, placed })).await;
                let placed = placing.await.map_err(io::Error::other)??;
                known.extend(placed.into_iter().map(|connection| (connection.id, connection)));
            }
            Message::States(states) => {
                for state in states {
                    let connection = known.remove(&state.id).ok_or_else(missing)?;
                    let [forward, back] = state.hand_bytes;
                    let hands =
                        [wire.receive_bytes(forward).await?, wire.receive_bytes(back).await?];
                    all.push(resumed(connection, state, &mut descriptors, hands, shared)?);
                }
            }
            Message::All { last_id } => return Ok(last_id),
            other => return Err(unexpected(&other)),
        }
    }
}

/// The connections of a running link that now belong to this one.
pub(crate) type Taken = Result<Vec<(Box<Resumed>, Seat)>, Untaken>;

/// Why nothing belongs to this link.
pub(crate) struct Untaken {
    pub error: io::Error,
    /// What it has sent, which is not the running link's either: its process has ended.
    pub abandoned: Option<Received>,
}

impl From<io::Error> for Untaken {
    fn from(error: io::Error) -> Self {
        Self { error, abandoned: None }
    }
}

/// A connection of another process, to go on here.
pub(crate) struct Resumed {
    pub id: u64,
    pub names: Names,
    pub counts: Arc<ByteCounts>,
    pub began: Instant,
    pub relaying: Box<Relaying>,
}

/// A connection that is the running link's still.
struct Introduced {
    id: u64,
    names: Names,
    began: Instant,
    directions: Directions,
    ends: [Box<End>; 2],
    /// Where it will be served, with whose runtime its descriptors are registered.
    seat: Option<Seat>,
}

impl Introduced {
    fn sit(&mut self, seat: Seat) -> io::Result<()> {
        let entered = seat.enter();
        for end in &mut self.ends {
            end.conduit.register()?;
        }
        drop(entered);
        self.seat = Some(seat);
        Ok(())
    }
}

/// Connections of the running link that get their places: what can be done for them before they
/// stand still.
pub(crate) struct Newcomers {
    introduced: Vec<Introduced>,
    placed: oneshot::Sender<io::Result<Vec<Introduced>>>,
}

impl Newcomers {
    pub fn place(self, mut seat: impl FnMut() -> Seat) {
        let Self { mut introduced, placed } = self;
        let sat = introduced.iter_mut().try_for_each(|one| one.sit(seat()));
        // The handover may have ended.
        let _ = placed.send(sat.map(|()| introduced));
    }
}

fn introduced(
    known: Known,
    descriptors: &mut impl Iterator<Item = OwnedFd>,
    shared: &Shared,
) -> io::Result<Introduced> {
    let Known { id, client, other, age, directions, parts } = known;
    let [a, b] = parts.map(|parts| {
        let mut next = || descriptors.next().ok_or_else(missing);
        let parts = parts.into_iter().map(|part| Ok((part, next()?)));
        Conduit::of_parts(parts.collect::<io::Result<_>>()?)
    });
    let end = |conduit, name: &Name| Box::new(End::new(conduit, Peer::Other(name.to_string())));
    let names = Names { client: Name::Text(client.into()), other: Name::Text(other.into()) };
    let (first_name, second_name) = shared.in_order(&names.client, &names.other);
    let ends = [end(a?, first_name), end(b?, second_name)];
    let began = Instant::now().checked_sub(age).unwrap_or_else(Instant::now);
    Ok(Introduced { id, names, began, directions, ends, seat: None })
}

fn resumed(
    introduced: Introduced,
    state: ConnectionState,
    descriptors: &mut impl Iterator<Item = OwnedFd>,
    hands: [Vec<u8>; 2],
    shared: &Shared,
) -> io::Result<(Box<Resumed>, Seat)> {
    let Introduced { id, names, began, directions, ends: [first, second], seat } = introduced;
    let mut state = state.relay;
    let mut pipes = [None, None];
    for ((pipe, direction), hand) in pipes.iter_mut().zip(&mut state.directions).zip(hands) {
        direction.hand = hand;
        if direction.piped_bytes > 0 {
            let mut next = || descriptors.next().ok_or_else(missing);
            *pipe = Some([next()?, next()?]);
        }
    }
    let counts = Arc::new(ByteCounts::default());
    // Ends that move have no program, and end like sockets.
    let options = RelayOptions {
        close_sends_last_fin: true,
        ..shared.settings.relay(id, Arc::clone(&counts))
    };
    let relay = Relay::carry_on(&options, state, pipes, [&first.conduit, &second.conduit])?;
    let relaying = Relaying { first, second, relay, directions, has_datagrams: false };
    let resumed = Resumed { id, names, counts, began, relaying: Box::new(relaying) };
    Ok((Box::new(resumed), seat.ok_or_else(missing)?))
}

fn missing() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a part of a connection is missing")
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}
