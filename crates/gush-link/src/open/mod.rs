//! Opening addresses: connecting, listening, starting programs, taking descriptors over.
//!
//! [`open`] turns an [`Address`] into an [`End`] that a relay can use, or into a [`Listener`] that
//! gives one for each peer. Every wait may be cancelled.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use gush_link::open::{OpenOptions, Opened, Peer, open};
//!
//! let how = OpenOptions::default();
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

mod ancillary;
pub(crate) mod child;
pub(crate) mod compound;
pub(crate) mod connect;
pub(crate) mod datagrams;
mod descriptors;
mod environment;
mod error;
pub(crate) mod file;
mod flows;
mod gate;
pub(crate) mod holder;
mod identity;
pub(crate) mod inherit;
pub(crate) mod input;
mod keeper;
pub(crate) mod listen;
mod listener;
mod lock;
mod lockfile;
mod multicast;
mod netns;
mod passed;
mod peer;
mod permissions;
mod prepare;
pub(crate) mod proxied;
pub(crate) mod pty;
mod publish;
mod race;
pub(crate) mod reaper;
mod resolve;
mod route;
mod sockopts;
mod terminal;
mod throttle;
pub(crate) mod vsock;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub use environment::{SOCAT_VERSION, variables_of_some};
pub use error::OpenError;
pub(crate) use error::Step;
pub(crate) use gate::ListenerCounts;
pub(crate) use identity::{changes_user, is_changed};
pub(crate) use inherit::give_up_standard;
use keeper::Borrowed;
pub use keeper::Keeper;
pub(crate) use keeper::Made;
pub(crate) use listen::{keep_name, private_listener};
pub use listener::Listener;
pub use passed::pass_on;
pub use peer::Peer;
pub(crate) use prepare::{fits, prepare};
pub(crate) use publish::connect_packets;
pub(crate) use throttle::{Suppressed, Throttle};

use crate::address::{Address, Opt, OptionSet};
use crate::proxy::{self, Header, Version};
use crate::shape::{cut_at, shaped};
use crate::tls::{Agreed, Tls};
use ancillary::Fact;
use gush_net::Conduit;
use tokio::io::AsyncWriteExt;

/// The pause between two attempts, where `interval=` does not say.
const INTERVAL: Duration = Duration::from_secs(1);

/// What an end is opened for.
///
/// ```
/// use gush_link::open::OpenOptions;
/// let how = OpenOptions::default().read_only().once();
/// assert!(how.reads() && !how.writes());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenOptions {
    unread: bool,
    unwritten: bool,
    once: bool,
    is_graceful: bool,
    client: Option<Client>,
    introduction: Option<Arc<(Header, Version)>>,
    /// A listening socket that another process has made.
    listening: Option<Given>,
    /// What a program that this process becomes reads, and what it writes.
    streams: [Option<Given>; 2],
}

/// A descriptor that something is opened with.
#[derive(Debug, Clone)]
struct Given(Arc<OwnedFd>);

impl Given {
    fn copy(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }
}

impl PartialEq for Given {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Given {}

/// The client that an end is opened for, and the address that it connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Client {
    peer: Peer,
    local: Option<Peer>,
    /// Does its socket see addresses of IPv4 as mapped ones?
    is_mapped: bool,
    agreed: Option<Agreed>,
    facts: Vec<Fact>,
}

impl OpenOptions {
    /// The end will only be read; nothing will be written there.
    #[must_use]
    pub fn read_only(self) -> Self {
        Self { unwritten: true, unread: false, ..self }
    }

    /// The end will only be written.
    #[must_use]
    pub fn write_only(self) -> Self {
        Self { unread: true, unwritten: false, ..self }
    }

    /// The end is opened for one link only, so that inherited descriptors (`-`, `fd:N`) can be
    /// taken over entirely, and their other side sees when they are closed.
    #[must_use]
    pub fn once(self) -> Self {
        Self { once: true, ..self }
    }

