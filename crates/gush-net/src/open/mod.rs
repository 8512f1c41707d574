//! Opening addresses: connecting, listening, starting programs, taking descriptors over.
//!
//! [`open`] turns an [`Address`] into an [`End`] that a relay can use, or into a [`Listener`] that gives one for
//! each peer. Whatever waits may be cancelled.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use gush_net::open::{How, Opened, Peer, open};
//!
//! let how = How::default();
//! let Opened::Listener(mut listener) = open(&"tcp-listen:127.0.0.1:0".parse()?, &how).await? else { panic!() };
//! let Peer::Ip(address) = listener.local()? else { panic!() };
//!
//! let connect = format!("tcp:{address}").parse()?;
//! let (client, server) = tokio::join!(open(&connect, &how), listener.accept());
//! let Opened::One(client) = client? else { panic!() };
//! assert_eq!(client.peer, Peer::Ip(address));
//! assert!(server?.peer.ip().unwrap().is_loopback());
//! # Ok(()) }
//! ```

mod child;
mod connect;
mod environment;
mod error;
mod file;
mod flows;
pub(crate) mod holder;
mod inherit;
mod keeper;
mod listen;
mod listener;
mod mode;
mod peer;
mod proxied;
mod publish;
pub(crate) mod reaper;
mod resolve;
mod throttle;

use std::net::SocketAddr;
use std::time::Duration;

pub use error::OpenError;
pub(crate) use inherit::give_up_standard;
pub use keeper::Keeper;
pub use listener::Listener;
pub use peer::Peer;

use crate::address::{Address, Opt, Target};
use crate::conduit::Conduit;
use proxied::Language;

/// The pause between two attempts, where `interval=` does not say.
const INTERVAL: Duration = Duration::from_secs(1);

/// What an end is opened for.
///
/// ```
/// use gush_net::open::How;
/// let how = How::default().read_only().once();
/// assert!(how.reads() && !how.writes());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct How {
    unread: bool,
    unwritten: bool,
    once: bool,
    client: Option<Client>,
}

/// The client that an end is opened for, as far as it has addresses of the Internet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Client {
    peer: Option<SocketAddr>,
    local: Option<SocketAddr>,
}

impl How {
    /// Only its bytes are wanted; nothing will be written to it.
    #[must_use]
    pub fn read_only(self) -> Self {
        Self { unwritten: true, unread: false, ..self }
    }

    /// It will only be written to.
    #[must_use]
    pub fn write_only(self) -> Self {
        Self { unread: true, unwritten: false, ..self }
    }

    /// It is opened for one link only, so that inherited descriptors (`-`, `fd:N`) can be taken over entirely:
    /// whoever is behind them sees when they are closed.
    #[must_use]
    pub fn once(self) -> Self {
        Self { once: true, ..self }
    }

    /// It is opened for a client that comes from `peer` and connected to `local`: programs are told by the variables
    /// PEERADDR, PEERPORT, SOCKADDR and SOCKPORT, and by the same names behind `SOCAT_`.
    #[must_use]
    pub fn serving(self, peer: &Peer, local: Option<&Peer>) -> Self {
        let address = |peer: &Peer| match peer {
            Peer::Ip(address) => Some(*address),
            _ => None,
        };
        let client = Client { peer: address(peer), local: local.and_then(address) };
        Self { client: Some(client), ..self }
    }

    /// Will it be read?
    #[must_use]
    pub fn reads(&self) -> bool {
        !self.unread
    }

    /// Will it be written?
    #[must_use]
    pub fn writes(&self) -> bool {
        !self.unwritten
    }

    fn is_once(&self) -> bool {
        self.once
    }

    fn is_one_way(&self) -> bool {
        self.unread || self.unwritten
    }

    fn narrowed(&self, conduit: Conduit) -> Result<Conduit, OpenError> {
        if self.unwritten && !conduit.reads() {
            return Err(OpenError::said(
                "open",
                "it can only be written, and its bytes are wanted",
            ));
        }
        if self.unread && !conduit.writes() {
            return Err(OpenError::said("open", "it can only be read, and bytes shall go there"));
        }
        Ok(match () {
            () if self.unwritten => conduit.read_only(),
            () if self.unread => conduit.write_only(),
            () => conduit,
        })
    }
}

