//! The table of kinds: what the grammar, the messages, the help and the link know of each.

use std::fmt;
use std::path::PathBuf;

use crate::address::argument::{Argument, ArgumentValue};
use crate::address::error::Fault;
#[cfg(feature = "tls")]
use crate::address::options::TLS;
use crate::address::options::{
    ACCESS, BOUND, CALLING, CONNECTED, CONTENT, EMPTY, IDENTITY, IP, MANY, NAMED, OWNED, PASSED,
    PROGRAM, PROXIED, RETRIED, SERVING, SOCKET, TCP,
};
use crate::address::{
    Address, Command, Family, Inherited, Local, Nothing, Opt, OptionSet, Remote, Standard, Through,
    UnixName, Vsock,
};
use crate::open::proxied::{self, Protocol};
use crate::open::{
    OpenError, OpenOptions, Opened, child, compound, connect, datagrams, file, inherit, listen,
    pty, vsock,
};
#[cfg(feature = "tls")]
use crate::tls;

/// The properties of a kind, without an address.
#[derive(Debug)]
pub(crate) struct KindRow {
    /// The written form without options; the part before the colon is the kind's name.
    pub grammar: &'static str,
    /// The description, in a few words.
    pub help: &'static str,
    /// All keywords by their form, socat's included where they mean the same; case is ignored.
    pub keywords: &'static [(Form, &'static [&'static str])],
    /// The options of the kind.
    pub options: &'static [&'static [Opt]],
    /// May the colon be omitted?
    pub stands_alone: bool,
    /// Does the kind accept peers, so that a link can serve more than one?
    pub listens: bool,
    pub is_datagrams: bool,
    /// The most bytes of a datagram that is sent there.
    pub datagram_bytes: usize,
    /// Is nothing written to an end of the kind?
    pub only_receives: bool,
    /// Is `bind=` the name of a Unix socket?
    pub is_unix: bool,
    /// May the kind start a program, whose environment names the client?
    pub runs_program: bool,
    /// How many descriptors a link holds for one end.
    pub descriptors: u64,
}

/// IPv4 has no larger datagrams of UDP: 65,535 less two headers (ip(7)).
const UDP_BYTES: usize = 65_507;

impl KindRow {
    /// The properties of most kinds: a stream that is opened.
    const STREAM: Self = Self {
        grammar: "",
        help: "",
        keywords: &[],
        options: &[],
        stands_alone: false,
        listens: false,
        is_datagrams: false,
        datagram_bytes: usize::MAX,
        only_receives: false,
        is_unix: false,
        runs_program: false,
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
    /// The flags that the keyword implies.
    pub fn implies(self) -> &'static [Opt] {
        match self {
            Self::Create => &[Opt::Create, Opt::Truncate],
            _ => &[],
        }
    }
}

