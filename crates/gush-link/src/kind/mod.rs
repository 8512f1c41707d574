//! The kinds of addresses, one a file, and the table of them.
//!
//! A kind is a file with an [`Entry`], and one row in the table below. Its [`Row`] is the knowledge that the grammar, the messages, the help
//! and the link have of the kind; the entry reads the argument behind the keyword's colon, shows the address, and opens it.

mod exec;
mod fd;
mod file;
mod first_of;
mod http_connect;
mod joined;
mod listen_fd;
mod null;
mod path;
mod pipe;
mod pty;
mod shell;
mod socat;
mod socks5;
mod stdio;
mod tcp;
mod tcp_listen;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "tls")]
mod tls_listen;
mod udp;
mod udp_listen;
mod udp_recvfrom;
mod unix;
mod unix_listen;
mod vsock;
mod vsock_listen;
mod zero;

use std::fmt;
use std::path::PathBuf;

pub(crate) use socat::is_of_socat;

use crate::address::argument::Argument;
use crate::address::error::Fault;
use crate::address::options::SHAPES;
use crate::address::{
    Address, Command, Inherited, Local, Nothing, Opt, Options, Remote, Standard, Through, UnixName,
    Vsock,
};
use crate::open::{How, OpenError, Opened};

/// The properties of a kind, without an address.
#[derive(Debug)]
pub(crate) struct Row {
    /// The keyword.
    pub name: &'static str,
    /// The written form, without options.
    pub grammar: &'static str,
    /// The description, in a few words.
    pub help: &'static str,
    /// Every keyword, socat's included where they mean the same; case is ignored.
    pub keywords: &'static [(&'static str, Form)],
    /// The options of the kind.
    pub options: &'static [&'static [Opt]],
    /// May the keyword stand without a colon?
    pub stands_alone: bool,
    /// Does the kind wait for peers, so that a link can serve more than one?
    pub listens: bool,
    /// Is the kind no stream?
    pub is_datagrams: bool,
    /// Does the kind start a program, which is told who the client is?
    pub is_program: bool,
    /// How many descriptors a link holds for one end.
    pub descriptors: u64,
}

impl Row {
    /// The properties of most kinds: a stream that is opened.
    const STREAM: Self = Self {
        name: "",
        grammar: "",
        help: "",
        keywords: &[],
        options: &[],
        stands_alone: false,
        listens: false,
        is_datagrams: false,
        is_program: false,
        descriptors: 1,
    };
}

/// The meaning of a keyword beyond the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    V4,
    V6,
    Abstract,
    Create,
    Input,
    Output,
}

impl Form {
    /// The flags that the keyword stands for.
    pub fn implies(self) -> &'static [Opt] {
        match self {
            Self::Create => &[Opt::Create, Opt::Truncate],
            _ => &[],
        }
    }
}

/// How one kind of address is read, shown and opened.
pub(crate) trait Entry {
    /// The argument behind the colon.
    type Argument;

    /// The kind's row.
    const ROW: Row;

