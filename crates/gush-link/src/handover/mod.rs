//! A handover: a new process takes the listeners and the connections of a running link, which ends.
//!
//! ```text
//!  the new process                         the running link
//!  Hello: version, addresses            ->
//!                                       <- Listeners, or Refused
//!  opens what it opens itself, then
//!  Ready                                ->
//!                                       <- Known: some connections, with their descriptors
//!  registers them with the threads
//!  that will serve them, and uses none
//!                                       <- Known, and so on
//!                                          accepts no more clients, stops all relays
//!                                       <- States: of some connections
//!                                       <- States, and so on
//!                                       <- All
//!  Taken                                ->
//!  accepts clients, uses the               ends after the connections that stay
//!  connections
//! ```
//!
//! **Invariant:** a connection is used by one process. Up to `Taken` it is the running link's,
//! whose relays are paused and go on if anything fails: bytes in flight are in pipes that both
//! have, or were copied. `Taken` counts as sent when the kernel has queued it: from then on
//! everything is the new process's. A running link that gives up after `All` first shuts its socket
//! down for reading, so that `Taken` is there already or cannot be sent.
//!
//! So a new process that dies on its way has used nothing, and nothing is lost; there is no moment
//! at which a process that has not begun to serve owns a connection. If the running link is killed,
//! the new one resets its connections and serves new clients: one that gives the handover up, and
//! may give all to another process next, says so in a pipe, which always has room.
//! Clients that come meanwhile wait in the queue of the listener, which both have, and none is
//! refused. TLS, programs, terminals, pipes and connections in another phase than their relay stay
//! with their process until they end.

mod give;
mod relays;
mod take;
mod wire;

use std::future::pending;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gush_text::os_text;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tracing::warn;

use crate::address::{Address, Kind, Opt};
use crate::ends;
use crate::open::{self, Listener, Made, changes_user};
use crate::record::Failure;
use crate::roles::Roles;
use crate::session::Shared;
use crate::settings::Settings;

use give::Giver;
pub(crate) use give::Taker;
pub(crate) use relays::{Entry, Relays, Request};
use take::Taking;
pub(crate) use take::{Newcomers, Resumed, Taken, Untaken};
use wire::{Hello, VERSION, is_gone};

