//! The new process: what it asks for, and when it may use what it got.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use gush_net::{ByteCounts, Conduit, Relay};
use rustix::io::Errno;

use super::wire::{Hello, Message, Moved, Wire, unexpected};
use crate::connection::Relaying;
use crate::open::{self, End, Peer};
use crate::session::{Names, Shared};

/// A handover that a running link has agreed to.
pub(super) struct Taking {
    wire: Wire,
    /// The listener of this protocol.
    door: OwnedFd,
    pub listener: Arc<OwnedFd>,
    /// That of the metrics, and their place.
    pub metrics: Option<(String, OwnedFd)>,
}

impl Taking {
    /// Asks the link that listens at `path`; `None` if none does.
    pub fn begin(path: &Path, hello: &Hello) -> io::Result<Option<Self>> {
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
        wire.send(&Message::Hello(hello.clone()), &[])?;
        let (place, descriptors) = match wire.receive()? {
            (Message::Listeners { metrics }, descriptors) => (metrics, descriptors),
            (Message::Refused(why), _) => return Err(refused(&why)),
            (other, _) => return Err(unexpected(&other)),
        };
        let mut descriptors = descriptors.into_iter();
        let (Some(door), Some(listener)) = (descriptors.next(), descriptors.next()) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let metrics = place.zip(descriptors.next());
        Ok(Some(Self { wire, door, listener: Arc::new(listener), metrics }))
    }

    /// Takes over all that the running link has. Returns the listener of this protocol, too.
    pub fn take(self, shared: &Shared) -> io::Result<(OwnedFd, Vec<Resumed>)> {
        let Self { mut wire, door, .. } = self;
        wire.send(&Message::Ready, &[])?;
        let mut all = Vec::new();
        loop {
            match wire.receive()? {
                (Message::Connection(moved), descriptors) => {
                    let hands = moved.hand_bytes.map(|bytes| wire.receive_bytes(bytes));
                    let [forward, back] = hands;
                    all.push(resumed(*moved, descriptors, [forward?, back?], shared)?);
                }
                (Message::Sent { connections }, _) if connections == all.len() => break,
                (other, _) => return Err(unexpected(&other)),
            }
        }
        // A process that gave up just before `Go` would take all with it.
        wire.wait_for_ever()?;
        wire.send(&Message::Taken, &[])?;
        match wire.receive()?.0 {
            Message::Go => Ok((door, all)),
            other => Err(unexpected(&other)),
        }
    }
}

/// A connection of another process, to go on here.
pub(crate) struct Resumed {
    pub id: u64,
    pub names: Names,
    pub counts: Arc<ByteCounts>,
    pub began: Instant,
    pub relaying: Relaying,
}

fn resumed(
    moved: Moved,
    descriptors: Vec<OwnedFd>,
    hands: [Vec<u8>; 2],
    shared: &Shared,
) -> io::Result<Resumed> {
    let Moved { id, client, other, age, directions, parts, relay: mut state, .. } = moved;
    let missing = || io::Error::new(io::ErrorKind::InvalidData, "a descriptor is missing");
    let mut descriptors = descriptors.into_iter();
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
    let end = |conduit, name: &str| Box::new(End::new(conduit, Peer::Other(name.to_owned())));
    let names = Names { client, other };
    let (first_name, second_name) = shared.in_order(&*names.client, &*names.other);
    let (first, second) = (end(a, first_name), end(b, second_name));
    let relaying = Relaying { first, second, relay, directions, has_datagrams: false };
    let began = Instant::now().checked_sub(age).unwrap_or_else(Instant::now);
    Ok(Resumed { id, names, counts, began, relaying })
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}
