//! Connections through a proxy.
//!
//! The answer is read to its last byte, because the destination's data follows it. Names are given
//! to the proxy unresolved: it may know hosts that this machine does not.

mod http_connect;
mod socks4;
mod socks5;

use std::io;
use std::time::Duration;

use gush_net::Conduit;
use rustix::io::Errno;
use tokio::io::AsyncReadExt;

use super::error::OpenError;
use super::{End, Peer, connect};
use crate::address::{Opt, OptionSet, Remote, Through};

/// The limit on the proxy's answer, unless `connect-timeout=` sets another.
const CONNECT_LIMIT: Duration = Duration::from_secs(60);

/// The protocol spoken with a proxy.
#[derive(Clone, Copy)]
pub(crate) enum Protocol {
    Socks4,
    Socks4a,
    Socks5,
    Http,
}

/// Connects to the proxy, and through the proxy to the destination.
pub(crate) async fn open(
    protocol: Protocol,
    through: &Through,
    options: &OptionSet,
) -> Result<End, OpenError> {
    let credentials = credentials(options)?;
    let proxy = Remote { family: options.family(), ..through.proxy.clone() };
    let mut end = connect::tcp(&proxy, options).await?;
    let step = format!("connect to {} by {}", through.destination(), end.peer);
    let limit = options.duration(Opt::ConnectTimeout).unwrap_or(CONNECT_LIMIT);
    let proxy = &mut end.conduit;
    let request = async {
        match protocol {
            Protocol::Socks4 => socks4::request(proxy, through, false, options).await,
            Protocol::Socks4a => socks4::request(proxy, through, true, options).await,
            Protocol::Socks5 => socks5::request(proxy, through, credentials.as_ref()).await,
            Protocol::Http => {
                let version = options.text(Opt::HttpVersion).unwrap_or("1.1");
                http_connect::request(proxy, through, credentials.as_ref(), version).await
            }
        }
    };
    match gush_net::within(limit, request).await {
        Ok(Ok(())) => Ok(End::new(end.conduit, Peer::Other(through.destination()))),
        Ok(Err(refused)) => Err(refused.step_is(step)),
        Err(_) => Err(OpenError::new(step, Errno::TIMEDOUT).hinted("the proxy does not answer")),
    }
}

pub(super) struct Credentials {
    name: String,
    password: String,
}

/// Reads `credentials=` from a file: every user can see the arguments of a process.
pub(super) fn credentials(options: &OptionSet) -> Result<Option<Credentials>, OpenError> {
    let Some(path) = options.path(Opt::Credentials) else { return Ok(None) };
    let step = || format!("read {}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| OpenError::new(step(), error))?;
    let line = text.lines().next().unwrap_or_default();
    let Some((name, password)) = line.split_once(':') else {
        return Err(OpenError::said(step(), "its first line is not NAME:PASSWORD"));
    };
    if name.is_empty() || name.len() > 255 || password.is_empty() || password.len() > 255 {
        return Err(OpenError::said(step(), "a name or password has 1 to 255 bytes"));
    }
    Ok(Some(Credentials { name: name.to_owned(), password: password.to_owned() }))
}

/// Receives exactly so many bytes from the proxy.
async fn receive<const N: usize>(proxy: &mut Conduit) -> Result<[u8; N], OpenError> {
    let mut bytes = [0; N];
    proxy.read_exact(&mut bytes).await.map_err(broken)?;
    Ok(bytes)
}

/// What the proxy answers instead of a connection.
fn refused(why: impl Into<String>) -> OpenError {
    OpenError::said("", why).refused()
}

/// The proxy closed its connection, or the connection failed.
fn broken(error: io::Error) -> OpenError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            refused("the proxy closed the connection in the middle of its answer")
                .hinted("is it a proxy of this kind?")
        }
        _ => OpenError::new("", error).refused(),
    }
}