/// One end of a link, open.
#[derive(Debug)]
pub struct End {
    /// What a relay reads and writes.
    pub conduit: Conduit,
    /// Who is there.
    pub peer: Peer,
    /// What must live as long as the link: the program that was started, the FIFO that was made.
    pub keeper: Keeper,
    /// Where it was accepted, if the socket's own name is another.
    local: Option<Peer>,
}

impl End {
    fn new(conduit: Conduit, peer: Peer) -> Self {
        Self { conduit, peer, keeper: Keeper::default(), local: None }
    }

    /// Our own address, if it is a socket: where a client connected to.
    #[must_use]
    pub fn local(&self) -> Option<Peer> {
        if self.local.is_some() {
            return self.local.clone();
        }
        let fd = self.conduit.read_fd().or_else(|| self.conduit.write_fd())?;
        rustix::net::getsockname(fd).ok().map(|address| Peer::of_socket(Some(address), fd))
    }
}

/// What an address has become.
#[derive(Debug)]
pub enum Opened {
    /// An end.
    One(End),
    /// A socket that gives an end for each peer that comes.
    Listener(Listener),
}

/// Opens an address, again and again as its `retry=` says while what hinders may pass.
///
/// # Errors
/// [`OpenError`], which says what failed and what to do.
pub async fn open(address: &Address, how: &How) -> Result<Opened, OpenError> {
    let retries = address.options().retries();
    let interval = address.options().duration(Opt::Interval).unwrap_or(INTERVAL);
    let mut attempts = 0;
    loop {
        let error = match attempt(address, how).await {
            Ok(opened) => return Ok(opened),
            Err(error) => error.at(address.target()),
        };
        if !error.passes() || (attempts >= retries && retries != u32::MAX) {
            return Err(error);
        }
        attempts = attempts.saturating_add(1);
        tracing::info!("{error}; trying again in {interval:?}");
        tokio::time::sleep(interval).await;
    }
}

async fn attempt(address: &Address, how: &How) -> Result<Opened, OpenError> {
    let options = address.options();
    let listener = |listener: Listener| Opened::Listener(listener.at(address.target().to_string()));
    match address.target() {
        Target::TcpListen(local) => return listen::tcp(local, options).await.map(listener),
        Target::UdpListen(local) => return listen::udp(local, options).await.map(listener),
        Target::UnixListen(name) => return listen::unix(name, options).await.map(listener),
        Target::ListenFd(which) => return listen::inherited(which, options).map(listener),
        _ => {}
    }
    let end = match address.target() {
        Target::Stdio(which) => inherit::stdio(*which, how),
        Target::Fd(number) => inherit::numbered(*number, how),
        Target::Path(path) => file::path(path, options, how).await,
        Target::File(path) => file::file(path, options, how).await,
        Target::Pipe(path) => file::pipe(path.as_deref(), options, how).await,
        Target::Zero => file::device("/dev/zero", how),
        Target::Null => file::device("/dev/null", how),
        Target::Exec(command) => child::exec(&command.words(), options, how),
        Target::Shell(command) => child::shell(&command.line(), options, how),
        Target::Tcp(remote) => connect::tcp(remote, options).await,
        Target::Socks5(through) => proxied::open(through, Language::Socks5, options).await,
        Target::HttpConnect(through) => proxied::open(through, Language::Http, options).await,
        Target::Udp(remote) => connect::udp(remote, options).await,
        Target::Unix(name) => connect::unix(name, options).await,
        Target::TcpListen(_)
        | Target::UdpListen(_)
        | Target::UnixListen(_)
        | Target::ListenFd(_) => Err(OpenError::said("open", "it listens")),
    };
    let mut end = end?;
    end.conduit = how.narrowed(end.conduit)?;
    Ok(Opened::One(end))
}