/// Said with the reason.
pub(crate) const FAILED: &str = "a handover failed, and this link continues";

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
        Err(Failure::new(format!("{}: {why}", address.locator()), None))
    };
    if server.kind().row().is_datagrams {
        return refuse(server, "datagrams are sorted by their sender, which a handover would lose");
    }
    if !server.kind().listens() {
        return refuse(server, "a handover takes a listener, and this address connects");
    }
    if server.kind() == Kind::ListenFd {
        return refuse(server, "no handover is needed: who passed the listener on still has it");
    }
    if changes_user(server.options()) {
        let why = "the next process, which is started by another user than this one becomes, could \
                   not take over";
        return refuse(server, why);
    }
    if [Opt::LockFile, Opt::WaitLock].iter().any(|&option| server.options().has(option)) {
        return refuse(server, "a lock would keep the next process out as long as this one runs");
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
    pub async fn begin(path: &Path, roles: &Roles) -> Result<Self, Failure> {
        let [first, second] = [&roles.first, &roles.second].map(ToString::to_string);
        let hello = Hello { version: VERSION, first, second };
        let taking = Taking::begin(path, &hello).await.map_err(|error| failure(path, error))?;
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

    /// Takes over, if another link runs, and stands by for the next process.
    pub fn stand_by(
        self,
        listener: &mut Listener,
        shared: &Arc<Shared>,
    ) -> Result<HandoverRole, Failure> {
        let Self { path, hello, taking, metrics } = self;
        let Some(taking) = taking else {
            let (door, name) = open::private_listener(&path).map_err(|error| {
                ends::open_failure(&error.at(format_args!("handover at {}", path.display())))
            })?;
            let clients = listener.descriptor().map_err(|error| failure(&path, error))?;
            let giver = Giver::new(door, name, clients, metrics, hello, shared);
            return Ok(HandoverRole::Giving(giver));
        };
        let name = open::keep_name(&path).map_err(|error| failure(&path, error))?;
        let (door, events) = taking.take(shared);
        Ok(HandoverRole::Taking(Incoming { path, hello, metrics, door, name, events }))
    }
}

/// The part of a serving link in handovers.
pub(crate) enum HandoverRole {
    /// In none.
    Apart,
    /// The running link gives its connections to this one.
    Taking(Incoming),
    Giving(Giver),
}

/// A handover to this process.
pub(crate) struct Incoming {
    path: PathBuf,
    hello: Hello,
    metrics: Option<Metrics>,
    door: OwnedFd,
    name: Option<Made>,
    events: mpsc::Receiver<Event>,
}

/// What happens in handovers while a link serves.
pub(crate) enum Event {
    /// The running link names connections.
    Known(Newcomers),
    Taken(Taken),
    /// A new process is ready.
    Asked(Taker),
}

impl HandoverRole {
    /// Does this process accept clients?
    pub fn accepts(&self) -> bool {
        !matches!(self, Self::Taking(_))
    }

    /// May be cancelled.
    pub async fn event(&mut self) -> Event {
        match self {
            Self::Apart => pending().await,
            Self::Giving(giver) => Event::Asked(giver.asked().await),
            Self::Taking(Incoming { events, .. }) => {
                // A task that ends without a message has panicked before it took anything.
                let ended = || Event::Taken(Err(io::Error::other("it was given up").into()));
                events.recv().await.unwrap_or_else(ended)
            }
        }
    }

    /// The handover that is under way as this process is to end.
    pub async fn last_event(&mut self) -> Option<Event> {
        match self {
            Self::Giving(giver) => giver.last().await.map(Event::Asked),
            Self::Apart | Self::Taking(_) => None,
        }
    }

    /// All has come: the listeners and their names belong to this process, which stands by for the
    /// next one.
    ///
    /// # Errors
    /// The running link has them still, or had them until it ended.
    pub fn end(
        &mut self,
        all: Result<(), Untaken>,
        listener: &mut Listener,
        shared: &Arc<Shared>,
    ) -> Result<(), Failure> {
        let Self::Taking(incoming) = std::mem::replace(self, Self::Apart) else { return Ok(()) };
        let Incoming { path, hello, metrics, door, mut name, .. } = incoming;
        if let Err(Untaken { error, abandoned }) = all {
            // One that ends by itself has ended its connections, and removed the names.
            let is_there = name.as_ref().is_some_and(Made::is_there);
            let Some(received) = abandoned.filter(|_| is_there) else {
                return Err(failure(&path, error));
            };
            received.reset();
            warn!(
                "handover at {}: the running link was killed, with its connections; this one \
                 serves new clients",
                path.display()
            );
        }
        name.iter_mut().for_each(Made::own);
        listener.own_name();
        let clients = listener.descriptor().map_err(|error| failure(&path, error))?;
        *self = Self::Giving(Giver::new(door, name, clients, metrics, hello, shared));
        Ok(())
    }

    /// A new process has all: this one leaves it the names.
    pub fn gave(&mut self, listener: &mut Listener) {
        listener.keep_name();
        if let Self::Giving(giver) = std::mem::replace(self, Self::Apart) {
            giver.gone();
        }
    }
}

fn failure(path: &Path, error: io::Error) -> Failure {
    let why = match is_gone(&error) {
        true => "the running link has ended, or has given the handover up".into(),
        false => os_text(&error),
    };
    let hint = match error.kind() {
        _ if is_gone(&error) => " (start this one again)",
        io::ErrorKind::InvalidData => " (another program has this socket: choose another PATH)",
        io::ErrorKind::TimedOut => " (`ss -xlp` shows which program has this socket)",
        // epoll_ctl(2): a socket has room for its messages.
        io::ErrorKind::StorageFull => " (sysctl fs.epoll.max_user_watches limits descriptors)",
        _ => "",
    };
    Failure::new(format!("handover at {}: {why}{hint}", path.display()), error.raw_os_error())
}

/// Descriptors as a message takes them.
fn borrowed<const N: usize>(
    descriptors: [Option<&OwnedFd>; N],
) -> Vec<std::os::fd::BorrowedFd<'_>> {
    descriptors.into_iter().flatten().map(AsFd::as_fd).collect()
}
