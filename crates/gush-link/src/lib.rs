//! Links: two addresses connected, once or for every client of a listener.
//!
//! A [`Link`] opens both addresses, relays, and reports every connection ([`Record`]). One that
//! listens opens its other address anew for each client, unless all share it. A client stays on one
//! thread all its life; further threads are started when clients come while the others are busy,
//! one a processor.
//!
//! ```
//! use std::io::{Read, Write};
//! use std::os::unix::net::UnixStream;
//! use gush_link::{Link, Settings, Stop};
//!
//! let dir = tempfile::tempdir()?;
//! let (front, back) = (dir.path().join("front"), dir.path().join("back"));
//! let server = std::os::unix::net::UnixListener::bind(&back)?;
//! let listen = format!("unix-listen:{},fork", front.display()).parse()?;
//! let connect = format!("unix:{}", back.display()).parse()?;
//! let link = Link::new(listen, connect, Settings::default())?;
//! let stop = Stop::new();
//!
//! let heard = std::thread::scope(|scope| -> std::io::Result<String> {
//!     let running = scope.spawn(|| link.run(&stop));
//!     let talk = || {
//!         // The name of the socket is there as soon as the link listens.
//!         let mut client = loop {
//!             match UnixStream::connect(&front) {
//!                 Err(_) if !running.is_finished() => std::thread::yield_now(),
//!                 connected => break connected?,
//!             }
//!         };
//!         client.write_all(b"hello")?;
//!         client.shutdown(std::net::Shutdown::Write)?;
//!         let mut heard = String::new();
//!         server.accept()?.0.read_to_string(&mut heard)?;
//!         Ok(heard)
//!     };
//!     let heard = talk();
//!     // Also where talking failed: the scope waits until the link has ended.
//!     stop.drain();
//!     heard
//! })?;
//! assert_eq!(heard, "hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(not(target_os = "linux"))]
compile_error!("gush-link runs on Linux only");

#[cfg(test)]
use gush_test as _;

/// The example of the crate's first page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod address;
mod connection;
mod ends;
mod exporter;
mod handover;
mod kind;
mod ledger;
mod limits;
pub mod open;
mod programs;
pub mod proxy;
mod record;
mod roles;
mod serve;
mod server;
mod session;
mod settings;
mod shape;
mod shared_end;
mod stop;
mod tee;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
mod tls {
    use gush_net::Conduit;

    use crate::open::OpenError;

    /// Without the feature no end has a handshake.
    #[derive(Debug)]
    pub(crate) enum Tls {}

    /// As without a handshake.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) enum Agreed {}

    impl Tls {
        pub async fn handshake(&self, _: Conduit) -> Result<(Conduit, Agreed), OpenError> {
            match *self {}
        }
    }

    pub(crate) fn variables(_: Option<&Agreed>) -> Vec<(String, Option<String>)> {
        Vec::new()
    }
}
mod watch;
mod workers;

use std::sync::Arc;

/// The engine and the relays, some of whose types are part of this interface.
pub use {gush, gush_net};

pub use ledger::Ledger;
pub use record::{Ending, Failure, Record};
pub use settings::{Observe, Observer, OnEnd, Settings};
pub use stop::Stop;
pub use tee::Tee;
#[cfg(feature = "tls")]
pub use tls::{Pair, PairError};

use address::Address;
use roles::Roles;

/// Two addresses to connect.
#[derive(Debug)]
pub struct Link {
    roles: Roles,
    settings: Arc<Settings>,
    ledger: Arc<Ledger>,
}

/// What a link that ended did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How many connections there were.
    pub connections: u64,
    /// How many of them failed.
    pub failed: u64,
}

impl Link {
    /// A link from `first` to `second`. Nothing is opened yet.
    ///
    /// # Errors
    /// When addresses or settings contradict each other: `fork` on both, for example, or `wronly`
    /// at an address that is read.
    pub fn new(first: Address, second: Address, settings: Settings) -> Result<Self, Failure> {
        let roles = Roles::of(first, second)?;
        settings.check(&roles)?;
        let idle = settings.idle.or_else(|| roles.idle(settings.graceful));
        let settings = Settings { idle, ..settings };
        let ledger = Ledger::new().map_err(|error| Failure::new(error.to_string(), None))?;
        Ok(Self { roles, settings: Arc::new(settings), ledger: Arc::new(ledger) })
    }

    /// Checks what the addresses say, as [`run`](Self::run) does first: reads the files with keys
    /// and certificates, looks users up, and opens nothing. Ports and programs are not tried.
    ///
    /// # Errors
    /// What [`run`](Self::run) would refuse before it opens anything.
    ///
    /// ```
    /// use gush_link::{Link, Settings};
    /// let sent = "socks5:proxy:1080:host:22,credentials=/no/such/file".parse()?;
    /// let link = Link::new("null:".parse()?, sent, Settings::default())?;
    /// assert!(link.check().unwrap_err().message.contains("read /no/such/file"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(&self) -> Result<(), Failure> {
        serve::check(&self.roles, &self.settings)
    }

    /// Does it serve one client after the other, rather than one only?
    #[must_use]
    pub fn forks(&self) -> bool {
        self.roles.forks()
    }

    /// The account, live while the link runs.
    #[must_use]
    pub fn ledger(&self) -> Arc<Ledger> {
        Arc::clone(&self.ledger)
    }

    /// Runs until the connection has ended or, with `fork`, until `stop` says so.
    ///
    /// Must not be called from within a tokio runtime: it starts its own.
    ///
    /// # Errors
    /// What ended the link: an address that cannot be opened, or, without `fork`, what its only
    /// connection failed of. With `fork`, a client's failure is only in its [`Record`].
    pub fn run(&self, stop: &Stop) -> Result<Summary, Failure> {
        serve::run(&self.roles, &self.settings, &self.ledger, stop)?;
        Ok(Summary { connections: self.ledger.connections(), failed: self.ledger.failed() })
    }
}
