//! The new process: what it asks for, and when it may use what it got.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use gush_net::{ByteCounts, Conduit, Relay};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use tokio::sync::oneshot;

use super::wire::{Hello, Known, Message, State, Wire, unexpected, unless};
use crate::connection::{Directions, Relaying};
use crate::open::{self, End, Peer};
use crate::session::{Name, Names, Shared};

/// Descriptors of a new process beyond those of the running link: its threads may be more.
const SPARE: u64 = 16;

/// A handover that a running link has agreed to.
pub(super) struct Taking {
    wire: Wire,
    /// The listener of this protocol.
    pub door: OwnedFd,
    pub listener: Arc<OwnedFd>,
    /// That of the metrics, and their place.
    pub metrics: Option<(String, OwnedFd)>,
}

impl Taking {
    /// Asks the link that listens at `path`; `None` if none does.
    pub async fn begin(path: &Path, hello: &Hello) -> io::Result<Option<Self>> {
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
                (metrics, needed + SPARE, descriptors)
            }
            (Message::Refused(why), _) => return Err(refused(&why)),
            (other, _) => return Err(unexpected(&other)),
        };
        // Found out later, the connections of the running link would stand still meanwhile.
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        if limit < needed {
            let why = format!(
                "the running link needs {needed} descriptors, and the limit of this process is \
                 {limit} (ulimit -n raises it)"
            );
            return Err(refused(&why));
        }
        let mut descriptors = descriptors.into_iter();
        let (Some(door), Some(listener)) = (descriptors.next(), descriptors.next()) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let metrics = place.zip(descriptors.next());
        Ok(Some(Self { wire, door, listener: Arc::new(listener), metrics }))
    }

    /// Takes over all that the running link has, unless `stop` drains this link first.
    pub fn take(self, shared: &Arc<Shared>) -> (OwnedFd, oneshot::Receiver<Taken>) {
        let Self { mut wire, door, .. } = self;
        let (sender, taken) = oneshot::channel();
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            let all = take_all(&mut wire, &shared).await;
            // The link waits for this message.
            let _ = sender.send(all);
        });
        (door, taken)
    }
}

async fn take_all(wire: &mut Wire, shared: &Shared) -> Taken {
    let (all, last_id) = unless(shared.stop.draining(), receive_all(wire, shared)).await?;
    wire.send(&Message::Taken, &[]).await?;
    // Not before: dropped, those of the running link would end. It may hang, and keep them.
    all.iter().for_each(|one| one.relaying.set_shared(true));
    shared.ledger.begin_after(last_id);
    Ok(all)
}

/// All connections, and the last number.
async fn receive_all(wire: &mut Wire, shared: &Shared) -> io::Result<(Vec<Resumed>, u64)> {
    wire.send(&Message::Ready, &[]).await?;
    let (mut known, mut all) = (HashMap::new(), Vec::new());
    loop {
        let (message, descriptors) = wire.receive().await?;
        let mut descriptors = descriptors.into_iter();
        match message {
            Message::Known(connections) => {
                known.reserve(connections.len());
                for connection in connections {
                    known.insert(connection.id, introduced(connection, &mut descriptors, shared)?);
                }
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
            Message::All { last_id } => return Ok((all, last_id)),
            other => return Err(unexpected(&other)),
        }
    }
}

/// The connections of a running link that now belong to this one.
pub(crate) type Taken = io::Result<Vec<Resumed>>;

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
    names: Names,
    began: Instant,
    directions: Directions,
    ends: [Box<End>; 2],
}

fn introduced(
    known: Known,
    descriptors: &mut impl Iterator<Item = OwnedFd>,
    shared: &Shared,
) -> io::Result<Introduced> {
    let Known { client, other, age, directions, parts, .. } = known;
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
    Ok(Introduced { names, began, directions, ends })
}

fn resumed(
    introduced: Introduced,
    state: State,
    descriptors: &mut impl Iterator<Item = OwnedFd>,
    hands: [Vec<u8>; 2],
    shared: &Shared,
) -> io::Result<Resumed> {
    let Introduced { names, began, directions, ends: [first, second] } = introduced;
    let State { id, relay: mut state, .. } = state;
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
    let options = shared.settings.relay(id, Arc::clone(&counts)).close_sends_last_fin();
    let relay = Relay::carry_on(&options, state, pipes, [&first.conduit, &second.conduit])?;
    let relaying = Relaying { first, second, relay, directions, has_datagrams: false };
    Ok(Resumed { id, names, counts, began, relaying: Box::new(relaying) })
}

fn missing() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a part of a connection is missing")
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}
