//! TLS, by rustls: the handshake between the socket's first byte and the relay's.
//!
//! Certificates, keys and authorities are read again when their files change. The end of the data
//! is a close_notify alert and a FIN. A FIN alone means that the stream was truncated, and is an
//! error; after a failure of the other end no close_notify is sent (RFC 8446, 6.1).

mod config;
mod error;
mod fresh;
mod material;
mod names;
mod pair;
mod pinned;
mod stream;
mod variables;
mod verify;

use std::sync::Arc;
use std::time::Duration;

use gush_net::{Conduit, LingerTimeouts};
use rustls::{CipherSuite, ProtocolVersion, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};
use tracing::debug;

pub(crate) use config::{FILES, client, server};
use fresh::Fresh;
pub use pair::{Pair, PairError};
pub(crate) use variables::variables;

use crate::address::{Local, Opt, OptionSet, Remote};
use crate::open::{End, Listener, OpenError, OpenOptions, connect, listen};

/// The limit on a handshake, unless `handshake-timeout=` sets another.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// How long the peer may take to read the alert of a failed handshake.
const ALERT_LINGER: Duration = Duration::from_millis(500);

/// Connects; the handshake is done later, when the end is used.
pub(crate) async fn connect(remote: &Remote, options: &OptionSet) -> Result<End, OpenError> {
    let handshake = client(remote, options)?;
    let end = connect::tcp(remote, options).await?;
    Ok(end.after(Arc::new(handshake)))
}

/// Listens; each client's end does its handshake when it is used.
pub(crate) async fn listen(
    local: &Local,
    options: &OptionSet,
    how: &OpenOptions,
) -> Result<Listener, OpenError> {
    let handshake = server(options, how)?;
    let listener = listen::tcp(local, options, how).await?;
    Ok(listener.before(Arc::new(handshake)))
}

/// What programs learn of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    /// The one that the peer has shown, in DER form.
    certificate: Option<Vec<u8>>,
    version: Option<ProtocolVersion>,
    suite: Option<CipherSuite>,
}

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
    fn new(role: Role, options: &OptionSet) -> Self {
        let limit = options.duration(Opt::HandshakeTimeout).unwrap_or(HANDSHAKE_LIMIT);
        Self { role, limit }
    }

    /// Turns the conduit of a socket into that of the TLS stream over it.
    pub async fn handshake(&self, conduit: Conduit) -> Result<(Conduit, Agreed), OpenError> {
        match gush_net::within(self.limit, self.exchange(conduit)).await {
            Ok(Ok(stream)) => {
                log(&stream);
                let (_, session) = stream.get_ref();
                let shown = session.peer_certificates();
                let agreed = Agreed {
                    certificate: shown.and_then(|chain| chain.first()).map(|own| own.to_vec()),
                    version: session.protocol_version(),
                    suite: session.negotiated_cipher_suite().map(|suite| suite.suite()),
                };
                Ok((stream::conduit(stream), agreed))
            }
            Ok(Err((error, socket))) => {
                linger(socket).await;
                Err(error)
            }
            Err(_) => Err(error::late(self.limit)),
        }
    }

    /// Returns the stream, or the error and the socket, for the alert to arrive.
    async fn exchange(&self, conduit: Conduit) -> Result<TlsStream<Conduit>, (OpenError, Conduit)> {
        match &self.role {
            Role::Client(fresh) => {
                let (config, name) = fresh.now();
                let connector = TlsConnector::from(config);
                let connected = connector.connect(name, conduit).into_fallible().await;
                connected.map(Into::into).map_err(|(why, left)| (error::of_client(why), left))
            }
            Role::Server(fresh) => {
                let acceptor = TlsAcceptor::from(fresh.now());
                let accepted = acceptor.accept(conduit).into_fallible().await;
                accepted.map(Into::into).map_err(|(why, left)| (error::of_server(why), left))
            }
        }
    }
}

/// Closing a socket with unread bytes resets the connection, which would lose the alert.
async fn linger(mut socket: Conduit) {
    if socket.finish().is_ok() {
        // The handshake has failed, whether or not the alert arrives.
        let _ = socket.linger(false, LingerTimeouts::of(Some(ALERT_LINGER))).await;
    }
}

fn log(stream: &TlsStream<Conduit>) {
    let (_, session) = stream.get_ref();
    debug!(
        version = ?session.protocol_version(),
        suite = ?session.negotiated_cipher_suite().map(|suite| suite.suite()),
        alpn = session.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned()),
        "TLS agreed"
    );
}