    /// As socat opens it. Of a program that the link does not wait for, only the process of `exec:`
    /// gets SIGTERM, once, and `shell:` is left alone. A byte for a file with `rdonly` is a
    /// failure.
    #[must_use]
    pub fn graceful(self, is_graceful: bool) -> Self {
        Self { is_graceful, ..self }
    }

    /// The end is opened for a client that comes from `peer` and connected to `local`: programs get
    /// the variables PEERADDR, PEERPORT, SOCKADDR and SOCKPORT, and the same after `SOCAT_` in
    /// socat's form.
    #[must_use]
    pub fn serving(self, peer: &Peer, local: Option<&Peer>) -> Self {
        let (peer, local) = (peer.clone(), local.cloned());
        let client = Client { peer, local, is_mapped: false, agreed: None, facts: Vec::new() };
        Self { client: Some(client), ..self }
    }

    /// What else is known of the client, as variables of programs: its session of TLS
    /// (SOCAT_OPENSSL_...), what `ancillary` reports of its datagram, and the form of its address.
    pub(crate) fn knowing(mut self, end: &End, is_mapped: bool) -> Self {
        let Some(client) = &mut self.client else { return self };
        client.is_mapped = is_mapped;
        if let Some(end) = &end.rare {
            client.agreed.clone_from(&end.agreed);
            client.facts.clone_from(&end.facts);
        }
        self
    }

    /// A part of an address (`A|B`, `A!!B`) gets a PROXY header when it is opened, before its
    /// handshake. Any other end gets it later.
    pub(crate) fn introducing(self, header: Header, version: Version) -> Self {
        Self { introduction: Some(Arc::new((header, version))), ..self }
    }

    /// The peer gets no PROXY header.
    pub(crate) fn unintroduced(self) -> Self {
        Self { introduction: None, ..self }
    }

    /// The address listens already, by this socket of another process.
    pub(crate) fn listening(self, socket: Option<Arc<OwnedFd>>) -> Self {
        Self { listening: socket.map(Given), ..self }
    }

    /// This process becomes the program of the address, with the descriptors of `end`.
    pub(crate) fn over(self, end: &End) -> Result<Self, OpenError> {
        let copy = |fd: Option<BorrowedFd<'_>>| -> io::Result<_> {
            let Some(fd) = fd else { return Ok(None) };
            if !end.origin.is_inherited {
                // Set by this process alone, and no program expects it.
                rustix::io::ioctl_fionbio(fd, false)?;
            }
            Ok(Some(Given(Arc::new(fd.try_clone_to_owned()?))))
        };
        let (read, write) = (end.conduit.read_fd(), end.conduit.write_fd());
        let missing = self.writes() && read.is_none() || self.reads() && write.is_none();
        if missing {
            let why = "nofork takes an address with descriptors that a program can use";
            return Err(OpenError::said("start", why));
        }
        let streams = copy(read).and_then(|read| Ok([read, copy(write)?]));
        let streams = streams.step("start")?;
        Ok(Self { streams, ..self })
    }

    /// A descriptor of the socket that listens already.
    fn listener(&self) -> Result<Option<OwnedFd>, OpenError> {
        let copy = self.listening.as_ref().map(Given::copy).transpose();
        copy.step("take over")
    }

    /// Will the end be read?
    #[must_use]
    pub fn reads(&self) -> bool {
        !self.unread
    }

    /// Will the end be written?
    #[must_use]
    pub fn writes(&self) -> bool {
        !self.unwritten
    }

    fn is_graceful(&self) -> bool {
        self.is_graceful
    }

    fn is_once(&self) -> bool {
        self.once
    }

    fn is_one_way(&self) -> bool {
        self.unread || self.unwritten
    }

    /// Refuses what cannot be used in the one direction that is wanted.
    fn fits(&self, reads: bool, writes: bool) -> Result<(), OpenError> {
        let why = match (self.unwritten && !reads, self.unread && !writes) {
            (true, _) => "it can only be written, and the link reads from it",
            (_, true) => "it can only be read, and the link writes to it",
            _ => return Ok(()),
        };
        Err(OpenError::said("open", why))
    }

    fn narrowed(&self, conduit: Conduit) -> Result<Conduit, OpenError> {
        self.fits(conduit.reads(), conduit.writes())?;
        Ok(if self.unwritten {
            conduit.read_only()
        } else if self.unread {
            conduit.write_only()
        } else {
            conduit
        })
    }
}

