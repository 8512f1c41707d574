//! The kinds of addresses: how the argument of each is parsed, opened and displayed.

mod row;

use std::fmt;
use std::path::PathBuf;

pub(crate) use row::Form;

use crate::address::argument::Argument;
use crate::address::error::Fault;
use crate::address::options::SHAPES;
use crate::address::{
    Address, Command, Inherited, Local, Nothing, Opt, Options, Remote, Standard, Through, UnixName,
    Vsock, is_path, quoted_path,
};
use crate::open::proxied::{self, Protocol};
use crate::open::{
    How, OpenError, Opened, child, compound, connect, datagrams, file, inherit, listen, pty, vsock,
};
#[cfg(feature = "tls")]
use crate::tls;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $(#[cfg($when:meta)])? $kind:ident($argument:ty);)+) => {
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
        }
    };
}

kinds! {
    /// Standard input, output, or both.
    Stdio(Standard);
    /// A name in the file system, whatever is found there.
    Path(PathBuf);
    /// A file or device.
    File(PathBuf);
    /// A FIFO, or a private pipe, which gives written bytes back.
    Pipe(Option<PathBuf>);
    /// A new pseudo-terminal.
    Pty(Nothing);
    /// An inherited descriptor.
    Fd(i32);
    /// A program and its arguments.
    Exec(Command);
    /// A command line for `/bin/sh`.
    Shell(Command);
    /// A TCP connection to be made.
    Tcp(Remote);
    /// A TCP listener.
    TcpListen(Local);
    /// A TLS connection to be made.
    #[cfg(feature = "tls")]
    Tls(Remote);
    /// A TLS listener.
    #[cfg(feature = "tls")]
    TlsListen(Local);
    /// A connection to a Unix socket.
    Unix(UnixName);
    /// A connection to a Unix socket of any type.
    UnixClient(UnixName);
    /// A listening Unix socket.
    UnixListen(UnixName);
    /// A Unix socket that gets datagrams.
    UnixSendto(UnixName);
    /// A Unix socket that receives all datagrams.
    UnixRecv(UnixName);
    /// A Unix socket where each datagram begins a connection.
    UnixRecvfrom(UnixName);
    /// A UDP peer.
    Udp(Remote);
    /// A UDP peer that need not be there.
    UdpSendto(Remote);
    /// A UDP address of one or many receivers, and all senders.
    UdpDatagram(Remote);
    /// A UDP port that receives all datagrams.
    UdpRecv(Local);
    /// A UDP port that the first sender gets.
    UdpListen(Local);
    /// A UDP port where each datagram begins a connection.
    UdpRecvfrom(Local);
    /// A connection between a virtual machine and its host.
    Vsock(Vsock);
    /// A listener for virtual machines, or for their host.
    VsockListen(Vsock);
    /// A TCP connection that a SOCKS5 proxy makes.
    Socks5(Through);
    /// A TCP connection that an HTTP proxy makes.
    HttpConnect(Through);
    /// An inherited listening socket.
    ListenFd(Inherited);
    /// Two addresses: the first is read, the second is written.
    Joined(Box<[Address; 2]>);
    /// The first of several addresses that can be opened.
    FirstOf(Vec<Address>);
    /// Endless zeros.
    Zero(Nothing);
    /// Nothing to read, and room for everything.
    Null(Nothing);
}

impl Target {
    /// Parses the argument after the colon.
    pub(crate) fn read(argument: &Argument<'_>) -> Result<Self, Fault> {
        Ok(match argument.kind {
            Kind::Stdio => Self::Stdio(argument.standard()?),
            Kind::Path => Self::Path(argument.path()?),
            Kind::File => Self::File(argument.path()?),
            Kind::Pipe if argument.is_empty() => Self::Pipe(None),
            Kind::Pipe => Self::Pipe(Some(argument.path()?)),
            Kind::Pty => Self::Pty(argument.nothing()?),
            Kind::Fd => Self::Fd(argument.descriptor()?),
            Kind::Exec => Self::Exec(argument.command()?),
            Kind::Shell => Self::Shell(argument.command()?),
            Kind::Tcp => Self::Tcp(argument.remote()?),
            Kind::TcpListen => Self::TcpListen(argument.local()?),
            #[cfg(feature = "tls")]
            Kind::Tls => Self::Tls(argument.remote()?),
            #[cfg(feature = "tls")]
            Kind::TlsListen => Self::TlsListen(argument.local()?),
            Kind::Unix => Self::Unix(argument.unix_name()?),
            Kind::UnixClient => Self::UnixClient(argument.unix_name()?),
            Kind::UnixSendto => Self::UnixSendto(argument.unix_name()?),
            Kind::UnixRecv => Self::UnixRecv(argument.unix_name()?),
            Kind::UnixRecvfrom => Self::UnixRecvfrom(argument.unix_name()?),
            Kind::UnixListen => Self::UnixListen(argument.unix_name()?),
            Kind::Udp => Self::Udp(argument.remote()?),
            Kind::UdpSendto => Self::UdpSendto(argument.remote()?),
            Kind::UdpDatagram => Self::UdpDatagram(argument.remote()?),
            Kind::UdpRecv => Self::UdpRecv(argument.local()?),
            Kind::UdpListen => Self::UdpListen(argument.local()?),
            Kind::UdpRecvfrom => Self::UdpRecvfrom(argument.local()?),
            Kind::Vsock => Self::Vsock(argument.vsock(None)?),
            Kind::VsockListen => Self::VsockListen(argument.vsock(Some(Vsock::ANY))?),
            Kind::Socks5 => Self::Socks5(argument.through()?),
            Kind::HttpConnect => Self::HttpConnect(argument.through()?),
            Kind::ListenFd => Self::ListenFd(argument.inherited()?),
            Kind::Zero => Self::Zero(argument.nothing()?),
            Kind::Null => Self::Null(argument.nothing()?),
            Kind::Joined | Kind::FirstOf => return argument.fault("several addresses are needed"),
        })
    }

