//! Connections through somebody's proxy.
//!
//! The proxy is asked, the answer is taken to the byte, and the bytes behind are the target's. Names are given to the proxy
//! unchanged: only the proxy may know them.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

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

/// How a proxy is asked.
pub(crate) trait Language {
    /// Asks for a connection to the target, and takes the whole answer.
    fn ask(
        talk: &Talk<'_>,
        through: &Through,
        credentials: Option<&Credentials>,
    ) -> impl Future<Output = Result<(), OpenError>> + Send;
}

/// Connects to the proxy, and through the proxy to the target.
pub(crate) async fn open<L: Language>(
    through: &Through,
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
        let asked = L::ask(&talk, through, credentials.as_ref());
        gush_net::within(patience, asked).await
    };
    match answer {
        Ok(Ok(())) => Ok(End::new(end.conduit, Peer::Other(through.target()))),
        Ok(Err(refused)) => Err(refused.step_is(step)),
        Err(_) => Err(OpenError::new(step, Errno::TIMEDOUT).hinted("the proxy does not answer")),
    }
}

/// A name and a password.
pub(crate) struct Credentials {
    pub name: String,
    pub password: String,
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

/// The exchange with a proxy, not a byte beyond the answer.
pub(crate) struct Talk<'a> {
    fd: AsyncFd<BorrowedFd<'a>>,
}

impl Talk<'_> {
    pub async fn say(&self, mut bytes: &[u8]) -> io::Result<()> {
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

    pub async fn hear<const N: usize>(&self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes).await?;
        Ok(bytes)
    }

    pub async fn fill(&self, bytes: &mut [u8]) -> io::Result<()> {
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
pub(crate) fn broken(error: io::Error) -> OpenError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            OpenError::said("", "the proxy closed the connection before its answer was whole")
                .hinted("is it a proxy of this kind?")
        }
        _ => OpenError::new("", error),
    }
}