/// One end of a link, open.
#[derive(Debug)]
pub struct End {
    /// The conduit that a relay reads and writes.
    pub conduit: Conduit,
    /// The peer.
    pub peer: Peer,
    /// The belongings that must live as long as the link: the program that was started, the FIFO
    /// that was made.
    pub keeper: Keeper,
    /// Boxed, because most ends have none.
    rare: Option<Box<Rare>>,
    /// Has a part of the end got the PROXY header?
    pub(crate) is_introduced: bool,
    /// Where the descriptors come from.
    pub(crate) origin: Origin,
}

/// What few ends have.
#[derive(Debug, Default)]
pub(crate) struct Rare {
    /// The address of acceptance, if the socket's own name is another.
    local: Option<Peer>,
    /// The address chosen, where the user gave several.
    pub(crate) chosen: Option<String>,
    /// The handshake with the peer before the first byte.
    handshake: Option<Arc<Tls>>,
    /// What the handshake of TLS has agreed on.
    agreed: Option<Agreed>,
    /// What the kernel has reported of the peer's datagram.
    facts: Vec<Fact>,
    /// The options that shape the data, where the address is the chosen one of several. They apply
    /// once both ends are checked: of a shaped conduit neither the descriptors nor the properties
    /// are seen.
    shape: Option<Box<OptionSet>>,
}

/// Facts of an end that only its opener knows. They are kept with the end, because the address may
/// be one of several (`A|B`) or a part of another (`A!!B`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Was standard input duplicated?
    pub is_input: bool,
    /// Was standard output duplicated?
    pub is_output: bool,
    /// Was a descriptor inherited? The other end may have the same one.
    pub is_inherited: bool,
    /// Was a terminal opened by its name, such as a serial line?
    pub is_line: bool,
    /// Do other clients use the end, whose answers have no end for one of them alone?
    pub is_shared: bool,
    /// May an option end the data read before its source does?
    pub is_cut: bool,
    /// Has what is written no end of data, as UDP has none? An option that makes the data read
    /// endless says nothing of that.
    pub is_endless: bool,
}

impl Origin {
    /// The origin of an end that reads `self` and writes `written`: a line only if both are.
    pub fn and(self, written: Self) -> Self {
        Self {
            is_input: self.is_input || written.is_input,
            is_output: self.is_output || written.is_output,
            is_inherited: self.is_inherited || written.is_inherited,
            is_line: self.is_line && written.is_line,
            is_shared: self.is_shared || written.is_shared,
            is_cut: self.is_cut,
            is_endless: written.is_endless,
        }
    }
}

impl End {
    pub(crate) fn new(conduit: Conduit, peer: Peer) -> Self {
        Self {
            conduit,
            peer,
            keeper: Keeper::default(),
            rare: None,
            is_introduced: false,
            origin: Origin::default(),
        }
    }

    pub(crate) fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// The address chosen, where the user gave several.
    pub(crate) fn chosen(&self) -> Option<&String> {
        self.rare.as_ref()?.chosen.as_ref()
    }

    /// The end with its data in the shape that `options`, those of its address, and those of the
    /// chosen part say. Datagrams are cut at `most_bytes`.
    pub(crate) fn shaped(
        mut self: Box<Self>,
        options: &OptionSet,
        most_bytes: Option<usize>,
    ) -> Box<Self> {
        self.origin.is_endless = self.is_endless();
        if let Some(bytes) = most_bytes {
            self.conduit = cut_at(bytes, self.conduit);
        }
        let own = self.rare.as_mut().and_then(|rare| rare.shape.take());
        for options in own.as_deref().into_iter().chain([options]) {
            self.origin.is_cut |= options.has(Opt::ReadBytes) || options.has(Opt::Escape);
            self.conduit = shaped(self.conduit, options);
        }
        self
    }