/// The kinds: the argument, the written form and its description, the keywords by form, the
/// options, what differs from a stream, and how one is opened, as an end or as a listener.
macro_rules! kinds {
    ($(
        $(#[cfg($when:meta)])? $kind:ident($argument:ty) $grammar:literal, $help:literal;
        keywords [$($form:ident [$($word:literal),+]),*];
        options [$($options:tt),*] $(, $field:ident: $value:expr)*;
        opens $opened:ident |$read:pat_param, $with:pat_param, $how:pat_param| $open:expr;
    )+) => {
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
            $(#[doc = $help] $(#[cfg($when)])? $kind,)+
        }

        pub(super) const KINDS: &[Kind] = &[$($(#[cfg($when)])? Kind::$kind),+];

        impl Kind {
            /// The properties of the kind.
            pub(crate) fn row(self) -> &'static KindRow {
                match self {
                    $($(#[cfg($when)])? Self::$kind => &KindRow {
                        grammar: $grammar,
                        help: $help,
                        keywords: &[$((Form::$form, &[$($word),+])),*],
                        options: &[$(options!($options)),*],
                        listens: listens!($opened),
                        $($field: $value,)*
                        ..KindRow::STREAM
                    },)+
                }
            }
        }

        /// What an address says but for options: the kind and its argument.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Locator {
            $(#[doc = $help] $(#[cfg($when)])? $kind($argument),)+
        }

        impl Locator {
            /// The kind of address.
            #[must_use]
            pub fn kind(&self) -> Kind {
                match self {
                    $($(#[cfg($when)])? Self::$kind(_) => Kind::$kind,)+
                }
            }

            /// The version of IP and the host, if it names such.
            pub(crate) fn internet(&self) -> Option<(Option<Family>, Option<&str>)> {
                match self {
                    $($(#[cfg($when)])? Self::$kind(argument) => argument.internet(),)+
                }
            }

            /// The port to which `bind=` may add a host.
            pub(crate) fn local_mut(&mut self) -> Option<&mut Local> {
                match self {
                    $($(#[cfg($when)])? Self::$kind(argument) => argument.local_mut(),)+
                }
            }

            /// Opens it, once.
            pub(crate) async fn open(
                &self,
                given: &OptionSet,
                wanted: &OpenOptions,
            ) -> Result<Opened, OpenError> {
                match self {
                    $($(#[cfg($when)])? Self::$kind($read) => {
                        let ($with, $how) = (given, wanted);
                        Ok(Opened::$opened($open))
                    })+
                }
            }

            /// Parses the argument after the colon.
            pub(crate) fn read(argument: &Argument<'_>) -> Result<Self, Fault> {
                match argument.kind {
                    $($(#[cfg($when)])? Kind::$kind => ArgumentValue::read(argument).map(Self::$kind),)+
                }
            }
        }

        /// The text that parses as the same locator.
        impl fmt::Display for Locator {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $($(#[cfg($when)])? Self::$kind(argument) => argument.show(Kind::$kind, f),)+
                }
            }
        }
    };
}

/// Options by the name of the list, or one by one.
macro_rules! options {
    ([$($option:ident),+]) => { &[$(Opt::$option),+] };
    ($list:ident) => { $list };
}

/// Does the kind accept peers?
macro_rules! listens {
    (One) => {
        false
    };
    (Listener) => {
        true
    };
}

kinds! {
    Stdio(Standard) "-", "standard input and output";
        keywords [Plain ["-", "stdio"], Input ["stdin"], Output ["stdout"]];
        options [IDENTITY, [Lock], [Terminal], [Shared]],
        stands_alone: true;
        opens One |which, options, how| inherit::stdio(*which, options, how)?;
    Path(PathBuf) "PATH", "a file (appended to; created with -u), FIFO, device or Unix socket";
        keywords [Plain ["gopen"]];
        options [IDENTITY, [Lock], RETRIED, CONTENT, ACCESS, [NonBlock], OWNED, [Terminal], [Shared]];
        opens One |path, options, how| file::path(path, options, how).await?;
    File(PathBuf) "file:PATH", "a file or device, written from the start by default";
        keywords [Plain ["file", "open"], Create ["create", "creat"]];
        options [IDENTITY, [Lock], RETRIED, CONTENT, ACCESS, [NonBlock], OWNED, [Terminal], [Shared]];
        opens One |path, options, how| file::file(path, options, how).await?;
    Pipe(Option<PathBuf>) "pipe:[PATH]", "a FIFO, created if missing and removed at the end; without PATH an echo";
        keywords [Plain ["pipe", "fifo", "echo"]];
        options [RETRIED, ACCESS, OWNED, [NonBlock, UnlinkClose, Shared]],
        stands_alone: true, descriptors: 2;
        opens One |path, options, how| file::pipe(path.as_deref(), options, how).await?;
    SocketPair(Nothing) "socketpair", "an echo that keeps the boundaries of messages";
        keywords [Plain ["socketpair"]];
        options [[Shared]],
        stands_alone: true, descriptors: 2;
        opens One |_, _, how| file::socket_pair(how)?;
    Pty(Nothing) "pty", "a new pseudo-terminal, which programs open one after the other";
        keywords [Plain ["pty"]];
        options [[Link, Unlink, UnlinkClose, WaitSlave], [Terminal], OWNED, [Shared]],
        stands_alone: true, descriptors: 2;
        opens One |_, options, _| pty::open(options).await?;
    Fd(i32) "fd:N", "an inherited descriptor";
        keywords [Plain ["fd"]];
        options [IDENTITY, [Lock], ACCESS, [Terminal], [Shared]];
        opens One |number, options, how| inherit::numbered(*number, options, how)?;
    Exec(Command) "exec:COMMAND", "a program, with arguments split as by a shell";
        keywords [Plain ["exec"]];
        options [IDENTITY, PROGRAM, PASSED],
        runs_program: true, descriptors: 2;
        opens One |command, options, how| child::exec(&command.words(), options, how)?;
    Shell(Command) "shell:COMMAND", "a command line for /bin/sh";
        keywords [Plain ["shell", "system"]];
        options [IDENTITY, PROGRAM],
        runs_program: true, descriptors: 2;
        opens One |command, options, how| child::shell(&command.line(), options, how)?;
    Tcp(Remote) "tcp:HOST:PORT", "connect; write an IPv6 address in brackets";
        keywords [Plain ["tcp", "tcp-connect"], V4 ["tcp4", "tcp4-connect"],
            V6 ["tcp6", "tcp6-connect"]];
        options [IDENTITY, [NetNs], CONNECTED, CALLING, RETRIED, TCP, IP, [Shared]];
        opens One |remote, options, _| connect::tcp(remote, options).await?;
    TcpListen(Local) "tcp-listen:[HOST:]PORT", "accept TCP connections";
        keywords [Plain ["tcp-listen", "tcp-l"], V4 ["tcp4-listen", "tcp4-l"],
            V6 ["tcp6-listen", "tcp6-l"]];
        options [IDENTITY, [NetNs], SERVING, BOUND, [Backlog], RETRIED, TCP, IP];
        opens Listener |local, options, how| listen::tcp(local, options, how).await?;
    #[cfg(feature = "tls")]
    Tls(Remote) "tls:HOST:PORT", "connect by TLS; the server's certificate must be for HOST";
        keywords [
            Plain ["tls", "tls-connect", "openssl", "openssl-connect", "ssl", "ssl-connect"],
            V4 ["tls4"], V6 ["tls6"]];
        options [IDENTITY, [NetNs], TLS, [CommonName, Sni, NoSni], CONNECTED, CALLING, RETRIED,
            TCP, IP];
        opens One |remote, options, _| tls::connect(remote, options).await?;
    #[cfg(feature = "tls")]
    TlsListen(Local) "tls-listen:[HOST:]PORT", "accept TLS connections; requires cert=";
        keywords [
            Plain ["tls-listen", "tls-l", "openssl-listen", "openssl-l", "ssl-listen", "ssl-l"],
            V4 ["tls4-listen", "tls4-l"], V6 ["tls6-listen", "tls6-l"]];
        options [IDENTITY, [NetNs], TLS, SERVING, BOUND, [Backlog, CommonName], RETRIED, TCP, IP];
        opens Listener |local, options, how| tls::listen(local, options, how).await?;
    Unix(UnixName) "unix:PATH", "connect to a Unix socket; unix:@NAME is an abstract one";
        keywords [Plain ["unix", "unix-connect", "local"],
            Abstract ["abstract", "abstract-connect"]];
        options [[ConnectTimeout, SeqPacket], NAMED, CALLING, RETRIED, SOCKET, [Shared]],
        is_unix: true;
        opens One |name, options, _| connect::unix(name, options).await?;
    UnixClient(UnixName) "unix-client:PATH", "connect to a Unix socket of streams, packets or datagrams";
        keywords [Plain ["unix-client"], Abstract ["abstract-client"]];
        options [[ConnectTimeout], NAMED, RETRIED, SOCKET],
        is_unix: true;
        opens One |name, options, _| connect::unix_client(name, options).await?;
    UnixListen(UnixName) "unix-listen:PATH", "accept on a Unix socket, removed at the end";
        keywords [Plain ["unix-listen", "unix-l"], Abstract ["abstract-listen"]];
        options [SERVING, [Backlog, SeqPacket, Unlink, UnlinkClose], OWNED, RETRIED, SOCKET];
        opens Listener |name, options, how| listen::unix(name, options, how).await?;
    UnixSendto(UnixName) "unix-sendto:PATH",
        "send datagrams to a Unix socket, and receive its answers at bind=PATH";
        keywords [Plain ["unix-sendto"], Abstract ["abstract-sendto"]];
        options [NAMED, OWNED, EMPTY, SOCKET],
        is_datagrams: true, is_unix: true;
        opens One |name, options, _| datagrams::sendto_unix(name, options)?;
    UnixRecv(UnixName) "unix-recv:PATH",
        "receive datagrams of all senders at a Unix socket, removed at the end";
        keywords [Plain ["unix-recv"], Abstract ["abstract-recv"]];
        options [[Unlink, UnlinkClose, NullEof], OWNED, SOCKET],
        is_datagrams: true, only_receives: true;
        opens One |name, options, _| datagrams::recv_unix(name, options)?;
    UnixRecvfrom(UnixName) "unix-recvfrom:PATH",
        "receive one datagram at a Unix socket and answer its sender; with fork each";
        keywords [Plain ["unix-recvfrom"], Abstract ["abstract-recvfrom"]];
        options [SERVING, [Unlink, UnlinkClose, NullEof], OWNED, SOCKET],
        is_datagrams: true, descriptors: 2;
        opens Listener |name, options, _| listen::unix_datagrams(name, options)?;
    Udp(Remote) "udp:HOST:PORT", "send and receive datagrams";
        keywords [Plain ["udp", "udp-connect"], V4 ["udp4", "udp4-connect"],
            V6 ["udp6", "udp6-connect"]];
        options [IDENTITY, [LowPort, Bind, UdpLite], EMPTY, RETRIED, IP, [Shared]],
        is_datagrams: true, datagram_bytes: UDP_BYTES;
        opens One |remote, options, _| connect::udp(remote, options).await?;
    UdpSendto(Remote) "udp-sendto:HOST:PORT",
        "send datagrams to a peer that may come and go, and receive its own";
        keywords [Plain ["udp-sendto", "udp-send"], V4 ["udp4-sendto", "udp4-send"],
            V6 ["udp6-sendto", "udp6-send"]];
        options [[LowPort, Bind, ReuseAddr, UdpLite, Ancillary], EMPTY, MANY, IP],
        is_datagrams: true, datagram_bytes: UDP_BYTES;
        opens One |remote, options, _| datagrams::sendto_udp(remote, options).await?;
    UdpDatagram(Remote) "udp-datagram:HOST:PORT",
        "send datagrams to a peer, a broadcast address or a group; receive everyone's";
        keywords [Plain ["udp-datagram", "udp-dgram"], V4 ["udp4-datagram", "udp4-dgram"],
            V6 ["udp6-datagram", "udp6-dgram"]];
        options [[Bind, ReuseAddr, Range, SourcePort], [UdpLite, Ancillary], EMPTY, MANY, IP],
        is_datagrams: true, datagram_bytes: UDP_BYTES;
        opens One |remote, options, _| datagrams::datagram_udp(remote, options).await?;
    UdpRecv(Local) "udp-recv:[HOST:]PORT", "receive the datagrams of all senders";
        keywords [Plain ["udp-recv"], V4 ["udp4-recv"], V6 ["udp6-recv"]];
        options [IDENTITY, BOUND, [UdpLite, Ancillary, NullEof], MANY, RETRIED, IP],
        is_datagrams: true, only_receives: true;
        opens One |local, options, _| datagrams::recv_udp(local, options).await?;
    UdpListen(Local) "udp-listen:[HOST:]PORT",
        "receive datagrams; the first sender becomes the peer, with fork each sender";
        keywords [Plain ["udp-listen", "udp-l"], V4 ["udp4-listen", "udp4-l"],
            V6 ["udp6-listen", "udp6-l"]];
        options [IDENTITY, SERVING, BOUND, [UdpLite, NullEof], MANY, RETRIED, IP],
        is_datagrams: true, datagram_bytes: UDP_BYTES, descriptors: 2;
        opens Listener |local, options, _| listen::udp(local, options).await?;
    UdpRecvfrom(Local) "udp-recvfrom:[HOST:]PORT",
        "receive one datagram and answer its sender; with fork each datagram is a connection";
        keywords [Plain ["udp-recvfrom"], V4 ["udp4-recvfrom"], V6 ["udp6-recvfrom"]];
        options [IDENTITY, SERVING, BOUND, [UdpLite, Ancillary, NullEof], MANY, RETRIED, IP],
        is_datagrams: true, datagram_bytes: UDP_BYTES, descriptors: 2;
        opens Listener |local, options, _| listen::udp(local, options).await?.of_datagrams();
    Vsock(Vsock) "vsock:CID:PORT", "connect from a virtual machine to its host (CID 2), or to a guest";
        keywords [Plain ["vsock", "vsock-connect"]];
        options [[ConnectTimeout], CALLING, RETRIED, [Shared]];
        opens One |place, options, _| vsock::connect(*place, options).await?;
    VsockListen(Vsock) "vsock-listen:[CID:]PORT",
        "accept connections between a virtual machine and its host";
        keywords [Plain ["vsock-listen", "vsock-l"]];
        options [IDENTITY, SERVING, [Backlog], RETRIED];
        opens Listener |place, options, how| vsock::listen(*place, options, how)?;
    Socks4(Through) "socks4:PROXY:PORT:HOST:PORT",
        "connect through a SOCKS4 proxy to an IPv4 address of HOST";
        keywords [Plain ["socks4"]];
        options [PROXIED, [SocksUser], CALLING, RETRIED, TCP, IP, [Shared]];
        opens One |through, options, _| proxied::open(Protocol::Socks4, through, options).await?;
    Socks4a(Through) "socks4a:PROXY:PORT:HOST:PORT", "connect through a SOCKS4a proxy, which resolves HOST";
        keywords [Plain ["socks4a"]];
        options [PROXIED, [SocksUser], CALLING, RETRIED, TCP, IP, [Shared]];
        opens One |through, options, _| proxied::open(Protocol::Socks4a, through, options).await?;
    Socks5(Through) "socks5:PROXY:PORT:HOST:PORT", "connect through a SOCKS5 proxy, which resolves HOST";
        keywords [Plain ["socks5", "socks5-connect"]];
        options [PROXIED, [Credentials], CALLING, RETRIED, TCP, IP, [Shared]];
        opens One |through, options, _| proxied::open(Protocol::Socks5, through, options).await?;
    HttpConnect(Through) "http-connect:PROXY:PORT:HOST:PORT",
        "connect through an HTTP proxy (CONNECT), which resolves HOST";
        keywords [Plain ["http-connect"]];
        options [PROXIED, [Credentials, HttpVersion], CALLING, RETRIED, TCP, IP, [Shared]];
        opens One |through, options, _| proxied::open(Protocol::Http, through, options).await?;
    ListenFd(Inherited) "listen-fd:N|NAME", "accept on an inherited listening socket";
        keywords [Plain ["listen-fd", "accept-fd"]];
        options [SERVING, [Range], TCP, SOCKET];
        opens Listener |which, options, _| listen::inherited(which, options)?;
    Joined(Box<[Address; 2]>) "ADDR!!ADDR", "read from the first address and write to the second";
        keywords [];
        options [],
        runs_program: true;
        opens One |parts, _, how| compound::joined(parts, how).await?;
    FirstOf(Vec<Address>) "ADDR|ADDR...", "the first of these that can be opened, in this order, for each client";
        keywords [];
        options [],
        runs_program: true;
        opens One |parts, _, how| compound::first_of(parts, how).await?;
    Zero(Nothing) "zero:", "endless zeros; discards what is written";
        keywords [Plain ["zero"]];
        options [],
        stands_alone: true;
        opens One |_, _, how| file::device("/dev/zero", how)?;
    Null(Nothing) "null:", "nothing to read; discards what is written";
        keywords [Plain ["null"]];
        options [],
        stands_alone: true;
        opens One |_, _, how| file::device("/dev/null", how)?;
}
