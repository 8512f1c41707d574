//! What the grammar, the messages, the help and the link know of each kind.

use super::Kind;
use crate::address::Opt;
#[cfg(feature = "tls")]
use crate::address::options::TLS;
use crate::address::options::{
    ACCESS, BOUND, CALLING, CONNECTED, CONTENT, EMPTY, IDENTITY, IP, LOCKED, MANY, NAMED, NETWORK,
    OWNED, PROGRAM, PROXIED, RETRIED, SERVING, SHARED, SOCKET, TCP, TERMINAL,
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
    /// Does the kind start a program, whose environment names the client?
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

impl Kind {
    /// The properties of the kind.
    pub(crate) fn row(self) -> &'static Row {
        match self {
            Self::Stdio => &Row {
                grammar: "-",
                help: "standard input and output",
                keywords: &[
                    (Form::Plain, &["-", "stdio"]),
                    (Form::Input, &["stdin"]),
                    (Form::Output, &["stdout"]),
                ],
                options: &[IDENTITY, LOCKED, TERMINAL, SHARED],
                stands_alone: true,
                ..Row::STREAM
            },
            Self::Path => &Row {
                grammar: "PATH",
                help: "a file (appended to; created with -u), FIFO, device or Unix socket",
                keywords: &[(Form::Plain, &["gopen"])],
                options: &[
                    IDENTITY,
                    LOCKED,
                    RETRIED,
                    CONTENT,
                    ACCESS,
                    &[Opt::NonBlock],
                    OWNED,
                    TERMINAL,
                    SHARED,
                ],
                ..Row::STREAM
            },
            Self::File => &Row {
                grammar: "file:PATH",
                help: "a file or device, written from the start by default",
                keywords: &[(Form::Plain, &["file", "open"]), (Form::Create, &["create", "creat"])],
                options: &[
                    IDENTITY,
                    LOCKED,
                    RETRIED,
                    CONTENT,
                    ACCESS,
                    &[Opt::NonBlock],
                    OWNED,
                    TERMINAL,
                    SHARED,
                ],
                ..Row::STREAM
            },
            Self::Pipe => &Row {
                grammar: "pipe:[PATH]",
                help: "a FIFO, created if missing and removed at the end; without PATH an echo",
                keywords: &[(Form::Plain, &["pipe", "fifo", "echo"])],
                options: &[RETRIED, ACCESS, OWNED, &[Opt::NonBlock, Opt::UnlinkClose], SHARED],
                stands_alone: true,
                descriptors: 2,
                ..Row::STREAM
            },
            Self::SocketPair => &Row {
                grammar: "socketpair",
                help: "an echo that keeps the boundaries of messages",
                keywords: &[(Form::Plain, &["socketpair"])],
                options: &[SHARED],
                stands_alone: true,
                descriptors: 2,
                ..Row::STREAM
            },
            Self::Pty => &Row {
                grammar: "pty",
                help: "a new pseudo-terminal, which programs open one after the other",
                descriptors: 2,
                keywords: &[(Form::Plain, &["pty"])],
                options: &[
                    &[Opt::Link, Opt::Unlink, Opt::UnlinkClose, Opt::WaitSlave],
                    TERMINAL,
                    OWNED,
                    SHARED,
                ],
                stands_alone: true,
                ..Row::STREAM
            },
            Self::Fd => &Row {
                grammar: "fd:N",
                help: "an inherited descriptor",
                keywords: &[(Form::Plain, &["fd"])],
                options: &[IDENTITY, LOCKED, ACCESS, TERMINAL, SHARED],
                ..Row::STREAM
            },
            Self::Exec => &Row {
                grammar: "exec:COMMAND",
                help: "a program, with arguments split as by a shell",
                keywords: &[(Form::Plain, &["exec"])],
                options: &[IDENTITY, PROGRAM],
                is_program: true,
                descriptors: 2,
                ..Row::STREAM
            },
            Self::Shell => &Row {
                grammar: "shell:COMMAND",
                help: "a command line for /bin/sh",
                keywords: &[(Form::Plain, &["shell", "system"])],
                options: &[IDENTITY, PROGRAM],
                is_program: true,
                descriptors: 2,
                ..Row::STREAM
            },
            Self::Tcp => &Row {
                grammar: "tcp:HOST:PORT",
                help: "connect; write an IPv6 address in brackets",
                keywords: &[
                    (Form::Plain, &["tcp", "tcp-connect"]),
                    (Form::V4, &["tcp4", "tcp4-connect"]),
                    (Form::V6, &["tcp6", "tcp6-connect"]),
                ],
                options: &[IDENTITY, NETWORK, CONNECTED, CALLING, RETRIED, TCP, IP, SHARED],
                ..Row::STREAM
            },
            Self::TcpListen => &Row {
                grammar: "tcp-listen:[HOST:]PORT",
                help: "accept TCP connections",
                keywords: &[
                    (Form::Plain, &["tcp-listen", "tcp-l"]),
                    (Form::V4, &["tcp4-listen", "tcp4-l"]),
                    (Form::V6, &["tcp6-listen", "tcp6-l"]),
                ],
                options: &[IDENTITY, NETWORK, SERVING, BOUND, &[Opt::Backlog], RETRIED, TCP, IP],
                listens: true,
                ..Row::STREAM
            },
            #[cfg(feature = "tls")]
            Self::Tls => &Row {
                grammar: "tls:HOST:PORT",
                help: "connect by TLS; the server's certificate must be for HOST",
                keywords: &[
                    (
                        Form::Plain,
                        &["tls", "tls-connect", "openssl", "openssl-connect", "ssl", "ssl-connect"],
                    ),
                    (Form::V4, &["tls4"]),
                    (Form::V6, &["tls6"]),
                ],
                options: &[
                    IDENTITY,
                    NETWORK,
                    TLS,
                    &[Opt::CommonName, Opt::Sni, Opt::NoSni],
                    CONNECTED,
                    CALLING,
                    RETRIED,
                    TCP,
                    IP,
                ],
                ..Row::STREAM
            },
            #[cfg(feature = "tls")]
            Self::TlsListen => &Row {
                grammar: "tls-listen:[HOST:]PORT",
                help: "accept TLS connections; requires cert=",
                keywords: &[
                    (
                        Form::Plain,
                        &[
                            "tls-listen",
                            "tls-l",
                            "openssl-listen",
                            "openssl-l",
                            "ssl-listen",
                            "ssl-l",
                        ],
                    ),
                    (Form::V4, &["tls4-listen", "tls4-l"]),
                    (Form::V6, &["tls6-listen", "tls6-l"]),
                ],
                options: &[
                    IDENTITY,
                    NETWORK,
                    TLS,
                    SERVING,
                    BOUND,
                    &[Opt::Backlog, Opt::CommonName],
                    RETRIED,
                    TCP,
                    IP,
                ],
                listens: true,
                ..Row::STREAM
            },
            Self::Unix => &Row {
                grammar: "unix:PATH",
                help: "connect to a Unix socket; unix:@NAME is an abstract one",
                keywords: &[
                    (Form::Plain, &["unix", "unix-connect", "local"]),
                    (Form::Abstract, &["abstract", "abstract-connect"]),
                ],
                options: &[
                    &[Opt::ConnectTimeout, Opt::SeqPacket],
                    NAMED,
                    CALLING,
                    RETRIED,
                    SOCKET,
                    SHARED,
                ],
                is_unix: true,
                ..Row::STREAM
            },
            Self::UnixClient => &Row {
                grammar: "unix-client:PATH",
                help: "connect to a Unix socket of streams, packets or datagrams",
                keywords: &[
                    (Form::Plain, &["unix-client"]),
                    (Form::Abstract, &["abstract-client"]),
                ],
                options: &[&[Opt::ConnectTimeout], NAMED, RETRIED, SOCKET],
                is_unix: true,
                ..Row::STREAM
            },
            Self::UnixListen => &Row {
                grammar: "unix-listen:PATH",
                help: "accept on a Unix socket, removed at the end",
                keywords: &[
                    (Form::Plain, &["unix-listen", "unix-l"]),
                    (Form::Abstract, &["abstract-listen"]),
                ],
                options: &[
                    SERVING,
                    &[Opt::Backlog, Opt::SeqPacket, Opt::Unlink, Opt::UnlinkClose],
                    OWNED,
                    RETRIED,
                    SOCKET,
                ],
                listens: true,
                ..Row::STREAM
            },
            Self::UnixSendto => &Row {
                grammar: "unix-sendto:PATH",
                help: "send datagrams to a Unix socket, and receive its answers at bind=PATH",
                keywords: &[
                    (Form::Plain, &["unix-sendto"]),
                    (Form::Abstract, &["abstract-sendto"]),
                ],
                options: &[NAMED, OWNED, EMPTY, SOCKET],
                is_datagrams: true,
                is_unix: true,
                ..Row::STREAM
            },
            Self::UnixRecv => &Row {
                grammar: "unix-recv:PATH",
                help: "receive datagrams of all senders at a Unix socket, removed at the end",
                keywords: &[(Form::Plain, &["unix-recv"]), (Form::Abstract, &["abstract-recv"])],
                options: &[&[Opt::Unlink, Opt::UnlinkClose, Opt::NullEof], OWNED, SOCKET],
                is_datagrams: true,
                only_receives: true,
                ..Row::STREAM
            },
            Self::UnixRecvfrom => &Row {
                grammar: "unix-recvfrom:PATH",
                help: "receive one datagram at a Unix socket and answer its sender; with fork each",
                keywords: &[
                    (Form::Plain, &["unix-recvfrom"]),
                    (Form::Abstract, &["abstract-recvfrom"]),
                ],
                options: &[SERVING, &[Opt::Unlink, Opt::UnlinkClose], OWNED, SOCKET],
                listens: true,
                is_datagrams: true,
                descriptors: 2,
                ..Row::STREAM
            },
            Self::Udp => &Row {
                grammar: "udp:HOST:PORT",
                help: "send and receive datagrams",
                keywords: &[
                    (Form::Plain, &["udp", "udp-connect"]),
                    (Form::V4, &["udp4", "udp4-connect"]),
                    (Form::V6, &["udp6", "udp6-connect"]),
                ],
                options: &[
                    IDENTITY,
                    &[Opt::LowPort, Opt::Bind, Opt::UdpLite],
                    EMPTY,
                    RETRIED,
                    IP,
                    SHARED,
                ],
                is_datagrams: true,
                datagram_bytes: UDP_BYTES,
                ..Row::STREAM
            },
            Self::UdpSendto => &Row {
                grammar: "udp-sendto:HOST:PORT",
                help: "send datagrams to a peer that may come and go, and receive its own",
                keywords: &[
                    (Form::Plain, &["udp-sendto", "udp-send"]),
                    (Form::V4, &["udp4-sendto", "udp4-send"]),
                    (Form::V6, &["udp6-sendto", "udp6-send"]),
                ],
                options: &[
                    &[Opt::LowPort, Opt::Bind, Opt::ReuseAddr, Opt::UdpLite, Opt::Ancillary],
                    EMPTY,
                    MANY,
                    IP,
                ],
                is_datagrams: true,
                datagram_bytes: UDP_BYTES,
                ..Row::STREAM
            },
            Self::UdpDatagram => &Row {
                grammar: "udp-datagram:HOST:PORT",
                help: "send datagrams to a peer, a broadcast address or a group; receive everyone's",
                keywords: &[
                    (Form::Plain, &["udp-datagram", "udp-dgram"]),
                    (Form::V4, &["udp4-datagram", "udp4-dgram"]),
                    (Form::V6, &["udp6-datagram", "udp6-dgram"]),
                ],
                options: &[
                    &[Opt::Bind, Opt::ReuseAddr, Opt::Range, Opt::SourcePort],
                    &[Opt::UdpLite, Opt::Ancillary],
                    EMPTY,
                    MANY,
                    IP,
                ],
                is_datagrams: true,
                datagram_bytes: UDP_BYTES,
                ..Row::STREAM
            },
            Self::UdpRecv => &Row {
                grammar: "udp-recv:[HOST:]PORT",
                help: "receive the datagrams of all senders",
                keywords: &[
                    (Form::Plain, &["udp-recv"]),
                    (Form::V4, &["udp4-recv"]),
                    (Form::V6, &["udp6-recv"]),
                ],
                options: &[
                    IDENTITY,
                    BOUND,
                    &[Opt::UdpLite, Opt::Ancillary, Opt::NullEof],
                    MANY,
                    RETRIED,
                    IP,
                ],
                is_datagrams: true,
                only_receives: true,
                ..Row::STREAM
            },
            Self::UdpListen => &Row {
                grammar: "udp-listen:[HOST:]PORT",
                help: "receive datagrams; the first sender becomes the peer, with fork each sender",
                keywords: &[
                    (Form::Plain, &["udp-listen", "udp-l"]),
                    (Form::V4, &["udp4-listen", "udp4-l"]),
                    (Form::V6, &["udp6-listen", "udp6-l"]),
                ],
                options: &[IDENTITY, SERVING, BOUND, &[Opt::UdpLite], MANY, RETRIED, IP],
                listens: true,
                is_datagrams: true,
                datagram_bytes: UDP_BYTES,
                descriptors: 2,
                ..Row::STREAM
            },
            Self::UdpRecvfrom => &Row {
                grammar: "udp-recvfrom:[HOST:]PORT",
                help: "receive one datagram and answer its sender; with fork each datagram is a connection",
                keywords: &[
                    (Form::Plain, &["udp-recvfrom"]),
                    (Form::V4, &["udp4-recvfrom"]),
                    (Form::V6, &["udp6-recvfrom"]),
                ],
                options: &[
                    IDENTITY,
                    SERVING,
                    BOUND,
                    &[Opt::UdpLite, Opt::Ancillary],
                    MANY,
                    RETRIED,
                    IP,
                ],
                listens: true,
                is_datagrams: true,
                datagram_bytes: UDP_BYTES,
                descriptors: 2,
                ..Row::STREAM
            },
            Self::Vsock => &Row {
                grammar: "vsock:CID:PORT",
                help: "connect from a virtual machine to its host (CID 2), or to a guest",
                keywords: &[(Form::Plain, &["vsock", "vsock-connect"])],
                options: &[&[Opt::ConnectTimeout], CALLING, RETRIED, SHARED],
                ..Row::STREAM
            },
            Self::VsockListen => &Row {
                grammar: "vsock-listen:[CID:]PORT",
                help: "accept connections between a virtual machine and its host",
                keywords: &[(Form::Plain, &["vsock-listen", "vsock-l"])],
                options: &[IDENTITY, SERVING, &[Opt::Backlog], RETRIED],
                listens: true,
                ..Row::STREAM
            },
            Self::Socks4 => &Row {
                grammar: "socks4:PROXY:PORT:HOST:PORT",
                help: "connect through a SOCKS4 proxy to an IPv4 address of HOST",
                keywords: &[(Form::Plain, &["socks4"])],
                options: &[PROXIED, &[Opt::SocksUser], CALLING, RETRIED, TCP, IP, SHARED],
                ..Row::STREAM
            },
            Self::Socks4a => &Row {
                grammar: "socks4a:PROXY:PORT:HOST:PORT",
                help: "connect through a SOCKS4a proxy, which resolves HOST",
                keywords: &[(Form::Plain, &["socks4a"])],
                options: &[PROXIED, &[Opt::SocksUser], CALLING, RETRIED, TCP, IP, SHARED],
                ..Row::STREAM
            },
            Self::Socks5 => &Row {
                grammar: "socks5:PROXY:PORT:HOST:PORT",
                help: "connect through a SOCKS5 proxy, which resolves HOST",
                keywords: &[(Form::Plain, &["socks5", "socks5-connect"])],
                options: &[PROXIED, &[Opt::Credentials], CALLING, RETRIED, TCP, IP, SHARED],
                ..Row::STREAM
            },
            Self::HttpConnect => &Row {
                grammar: "http-connect:PROXY:PORT:HOST:PORT",
                help: "connect through an HTTP proxy (CONNECT), which resolves HOST",
                keywords: &[(Form::Plain, &["http-connect"])],
                options: &[
                    PROXIED,
                    &[Opt::Credentials, Opt::HttpVersion],
                    CALLING,
                    RETRIED,
                    TCP,
                    IP,
                    SHARED,
                ],
                ..Row::STREAM
            },
            Self::ListenFd => &Row {
                grammar: "listen-fd:N|NAME",
                help: "accept on an inherited listening socket",
                keywords: &[(Form::Plain, &["listen-fd", "accept-fd"])],
                options: &[SERVING, &[Opt::Range], TCP, SOCKET],
                listens: true,
                ..Row::STREAM
            },
            Self::Joined => &Row {
                grammar: "ADDR!!ADDR",
                help: "read from the first address and write to the second",
                is_program: true,
                ..Row::STREAM
            },
            Self::FirstOf => &Row {
                grammar: "ADDR|ADDR...",
                help: "the first of these that can be opened, in this order, for each client",
                is_program: true,
                ..Row::STREAM
            },
            Self::Zero => &Row {
                grammar: "zero:",
                help: "endless zeros; discards what is written",
                keywords: &[(Form::Plain, &["zero"])],
                stands_alone: true,
                ..Row::STREAM
            },
            Self::Null => &Row {
                grammar: "null:",
                help: "nothing to read; discards what is written",
                keywords: &[(Form::Plain, &["null"])],
                stands_alone: true,
                ..Row::STREAM
            },
        }
    }
}
