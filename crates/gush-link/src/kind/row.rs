//! The table of kinds: what the grammar, the messages, the help and the link know of each.

use std::fmt;
use std::path::PathBuf;

use crate::address::argument::{Argument, Part};
use crate::address::error::Fault;
#[cfg(feature = "tls")]
use crate::address::options::TLS;
use crate::address::options::{
    ACCESS, BOUND, CALLING, CONNECTED, CONTENT, EMPTY, IDENTITY, IP, MANY, NAMED, OWNED, PROGRAM,
    PROXIED, RETRIED, SERVING, SOCKET, TCP, TERMINAL,
};
use crate::address::{
    Address, Command, Inherited, Local, Nothing, Opt, Remote, Standard, Through, UnixName, Vsock,
};

/// The properties of a kind, without an address.
#[derive(Debug)]
pub(crate) struct Row {
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
    pub is_program: bool,
    /// How many descriptors a link holds for one end.
    pub descriptors: u64,
}

/// IPv4 has no larger datagrams of UDP: 65,535 less two headers (ip(7)).
const UDP_BYTES: usize = 65_507;

impl Row {
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
    /// The flags that the keyword implies.
    pub fn implies(self) -> &'static [Opt] {
        match self {
            Self::Create => &[Opt::Create, Opt::Truncate],
            _ => &[],
        }
    }
}