    /// Has the end no end of data, as UDP has none, but for options that shape the data?
    pub(crate) fn is_endless(&self) -> bool {
        let facts = self.conduit.facts();
        self.origin.is_endless || facts.endless || facts.write_empty
    }

    /// Sends the peer a PROXY header with the client's address, before anything else;
    /// only once.
    pub(crate) async fn introduce(&mut self, header: &Header, version: Version) -> io::Result<()> {
        // Once: a part of `A|B` or a TLS address has sent the header where it belongs.
        if std::mem::replace(&mut self.is_introduced, true) {
            return Ok(());
        }
        let sent = async {
            match self.conduit.facts().socket {
                Some(socket) => proxy::send(socket, header, version).await,
                None if !self.conduit.writes() => {
                    let why = "it is a place that can only be read";
                    Err(io::Error::new(io::ErrorKind::Unsupported, why))
                }
                None => self.conduit.write_all(&header.bytes(version)).await,
            }
        };
        // A peer that reads nothing must not hold the connection before it has begun.
        let sent = gush_net::within(proxy::HEADER_LIMIT, sent).await;
        sent.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// The end with the terminal set as `options` say, until the end is dropped.
    fn set_as_terminal(mut self, options: &OptionSet) -> Result<Self, OpenError> {
        let fd = self.conduit.read_fd().or_else(|| self.conduit.write_fd());
        if let Some(fd) = fd
            && let Some(set) = terminal::set(&fd, options)?
        {
            self.keeper.put_back.push(Borrowed::Terminal(set));
        }
        Ok(self)
    }

    /// The end is relayed only after a handshake.
    #[cfg(feature = "tls")]
    pub(crate) fn after(mut self, handshake: Arc<Tls>) -> Self {
        self.rare().handshake = Some(handshake);
        self
    }

    /// Must a handshake come before the end can be relayed?
    #[must_use]
    pub fn wants_handshake(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.handshake.is_some())
    }

    /// Does the handshake of an end that [wants](Self::wants_handshake) one, as those of TLS do;
    /// any other end stays as it is.
    ///
    /// # Errors
    /// [`OpenError`]; the connection is closed then.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use gush_link::open::{OpenOptions, Opened, open};
    /// let Opened::One(end) = open(&"null:".parse()?, &OpenOptions::default()).await? else { panic!() };
    /// assert!(!end.wants_handshake());
    /// let end = end.handshake().await?;
    /// assert!(end.conduit.writes());
    /// # Ok(()) }
    /// ```
    pub async fn handshake(mut self) -> Result<Self, OpenError> {
        if let Some(handshake) = self.rare.as_mut().and_then(|rare| rare.handshake.take()) {
            // Boxed: large, and most ends have none.
            let (conduit, agreed) = Box::pin(handshake.handshake(self.conduit)).await?;
            self.conduit = conduit;
            self.rare().agreed = Some(agreed);
        }
        Ok(self)
    }

    /// Our own address, if the end is a socket: the address that a client connected to.
    #[must_use]
    pub fn local(&self) -> Option<Peer> {
        let known = self.rare.as_ref().and_then(|rare| rare.local.clone());
        if known.is_some() {
            return known;
        }
        let conduit = &self.conduit;
        let fd =
            conduit.facts().socket.or_else(|| conduit.read_fd()).or_else(|| conduit.write_fd())?;
        rustix::net::getsockname(fd).ok().map(|address| Peer::of_socket(Some(address), fd))
    }
}

/// The result of opening an address.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub enum Opened {
    /// An end.
    One(End),
    /// A socket that gives an end for each peer that comes.
    Listener(Listener),
}