    /// The port to which `bind=` may add a host.
    pub(crate) fn local_mut(&mut self) -> Option<&mut Local> {
        match self {
            Self::TcpListen(local)
            | Self::UdpListen(local)
            | Self::UdpRecvfrom(local)
            | Self::UdpRecv(local) => Some(local),
            #[cfg(feature = "tls")]
            Self::TlsListen(local) => Some(local),
            _ => None,
        }
    }

    /// Opens the target, once.
    pub(crate) async fn open(&self, options: &Options, how: &How) -> Result<Opened, OpenError> {
        match self {
            Self::Stdio(which) => inherit::stdio(*which, options, how).map(Opened::One),
            Self::Path(path) => file::path(path, options, how).await.map(Opened::One),
            Self::File(path) => file::file(path, options, how).await.map(Opened::One),
            Self::Pipe(path) => file::pipe(path.as_deref(), options, how).await.map(Opened::One),
            Self::Pty(_) => pty::open(options).await.map(Opened::One),
            Self::Fd(number) => inherit::numbered(*number, options, how).map(Opened::One),
            Self::Exec(command) => child::exec(&command.words(), options, how).map(Opened::One),
            Self::Shell(command) => child::shell(&command.line(), options, how).map(Opened::One),
            Self::Tcp(remote) => connect::tcp(remote, options).await.map(Opened::One),
            Self::TcpListen(local) => listen::tcp(local, options).await.map(Opened::Listener),
            #[cfg(feature = "tls")]
            Self::Tls(remote) => tls::connect(remote, options).await.map(Opened::One),
            #[cfg(feature = "tls")]
            Self::TlsListen(local) => tls::listen(local, options, how).await.map(Opened::Listener),
            Self::Unix(name) => connect::unix(name, options).await.map(Opened::One),
            Self::UnixClient(name) => connect::unix_client(name, options).await.map(Opened::One),
            Self::UnixListen(name) => listen::unix(name, options).await.map(Opened::Listener),
            Self::UnixSendto(name) => datagrams::sendto_unix(name, options).map(Opened::One),
            Self::UnixRecv(name) => datagrams::recv_unix(name, options).map(Opened::One),
            Self::UnixRecvfrom(name) => listen::unix_datagrams(name, options).map(Opened::Listener),
            Self::Udp(remote) => connect::udp(remote, options).await.map(Opened::One),
            Self::UdpSendto(remote) => {
                datagrams::sendto_udp(remote, options).await.map(Opened::One)
            }
            Self::UdpDatagram(remote) => {
                datagrams::datagram_udp(remote, options).await.map(Opened::One)
            }
            Self::UdpRecv(local) => datagrams::recv_udp(local, options).await.map(Opened::One),
            Self::UdpListen(local) => listen::udp(local, options).await.map(Opened::Listener),
            Self::UdpRecvfrom(local) => {
                let listener = listen::udp(local, options).await?;
                Ok(Opened::Listener(listener.of_datagrams()))
            }
            Self::Vsock(place) => vsock::connect(*place, options).await.map(Opened::One),
            Self::VsockListen(place) => vsock::listen(*place, options).map(Opened::Listener),
            Self::Socks5(through) => {
                proxied::open(Protocol::Socks5, through, options).await.map(Opened::One)
            }
            Self::HttpConnect(through) => {
                proxied::open(Protocol::Http, through, options).await.map(Opened::One)
            }
            Self::ListenFd(which) => listen::inherited(which, options).map(Opened::Listener),
            Self::Joined(parts) => compound::joined(parts, how).await.map(Opened::One),
            Self::FirstOf(parts) => compound::first_of(parts, how).await.map(Opened::One),
            Self::Zero(_) => file::device("/dev/zero", how).map(Opened::One),
            Self::Null(_) => file::device("/dev/null", how).map(Opened::One),
        }
    }
}