/// The kinds: the argument, the written form and its description, the keywords by form, the
/// options, and what differs from a stream.
macro_rules! kinds {
    ($(
        $(#[cfg($when:meta)])? $kind:ident($argument:ty) $grammar:literal, $help:literal;
        keywords [$($form:ident [$($word:literal),+]),*];
        options [$($options:tt),*] $(, $field:ident: $value:expr)*;
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
            pub(crate) fn row(self) -> &'static Row {
                match self {
                    $($(#[cfg($when)])? Self::$kind => &Row {
                        grammar: $grammar,
                        help: $help,
                        keywords: &[$((Form::$form, &[$($word),+])),*],
                        options: &[$(options!($options)),*],
                        $($field: $value,)*
                        ..Row::STREAM
                    },)+
                }
            }
        }

        /// The target that an address names, without options.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Target {
            $(#[doc = $help] $(#[cfg($when)])? $kind($argument),)+
        }

        impl Target {
            /// The kind of address.
            #[must_use]
            pub fn kind(&self) -> Kind {
                match self {
                    $($(#[cfg($when)])? Self::$kind(_) => Kind::$kind,)+
                }
            }

            /// Parses the argument after the colon.
            pub(crate) fn read(argument: &Argument<'_>) -> Result<Self, Fault> {
                match argument.kind {
                    $($(#[cfg($when)])? Kind::$kind => Part::read(argument).map(Self::$kind),)+
                }
            }
        }

        /// The text that parses as the same target.
        impl fmt::Display for Target {
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

kinds! {
    Stdio(Standard) "-", "standard input and output";
        keywords [Plain ["-", "stdio"], Input ["stdin"], Output ["stdout"]];
        options [IDENTITY, [Lock], TERMINAL, [Shared]],
        stands_alone: true;
    Path(PathBuf) "PATH", "a file (appended to; created with -u), FIFO, device or Unix socket";
        keywords [Plain ["gopen"]];
        options [IDENTITY, [Lock], RETRIED, CONTENT, ACCESS, [NonBlock], OWNED, TERMINAL, [Shared]];
    File(PathBuf) "file:PATH", "a file or device, written from the start by default";
        keywords [Plain ["file", "open"], Create ["create", "creat"]];
        options [IDENTITY, [Lock], RETRIED, CONTENT, ACCESS, [NonBlock], OWNED, TERMINAL, [Shared]];
    Pipe(Option<PathBuf>) "pipe:[PATH]", "a FIFO, created if missing and removed at the end; without PATH an echo";
        keywords [Plain ["pipe", "fifo", "echo"]];
        options [RETRIED, ACCESS, OWNED, [NonBlock, UnlinkClose, Shared]],
        stands_alone: true, descriptors: 2;
    SocketPair(Nothing) "socketpair", "an echo that keeps the boundaries of messages";
        keywords [Plain ["socketpair"]];
        options [[Shared]],
        stands_alone: true, descriptors: 2;
    Pty(Nothing) "pty", "a new pseudo-terminal, which programs open one after the other";
        keywords [Plain ["pty"]];
        options [[Link, Unlink, UnlinkClose, WaitSlave], TERMINAL, OWNED, [Shared]],
        stands_alone: true, descriptors: 2;
    Fd(i32) "fd:N", "an inherited descriptor";
        keywords [Plain ["fd"]];
        options [IDENTITY, [Lock], ACCESS, TERMINAL, [Shared]];
    Exec(Command) "exec:COMMAND", "a program, with arguments split as by a shell";
        keywords [Plain ["exec"]];
        options [IDENTITY, PROGRAM],
        is_program: true, descriptors: 2;
    Shell(Command) "shell:COMMAND", "a command line for /bin/sh";
        keywords [Plain ["shell", "system"]];
        options [IDENTITY, PROGRAM],
        is_program: true, descriptors: 2;
    Tcp(Remote) "tcp:HOST:PORT", "connect; write an IPv6 address in brackets";
        keywords [Plain ["tcp", "tcp-connect"], V4 ["tcp4", "tcp4-connect"],
            V6 ["tcp6", "tcp6-connect"]];
        options [IDENTITY, [NetNs], CONNECTED, CALLING, RETRIED, TCP, IP, [Shared]];
    TcpListen(Local) "tcp-listen:[HOST:]PORT", "accept TCP connections";
        keywords [Plain ["tcp-listen", "tcp-l"], V4 ["tcp4-listen", "tcp4-l"],
            V6 ["tcp6-listen", "tcp6-l"]];
        options [IDENTITY, [NetNs], SERVING, BOUND, [Backlog], RETRIED, TCP, IP],
        listens: true;
    #[cfg(feature = "tls")]
    Tls(Remote) "tls:HOST:PORT", "connect by TLS; the server's certificate must be for HOST";
        keywords [
            Plain ["tls", "tls-connect", "openssl", "openssl-connect", "ssl", "ssl-connect"],
            V4 ["tls4"], V6 ["tls6"]];
        options [IDENTITY, [NetNs], TLS, [CommonName, Sni, NoSni], CONNECTED, CALLING, RETRIED,
            TCP, IP];
    #[cfg(feature = "tls")]
    TlsListen(Local) "tls-listen:[HOST:]PORT", "accept TLS connections; requires cert=";
        keywords [
            Plain ["tls-listen", "tls-l", "openssl-listen", "openssl-l", "ssl-listen", "ssl-l"],
            V4 ["tls4-listen", "tls4-l"], V6 ["tls6-listen", "tls6-l"]];
        options [IDENTITY, [NetNs], TLS, SERVING, BOUND, [Backlog, CommonName], RETRIED, TCP, IP],
        listens: true;
    Unix(UnixName) "unix:PATH", "connect to a Unix socket; unix:@NAME is an abstract one";
        keywords [Plain ["unix", "unix-connect", "local"],
            Abstract ["abstract", "abstract-connect"]];
        options [[ConnectTimeout, SeqPacket], NAMED, CALLING, RETRIED, SOCKET, [Shared]],
        is_unix: true;
    UnixClient(UnixName) "unix-client:PATH", "connect to a Unix socket of streams, packets or datagrams";
        keywords [Plain ["unix-client"], Abstract ["abstract-client"]];
        options [[ConnectTimeout], NAMED, RETRIED, SOCKET],
        is_unix: true;
    UnixListen(UnixName) "unix-listen:PATH", "accept on a Unix socket, removed at the end";
        keywords [Plain ["unix-listen", "unix-l"], Abstract ["abstract-listen"]];
        options [SERVING, [Backlog, SeqPacket, Unlink, UnlinkClose], OWNED, RETRIED, SOCKET],
        listens: true;
    UnixSendto(UnixName) "unix-sendto:PATH",
        "send datagrams to a Unix socket, and receive its answers at bind=PATH";
        keywords [Plain ["unix-sendto"], Abstract ["abstract-sendto"]];
        options [NAMED, OWNED, EMPTY, SOCKET],
        is_datagrams: true, is_unix: true;
    UnixRecv(UnixName) "unix-recv:PATH",
        "receive datagrams of all senders at a Unix socket, removed at the end";
        keywords [Plain ["unix-recv"], Abstract ["abstract-recv"]];
        options [[Unlink, UnlinkClose, NullEof], OWNED, SOCKET],
        is_datagrams: true, only_receives: true;
    UnixRecvfrom(UnixName) "unix-recvfrom:PATH",
        "receive one datagram at a Unix socket and answer its sender; with fork each";
        keywords [Plain ["unix-recvfrom"], Abstract ["abstract-recvfrom"]];
        options [SERVING, [Unlink, UnlinkClose, NullEof], OWNED, SOCKET],
        listens: true, is_datagrams: true, descriptors: 2;
    Udp(Remote) "udp:HOST:PORT", "send and receive datagrams";
        keywords [Plain ["udp", "udp-connect"], V4 ["udp4", "udp4-connect"],
            V6 ["udp6", "udp6-connect"]];
        options [IDENTITY, [LowPort, Bind, UdpLite], EMPTY, RETRIED, IP, [Shared]],
        is_datagrams: true, datagram_bytes: UDP_BYTES;
    UdpSendto(Remote) "udp-sendto:HOST:PORT",
        "send datagrams to a peer that may come and go, and receive its own";
        keywords [Plain ["udp-sendto", "udp-send"], V4 ["udp4-sendto", "udp4-send"],
            V6 ["udp6-sendto", "udp6-send"]];
        options [[LowPort, Bind, ReuseAddr, UdpLite, Ancillary], EMPTY, MANY, IP],
        is_datagrams: true, datagram_bytes: UDP_BYTES;
    UdpDatagram(Remote) "udp-datagram:HOST:PORT",
        "send datagrams to a peer, a broadcast address or a group; receive everyone's";
        keywords [Plain ["udp-datagram", "udp-dgram"], V4 ["udp4-datagram", "udp4-dgram"],
            V6 ["udp6-datagram", "udp6-dgram"]];
        options [[Bind, ReuseAddr, Range, SourcePort], [UdpLite, Ancillary], EMPTY, MANY, IP],
        is_datagrams: true, datagram_bytes: UDP_BYTES;
    UdpRecv(Local) "udp-recv:[HOST:]PORT", "receive the datagrams of all senders";
        keywords [Plain ["udp-recv"], V4 ["udp4-recv"], V6 ["udp6-recv"]];
        options [IDENTITY, BOUND, [UdpLite, Ancillary, NullEof], MANY, RETRIED, IP],
        is_datagrams: true, only_receives: true;
    UdpListen(Local) "udp-listen:[HOST:]PORT",
        "receive datagrams; the first sender becomes the peer, with fork each sender";
        keywords [Plain ["udp-listen", "udp-l"], V4 ["udp4-listen", "udp4-l"],
            V6 ["udp6-listen", "udp6-l"]];
        options [IDENTITY, SERVING, BOUND, [UdpLite, NullEof], MANY, RETRIED, IP],
        listens: true, is_datagrams: true, datagram_bytes: UDP_BYTES, descriptors: 2;
    UdpRecvfrom(Local) "udp-recvfrom:[HOST:]PORT",
        "receive one datagram and answer its sender; with fork each datagram is a connection";
        keywords [Plain ["udp-recvfrom"], V4 ["udp4-recvfrom"], V6 ["udp6-recvfrom"]];
        options [IDENTITY, SERVING, BOUND, [UdpLite, Ancillary, NullEof], MANY, RETRIED, IP],
        listens: true, is_datagrams: true, datagram_bytes: UDP_BYTES, descriptors: 2;
    Vsock(Vsock) "vsock:CID:PORT", "connect from a virtual machine to its host (CID 2), or to a guest";
        keywords [Plain ["vsock", "vsock-connect"]];
        options [[ConnectTimeout], CALLING, RETRIED, [Shared]];
    VsockListen(Vsock) "vsock-listen:[CID:]PORT",
        "accept connections between a virtual machine and its host";
        keywords [Plain ["vsock-listen", "vsock-l"]];
        options [IDENTITY, SERVING, [Backlog], RETRIED],
        listens: true;
    Socks4(Through) "socks4:PROXY:PORT:HOST:PORT",
        "connect through a SOCKS4 proxy to an IPv4 address of HOST";
        keywords [Plain ["socks4"]];
        options [PROXIED, [SocksUser], CALLING, RETRIED, TCP, IP, [Shared]];
    Socks4a(Through) "socks4a:PROXY:PORT:HOST:PORT", "connect through a SOCKS4a proxy, which resolves HOST";
        keywords [Plain ["socks4a"]];
        options [PROXIED, [SocksUser], CALLING, RETRIED, TCP, IP, [Shared]];
    Socks5(Through) "socks5:PROXY:PORT:HOST:PORT", "connect through a SOCKS5 proxy, which resolves HOST";
        keywords [Plain ["socks5", "socks5-connect"]];
        options [PROXIED, [Credentials], CALLING, RETRIED, TCP, IP, [Shared]];
    HttpConnect(Through) "http-connect:PROXY:PORT:HOST:PORT",
        "connect through an HTTP proxy (CONNECT), which resolves HOST";
        keywords [Plain ["http-connect"]];
        options [PROXIED, [Credentials, HttpVersion], CALLING, RETRIED, TCP, IP, [Shared]];
    ListenFd(Inherited) "listen-fd:N|NAME", "accept on an inherited listening socket";
        keywords [Plain ["listen-fd", "accept-fd"]];
        options [SERVING, [Range], TCP, SOCKET],
        listens: true;
    Joined(Box<[Address; 2]>) "ADDR!!ADDR", "read from the first address and write to the second";
        keywords [];
        options [],
        is_program: true;
    FirstOf(Vec<Address>) "ADDR|ADDR...", "the first of these that can be opened, in this order, for each client";
        keywords [];
        options [],
        is_program: true;
    Zero(Nothing) "zero:", "endless zeros; discards what is written";
        keywords [Plain ["zero"]];
        options [],
        stands_alone: true;
    Null(Nothing) "null:", "nothing to read; discards what is written";
        keywords [Plain ["null"]];
        options [],
        stands_alone: true;
}