    /// Reads the argument behind the colon.
    fn read(argument: &Argument<'_>) -> Result<Self::Argument, Fault>;

    /// The text that reads as the same address.
    fn show(argument: &Self::Argument, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// The port to which `bind=` may add a host.
    fn local(_: &mut Self::Argument) -> Option<&mut Local> {
        None
    }

    /// Opens the address, once.
    fn open(
        argument: &Self::Argument,
        options: &Options,
        how: &How,
    ) -> impl Future<Output = Result<Opened, OpenError>> + Send;
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $(#[cfg($when:meta)])? $kind:ident($argument:ty): $file:ident;)+) => {
        /// A kind of address.
        ///
        /// ```
        /// use gush_link::address::Kind;
        /// assert_eq!(Kind::TcpListen.name(), "tcp-listen");
        /// assert_eq!(Kind::TcpListen.grammar(), "tcp-listen:[HOST:]PORT");
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[doc = $doc])+ $(#[cfg($when)])? $kind,)+
        }

        const KINDS: &[Kind] = &[$($(#[cfg($when)])? Kind::$kind),+];

        /// In the order of [`Kind`].
        const ROWS: &[Row] = &[$($(#[cfg($when)])? $file::$kind::ROW),+];

        /// The target that an address names, without options.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Target {
            $($(#[doc = $doc])+ $(#[cfg($when)])? $kind($argument),)+
        }

        impl Target {
            /// The kind of address.
            #[must_use]
            pub fn kind(&self) -> Kind {
                match self {
                    $($(#[cfg($when)])? Self::$kind(_) => Kind::$kind,)+
                }
            }

            /// Reads the argument behind the colon.
            pub(crate) fn read(argument: &Argument<'_>) -> Result<Self, Fault> {
                match argument.kind {
                    $($(#[cfg($when)])? Kind::$kind => $file::$kind::read(argument).map(Self::$kind),)+
                }
            }

            /// The port to which `bind=` may add a host.
            pub(crate) fn local_mut(&mut self) -> Option<&mut Local> {
                match self {
                    $($(#[cfg($when)])? Self::$kind(argument) => $file::$kind::local(argument),)+
                }
            }

            /// Opens the target, once.
            pub(crate) async fn open(&self, options: &Options, how: &How) -> Result<Opened, OpenError> {
                match self {
                    $($(#[cfg($when)])? Self::$kind(argument) => $file::$kind::open(argument, options, how).await,)+
                }
            }
        }

        impl fmt::Display for Target {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $($(#[cfg($when)])? Self::$kind(argument) => $file::$kind::show(argument, f),)+
                }
            }
        }
    };
}

kinds! {
    /// Standard input, output, or both.
    Stdio(Standard): stdio;
    /// A name in the file system, whatever is found there.
    Path(PathBuf): path;
    /// A file or device.
    File(PathBuf): file;
    /// A FIFO, or a private pipe, which gives written bytes back.
    Pipe(Option<PathBuf>): pipe;
    /// A new pseudo-terminal.
    Pty(Nothing): pty;
    /// An inherited descriptor.
    Fd(i32): fd;
    /// A program and its arguments.
    Exec(Command): exec;
    /// A command line for `/bin/sh`.
    Shell(Command): shell;
    /// A TCP connection to be made.
    Tcp(Remote): tcp;
    /// A TCP listener.
    TcpListen(Local): tcp_listen;
    /// A TLS connection to be made.
    #[cfg(feature = "tls")]
    Tls(Remote): tls;
    /// A TLS listener.
    #[cfg(feature = "tls")]
    TlsListen(Local): tls_listen;
    /// A connection to a Unix socket.
    Unix(UnixName): unix;
    /// A listening Unix socket.
    UnixListen(UnixName): unix_listen;
    /// A UDP peer.
    Udp(Remote): udp;
    /// A UDP port that the first sender gets.
    UdpListen(Local): udp_listen;
    /// A UDP port where each datagram begins a connection.
    UdpRecvfrom(Local): udp_recvfrom;
    /// A connection between a virtual machine and its host.
    Vsock(Vsock): vsock;
    /// A listener for virtual machines, or for their host.
    VsockListen(Vsock): vsock_listen;
    /// A TCP connection that a SOCKS5 proxy makes.
    Socks5(Through): socks5;
    /// A TCP connection that an HTTP proxy makes.
    HttpConnect(Through): http_connect;
    /// An inherited listening socket.
    ListenFd(Inherited): listen_fd;
    /// Two addresses: the first is read, the second is written.
    Joined(Box<[Address; 2]>): joined;
    /// The first of several addresses that can be opened.
    FirstOf(Vec<Address>): first_of;
    /// Endless zeros.
    Zero(Nothing): zero;
    /// Nothing to read, and room for everything.
    Null(Nothing): null;
}

impl Kind {
    /// Every kind, in the order in which help texts show them.
    pub fn all() -> impl Iterator<Item = Self> {
        KINDS.iter().copied()
    }

    pub(crate) fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// The keyword.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The written form, without options.
    #[must_use]
    pub fn grammar(self) -> &'static str {
        self.row().grammar
    }

    /// The description, in a few words.
    #[must_use]
    pub fn help(self) -> &'static str {
        self.row().help
    }

    /// Does the kind wait for peers, so that a link can serve more than one?
    #[must_use]
    pub fn listens(self) -> bool {
        self.row().listens
    }

    /// Does the kind take the option?
    ///
    /// ```
    /// use gush_link::address::{Kind, Opt};
    /// assert!(Kind::TcpListen.takes(Opt::Fork) && !Kind::Tcp.takes(Opt::Fork));
    /// ```
    #[must_use]
    pub fn takes(self, option: Opt) -> bool {
        let row = self.row();
        // A kind without a keyword stands for others, which take these options themselves.
        let shapes = if row.keywords.is_empty() { &[] } else { SHAPES };
        row.options.iter().chain([&shapes]).any(|group| group.contains(&option))
    }
}

/// The kind that a keyword names.
pub(crate) fn keyword(word: &str) -> Option<(Kind, Form)> {
    Kind::all().find_map(|kind| {
        let mut keywords = kind.row().keywords.iter();
        // socat's documentation writes keywords in upper case.
        let found = keywords.find(|(name, _)| name.eq_ignore_ascii_case(word));
        found.map(|&(_, form)| (kind, form))
    })
}

/// Every keyword, with the kind that it names.
pub(crate) fn keywords() -> impl Iterator<Item = (&'static str, Kind)> {
    Kind::all().flat_map(|kind| kind.row().keywords.iter().map(move |(name, _)| (*name, kind)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_keyword_names_two_kinds() {
        let mut all: Vec<_> = keywords().map(|(name, _)| name).collect();
        all.sort();
        assert!(all.is_sorted_by(|one, other| one < other), "{all:?}");
    }

    #[test]
    fn every_kind_with_a_keyword_has_its_name_as_one() {
        let wordless = [Kind::Path, Kind::Joined, Kind::FirstOf];
        for kind in Kind::all().filter(|kind| !wordless.contains(kind)) {
            assert_eq!(keyword(kind.name()).map(|(kind, _)| kind), Some(kind), "{kind:?}");
            assert!(kind.grammar().starts_with(kind.name()) && !kind.help().is_empty(), "{kind:?}");
        }
    }
}
