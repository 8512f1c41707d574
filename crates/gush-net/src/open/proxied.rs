//! Connections through somebody's proxy: SOCKS5 (RFC 1928, passwords by RFC 1929) and HTTP CONNECT (RFC 9110, 9.3.6).
//!
//! The proxy is asked, its answer is taken to the byte, and what follows is the target's. Names are given to the proxy
//! as they are: only it may know them.

use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::error::OpenError;
use super::{End, Peer, connect};
use crate::address::{Opt, Options, Through};
use crate::watch::watch;

/// How long the proxy may take to reach the target, where `connect-timeout=` does not say.
const PATIENCE: Duration = Duration::from_secs(60);

/// The head of an answer to CONNECT is short; who sends more is no proxy.
const HEAD_BYTES: usize = 16 << 10;

/// The languages of proxies.
#[derive(Debug, Clone, Copy)]
pub(super) enum Language {
    Socks5,
    Http,
}

/// Connects to the proxy, and by it to the target.
pub(super) async fn open(
    through: &Through,
    language: Language,
    options: &Options,
) -> Result<End, OpenError> {
    let credentials = credentials(options)?;
    let end = connect::tcp(&through.proxy, options).await?;
    let step = format!("connect to {} by {}", through.target(), end.peer);
    let patience = options.duration(Opt::ConnectTimeout).unwrap_or(PATIENCE);
    let answer = {
        let fd = end.conduit.read_fd().ok_or_else(|| OpenError::new("connect", Errno::BADF))?;
        let talk = Talk {
            fd: watch(fd, Interest::READABLE | Interest::WRITABLE)
                .map_err(|error| OpenError::new("connect", error))?,
        };
        let asked = async {
            match language {
                Language::Socks5 => socks5(&talk, through, credentials.as_ref()).await,
                Language::Http => http(&talk, through, credentials.as_ref()).await,
            }
        };
        tokio::time::timeout(patience, asked).await
    };
    match answer {
        Ok(Ok(())) => Ok(End::new(end.conduit, Peer::Other(through.target()))),
        Ok(Err(refused)) => Err(refused.step_is(step)),
        Err(_) => Err(OpenError::new(step, Errno::TIMEDOUT).hinted("the proxy does not answer")),
    }
}

/// A name and its password.
struct Credentials {
    name: String,
    password: String,
}

/// Of a file, because every user sees the words of a command line.
fn credentials(options: &Options) -> Result<Option<Credentials>, OpenError> {
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

/// What is said to a proxy and heard from it, not a byte beyond its answer.
struct Talk<'a> {
    fd: AsyncFd<BorrowedFd<'a>>,
}

impl Talk<'_> {
    async fn say(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let mut ready = self.fd.writable().await?;
            match rustix::net::send(self.fd.get_ref(), bytes, SendFlags::NOSIGNAL) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    async fn hear<const N: usize>(&self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes).await?;
        Ok(bytes)
    }

    async fn fill(&self, bytes: &mut [u8]) -> io::Result<()> {
        let mut heard = 0;
        while heard < bytes.len() {
            let mut ready = self.fd.readable().await?;
            match rustix::net::recv(self.fd.get_ref(), &mut bytes[heard..], RecvFlags::empty()) {
                Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((count, _)) => heard += count,
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }
}

/// The proxy hung up, or the connection to it failed.
fn broken(error: io::Error) -> OpenError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            OpenError::said("", "it closed the connection without an answer")
                .hinted("is it a proxy of this kind?")
        }
        _ => OpenError::new("", error),
    }
}

const VERSION: u8 = 5;
const NO_PASSWORD: u8 = 0;
const PASSWORD: u8 = 2;
const NONE_OF_THESE: u8 = 0xff;

