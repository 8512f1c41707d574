//! The new process: what it asks for, and when it may use what it got.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use super::wire::{Hello, Message, Wire, unexpected};
use crate::open;

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

    /// Takes over all that the running link has, and returns the listener of this protocol.
    pub fn take(self) -> io::Result<OwnedFd> {
        let Self { mut wire, door, .. } = self;
        wire.send(&Message::Ready, &[])?;
        match wire.receive()?.0 {
            Message::Sent { .. } => {}
            other => return Err(unexpected(&other)),
        }
        // A process that gave up just before `Go` would take all with it.
        wire.wait_for_ever()?;
        wire.send(&Message::Taken, &[])?;
        match wire.receive()?.0 {
            Message::Go => Ok(door),
            other => Err(unexpected(&other)),
        }
    }
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}