impl Opened {
    /// Removes the file with what was opened.
    fn keeping(mut self, made: Option<Made>) -> Self {
        match &mut self {
            Self::One(end) => end.keeper.keep(made),
            Self::Listener(listener) => listener.keep(made),
        }
        self
    }
}

/// Opens an address, with the further attempts of `retry=` while the error may be temporary. A
/// connection with `fork` is not made yet.
///
/// # Errors
/// [`OpenError`], with the failure and the remedy.
pub async fn open(address: &Address, how: &OpenOptions) -> Result<Opened, OpenError> {
    let locked = lockfile::taken(address.options()).await;
    let lock_file = locked.map_err(|error| error.at(address.locator()))?;
    if address.calls() {
        return Ok(Opened::Listener(Listener::calling(address, how)).keeping(lock_file));
    }
    let mut retries = Retries::of(address.options());
    loop {
        match attempt(address, how).await {
            Ok(opened) => {
                if !address.kind().row().runs_program {
                    let become_it = identity::assume(address.options());
                    become_it.map_err(|error| error.at(address.locator()))?;
                }
                return Ok(opened.keeping(lock_file));
            }
            Err(error) => retries.after(error.at(address.locator())).await?,
        }
    }
}

/// The attempts that are left.
#[derive(Debug)]
struct Retries {
    left: u32,
    interval: Duration,
}

impl Retries {
    fn of(options: &OptionSet) -> Self {
        let interval = options.duration(Opt::Interval).unwrap_or(INTERVAL);
        Self { left: options.retries(), interval }
    }

    /// Waits for the next attempt, if there is one.
    async fn after(&mut self, error: OpenError) -> Result<(), OpenError> {
        // A wrong word or a missing permission stays wrong, however often it is tried.
        if !error.passes() || self.left == 0 {
            return Err(error);
        }
        if self.left != u32::MAX {
            self.left -= 1;
        }
        tracing::info!("{error}; trying again in {}", gush_text::with_unit(self.interval));
        tokio::time::sleep(self.interval).await;
        Ok(())
    }
}

/// Opens a part of an address, which does not listen. A PROXY header and a handshake belong to
/// that: where they fail, another address may serve.
///
/// In a box, because one address is a part of another.
pub(crate) fn open_one<'a>(
    address: &'a Address,
    how: &'a OpenOptions,
) -> Pin<Box<dyn Future<Output = Result<End, OpenError>> + Send + 'a>> {
    // Boxed, because an address may have parts, and a future cannot contain itself.
    Box::pin(async move {
        match open(address, how).await? {
            Opened::One(mut end) => {
                if let Some((header, version)) = how.introduction.as_deref() {
                    let sent = end.introduce(header, *version).await;
                    sent.map_err(|error| {
                        OpenError::new("send the PROXY header", error).at(address.locator())
                    })?;
                }
                if end.wants_handshake() {
                    end = end.handshake().await.map_err(|error| error.at(address.locator()))?;
                    end.conduit = how.narrowed(end.conduit)?;
                }
                // That of a part of this address is there already: several addresses have no
                // options next to those of each.
                end.rare().shape.get_or_insert_with(|| Box::new(address.options().clone()));
                Ok(end)
            }
            Opened::Listener(_) => Err(OpenError::said("open", "it listens").at(address.locator())),
        }
    })
}

async fn attempt(address: &Address, how: &OpenOptions) -> Result<Opened, OpenError> {
    let target = address.locator();
    let mut opened = target.open(address.options(), how).await?;
    if let Opened::One(end) = &mut opened {
        lock::take(end, address.options()).await?;
    }
    Ok(match opened {
        // A handshake goes both ways, whichever way the bytes do.
        Opened::One(end) if end.wants_handshake() => Opened::One(end),
        Opened::One(end) => Opened::One(End { conduit: how.narrowed(end.conduit)?, ..end }),
        Opened::Listener(listener) => Opened::Listener(listener.at(target.to_string())),
    })
}
