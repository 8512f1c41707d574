//! Connections through a proxy.
//!
//! The answer is read to its last byte, because the target's data follows it. Names are given to
//! the proxy unresolved: it may know hosts that this machine does not.

mod http_connect;
mod socks4;
mod socks5;

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::error::OpenError;
use super::{End, Peer, connect};
use crate::address::{Opt, Options, Remote, Through};
use crate::watch::watch;

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

/// Connects to the proxy, and through the proxy to the target.
pub(crate) async fn open(
    protocol: Protocol,
    through: &Through,
    options: &Options,
) -> Result<End, OpenError> {
    let credentials = credentials(options)?;
    let proxy = Remote { family: options.family(), ..through.proxy.clone() };
    let end = connect::tcp(&proxy, options).await?;
    let step = format!("connect to {} by {}", through.target(), end.peer);
    let limit = options.duration(Opt::ConnectTimeout).unwrap_or(CONNECT_LIMIT);
    let answer = {
        let fd = end.conduit.read_fd().ok_or_else(|| OpenError::new("connect", Errno::BADF))?;
        let proxy = watch(fd, Interest::READABLE | Interest::WRITABLE)
            .map(Proxy)
            .map_err(|error| OpenError::new("connect", error))?;
        let request = async {
            match protocol {
                Protocol::Socks4 => socks4::request(&proxy, through, false, options).await,
                Protocol::Socks4a => socks4::request(&proxy, through, true, options).await,
                Protocol::Socks5 => socks5::request(&proxy, through, credentials.as_ref()).await,
                Protocol::Http => {
                    let version = options.text(Opt::HttpVersion).unwrap_or("1.1");
                    http_connect::request(&proxy, through, credentials.as_ref(), version).await
                }
            }
        };
        gush_net::within(limit, request).await
    };
    match answer {
        Ok(Ok(())) => Ok(End::new(end.conduit, Peer::Other(through.target()))),
        Ok(Err(refused)) => Err(refused.step_is(step)),
        Err(_) => Err(OpenError::new(step, Errno::TIMEDOUT).hinted("the proxy does not answer")),
    }
}

pub(super) struct Credentials {
    name: String,
    password: String,
}

/// Reads `credentials=` from a file: every user can see the arguments of a process.
pub(super) fn credentials(options: &Options) -> Result<Option<Credentials>, OpenError> {
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

/// The connection to a proxy. Reads exactly the bytes that are asked for.
struct Proxy<'a>(AsyncFd<BorrowedFd<'a>>);

impl Proxy<'_> {
    async fn send(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let send = |fd: &BorrowedFd<'_>| {
                Ok(retry_on_intr(|| rustix::net::send(fd, bytes, SendFlags::NOSIGNAL))?)
            };
            bytes = &bytes[self.0.async_io(Interest::WRITABLE, send).await?..];
        }
        Ok(())
    }

    async fn receive<const N: usize>(&self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.receive_into(&mut bytes).await?;
        Ok(bytes)
    }

    async fn receive_into(&self, bytes: &mut [u8]) -> io::Result<()> {
        let mut received = 0;
        while received < bytes.len() {
            let rest = &mut bytes[received..];
            let receive = |fd: &BorrowedFd<'_>| {
                let flags = RecvFlags::empty();
                Ok(retry_on_intr(|| rustix::net::recv(fd, &mut *rest, flags))?)
            };
            match self.0.async_io(Interest::READABLE, receive).await? {
                (0, _) => return Err(io::ErrorKind::UnexpectedEof.into()),
                (count, _) => received += count,
            }
        }
        Ok(())
    }
}

/// The proxy closed its connection, or the connection failed.
fn broken(error: io::Error) -> OpenError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            OpenError::said("", "the proxy closed the connection in the middle of its answer")
                .hinted("is it a proxy of this kind?")
        }
        _ => OpenError::new("", error),
    }
}
