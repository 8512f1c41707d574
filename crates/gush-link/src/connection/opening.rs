//! The phases before the relay.

use gush_text::os_text;
use tracing::debug;

use super::hang_up::Client;
use super::{Connection, ConnectionResult, Phase};
use crate::address::Opt;
use crate::ends;
use crate::open::End;
use crate::proxy::{self, HEADER_LIMIT, Header};
use crate::record::{Ending, Failure};
use crate::session::Name;

impl Connection<'_> {
    /// The client's address, by its own PROXY header or by its socket.
    pub(super) async fn read_header(&mut self, client: &End) -> Result<Header, ConnectionResult> {
        let settings = &self.shared.settings;
        if !settings.accept_proxy {
            return Ok(match settings.send_proxy {
                Some(_) => Header::new(Some(client.peer.clone()), client.local()),
                None => Header { source: None, destination: None },
            });
        }
        let fail = |failure| ConnectionResult::failed(Ending::ProxyHeader, failure);
        let Some(socket) = client.conduit.read_fd() else {
            return Err(fail(Failure::new("a PROXY header cannot be read from it", None)));
        };
        // Bounded even without an idle limit: a silent client would keep its place.
        let limit = settings.idle.map_or(HEADER_LIMIT, |idle| idle.min(HEADER_LIMIT));
        // Reading sees a hang-up by itself.
        let header = self.phase(Phase::Header, None, proxy::accept(socket, limit)).await?;
        let header = header
            .map_err(|error| fail(Failure::new(format!("{}: {error}", client.peer), None)))?;
        if let Some(source) = &header.source {
            debug!(id = self.id, client = %source, proxy = %self.names.client, "comes through a proxy");
            // From here on messages name the client, not the proxy.
            self.names.client = Name::Text(source.to_string().into());
        }
        Ok(header)
    }

    /// In the connection, not in the accept loop: a slow client delays no other.
    pub(super) async fn client_handshake(
        &self,
        client: Box<End>,
    ) -> Result<Box<End>, ConnectionResult> {
        // Without TLS neither phase nor box: allocations count in a short connection.
        if !client.wants_handshake() {
            return Ok(client);
        }
        let end = self.phase(Phase::ClientHandshake, None, client.handshake()).await?;
        end.map(Box::new).map_err(|error| {
            let failure = ends::open_failure(&error.at(&self.names.client));
            ConnectionResult::failed(Ending::HandshakeFailed, failure)
        })
    }

    pub(super) async fn handshake(
        &self,
        client: &End,
        other: Box<End>,
    ) -> Result<Box<End>, ConnectionResult> {
        if !other.wants_handshake() {
            return Ok(other);
        }
        let client = Client::of(client, self.shared);
        let end = self.phase(Phase::Handshake, client, other.handshake()).await?;
        end.map(Box::new).map_err(|error| {
            let failure = ends::open_failure(&error.at(&self.names.other));
            ConnectionResult::failed(Ending::OpenFailed, failure)
        })
    }

    pub(super) async fn open(
        &mut self,
        header: &Header,
        client: &End,
    ) -> Result<Box<End>, ConnectionResult> {
        let mut how = self.shared.settings.how(self.shared.flipped);
        if self.shared.other.address().kind().row().runs_program {
            let local = header.destination.clone().or_else(|| client.local());
            how = how.serving(header.source.as_ref().unwrap_or(&client.peer), local.as_ref());
            let is_mapped = self.shared.is_ipv6 && !self.shared.settings.accept_proxy;
            how = how.knowing(client, is_mapped);
        }
        if !self.shared.forks {
            how = how.once();
        }
        if self.shared.other.address().options().is_on(Opt::NoFork) {
            how = how.over(client).map_err(|error| {
                let failure = ends::open_failure(&error.at(&self.names.other));
                ConnectionResult::failed(Ending::OpenFailed, failure)
            })?;
        }
        if let Some(version) = self.shared.settings.send_proxy {
            how = how.introducing(header.clone(), version);
        }
        let client = Client::of(client, self.shared);
        let turn = self.turn.take();
        let other = self.phase(Phase::Open, client, self.shared.other.open(&how, turn)).await?;
        let other =
            other.map_err(|failure| ConnectionResult::failed(Ending::OpenFailed, failure))?;
        if other.chosen().is_some() || self.shared.other.address().kind().listens() {
            self.names.other = ends::name(&other, self.shared.other.address());
        }
        debug!(id = self.id, other = %self.names.other, "opened");
        Ok(Box::new(other))
    }

    /// Sends the PROXY header to the other end, if the settings say so.
    pub(super) async fn introduce(
        &self,
        header: &Header,
        client: &End,
        other: &mut End,
    ) -> Result<(), ConnectionResult> {
        let Some(version) = self.shared.settings.send_proxy else { return Ok(()) };
        let client = Client::of(client, self.shared);
        let sent = self.phase(Phase::Introduce, client, other.introduce(header, version)).await?;
        sent.map_err(|error| {
            let (other, why) = (&self.names.other, os_text(&error));
            let what = format!("{other}: the PROXY header cannot be sent: {why}");
            let failure = Failure::new(what, error.raw_os_error());
            ConnectionResult::failed(Ending::ProxyHeader, failure)
        })
    }
}
