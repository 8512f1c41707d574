//! A handover: a new process takes the listeners and the connections of a running link, which ends.
//!
//! ```text
//!  the new process                         the running link
//!  Hello: version, addresses            ->
//!                                       <- Listeners, or Refused
//!  opens what it opens itself, then
//!  Ready                                ->
//!                                          accepts no more clients, and stops the relays
//!                                       <- Connection, for each
//!                                       <- Sent
//!  Taken                                ->
//!                                       <- Go
//! ```
//!
//! Both have the same sockets meanwhile, so that no client is refused. Until `Go` the new process
//! uses none of them, and the running link goes on if anything fails: bytes in flight are in pipes
//! that both have, or were copied. TLS, programs, terminals and connections in another phase than
//! their relay stay with their process until they end.

mod give;
mod relays;
mod take;
mod wire;

use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gush_text::os_text;
use tokio::task::AbortHandle;

use crate::address::{Address, Kind, Opt};
use crate::ends;
use crate::open::{self, Listener, Made};
use crate::record::Failure;
use crate::roles::Roles;
use crate::session::Shared;
use crate::settings::Settings;

pub(crate) use give::Giver;
pub(crate) use relays::{Entry, Relays, Request};
pub(crate) use take::Resumed;
use take::Taking;
use wire::{Hello, VERSION};

/// Refuses a link that has nothing to hand over, or something that must not be opened twice.
pub(crate) fn check(settings: &Settings, roles: &Roles) -> Result<(), Failure> {
    if settings.handover.is_none() {
        return Ok(());
    }
    let (server, other) = (roles.server().filter(|_| roles.forks()), roles.other());
    let (Some(server), Some(other)) = (server, other) else {
        let why = "a handover is for a link that serves many clients: an address needs fork";
        return Err(Failure::new(why, None));
    };
    let refuse = |address: &Address, why: &str| {
        Err(Failure::new(format!("{}: {why}", address.target()), None))
    };
    if server.kind().row().is_datagrams {
        return refuse(server, "datagrams are sorted by their sender, which a handover would lose");
    }
    if server.kind() == Kind::ListenFd {
        return refuse(server, "no handover is needed: who passed the listener on still has it");
    }
    if other.kind().listens() {
        return refuse(other, "a handover takes one listener, and both addresses listen");
    }
    if roles.shares_other() || other.options().is_on(Opt::Shared) {
        return refuse(other, "all clients share it: the new process could only open it anew");
    }
    if settings.tee.is_some() || settings.tee_back.is_some() {
        let why = "two processes cannot keep the order of a copy (--tee) during a handover";
        return Err(Failure::new(why, None));
    }
    Ok(())
}

/// The part of a link in handovers, before it serves.
pub(crate) struct Handover {
    path: PathBuf,
    hello: Hello,
    /// The running link, if there is one.
    taking: Option<Taking>,
    metrics: Option<Metrics>,
}

/// The listener of the metrics, for the next process.
pub(crate) struct Metrics {
    pub place: String,
    pub listener: OwnedFd,
    /// Until then they are answered here.
    pub answering: AbortHandle,
}

impl Handover {
    /// Asks the running link for its listeners, if one answers at `path`.
    ///
    /// # Errors
    /// The running link refuses, or does not answer.
    pub fn begin(path: &Path, roles: &Roles) -> Result<Self, Failure> {
        let [first, second] = [&roles.first, &roles.second].map(ToString::to_string);
        let hello = Hello { version: VERSION, first, second };
        let taking = Taking::begin(path, &hello).map_err(|error| failure(path, error))?;
        Ok(Self { path: path.to_owned(), hello, taking, metrics: None })
    }

    /// The running link's listener.
    pub fn listener(&self) -> Option<Arc<OwnedFd>> {
        self.taking.as_ref().map(|taking| Arc::clone(&taking.listener))
    }

    /// The running link's listener for metrics at `place`, if there is one.
    pub fn metrics_at(&mut self, place: &str) -> Option<TcpListener> {
        let metrics = self.taking.as_mut().and_then(|taking| taking.metrics.take());
        metrics.filter(|(at, _)| at == place).map(|(_, listener)| listener.into())
    }

    /// The metrics are answered here.
    pub fn give_metrics(&mut self, metrics: Metrics) {
        self.metrics = Some(metrics);
    }

    /// Takes over, and stands by for the next process.
    pub fn stand_by(
        self,
        listener: &mut Listener,
        shared: &Shared,
    ) -> Result<(Giver, Vec<Resumed>), Failure> {
        let Self { path, hello, taking, metrics } = self;
        let fail = |error| failure(&path, error);
        let descriptor = listener.descriptor().map_err(fail)?;
        let (door, name, resumed) = match taking {
            Some(taking) => {
                let mut name = open::keep_name(&path).map_err(fail)?;
                let (door, resumed) = taking.take(shared).map_err(fail)?;
                // Until here the running link goes on if anything fails, and needs its names.
                name.iter_mut().for_each(Made::own);
                listener.own_name();
                (door, name, resumed)
            }
            None => {
                let (door, name) = open::private_listener(&path).map_err(|error| {
                    ends::open_failure(&error.at(format_args!("handover at {}", path.display())))
                })?;
                (door, name, Vec::new())
            }
        };
        Ok((Giver::new(door, name, descriptor, metrics, hello), resumed))
    }
}

fn failure(path: &Path, error: std::io::Error) -> Failure {
    let why = os_text(&error);
    Failure::new(format!("handover at {}: {why}", path.display()), error.raw_os_error())
}

/// Descriptors as a message takes them.
fn borrowed<const N: usize>(
    descriptors: [Option<&OwnedFd>; N],
) -> Vec<std::os::fd::BorrowedFd<'_>> {
    descriptors.into_iter().flatten().map(AsFd::as_fd).collect()
}
