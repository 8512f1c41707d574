//! The new process: what it asks for, and when it may use what it got.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use gush_net::{ByteCounts, Conduit, Relay};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::wire::{Hello, Message, Moved, Wire, unexpected};
use crate::connection::Relaying;
use crate::open::{self, End, Peer};
use crate::session::{Name, Names, Shared};
use crate::stop::Stop;

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

/// What comes from the running link.
pub(crate) enum Taken {
    /// This process accepts clients from here on.
    Accept,
    Connections(Vec<Resumed>),
    /// All has come, or the running link goes on.
    End(io::Result<()>),
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
        // Found out later, the running link would have given some of its connections already.
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

    /// Takes over all that the running link has, until it has no more or `stop` drains this link.
    pub fn take(self, shared: &Arc<Shared>) -> (OwnedFd, UnboundedReceiver<Taken>) {
        let Self { mut wire, door, .. } = self;
        let (sender, taken) = unbounded_channel();
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            let all = take_all(&mut wire, &sender, &shared).await;
            // The link waits for this message.
            let _ = sender.send(Taken::End(all));
        });
        (door, taken)
    }
}

async fn take_all(
    wire: &mut Wire,
    taken: &UnboundedSender<Taken>,
    shared: &Shared,
) -> io::Result<()> {
    let pass_on = |what| taken.send(what).map_err(|_| ended());
    wire.send(&Message::Ready, &[]).await?;
    loop {
        let next = until_drained(&shared.stop, next(wire, shared)).await?;
        let group = match next {
            Next::Accept(last_id) => {
                shared.ledger.begin_after(last_id);
                pass_on(Taken::Accept)?;
                continue;
            }
            Next::Group(group) => group,
        };
        wire.send(&Message::Taken, &[]).await?;
        goes(wire, &shared.stop).await?;
        if group.is_empty() {
            return Ok(());
        }
        pass_on(Taken::Connections(group))?;
    }
}

enum Next {
    Accept(u64),
    Group(Vec<Resumed>),
}

async fn next(wire: &mut Wire, shared: &Shared) -> io::Result<Next> {
    let (group, descriptors) = loop {
        match wire.receive().await? {
            (Message::Accept { last_id }, _) => return Ok(Next::Accept(last_id)),
            (Message::Group(group), descriptors) => break (group, descriptors),
            // The running link is at work.
            (Message::Staying, _) => {}
            (other, _) => return Err(unexpected(&other)),
        }
    };
    let mut descriptors = descriptors.into_iter();
    let mut all = Vec::with_capacity(group.len());
    for moved in group {
        let [forward, back] = moved.hand_bytes;
        let hands = [wire.receive_bytes(forward).await?, wire.receive_bytes(back).await?];
        all.push(resumed(moved, &mut descriptors, hands, shared)?);
    }
    Ok(Next::Group(all))
}

/// Returns once the group belongs to this process.
///
/// # Errors
/// It does not, and stays with the running link.
async fn goes(wire: &mut Wire, stop: &Stop) -> io::Result<()> {
    let answer = match until_drained(stop, wire.receive()).await {
        // Given up here alone, the group would be lost if the running link has sent `Go`
        // meanwhile: either it has done so already, or cannot any more.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::Interrupted) =>
        {
            wire.stop_receiving()?;
            wire.receive().await.map_err(|_| error)
        }
        answer => answer,
    };
    match answer?.0 {
        Message::Go => Ok(()),
        other => Err(unexpected(&other)),
    }
}

/// The result of `work`, unless the link drains first.
async fn until_drained<T>(stop: &Stop, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::select! {
        biased;
        () = stop.draining() => Err(ended()),
        done = work => done,
    }
}

fn ended() -> io::Error {
    io::Error::new(io::ErrorKind::Interrupted, "ended by a signal")
}

/// A connection of another process, to go on here.
pub(crate) struct Resumed {
    pub id: u64,
    pub names: Names,
    pub counts: Arc<ByteCounts>,
    pub began: Instant,
    pub relaying: Box<Relaying>,
}

fn resumed(
    moved: Moved,
    descriptors: &mut impl Iterator<Item = OwnedFd>,
    hands: [Vec<u8>; 2],
    shared: &Shared,
) -> io::Result<Resumed> {
    let Moved { id, client, other, age, directions, parts, relay: mut state, .. } = moved;
    let missing = || io::Error::new(io::ErrorKind::InvalidData, "a descriptor is missing");
    let mut next = || descriptors.next().ok_or_else(missing);
    let [a, b] = parts.map(|parts| {
        let parts = parts.into_iter().map(|part| Ok((part, next()?)));
        Conduit::of_parts(parts.collect::<io::Result<_>>()?)
    });
    let (a, b) = (a?, b?);
    let mut pipes = [None, None];
    for ((pipe, direction), hand) in pipes.iter_mut().zip(&mut state.directions).zip(hands) {
        direction.hand = hand;
        if direction.piped_bytes > 0 {
            *pipe = Some([next()?, next()?]);
        }
    }
    let counts = Arc::new(ByteCounts::default());
    // Ends that move have no program, and end like sockets.
    let options = shared.settings.relay(id, Arc::clone(&counts)).close_sends_last_fin();
    let relay = Relay::carry_on(&options, state, pipes, [&a, &b])?;
    let end = |conduit, name: &Name| Box::new(End::new(conduit, Peer::Other(name.to_string())));
    let names = Names { client: Name::Text(client.into()), other: Name::Text(other.into()) };
    let (first_name, second_name) = shared.in_order(&names.client, &names.other);
    let (first, second) = (end(a, first_name), end(b, second_name));
    let relaying = Relaying { first, second, relay, directions, has_datagrams: false };
    let relaying = Box::new(relaying);
    let began = Instant::now().checked_sub(age).unwrap_or_else(Instant::now);
    Ok(Resumed { id, names, counts, began, relaying })
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}