/// The text that parses as the same target.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio(Standard::Both) => f.write_str("-"),
            Self::Stdio(Standard::Input) => f.write_str("stdin"),
            Self::Stdio(Standard::Output) => f.write_str("stdout"),
            Self::Path(path) => {
                let text = quoted_path(path);
                let keyword = if is_path(&text) { "" } else { "gopen:" };
                write!(f, "{keyword}{text}")
            }
            Self::File(path) => write!(f, "file:{}", quoted_path(path)),
            Self::Pipe(path) => {
                write!(f, "pipe:{}", path.as_deref().map(quoted_path).unwrap_or_default())
            }
            Self::Pty(_) => f.write_str("pty"),
            Self::Fd(number) => write!(f, "fd:{number}"),
            Self::Exec(command) => write!(f, "exec:{}", command.as_written()),
            Self::Shell(command) => write!(f, "shell:{}", command.as_written()),
            Self::Tcp(remote) => write!(f, "tcp{remote}"),
            Self::TcpListen(local) => write!(f, "tcp{local}"),
            #[cfg(feature = "tls")]
            Self::Tls(remote) => write!(f, "tls{remote}"),
            #[cfg(feature = "tls")]
            Self::TlsListen(local) => write!(f, "tls{local}"),
            Self::Unix(name) => write!(f, "unix:{name}"),
            Self::UnixClient(name) => write!(f, "unix-client:{name}"),
            Self::UnixListen(name) => write!(f, "unix-listen:{name}"),
            Self::UnixSendto(name) => write!(f, "unix-sendto:{name}"),
            Self::UnixRecv(name) => write!(f, "unix-recv:{name}"),
            Self::UnixRecvfrom(name) => write!(f, "unix-recvfrom:{name}"),
            Self::Udp(remote) => write!(f, "udp{remote}"),
            Self::UdpSendto(remote) => {
                f.write_str(&format!("udp{remote}").replacen(':', "-sendto:", 1))
            }
            Self::UdpDatagram(remote) => {
                f.write_str(&format!("udp{remote}").replacen(':', "-datagram:", 1))
            }
            Self::UdpRecv(local) => {
                f.write_str(&format!("udp{local}").replacen("-listen:", "-recv:", 1))
            }
            Self::UdpListen(local) => write!(f, "udp{local}"),
            Self::UdpRecvfrom(local) => {
                f.write_str(&format!("udp{local}").replacen("-listen:", "-recvfrom:", 1))
            }
            Self::Vsock(Vsock { cid, port }) => write!(f, "vsock:{cid}:{port}"),
            Self::VsockListen(Vsock { cid: Vsock::ANY, port }) => write!(f, "vsock-listen:{port}"),
            Self::VsockListen(Vsock { cid, port }) => write!(f, "vsock-listen:{cid}:{port}"),
            Self::Socks5(through) => write!(f, "socks5{through}"),
            Self::HttpConnect(through) => write!(f, "http-connect{through}"),
            Self::ListenFd(which) => write!(f, "listen-fd:{which}"),
            Self::Joined(parts) => write!(f, "{}!!{}", parts[0], parts[1]),
            Self::FirstOf(parts) => {
                let texts: Vec<_> = parts.iter().map(ToString::to_string).collect();
                f.write_str(&texts.join("|"))
            }
            Self::Zero(_) => f.write_str("zero:"),
            Self::Null(_) => f.write_str("null:"),
        }
    }
}

impl Kind {
    /// Every kind, in the order in which help texts show them.
    pub fn all() -> impl Iterator<Item = Self> {
        KINDS.iter().copied()
    }

    /// The keyword.
    #[must_use]
    pub fn name(self) -> &'static str {
        let grammar = self.row().grammar;
        grammar.split_once(':').map_or(grammar, |(name, _)| name)
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
        // A kind without a keyword consists of others, which take these options themselves.
        let shapes = if row.keywords.is_empty() { &[] } else { SHAPES };
        row.options.iter().chain([&shapes]).any(|group| group.contains(&option))
    }
}

/// The kind that a keyword names.
pub(crate) fn keyword(word: &str) -> Option<(Kind, Form)> {
    Kind::all().find_map(|kind| {
        let mut forms = kind.row().keywords.iter();
        // socat's documentation writes keywords in upper case.
        let is_word = |name: &&str| name.eq_ignore_ascii_case(word);
        forms.find(|(_, names)| names.iter().any(is_word)).map(|&(form, _)| (kind, form))
    })
}

/// Every keyword, with the kind that it names.
pub(crate) fn keywords() -> impl Iterator<Item = (&'static str, Kind)> {
    Kind::all().flat_map(|kind| {
        let names = kind.row().keywords.iter().flat_map(|(_, names)| *names);
        names.map(move |name| (*name, kind))
    })
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