async fn socks5(
    talk: &Talk<'_>,
    through: &Through,
    credentials: Option<&Credentials>,
) -> Result<(), OpenError> {
    let ways: &[u8] = match credentials {
        Some(_) => &[VERSION, 2, NO_PASSWORD, PASSWORD],
        None => &[VERSION, 1, NO_PASSWORD],
    };
    talk.say(ways).await.map_err(broken)?;
    let [version, way] = talk.hear().await.map_err(broken)?;
    if version != VERSION {
        return Err(OpenError::said("", "it does not answer as a SOCKS5 proxy does"));
    }
    match (way, credentials) {
        (NO_PASSWORD, _) => {}
        (PASSWORD, Some(credentials)) => log_in(talk, credentials).await?,
        (NONE_OF_THESE, None) => {
            return Err(OpenError::said("", "it wants a name and a password")
                .hinted("credentials=FILE names a file with NAME:PASSWORD"));
        }
        _ => return Err(OpenError::said("", "it wants a way to log in that is not understood")),
    }
    talk.say(&request(through)?).await.map_err(broken)?;
    let [version, reply, _, kind] = talk.hear().await.map_err(broken)?;
    if version != VERSION {
        return Err(OpenError::said("", "it does not answer as a SOCKS5 proxy does"));
    }
    if reply != 0 {
        return Err(refusal(reply));
    }
    // Where it connected from, which nobody asks for, and a port.
    let rest_bytes = 2 + match kind {
        1 => 4,
        4 => 16,
        3 => usize::from(talk.hear::<1>().await.map_err(broken)?[0]),
        _ => return Err(OpenError::said("", "it answers with an address of an unknown kind")),
    };
    talk.fill(&mut vec![0; rest_bytes]).await.map_err(broken)
}

async fn log_in(talk: &Talk<'_>, credentials: &Credentials) -> Result<(), OpenError> {
    let mut message = vec![1];
    for field in [&credentials.name, &credentials.password] {
        message.extend(u8::try_from(field.len()));
        message.extend(field.as_bytes());
    }
    talk.say(&message).await.map_err(broken)?;
    match talk.hear().await.map_err(broken)? {
        [_, 0] => Ok(()),
        [_, _] => Err(OpenError::said("", "it refuses the name or the password")),
    }
}

/// CONNECT to an address or, if it is a name, to that.
fn request(through: &Through) -> Result<Vec<u8>, OpenError> {
    let mut request = vec![VERSION, 1, 0];
    match through.host.parse() {
        Ok(IpAddr::V4(ip)) => {
            request.push(1);
            request.extend(ip.octets());
        }
        Ok(IpAddr::V6(ip)) => {
            request.push(4);
            request.extend(ip.octets());
        }
        Err(_) => {
            let Ok(length) = u8::try_from(through.host.len()) else {
                return Err(OpenError::said("", "a name has at most 255 bytes"));
            };
            request.extend([3, length]);
            request.extend(through.host.as_bytes());
        }
    }
    request.extend(through.port.to_be_bytes());
    Ok(request)
}

/// The proxy's words for what it could not do (RFC 1928, 6), and whether that may pass by itself.
fn refusal(reply: u8) -> OpenError {
    let (why, passes) = match reply {
        1 => ("the proxy failed", true),
        2 => ("the proxy's rules do not allow it", false),
        3 => ("the proxy cannot reach the network", true),
        4 => ("the proxy cannot reach the host", true),
        5 => ("the proxy's connection was refused", true),
        6 => ("the proxy gave up", true),
        7 => ("the proxy does not connect for others", false),
        8 => ("the proxy does not know addresses of this kind", false),
        _ => ("the proxy refuses without a known reason", false),
    };
    OpenError::said("", why).passing(passes)
}

async fn http(
    talk: &Talk<'_>,
    through: &Through,
    credentials: Option<&Credentials>,
) -> Result<(), OpenError> {
    let target = through.target();
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
    if let Some(Credentials { name, password }) = credentials {
        let code = BASE64_STANDARD.encode(format!("{name}:{password}"));
        request += &format!("Proxy-Authorization: Basic {code}\r\n");
    }
    talk.say((request + "\r\n").as_bytes()).await.map_err(broken)?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == HEAD_BYTES {
            return Err(OpenError::said("", "its answer does not end"));
        }
        // What follows the head is the target's: it is taken byte by byte.
        head.extend(talk.hear::<1>().await.map_err(broken)?);
    }
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut answer = httparse::Response::new(&mut headers);
    let code = match answer.parse(&head) {
        Ok(_) => answer.code.unwrap_or(0),
        Err(error) => {
            return Err(OpenError::said(
                "",
                format!("it does not answer as an HTTP proxy does: {error}"),
            ));
        }
    };
    let reason = answer.reason.unwrap_or_default().escape_debug();
    let refused = || OpenError::said("", format!("the proxy answers {code} {reason}"));
    match code {
        200..300 => Ok(()),
        407 if credentials.is_none() => {
            Err(refused().hinted("credentials=FILE names a file with NAME:PASSWORD"))
        }
        502..=504 => Err(refused().passing(true)),
        _ => Err(refused()),
    }
}
