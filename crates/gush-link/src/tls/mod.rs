//! TLS, by rustls: the handshake between the socket's first byte and the relay's.
//!
//! Certificates, keys and authorities are read again when their files change; handshakes have a deadline of their own, in the life of
//! each connection. The end of the data is a close_notify alert and a FIN. A FIN alone means that somebody cut the stream,
//! and fails; a failure of the other end leaves without close_notify, so that nobody takes a part for the whole (RFC 8446, 6.1).

mod config;
mod error;
mod fresh;
mod material;
mod pair;
mod stream;
mod verify;

use std::sync::Arc;
use std::time::Duration;

use gush_net::{Conduit, LingerTimeouts, Used};
use rustls::ServerConfig;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};
use tracing::debug;

pub(crate) use config::{client, server};
use fresh::Fresh;
pub use pair::{Pair, PairError};
use stream::Counted;

use crate::address::{Opt, Options};
use crate::open::{Handshake, OpenError, Shaken};

/// How long a handshake may take, where `handshake-timeout=` does not say.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// How long the peer of a handshake that failed may take to read why.
const LAST_WORD: Duration = Duration::from_millis(500);

/// One side of a handshake.
#[derive(Debug)]
pub(crate) struct Tls {
    role: Role,
    limit: Duration,
}

#[derive(Debug)]
enum Role {
    Client(Arc<Fresh<config::Client>>),
    Server(Fresh<Arc<ServerConfig>>),
}

impl Tls {
    fn new(role: Role, options: &Options) -> Self {
        let limit = options.duration(Opt::HandshakeTimeout).unwrap_or(HANDSHAKE_LIMIT);
        Self { role, limit }
    }

    /// The stream, or the failure and the socket that is left.
    async fn agreed(&self, conduit: Conduit) -> Result<TlsStream<Counted>, (OpenError, Conduit)> {
        let socket = Counted::new(conduit);
        match &self.role {
            Role::Client(fresh) => {
                let (config, name) = fresh.now();
                let connector = TlsConnector::from(config);
                let connected = connector.connect(name, socket).into_fallible().await;
                connected
                    .map(Into::into)
                    .map_err(|(why, left)| (error::of_client(why), left.conduit))
            }
            Role::Server(fresh) => {
                let acceptor = TlsAcceptor::from(fresh.now());
                let accepted = acceptor.accept(socket).into_fallible().await;
                accepted
                    .map(Into::into)
                    .map_err(|(why, left)| (error::of_server(why), left.conduit))
            }
        }
    }
}

/// Closing a socket with unread bytes resets the connection, and the alert that says why would be lost.
async fn part(mut socket: Conduit) {
    if socket.finish().is_ok() {
        // The peer knows, or it does not: the handshake has failed either way.
        let _ = socket.linger(Used::WRITTEN, LingerTimeouts::of(Some(LAST_WORD))).await;
    }
}

fn tell(stream: &TlsStream<Counted>) {
    let (_, session) = stream.get_ref();
    debug!(
        version = ?session.protocol_version(),
        suite = ?session.negotiated_cipher_suite().map(|suite| suite.suite()),
        alpn = session.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned()),
        "TLS agreed"
    );
}

impl Handshake for Tls {
    fn shake(&self, conduit: Conduit) -> Shaken<'_> {
        Box::pin(async move {
            match gush_net::within(self.limit, self.agreed(conduit)).await {
                Ok(Ok(stream)) => {
                    tell(&stream);
                    Ok(stream::conduit(stream))
                }
                Ok(Err((error, socket))) => {
                    part(socket).await;
                    Err(error)
                }
                Err(_) => Err(error::late(self.limit)),
            }
        })
    }
}
